// Percentile curves: a chart for each load that was run at several acks levels, else for a handful of runs at a time; its key is a table of the figures.
import { acksColour } from "./colours.ts";
import type { Gathered, ReportRun } from "./gather.ts";
import { element, type Markup } from "./markup.ts";
import { type Curve, CURVES_MAX, curveRange, hasCurve, percentileChart } from "./percentile-chart.ts";
import { keyWithout } from "./run-labels.ts";
import { chunksOf, figure, groupTitle, section, withRest } from "./section-parts.ts";
import { groupBy } from "./sweeps.ts";
import { duration } from "./units.ts";

interface CurveChart {
  readonly title: string;
  readonly curves: readonly Curve[];
}

export function percentileSection(gathered: Gathered): Markup | undefined {
  const runs = gathered.runs.filter(({ run }) => hasCurve(run));
  if (runs.length === 0) return undefined;
  const range = curveRange(runs.map(({ run }) => run));
  const charts = byAcks(runs, gathered.varying) ?? inHandfuls(runs);
  const figures = charts.map(({ title, curves }) =>
    figure(title, (format) => percentileChart(curves, range, format), keyOf(curves)),
  );
  return section(
    "Latency by percentile",
    "Each further nine takes as much room, so the slow ones are seen as well as the usual ones. A curve ends where fewer records than one lie beyond. Logarithmic axes.",
    withRest(figures, "charts"),
  );
}

/** undefined: not every load was run at several acks levels, once at each. */
function byAcks(runs: readonly ReportRun[], varying: readonly string[]): CurveChart[] | undefined {
  const groups = groupBy(runs, ({ run }) => keyWithout(run, ["acks"]));
  const isCompared = (group: readonly ReportRun[]): boolean =>
    group.length > 1 && new Set(group.map(({ run }) => run.labels.acks)).size === group.length;
  if (!groups.every((group) => isCompared(group) && group.length <= CURVES_MAX)) return undefined;
  const others = varying.filter((name) => name !== "acks");
  return groups.map((group) => ({
    title: groups.length > 1 ? groupTitle(group, others) : "",
    curves: group.map(({ run }) => ({
      run,
      title: `acks=${run.labels.acks ?? "none"}`,
      colour: acksColour(run.labels.acks),
    })),
  }));
}

const inHandfuls = (runs: readonly ReportRun[]): CurveChart[] =>
  chunksOf(runs, CURVES_MAX).map((chunk) => ({
    title: "",
    curves: chunk.map(({ run, title }, index) => ({ run, title, colour: `c${index}` })),
  }));

const HEADS = ["p50", "p90", "p99", "p99.9", "max"];

function keyOf(curves: readonly Curve[]): Markup {
  const head = element(
    "tr",
    {},
    element("th", { scope: "col" }, "run"),
    HEADS.map((name) => element("th", { scope: "col" }, name)),
  );
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, curves.map(keyRow)));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Key of the curves" }, table);
}

function keyRow({ run, title, colour }: Curve): Markup {
  const { latencyMs } = run;
  const figures =
    latencyMs === null
      ? HEADS.map(() => Number.NaN)
      : [latencyMs.p50, latencyMs.p90, latencyMs.p99, latencyMs.p999, latencyMs.max];
  const key = element("span", { class: "key" }, swatch(colour), element("span", {}, title));
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, key),
    figures.map((ms) => element("td", {}, duration(ms))),
  );
}

const swatch = (colour: string): Markup =>
  element(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", class: "swatch", viewBox: "0 0 34 12", "aria-hidden": "true" },
    element("path", { class: `line ${colour}`, d: "M1 6H33" }),
  );
