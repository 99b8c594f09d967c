// What a compacted topic asks of records: a key (S-36).
import { readVarint, readVarlong, type VarintCursor } from "../base/varint.ts";
import {
  type BatchCodecs,
  BATCH_HEADER_BYTES,
  compressionAt,
  lastOffsetDeltaAt,
  recordCountAt,
} from "./batch-header.ts";
import { asOttlaError } from "./errors.ts";
import { type BatchFault, DECOMPRESSED_BYTES_MAX } from "./record-batch.ts";
import { walkRecords } from "./record-walk.ts";
import { openRecords } from "./records-decode.ts";

/** How much more a batch may be once it is open than `max.message.bytes`. Opening is synchronous: this bounds how long nobody else is served. */
const GROWTH_MAX = 16;
/** What was opened of the batches of one request before the others are put off: a request has 1 MiB of them, which seldom open to a tenth of this. */
const REQUEST_OPENED_MAX = 64 * 1024 * 1024;

export interface KeyLimits {
  readonly codecs: BatchCodecs;
  /** max.message.bytes */
  readonly maxBytes: number;
  /** Of what came with it; a batch alone has none. */
  readonly opened?: OpenedBytes;
}

/** What was opened so far of the batches of one request. */
export interface OpenedBytes {
  bytes: number;
}

/**
 * Why a compacted topic does not take a batch that passed `checkProducedBatch`: a record without a key, which the cleaner would drop though it was
 * acknowledged. Compressed records are opened: up to 16 times max.message.bytes, and never more than whoever reads them would open.
 */
export function keyFault(
  batch: Uint8Array,
  { codecs, maxBytes, opened = { bytes: 0 } }: KeyLimits,
): BatchFault | undefined {
  const decompressedBytesMax = Math.min(GROWTH_MAX * maxBytes, DECOMPRESSED_BYTES_MAX);
  if (opened.bytes >= REQUEST_OPENED_MAX && compressionAt(batch, 0) !== "none")
    return { error: "BUSY", message: `the batches before it in its request were ${opened.bytes} bytes once open` };
  let records: Uint8Array;
  try {
    records = openRecords(batch, { codecs, decompressedBytesMax });
  } catch (thrown) {
    // It may have come as far as that.
    opened.bytes += decompressedBytesMax;
    const { code, message } = asOttlaError(thrown);
    if (code !== "INVALID_RECORD") return { error: code, message };
    return { error: code, message: `${message}, the most that a compacted topic takes in one batch` };
  }
  const recordCount = recordCountAt(batch, 0);
  let start = BATCH_HEADER_BYTES;
  if (records !== batch) {
    opened.bytes += records.length;
    start = 0;
    const shape = { recordCount, lastOffsetDelta: lastOffsetDeltaAt(batch, 0), isDense: true };
    const { fault } = walkRecords(records, { start, end: records.length, ...shape });
    if (fault !== undefined) return { error: "INVALID_RECORD", message: fault };
  }
  const keyless = firstKeyless(records, start, recordCount);
  if (keyless < 0) return undefined;
  return { error: "INVALID_RECORD", message: `record ${keyless} has no key, and the topic is compacted` };
}

/** The place of the first record without a key among records that were walked; -1: all have one. */
function firstKeyless(records: Uint8Array, start: number, recordCount: number): number {
  const cursor: VarintCursor = { value: 0, position: start };
  for (let index = 0; index < recordCount; index++) {
    readVarint(records, records.length, cursor);
    const end = cursor.position + cursor.value;
    cursor.position++;
    readVarlong(records, end, cursor);
    readVarint(records, end, cursor);
    readVarint(records, end, cursor);
    if (cursor.value < 0) return index;
    cursor.position = end;
  }
  return -1;
}
