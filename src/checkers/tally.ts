// How much: what was sent, acknowledged, lost, duplicated and out of order in a whole history, by topic and level of acknowledgement, with latency
// and gaps. What broke a promise is for the checkers to say; this counts, and excuses nothing.
import type { Acks } from "../client/types.ts";
import type { HistoryEvent } from "./history.ts";
import { TallyTaker } from "./tally-taker.ts";

/** A part of the run, for latency and gaps. Those with the same name are one. */
export interface TallyWindow {
  readonly name: string;
  readonly fromMs: number;
  readonly untilMs: number;
}

export interface TallyOptions {
  /** A send counts in the first of these that it overlaps, so the window of a fault goes first. */
  readonly windows?: readonly TallyWindow[];
  /** Scans from here on are final: nothing is sent any more. Default: those later than the last send of their partition. */
  readonly finalFromMs?: number;
}

export interface TallyCounts {
  readonly sent: number;
  /** Ended as ok. With acks=0 that says only that the record was handed to the connection. */
  readonly acknowledged: number;
  readonly failed: number;
  /** Ended as unknown, or not at all. */
  readonly unknown: number;
  /** Acknowledged, and in one of the final scans of its partition not at its offset; with acks=0, in one of them nowhere. */
  readonly lost: number;
  /** Records that stand at more than one offset. */
  readonly duplicated: number;
  /** Records that stand above a later one of the same producer, level and partition. */
  readonly outOfOrder: number;
  /** Read, though their send failed. */
  readonly failedButThere: number;
  /** Acknowledged where no final scan has read, or below where all of them began: nothing is known of them. Not 0: the tally proves nothing. */
  readonly unjudged: number;
}

export interface LatencyMs {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

export interface WindowFigures {
  readonly name: string;
  readonly acknowledged: number;
  /** From the call to its answer; undefined: none was acknowledged. */
  readonly latencyMs: LatencyMs | undefined;
  /** Between two acknowledgements of any partition; all of a gap that reaches into the window. */
  readonly longestGapMs: number;
  /** Of the partition that waited longest. */
  readonly longestPartitionGapMs: number;
}

export interface TallyRow extends TallyCounts {
  readonly topic: string;
  readonly acks: Acks;
  readonly longestGapMs: number;
  readonly longestPartitionGapMs: number;
  readonly windows: readonly WindowFigures[];
}

export interface Tally {
  /** By topic, then acks=0, 1, all. */
  readonly rows: readonly TallyRow[];
  readonly total: TallyCounts;
  /** Records that nobody sent. */
  readonly strangers: number;
  readonly longestGapMs: number;
  readonly longestPartitionGapMs: number;
  /** The first 20 lost, duplicated or out of order, in words. */
  readonly examples: readonly string[];
}

export function tally(events: Iterable<HistoryEvent>, options: TallyOptions = {}): Tally {
  const taker = new TallyTaker(options);
  for (const event of events) taker.observe(event);
  return taker.conclude();
}
