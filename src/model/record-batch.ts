// Record batches as a whole: what a leader asks of a produced one (B-16, B-17) and what recovery and replication ask of a stored
// one (S-46, S-47). The header's fields are in batch-header.ts, passed on here.
import {
  BATCH_HEADER_BYTES,
  BATCH_OVERHEAD_BYTES,
  BATCH_PREFIX_BYTES,
  COMPRESSIONS,
  CODEC_MASK,
  CONTROL_BIT,
  CRC_START,
  type Crc32c,
  DELETE_HORIZON_BIT,
  LOG_APPEND_TIME_BIT,
  MAGIC,
  TRANSACTIONAL_BIT,
  attributesAt,
  baseOffsetAt,
  baseSequenceAt,
  baseTimestampAt,
  batchSizeAt,
  crcAt,
  lastOffsetAt,
  lastOffsetDeltaAt,
  magicAt,
  maxTimestampAt,
  producerEpochAt,
  producerIdAt,
  recordCountAt,
} from "./batch-header.ts";
import type { ErrorName } from "./errors.ts";
import { walkRecords } from "./record-walk.ts";

export * from "./batch-header.ts";

/** Kafka's own floor for batchLength while it iterates; a whole header needs 49 (B-1, B-17). */
const BATCH_LENGTH_MIN = 14;

/** A compressed batch holds at most this much: what readers open at most, and what the broker takes a record count to mean. */
export const DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024;
/** Length, attributes, two deltas, two lengths and a header count of one byte each (B-4). */
const RECORD_BYTES_MIN = 7;
/** Bits 7 to 15 mean nothing (B-3). */
const UNDEFINED_BITS = 0xff80;

export interface BatchFault {
  readonly error: ErrorName;
  readonly message: string;
}

export interface ProducedBatchLimits {
  /** max.message.bytes of the topic. */
  readonly maxBytes: number;
  readonly segmentBytes: number;
  readonly checksum: Crc32c;
}

export type StoredBatchCheck =
  | { readonly kind: "valid"; readonly sizeBytes: number }
  /** The bytes end before the batch does: the clean end of a log whose tail was torn (S-47). */
  | { readonly kind: "incomplete" }
  | { readonly kind: "corrupt"; readonly reason: string };

function fault(error: ErrorName, message: string): BatchFault {
  return { error, message };
}

/**
 * What is wrong with a batch as a client sent it, or undefined. `batch` is the whole body: exactly one batch fills it. The checks run
 * in the order of B-17 (rows 6 to 13, then 18), so that the first failing one names the error.
 */
export function checkProducedBatch(batch: Uint8Array, limits: ProducedBatchLimits): BatchFault | undefined {
  return (
    checkFrame(batch, limits) ??
    checkHeader(batch) ??
    checkRecords(batch) ??
    checkSegmentSize(batch, limits.segmentBytes)
  );
}

/** Rows 6 to 9: one whole batch, of an allowed size, with the right checksum. */
function checkFrame(batch: Uint8Array, limits: ProducedBatchLimits): BatchFault | undefined {
  if (batch.length === 0) return fault("INVALID_RECORD", "the body holds no record batch");
  if (batch.length < BATCH_PREFIX_BYTES) return fault("CORRUPT_MESSAGE", `${batch.length} bytes are no record batch`);
  const sizeBytes = batchSizeAt(batch, 0);
  if (sizeBytes < BATCH_OVERHEAD_BYTES + BATCH_LENGTH_MIN)
    return fault("CORRUPT_MESSAGE", "the batch length is too small");
  const magic = magicAt(batch, 0);
  if (magic < MAGIC) return fault("INVALID_RECORD", `message format ${magic} is not taken, only ${MAGIC}`);
  if (magic > MAGIC) return fault("CORRUPT_MESSAGE", `message format ${magic} does not exist`);
  if (sizeBytes > batch.length) {
    return fault("CORRUPT_MESSAGE", `the batch says ${sizeBytes} bytes, the body has ${batch.length}`);
  }
  if (sizeBytes < batch.length) {
    return fault("INVALID_RECORD", `the body holds ${batch.length - sizeBytes} bytes after its one batch`);
  }
  if (baseOffsetAt(batch, 0) !== 0) return fault("INVALID_RECORD", "the base offset of a produced batch must be 0");
  if (sizeBytes > limits.maxBytes) {
    return fault("MESSAGE_TOO_LARGE", `the batch has ${sizeBytes} bytes, max.message.bytes is ${limits.maxBytes}`);
  }
  if (sizeBytes < BATCH_HEADER_BYTES) return fault("CORRUPT_MESSAGE", `${sizeBytes} bytes do not hold a batch header`);
  const isIntact = limits.checksum.crc32c(batch.subarray(CRC_START)) === crcAt(batch, 0);
  return isIntact ? undefined : fault("CORRUPT_MESSAGE", "the batch does not match its checksum");
}

/** Rows 10 to 12, and what the attributes may say in a batch from a client. */
function checkHeader(batch: Uint8Array): BatchFault | undefined {
  const lastOffsetDelta = lastOffsetDeltaAt(batch, 0);
  const recordCount = recordCountAt(batch, 0);
  if (lastOffsetDelta < 0 || recordCount <= 0 || recordCount !== lastOffsetDelta + 1) {
    return fault("INVALID_RECORD", `${recordCount} records do not go with a last offset delta of ${lastOffsetDelta}`);
  }
  return checkAttributes(attributesAt(batch, 0)) ?? checkCompressedCount(batch) ?? checkNumbers(batch);
}

/** Compressed records are not counted here, but the count must be possible: offsets cost nothing to claim, and segments are named by them. */
function checkCompressedCount(batch: Uint8Array): BatchFault | undefined {
  if ((attributesAt(batch, 0) & CODEC_MASK) === 0) return undefined;
  const recordCount = recordCountAt(batch, 0);
  const isPossible = batch.length > BATCH_HEADER_BYTES && recordCount * RECORD_BYTES_MIN <= DECOMPRESSED_BYTES_MAX;
  return isPossible
    ? undefined
    : fault("INVALID_RECORD", `${recordCount} records do not fit a batch of ${batch.length} bytes`);
}

function checkAttributes(attributes: number): BatchFault | undefined {
  if ((attributes & UNDEFINED_BITS) !== 0) return fault("INVALID_RECORD", "attribute bits 7 to 15 mean nothing");
  if ((attributes & CONTROL_BIT) !== 0) return fault("INVALID_RECORD", "clients may not write control batches");
  if ((attributes & TRANSACTIONAL_BIT) !== 0) return fault("INVALID_RECORD", "transactions are not offered");
  if ((attributes & DELETE_HORIZON_BIT) !== 0) return fault("INVALID_RECORD", "only compaction sets a delete horizon");
  if ((attributes & LOG_APPEND_TIME_BIT) !== 0)
    return fault("INVALID_TIMESTAMP", "only the leader sets the append time");
  const codec = attributes & CODEC_MASK;
  if (COMPRESSIONS[codec] === undefined) return fault("UNSUPPORTED_COMPRESSION_TYPE", `codec ${codec} does not exist`);
  return undefined;
}

/** 64-bit fields must be exact as numbers; a producer must be whole or absent. */
function checkNumbers(batch: Uint8Array): BatchFault | undefined {
  const producerId = producerIdAt(batch, 0);
  if (!Number.isSafeInteger(producerId)) return fault("INVALID_RECORD", "the producer id is beyond 2^53");
  if (producerId < -1) return fault("INVALID_RECORD", "no producer is -1");
  if (producerId >= 0 && baseSequenceAt(batch, 0) < 0)
    return fault("INVALID_RECORD", "a producer id needs a base sequence");
  if (producerId >= 0 && producerEpochAt(batch, 0) < 0) return fault("INVALID_RECORD", "a producer id needs an epoch");
  const isExact = Number.isSafeInteger(baseTimestampAt(batch, 0)) && Number.isSafeInteger(maxTimestampAt(batch, 0));
  return isExact ? undefined : fault("INVALID_RECORD", "a timestamp is beyond 2^53");
}

/** Row 13, for uncompressed batches only: the broker does not decompress. */
function checkRecords(batch: Uint8Array): BatchFault | undefined {
  if ((attributesAt(batch, 0) & CODEC_MASK) !== 0) return undefined;
  const recordCount = recordCountAt(batch, 0);
  const walk = walkRecords(batch, {
    start: BATCH_HEADER_BYTES,
    end: batch.length,
    recordCount,
    lastOffsetDelta: recordCount - 1,
    isDense: true,
  });
  if (walk.fault !== undefined) return fault("INVALID_RECORD", walk.fault);
  const baseTimestamp = baseTimestampAt(batch, 0);
  const maxTimestamp = maxTimestampAt(batch, 0);
  if (!Number.isSafeInteger(baseTimestamp + walk.minTimestampDelta))
    return fault("INVALID_RECORD", "a timestamp is beyond 2^53");
  // Kafka mends a wrong maximum and the checksum with it (B-13); here produced bytes are stored as they came.
  return baseTimestamp + walk.maxTimestampDelta === maxTimestamp
    ? undefined
    : fault(
        "INVALID_RECORD",
        `the newest record is of ${baseTimestamp + walk.maxTimestampDelta}, the header says ${maxTimestamp}`,
      );
}

/** Row 18. */
function checkSegmentSize(batch: Uint8Array, segmentBytes: number): BatchFault | undefined {
  if (batch.length <= segmentBytes) return undefined;
  return fault("RECORD_LIST_TOO_LARGE", `the batch has ${batch.length} bytes, segment.bytes is ${segmentBytes}`);
}

/**
 * Whether a whole, undamaged batch starts at `position` and ends by `end`. Says nothing of what lies outside the checksum but is
 * plausible: the caller knows which base offset and epoch must come next (B-2).
 */
export function checkStoredBatch(
  bytes: Uint8Array,
  position: number,
  options: { readonly end: number; readonly checksum: Crc32c },
): StoredBatchCheck {
  const available = options.end - position;
  if (available < BATCH_PREFIX_BYTES) return { kind: "incomplete" };
  const sizeBytes = batchSizeAt(bytes, position);
  if (sizeBytes < BATCH_HEADER_BYTES)
    return { kind: "corrupt", reason: `batch size ${sizeBytes} is below the header's` };
  const magic = magicAt(bytes, position);
  if (magic !== MAGIC) return { kind: "corrupt", reason: `message format ${magic} is not ${MAGIC}` };
  if (sizeBytes > available) return { kind: "incomplete" };
  const isIntact =
    options.checksum.crc32c(bytes.subarray(position + CRC_START, position + sizeBytes)) === crcAt(bytes, position);
  if (!isIntact) return { kind: "corrupt", reason: "the batch does not match its checksum" };
  return storedHeaderFault(bytes, position) ?? { kind: "valid", sizeBytes };
}

function storedHeaderFault(bytes: Uint8Array, position: number): StoredBatchCheck | undefined {
  const baseOffset = baseOffsetAt(bytes, position);
  const lastOffset = lastOffsetAt(bytes, position);
  if (baseOffset < 0 || lastOffset < baseOffset || !Number.isSafeInteger(lastOffset)) {
    return { kind: "corrupt", reason: `offsets ${baseOffset} to ${lastOffset} are not possible` };
  }
  if (recordCountAt(bytes, position) < 0 || recordCountAt(bytes, position) > lastOffset - baseOffset + 1) {
    return { kind: "corrupt", reason: `${recordCountAt(bytes, position)} records do not fit its offsets` };
  }
  return undefined;
}
