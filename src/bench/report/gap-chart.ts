// How long a partition took nothing, fault by fault: a dot each, and what is allowed as a mark.
import type { BenchRun } from "../result.ts";
import { type Box, chart, type Format, hint, horizontalAxis, shortened, WIDTHS, widthOf, words } from "./frame.ts";
import { element, join, type Markup } from "./markup.ts";
import { extentOf, logScale, type Scale } from "./scale.ts";
import { duration } from "./units.ts";

export interface GapRow {
  readonly title: string;
  /** Ascending. */
  readonly gaps: readonly number[];
  readonly allowedMs: number | undefined;
}

const ROW_PX: Readonly<Record<Format, number>> = { wide: 36, narrow: 58 };
const TOP_PX = 34;

export function gapRowOf(run: BenchRun, title: string): GapRow | undefined {
  const gaps = run.faults.flatMap(({ gapMs }) => (gapMs === null ? [] : [gapMs])).toSorted((a, b) => a - b);
  const allowed = run.faults.flatMap(({ allowedGapMs }) => (allowedGapMs === null ? [] : [allowedGapMs]));
  if (gaps.length === 0) return undefined;
  return { title, gaps, allowedMs: allowed.length === 0 ? undefined : Math.min(...allowed) };
}

export function gapChart(rows: readonly GapRow[], format: Format): Markup | undefined {
  const values = rows.flatMap(({ gaps, allowedMs }) => [...gaps, ...(allowedMs === undefined ? [] : [allowedMs])]);
  const extent = extentOf(values.map((value) => Math.max(value, 1)));
  if (extent === undefined) return undefined;
  const isWide = format === "wide";
  const box: Box = {
    left: isWide ? Math.min(26 + Math.max(...rows.map(({ title }) => widthOf(title))), 300) : 10,
    right: WIDTHS[format] - (isWide ? 176 : 12),
    top: TOP_PX,
    bottom: TOP_PX + rows.length * ROW_PX[format],
  };
  const scale = logScale(extent, { fromAt: box.left, toAt: box.right });
  return chart(
    { format, height: box.bottom + 30, says: saysOf(rows) },
    legend(isWide ? box.left : 4),
    horizontalAxis(scale, box, { name: duration }),
    rows.map((row, index) => rowMarkup(row, box.top + index * ROW_PX[format], scale, format)),
  );
}

function legend(x: number): Markup {
  return join(
    element("circle", { class: "gap", cx: x + 5, cy: 10, r: 5 }),
    words("one fault", { x: x + 15, y: 14 }, { class: "axis" }),
    element("line", { class: "median", x1: x + 90, x2: x + 90, y1: 2, y2: 18 }),
    words("median", { x: x + 97, y: 14 }, { class: "axis" }),
    element("line", { class: "allowed", x1: x + 160, x2: x + 160, y1: 2, y2: 18 }),
    words("allowed", { x: x + 167, y: 14 }, { class: "axis" }),
  );
}

const medianOf = (gaps: readonly number[]): number => gaps[Math.ceil(gaps.length / 2) - 1] ?? 0;

function rowMarkup(row: GapRow, top: number, scale: Scale, format: Format): Markup {
  const { title, gaps, allowedMs } = row;
  const isWide = format === "wide";
  const y = top + (isWide ? ROW_PX.wide / 2 : 38);
  const median = scale.at(Math.max(medianOf(gaps), 1));
  const isMissed = allowedMs !== undefined && (gaps.at(-1) ?? 0) > allowedMs;
  const figures = `${duration(medianOf(gaps))}, at most ${duration(gaps.at(-1) ?? 0)}`;
  return element(
    "g",
    {},
    element("line", { class: "grid", x1: scale.fromAt, x2: scale.toAt, y1: y, y2: y }),
    isWide
      ? words(shortened(title, scale.fromAt - 14), { x: scale.fromAt - 14, y: y + 4 }, { class: "name end" })
      : words(shortened(title, WIDTHS.narrow - widthOf(figures) - 12), { x: 0, y: top + 18 }, { class: "name" }),
    words(figures, isWide ? { x: scale.toAt + 10, y: y + 4 } : { x: WIDTHS.narrow, y: top + 18 }, {
      class: `value ${isWide ? "" : "end"} ${isMissed ? "missed" : ""}`.trim(),
    }),
    gaps.map((gapMs) => element("circle", { class: "gap", cx: scale.at(Math.max(gapMs, 1)), cy: y, r: 5 })),
    element("line", { class: "median", x1: median, x2: median, y1: y - 9, y2: y + 9 }),
    allowedMs !== undefined &&
      element("line", { class: "allowed", x1: scale.at(allowedMs), x2: scale.at(allowedMs), y1: y - 12, y2: y + 12 }),
    hint({ left: 0, right: WIDTHS[format], top, bottom: top + ROW_PX[format] }, wordsOf(row)),
  );
}

function wordsOf({ title, gaps, allowedMs }: GapRow): string {
  const allowed = allowedMs === undefined ? "" : `, allowed ${duration(allowedMs)}`;
  const [least, most] = [gaps[0] ?? 0, gaps.at(-1) ?? 0];
  return `${title}: ${gaps.length} times, ${duration(least)} to ${duration(most)}, median ${duration(medianOf(gaps))}${allowed}`;
}

const saysOf = (rows: readonly GapRow[]): string =>
  `The longest pause of a partition by fault: ${rows.map(wordsOf).join("; ")}`;
