// The figures of a tally: counts of a row, latency by window, and a line for each of the records that something is wrong with.
import type { LatencyMs, TallyCounts, TallyRow, TallyWindow, WindowFigures } from "./tally.ts";
import { isLost, type Send } from "./tally-sends.ts";
import type { OpenRow } from "./tally-taker.ts";

export class LatencyBins {
  readonly #windows: readonly TallyWindow[];
  readonly #samples = new Map<string, number[]>();

  constructor(windows: readonly TallyWindow[]) {
    this.#windows = windows;
    for (const { name } of windows) this.#samples.set(name, []);
  }

  add(invokedMs: number, endedMs: number): void {
    const window = this.#windows.find(({ fromMs, untilMs }) => invokedMs < untilMs && endedMs >= fromMs);
    if (window !== undefined) this.#samples.get(window.name)?.push(endedMs - invokedMs);
  }

  /** By window. */
  get figures(): readonly {
    readonly name: string;
    readonly acknowledged: number;
    readonly latencyMs: LatencyMs | undefined;
  }[] {
    return [...this.#samples].map(([name, samples]) => ({
      name,
      acknowledged: samples.length,
      latencyMs: latencyOf(Float64Array.from(samples).sort()),
    }));
  }
}

function latencyOf(sorted: Float64Array): LatencyMs | undefined {
  if (sorted.length === 0) return undefined;
  return { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99), max: quantile(sorted, 1) };
}

/** Nearest rank: a value that was measured. */
function quantile(sorted: Float64Array, part: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? 0;
}

export function rowOf(row: OpenRow): TallyRow {
  const partitions = [...row.partitionGaps.values()].map(({ gaps }) => gaps);
  return {
    topic: row.topic,
    acks: row.acks,
    ...countsOf(row.sends),
    longestGapMs: row.gaps.longestMs,
    longestPartitionGapMs: Math.max(0, ...partitions.map((gaps) => gaps.longestMs)),
    windows: row.latency.figures.map(
      (figures): WindowFigures => ({
        ...figures,
        longestGapMs: row.gaps.longestIn(figures.name),
        longestPartitionGapMs: Math.max(0, ...partitions.map((gaps) => gaps.longestIn(figures.name))),
      }),
    ),
  };
}

function countsOf(sends: readonly Send[]): TallyCounts {
  const count = (is: (send: Send) => boolean): number => sends.reduce((sum, send) => sum + (is(send) ? 1 : 0), 0);
  return {
    sent: sends.length,
    acknowledged: count(({ outcome }) => outcome === "ok"),
    failed: count(({ outcome }) => outcome === "failed"),
    unknown: count(({ outcome }) => outcome === "unknown"),
    lost: count((send) => send.outcome === "ok" && isLost(send) === true),
    duplicated: count((send) => send.isDuplicated),
    outOfOrder: count((send) => send.isOutOfOrder),
    failedButThere: count((send) => send.outcome === "failed" && send.foundAt !== undefined),
    unjudged: count((send) => send.outcome === "ok" && isLost(send) === undefined),
  };
}

export function totalOf(rows: readonly TallyCounts[]): TallyCounts {
  const sum = (of: (row: TallyCounts) => number): number => rows.reduce((total, row) => total + of(row), 0);
  return {
    sent: sum((row) => row.sent),
    acknowledged: sum((row) => row.acknowledged),
    failed: sum((row) => row.failed),
    unknown: sum((row) => row.unknown),
    lost: sum((row) => row.lost),
    duplicated: sum((row) => row.duplicated),
    outOfOrder: sum((row) => row.outOfOrder),
    failedButThere: sum((row) => row.failedButThere),
    unjudged: sum((row) => row.unjudged),
  };
}

export function exampleOf(send: Send): readonly string[] {
  const { partition, acks, process, order, offset, foundAt } = send;
  const what = `${partition.topic}-${partition.partition}: record ${order} of ${process} (acks=${acks})`;
  if (send.outcome === "ok" && isLost(send) === true)
    return [`${what}, acknowledged${offset === undefined ? "" : ` at ${offset}`}, is lost`];
  if (send.outcome === "failed" && foundAt !== undefined) return [`${what} failed and stands at ${foundAt}`];
  if (send.isDuplicated) return [`${what} stands at ${foundAt} and once more`];
  return send.isOutOfOrder ? [`${what} stands above a later one`] : [];
}
