// Taking whole, checked batches out of bytes read from a segment.
import { keepable } from "../base/bytes.ts";
import type { Offset } from "../model/ids.ts";
import {
  BATCH_HEADER_BYTES,
  baseOffsetAt,
  batchSizeAt,
  checkStoredBatch,
  lastOffsetAt,
  leaderEpochAt,
} from "../model/record-batch.ts";
import type { Checksum } from "../ports/checksum.ts";
import { storageError } from "./faults.ts";
import { epochBefore } from "./epochs.ts";
import type { EpochEntry, ReadOptions, ReadResult } from "./types.ts";

export interface CollectOptions {
  readonly offset: number;
  readonly options: ReadOptions;
  readonly epochs: readonly EpochEntry[];
  readonly checksum: Checksum;
  /** Of the bytes, for messages. */
  readonly path: string;
  readonly position: number;
}

/** A result, or how far to go on and how much is needed there at least. */
export type Collected =
  | { readonly kind: "done"; readonly result: ReadResult }
  | { readonly kind: "more"; readonly skippedBytes: number; readonly neededBytes: number };

export function emptyRead(offset: number): ReadResult {
  return { chunks: [], sizeBytes: 0, nextOffset: offset as Offset };
}

/**
 * The batches from the one that holds the offset on, checked by CRC and place. Ends before a damaged batch; throws STORAGE_ERROR when
 * the wanted one is damaged.
 */
export function collectBatches(bytes: Uint8Array, from: CollectOptions): Collected {
  const skipped = skipTo(bytes, from);
  if (skipped.kind !== "at") return skipped;
  const { at: start } = skipped;
  const { offset, options } = from;
  const firstBytes = batchSizeAt(bytes, start);
  if (firstBytes >= BATCH_HEADER_BYTES && firstBytes > options.maxBytes && !options.atLeastOne) {
    return { kind: "done", result: emptyRead(offset) };
  }
  const { end, nextOffset } = runFrom(bytes, start, from);
  if (end === undefined) return { kind: "more", skippedBytes: start, neededBytes: firstBytes };
  if (end === start) return { kind: "done", result: emptyRead(offset) };
  const chunk = keepable(bytes.subarray(start, end));
  return { kind: "done", result: { chunks: [chunk], sizeBytes: chunk.length, nextOffset: nextOffset as Offset } };
}

/** Where the batch that holds the offset starts, going by the headers of those before it. */
function skipTo(bytes: Uint8Array, from: CollectOptions): Collected | { readonly kind: "at"; readonly at: number } {
  let at = 0;
  while (at + BATCH_HEADER_BYTES <= bytes.length && lastOffsetAt(bytes, at) < from.offset) {
    const sizeBytes = batchSizeAt(bytes, at);
    if (sizeBytes < BATCH_HEADER_BYTES) {
      throw storageError(`${from.path}: batch size ${sizeBytes} at position ${from.position + at}`);
    }
    at += sizeBytes;
    if (at > bytes.length) return { kind: "more", skippedBytes: at, neededBytes: 0 };
  }
  if (at + BATCH_HEADER_BYTES > bytes.length)
    return { kind: "more", skippedBytes: at, neededBytes: BATCH_HEADER_BYTES };
  return { kind: "at", at };
}

/** Where the run of batches ends that may be given; undefined when not even the first is whole in these bytes. */
function runFrom(
  bytes: Uint8Array,
  start: number,
  from: CollectOptions,
): { readonly end: number | undefined; readonly nextOffset: number } {
  const { offset, options, checksum, epochs } = from;
  let at = start;
  let nextOffset = offset;
  while (at < bytes.length) {
    const isFirst = at === start;
    const check = checkStoredBatch(bytes, at, { end: bytes.length, checksum });
    if (check.kind === "incomplete") return { end: isFirst ? undefined : at, nextOffset };
    const base = baseOffsetAt(bytes, at);
    const epoch = leaderEpochAt(bytes, at);
    const last = lastOffsetAt(bytes, at);
    // Neither is covered by the batch's CRC.
    const isInPlace = (isFirst ? base <= offset : base === nextOffset) && epoch === epochBefore(epochs, last + 1);
    if (check.kind === "corrupt" || !isInPlace) {
      if (!isFirst) break;
      const reason = check.kind === "corrupt" ? check.reason : `the batch says offset ${base} and epoch ${epoch}`;
      throw storageError(`${from.path}: ${reason} at position ${from.position + at}, looking for offset ${offset}`);
    }
    if (!isFirst && at + check.sizeBytes - start > options.maxBytes) break;
    if (last >= options.limitOffset) break;
    at += check.sizeBytes;
    nextOffset = last + 1;
  }
  return { end: at, nextOffset };
}
