// The sidecar <base>.ident: the rows of a segment's identity, appended as the segment grows. Each row carries the checksum of all of the file up to it,
// so that a torn end, rot, or the file of another segment tells.
import { bytesEqual, readI64, readU16, readU32, writeI64, writeU16, writeU32 } from "../base/bytes.ts";
import { crc32cWithin } from "../base/crc32c.ts";
import { present } from "../base/assert.ts";
import { type PartitionIndex, type TopicId, uuidToBytes } from "../model/ids.ts";
import { FORMAT_VERSION, MAGIC, MIN_READER_VERSION } from "./format.ts";
import { segmentSeed } from "./identity.ts";
import { IdentityRows } from "./identity-rows.ts";

export const IDENTITY_HEADER_BYTES = 40;
export const IDENTITY_ROW_BYTES = 16;
const CHECKED_FROM = 12;
const ROW_CHECK_AT = 12;

/** Whose segment it is. */
export interface SegmentOwner {
  readonly topicId: TopicId;
  readonly partition: PartitionIndex;
  readonly base: number;
}

export function encodeIdentityHeader({ topicId, partition, base }: SegmentOwner): Uint8Array {
  const bytes = new Uint8Array(IDENTITY_HEADER_BYTES);
  writeU32(bytes, 0, MAGIC.IDENTITY);
  writeU16(bytes, 4, FORMAT_VERSION);
  writeU16(bytes, 6, MIN_READER_VERSION);
  bytes.set(present(uuidToBytes(topicId), "topic id"), 12);
  writeU32(bytes, 28, partition);
  writeI64(bytes, 32, base);
  writeU32(bytes, 8, crc32cWithin(bytes, { from: CHECKED_FROM, end: IDENTITY_HEADER_BYTES }, 0));
  return bytes;
}

/** The rows from `fromRow` on; `check` is that of the row before, or of the header. */
export function encodeIdentityRows(
  rows: IdentityRows,
  { fromRow, check }: { readonly fromRow: number; readonly check: number },
): { readonly bytes: Uint8Array; readonly check: number } {
  const bytes = new Uint8Array((rows.count - fromRow) * IDENTITY_ROW_BYTES);
  let last = check;
  for (let row = fromRow; row < rows.count; row++) {
    const at = (row - fromRow) * IDENTITY_ROW_BYTES;
    writeU32(bytes, at, rows.relativeEndAt(row) - 1);
    writeU32(bytes, at + 4, rows.positionAt(row));
    writeU32(bytes, at + 8, rows.chainAt(row));
    last = crc32cWithin(bytes, { from: at, end: at + ROW_CHECK_AT }, last);
    writeU32(bytes, at + ROW_CHECK_AT, last);
  }
  return { bytes, check: last };
}

export interface FoundIdentity {
  readonly rows: IdentityRows;
  /** Of the last row, or the header. */
  readonly check: number;
  /** Why the rest of the file does not count; undefined: all of it does. */
  readonly fault: string | undefined;
}

/** What can be used of the file, or why nothing can. */
export function decodeIdentity(bytes: Uint8Array, owner: SegmentOwner): FoundIdentity | string {
  if (bytes.length < IDENTITY_HEADER_BYTES) return "it ends within its header";
  if (readU32(bytes, 0) !== MAGIC.IDENTITY) return "it does not begin with the magic number";
  if (readU16(bytes, 6) > FORMAT_VERSION) return `it needs a reader of version ${readU16(bytes, 6)} or newer`;
  const check = crc32cWithin(bytes, { from: CHECKED_FROM, end: IDENTITY_HEADER_BYTES }, 0);
  if (check !== readU32(bytes, 8)) return "its header does not match its checksum";
  if (!bytesEqual(bytes.subarray(0, IDENTITY_HEADER_BYTES), encodeIdentityHeader(owner)))
    return `it is of another segment, which begins at offset ${readI64(bytes, 32)}`;
  return decodeRows(bytes, check, owner);
}

function decodeRows(bytes: Uint8Array, headerCheck: number, owner: SegmentOwner): FoundIdentity {
  const rows = new IdentityRows(segmentSeed(owner.topicId, owner.partition, owner.base));
  let check = headerCheck;
  let at = IDENTITY_HEADER_BYTES;
  for (; at + IDENTITY_ROW_BYTES <= bytes.length; at += IDENTITY_ROW_BYTES) {
    const next = crc32cWithin(bytes, { from: at, end: at + ROW_CHECK_AT }, check);
    if (next !== readU32(bytes, at + ROW_CHECK_AT))
      return { rows, check, fault: `the row at position ${at} does not match its checksum` };
    const row = {
      relativeEnd: readU32(bytes, at) + 1,
      position: readU32(bytes, at + 4),
      chain: readU32(bytes, at + 8),
    };
    if (row.relativeEnd <= rows.relativeEndAt(rows.count - 1) || row.position <= rows.lastPosition)
      return { rows, check, fault: `the row at position ${at} is not behind the one before` };
    rows.add(row.relativeEnd, row);
    check = next;
  }
  return { rows, check, fault: at === bytes.length ? undefined : "it ends within a row" };
}
