// The style sheet of the report: light, dark and paper; colours that the colour-blind tell apart, and forms or dashes wherever a colour tells something.

const LIGHT = `
  --page: #f6f6f3; --surface: #ffffff; --ink: #1a1d21; --muted: #59616b; --line: #dcdfe3; --faint: #edeff1; --strong: #9aa1aa;
  --blue: #184c8c; --sky: #4799d4; --orange: #b03814; --green: #0a8c68; --purple: #b781c3; --ochre: #c88807; --grey: #2a2f35; --quiet: #767e88;
  --band: rgba(206, 61, 42, 0.13); --edge: #c2402d; --hover: rgba(26, 29, 33, 0.06); --tip: #1a1d21; --tip-ink: #f6f6f3;`;
const DARK = `
  --page: #121519; --surface: #1a1e24; --ink: #e9ebee; --muted: #a3abb6; --line: #353c46; --faint: #262c34; --strong: #6b7480;
  --blue: #3f8df7; --sky: #a3d3f5; --orange: #ea761a; --green: #99edc8; --purple: #f09dec; --ochre: #f8ed92; --grey: #7b818c; --quiet: #939ca7;
  --band: rgba(240, 106, 84, 0.2); --edge: #f0806c; --hover: rgba(233, 235, 238, 0.09); --tip: #e9ebee; --tip-ink: #121519;`;

const PAGE = `
* { box-sizing: border-box; }
html { color-scheme: light dark; -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue",
  "Liberation Sans", Arial, sans-serif; }
main { max-width: 1096px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 30px; line-height: 1.2; letter-spacing: -0.015em; margin: 0 0 6px; font-weight: 680; }
h2 { font-size: 21px; line-height: 1.3; letter-spacing: -0.01em; margin: 0 0 4px; font-weight: 650; }
h3 { font-size: 16px; line-height: 1.4; margin: 0 0 8px; font-weight: 620; overflow-wrap: anywhere; }
p { margin: 0 0 12px; max-width: 74ch; }
section { margin-top: 48px; }
.lead { color: var(--muted); max-width: 74ch; }
.small { font-size: 14px; color: var(--muted); }
code { font: 0.9em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; overflow-wrap: anywhere; }
header { display: flex; gap: 24px; align-items: flex-start; justify-content: space-between; }
header div { min-width: 0; }
.top { font-size: 13px; font-weight: 600; letter-spacing: 0.06em; text-transform: uppercase; color: var(--muted); margin-bottom: 6px; }
button { font: inherit; font-size: 14px; color: var(--ink); background: var(--surface); border: 1px solid var(--line); border-radius: 8px;
  padding: 6px 12px; cursor: pointer; white-space: nowrap; }
button:hover { border-color: var(--strong); }
:focus-visible { outline: 2px solid var(--blue); outline-offset: 2px; }
.warning { border: 1px solid var(--edge); border-left-width: 5px; border-radius: 8px; background: var(--band); padding: 10px 16px; margin: 20px 0 0; }
.warning p { margin: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(172px, 1fr)); gap: 12px; margin: 28px 0 0; }
.tile { background: var(--surface); border: 1px solid var(--line); border-radius: 12px; padding: 16px 18px; min-width: 0; }
.tile dt { font-size: 14px; color: var(--muted); }
.tile dd { margin: 0; overflow-wrap: anywhere; }
.tile { display: flex; flex-direction: column; }
.tile .figure { font-size: 29px; line-height: 1.25; font-weight: 650; letter-spacing: -0.02em; font-variant-numeric: tabular-nums; }
.tile .unit { font-size: 17px; font-weight: 500; color: var(--muted); letter-spacing: 0; }
.tile .note { font-size: 13.5px; line-height: 1.4; color: var(--muted); }
figure { margin: 16px 0 0; background: var(--surface); border: 1px solid var(--line); border-radius: 12px; padding: 20px; }
details { margin-top: 16px; }
summary { cursor: pointer; color: var(--muted); font-size: 15px; padding: 4px 0; }
summary:hover { color: var(--ink); }
figure details { margin-top: 8px; }
h3.list { margin: 20px 0 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: 7px 6px; text-align: right; vertical-align: baseline; white-space: nowrap; border-bottom: 1px solid var(--faint); }
thead th { white-space: normal; color: var(--muted); font-weight: 550; vertical-align: bottom; border-bottom: 1px solid var(--line); line-height: 1.3; }
thead tr.groups th { border-bottom: 0; padding-bottom: 0; text-align: center; font-size: 12.5px; }
thead tr.groups th.named { border-bottom: 1px solid var(--line); padding-bottom: 3px; }
tbody th { font-weight: 550; text-align: left; white-space: normal; min-width: 124px; max-width: 320px; overflow-wrap: anywhere; }
thead th:first-child { text-align: left; }
tbody tr:last-child > * { border-bottom: 0; }
tbody tr:hover > * { background: var(--hover); }
td.text, thead th.text { text-align: left; }
td.bad { color: var(--edge); font-weight: 600; }
.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 6px 20px; margin: 12px 0 0; font-size: 15px; }
.facts dt { color: var(--muted); }
.facts dd { margin: 0; overflow-wrap: anywhere; }
ul, ol { margin: 8px 0 0; padding-left: 22px; font-size: 15px; }
li { margin: 3px 0; overflow-wrap: anywhere; }
.faults { columns: 2; column-gap: 32px; font-size: 14px; color: var(--muted); padding-left: 30px; }
.faults li { margin: 0 0 4px; break-inside: avoid; font-variant-numeric: tabular-nums; }
.swatch { width: 34px; height: 12px; vertical-align: middle; margin-right: 8px; flex: none; }
.key { display: flex; align-items: center; }
footer { margin-top: 56px; padding-top: 16px; border-top: 1px solid var(--line); color: var(--muted); font-size: 14px; }
#tip { position: fixed; z-index: 9; left: 0; top: 0; max-width: min(340px, calc(100vw - 24px)); pointer-events: none; background: var(--tip);
  color: var(--tip-ink); font-size: 13px; line-height: 1.45; padding: 7px 11px; border-radius: 8px; font-variant-numeric: tabular-nums; }
#tip b { display: block; font-weight: 650; }
#tip span { display: block; }`;

const CHARTS = `
svg.chart { display: block; width: 100%; height: auto; overflow: visible; }
svg.narrow { display: none; }
svg text { font-family: inherit; font-size: 12px; fill: var(--muted); font-variant-numeric: tabular-nums; }
svg .middle { text-anchor: middle; }
svg .end { text-anchor: end; }
svg .grid { stroke: var(--line); stroke-width: 1; shape-rendering: crispEdges; }
svg .faint { stroke: var(--faint); }
svg .name, svg .value { font-size: 13px; fill: var(--ink); }
svg .value { font-weight: 550; }
svg .value.missed { fill: var(--edge); }
svg .halo { paint-order: stroke; stroke: var(--surface); stroke-width: 7px; stroke-linejoin: round; }
svg .group { font-size: 13.5px; font-weight: 620; fill: var(--ink); }
svg .series { font-weight: 600; paint-order: stroke; stroke: var(--surface); stroke-width: 3px; stroke-linejoin: round; }
svg .band { fill: var(--band); }
svg .edge { stroke: var(--edge); stroke-width: 3; }
svg text.band-label { fill: var(--edge); font-weight: 600; }
svg .hint { fill: transparent; }
svg .hint:hover { fill: var(--hover); }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
svg .records { fill: var(--strong); opacity: 0.55; }
svg .line.p50 { stroke: var(--sky); }
svg .line.p99 { stroke: var(--blue); stroke-width: 2.4; }
svg .line.max { stroke: var(--quiet); stroke-width: 1.3; stroke-dasharray: 1 3.4; }
svg text.p50 { fill: var(--ink); fill: color-mix(in srgb, var(--sky) 55%, var(--ink)); }
svg text.p99 { fill: var(--blue); }
svg text.max { fill: var(--muted); }
svg .mark.p50 { fill: var(--sky); }
svg .mark.p99 { fill: var(--blue); }
svg .mark.p999 { fill: var(--surface); stroke: var(--blue); stroke-width: 2; }
svg .mark.max { stroke: var(--muted); stroke-width: 2.5; }
svg .span { stroke: var(--strong); stroke-width: 1.5; }
svg .limit { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 5 4; }
svg .gap { fill: var(--blue); fill-opacity: 0.45; stroke: var(--blue); }
svg .median { stroke: var(--ink); stroke-width: 3; }
svg .allowed { stroke: var(--edge); stroke-width: 2.5; }`;

/** Names of classes, the colour of each, and how its line is broken. */
const COLOURS: readonly (readonly [name: string, colour: string, dashes: string])[] = [
  ["c0", "blue", "none"],
  ["c1", "orange", "9 4"],
  ["c2", "green", "2 4"],
  ["c3", "purple", "11 4 2 4"],
  ["c4", "ochre", "5 3"],
  ["c5", "grey", "none"],
  ["acks-0", "ochre", "2 4"],
  ["acks-1", "green", "9 4"],
  ["acks-all", "blue", "none"],
  ["acks-none", "grey", "none"],
];

const colourRules = COLOURS.map(
  ([name, colour, dashes]) => `
svg .line.${name} { stroke: var(--${colour}); stroke-dasharray: ${dashes}; stroke-linecap: ${dashes === "none" ? "round" : "butt"}; }
svg .lead.${name} { stroke: var(--${colour}); stroke-width: 1; opacity: 0.5; fill: none; }
svg .dot.${name}, svg .bar.${name} { fill: var(--${colour}); }
svg text.${name} { fill: var(--ink); fill: color-mix(in srgb, var(--${colour}) 55%, var(--ink)); }`,
).join("");

const SMALL = `
@media (max-width: 760px) {
  main { padding: 24px 16px 48px; }
  h1 { font-size: 25px; }
  section { margin-top: 40px; }
  svg.wide { display: none; }
  svg.narrow { display: block; }
  figure { padding: 14px 12px; margin-left: -4px; margin-right: -4px; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 8px; }
  .tile { padding: 12px 14px; }
  .tile .figure { font-size: 23px; }
  .facts { grid-template-columns: 1fr; gap: 0; }
  .facts dd { margin-bottom: 10px; }
  .faults { columns: 1; }
  tbody th { position: sticky; left: 0; background: var(--surface); min-width: 110px; max-width: 150px; }
}
@media (max-width: 350px) { .tiles { grid-template-columns: 1fr; } }`;

const PAPER = `
@media print {
  :root, :root[data-theme] { ${LIGHT} --page: #ffffff; }
  @page { margin: 14mm; }
  body { font-size: 11pt; }
  main { padding: 0; max-width: none; }
  button, #tip { display: none; }
  svg.wide { display: block; }
  svg.narrow { display: none; }
  section { margin-top: 28px; }
  figure, .tile { break-inside: avoid; }
  figure { padding: 12px; }
  h1, h2, h3, .lead { break-after: avoid; break-inside: avoid; }
  .tiles { grid-template-columns: repeat(5, 1fr); gap: 6px; }
  .tile { padding: 8px 10px; }
  .tile .figure { font-size: 16pt; }
  details::details-content { content-visibility: visible; block-size: auto; }
  .scroll { overflow: visible; }
  table { font-size: 7pt; }
  th, td { padding: 2px 3px; }
  tbody th { min-width: 60px; overflow-wrap: break-word; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}`;

export const PAGE_STYLE = `
:root { ${LIGHT}
}
@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) { ${DARK}
} }
:root[data-theme="dark"] { ${DARK}
  color-scheme: dark; }
:root[data-theme="light"] { color-scheme: light; }
${PAGE}${CHARTS}${colourRules}${SMALL}${PAPER}
`;
