// A structural walk over the uncompressed records of one batch (B-4): every length, the offset deltas, exact consumption. It
// allocates one small object per batch and nothing per record, about 11 ns each. What passed it may be read without checks.
import { readVarint, readVarlong, type VarintCursor } from "../base/varint.ts";

export interface RecordsRange {
  /** First byte of the first record. */
  readonly start: number;
  /** Exclusive: the last record must end exactly here. */
  readonly end: number;
  readonly recordCount: number;
  readonly lastOffsetDelta: number;
  /** Offset deltas are exactly 0, 1, 2, ... (B-14). False, for stored batches: strictly rising, at most lastOffsetDelta (B-10). */
  readonly isDense: boolean;
}

export interface RecordsWalk {
  /** What is wrong with the first bad record; undefined when all are well formed. */
  readonly fault: string | undefined;
  /** Of the records' timestamp deltas; 0 when there are no records. */
  readonly minTimestampDelta: number;
  readonly maxTimestampDelta: number;
}

/** attributes, timestampDelta, offsetDelta, keyLength, valueLength, headersCount: one byte each at least. */
const RECORD_BODY_BYTES_MIN = 6;
/** keyLength and valueLength: one byte each at least. */
const HEADER_BYTES_MIN = 2;

export function walkRecords(bytes: Uint8Array, range: RecordsRange): RecordsWalk {
  const { end, recordCount, isDense, lastOffsetDelta } = range;
  const cursor: VarintCursor = { value: 0, position: range.start };
  let minTimestampDelta = recordCount === 0 ? 0 : Number.POSITIVE_INFINITY;
  let maxTimestampDelta = recordCount === 0 ? 0 : Number.NEGATIVE_INFINITY;
  let previousOffsetDelta = -1;
  let fault: string | undefined;
  let index = 0;
  for (; index < recordCount; index++) {
    if (!readVarint(bytes, end, cursor)) {
      fault = "its length is cut short";
      break;
    }
    const bodyEnd = cursor.position + cursor.value;
    if (cursor.value < RECORD_BODY_BYTES_MIN || bodyEnd > end) {
      fault = `its length ${cursor.value} does not fit`;
      break;
    }
    cursor.position++; // attributes: none are defined for a record
    if (!readVarlong(bytes, bodyEnd, cursor)) {
      fault = "its timestamp delta is not readable";
      break;
    }
    if (cursor.value < minTimestampDelta) minTimestampDelta = cursor.value;
    if (cursor.value > maxTimestampDelta) maxTimestampDelta = cursor.value;
    if (!readVarint(bytes, bodyEnd, cursor)) {
      fault = "its offset delta is not readable";
      break;
    }
    const offsetDelta = cursor.value;
    if (isDense ? offsetDelta !== index : offsetDelta <= previousOffsetDelta || offsetDelta > lastOffsetDelta) {
      fault = `its offset delta ${offsetDelta} is out of order`;
      break;
    }
    previousOffsetDelta = offsetDelta;
    fault = skipPayload(bytes, bodyEnd, cursor);
    if (fault !== undefined) break;
  }
  if (fault !== undefined) fault = `record ${index}: ${fault}`;
  else if (cursor.position !== end) fault = `${end - cursor.position} bytes are left after the last record`;
  return { fault, minTimestampDelta, maxTimestampDelta };
}

/** Key, value and headers: the rest of the record, which must end exactly at `bodyEnd`. */
function skipPayload(bytes: Uint8Array, bodyEnd: number, cursor: VarintCursor): string | undefined {
  if (!skipNullable(bytes, bodyEnd, cursor)) return "its key does not fit";
  if (!skipNullable(bytes, bodyEnd, cursor)) return "its value does not fit";
  if (!readVarint(bytes, bodyEnd, cursor)) return "its header count is not readable";
  if (cursor.value !== 0) {
    const fault = skipHeaders(bytes, bodyEnd, cursor);
    if (fault !== undefined) return fault;
  }
  return cursor.position === bodyEnd ? undefined : `${bodyEnd - cursor.position} bytes are left in it`;
}

function skipHeaders(bytes: Uint8Array, bodyEnd: number, cursor: VarintCursor): string | undefined {
  const count = cursor.value;
  // Before anything is done per header: a small record must not announce billions of them (B-4).
  if (count < 0 || count * HEADER_BYTES_MIN > bodyEnd - cursor.position)
    return `its header count ${count} does not fit`;
  for (let index = 0; index < count; index++) {
    const isReadable = readVarint(bytes, bodyEnd, cursor);
    if (!isReadable || cursor.value < 0 || cursor.value > bodyEnd - cursor.position)
      return `key of header ${index} does not fit`;
    cursor.position += cursor.value;
    if (!skipNullable(bytes, bodyEnd, cursor)) return `value of header ${index} does not fit`;
  }
  return undefined;
}

/** Skips a length and that many bytes; length -1 is null. */
function skipNullable(bytes: Uint8Array, bodyEnd: number, cursor: VarintCursor): boolean {
  if (!readVarint(bytes, bodyEnd, cursor)) return false;
  const length = cursor.value;
  if (length === -1) return true;
  if (length < 0 || length > bodyEnd - cursor.position) return false;
  cursor.position += length;
  return true;
}
