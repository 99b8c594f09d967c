// Memory and open files of processes over time.
import type { BenchRun, ProcessSample } from "../result.ts";
import {
  type Box,
  chart,
  type Format,
  horizontalAxis,
  hint,
  linePath,
  spread,
  verticalAxis,
  WIDTHS,
  words,
  shortened,
} from "./frame.ts";
import { element, type Markup } from "./markup.ts";
import { extentOf, linearScale } from "./scale.ts";
import { groupBy } from "./sweeps.ts";
import { duration, short, size } from "./units.ts";

export interface Usage {
  readonly title: string;
  readonly lines: readonly {
    readonly name: string;
    readonly points: readonly { readonly atMs: number; readonly value: number }[];
  }[];
  readonly format: (value: number) => string;
  /** Of the steps of its axis. */
  readonly unit: number;
}

const COLOURS = 6;
const HINTS = 60;

export function usagesOf({ processes }: BenchRun): Usage[] {
  if (processes.length === 0) return [];
  const lines = (of: (sample: ProcessSample) => number): Usage["lines"] =>
    groupBy(processes, ({ process }) => process).map((samples) => ({
      name: samples[0]?.process ?? "",
      points: samples.toSorted((a, b) => a.atMs - b.atMs).map((sample) => ({ atMs: sample.atMs, value: of(sample) })),
    }));
  return [
    { title: "memory (resident)", lines: lines(({ rssBytes }) => rssBytes), format: size, unit: 1 << 20 },
    { title: "open files", lines: lines(({ openFiles }) => openFiles), format: short, unit: 1 },
  ];
}

export function usageChart({ title, lines, format: name, unit }: Usage, format: Format): Markup | undefined {
  const points = lines.flatMap((line) => line.points);
  const time = extentOf(points.map(({ atMs }) => atMs));
  const most = extentOf(points.map(({ value }) => value));
  if (time === undefined || most === undefined) return undefined;
  const isWide = format === "wide";
  const box: Box = {
    left: isWide ? 72 : 58,
    right: WIDTHS[format] - (isWide ? 110 : 66),
    top: 12,
    bottom: isWide ? 180 : 160,
  };
  const unitMs = time.max > 300_000 ? 60_000 : 1_000;
  const steps = { fromAt: box.left, toAt: box.right, stepsMax: isWide ? 10 : 4, isRounded: false };
  const seconds = linearScale({ min: Math.min(time.min, 0) / unitMs, max: time.max / unitMs }, steps);
  const up = linearScale(
    { min: 0, max: Math.max(most.max, 1) / unit },
    { fromAt: box.bottom, toAt: box.top, stepsMax: 4 },
  );
  const placeOf = ({ atMs, value }: { readonly atMs: number; readonly value: number }) => ({
    x: seconds.at(atMs / unitMs),
    y: up.at(value / unit),
  });
  const drawn = lines.map((line) => line.points.map(placeOf));
  const ends = spread(
    drawn.map((line) => line.at(-1)?.y ?? box.bottom),
    14,
    box,
  );
  return chart(
    { format, height: box.bottom + 28, says: `${title} over time of ${lines.map((line) => line.name).join(", ")}` },
    verticalAxis(up, box, (value) => name(value * unit)),
    horizontalAxis(seconds, box, { name: (value) => duration(value * unitMs), hasLines: false }),
    drawn.map((line, index) => element("path", { class: `line c${index % COLOURS}`, d: linePath([line]) })),
    lines.map((line, index) =>
      words(
        shortened(line.name, WIDTHS[format] - box.right - 8),
        { x: box.right + 8, y: (ends[index] ?? 0) + 4 },
        { class: `series c${index % COLOURS}` },
      ),
    ),
    hintsOf(lines, box, time, name),
  );
}

function hintsOf(
  lines: Usage["lines"],
  box: Box,
  time: { readonly max: number },
  name: (value: number) => string,
): Markup[] {
  const step = (box.right - box.left) / HINTS;
  return Array.from({ length: HINTS }, (_, index) => {
    const atMs = ((index + 0.5) / HINTS) * time.max;
    const values = lines.flatMap((line) => {
      const point = line.points.findLast((each) => each.atMs <= atMs) ?? line.points[0];
      return point === undefined ? [] : [`${line.name} ${name(point.value)}`];
    });
    const left = box.left + index * step;
    return hint({ ...box, left, right: left + step }, `${duration(atMs)}: ${values.join("; ")}`);
  });
}
