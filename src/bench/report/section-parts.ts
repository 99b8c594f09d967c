// What sections of the page are made of.
import type { Format } from "./frame.ts";
import type { ReportRun } from "./gather.ts";
import { type Child, element, type Markup } from "./markup.ts";
import { labelWords } from "./run-labels.ts";

/** Figures beyond these are behind a line that opens them. */
const OPEN_MAX = 6;

export function section(title: string, lead: string, ...children: readonly Child[]): Markup {
  return element("section", {}, element("h2", {}, title), element("p", { class: "lead" }, lead), children);
}

const FORMATS: readonly Format[] = ["wide", "narrow"];

export function figure(
  title: string,
  draw: (format: Format) => Markup | undefined,
  ...below: readonly Child[]
): Markup | undefined {
  const charts = FORMATS.map(draw);
  if (charts.some((each) => each === undefined)) return undefined;
  return element("figure", {}, title !== "" && element("h3", {}, title), charts, below);
}

export function withRest(figures: readonly (Markup | undefined)[], what: string, openMax = OPEN_MAX): Child {
  const all = figures.filter((each) => each !== undefined);
  const rest = all.slice(openMax);
  if (rest.length === 0) return all;
  return [all.slice(0, openMax), element("details", {}, element("summary", {}, `${rest.length} more ${what}`), rest)];
}

export function groupTitle(group: readonly ReportRun[], varying: readonly string[]): string {
  const words = varying.flatMap((name) => {
    const value = group[0]?.run.labels[name];
    return value === undefined || value === null ? [] : [labelWords(name, value)];
  });
  return words.join(" · ");
}

export function chunksOf<Item>(items: readonly Item[], size: number): Item[][] {
  const count = Math.ceil(items.length / size);
  // As even as can be: nobody stands alone in a last chart.
  return Array.from({ length: count }, (_, index) =>
    items.slice(Math.round((index * items.length) / count), Math.round(((index + 1) * items.length) / count)),
  );
}
