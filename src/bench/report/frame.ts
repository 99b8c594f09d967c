// What all charts have in common: a box with a grid, axes with words and units, and lines in it.
import { type Attributes, type Child, coordinate, element, join, type Markup } from "./markup.ts";
import type { Scale, Tick } from "./scale.ts";

/** Every chart is drawn twice, and the page shows the one that fits: letters of a wide one would be too small on a phone. */
export type Format = "wide" | "narrow";

export const WIDTHS: Readonly<Record<Format, number>> = { wide: 960, narrow: 358 };

export interface Box {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** About, of a wide typeface at 12 px; labels are placed with it. */
const LETTER_PX = 7;
export const widthOf = (text: string): number => text.length * LETTER_PX;

export function shortened(text: string, widthPx: number): string {
  const letters = Math.floor(widthPx / LETTER_PX);
  return text.length <= letters ? text : `${text.slice(0, Math.max(letters - 1, 1)).trimEnd()}…`;
}

export interface ChartOptions {
  readonly format: Format;
  readonly height: number;
  /** For who does not see it. */
  readonly says: string;
}

export function chart({ format, height, says }: ChartOptions, ...children: readonly Child[]): Markup {
  const width = WIDTHS[format];
  return element(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      class: `chart ${format}`,
      viewBox: `0 0 ${coordinate(width)} ${coordinate(height)}`,
      width,
      height,
      role: "img",
      "aria-label": says,
    },
    children,
  );
}

export function words(text: string, place: Point, attributes: Attributes = {}): Markup {
  return element("text", { ...place, ...attributes }, text);
}

/** Lines and words of the values of a vertical axis. */
export function verticalAxis(scale: Scale, box: Box, name: (value: number) => string): Markup {
  const lines = scale.ticks.map(({ at, isMinor }) =>
    element("line", { class: isMinor ? "grid faint" : "grid", x1: box.left, x2: box.right, y1: at, y2: at }),
  );
  const names = scale.ticks
    .filter(({ isMinor }) => !isMinor)
    .map(({ value, at }) => words(name(value), { x: box.left - 8, y: at + 4 }, { class: "tick end" }));
  return join(lines, names);
}

export interface HorizontalOptions {
  readonly name: (value: number) => string;
  readonly hasLines?: boolean;
}

/** Words that would touch each other are left out. */
export function horizontalAxis(scale: Scale, box: Box, options: HorizontalOptions): Markup {
  const { name, hasLines = true } = options;
  const lines = hasLines
    ? scale.ticks.map(({ at, isMinor }) =>
        element("line", { class: isMinor ? "grid faint" : "grid", x1: at, x2: at, y1: box.top, y2: box.bottom }),
      )
    : [];
  const y = box.bottom + 17;
  const named = scale.ticks.filter(({ isMinor }) => !isMinor);
  const main = named.filter(({ isMain }) => isMain);
  const shown = apart(named, name).length === named.length || main.length < 2 ? named : main;
  return join(
    lines,
    apart(shown, name).map(({ value, at }) => words(name(value), { x: at, y }, { class: "tick middle" })),
  );
}

/** From the left on, those whose words do not touch the ones before. */
function apart(ticks: readonly Tick[], name: (value: number) => string): Tick[] {
  let endsAt = -Infinity;
  return ticks.filter(({ value, at }) => {
    const half = widthOf(name(value)) / 2;
    if (at - half < endsAt + 6) return false;
    endsAt = at + half;
    return true;
  });
}

/** Parts are not joined with each other. */
export function linePath(parts: readonly (readonly Point[])[]): string {
  return parts
    .filter((part) => part.length > 0)
    .map((part) => {
      const [first, ...rest] = part.map(({ x, y }) => `${coordinate(x)} ${coordinate(y)}`);
      // A point by itself is a dot: a line of no length with round ends.
      return `M${first}${rest.length === 0 ? "h0" : rest.map((point) => `L${point}`).join("")}`;
    })
    .join("");
}

/** Heights at which labels do not touch, each as near as can be to where it belongs, in the same order. */
export function spread(
  wanted: readonly number[],
  gapPx: number,
  { top, bottom }: Pick<Box, "top" | "bottom">,
): number[] {
  const order = wanted.map((at, index) => ({ at, index })).sort((left, right) => left.at - right.at);
  let floor = top;
  const placed = order.map(({ at, index }) => {
    const y = Math.max(at, floor);
    floor = y + gapPx;
    return { y, index };
  });
  let ceiling = bottom;
  for (const label of placed.toReversed()) {
    label.y = Math.min(label.y, ceiling);
    ceiling = label.y - gapPx;
  }
  return placed.sort((left, right) => left.index - right.index).map(({ y }) => y);
}

/** What a pointer that rests there is told; the script of the page makes a box of it. */
export function hint(box: Box, text: string): Markup {
  const { left, top, right, bottom } = box;
  return element(
    "rect",
    { class: "hint", x: left, y: top, width: Math.max(right - left, 0), height: Math.max(bottom - top, 0) },
    element("title", {}, text),
  );
}
