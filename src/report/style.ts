/** The page's CSS, inline: the page loads nothing from elsewhere. */
export const STYLE = `
:root { color-scheme: light dark; --paper: #fff; --card: #f6f7f9; --ink: #17202c; --muted: #5a6675; --line: #dfe3e8;
  --human: #1f6feb; --ai: #c2570c; --good: #1a7f37; --bad: #c4262e; --soft: #9a6b00; --gap: #8b95a133; }
@media (prefers-color-scheme: dark) { :root { --paper: #10151c; --card: #19202a; --ink: #e8edf3; --muted: #9aa7b6;
  --line: #2b3542; --human: #6ea8fe; --ai: #f2a65a; --good: #56d364; --bad: #ff7b72; --soft: #e3b341;
    --gap: #8b95a133; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px 20px 48px; max-width: 1000px; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 26px; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 36px 0 8px; }
p { margin: 6px 0; } .muted, caption, footer { color: var(--muted); font-size: 14px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 20px 0;
  padding: 0; }
.tile { background: var(--card); border-radius: 10px; padding: 12px 14px; }
.tile dt { color: var(--muted); font-size: 14px; } .tile dd { margin: 0; }
.tile .number { font-size: 26px; font-weight: 600; font-variant-numeric: tabular-nums; }
.chart svg { display: block; width: 100%; height: auto; } .narrow { display: none; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 15px; }
th { text-align: left; font-weight: 600; color: var(--muted); font-size: 13px; vertical-align: bottom; }
th, td { padding: 6px 8px; border-bottom: 1px solid var(--line); } td.day { white-space: nowrap; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.path { overflow-wrap: anywhere; min-width: 110px; } caption { text-align: left; padding-bottom: 6px; }
.spark { width: 130px; height: 24px; display: block; overflow: visible; }
.spark path { fill: none; stroke: var(--human); stroke-width: 1.6; stroke-linecap: round; stroke-linejoin: round;
  vector-effect: non-scaling-stroke; }
.up { color: var(--good); } .down { color: var(--bad); } .flat { color: var(--muted); }
.strip { display: flex; flex-wrap: wrap; gap: 3px; margin: 10px 0; padding: 0; list-style: none; }
.strip li, .key i { width: 13px; height: 13px; border-radius: 3px; display: inline-block; }
.final { background: var(--good); }
.missing, .damaged { background: repeating-linear-gradient(45deg, var(--gap) 0 3px, transparent 3px 6px);
  border: 1px solid var(--muted); }
.inconsistent { background: var(--bad); } .provisional { border: 3px solid var(--soft); }
.key { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 14px; color: var(--muted); }
.key i { margin-right: 6px; vertical-align: -1px; }
details { margin-top: 14px; } summary { cursor: pointer; }
footer { margin-top: 40px; border-top: 1px solid var(--line); padding-top: 12px; }
@media (max-width: 560px) { body { padding: 16px 14px 32px; } .wide { display: none; } .narrow { display: block; }
  .tiles { grid-template-columns: 1fr 1fr; } .tile .number { font-size: 22px; }
  th, td { padding: 6px 4px; font-size: 14px; } .spark { width: 64px; } }
@media print { :root { color-scheme: light; --paper: #fff; --card: #f3f4f6; --ink: #000; --muted: #444; --line: #ccc;
  --human: #1f6feb; --ai: #c2570c; --good: #1a7f37; --bad: #c4262e; --soft: #9a6b00; }
  body { padding: 0; max-width: none; font-size: 12px; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .chart, tr, .tile { break-inside: avoid; } h2 { break-after: avoid; } .wide { display: block; }
  .narrow { display: none; } details { display: none; } }
`;
