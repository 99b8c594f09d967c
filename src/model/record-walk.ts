// A structural walk over the uncompressed records of one batch (B-4): every length, the offset deltas, exact consumption. It
// allocates one small object per batch and nothing per record, about 11 ns each. What passed it may be read without checks.
import { peekVarint, readVarint, readVarlong, type VarintCursor } from "../base/varint.ts";

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

/** `peekVarint` of -1, the length of null. Shifted as a length is, it gives 0. */
const NULL_WORD = 9;

export function walkRecords(bytes: Uint8Array, range: RecordsRange): RecordsWalk {
  const { end, recordCount, isDense, lastOffsetDelta } = range;
  const record: WalkedRecord = { end: 0, timestampDelta: 0, offsetDelta: 0 };
  let position = range.start;
  let minTimestampDelta = recordCount === 0 ? 0 : Number.MAX_SAFE_INTEGER;
  let maxTimestampDelta = recordCount === 0 ? 0 : Number.MIN_SAFE_INTEGER;
  let previousOffsetDelta = -1;
  for (let index = 0; index < recordCount; index++) {
    // The common record: short lengths, no headers. Each step goes forward, so when the last one meets the end that the record
    // announced, no length before it was wrong. Any other goes the careful way, which also knows what is wrong.
    const lengthWord = peekVarint(bytes, position);
    const bodyAt = position + (lengthWord & 7);
    const timeWord = peekVarint(bytes, bodyAt + 1);
    const offsetAt = bodyAt + 1 + (timeWord & 7);
    const offsetWord = peekVarint(bytes, offsetAt);
    const keyAt = offsetAt + (offsetWord & 7);
    const keyWord = peekVarint(bytes, keyAt);
    const valueAt = keyAt + (keyWord & 7) + (keyWord >>> 4);
    const valueWord = peekVarint(bytes, valueAt);
    const headersAt = valueAt + (valueWord & 7) + (valueWord >>> 4);
    let timestampDelta = (timeWord >>> 4) ^ -((timeWord >>> 3) & 1);
    let offsetDelta = (offsetWord >>> 4) ^ -((offsetWord >>> 3) & 1);
    const isCommon =
      (lengthWord & 8) === 0 &&
      (timeWord | offsetWord) >= 0 &&
      ((keyWord & 8) === 0 || keyWord === NULL_WORD) &&
      ((valueWord & 8) === 0 || valueWord === NULL_WORD) &&
      headersAt + 1 === bodyAt + (lengthWord >>> 4) &&
      headersAt < end &&
      bytes[headersAt] === 0;
    if (isCommon) position = headersAt + 1;
    else {
      const fault = walkCarefully(bytes, { start: position, end }, record);
      if (fault !== undefined) return faulty(`record ${index}: ${fault}`);
      timestampDelta = record.timestampDelta;
      offsetDelta = record.offsetDelta;
      position = record.end;
    }
    if (isDense ? offsetDelta !== index : offsetDelta <= previousOffsetDelta || offsetDelta > lastOffsetDelta) {
      return faulty(`record ${index}: its offset delta ${offsetDelta} is out of order`);
    }
    previousOffsetDelta = offsetDelta;
    if (timestampDelta < minTimestampDelta) minTimestampDelta = timestampDelta;
    if (timestampDelta > maxTimestampDelta) maxTimestampDelta = timestampDelta;
  }
  if (position !== end) return faulty(`${end - position} bytes are left after the last record`);
  return { fault: undefined, minTimestampDelta, maxTimestampDelta };
}

function faulty(fault: string): RecordsWalk {
  return { fault, minTimestampDelta: 0, maxTimestampDelta: 0 };
}

interface WalkedRecord {
  end: number;
  timestampDelta: number;
  offsetDelta: number;
}

/** One record of any shape; what is wrong with it, or undefined and `record` is filled in. */
function walkCarefully(
  bytes: Uint8Array,
  range: { readonly start: number; readonly end: number },
  record: WalkedRecord,
): string | undefined {
  const cursor: VarintCursor = { value: 0, position: range.start };
  if (!readVarint(bytes, range.end, cursor)) return "its length is cut short";
  const bodyEnd = cursor.position + cursor.value;
  if (cursor.value < RECORD_BODY_BYTES_MIN || bodyEnd > range.end) return `its length ${cursor.value} does not fit`;
  cursor.position++; // attributes: none are defined for a record
  if (!readVarlong(bytes, bodyEnd, cursor)) return "its timestamp delta is not readable";
  record.timestampDelta = cursor.value;
  if (!readVarint(bytes, bodyEnd, cursor)) return "its offset delta is not readable";
  record.offsetDelta = cursor.value;
  record.end = bodyEnd;
  return skipPayload(bytes, bodyEnd, cursor);
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
