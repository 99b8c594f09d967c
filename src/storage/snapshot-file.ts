// The file of one snapshot of the metadata: a head, then the bytes in blocks, each with its CRC, so that any piece can be read alone and none
// is served damaged. It gets its name only when it is whole and synced.
import { assert } from "../base/assert.ts";
import { readU16, readU32, writeU32 } from "../base/bytes.ts";
import { OttlaError } from "../model/errors.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { FileHandle } from "../ports/files.ts";
import { ByteReader, ByteWriter, MAGIC, readChecked, refuseNewer, refuseUnreleased } from "./format.ts";
import { readOwner, writeOwner } from "./quorum-state.ts";
import type { RaftOwner, StoredSnapshotMeta } from "./raft-types.ts";

export const BLOCK_BYTES = 64 * 1024;
export const CRC_BYTES = 4;
/** Magic, versions, CRC of the head behind it. */
const PREFIX_BYTES = 12;
const HEAD_LENGTH_BYTES = 4;
const HEAD_BYTES_MAX = 64 * 1024;
/** Version 2 says whose it is. */
const VERSION = 2;

const SUFFIX = ".snapshot";

/** As Kafka names them: end, then the term of the last entry. */
export const snapshotName = ({ end, lastTerm }: Pick<StoredSnapshotMeta, "end" | "lastTerm">): string =>
  `${String(end).padStart(20, "0")}-${String(lastTerm).padStart(10, "0")}${SUFFIX}`;

/** Undefined for other names. */
export function snapshotOf(name: string): Pick<StoredSnapshotMeta, "end" | "lastTerm"> | undefined {
  const match = /^(\d{20})-(\d{10})\.snapshot$/.exec(name);
  return match === null ? undefined : { end: Number(match[1]), lastTerm: Number(match[2]) };
}

/** Of a file that is being written; such a file holds nothing after a crash. */
export const temporaryName = (meta: StoredSnapshotMeta, number: number): string =>
  `${snapshotName(meta)}.${number}.tmp`;
export const isTemporary = (name: string): boolean => /\.snapshot\.\d+\.tmp$/.test(name);

export interface SnapshotHead {
  readonly meta: StoredSnapshotMeta;
  readonly owner: RaftOwner;
  /** Where the first block starts. */
  readonly headBytes: number;
}

export function encodeSnapshotHead(meta: StoredSnapshotMeta, owner: RaftOwner, checksum: Checksum): Uint8Array {
  const writer = new ByteWriter();
  writer.u32(MAGIC.METADATA_SNAPSHOT);
  writer.u16(VERSION);
  writer.u16(VERSION);
  writer.u32(0);
  writer.u32(0);
  writer.i64(meta.end);
  writer.i64(meta.lastTerm);
  writer.i64(meta.sizeBytes);
  writer.u32(meta.configuration.length);
  writer.raw(meta.configuration);
  writeOwner(writer, owner);
  const head = writer.bytes();
  assert(head.length <= HEAD_BYTES_MAX, `a configuration of ${meta.configuration.length} bytes`);
  writeU32(head, PREFIX_BYTES, head.length);
  writeU32(head, PREFIX_BYTES - 4, checksum.crc32c(head.subarray(PREFIX_BYTES)));
  return head;
}

const damaged = (path: string, reason: string): OttlaError => new OttlaError("DATA_DAMAGED", `${path}: ${reason}`);

/** Throws DATA_DAMAGED, DATA_DIR_NEWER. Says nothing of the blocks but that the file is long enough for them. */
export async function readSnapshotHead(handle: FileHandle, checksum: Checksum): Promise<SnapshotHead> {
  const { path } = handle;
  const start = new Uint8Array(PREFIX_BYTES + HEAD_LENGTH_BYTES);
  const length = await handle.read(0, start);
  if (length < start.length || readU32(start, 0) !== MAGIC.METADATA_SNAPSHOT)
    throw damaged(path, "this is no snapshot of Ottla");
  const version = readU16(start, 4);
  refuseNewer(path, { version, minReader: readU16(start, 6) }, VERSION);
  const headBytes = readU32(start, PREFIX_BYTES);
  if (headBytes < start.length || headBytes > HEAD_BYTES_MAX) throw damaged(path, "its head is damaged");
  const head = new Uint8Array(headBytes);
  const isWhole = (await handle.read(0, head)) === headBytes;
  if (!isWhole || checksum.crc32c(head.subarray(PREFIX_BYTES)) !== readU32(head, PREFIX_BYTES - 4))
    throw damaged(path, "its head is damaged");
  refuseUnreleased(path, version, VERSION);
  const { meta, owner } = readChecked(path, () => readHead(new ByteReader(head, PREFIX_BYTES + HEAD_LENGTH_BYTES)));
  const { sizeBytes } = meta;
  const fileBytes = await handle.size();
  const expected = headBytes + sizeBytes + CRC_BYTES * Math.ceil(sizeBytes / BLOCK_BYTES);
  if (fileBytes !== expected) throw damaged(path, `it has ${fileBytes} bytes, ${expected} were written`);
  return { meta, owner, headBytes };
}

function readHead(reader: ByteReader): Pick<SnapshotHead, "meta" | "owner"> {
  const [end, lastTerm, sizeBytes] = [reader.i64(), reader.i64(), reader.i64()];
  const meta = { end, lastTerm, sizeBytes, configuration: reader.raw(reader.u32()) };
  return { meta, owner: readOwner(reader) };
}

/** The block with its CRC behind it. */
export function sealBlock(block: Uint8Array, checksum: Checksum): Uint8Array {
  const sealed = new Uint8Array(block.length + CRC_BYTES);
  sealed.set(block);
  writeU32(sealed, block.length, checksum.crc32c(block));
  return sealed;
}

/** Up to `length` bytes from `position` on, fewer only at the end. Throws DATA_DAMAGED. */
export async function readSnapshotBytes(
  handle: FileHandle,
  head: SnapshotHead,
  range: { readonly position: number; readonly length: number; readonly checksum: Checksum },
): Promise<Uint8Array> {
  const { sizeBytes } = head.meta;
  const end = Math.min(range.position + range.length, sizeBytes);
  const bytes = new Uint8Array(Math.max(0, end - range.position));
  for (let at = range.position; at < end; ) {
    const blockStart = at - (at % BLOCK_BYTES);
    const block = await readBlock(handle, head, blockStart / BLOCK_BYTES, range.checksum);
    const next = Math.min(blockStart + block.length, end);
    bytes.set(block.subarray(at - blockStart, next - blockStart), at - range.position);
    at = next;
  }
  return bytes;
}

async function readBlock(
  handle: FileHandle,
  { meta, headBytes }: SnapshotHead,
  number: number,
  checksum: Checksum,
): Promise<Uint8Array> {
  const size = Math.min(BLOCK_BYTES, meta.sizeBytes - number * BLOCK_BYTES);
  const sealed = new Uint8Array(size + CRC_BYTES);
  const position = headBytes + number * (BLOCK_BYTES + CRC_BYTES);
  const length = await handle.read(position, sealed);
  const block = sealed.subarray(0, size);
  if (length < sealed.length || checksum.crc32c(block) !== readU32(sealed, size))
    throw damaged(handle.path, `the block at position ${position} does not match its checksum`);
  return block;
}

/** Reads all of it. Throws DATA_DAMAGED. */
export async function verifySnapshot(handle: FileHandle, checksum: Checksum): Promise<SnapshotHead> {
  const head = await readSnapshotHead(handle, checksum);
  const blocks = Math.ceil(head.meta.sizeBytes / BLOCK_BYTES);
  for (let number = 0; number < blocks; number++) await readBlock(handle, head, number, checksum);
  return head;
}
