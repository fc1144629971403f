"""The style sheet of a report."""

CSS = """
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.5rem; max-width: 72rem; color: #1d232b;
       font: .9375rem/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums; }
h1 { margin: 0; overflow-wrap: anywhere; }
section { margin-top: 2.2rem; padding-top: 1rem; border-top: 1px solid #d9dee5; overflow-x: auto; }
.about, .how, figcaption, small, nav { color: #667080; }
.how { max-width: 56rem; }
nav a { color: inherit; margin-right: 1rem; }
table { border-collapse: collapse; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #d9dee5; text-align: right; vertical-align: top; }
th { font-weight: 500; }
th:first-child, .words td, .words th { text-align: left; }
.keys { display: flex; flex-wrap: wrap; gap: .8rem; margin-top: 1.4rem; }
.keys div { flex: 1 1 9rem; padding: .7rem 1rem; background: #f6f8fa; border-radius: .5rem; }
.keys b { display: block; font-size: 1.7rem; }
figure { margin: 0; break-inside: avoid; }
figcaption { font-size: .85rem; }
img { width: 100%; }
.small { display: grid; grid-template-columns: repeat(auto-fill, minmax(13.5rem, 1fr)); gap: 1rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 2rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(27rem, 100%), 1fr)); gap: 1rem; }
.card { padding: 1rem; background: #f6f8fa; border-radius: .5rem; }
.card table { width: 100%; table-layout: fixed; }
.card th, .card td { border: 0; padding: .25rem; text-align: center; }
.card img { display: block; max-height: 11rem; object-fit: contain; image-rendering: pixelated; }
"""
