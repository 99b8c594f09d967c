// Reads a journal file record by record, and tells where and why its chain ends (D-11).
import { EMPTY_BYTES } from "../base/bytes.ts";
import { crc32cShifted } from "../base/crc32c.ts";
import { Heap } from "../base/heap.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { FileHandle } from "../ports/files.ts";
import {
  claimAt,
  claimedSizeAt,
  CRC_FROM,
  decodeFileHeader,
  decodeRecord,
  FILE_HEADER_BYTES,
  type JournalFileHeader,
  type JournalRecord,
  KIND,
  RECORD_HEADER_BYTES,
} from "./journal-record.ts";

const READ_BYTES = 1024 * 1024;
/** No record is longer: twice the largest batch that a topic may be told to take, since compaction may write one anew that does not compress as well. */
const RECORD_BYTES_MAX = 128 * 1024 * 1024;

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

/** Bytes of a file from `start` on. */
interface Window {
  readonly start: number;
  readonly bytes: Uint8Array;
}

/** A record, if the sum of what was passed is `sum` where it ends. */
interface Candidate {
  readonly at: number;
  readonly end: number;
  readonly sum: number;
}

/**
 * What may be records, summed in one pass however they overlap: producers may have filled a journal with headers that look right and claim all of
 * the rest, and each summed alone would take the square of that.
 * Bound: one for about 40 bytes of RECORD_BYTES_MAX, since what is looked at of two of them cannot lie closer together.
 */
class Candidates {
  readonly #checksum: Checksum;
  readonly #pending = new Heap<Candidate>((left, right) => left.end < right.end);
  #sum = 0;
  #passed: number;

  constructor(checksum: Checksum, position: number) {
    this.#checksum = checksum;
    this.#passed = position;
  }

  /** One that begins at `at`; everything up to where its sum begins was passed. `crc`: what it says of itself. */
  add(at: number, record: { readonly size: number; readonly crc: number; readonly salt: number }): void {
    const before = crc32cShifted(this.#sum ^ record.salt, record.size - CRC_FROM);
    this.#pending.push({ at, end: at + record.size, sum: (before ^ record.crc) >>> 0 });
  }

  /** Passes what lies before `position`; gives where the first record begins that ends there at the latest. */
  passTo(position: number, window: Window): number | undefined {
    for (let next = this.#pending.peek(); next !== undefined && next.end <= position; next = this.#pending.peek()) {
      this.#sumTo(next.end, window);
      this.#pending.pop();
      if (next.sum === this.#sum) return next.at;
    }
    if (position > this.#passed) this.#sumTo(position, window);
    return undefined;
  }

  #sumTo(position: number, { start, bytes }: Window): void {
    const isWanted = this.#pending.length > 0;
    if (isWanted) this.#sum = this.#checksum.crc32c(bytes.subarray(this.#passed - start, position - start), this.#sum);
    this.#passed = position;
  }
}

/**
 * Looks behind the end of a chain for a record of this file that verifies by its own CRC and says that more than `end.position` bytes were
 * synced: then what is missing was durable. Returns that record's own position.
 */
export async function findProofOfSync(
  handle: FileHandle,
  options: { readonly header: JournalHeader; readonly end: JournalEnd; readonly checksum: Checksum },
): Promise<number | undefined> {
  const { header, end, checksum } = options;
  const sizeBytes = await handle.size();
  const view = new FileView(handle, { sizeBytes, isReused: true });
  const candidates = new Candidates(checksum, end.position);
  for (let start = end.position; start + RECORD_HEADER_BYTES <= sizeBytes; ) {
    const bytes = await view.at(start, READ_BYTES);
    const window: Window = { start, bytes };
    const last = bytes.length - RECORD_HEADER_BYTES;
    if (last < 0) return undefined;
    // "O" of the magic; the rest is looked at by claimedSizeAt.
    for (let at = bytes.indexOf(0x4f); at >= 0 && at <= last; at = bytes.indexOf(0x4f, at + 1)) {
      const position = start + at;
      const size = claimedSizeAt(bytes, at);
      if (size === undefined || size > RECORD_BYTES_MAX || position + size > sizeBytes) continue;
      const { crc, generation, sequence, syncedTo } = claimAt(bytes, at);
      // Most of what looks like one is of the file's life before.
      if (generation !== header.generation || sequence <= end.lastSequence) continue;
      if (syncedTo <= end.position || syncedTo > position) continue;
      const proof = candidates.passTo(position + CRC_FROM, window);
      if (proof !== undefined) return proof;
      candidates.add(position, { size, crc, salt: header.salt });
    }
    const isAtEnd = start + bytes.length === sizeBytes;
    start += last + 1;
    const proof = candidates.passTo(isAtEnd ? sizeBytes : start, window);
    if (proof !== undefined) return proof;
  }
  return undefined;
}
