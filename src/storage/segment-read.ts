// Taking whole, checked batches out of bytes read from a segment: first what the chain proves to be what was written there (D-16), then of that what each
// batch's own checksum proves.
import { keepable } from "../base/bytes.ts";
import { mutant } from "../base/mutant.ts";
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
import { chainOver } from "./identity.ts";
import type { ChainPoint, ProvenSpan } from "./identity-rows.ts";
import type { EpochEntry, ReadOptions, ReadResult } from "./types.ts";

export interface CollectOptions {
  readonly offset: number;
  readonly options: ReadOptions;
  readonly epochs: readonly EpochEntry[];
  readonly checksum: Checksum;
  /** For messages. */
  readonly path: string;
  /** What the bytes are of. */
  readonly span: ProvenSpan;
}

export function emptyRead(offset: number): ReadResult {
  return { chunks: [], sizeBytes: 0, nextOffset: offset as Offset };
}

/**
 * The batches from the one that holds the offset on, checked by chain, CRC and place. Ends before a damaged batch; throws STORAGE_ERROR when the wanted
 * one is damaged, or is not proven.
 */
export function collectBatches(bytes: Uint8Array, from: CollectOptions): ReadResult {
  const { offset, options } = from;
  const proven = provenBytes(bytes, from.span);
  const start = skipTo(bytes, proven.end, offset);
  if (start === undefined) {
    const position = from.span.start.position + proven.end;
    throw storageError(`${from.path}: ${proven.reason} behind position ${position}, looking for offset ${offset}`);
  }
  if (batchSizeAt(bytes, start) > options.maxBytes && !options.atLeastOne) return emptyRead(offset);
  const { end, nextOffset } = runFrom(bytes.subarray(0, proven.end), start, from);
  if (end === start) return emptyRead(offset);
  const chunk = keepable(bytes.subarray(start, end));
  return { chunks: [chunk], sizeBytes: chunk.length, nextOffset: nextOffset as Offset };
}

/** How far the batches are those that were written, going by their headers: always up to one of the points at which that is known. */
export function provenBytes(bytes: Uint8Array, span: ProvenSpan): { readonly end: number; readonly reason: string } {
  let { chain } = span.start;
  let at = 0;
  let end = 0;
  for (const point of span.ends) {
    const pointAt = point.position - span.start.position;
    while (at < pointAt) {
      if (at + BATCH_HEADER_BYTES > bytes.length) return { end, reason: "the file ends too early" };
      const sizeBytes = batchSizeAt(bytes, at);
      if (sizeBytes < BATCH_HEADER_BYTES || at + sizeBytes > pointAt) return { end, reason: "the batches do not fit" };
      chain = chainOver(chain, bytes, at);
      at += sizeBytes;
    }
    if (at > bytes.length) return { end, reason: "the file ends too early" };
    if (!isProvenAt(point, chain)) return { end, reason: "the batches are not those that were written there" };
    end = at;
  }
  return { end, reason: "" };
}

const isProvenAt = (point: ChainPoint, chain: number): boolean => point.chain === chain || mutant("M22");

/** Where the batch that holds the offset starts, going by headers; undefined: none of those that are whole below `end`. */
export function skipTo(bytes: Uint8Array, end: number, offset: number): number | undefined {
  for (let at = 0; at + BATCH_HEADER_BYTES <= end; ) {
    if (lastOffsetAt(bytes, at) >= offset) return at;
    const sizeBytes = batchSizeAt(bytes, at);
    if (sizeBytes < BATCH_HEADER_BYTES) return undefined;
    at += sizeBytes;
  }
  return undefined;
}

/** Where the run of batches ends that may be given. */
function runFrom(
  bytes: Uint8Array,
  start: number,
  from: CollectOptions,
): { readonly end: number; readonly nextOffset: number } {
  const { offset, options, checksum, epochs } = from;
  let at = start;
  let nextOffset = offset;
  while (at < bytes.length) {
    const isFirst = at === start;
    const check = checkStoredBatch(bytes, at, { end: bytes.length, checksum });
    const base = baseOffsetAt(bytes, at);
    const epoch = leaderEpochAt(bytes, at);
    const last = lastOffsetAt(bytes, at);
    const isInPlace = (isFirst ? base <= offset : base === nextOffset) && epoch === epochBefore(epochs, last + 1);
    if (check.kind !== "valid" || !(isInPlace || mutant("M22"))) {
      if (!isFirst) break;
      const reason = check.kind === "corrupt" ? check.reason : `the batch says offset ${base} and epoch ${epoch}`;
      const position = from.span.start.position + at;
      throw storageError(`${from.path}: ${reason} at position ${position}, looking for offset ${offset}`);
    }
    if (!isFirst && at + check.sizeBytes - start > options.maxBytes) break;
    if (last >= options.limitOffset) break;
    at += check.sizeBytes;
    nextOffset = last + 1;
  }
  return { end: at, nextOffset };
}
