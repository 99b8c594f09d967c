// What all of Ottla's own files share (D-31): a magic number, a format version and the oldest version that may still read it.
// Files in Kafka's layout carry none; theirs stands in `partition.metadata`.
import { readI64, readU16, readU32, utf8Decode, utf8Encode, writeI64, writeU16, writeU32 } from "../base/bytes.ts";
import { AssertionFailure } from "../base/assert.ts";
import { OttlaError } from "../model/errors.ts";

/** The version that this build writes, and the newest it reads. */
export const FORMAT_VERSION = 1;
/** A build older than this must refuse what this build writes. */
export const MIN_READER_VERSION = 1;

export const MAGIC = {
  /** "OTLS" */
  SUPERBLOCK: 0x4f544c53,
  /** "OTLJ" */
  JOURNAL: 0x4f544c4a,
  /** "OTLR" */
  RECORD: 0x4f544c52,
  /** "OTLI" */
  IMAGE: 0x4f544c49,
  /** "OTLQ" */
  QUORUM_STATE: 0x4f544c51,
  /** "OTLM" */
  METADATA_SNAPSHOT: 0x4f544c4d,
  /** "OTLP" */
  PRODUCERS: 0x4f544c50,
  /** "OTLD" */
  IDENTITY: 0x4f544c44,
} as const;

/** A slot of a file of two that is not used. */
export interface PassedOver {
  readonly position: number;
  readonly reason: string;
}

/** A write that a crash cut short and rot look alike. */
export const SLOT_FAULT = {
  SHORT: "the file ends within the slot",
  MAGIC: "it does not begin with the magic number",
  CHECKSUM: "it does not match its checksum",
  VERSION: "its format version is not that of what it holds",
} as const;

/** Refuses a file of a newer format by name, touching nothing. `known`: the newest version of this kind of file that this build reads. */
export function refuseNewer(
  path: string,
  versions: { readonly version: number; readonly minReader: number },
  known: number = FORMAT_VERSION,
): void {
  if (versions.minReader <= known) return;
  const { version, minReader } = versions;
  throw new OttlaError(
    "DATA_DIR_NEWER",
    `${path} has format version ${version} and needs a reader of version ${minReader} or newer; this build reads version ${known}`,
  );
}

/** Refuses a file from before there was a release: nobody has one to keep, and it does not say enough. */
export function refuseUnreleased(path: string, version: number, known: number): void {
  if (version >= known) return;
  throw new OttlaError(
    "DATA_DIR_FOREIGN",
    `${path} has format version ${version}, of a build from before the first release; this build reads version ${known}`,
  );
}

/** Reads what a right checksum covers. A field that cannot be (a newer build's bug, a forged file) is a fault of the file and not of this process. */
export function readChecked<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    if (!(thrown instanceof RangeError || thrown instanceof AssertionFailure)) throw thrown;
    throw new OttlaError("DATA_DAMAGED", `${path}: its checksum holds, but not what it says: ${thrown.message}`);
  }
}

/** Big-endian bytes of growing length. */
export class ByteWriter {
  #bytes = new Uint8Array(1024);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  #room(count: number): number {
    const at = this.#length;
    this.#length += count;
    if (this.#length > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(this.#bytes.length * 2, this.#length));
      grown.set(this.#bytes);
      this.#bytes = grown;
    }
    return at;
  }

  u8(value: number): void {
    // Before the bytes are looked at: they may be others then.
    const at = this.#room(1);
    this.#bytes[at] = value;
  }

  u16(value: number): void {
    const at = this.#room(2);
    writeU16(this.#bytes, at, value);
  }

  u32(value: number): void {
    const at = this.#room(4);
    writeU32(this.#bytes, at, value);
  }

  i64(value: number): void {
    const at = this.#room(8);
    writeI64(this.#bytes, at, value);
  }

  raw(value: Uint8Array): void {
    const at = this.#room(value.length);
    this.#bytes.set(value, at);
  }

  text(value: string): void {
    const encoded = utf8Encode(value);
    this.u32(encoded.length);
    this.raw(encoded);
  }

  setU32(position: number, value: number): void {
    writeU32(this.#bytes, position, value);
  }

  /** What was written so far; a view. */
  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }
}

/** Reads what ByteWriter wrote. Reading past the end throws RangeError: callers have checked a CRC first. */
export class ByteReader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array, position = 0) {
    this.#bytes = bytes;
    this.#at = position;
  }

  #take(count: number): number {
    const at = this.#at;
    if (count < 0 || at + count > this.#bytes.length) throw new RangeError("read past the end");
    this.#at += count;
    return at;
  }

  u8(): number {
    return this.#bytes[this.#take(1)] as number;
  }

  u16(): number {
    return readU16(this.#bytes, this.#take(2));
  }

  u32(): number {
    return readU32(this.#bytes, this.#take(4));
  }

  i32(): number {
    return this.u32() | 0;
  }

  i64(): number {
    return readI64(this.#bytes, this.#take(8));
  }

  raw(count: number): Uint8Array {
    const at = this.#take(count);
    return this.#bytes.subarray(at, at + count);
  }

  text(): string {
    return utf8Decode(this.raw(this.u32()));
  }
}
