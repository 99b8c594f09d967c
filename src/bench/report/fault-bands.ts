// Faults over time: shaded bands, each with its label where there is room for all of them, else with its number in the list below the chart.
import type { FaultSpan } from "../result.ts";
import { type Box, hint, widthOf, words } from "./frame.ts";
import { element, join, type Markup } from "./markup.ts";
import type { Scale } from "./scale.ts";
import { duration } from "./units.ts";

const ROWS_MAX = 3;
const ROW_PX = 17;
const GAP_PX = 8;
/** A fault of an instant is seen, too. */
const WIDTH_MIN_PX = 3;

export interface PlacedLabel {
  readonly text: string;
  readonly x: number;
  readonly row: number;
}

export interface BandPlan {
  /** Rows of labels above the plot. */
  readonly rows: number;
  readonly heightPx: number;
  /** By fault; undefined: there is no room, it has only its place in the list. */
  readonly labels: readonly (PlacedLabel | undefined)[];
}

/** In order of time, as they are numbered. */
export const faultsInOrder = (faults: readonly FaultSpan[]): readonly FaultSpan[] =>
  faults
    .filter(({ atMs, untilMs }) => Number.isFinite(atMs) && Number.isFinite(untilMs))
    .toSorted((left, right) => left.atMs - right.atMs || left.untilMs - right.untilMs);

export function planBands(faults: readonly FaultSpan[], scale: Scale, wantsWords: boolean): BandPlan {
  const spelled = wantsWords
    ? place(
        faults.map(({ label }) => label),
        faults,
        scale,
      )
    : undefined;
  const isWhole = spelled !== undefined && spelled.every((label) => label !== undefined);
  const labels = isWhole
    ? spelled
    : place(
        faults.map((_, index) => String(index + 1)),
        faults,
        scale,
      );
  const rows = Math.max(0, ...labels.map((label) => (label === undefined ? 0 : label.row + 1)));
  return { rows, heightPx: rows * ROW_PX, labels };
}

/** Each in the first row where it does not touch the one before. */
function place(texts: readonly string[], faults: readonly FaultSpan[], scale: Scale): (PlacedLabel | undefined)[] {
  const ends: number[] = Array.from({ length: ROWS_MAX }, () => -Infinity);
  return faults.map(({ atMs, untilMs }, index) => {
    const text = texts[index] ?? "";
    const half = widthOf(text) / 2;
    const middle = (scale.at(atMs) + scale.at(untilMs)) / 2;
    const x = Math.min(Math.max(middle, scale.fromAt + half), Math.max(scale.toAt - half, scale.fromAt + half));
    const row = ends.findIndex((end) => x - half >= end + GAP_PX);
    if (row < 0 || half * 2 > scale.toAt - scale.fromAt) return undefined;
    ends[row] = x + half;
    return { text, x, row };
  });
}

/** `box` is the plot; labels stand above it. */
export function bands(faults: readonly FaultSpan[], plan: BandPlan, scale: Scale, box: Box): Markup {
  return join(
    faults.map((fault, index) => {
      const x = scale.at(fault.atMs);
      const width = Math.max(scale.at(fault.untilMs) - x, WIDTH_MIN_PX);
      const label = plan.labels[index];
      const y = box.top - 7 - (label === undefined ? 0 : label.row * ROW_PX);
      return element(
        "g",
        { class: "fault" },
        element("rect", { class: "band", x, y: box.top, width, height: box.bottom - box.top }),
        element("line", { class: "edge", x1: x, x2: x + width, y1: box.top, y2: box.top }),
        label !== undefined && words(label.text, { x: label.x, y }, { class: "band-label middle" }),
        hint({ left: x, right: x + Math.max(width, 8), top: y - 11, bottom: box.top }, faultWords(fault)),
      );
    }),
  );
}

export function faultWords({ label, atMs, untilMs, gapMs }: FaultSpan): string {
  const gap = gapMs === null ? "" : `; longest pause of a partition ${duration(gapMs)}`;
  return `${label}: at ${duration(atMs)} for ${duration(untilMs - atMs)}${gap}`;
}
