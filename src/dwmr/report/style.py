"""The style sheet of a report, for light and dark screens and for paper."""

CSS = """
:root { --page: #ffffff; --text: #1d232b; --quiet: #667080; --line: #d9dee5; --card: #f6f8fa;
        --on: #1d232b; --off: #e3e7ec; --flip: #2f6fd0; --flip-off: #b4d0f5;
        --wrong: #d8483e; --wrong-off: #f6b8b2; }
@media screen and (prefers-color-scheme: dark) {
  :root { --page: #14181d; --text: #dfe4ea; --quiet: #8e99a8; --line: #2e3640; --card: #1b2027;
          --on: #e6eaef; --off: #323b46; --flip: #5b9bf5; --flip-off: #27466e;
          --wrong: #ef6a60; --wrong-off: #74302b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.5rem 4rem; max-width: 72rem; background: var(--page); color: var(--text);
       font: .9375rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
       font-variant-numeric: tabular-nums; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 0 0 .2rem; font-size: 1.2rem; }
h3 { margin: 1.2rem 0 .4rem; font-size: .95rem; }
section { margin-top: 2.2rem; padding-top: 1.4rem; border-top: 1px solid var(--line); }
.about, .how, figcaption, small, nav { color: var(--quiet); }
.about { margin: .3rem 0 .8rem; overflow-wrap: anywhere; }
.how { margin: 0 0 1rem; max-width: 56rem; }
nav a { color: inherit; margin-right: 1rem; white-space: nowrap; text-underline-offset: .2em; }
table { border-collapse: collapse; }
.scroll { overflow-x: auto; }
.scroll th, .scroll td { padding: .3rem .8rem; border-bottom: 1px solid var(--line); text-align: right;
                         vertical-align: top; }
.scroll th[scope=row] { text-align: left; font-weight: 500; white-space: nowrap; }
.scroll thead th { color: var(--quiet); font-weight: 500; font-size: .85rem; vertical-align: bottom; }
.scroll th:first-child { padding-left: 0; text-align: left; }
.words td, .words thead th:last-child { text-align: left; }
.words td:nth-child(2) { text-align: right; white-space: nowrap; }
.keys { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.4rem 0 0; }
.keys div { flex: 1 1 9rem; padding: .7rem 1rem; background: var(--card); border-radius: .5rem; }
.keys b { display: block; font-size: 1.7rem; line-height: 1.25; font-weight: 620; }
.keys span { color: var(--quiet); font-size: .85rem; }
figure { margin: 0; break-inside: avoid; }
figure svg { display: block; max-width: 100%; height: auto; }
figure svg text { font-family: inherit !important; }
figcaption { margin-bottom: .3rem; font-size: .85rem; line-height: 1.35; }
figcaption b { color: var(--text); font-weight: 600; }
.small { display: grid; grid-template-columns: repeat(auto-fill, minmax(13.5rem, 1fr)); gap: 1rem 1.2rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 1.2rem 2rem;
        align-items: start; }
.pair svg { width: 100%; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(27rem, 100%), 1fr)); gap: 1rem; }
.card { padding: .8rem 1rem 1rem; background: var(--card); border-radius: .5rem; }
.card table { width: 100%; margin-top: .5rem; table-layout: fixed; }
.card th { padding: .1rem .3rem; color: var(--quiet); font-size: .8rem; font-weight: 500; text-align: center; }
.card th:first-child { width: 3.2rem; text-align: left; padding-left: 0; vertical-align: top; }
.card td { padding: .25rem .4rem; text-align: center; vertical-align: top; }
.card img, .card .grid { display: block; width: 100%; max-height: 11rem; margin: 0 auto; }
.card img { object-fit: contain; image-rendering: pixelated; border-radius: 2px; }
.card small { display: block; font-size: .75rem; line-height: 1.4; }
.card small.flip { color: var(--flip); }
.card small.wrong { color: var(--wrong); }
.grid .on { fill: var(--on); } .grid .off { fill: var(--off); }
.grid .flip.on { fill: var(--flip); } .grid .flip.off { fill: var(--flip-off); }
.grid .wrong.on { fill: var(--wrong); } .grid .wrong.off { fill: var(--wrong-off); }
.grid text { font-size: .55px; fill: #333b45; text-anchor: middle; }
.grid .misread { fill: none; stroke: #d8483e; stroke-width: 2.2px; vector-effect: non-scaling-stroke; }
.columns { display: flex; flex-wrap: wrap; gap: 0 3rem; }
@media print {
  html { font-size: 10px; }
  body { max-width: none; padding: 0; }
  nav { display: none; }
  h2, .how { break-after: avoid; }
  tr, .how { break-inside: avoid; }
}
"""
