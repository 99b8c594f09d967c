// Latency over time on a logarithmic axis, faults as bands, and below it how many records came: a pause is seen in both.
import type { BenchRun, FaultSpan } from "../result.ts";
import { bands, faultsInOrder, planBands } from "./fault-bands.ts";
import {
  type Box,
  chart,
  type Format,
  hint,
  horizontalAxis,
  linePath,
  type Point,
  spread,
  verticalAxis,
  WIDTHS,
  words,
} from "./frame.ts";
import { coordinate, element, join, type Markup } from "./markup.ts";
import { type Extent, extentOf, linearScale, logScale, type Scale } from "./scale.ts";
import { type Timeline, timelineOf, type Window } from "./timeline.ts";
import { duration, rate } from "./units.ts";

const WINDOWS_MAX: Readonly<Record<Format, number>> = { wide: 220, narrow: 90 };
const LATENCY_PX: Readonly<Record<Format, number>> = { wide: 210, narrow: 190 };
const RECORDS_PX = 48;
const BETWEEN_PX = 26;
const TOP_PX = 12;
const BOTTOM_PX = 26;

interface Series {
  readonly name: string;
  readonly class: string;
  readonly of: (window: Window) => number | undefined;
}

const SERIES: readonly Series[] = [
  { name: "max", class: "max", of: ({ maxMs }) => maxMs },
  { name: "p99", class: "p99", of: ({ p99Ms }) => p99Ms },
  { name: "p50", class: "p50", of: ({ p50Ms }) => p50Ms },
];

/** Of all charts, so that they can be held against each other. */
export function latencyRange(runs: readonly BenchRun[]): Extent | undefined {
  const entries = runs.flatMap(({ timeline }) => timeline);
  const values = entries.flatMap(({ p50Ms, p99Ms, maxMs }) => [p50Ms, p99Ms, maxMs]);
  return extentOf(values.filter((value): value is number => value !== null && value > 0));
}

/** undefined: the run has no timeline. `range` is that of its latencies, and maybe of more. */
export function timelineChart(run: BenchRun, range: Extent | undefined, format: Format): Markup | undefined {
  const timeline = timelineOf(run, WINDOWS_MAX[format]);
  if (timeline === undefined) return undefined;
  const faults = faultsInOrder(run.faults);
  const [left, right] = [format === "wide" ? 64 : 50, WIDTHS[format] - (format === "wide" ? 44 : 34)];
  const fromMs = Math.min(timeline.windows[0]?.fromMs ?? 0, ...faults.map(({ atMs }) => atMs));
  const time = timeScale({ min: fromMs, max: timeline.untilMs }, left, right, format);
  const plan = planBands(faults, time, format === "wide");
  const top = TOP_PX + plan.heightPx;
  const latency: Box = { left, right, top, bottom: top + LATENCY_PX[format] };
  const records: Box = {
    left,
    right,
    top: latency.bottom + BETWEEN_PX,
    bottom: latency.bottom + BETWEEN_PX + RECORDS_PX,
  };
  return chart(
    { format, height: records.bottom + BOTTOM_PX, says: saysOf(run, faults) },
    bands(faults, plan, time, latency),
    latencyPlot(timeline, { time, range }, latency),
    faults.map(({ atMs, untilMs }) => bandBelow(time, records, atMs, untilMs)),
    recordsPlot(timeline, time, records),
    timeline.windows.map((window) => windowHint(window, time, { ...latency, bottom: records.bottom })),
  );
}

function timeScale(
  extent: { readonly min: number; readonly max: number },
  left: number,
  right: number,
  format: Format,
) {
  // Ticks in whole units that people count in.
  const unitMs = extent.max - extent.min > 300_000 ? 60_000 : extent.max - extent.min > 3_000 ? 1_000 : 1;
  const stepsMax = format === "wide" ? 12 : 5;
  const options = { fromAt: left, toAt: right, stepsMax, isRounded: false };
  const units = linearScale({ min: extent.min / unitMs, max: extent.max / unitMs }, options);
  const ticks = units.ticks.map((tick) => ({ ...tick, value: tick.value * unitMs }));
  return { ...units, at: (ms: number) => units.at(ms / unitMs), ticks } satisfies Scale;
}

interface Scales {
  readonly time: Scale;
  readonly range: Extent | undefined;
}

function latencyPlot({ windows }: Timeline, scales: Scales, box: Box): Markup {
  const { time, range: extent } = scales;
  if (extent === undefined)
    return join(
      words(
        "no latency was measured",
        { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2 },
        { class: "axis middle" },
      ),
    );
  const scale = logScale(extent, { fromAt: box.bottom, toAt: box.top });
  const ends = SERIES.map(({ of }) => scale.at(windows.map(of).findLast((value) => value !== undefined) ?? extent.min));
  const labels = spread(ends, 13, { top: box.top + 4, bottom: box.bottom });
  return join(
    verticalAxis(scale, box, duration),
    SERIES.toReversed().map((series) => {
      const parts = partsOf(windows, (window) => {
        const value = series.of(window);
        return value === undefined
          ? undefined
          : { x: time.at((window.fromMs + window.untilMs) / 2), y: scale.at(value) };
      });
      return parts.length === 0 ? undefined : element("path", { class: `line ${series.class}`, d: linePath(parts) });
    }),
    SERIES.map(({ name, class: name2 }, index) =>
      words(name, { x: box.right + 6, y: (labels[index] ?? 0) + 4 }, { class: `series ${name2}` }),
    ),
  );
}

const momentName = (ms: number): string => (ms === 0 ? "0" : duration(ms));

/** Parted where nothing came. */
function partsOf(windows: readonly Window[], pointOf: (window: Window) => Point | undefined): Point[][] {
  const parts: Point[][] = [[]];
  for (const window of windows) {
    const point = pointOf(window);
    if (point === undefined) parts.push([]);
    else parts.at(-1)?.push(point);
  }
  return parts.filter((part) => part.length > 0);
}

function recordsPlot({ windows, windowMs }: Timeline, time: Scale, box: Box): Markup {
  const perSecond = ({ records }: Window): number => records / (windowMs / 1_000);
  const max = Math.max(...windows.map(perSecond));
  const scale = linearScale({ min: 0, max: max > 0 ? max : 1 }, { fromAt: box.bottom, toAt: box.top, stepsMax: 2 });
  const steps = windows
    .map((window) => `V${coordinate(scale.at(perSecond(window)))}H${coordinate(time.at(window.untilMs))}`)
    .join("");
  const start = coordinate(time.at(windows[0]?.fromMs ?? 0));
  const end = coordinate(box.bottom);
  return join(
    horizontalAxis(time, box, { name: momentName, hasLines: false }),
    verticalAxis(scale, box, (value) => (value === 0 ? "0" : rate(value))),
    element("path", { class: "records", d: `M${start} ${end}${steps}V${end}Z` }),
    words("records acknowledged or received", { x: box.left, y: box.top - 9 }, { class: "axis" }),
  );
}

function bandBelow(time: Scale, box: Box, atMs: number, untilMs: number): Markup {
  const x = time.at(atMs);
  return element("rect", {
    class: "band",
    x,
    y: box.top,
    width: Math.max(time.at(untilMs) - x, 3),
    height: box.bottom - box.top,
  });
}

function windowHint(window: Window, time: Scale, box: Box): Markup {
  const place = { ...box, left: time.at(window.fromMs), right: time.at(window.untilMs) };
  const when = `${duration(window.fromMs)} – ${duration(window.untilMs)}`;
  const lines = SERIES.map(({ name, of }) => `${name} ${duration(of(window) ?? Number.NaN)}`).join(", ");
  const perSecond = rate(window.records / ((window.untilMs - window.fromMs) / 1_000));
  const text = window.p50Ms === undefined ? `${when}: ${perSecond}, no latency` : `${when}: ${lines}; ${perSecond}`;
  return hint(place, text);
}

function saysOf(run: BenchRun, faults: readonly FaultSpan[]): string {
  const during =
    faults.length === 0
      ? ""
      : ` with ${faults.length} faults: ${[...new Set(faults.map(({ label }) => label))].join(", ")}`;
  return `Latency over time of ${run.name}${during}`;
}
