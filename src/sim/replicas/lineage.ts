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

/** First offset below `end` at which they differ; undefined when they do not. */
export function firstDifference(left: Lineage, right: Lineage, end: number): number | undefined {
  for (let at = 0; at < Math.max(left.length, right.length); at++) {
    const [mine, other] = [left[at], right[at]];
    const start = Math.min(mine?.start ?? end, other?.start ?? end);
    if (start >= end) return undefined;
    if (mine?.epoch !== other?.epoch || mine?.start !== other?.start) return start;
  }
  return undefined;
}

export function lineageText(lineage: Lineage, end: number): string {
  return `[${lineage.map(({ epoch, start }) => `${start}:e${epoch}`).join(" ")} ..${end})`;
}
