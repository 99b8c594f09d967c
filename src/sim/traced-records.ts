// Records with keys in a storage trace, and what compaction may have made of them: any number of times, of any of a log's segments, at any moment.
import { decodeRecords } from "../model/records.ts";
import { attributesAt, DELETE_HORIZON_BIT, lastOffsetDeltaAt, recordCountAt } from "../model/record-batch.ts";
import { utf8Decode } from "../base/bytes.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Codecs } from "../ports/codecs.ts";

export interface TracedRecord {
  readonly offset: number;
  readonly key: string;
  /** Checksum of the value; -1: a tombstone. */
  readonly sum: number;
}

/** A batch as it was accepted, or as a start gives it. */
export interface PlacedBatch {
  readonly base: number;
  readonly last: number;
  readonly sum: number;
  /** Of an accepted one in a log that is compacted: all its records. Of one that a start gives: those that compaction left, where it was at it. */
  readonly records?: readonly TracedRecord[] | undefined;
}

const DECOMPRESSED_BYTES_MAX = 1 << 20;

/** It is not as it was produced: records are missing, or it waits for the horizon of a tombstone. */
export const isCleaned = (batch: Uint8Array): boolean =>
  recordCountAt(batch, 0) !== lastOffsetDeltaAt(batch, 0) + 1 || (attributesAt(batch, 0) & DELETE_HORIZON_BIT) !== 0;

export function recordsOf(
  batch: Uint8Array,
  { checksum, codecs }: { readonly checksum: Checksum; readonly codecs: Codecs },
): readonly TracedRecord[] {
  const options = { checksum, codecs, decompressedBytesMax: DECOMPRESSED_BYTES_MAX };
  return [...decodeRecords(batch, options)].map(({ offset, key, value }) => ({
    offset,
    key: key === null ? "" : utf8Decode(key),
    sum: value === null ? -1 : checksum.crc32c(value),
  }));
}

/**
 * Invariants 4 and 20 of a log of which compaction may have been at anything: each batch is as it was accepted, or covers whole accepted ones and has some
 * of their records; of each key the newest one is there. Undefined: all of that holds. Callers have looked for gaps.
 *
 * Example: accepted [0 a=1] [1 b=1, 2 a=2] [3 b=2]  ->  [0 to 0, empty] [1 to 2: a=2] [3 b=2] is right, without a=2 it is not
 */
export function compactionFault(
  found: readonly PlacedBatch[],
  accepted: readonly PlacedBatch[],
  range: { readonly startOffset: number; readonly endOffset: number },
): string | undefined {
  const byBase = new Map(accepted.map((batch) => [batch.base, batch]));
  const there = new Set<number>();
  for (const batch of found) {
    const covered = coveredBy(batch, byBase);
    if (typeof covered === "string") return covered;
    const [only] = covered;
    const isAsAccepted = covered.length === 1 && only?.sum === batch.sum;
    const left = isAsAccepted ? only.records : batch.records;
    if (left === undefined) return `the batch at ${batch.base} has other bytes`;
    const fault = isAsAccepted ? undefined : strangerIn(left, covered);
    if (fault !== undefined) return fault;
    for (const { offset } of left) there.add(offset);
  }
  return missingIn(there, accepted, range);
}

/** The accepted batches that it stands for, or what is wrong. */
function coveredBy(batch: PlacedBatch, byBase: ReadonlyMap<number, PlacedBatch>): readonly PlacedBatch[] | string {
  const covered: PlacedBatch[] = [];
  for (let offset = batch.base; offset <= batch.last; ) {
    const original = byBase.get(offset);
    if (original === undefined || original.last > batch.last)
      return `the batch at ${batch.base} to ${batch.last} does not stand for whole accepted ones`;
    covered.push(original);
    offset = original.last + 1;
  }
  return covered;
}

function strangerIn(left: readonly TracedRecord[], covered: readonly PlacedBatch[]): string | undefined {
  const records = new Map(covered.flatMap((batch) => (batch.records ?? []).map((record) => [record.offset, record])));
  for (const { offset, key, sum } of left) {
    const original = records.get(offset);
    if (original === undefined || original.key !== key || original.sum !== sum)
      return `a record at ${offset} that was never accepted`;
  }
  return undefined;
}

function missingIn(
  there: ReadonlySet<number>,
  accepted: readonly PlacedBatch[],
  { startOffset, endOffset }: { readonly startOffset: number; readonly endOffset: number },
): string | undefined {
  const newest = new Map<string, number>();
  for (const { records = [] } of accepted)
    for (const { key, offset } of records) if (offset < endOffset) newest.set(key, offset);
  for (const [key, offset] of newest)
    if (offset >= startOffset && !there.has(offset)) return `the newest record of key ${key}, at ${offset}, is gone`;
  return undefined;
}
