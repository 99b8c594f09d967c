// Runs one below the other: a bar for its throughput, marks for its latencies, on axes that all groups share.
import type { BenchRun } from "../result.ts";
import { chart, type Format, hint, horizontalAxis, shortened, WIDTHS, widthOf, words } from "./frame.ts";
import { element, join, type Markup } from "./markup.ts";
import { extentOf, linearScale, logScale, type Scale } from "./scale.ts";
import { duration, rate, throughput } from "./units.ts";

export interface CompareRow {
  readonly run: BenchRun;
  readonly title: string;
  /** Of the bar. */
  readonly colour: string;
}

export interface CompareGroup {
  /** Empty: there is only one. */
  readonly title: string;
  readonly rows: readonly CompareRow[];
}

export interface CompareRange {
  readonly mbPerSecondMax: number;
  readonly latency: { readonly min: number; readonly max: number } | undefined;
  readonly rawDiskMBs: number | null;
}

/** The raw disk is a line in the chart as long as the bars stay long enough to be compared. */
const RAW_TIMES_MAX = 1.7;

const MARKS = ["p50", "p99", "p999", "max"] as const;
type Mark = (typeof MARKS)[number];
const MARK_NAMES: Readonly<Record<Mark, string>> = { p50: "p50", p99: "p99", p999: "p99.9", max: "max" };

interface Layout {
  readonly rowPx: number;
  readonly bar: { readonly left: number; readonly right: number };
  readonly dots: { readonly left: number; readonly right: number };
  /** Titles stand above their bars: they are too long to stand beside them. */
  readonly isAbove: boolean;
  /** The middle of the bar and of the marks, from the top of a row. */
  readonly barAt: number;
  readonly dotsAt: number;
}

const TITLE_PX = 34;
const BAR_PX = 18;
const HEAD_PX = 36;
const FOOT_PX = 30;
/** Titles beside their bars take at most so much. */
const BESIDE_PX = 220;

function layoutOf(groups: readonly CompareGroup[], format: Format): Layout {
  if (format === "narrow") {
    const wide = { left: 0, right: 206 };
    return { rowPx: 84, bar: wide, dots: { left: 14, right: 344 }, isAbove: true, barAt: 34, dotsAt: 62 };
  }
  const titlePx = 12 + Math.max(...groups.flatMap(({ rows }) => rows.map(({ title }) => widthOf(title))));
  const dots = { left: 580, right: 936 };
  if (titlePx > BESIDE_PX)
    return { rowPx: 54, bar: { left: 0, right: 390 }, dots, isAbove: true, barAt: 35, dotsAt: 35 };
  return { rowPx: 34, bar: { left: titlePx, right: 400 }, dots, isAbove: false, barAt: 17, dotsAt: 17 };
}

export function rangeOf(groups: readonly CompareGroup[], rawDiskMBs: number | null): CompareRange {
  const runs = groups.flatMap(({ rows }) => rows.map(({ run }) => run));
  const values = runs.flatMap(({ latencyMs }) => (latencyMs === null ? [] : MARKS.map((mark) => latencyMs[mark])));
  const max = extentOf(runs.map(({ mbPerSecond }) => mbPerSecond))?.max ?? 0;
  return { mbPerSecondMax: max > 0 ? max : 1, latency: extentOf(values.filter((value) => value > 0)), rawDiskMBs };
}

export function compareChart(groups: readonly CompareGroup[], range: CompareRange, format: Format): Markup {
  const layout = layoutOf(groups, format);
  const isRawShown = range.rawDiskMBs !== null && range.rawDiskMBs <= range.mbPerSecondMax * RAW_TIMES_MAX;
  const barMax = isRawShown ? Math.max(range.rawDiskMBs ?? 0, range.mbPerSecondMax) : range.mbPerSecondMax;
  const bar = linearScale({ min: 0, max: barMax }, { fromAt: layout.bar.left, toAt: layout.bar.right, stepsMax: 4 });
  const dots = range.latency && logScale(range.latency, { fromAt: layout.dots.left, toAt: layout.dots.right });
  const top = HEAD_PX + (isRawShown ? 18 : 0);
  const heights = groups.map(({ title, rows }) => (title === "" ? 0 : TITLE_PX) + rows.length * layout.rowPx);
  const bottom = top + heights.reduce((sum, height) => sum + height, 0);
  const tops = heights.map((_, index) => top + heights.slice(0, index).reduce((sum, height) => sum + height, 0));
  const rawAt = isRawShown ? bar.at(range.rawDiskMBs ?? 0) : undefined;
  const spot = { bar, dots, format, layout, top, bottom, rawAt };
  return chart(
    { format, height: bottom + FOOT_PX, says: saysOf(groups) },
    axes(spot),
    rawLine(range.rawDiskMBs ?? 0, spot),
    groups.map((group, index) => groupMarkup(group, tops[index] ?? top, spot)),
  );
}

interface Spot {
  readonly bar: Scale;
  readonly dots: Scale | undefined;
  readonly format: Format;
  readonly layout: Layout;
  readonly top: number;
  readonly bottom: number;
  /** Of the raw disk; undefined: not shown. */
  readonly rawAt: number | undefined;
}

function axes({ bar, dots, format, layout, top, bottom }: Spot): Markup {
  const isWide = format === "wide";
  return join(
    isWide && words("throughput, MB/s of values", { x: layout.bar.left, y: 14 }, { class: "axis" }),
    isWide && horizontalAxis(bar, { ...layout.bar, top: top - 4, bottom }, { name: String }),
    dots !== undefined &&
      horizontalAxis(dots, { ...layout.dots, top: top - 4, bottom }, { name: duration, hasLines: isWide }),
    dots !== undefined && legend(isWide ? layout.dots.left : 0, 14),
  );
}

function legend(left: number, y: number): Markup {
  let x = left;
  const marks = MARKS.map((mark) => {
    const markup = join(markShape(mark, x + 6, y - 4), words(MARK_NAMES[mark], { x: x + 16, y }, { class: "axis" }));
    x += widthOf(MARK_NAMES[mark]) + 32;
    return markup;
  });
  return join(marks, words("latency, log scale", { x, y }, { class: "axis" }));
}

function rawLine(rawDiskMBs: number, { rawAt, format, top, bottom }: Spot): Markup | undefined {
  if (rawAt === undefined) return undefined;
  const isWide = format === "wide";
  const text = isWide ? `raw disk ${throughput(rawDiskMBs)}` : "raw disk";
  return join(
    isWide && element("line", { class: "limit", x1: rawAt, x2: rawAt, y1: top - 4, y2: bottom }),
    words(text, { x: rawAt, y: top - 9 }, { class: `axis ${isWide ? "middle" : "end"}` }),
  );
}

function groupMarkup({ title, rows }: CompareGroup, top: number, spot: Spot): Markup {
  const start = title === "" ? top : top + TITLE_PX;
  return join(
    title !== "" && words(shortened(title, WIDTHS[spot.format]), { x: 0, y: top + 21 }, { class: "group" }),
    rows.map((row, index) => rowMarkup(row, start + index * spot.layout.rowPx, spot)),
  );
}

function rowMarkup({ run, title, colour }: CompareRow, top: number, spot: Spot): Markup {
  const { bar, format, layout } = spot;
  const end = Math.max(bar.at(run.mbPerSecond), layout.bar.left + 1);
  const y = top + layout.barAt;
  const figures = `${throughput(run.mbPerSecond)} · ${rate(run.recordsPerSecond)}`;
  return element(
    "g",
    {},
    element("rect", {
      class: `bar ${colour}`,
      x: layout.bar.left,
      y: y - BAR_PX / 2,
      width: end - layout.bar.left,
      height: BAR_PX,
      rx: 2,
    }),
    // Where latencies stand below the bars, a line through both would belong to neither.
    spot.rawAt !== undefined &&
      format === "narrow" &&
      element("line", { class: "limit", x1: spot.rawAt, x2: spot.rawAt, y1: y - 13, y2: y + 13 }),
    layout.isAbove
      ? words(
          shortened(title, format === "wide" ? layout.dots.left - 20 : WIDTHS.narrow),
          { x: 0, y: top + 17 },
          { class: "name" },
        )
      : words(title, { x: layout.bar.left - 10, y: y + 4.5 }, { class: "name end" }),
    words(figures, { x: end + 8, y: y + 4.5 }, { class: "value halo" }),
    dotMarkup(run, top + layout.dotsAt, spot),
    hint({ left: 0, right: WIDTHS[format], top, bottom: top + layout.rowPx }, rowWords(run, title)),
  );
}

function dotMarkup({ latencyMs }: BenchRun, y: number, { layout, dots, format }: Spot): Markup {
  if (latencyMs === null || dots === undefined)
    return words("latency not measured", { x: layout.dots.left, y: y + 4 }, { class: "axis" });
  const at = (mark: Mark): number => dots.at(latencyMs[mark]);
  const lines =
    format === "narrow" &&
    dots.ticks.map((tick) =>
      element("line", { class: "grid faint", x1: tick.at, x2: tick.at, y1: y - 12, y2: y + 12 }),
    );
  const span = element("line", { class: "span", x1: at("p50"), x2: at("max"), y1: y, y2: y });
  return join(
    lines,
    span,
    MARKS.toReversed().map((mark) => markShape(mark, at(mark), y)),
  );
}

/** Told apart by their form alone. */
function markShape(mark: Mark, x: number, y: number): Markup {
  switch (mark) {
    case "p50":
      return element("circle", { class: "mark p50", cx: x, cy: y, r: 5 });
    case "p99":
      return element("rect", { class: "mark p99", x: x - 4.5, y: y - 4.5, width: 9, height: 9 });
    case "p999":
      return element("path", { class: "mark p999", d: `M${x.toFixed(1)} ${(y - 6).toFixed(1)}l6 6l-6 6l-6 -6Z` });
    case "max":
      return element("line", { class: "mark max", x1: x, x2: x, y1: y - 7, y2: y + 7 });
  }
}

function rowWords(run: BenchRun, title: string): string {
  const latency =
    run.latencyMs === null
      ? ""
      : `; ${MARKS.map((mark) => `${MARK_NAMES[mark]} ${duration(run.latencyMs?.[mark] ?? Number.NaN)}`).join(", ")}`;
  return `${title}: ${throughput(run.mbPerSecond)}, ${rate(run.recordsPerSecond)}${latency}`;
}

const saysOf = (groups: readonly CompareGroup[]): string =>
  groups
    .map(({ title, rows }) => {
      const each = rows.map((row) => `${row.title} ${throughput(row.run.mbPerSecond)}`).join(", ");
      return title === "" ? each : `${title}: ${each}`;
    })
    .join("; ");
