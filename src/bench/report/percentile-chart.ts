// Percentile curves of several runs: how long one in ten, a hundred, a thousand, ten thousand records takes. Each further nine takes as much room.
import type { BenchRun } from "../result.ts";
import {
  type Box,
  chart,
  type Format,
  hint,
  horizontalAxis,
  linePath,
  shortened,
  spread,
  verticalAxis,
  WIDTHS,
  words,
} from "./frame.ts";
import { element, type Markup } from "./markup.ts";
import { type Extent, extentOf, logScale, percentileScale, type Scale } from "./scale.ts";
import { duration, percentileName } from "./units.ts";

/** As many as can be told apart: colours that the colour-blind tell apart, and dashes besides. */
export const CURVES_MAX = 6;

export interface Curve {
  readonly run: BenchRun;
  readonly title: string;
  /** The class of its line. */
  readonly colour: string;
}

type Pair = readonly [quantile: number, ms: number];

const HINTED = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];

export const hasCurve = ({ percentiles }: BenchRun): boolean => percentiles.some(([, ms]) => ms > 0);

/** Of all charts, so that they can be held against each other. */
export interface CurveRange {
  readonly ms: Extent;
  readonly quantileMax: number;
}

export function curveRange(runs: readonly BenchRun[]): CurveRange {
  const pairs = runs.flatMap(pairsOf);
  return {
    ms: extentOf(pairs.map(([, ms]) => ms)) ?? { min: 1, max: 10 },
    quantileMax: Math.max(0.9, ...pairs.map(([quantile]) => quantile)),
  };
}

/** At most CURVES_MAX curves. Where the last record alone makes the curve, it ends: no quantile is shown that fewer records than it names were measured for. */
export function percentileChart(curves: readonly Curve[], range: CurveRange, format: Format): Markup | undefined {
  const drawn = curves.map(({ run, title, colour }) => ({ title, colour, pairs: pairsOf(run) }));
  const isWide = format === "wide";
  const box: Box = {
    left: isWide ? 64 : 50,
    right: WIDTHS[format] - (isWide ? 190 : 16),
    top: 14,
    bottom: isWide ? 310 : 230,
  };
  const across = percentileScale(range.quantileMax, {
    fromAt: box.left,
    toAt: box.right,
  });
  const up = logScale(range.ms, { fromAt: box.bottom, toAt: box.top });
  const says = `Latency by percentile of ${curves.map(({ title }) => title).join(", ")}`;
  return chart(
    { format, height: box.bottom + 30, says },
    verticalAxis(up, box, duration),
    horizontalAxis(across, box, { name: percentileName }),
    drawn.map(({ pairs, colour }) =>
      element("path", {
        class: `line ${colour}`,
        d: linePath([pairs.map(([q, ms]) => ({ x: across.at(q), y: up.at(ms) }))]),
      }),
    ),
    isWide && endLabels(drawn, across, up, box),
    HINTED.map((quantile) => quantileHint(quantile, drawn, across, box)),
  );
}

/** Ascending, above 0 and below the maximum, which has no place on this axis: it is in the table. */
function pairsOf({ percentiles, records }: BenchRun): Pair[] {
  const end = 1 - 1 / Math.max(records, 2);
  const within = percentiles.filter(([quantile, ms]) => quantile >= 0 && quantile <= end + 1e-9 && ms > 0);
  return (within.length > 0 ? within : percentiles.filter(([quantile, ms]) => quantile < 1 && ms > 0)).map(
    ([quantile, ms]) => [quantile, ms] as const,
  );
}

type Drawn = readonly { readonly title: string; readonly colour: string; readonly pairs: readonly Pair[] }[];

function endLabels(drawn: Drawn, across: Scale, up: Scale, box: Box): Markup[] {
  const shown = drawn.filter(({ pairs }) => pairs.length > 0);
  const ends = shown.map(({ pairs }) => up.at(pairs.at(-1)?.[1] ?? 0));
  const places = spread(ends, 15, { top: box.top + 6, bottom: box.bottom });
  return shown.map(({ title, pairs, colour }, at) => {
    const x = across.at(pairs.at(-1)?.[0] ?? 0);
    const y = places[at] ?? 0;
    const lead = linePath([
      [
        { x: x + 3, y: ends[at] ?? 0 },
        { x: box.right + 8, y },
      ],
    ]);
    return element(
      "g",
      {},
      element("path", { class: `lead ${colour}`, d: lead }),
      words(
        shortened(title, WIDTHS.wide - box.right - 14),
        { x: box.right + 12, y: y + 4 },
        { class: `series ${colour}` },
      ),
    );
  });
}

function quantileHint(quantile: number, drawn: Drawn, across: Scale, box: Box): Markup | undefined {
  const known = drawn.flatMap(({ title, pairs }) => {
    const pair = pairs.find(([each]) => each >= quantile - 1e-9);
    return pair === undefined ? [] : [`${title} ${duration(pair[1])}`];
  });
  if (known.length === 0) return undefined;
  const x = across.at(quantile);
  return hint({ ...box, left: x - 12, right: x + 12 }, `${percentileName(quantile)}: ${known.join("; ")}`);
}
