// Reading the records of a stored or fetched batch. The checksum, the decompressed size and the whole structure are checked once,
// before the first record is given; after that reading is a matter of views into the bytes.
import { readI16, utf8Decode } from "../base/bytes.ts";
import { peekVarint, readVarint, readVarlong, type VarintCursor } from "../base/varint.ts";
import {
  BATCH_HEADER_BYTES,
  BATCH_PREFIX_BYTES,
  type BatchCodecs,
  CRC_START,
  type Crc32c,
  MAGIC,
  attributesAt,
  baseOffsetAt,
  baseTimestampAt,
  batchSizeAt,
  CODEC_MASK,
  compressionAt,
  crcAt,
  isControlBatchAt,
  isLogAppendTimeAt,
  lastOffsetAt,
  lastOffsetDeltaAt,
  leaderEpochAt,
  magicAt,
  maxTimestampAt,
  recordCountAt,
} from "./batch-header.ts";
import { OttlaError } from "./errors.ts";
import { walkRecords } from "./record-walk.ts";
import type { RecordHeaders } from "./records-encode.ts";

export interface DecodeOptions {
  readonly checksum: Crc32c;
  readonly codecs: BatchCodecs;
  /** Largest size of the decompressed records: a batch that would grow beyond it is refused (B-11). */
  readonly decompressedBytesMax: number;
}

/** A record in place. The one that `forEach` hands out is moved on after each call: keep what it gives, never itself. */
export interface RecordView {
  readonly offset: number;
  readonly timestamp: number;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  /** Decoded when asked for. */
  readonly headers: RecordHeaders;
}

/** Moves from record to record; as a view it is the record that it stands on. */
export interface RecordCursor extends RecordView {
  /** Onto the first, then the next record; false after the last one. */
  next(): boolean;
}

/** A record that may be kept: key and value are views into the batch or its decompressed records. */
export type DecodedRecord = RecordView;

interface BatchFields {
  readonly recordCount: number;
  readonly baseOffset: number;
  readonly baseTimestamp: number;
  /** LogAppendTime: every record's time (B-8); otherwise undefined. */
  readonly appendTimestamp: number | undefined;
}

const NO_HEADERS: RecordHeaders = [];

/** Walks records that have been checked: every length in them is known to fit. */
class RecordWalker implements RecordCursor {
  readonly #bytes: Uint8Array;
  readonly #fields: BatchFields;
  #position: number;
  #left: number;
  #keyAt = 0;
  /** -1: null. */
  #keyBytes = -1;
  #valueAt = 0;
  /** -1: null. */
  #valueBytes = -1;
  #headersAt = 0;
  offset = 0;
  timestamp = 0;

  constructor(bytes: Uint8Array, start: number, fields: BatchFields) {
    this.#bytes = bytes;
    this.#fields = fields;
    this.#position = start;
    this.#left = fields.recordCount;
  }

  next(): boolean {
    if (this.#left === 0) return false;
    this.#left--;
    this.advance();
    return true;
  }

  /** Onto the next record. Varints of up to four bytes are taken without a cursor: see `peekVarint`. */
  advance(): void {
    const bytes = this.#bytes;
    const lengthWord = peekVarint(bytes, this.#position);
    const bodyAt = this.#position + (lengthWord & 7);
    const timeWord = peekVarint(bytes, bodyAt + 1);
    const offsetAt = bodyAt + 1 + (timeWord & 7);
    const offsetWord = peekVarint(bytes, offsetAt);
    const keyAt = offsetAt + (offsetWord & 7);
    const keyWord = peekVarint(bytes, keyAt);
    const keyBytes = (keyWord >>> 4) ^ -((keyWord >>> 3) & 1);
    const valueAt = keyAt + (keyWord & 7) + (keyBytes < 0 ? 0 : keyBytes);
    const valueWord = peekVarint(bytes, valueAt);
    if ((lengthWord | timeWord | offsetWord | keyWord | valueWord) < 0) {
      this.#advanceCarefully();
      return;
    }
    const valueBytes = (valueWord >>> 4) ^ -((valueWord >>> 3) & 1);
    this.#keyAt = keyAt + (keyWord & 7);
    this.#keyBytes = keyBytes;
    this.#valueAt = valueAt + (valueWord & 7);
    this.#valueBytes = valueBytes;
    this.#headersAt = this.#valueAt + (valueBytes < 0 ? 0 : valueBytes);
    this.#position = bodyAt + (lengthWord >>> 4);
    this.#place((timeWord >>> 4) ^ -((timeWord >>> 3) & 1), offsetWord >>> 4);
  }

  /** The same with varints of any length. */
  #advanceCarefully(): void {
    const bytes = this.#bytes;
    const end = bytes.length;
    const cursor: VarintCursor = { value: 0, position: this.#position };
    readVarint(bytes, end, cursor);
    this.#position = cursor.position + cursor.value;
    cursor.position++;
    readVarlong(bytes, end, cursor);
    const timestampDelta = cursor.value;
    readVarint(bytes, end, cursor);
    this.#place(timestampDelta, cursor.value);
    readVarint(bytes, end, cursor);
    this.#keyAt = cursor.position;
    this.#keyBytes = cursor.value;
    if (cursor.value > 0) cursor.position += cursor.value;
    readVarint(bytes, end, cursor);
    this.#valueAt = cursor.position;
    this.#valueBytes = cursor.value;
    if (cursor.value > 0) cursor.position += cursor.value;
    this.#headersAt = cursor.position;
  }

  #place(timestampDelta: number, offsetDelta: number): void {
    const fields = this.#fields;
    this.timestamp = fields.appendTimestamp ?? fields.baseTimestamp + timestampDelta;
    this.offset = fields.baseOffset + offsetDelta;
  }

  get key(): Uint8Array | null {
    return viewOf(this.#bytes, this.#keyAt, this.#keyBytes);
  }

  get value(): Uint8Array | null {
    return viewOf(this.#bytes, this.#valueAt, this.#valueBytes);
  }

  get headers(): RecordHeaders {
    return readHeaders(this.#bytes, this.#headersAt);
  }

  keep(): DecodedRecord {
    return new KeptRecord(this, this.#bytes, this.#headersAt);
  }
}

class KeptRecord implements RecordView {
  readonly offset: number;
  readonly timestamp: number;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly #bytes: Uint8Array;
  readonly #headersAt: number;

  constructor(view: RecordView, bytes: Uint8Array, headersAt: number) {
    this.offset = view.offset;
    this.timestamp = view.timestamp;
    this.key = view.key;
    this.value = view.value;
    this.#bytes = bytes;
    this.#headersAt = headersAt;
  }

  get headers(): RecordHeaders {
    return readHeaders(this.#bytes, this.#headersAt);
  }
}

/** `new Uint8Array` over the buffer: half the time of `subarray`. */
function viewOf(bytes: Uint8Array, position: number, length: number): Uint8Array | null {
  return length < 0 ? null : new Uint8Array(bytes.buffer, bytes.byteOffset + position, length);
}

function readHeaders(bytes: Uint8Array, position: number): RecordHeaders {
  if (bytes[position] === 0) return NO_HEADERS;
  const cursor: VarintCursor = { value: 0, position };
  readVarint(bytes, bytes.length, cursor);
  const headers = new Array<readonly [string, Uint8Array | null]>(cursor.value);
  for (let index = 0; index < headers.length; index++) {
    readVarint(bytes, bytes.length, cursor);
    const keyEnd = cursor.position + cursor.value;
    const key = utf8Decode(bytes.subarray(cursor.position, keyEnd));
    cursor.position = keyEnd;
    readVarint(bytes, bytes.length, cursor);
    headers[index] = [key, viewOf(bytes, cursor.position, cursor.value)];
    if (cursor.value > 0) cursor.position += cursor.value;
  }
  return headers;
}

/** A batch that passed all checks. A control batch gives no records: applications never see its record (B-9). */
export class DecodedBatch implements Iterable<DecodedRecord> {
  readonly baseOffset: number;
  /** Inclusive. Read on at lastOffset + 1, not after the last record: compaction leaves gaps (B-10). */
  readonly lastOffset: number;
  readonly leaderEpoch: number;
  readonly isControl: boolean;
  /** Records that iterating gives. */
  readonly recordCount: number;
  readonly #records: Uint8Array;
  readonly #start: number;
  readonly #fields: BatchFields;

  /** For `decodeRecords`: `records` holds the checked records from `start` on. */
  constructor(batch: Uint8Array, records: Uint8Array, start: number) {
    this.baseOffset = baseOffsetAt(batch, 0);
    this.lastOffset = lastOffsetAt(batch, 0);
    this.leaderEpoch = leaderEpochAt(batch, 0);
    this.isControl = isControlBatchAt(batch, 0);
    this.recordCount = this.isControl ? 0 : recordCountAt(batch, 0);
    this.#records = records;
    this.#start = start;
    this.#fields = {
      recordCount: this.recordCount,
      baseOffset: this.baseOffset,
      baseTimestamp: baseTimestampAt(batch, 0),
      appendTimestamp: isLogAppendTimeAt(batch, 0) ? maxTimestampAt(batch, 0) : undefined,
    };
  }

  /** The checked records, decompressed, as they are stored. */
  get raw(): { readonly bytes: Uint8Array; readonly start: number } {
    return { bytes: this.#records, start: this.#start };
  }

  /** The fast way: one view, moved on from record to record. */
  forEach(visit: (view: RecordView) => void): void {
    const walker = this.#walker();
    while (walker.next()) visit(walker);
  }

  *[Symbol.iterator](): IterableIterator<DecodedRecord> {
    const walker = this.#walker();
    while (walker.next()) yield walker.keep();
  }

  /** A cursor before the first record: for callers that make objects of their own. */
  cursor(): RecordCursor {
    return this.#walker();
  }

  #walker(): RecordWalker {
    return new RecordWalker(this.#records, this.#start, this.#fields);
  }
}

/**
 * Checks and opens exactly one batch. Throws OttlaError: CORRUPT_MESSAGE (length, checksum, damaged compression), INVALID_RECORD (not built
 * as its header says, or larger than `decompressedBytesMax`), UNSUPPORTED_COMPRESSION_TYPE.
 */
export function decodeRecords(batch: Uint8Array, options: DecodeOptions): DecodedBatch {
  checkIntact(batch, options.checksum);
  const records = openRecords(batch, options);
  const start = records === batch ? BATCH_HEADER_BYTES : 0;
  const recordCount = recordCountAt(batch, 0);
  const lastOffsetDelta = lastOffsetDeltaAt(batch, 0);
  if (recordCount < 0 || lastOffsetDelta < 0) {
    throw new OttlaError(
      "INVALID_RECORD",
      `${recordCount} records do not fit a last offset delta of ${lastOffsetDelta}`,
    );
  }
  const wideFields = [lastOffsetAt(batch, 0), baseTimestampAt(batch, 0), maxTimestampAt(batch, 0)];
  if (!wideFields.every(Number.isSafeInteger)) {
    throw new OttlaError("INVALID_RECORD", "an offset or a timestamp is beyond 2^53");
  }
  const { fault } = walkRecords(records, { start, end: records.length, recordCount, lastOffsetDelta, isDense: false });
  if (fault !== undefined) throw new OttlaError("INVALID_RECORD", fault);
  return new DecodedBatch(batch, records, start);
}

function checkIntact(batch: Uint8Array, checksum: Crc32c): void {
  if (batch.length < BATCH_PREFIX_BYTES || batchSizeAt(batch, 0) !== batch.length) {
    throw new OttlaError("CORRUPT_MESSAGE", `${batch.length} bytes are not exactly one record batch`);
  }
  if (magicAt(batch, 0) !== MAGIC)
    throw new OttlaError("CORRUPT_MESSAGE", `message format ${magicAt(batch, 0)} is not ${MAGIC}`);
  if (batch.length < BATCH_HEADER_BYTES)
    throw new OttlaError("CORRUPT_MESSAGE", `${batch.length} bytes do not hold a batch header`);
  if (checksum.crc32c(batch.subarray(CRC_START)) !== crcAt(batch, 0)) {
    throw new OttlaError("CORRUPT_MESSAGE", "the batch does not match its checksum");
  }
}

/** The batch itself, or its records decompressed. Throws OttlaError as `decodeRecords` does. */
export function openRecords(batch: Uint8Array, options: Omit<DecodeOptions, "checksum">): Uint8Array {
  const codec = compressionAt(batch, 0);
  if (codec === undefined) {
    throw new OttlaError("UNSUPPORTED_COMPRESSION_TYPE", `codec ${attributesAt(batch, 0) & CODEC_MASK} does not exist`);
  }
  if (codec === "none") return batch;
  try {
    return options.codecs.decompress(codec, batch.subarray(BATCH_HEADER_BYTES), options.decompressedBytesMax);
  } catch (cause) {
    if (cause instanceof OttlaError) throw cause;
    if (cause instanceof RangeError) {
      throw new OttlaError(
        "INVALID_RECORD",
        `the records decompress to more than ${options.decompressedBytesMax} bytes`,
        { cause },
      );
    }
    throw new OttlaError("CORRUPT_MESSAGE", `the ${codec} data is damaged`, { cause });
  }
}

export interface ControlRecord {
  /** A number of CONTROL_TYPES, or one of a newer build: skip what is not known (B-9). */
  readonly type: number;
  readonly value: Uint8Array | null;
}

/** The record of a control batch; undefined when there is none (cleaned, B-9) or the batch is none. */
export function decodeControlRecord(batch: Uint8Array, options: DecodeOptions): ControlRecord | undefined {
  if (!decodeRecords(batch, options).isControl || recordCountAt(batch, 0) === 0) return undefined;
  const records = openRecords(batch, options);
  const walker = new RecordWalker(records, records === batch ? BATCH_HEADER_BYTES : 0, {
    recordCount: 1,
    baseOffset: baseOffsetAt(batch, 0),
    baseTimestamp: 0,
    appendTimestamp: undefined,
  });
  walker.advance();
  const { key, value } = walker;
  if (key === null || key.length < 4 || readI16(key, 0) < 0) {
    throw new OttlaError("INVALID_RECORD", "the key of a control record has a version and a type");
  }
  return { type: readI16(key, 2), value };
}
