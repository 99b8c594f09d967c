// A sweep: throughput and p99 against the number that changes, a line for each acks level.
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
import { element, join, type Markup } from "./markup.ts";
import { acksColour } from "./colours.ts";
import { labelHead } from "./run-labels.ts";
import { extentOf, linearScale, logScale, type Scale, type Tick } from "./scale.ts";
import type { Sweep, SweepSeries } from "./sweeps.ts";
import { duration, short, size, throughput } from "./units.ts";
import type { BenchRun } from "../result.ts";

const PANEL_PX = 200;
const TOP_PX = 30;
const FOOT_PX = 30;

interface Panel {
  readonly title: string;
  readonly box: Box;
  readonly up: Scale;
  readonly of: (run: BenchRun) => number | undefined;
  readonly name: (value: number) => string;
}

export function sweepChart(sweep: Sweep, format: Format): Markup {
  const isWide = format === "wide";
  const runs = sweep.series.flatMap(({ points }) => points.map(({ run }) => run));
  const p99 = extentOf(runs.map(({ latencyMs }) => latencyMs?.p99 ?? Number.NaN).filter((value) => value > 0));
  const hasLatency = p99 !== undefined;
  const boxes = boxesOf(isWide, hasLatency);
  const mbMax = extentOf(runs.map(({ mbPerSecond }) => mbPerSecond))?.max ?? 1;
  const panels: Panel[] = [];
  const [first, second] = boxes;
  if (first !== undefined)
    panels.push({
      title: "throughput, MB/s of values",
      box: first,
      up: linearScale({ min: 0, max: mbMax }, { fromAt: first.bottom, toAt: first.top, stepsMax: 4 }),
      of: ({ mbPerSecond }) => mbPerSecond,
      name: short,
    });
  if (second !== undefined && p99 !== undefined)
    panels.push({
      title: "latency p99, log scale",
      box: second,
      up: logScale(p99, { fromAt: second.bottom, toAt: second.top }),
      of: ({ latencyMs }) => latencyMs?.p99,
      name: duration,
    });
  const bottom = Math.max(...boxes.map((box) => box.bottom));
  const says = `Throughput and latency ${sweep.title}`;
  return chart(
    { format, height: bottom + FOOT_PX, says },
    panels.map((panel) => panelMarkup(panel, sweep)),
  );
}

function boxesOf(isWide: boolean, hasSecond: boolean): readonly Box[] {
  const first: Box = isWide
    ? { left: 64, right: hasSecond ? 396 : 870, top: TOP_PX, bottom: TOP_PX + PANEL_PX }
    : { left: 50, right: WIDTHS.narrow - 62, top: TOP_PX, bottom: TOP_PX + 160 };
  if (!hasSecond) return [first];
  const down = 160 + 64;
  const second: Box = isWide
    ? { ...first, left: 548, right: 880 }
    : { ...first, top: first.top + down, bottom: first.bottom + down };
  return [first, second];
}

function panelMarkup(panel: Panel, sweep: Sweep): Markup {
  const { title, box, up, of, name } = panel;
  const values = [...new Set(sweep.series.flatMap(({ points }) => points.map(({ value }) => value)))].sort(
    (a, b) => a - b,
  );
  const across = valueScale(values, box);
  const valueName = (value: number): string => (sweep.isBytes ? size(value) : short(value));
  const drawn = sweep.series.map((series) => ({ series, points: pointsOf(series, across, up, of) }));
  const ends = drawn.map(({ points }) => points.at(-1)?.y ?? box.bottom);
  const labels = spread(ends, 15, box);
  return join(
    words(title, { x: box.left - 44, y: box.top - 14 }, { class: "axis" }),
    verticalAxis(up, box, name),
    horizontalAxis(across, box, { name: valueName }),
    drawn.map(({ series, points }, index) => {
      const colour = acksColour(series.points[0]?.run.labels.acks ?? null);
      const last = points.at(-1);
      return join(
        points.length > 0 && element("path", { class: `line ${colour}`, d: linePath([points]) }),
        points.map(({ x, y }) => element("circle", { class: `dot ${colour}`, cx: x, cy: y, r: 3.5 })),
        last !== undefined &&
          words(series.title, { x: box.right + 8, y: (labels[index] ?? last.y) + 4 }, { class: `series ${colour}` }),
      );
    }),
    values.map((value) =>
      hint({ ...box, left: across.at(value) - 10, right: across.at(value) + 10 }, hintOf(sweep, value)),
    ),
  );
}

function pointsOf({ points }: SweepSeries, across: Scale, up: Scale, of: Panel["of"]): Point[] {
  return points.flatMap(({ value, run }) => {
    const y = of(run);
    return y === undefined ? [] : [{ x: across.at(value), y: up.at(y) }];
  });
}

/** The values that were measured, and no others, are named; by their logarithm where there are ten times or more between them. */
function valueScale(values: readonly number[], box: Box): Scale {
  const [low, high] = [values[0] ?? 0, values.at(-1) ?? 1];
  const isLog = low > 0 && high / low >= 10;
  const placeOf = (value: number): number => (isLog ? Math.log10(value) : value);
  const span = placeOf(high) - placeOf(low) || 1;
  const at = (value: number): number => box.left + ((placeOf(value) - placeOf(low)) / span) * (box.right - box.left);
  const ticks: Tick[] = values.map((value) => ({ value, at: at(value), isMinor: false, isMain: true }));
  return { kind: isLog ? "log" : "linear", fromAt: box.left, toAt: box.right, at, ticks };
}

function hintOf(sweep: Sweep, value: number): string {
  const what = `${labelHead(sweep.label)} ${sweep.isBytes ? size(value) : short(value)}`;
  const each = sweep.series.flatMap(({ title, points }) => {
    const run = points.find((point) => point.value === value)?.run;
    if (run === undefined) return [];
    const p99 = run.latencyMs === null ? "" : `, p99 ${duration(run.latencyMs.p99)}`;
    return [`${title} ${throughput(run.mbPerSecond)}${p99}`.trim()];
  });
  return `${what}: ${each.join("; ")}`;
}
