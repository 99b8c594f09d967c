// Building record batches (B-4 to B-9). Sizes are computed before anything is written, so that a builder can say whether a record
// still fits; keys and values are copied in, nothing is allocated per record.
import { assert, assertNever } from "../base/assert.ts";
import { utf8Size, utf8Write, writeU16 } from "../base/bytes.ts";
import { varintSize, varlongSize, writeVarint, writeVarlong } from "../base/varint.ts";
import {
  BATCH_HEADER_BYTES,
  type BatchCodecs,
  type BatchCompression,
  COMPRESSIONS,
  CONTROL_BIT,
  type Crc32c,
  type ProducerFields,
  sealBatch,
  setAttributes,
  writeBatchHeader,
} from "./batch-header.ts";
import { OttlaError } from "./errors.ts";

/** Keys are text, never null; the same key may come more than once. */
export type RecordHeaders = readonly (readonly [key: string, value: Uint8Array | null])[];

export interface RecordInput {
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: RecordHeaders;
  /** Milliseconds since 1970; -1: none. */
  readonly timestamp: number;
}

export interface BuildOptions {
  readonly compression: BatchCompression;
  readonly codecs: BatchCodecs;
  readonly checksum: Crc32c;
  /** Largest batch that is allowed: one that compression made longer goes out uncompressed, or is refused. */
  readonly maxBytes?: number;
  /** The batch may be a view of the builder's buffer: then it is valid until the builder is reset. */
  readonly mayBeView?: boolean;
  /** Whose it is, and its place among that one's batches. Default: nobody's. */
  readonly producer?: ProducerFields;
}

/** Varlongs hold -2^52 to 2^52 - 1: the difference of any two timestamps from -1 to this. */
const TIMESTAMP_MAX = 2 ** 52 - 2;
const INITIAL_BYTES = 16_384;

/** Bytes of the record in a batch of its own, without the batch's header: one more or less in a batch with others. */
export function recordSizeBytes(record: RecordInput): number {
  const bodyBytes = recordBodyBytes(record, 0, 0);
  return varintSize(bodyBytes) + bodyBytes;
}

function nullableSize(bytes: Uint8Array | null): number {
  return bytes === null ? 1 : varintSize(bytes.length) + bytes.length;
}

function recordBodyBytes(record: RecordInput, timestampDelta: number, offsetDelta: number): number {
  const { headers } = record;
  let size =
    1 + varlongSize(timestampDelta) + varintSize(offsetDelta) + nullableSize(record.key) + nullableSize(record.value);
  if (headers.length === 0) return size + 1;
  size += varintSize(headers.length);
  for (const [key, value] of headers) {
    const keySize = utf8Size(key);
    size += varintSize(keySize) + keySize + nullableSize(value);
  }
  return size;
}

function writeNullable(target: Uint8Array, position: number, bytes: Uint8Array | null): number {
  if (bytes === null) return writeVarint(target, position, -1);
  const at = writeVarint(target, position, bytes.length);
  target.set(bytes, at);
  return at + bytes.length;
}

function writeHeaders(target: Uint8Array, position: number, headers: RecordHeaders): number {
  let at = writeVarint(target, position, headers.length);
  for (const [key, value] of headers) {
    at = writeVarint(target, at, utf8Size(key));
    at = utf8Write(target, at, key);
    at = writeNullable(target, at, value);
  }
  return at;
}

/** Gathers records until they are built into one batch. Reused from batch to batch, it keeps its buffer. */
export class RecordBatchBuilder {
  readonly #limitBytes: number;
  #buffer: Uint8Array;
  #position = BATCH_HEADER_BYTES;
  #recordCount = 0;
  #baseTimestamp = 0;
  #maxTimestamp = 0;

  /** `limitBytes`: largest uncompressed size of the batch, header included. */
  constructor(options: { readonly limitBytes: number }) {
    this.#limitBytes = options.limitBytes;
    this.#buffer = new Uint8Array(Math.max(BATCH_HEADER_BYTES, Math.min(options.limitBytes, INITIAL_BYTES)));
  }

  get recordCount(): number {
    return this.#recordCount;
  }

  /** Of the batch as it would be built now, uncompressed, header included. */
  get sizeBytes(): number {
    return this.#position;
  }

  /**
   * Copies the record in; false when it does not fit (into less than the builder's limit, if given), and then nothing has changed. In an empty
   * builder that means that it never fits. Throws INVALID_TIMESTAMP.
   */
  tryAppend(record: RecordInput, limitBytes = this.#limitBytes): boolean {
    const { timestamp } = record;
    if (!Number.isInteger(timestamp) || timestamp < -1 || timestamp > TIMESTAMP_MAX) {
      throw new OttlaError("INVALID_TIMESTAMP", `a timestamp is whole milliseconds since 1970, not ${timestamp}`);
    }
    const isFirst = this.#recordCount === 0;
    const timestampDelta = isFirst ? 0 : timestamp - this.#baseTimestamp;
    const bodyBytes = recordBodyBytes(record, timestampDelta, this.#recordCount);
    const end = this.#position + varintSize(bodyBytes) + bodyBytes;
    if (end > limitBytes || end > this.#limitBytes) return false;
    if (end > this.#buffer.length) this.#grow(end);
    const position = this.#write(record, bodyBytes, timestampDelta);
    assert(position === end, "a record is as long as its computed size");
    this.#position = end;
    this.#recordCount++;
    if (isFirst) this.#baseTimestamp = timestamp;
    if (isFirst || timestamp > this.#maxTimestamp) this.#maxTimestamp = timestamp;
    return true;
  }

  #write(record: RecordInput, bodyBytes: number, timestampDelta: number): number {
    const buffer = this.#buffer;
    let at = writeVarint(buffer, this.#position, bodyBytes);
    buffer[at++] = 0;
    at = writeVarlong(buffer, at, timestampDelta);
    at = writeVarint(buffer, at, this.#recordCount);
    at = writeNullable(buffer, at, record.key);
    at = writeNullable(buffer, at, record.value);
    if (record.headers.length !== 0) return writeHeaders(buffer, at, record.headers);
    buffer[at++] = 0;
    return at;
  }

  #grow(neededBytes: number): void {
    const grown = new Uint8Array(Math.min(this.#limitBytes, Math.max(neededBytes, this.#buffer.length * 2)));
    grown.set(this.#buffer.subarray(0, this.#position));
    this.#buffer = grown;
  }

  /** True when `bytes` lie in the builder's buffer. */
  owns(bytes: Uint8Array): boolean {
    return bytes.buffer === this.#buffer.buffer;
  }

  /** The batch in a buffer of its own (or see `mayBeView`), the builder unchanged. Throws MESSAGE_TOO_LARGE when it cannot be kept to `maxBytes`. */
  build(options: BuildOptions): Uint8Array {
    assert(this.#recordCount > 0, "an empty batch is never built");
    const maxBytes = options.maxBytes ?? Number.POSITIVE_INFINITY;
    const compressed = options.compression === "none" ? undefined : this.#compress(options, maxBytes);
    const batch = compressed ?? this.#uncompressed(options.mayBeView === true);
    if (batch.length > maxBytes) {
      throw new OttlaError(
        "MESSAGE_TOO_LARGE",
        `a batch of ${batch.length} bytes is larger than the ${maxBytes} allowed`,
      );
    }
    const header = {
      sizeBytes: batch.length,
      attributes: compressed === undefined ? 0 : COMPRESSIONS.indexOf(options.compression),
      lastOffsetDelta: this.#recordCount - 1,
      baseTimestamp: this.#baseTimestamp,
      maxTimestamp: this.#maxTimestamp,
      recordCount: this.#recordCount,
      ...(options.producer === undefined ? {} : { producer: options.producer }),
    };
    writeBatchHeader(batch, header, options.checksum);
    return batch;
  }

  /** A batch that would pin far more than it takes is copied in any case (D-26). */
  #uncompressed(mayBeView: boolean): Uint8Array {
    const isMostOfIt = this.#position * 2 >= this.#buffer.length;
    return mayBeView && isMostOfIt ? this.#buffer.subarray(0, this.#position) : this.#buffer.slice(0, this.#position);
  }

  /** Undefined when compression made the batch longer than allowed: the records then go as they are. */
  #compress(options: BuildOptions, maxBytes: number): Uint8Array | undefined {
    const records = options.codecs.compress(
      options.compression,
      this.#buffer.subarray(BATCH_HEADER_BYTES, this.#position),
    );
    const sizeBytes = BATCH_HEADER_BYTES + records.length;
    if (sizeBytes > maxBytes) return undefined;
    const batch = new Uint8Array(sizeBytes);
    batch.set(records, BATCH_HEADER_BYTES);
    return batch;
  }

  /** Empties the builder; batches built before stay as they are, views aside. */
  reset(): void {
    this.#position = BATCH_HEADER_BYTES;
    this.#recordCount = 0;
  }
}

/** Types of control records (B-9), as in Kafka; from 0x4f00 on they are our own, which others skip. */
export const CONTROL_TYPES = {
  ABORT: 0,
  COMMIT: 1,
  LEADER_CHANGE: 2,
  SNAPSHOT_HEADER: 3,
  SNAPSHOT_FOOTER: 4,
  KRAFT_VERSION: 5,
  KRAFT_VOTERS: 6,
  PRODUCERS_CARRIED: 0x4f01,
  PRODUCERS_EXPIRED: 0x4f02,
} as const;
export type ControlType = keyof typeof CONTROL_TYPES;

export interface ControlBatchOptions {
  readonly type: ControlType;
  readonly value: Uint8Array | null;
  readonly timestamp: number;
  readonly checksum: Crc32c;
}

const NO_CODECS: BatchCodecs = {
  compress: (codec) => assertNever(codec as never),
  decompress: (codec) => assertNever(codec as never),
};

/** A batch of one control record: it takes an offset, and no application ever sees it (B-9, D-33). */
export function buildControlBatch(options: ControlBatchOptions): Uint8Array {
  const key = new Uint8Array(4); // int16 version 0, int16 type
  writeU16(key, 2, CONTROL_TYPES[options.type]);
  const record: RecordInput = { key, value: options.value, headers: [], timestamp: options.timestamp };
  const builder = new RecordBatchBuilder({ limitBytes: BATCH_HEADER_BYTES + recordSizeBytes(record) });
  assert(builder.tryAppend(record), "a control record fits its own size");
  const batch = builder.build({ compression: "none", codecs: NO_CODECS, checksum: options.checksum });
  setAttributes(batch, CONTROL_BIT);
  sealBatch(batch, options.checksum);
  return batch;
}
