// Bytes of the journal: the file header and the records (D-11). Each record carries the CRC of the one before it, so that replay
// stops at the first that does not chain. Layout in docs/storage.md.
import { EMPTY_BYTES, readI32, readI64, readU16, readU32, writeI64, writeU16, writeU32 } from "../base/bytes.ts";
import { present } from "../base/assert.ts";
import { type DirectoryId, UUID_BYTES, uuidFromBytes, uuidToBytes } from "../model/ids.ts";
import type { Checksum } from "../ports/checksum.ts";
import { FORMAT_VERSION, MAGIC, MIN_READER_VERSION, refuseNewer } from "./format.ts";

export const RECORD_HEADER_BYTES = 72;
export const FILE_HEADER_BYTES = 128;

export const KIND = {
  /** `base`..`last` in `epoch`; the body is the record batch, or a run of them. FLAG_OPENS_EPOCH: the epoch starts at `base`. */
  APPEND: 1,
  /** Everything from `base` on is cut. The body is the chain at the cut of the segment that goes on there (D-16), or empty: it is not known, or none does. */
  TRUNCATE: 2,
  /** `epoch` starts at `base`. */
  EPOCH: 3,
  /** The log starts at `base`. */
  LOG_START: 4,
  /** The log exists from here on, empty at `base`; the body says what it is. */
  CREATE: 5,
  /** The log is gone. */
  DELETE: 6,
  /** Nothing but its `syncedTo`. */
  MARK: 7,
  /** Last record of the file: the journal goes on in the next generation. */
  SEAL: 8,
  /** Damage was met in the log (D-17): `base` is the first offset not proven, -1 when not known; the body says why. */
  DAMAGED: 9,
  /** The high watermarks that rose since a record said so, of no log; the body has a row for each log: id, offset, epoch of the batch ending there (D-7). */
  HIGH_WATERMARKS: 10,
} as const;
export type RecordKind = (typeof KIND)[keyof typeof KIND];

export const FLAG_OPENS_EPOCH = 1;

export interface RecordFields {
  readonly kind: number;
  readonly flags: number;
  readonly logId: number;
  readonly base: number;
  readonly last: number;
  readonly epoch: number;
  readonly body: Uint8Array;
}

/** The body of a TRUNCATE. */
export function encodeChain(chain: number | undefined): Uint8Array {
  if (chain === undefined) return EMPTY_BYTES;
  const body = new Uint8Array(4);
  writeU32(body, 0, chain);
  return body;
}

export const decodeChain = (body: Uint8Array): number | undefined => (body.length < 4 ? undefined : readU32(body, 0));

/** Where a record stands in the chain. `salt` seeds each CRC of the file, so that no producer can forge a record inside a batch. */
export interface ChainPlace {
  readonly generation: number;
  readonly salt: number;
  sequence: number;
  /** CRC of the record before, or of the file header. */
  prevCrc: number;
  /** Position in this file up to which an fdatasync had succeeded when this record was written. */
  syncedTo: number;
}

/** Writes the header of a record at `position` of `target`, moves `place` on and returns the record's CRC. */
export function encodeRecordHeader(
  target: Uint8Array,
  position: number,
  options: { record: RecordFields; place: ChainPlace; checksum: Checksum },
): number {
  const { record, place, checksum } = options;
  writeU32(target, position, MAGIC.RECORD);
  writeU32(target, position + 8, place.prevCrc);
  target[position + 12] = record.kind;
  target[position + 13] = 1;
  writeU16(target, position + 14, record.flags);
  writeI64(target, position + 16, place.generation);
  writeI64(target, position + 24, place.sequence);
  writeI64(target, position + 32, place.syncedTo);
  writeI64(target, position + 40, record.logId);
  writeI64(target, position + 48, record.base);
  writeI64(target, position + 56, record.last);
  writeU32(target, position + 64, record.epoch);
  writeU32(target, position + 68, record.body.length);
  let crc = checksum.crc32c(target.subarray(position + CRC_FROM, position + RECORD_HEADER_BYTES), place.salt);
  if (record.body.length > 0) crc = checksum.crc32c(record.body, crc);
  writeU32(target, position + 4, crc);
  place.prevCrc = crc;
  place.sequence++;
  return crc;
}

export interface JournalRecord extends RecordFields {
  readonly version: number;
  readonly crc: number;
  readonly prevCrc: number;
  readonly generation: number;
  readonly sequence: number;
  readonly syncedTo: number;
  readonly sizeBytes: number;
}

/** Bytes that a record at `position` claims to take; undefined when there is no record header. Trusts nothing else. */
export function claimedSizeAt(bytes: Uint8Array, position: number): number | undefined {
  if (position + RECORD_HEADER_BYTES > bytes.length || readU32(bytes, position) !== MAGIC.RECORD) return undefined;
  return RECORD_HEADER_BYTES + readU32(bytes, position + 68);
}

/** First byte that a record's CRC covers, from its start. */
export const CRC_FROM = 8;

/** What the header of a record at `position` says; nothing of it is proven. */
export const claimAt = (
  bytes: Uint8Array,
  position: number,
): Pick<JournalRecord, "crc" | "generation" | "sequence" | "syncedTo"> => ({
  crc: readU32(bytes, position + 4),
  generation: readI64(bytes, position + 16),
  sequence: readI64(bytes, position + 24),
  syncedTo: readI64(bytes, position + 32),
});

/** The record at `position` when it is whole and its own CRC holds; the body is a view. */
export function decodeRecord(
  bytes: Uint8Array,
  position: number,
  options: { salt: number; checksum: Checksum },
): JournalRecord | undefined {
  const sizeBytes = claimedSizeAt(bytes, position);
  if (sizeBytes === undefined || position + sizeBytes > bytes.length) return undefined;
  const claim = claimAt(bytes, position);
  const crc = options.checksum.crc32c(bytes.subarray(position + CRC_FROM, position + sizeBytes), options.salt);
  if (crc !== claim.crc) return undefined;
  return {
    ...claim,
    kind: bytes[position + 12] as number,
    version: bytes[position + 13] as number,
    flags: readU16(bytes, position + 14),
    prevCrc: readU32(bytes, position + 8),
    logId: readI64(bytes, position + 40),
    base: readI64(bytes, position + 48),
    last: readI64(bytes, position + 56),
    epoch: readI32(bytes, position + 64),
    body: bytes.subarray(position + RECORD_HEADER_BYTES, position + sizeBytes),
    sizeBytes,
  };
}

/** First bytes of a journal file. Written only after the file before it, if it names one, was wholly synced. */
export interface JournalFileHeader {
  readonly generation: number;
  readonly directoryId: DirectoryId;
  readonly salt: number;
  /** The file before: generation, 0 for none; CRC and sequence of its SEAL; its length. */
  readonly prevGeneration: number;
  readonly prevCrc: number;
  readonly prevSequence: number;
  readonly prevLength: number;
}

export function encodeFileHeader(header: JournalFileHeader, checksum: Checksum): Uint8Array {
  const bytes = new Uint8Array(FILE_HEADER_BYTES);
  writeU32(bytes, 0, MAGIC.JOURNAL);
  writeU16(bytes, 4, FORMAT_VERSION);
  writeU16(bytes, 6, MIN_READER_VERSION);
  writeI64(bytes, 12, header.generation);
  bytes.set(present(uuidToBytes(header.directoryId), "directory id"), 20);
  writeU32(bytes, 36, header.salt);
  writeI64(bytes, 40, header.prevGeneration);
  writeU32(bytes, 48, header.prevCrc);
  writeI64(bytes, 52, header.prevSequence);
  writeI64(bytes, 60, header.prevLength);
  writeU32(bytes, 8, checksum.crc32c(bytes.subarray(12)));
  return bytes;
}

/** Undefined when the header is not whole. Throws DATA_DIR_NEWER. */
export function decodeFileHeader(
  bytes: Uint8Array,
  options: { path: string; checksum: Checksum },
): (JournalFileHeader & { readonly crc: number }) | undefined {
  if (bytes.length < FILE_HEADER_BYTES || readU32(bytes, 0) !== MAGIC.JOURNAL) return undefined;
  const crc = readU32(bytes, 8);
  if (options.checksum.crc32c(bytes.subarray(12, FILE_HEADER_BYTES)) !== crc) return undefined;
  refuseNewer(options.path, { version: readU16(bytes, 4), minReader: readU16(bytes, 6) });
  return {
    crc,
    generation: readI64(bytes, 12),
    directoryId: uuidFromBytes(bytes.subarray(20, 20 + UUID_BYTES)),
    salt: readU32(bytes, 36),
    prevGeneration: readI64(bytes, 40),
    prevCrc: readU32(bytes, 48),
    prevSequence: readI64(bytes, 52),
    prevLength: readI64(bytes, 60),
  };
}
