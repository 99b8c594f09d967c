// Runs: consecutive record batches of one epoch in one piece, as a follower takes them. Kept, journalled and written whole; looked
// into only where a reader, a cut or an index needs a batch's place.
import { assert } from "../base/assert.ts";
import { concatBytes } from "../base/bytes.ts";
import type { Offset } from "../model/ids.ts";
import { baseOffsetAt, batchSizeAt, lastOffsetAt } from "../model/record-batch.ts";
import { forEachBatch } from "../model/records.ts";
import type { BatchWindow } from "./batch-window.ts";
import type { ReadOptions, ReadResult } from "./types.ts";

/** Longer runs are taken in pieces: what one batch of a run is looked for in stays small, as does what a segment leaves free at its end. */
export const RUN_BYTES_MAX = 256 * 1024;
/** Batches smaller than this on average are joined into one chunk when there are many of them. */
const SMALL_BATCH_BYTES = 4096;
const CHUNKS_UNJOINED_MAX = 16;

/** Gives the run in pieces of at most `maxBytes`, a longer batch by itself. */
export function splitRun(
  run: Uint8Array,
  maxBytes: number,
  visit: (piece: Uint8Array, lastOffset: number) => void,
): void {
  let start = 0;
  let last = -1;
  forEachBatch(run, (position, sizeBytes) => {
    if (position > start && position + sizeBytes - start > maxBytes) {
      visit(run.subarray(start, position), last);
      start = position;
    }
    last = lastOffsetAt(run, position);
  });
  visit(run.subarray(start), last);
}

/** Where the batch that holds `offset` starts in the run, which must hold it. */
export function positionIn(run: Uint8Array, offset: number): number {
  let position = 0;
  while (lastOffsetAt(run, position) < offset) position += batchSizeAt(run, position);
  assert(position < run.length, `no batch with offset ${offset} in the run`);
  return position;
}

/** Base of the batch of the window that holds `offset`. */
export function baseInWindow(window: BatchWindow, offset: number): number {
  const run = window.batchAt(window.indexOf(offset));
  return baseOffsetAt(run, positionIn(run, offset));
}

/** As ReplicaLog.read, of what the window holds. */
export function readWindow(window: BatchWindow, offset: Offset, options: ReadOptions): ReadResult {
  const { limitOffset, maxBytes, atLeastOne } = options;
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  let nextOffset: number = offset;
  for (let index = window.indexOf(offset); index < window.length; index++) {
    const run = window.batchAt(index);
    const end = window.endAt(index);
    const isWhole = window.baseAt(index) >= offset && end <= limitOffset && sizeBytes + run.length <= maxBytes;
    const part = isWhole
      ? { bytes: run, nextOffset: end }
      : partOf(run, { offset, limitOffset, maxBytes: maxBytes - sizeBytes, atLeastOne: atLeastOne && sizeBytes === 0 });
    if (part.bytes.length === 0) break;
    chunks.push(part.bytes);
    sizeBytes += part.bytes.length;
    nextOffset = part.nextOffset;
    if (nextOffset < end) break;
  }
  const areSmall = chunks.length > CHUNKS_UNJOINED_MAX && sizeBytes < chunks.length * SMALL_BATCH_BYTES;
  return { chunks: areSmall ? [concatBytes(chunks)] : chunks, sizeBytes, nextOffset: nextOffset as Offset };
}

/** The batches of a run from the one that holds the offset on, as far as they may go; none when the first is too long. */
function partOf(
  run: Uint8Array,
  options: { offset: number; limitOffset: number; maxBytes: number; atLeastOne: boolean },
): { readonly bytes: Uint8Array; readonly nextOffset: number } {
  const start = options.offset <= baseOffsetAt(run, 0) ? 0 : positionIn(run, options.offset);
  let position = start;
  let nextOffset = options.offset;
  while (position < run.length) {
    const next = position + batchSizeAt(run, position);
    const last = lastOffsetAt(run, position);
    const isTooLong = next - start > options.maxBytes && !(options.atLeastOne && position === start);
    if (last >= options.limitOffset || isTooLong) break;
    position = next;
    nextOffset = last + 1;
  }
  return { bytes: run.subarray(start, position), nextOffset };
}
