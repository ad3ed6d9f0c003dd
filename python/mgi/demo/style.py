"""The report's style sheet: two colour schemes, one column, legible from a phone to a wall."""

CSS = """
:root {
  color-scheme: light dark;
  --page: #f5f5f2; --card: #ffffff; --ink: #1a1d21; --muted: #5a616a; --line: #dddfe2;
  --mgi: #1f5fa8; --on-mgi: #ffffff; --mark: #dcebfb; --mark-ink: #123b6b;
  --duckdb: #c97a06; --link: #8b939d; --ok: #18713e; --ok-tint: #e3f4ea;
  --bad: #b3202a; --bad-tint: #fbe6e7; --code: #eff0ee;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #121417; --card: #1b1e23; --ink: #e8eaed; --muted: #a3abb5; --line: #343940;
    --mgi: #68a9f5; --on-mgi: #0b1a2c; --mark: #10243c; --mark-ink: #d3e6fd;
    --duckdb: #eeb244; --link: #757e89; --ok: #6bd396; --ok-tint: #14301f;
    --bad: #ff8b8b; --bad-tint: #3b191b; --code: #262a30;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink); line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans",
    "Liberation Sans", Arial, sans-serif;
  font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%;
}
main { max-width: 68rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
header p { margin: .25rem 0; }
h1 { font-size: clamp(1.6rem, 1.2rem + 2vw, 2.3rem); line-height: 1.15; margin: 0 0 .5rem;
  letter-spacing: -.02em; text-wrap: balance; }
h2 { font-size: 1.25rem; margin: 0 0 .35rem; letter-spacing: -.01em; }
h3 { font-size: 1rem; margin: 1.4rem 0 .35rem; }
.muted, .note, .kind-line { color: var(--muted); }
h3 .muted { font-weight: 400; margin-left: .4rem; }
.note { font-size: .875rem; margin: .35rem 0 .75rem; overflow-wrap: anywhere; max-width: 62rem; }
.wordmark { font-weight: 700; letter-spacing: .12em; color: var(--mgi); font-size: .875rem;
  margin: 0 0 .6rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 1.4rem clamp(1rem, 3vw, 1.8rem); margin-top: 1.25rem; }
.verdict { display: inline-block; border-radius: 8px; padding: .5rem .85rem; margin-top: 1rem;
  font-weight: 600; }
.good { color: var(--ok); } .verdict.good { background: var(--ok-tint); }
.bad { color: var(--bad); } .verdict.bad { background: var(--bad-tint); }
.scroll { overflow-x: auto; margin: .5rem 0; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--mgi);
  outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-size: .9375rem; }
th { text-align: left; font-weight: 600; color: var(--muted); font-size: .8125rem;
  border-bottom: 1px solid var(--line); padding: .4rem .75rem .4rem 0; white-space: nowrap;
  vertical-align: bottom; }
td { border-bottom: 1px solid var(--line); padding: .5rem .75rem .5rem 0; white-space: nowrap; }
tbody tr:last-child td { border-bottom: 0; }
td:first-child { font-weight: 600; }
th:last-child, td:last-child { padding-right: 0; }
.number + :not(.number) { padding-left: 1.25rem; }
.number { text-align: right; }
dl { display: grid; grid-template-columns: minmax(9rem, max-content) 1fr; gap: .3rem 1.25rem;
  margin: .5rem 0; }
dt { color: var(--muted); } dd { margin: 0; overflow-wrap: anywhere; }
.tiles { display: grid; gap: .75rem 1.5rem; margin: .75rem 0;
  grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); }
.tiles b { display: block; font-size: 1.1rem; font-weight: 600; }
.tiles span { color: var(--muted); font-size: .8125rem; }
.note code { font-size: .8125rem; }
pre, code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace;
  font-size: .875rem; }
pre { background: var(--code); border-radius: 8px; padding: .8rem 1rem; overflow-x: auto;
  margin: .5rem 0; }
pre.wrong { white-space: pre-wrap; overflow-wrap: anywhere; }
details { margin: .6rem 0; } summary { cursor: pointer; color: var(--muted); }
.legend { display: flex; flex-wrap: wrap; gap: .35rem 1.5rem; color: var(--muted);
  font-size: .875rem; margin: .5rem 0; }
.legend span { display: inline-flex; align-items: center; gap: .45rem; }
.bar { display: grid; grid-template-columns: 4.5rem minmax(0, 1fr) 11rem; align-items: center; }
.bar .figure { padding-left: 1rem; font-size: .875rem; color: var(--muted); white-space: nowrap; }
.bar .figure b { color: var(--ink); font-size: .9375rem; margin-right: .5rem; }
@media (max-width: 36rem) {
  .bar { grid-template-columns: 4.5rem minmax(0, 1fr); }
  .bar .figure { grid-column: 2; padding: 0 0 .4rem; }
}
.channel { display: flex; flex-wrap: wrap; gap: .5rem 2.5rem; align-items: flex-start; }
.channel .scroll { flex: 0 1 auto; min-width: 0; max-width: 100%; }
.channel .tiles { flex: 1 1 20rem; }
.bar .who { color: var(--muted); font-size: .875rem; }
.bars + .bars { border-top: 1px solid var(--line); margin-top: 1rem; }
svg { display: block; overflow: visible; font-family: inherit; }
svg text { fill: var(--ink); font-size: 13px; }
svg .mgi { fill: var(--mgi); } svg .duckdb { fill: var(--duckdb); }
svg circle { fill: var(--card); stroke: var(--ink); stroke-width: 1.5; }
svg .axis { fill: var(--muted); font-size: 12.5px; }
svg .sum { fill: var(--muted); }
svg .heat { fill: var(--mgi); }
svg .vertex { stroke: var(--mgi); stroke-width: 2; }
svg .managed { fill: var(--mgi); } svg .unmanaged { fill: var(--card); stroke: var(--link); }
svg .name { font-size: 15px; font-weight: 600; } svg .kind { font-size: 12px; }
svg .on-managed { fill: var(--on-mgi); }
svg .mark { fill: var(--mark); stroke: var(--mgi); stroke-width: 1; }
svg .mark-text { fill: var(--mark-ink); font-size: 12px; font-weight: 600; }
svg .link { stroke: var(--link); fill: none; }
svg .plate { fill: var(--card); } svg .edge { font-size: 12px; }
footer { color: var(--muted); font-size: .875rem; margin-top: 1.5rem; }
@media (max-width: 44rem) {
  .cards thead { position: absolute; clip-path: inset(50%); }
  .cards, .cards tbody, .cards tr { display: block; }
  .cards td { display: flex; justify-content: space-between; gap: 1rem; border: 0;
    padding: .12rem 0 !important; white-space: normal; text-align: right; }
  .cards td::before { content: attr(data-label); color: var(--muted); font-weight: 400; }
  .cards td:first-child::before { content: none; }
  .cards tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
}
@media print { section { break-inside: avoid; } body { background: #fff; } }
"""
