// Making the entries of a segment's indexes as its batches pass, in the order of the file: the same entries whether the batches are being
// appended, read again after a start, or written for a replacement.
import { OffsetIndex } from "./offset-index.ts";
import { TimeIndex } from "./time-index.ts";

/** A batch at the end of a segment. */
export interface NotedBatch {
  readonly position: number;
  readonly last: number;
  readonly sizeBytes: number;
  readonly maxTimestamp: number;
  /** Compaction may have left none. */
  readonly hasRecords: boolean;
}

/** As far as a segment's batches have passed. */
export interface IndexedRange {
  readonly base: number;
  /** Undefined: not loaded. */
  index: OffsetIndex | undefined;
  /** Undefined: not loaded. */
  times: TimeIndex | undefined;
  bytesSinceIndexEntry: number;
  firstTimestamp: number;
  maxTimestamp: number;
  /** The largest of a batch that has records, and the last offset of the first of these batches, relative to the base; -1: none has a timestamp. */
  newestTimestamp: number;
  newestRelative: number;
}

export function emptyRange(base: number): IndexedRange {
  return {
    base,
    index: new OffsetIndex(),
    times: new TimeIndex(),
    bytesSinceIndexEntry: 0,
    firstTimestamp: -1,
    maxTimestamp: -1,
    newestTimestamp: -1,
    newestRelative: -1,
  };
}

/** S-12, S-13: entries when more than the interval was written since the last ones. */
export function noteBatch(range: IndexedRange, batch: NotedBatch, intervalBytes: number): void {
  const relativeLast = batch.last - range.base;
  if (batch.position === 0) range.firstTimestamp = batch.maxTimestamp;
  range.maxTimestamp = Math.max(range.maxTimestamp, batch.maxTimestamp);
  if (batch.hasRecords && batch.maxTimestamp > range.newestTimestamp) {
    range.newestTimestamp = batch.maxTimestamp;
    range.newestRelative = relativeLast;
  }
  if (range.bytesSinceIndexEntry > intervalBytes) {
    range.index?.add({ relativeLast, position: batch.position });
    range.times?.add({ timestamp: range.newestTimestamp, relativeLast: range.newestRelative });
    range.bytesSinceIndexEntry = 0;
  }
  range.bytesSinceIndexEntry += batch.sizeBytes;
}

/**
 * S-10: the last entry of a segment that gets no more batches is its newest timestamp. One without an entry in its offset index is so short that it
 * needs none.
 */
export function sealTimes(range: IndexedRange): void {
  if (range.index === undefined || range.index.count === 0) return;
  range.times?.add({ timestamp: range.newestTimestamp, relativeLast: range.newestRelative });
}

/**
 * S-14: forgets the batches that reach to `relative` or beyond, as if they had never passed, and gives the position to read on from: what the range
 * knows is of the batches before that one.
 */
export function forgetFrom(range: IndexedRange, relative: number): number {
  const { index, times } = range;
  index?.truncateTo(relative);
  const last = index?.last;
  if (last === undefined) times?.clear();
  else times?.truncateBehind(last.relativeLast);
  range.bytesSinceIndexEntry = 0;
  range.newestTimestamp = times?.last?.timestamp ?? -1;
  range.maxTimestamp = range.newestTimestamp;
  range.newestRelative = times?.last?.relativeLast ?? -1;
  return last?.position ?? 0;
}
