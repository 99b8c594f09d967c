// Reads a journal file record by record, and tells where and why its chain ends (D-11).
import { EMPTY_BYTES } from "../base/bytes.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { FileHandle } from "../ports/files.ts";
import {
  claimedSizeAt,
  decodeFileHeader,
  decodeRecord,
  FILE_HEADER_BYTES,
  generationAt,
  type JournalFileHeader,
  type JournalRecord,
  KIND,
  RECORD_HEADER_BYTES,
} from "./journal-record.ts";

const READ_BYTES = 1024 * 1024;

export type JournalHeader = JournalFileHeader & { readonly crc: number };

/** The header of a journal file; undefined when it has none that is whole. */
export async function readJournalHeader(handle: FileHandle, checksum: Checksum): Promise<JournalHeader | undefined> {
  const bytes = new Uint8Array(FILE_HEADER_BYTES);
  const length = await handle.read(0, bytes);
  return decodeFileHeader(bytes.subarray(0, length), { path: handle.path, checksum });
}

/** A file seen through one buffer that holds whatever is asked for. */
class FileView {
  readonly #handle: FileHandle;
  readonly sizeBytes: number;
  readonly #isReused: boolean;
  #buffer: Uint8Array = EMPTY_BYTES;
  #bytes: Uint8Array = EMPTY_BYTES;
  #start = 0;

  /** `isReused`: what was given before is written over by the next read. */
  constructor(handle: FileHandle, { sizeBytes, isReused }: { readonly sizeBytes: number; readonly isReused: boolean }) {
    this.#handle = handle;
    this.sizeBytes = sizeBytes;
    this.#isReused = isReused;
  }

  /** Bytes from `position` on, `count` of them at least unless the file ends. */
  async at(position: number, count: number): Promise<Uint8Array> {
    const wanted = Math.min(count, this.sizeBytes - position);
    const held = this.#start + this.#bytes.length - position;
    if (position < this.#start || held < wanted) {
      const target = this.#room(Math.min(Math.max(wanted, READ_BYTES), this.sizeBytes - position));
      const length = await this.#handle.read(position, target);
      this.#bytes = target.subarray(0, length);
      this.#start = position;
    }
    return this.#bytes.subarray(position - this.#start);
  }

  #room(sizeBytes: number): Uint8Array {
    if (!this.#isReused || this.#buffer.length < sizeBytes) this.#buffer = new Uint8Array(sizeBytes);
    return this.#buffer.subarray(0, sizeBytes);
  }
}

/** Where the chain of one file ends. */
export interface JournalEnd {
  /** First byte that is not part of the chain. */
  readonly position: number;
  /** The chain ends with a SEAL. */
  readonly isSealed: boolean;
  readonly lastCrc: number;
  readonly lastSequence: number;
}

/** Visits the records of the chain in order. Bodies are views that stay valid, or with `keepsNothing` only until the visit has returned. */
export async function readJournal(
  handle: FileHandle,
  options: {
    readonly header: JournalHeader;
    readonly checksum: Checksum;
    readonly keepsNothing?: boolean;
    readonly visit: (record: JournalRecord, position: number) => void | Promise<void>;
  },
): Promise<JournalEnd> {
  const { header, checksum, visit, keepsNothing: isReused = false } = options;
  const view = new FileView(handle, { sizeBytes: await handle.size(), isReused });
  let position = FILE_HEADER_BYTES;
  let lastCrc = header.crc;
  let lastSequence = header.prevSequence;
  for (;;) {
    const record = await recordAt(view, position, { salt: header.salt, checksum });
    const chains =
      record !== undefined &&
      record.prevCrc === lastCrc &&
      record.sequence === lastSequence + 1 &&
      record.generation === header.generation;
    if (!chains) return { position, isSealed: false, lastCrc, lastSequence };
    await visit(record, position);
    lastCrc = record.crc;
    lastSequence = record.sequence;
    position += record.sizeBytes;
    if (isSeal(record)) return { position, isSealed: true, lastCrc, lastSequence };
  }
}

const isSeal = (record: JournalRecord): boolean => record.kind === KIND.SEAL;

async function recordAt(
  view: FileView,
  position: number,
  options: { salt: number; checksum: Checksum },
): Promise<JournalRecord | undefined> {
  if (position + RECORD_HEADER_BYTES > view.sizeBytes) return undefined;
  const sizeBytes = claimedSizeAt(await view.at(position, RECORD_HEADER_BYTES), 0);
  if (sizeBytes === undefined || position + sizeBytes > view.sizeBytes) return undefined;
  return decodeRecord(await view.at(position, sizeBytes), 0, options);
}

/**
 * Looks behind the end of a chain for a record of this file that verifies by its own CRC and says that more than `position` bytes were
 * synced: then what is missing was durable. Returns that record's own position.
 */
export async function findProofOfSync(
  handle: FileHandle,
  options: { readonly header: JournalHeader; readonly position: number; readonly checksum: Checksum },
): Promise<number | undefined> {
  const { header, position, checksum } = options;
  const sizeBytes = await handle.size();
  const windows = new FileView(handle, { sizeBytes, isReused: true });
  const records = new FileView(handle, { sizeBytes, isReused: true });
  for (let start = position; start + RECORD_HEADER_BYTES <= sizeBytes; ) {
    const bytes = await windows.at(start, READ_BYTES);
    const last = bytes.length - RECORD_HEADER_BYTES;
    if (last < 0) return undefined;
    // "O" of the magic; the rest is looked at by claimedSizeAt.
    for (let at = bytes.indexOf(0x4f); at >= 0 && at <= last; at = bytes.indexOf(0x4f, at + 1)) {
      // Most of what looks like one is of the file's life before.
      if (claimedSizeAt(bytes, at) === undefined || generationAt(bytes, at) !== header.generation) continue;
      const record = await recordAt(records, start + at, { salt: header.salt, checksum });
      if (record !== undefined && record.syncedTo > position) return start + at;
    }
    start += last + 1;
  }
  return undefined;
}
