// Entries of the metadata log as record batches (D-19): one entry a batch, so that a log can be cut behind any of them. Base offset = index,
// leader epoch = term. The key of the one record says the rest: the disk that it is of, and the term once more, as a batch's CRC does not
// cover its leader epoch.
import { assert, present } from "../base/assert.ts";
import { EMPTY_BYTES, readI64, writeI64 } from "../base/bytes.ts";
import { OttlaError } from "../model/errors.ts";
import { type DirectoryId, UUID_BYTES, uuidFromBytes, uuidToBytes } from "../model/ids.ts";
import {
  assignOffsets,
  BATCH_HEADER_BYTES,
  type BatchCodecs,
  baseOffsetAt,
  leaderEpochAt,
} from "../model/record-batch.ts";
import { type DecodedRecord, decodeRecords, RecordBatchBuilder, recordSizeBytes } from "../model/records.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { StoredEntry } from "./raft-types.ts";

const neverCompressed = (): never => {
  throw new OttlaError("INVALID_RECORD", "entries of the metadata log are not compressed");
};
const NO_CODECS: BatchCodecs = { compress: neverCompressed, decompress: neverCompressed };

/** Version 2 says whose it is. */
const KEY_VERSION = 2;
/** Version, kind, term, synced end, directory id. */
const KEY_BYTES = 18 + UUID_BYTES;
const KINDS = ["command", "leaderStart", "configuration"] as const satisfies readonly StoredEntry["kind"][];
const ENTRY_BYTES_MAX = 64 * 1024 * 1024;
/** Of the leader epoch's 32 bits. */
const TERM_MAX = 2 ** 31 - 1;

/** What stands in a batch besides the entry. */
export interface EntryContext {
  /** A sync of everything below had succeeded when the batch was written: tells a torn tail from damage (D-11). */
  readonly syncedEnd: number;
  readonly timestamp: number;
  /** The disk that wrote it. */
  readonly directoryId: DirectoryId;
}

export function encodeEntry(entry: StoredEntry, context: EntryContext, checksum: Checksum): Uint8Array {
  assert(entry.bytes.length <= ENTRY_BYTES_MAX, `an entry of ${entry.bytes.length} bytes`);
  assert(entry.term >= 0 && entry.term <= TERM_MAX, `term ${entry.term}`);
  const key = new Uint8Array(KEY_BYTES);
  key[0] = KEY_VERSION;
  key[1] = KINDS.indexOf(entry.kind);
  writeI64(key, 2, entry.term);
  writeI64(key, 10, context.syncedEnd);
  key.set(present(uuidToBytes(context.directoryId), "directory id"), 18);
  const record = { key, value: entry.bytes, headers: [], timestamp: context.timestamp };
  const builder = new RecordBatchBuilder({ limitBytes: BATCH_HEADER_BYTES + recordSizeBytes(record) });
  assert(builder.tryAppend(record), "a record fits its own size");
  const batch = builder.build({ compression: "none", codecs: NO_CODECS, checksum, mayBeView: true });
  assignOffsets(batch, entry.index, entry.term);
  return batch;
}

export interface DecodedEntry extends EntryContext {
  readonly entry: StoredEntry;
}

/** What a whole batch of the metadata log holds; a text says why it holds nothing. Throws DATA_DIR_NEWER. The entry's bytes are a view. */
export function decodeEntry(batch: Uint8Array, path: string, checksum: Checksum): DecodedEntry | string {
  const index = baseOffsetAt(batch, 0);
  const record = onlyRecord(batch, checksum);
  const key = record?.key ?? EMPTY_BYTES;
  if (record === undefined || key.length === 0) return `no entry at index ${index}`;
  if (key[0] !== KEY_VERSION) throw newerEntry(path, `entry ${index} has version ${key[0]}`);
  if (key.length !== KEY_BYTES) return `no entry at index ${index}`;
  const kind = KINDS[key[1] as number];
  if (kind === undefined) throw newerEntry(path, `entry ${index} is of kind ${key[1]}`);
  const term = readI64(key, 2);
  if (term !== leaderEpochAt(batch, 0))
    return `entry ${index} of term ${term} says leader epoch ${leaderEpochAt(batch, 0)}`;
  const entry: StoredEntry = { index, term, kind, bytes: record.value ?? EMPTY_BYTES };
  const directoryId = uuidFromBytes(key.subarray(18));
  return { entry, syncedEnd: readI64(key, 10), timestamp: record.timestamp, directoryId };
}

function onlyRecord(batch: Uint8Array, checksum: Checksum): DecodedRecord | undefined {
  try {
    const records = decodeRecords(batch, { codecs: NO_CODECS, checksum, decompressedBytesMax: batch.length });
    return records.recordCount === 1 ? [...records][0] : undefined;
  } catch (thrown) {
    if (thrown instanceof OttlaError) return undefined;
    throw thrown;
  }
}

const newerEntry = (path: string, what: string): OttlaError =>
  new OttlaError("DATA_DIR_NEWER", `${path}: ${what}, which this build does not know`);
