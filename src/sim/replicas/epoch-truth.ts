// The records of one leader epoch of one partition, as its leader wrote them: what every copy must be equal to.
import type { ProducerFields } from "../../model/batch-header.ts";
import type { ToldProducers } from "../../model/producer-records.ts";
import type { Lineage } from "./lineage.ts";

/** One batch: where it stands, and a sum over what it holds. */
export interface BatchSeen {
  readonly base: number;
  /** Inclusive. */
  readonly last: number;
  readonly epoch: number;
  readonly sum: number;
  /** Its producer's; undefined: it has none. */
  readonly numbers?: ProducerFields & { readonly crc: number };
  /** A control batch that speaks of producers. */
  readonly told?: ToldProducers | undefined;
}

export class EpochTruth {
  readonly epoch: number;
  /** The process that leads in it. */
  readonly writer: string;
  readonly start: number;
  /** Of the leader's log below the start. */
  readonly before: Lineage;
  readonly #batches: BatchSeen[] = [];

  constructor(epoch: number, options: { readonly writer: string; readonly start: number; readonly before: Lineage }) {
    this.epoch = epoch;
    this.writer = options.writer;
    this.start = options.start;
    this.before = options.before;
  }

  /** Exclusive. */
  get end(): number {
    return (this.#batches.at(-1)?.last ?? this.start - 1) + 1;
  }

  push(batch: BatchSeen): void {
    this.#batches.push(batch);
  }

  /** The leader's disk had no room for what begins here. */
  cut(end: number): void {
    while (this.end > end && this.#batches.length > 0) this.#batches.pop();
  }

  /** The batch that begins there. */
  at(base: number): BatchSeen | undefined {
    let [low, high] = [0, this.#batches.length - 1];
    while (low <= high) {
      const middle = (low + high) >> 1;
      const batch = this.#batches[middle];
      if (batch === undefined || batch.base === base) return batch;
      if (batch.base < base) low = middle + 1;
      else high = middle - 1;
    }
    return undefined;
  }

  /** Those that lie below it as a whole. */
  *below(end: number): IterableIterator<BatchSeen> {
    for (const batch of this.beginningBelow(end)) if (batch.last < end) yield batch;
  }

  *beginningBelow(end: number): IterableIterator<BatchSeen> {
    for (const batch of this.#batches) {
      if (batch.base >= end) return;
      yield batch;
    }
  }

  /** Does a batch end, or the epoch begin, right before this offset? */
  isBoundary(offset: number): boolean {
    return offset === this.start || offset === this.end || this.at(offset) !== undefined;
  }
}
