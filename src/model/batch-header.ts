// The header of Kafka's record batch, version 2 (B-1 to B-3), read and written in place: 61 bytes, then the records. All
// functions take the bytes and the position of a batch in them, so that a run of batches needs no views and no objects.
// Checks of whole batches are in record-batch.ts, which also passes all of this on.
import { readI16, readI32, readI64, readU16, readU32, writeI64, writeU16, writeU32 } from "../base/bytes.ts";

export const BATCH_HEADER_BYTES = 61;
/** Bytes up to and including batchLength, which counts what follows it. */
export const BATCH_OVERHEAD_BYTES = 12;
/** Bytes that must be there before size and magic of a batch can be read. */
export const BATCH_PREFIX_BYTES = 17;
/** The checksum covers everything from here to the end of the batch (B-2). */
export const CRC_START = 21;
export const MAGIC = 2;

const LENGTH_AT = 8;
const LEADER_EPOCH_AT = 12;
const MAGIC_AT = 16;
const CRC_AT = 17;
const ATTRIBUTES_AT = 21;
const LAST_OFFSET_DELTA_AT = 23;
const BASE_TIMESTAMP_AT = 27;
const MAX_TIMESTAMP_AT = 35;
const PRODUCER_ID_AT = 43;
const PRODUCER_EPOCH_AT = 51;
const BASE_SEQUENCE_AT = 53;
const RECORD_COUNT_AT = 57;

/** Bits of the attributes (B-3). */
export const CODEC_MASK = 0x07;
export const LOG_APPEND_TIME_BIT = 0x08;
export const TRANSACTIONAL_BIT = 0x10;
export const CONTROL_BIT = 0x20;
export const DELETE_HORIZON_BIT = 0x40;

/** Codecs by their number in the attributes. The names are those of the Codecs port. */
export const COMPRESSIONS = ["none", "gzip", "snappy", "lz4", "zstd"] as const;
export type BatchCompression = (typeof COMPRESSIONS)[number];

/** Shaped as the Checksum port. */
export interface Crc32c {
  crc32c(bytes: Uint8Array, seed?: number): number;
}

/** Shaped as the Codecs port. */
export interface BatchCodecs {
  compress(codec: BatchCompression, bytes: Uint8Array): Uint8Array;
  /** Throws a RangeError when the result would exceed `maxBytes`. */
  decompress(codec: BatchCompression, bytes: Uint8Array, maxBytes: number): Uint8Array;
}

/** What the header of a new batch says. */
export interface BatchHeader {
  readonly sizeBytes: number;
  readonly attributes: number;
  readonly lastOffsetDelta: number;
  readonly baseTimestamp: number;
  readonly maxTimestamp: number;
  readonly recordCount: number;
  /** Default: none. */
  readonly producer?: ProducerFields;
}

/** Whose batch it is, and its place among that producer's batches in the partition (B-7). */
export interface ProducerFields {
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
}

const NO_PRODUCER: ProducerFields = { producerId: -1, producerEpoch: -1, baseSequence: -1 };

/** The last epoch of a producer id: after it another id goes on. One below Kafka's largest, as there. */
export const PRODUCER_EPOCH_MAX = 32_766;

/** The whole batch with its length field: what comes next is at `position + batchSizeAt(...)`. Not checked. */
export function batchSizeAt(bytes: Uint8Array, position: number): number {
  return readI32(bytes, position + LENGTH_AT) + BATCH_OVERHEAD_BYTES;
}

export function baseOffsetAt(bytes: Uint8Array, position: number): number {
  return readI64(bytes, position);
}

/** Inclusive. Never derive it from the record count: compaction leaves gaps (B-10). */
export function lastOffsetAt(bytes: Uint8Array, position: number): number {
  return readI64(bytes, position) + readI32(bytes, position + LAST_OFFSET_DELTA_AT);
}

export function lastOffsetDeltaAt(bytes: Uint8Array, position: number): number {
  return readI32(bytes, position + LAST_OFFSET_DELTA_AT);
}

export function leaderEpochAt(bytes: Uint8Array, position: number): number {
  return readI32(bytes, position + LEADER_EPOCH_AT);
}

export function magicAt(bytes: Uint8Array, position: number): number {
  return bytes[position + MAGIC_AT] as number;
}

export function crcAt(bytes: Uint8Array, position: number): number {
  return readU32(bytes, position + CRC_AT);
}

export function attributesAt(bytes: Uint8Array, position: number): number {
  return readU16(bytes, position + ATTRIBUTES_AT);
}

/** Undefined for the codec numbers 5 to 7, which nobody has defined. */
export function compressionAt(bytes: Uint8Array, position: number): BatchCompression | undefined {
  return COMPRESSIONS[attributesAt(bytes, position) & CODEC_MASK];
}

export function isControlBatchAt(bytes: Uint8Array, position: number): boolean {
  return (attributesAt(bytes, position) & CONTROL_BIT) !== 0;
}

/** Every record then carries maxTimestamp as its time (B-8). */
export function isLogAppendTimeAt(bytes: Uint8Array, position: number): boolean {
  return (attributesAt(bytes, position) & LOG_APPEND_TIME_BIT) !== 0;
}

export function baseTimestampAt(bytes: Uint8Array, position: number): number {
  return readI64(bytes, position + BASE_TIMESTAMP_AT);
}

export function maxTimestampAt(bytes: Uint8Array, position: number): number {
  return readI64(bytes, position + MAX_TIMESTAMP_AT);
}

/** -1: none. Outside +-2^53 the value is not exact. */
export function producerIdAt(bytes: Uint8Array, position: number): number {
  return readI64(bytes, position + PRODUCER_ID_AT);
}

export function producerEpochAt(bytes: Uint8Array, position: number): number {
  return readI16(bytes, position + PRODUCER_EPOCH_AT);
}

export function baseSequenceAt(bytes: Uint8Array, position: number): number {
  return readI32(bytes, position + BASE_SEQUENCE_AT);
}

/** All -1: none. */
export function producerAt(bytes: Uint8Array, position: number): ProducerFields {
  return {
    producerId: producerIdAt(bytes, position),
    producerEpoch: producerEpochAt(bytes, position),
    baseSequence: baseSequenceAt(bytes, position),
  };
}

/** The batch names a producer. `batch` may be anything that was sent as one. */
export function isNumbered(batch: Uint8Array): boolean {
  return batch.length >= BATCH_HEADER_BYTES && producerIdAt(batch, 0) >= 0;
}

/** Of the last record; -1 when the batch has no sequence (B-7). */
export function lastSequenceAt(bytes: Uint8Array, position: number): number {
  const baseSequence = baseSequenceAt(bytes, position);
  return baseSequence < 0 ? -1 : addSequence(baseSequence, lastOffsetDeltaAt(bytes, position));
}

/** Records in the batch as the header says; less than lastOffset - baseOffset + 1 after compaction (B-10). */
export function recordCountAt(bytes: Uint8Array, position: number): number {
  return readI32(bytes, position + RECORD_COUNT_AT);
}

/** What the leader writes over a produced batch (B-12). Both fields lie outside the checksum. */
export function assignOffsets(batch: Uint8Array, baseOffset: number, leaderEpoch: number): void {
  writeI64(batch, 0, baseOffset);
  writeU32(batch, LEADER_EPOCH_AT, leaderEpoch);
}

/** Fills in the 61 bytes and the checksum of a batch whose records are in place: base offset 0, no epoch. */
export function writeBatchHeader(batch: Uint8Array, header: BatchHeader, checksum: Crc32c): void {
  assignOffsets(batch, 0, -1);
  writeU32(batch, LENGTH_AT, header.sizeBytes - BATCH_OVERHEAD_BYTES);
  batch[MAGIC_AT] = MAGIC;
  writeU16(batch, ATTRIBUTES_AT, header.attributes);
  writeU32(batch, LAST_OFFSET_DELTA_AT, header.lastOffsetDelta);
  writeI64(batch, BASE_TIMESTAMP_AT, header.baseTimestamp);
  writeI64(batch, MAX_TIMESTAMP_AT, header.maxTimestamp);
  setProducer(batch, header.producer ?? NO_PRODUCER);
  writeU32(batch, RECORD_COUNT_AT, header.recordCount);
  sealBatch(batch, checksum);
}

/** Changes covered bytes: seal the batch after it. */
export function setAttributes(batch: Uint8Array, attributes: number): void {
  writeU16(batch, ATTRIBUTES_AT, attributes);
}

/** Changes covered bytes: seal the batch after it. */
export function setProducer(batch: Uint8Array, { producerId, producerEpoch, baseSequence }: ProducerFields): void {
  writeI64(batch, PRODUCER_ID_AT, producerId);
  writeU16(batch, PRODUCER_EPOCH_AT, producerEpoch);
  writeU32(batch, BASE_SEQUENCE_AT, baseSequence);
}

/** The leader's time for all records of a produced batch (B-8): the bit, the largest timestamp, and the checksum anew. */
export function stampAppendTime(batch: Uint8Array, nowMs: number, checksum: Crc32c): void {
  setAttributes(batch, attributesAt(batch, 0) | LOG_APPEND_TIME_BIT);
  writeI64(batch, MAX_TIMESTAMP_AT, nowMs);
  sealBatch(batch, checksum);
}

/** Writes the checksum again after a change of the covered bytes. `batch` is exactly one batch. */
export function sealBatch(batch: Uint8Array, checksum: Crc32c): void {
  writeU32(batch, CRC_AT, checksum.crc32c(batch.subarray(CRC_START)));
}

/** Calls `visit` for each batch of a run of whole batches that has been checked before. */
export function forEachBatch(bytes: Uint8Array, visit: (position: number, sizeBytes: number) => void): void {
  for (let position = 0; position < bytes.length; ) {
    const sizeBytes = batchSizeAt(bytes, position);
    if (sizeBytes < BATCH_HEADER_BYTES || position + sizeBytes > bytes.length) {
      throw new RangeError(`no whole batch at byte ${position} of ${bytes.length}`);
    }
    visit(position, sizeBytes);
    position += sizeBytes;
  }
}

/** Sequence numbers run from 0 to 2^31 - 1 and then from 0 again; `count` is 0 .. 2^31 - 1 (B-7). */
export function addSequence(sequence: number, count: number): number {
  return (sequence + count) % 0x80000000;
}

export function subtractSequence(sequence: number, count: number): number {
  return sequence >= count ? sequence - count : sequence - count + 0x80000000;
}
