// Which leader wrote what of a log: the epochs that have records, each with its first offset. One epoch has one writer (D-1), so two logs
// with equal lineages below an offset are equal below it; no bytes need to be kept to know that.

export interface Span {
  readonly epoch: number;
  readonly start: number;
}

/** Oldest first, both columns rise. */
export type Lineage = readonly Span[];

/** Of the epochs that a log has opened: those with records, the last one up to `end`. */
export function lineageOf(
  epochs: readonly { readonly epoch: number; readonly startOffset: number }[],
  startOffset: number,
  end: number,
): Lineage {
  const spans: Span[] = [];
  epochs.forEach(({ epoch, startOffset: opened }, at) => {
    const start = Math.max(opened, startOffset);
    const until = Math.min(epochs[at + 1]?.startOffset ?? end, end);
    if (start < until) spans.push({ epoch, start });
  });
  return spans;
}

export function lineageBelow(lineage: Lineage, end: number): Lineage {
  const last = lineage.at(-1);
  return last === undefined || last.start < end ? lineage : lineage.filter(({ start }) => start < end);
}

/** What is left of it when the log begins there. */
export function lineageFrom(lineage: Lineage, start: number): Lineage {
  if ((lineage[0]?.start ?? start) >= start) return lineage;
  let first = 0;
  while ((lineage[first + 1]?.start ?? Number.POSITIVE_INFINITY) <= start) first++;
  return lineage.slice(first).map((span) => ({ epoch: span.epoch, start: Math.max(span.start, start) }));
}

/** Of the record that stands there. */
export function epochAt(lineage: Lineage, offset: number): number | undefined {
  return lineage.findLast(({ start }) => start <= offset)?.epoch;
}

/** Of a log that begins above `below`, together with what was there before it. */
export function joined(below: Lineage, lineage: Lineage): Lineage {
  const [first] = lineage;
  if (first === undefined) return below;
  const lower = below.filter(({ start }) => start < first.start);
  return lower.at(-1)?.epoch === first.epoch ? [...lower, ...lineage.slice(1)] : [...lower, ...lineage];
}

/** First offset in [from, end) at which they differ; undefined when they do not. */
export function firstDifference(left: Lineage, right: Lineage, end: number, from = 0): number | undefined {
  const [one, another] = [lineageFrom(left, from), lineageFrom(right, from)];
  for (let at = 0; at < Math.max(one.length, another.length); at++) {
    const [mine, other] = [one[at], another[at]];
    const start = Math.min(mine?.start ?? end, other?.start ?? end);
    if (start >= end) return undefined;
    if (mine?.epoch !== other?.epoch || mine?.start !== other?.start) return start;
  }
  return undefined;
}

export function lineageText(lineage: Lineage, end: number): string {
  return `[${lineage.map(({ epoch, start }) => `${start}:e${epoch}`).join(" ")} ..${end})`;
}
