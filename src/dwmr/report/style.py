"""The style sheet of a report."""

CSS = """
body { margin: 2.5rem auto; padding: 0 1.5rem; max-width: 72rem; color: #1d232b; font: .9375rem/1.5 sans-serif; }
section { margin-top: 2.2rem; border-top: 1px solid #d9dee5; overflow-x: auto; }
.about, .how, figcaption { color: #667080; }
table { border-collapse: collapse; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #d9dee5; text-align: right; vertical-align: top; }
th { font-weight: 500; }
th:first-child, .words td, .words th { text-align: left; }
figure { margin: 0; }
img { width: 100%; }
.small { display: grid; grid-template-columns: repeat(auto-fill, minmax(13.5rem, 1fr)); gap: 1rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(27rem, 100%), 1fr)); gap: 1rem; }
.card { padding: 1rem; background: #f6f8fa; border-radius: .5rem; }
.card table { width: 100%; table-layout: fixed; }
.card th, .card td { border: 0; padding: .25rem; text-align: center; }
.card img { display: block; max-height: 11rem; object-fit: contain; image-rendering: pixelated; }
"""
