// The superblock: who owns the directory, and which checkpoint and journal generation are the truth. Two slots of 4 KiB, each change written to
// one and then, once that is synced, to the other: a torn write leaves what was before, and the rot of one slot takes nothing back. The valid
// slot with the higher write counter counts.
import { failpoint } from "../base/failpoint.ts";
import { bytesEqual, readU16, readU32 } from "../base/bytes.ts";
import {
  type ClusterId,
  type DirectoryId,
  type NodeId,
  toNodeId,
  UUID_BYTES,
  uuidFromBytes,
  uuidToBytes,
} from "../model/ids.ts";
import { OttlaError } from "../model/errors.ts";
import { present } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { FileHandle, Files } from "../ports/files.ts";
import { datasync } from "./faults.ts";
import { withFile } from "./file-work.ts";
import { ByteReader, ByteWriter, MAGIC, type PassedOver, readChecked, refuseNewer, SLOT_FAULT } from "./format.ts";

export const SLOT_BYTES = 4096;
/** Version 2: the cluster id may be unset, and the broker epoch is kept. A reader of version 1 would take either for something else. */
const VERSION = 2;
const MIN_READER = 2;
const NO_EPOCH = -1;
/** Magic, versions and CRC; the CRC covers the rest of the slot. */
const PREFIX_BYTES = 12;

export interface Superblock {
  /** Raised by each write; the slot is its parity. */
  readonly counter: number;
  /** The checkpoint image that is valid, and the first journal to replay over it. */
  readonly generation: number;
  /** Null until this disk has become part of a cluster (D-20). */
  readonly clusterId: ClusterId | null;
  readonly nodeId: NodeId;
  readonly directoryId: DirectoryId;
  /** No log id from here on was ever used on this disk, apart from those in journals (D-14). */
  readonly nextLogId: number;
  /** The kernel's boot id when the present incarnation opened the directory (D-6). */
  readonly bootId: string;
  /** Set by an ordered close. */
  readonly isClean: boolean;
  /** The last epoch under which this broker was registered and that it stored before it confirmed it (D-6). */
  readonly brokerEpoch: number | null;
}

/** Stands for "no cluster"; never drawn: a drawn id with all bits clear is as likely as any other given one. */
const NO_CLUSTER = new Uint8Array(UUID_BYTES);

export function encodeSuperblock(block: Superblock, checksum: Checksum): Uint8Array {
  const writer = new ByteWriter();
  writer.u32(MAGIC.SUPERBLOCK);
  writer.u16(VERSION);
  writer.u16(MIN_READER);
  writer.u32(0);
  writer.i64(block.counter);
  writer.i64(block.generation);
  writer.raw(block.clusterId === null ? NO_CLUSTER : present(uuidToBytes(block.clusterId), "cluster id"));
  writer.raw(present(uuidToBytes(block.directoryId), "directory id"));
  writer.i64(block.nodeId);
  writer.i64(block.nextLogId);
  writer.u8(block.isClean ? 1 : 0);
  writer.text(block.bootId);
  writer.i64(block.brokerEpoch ?? NO_EPOCH);
  const slot = new Uint8Array(SLOT_BYTES);
  slot.set(writer.bytes());
  const summed = new ByteWriter();
  summed.u32(checksum.crc32c(slot.subarray(PREFIX_BYTES)));
  slot.set(summed.bytes(), PREFIX_BYTES - 4);
  return slot;
}

/** A text says why the slot holds nothing valid. Throws DATA_DIR_NEWER. */
export function decodeSuperblock(
  slot: Uint8Array,
  options: { readonly path: string; readonly checksum: Checksum },
): Superblock | string {
  if (slot.length < SLOT_BYTES) return SLOT_FAULT.SHORT;
  if (readU32(slot, 0) !== MAGIC.SUPERBLOCK) return SLOT_FAULT.MAGIC;
  const version = readU16(slot, 4);
  refuseNewer(options.path, { version, minReader: readU16(slot, 6) }, VERSION);
  if (options.checksum.crc32c(slot.subarray(PREFIX_BYTES)) !== readU32(slot, 8)) return SLOT_FAULT.CHECKSUM;
  return readChecked(options.path, () => readSlot(new ByteReader(slot, PREFIX_BYTES), version));
}

function readSlot(reader: ByteReader, version: number): Superblock | string {
  const counter = reader.i64();
  const generation = reader.i64();
  const clusterBytes = reader.raw(UUID_BYTES);
  const clusterId = bytesEqual(clusterBytes, NO_CLUSTER) ? null : uuidFromBytes(clusterBytes);
  const directoryId = uuidFromBytes(reader.raw(UUID_BYTES));
  const nodeId = toNodeId(reader.i64());
  const nextLogId = reader.i64();
  const isClean = reader.u8() === 1;
  const bootId = reader.text();
  const epoch = reader.i64();
  if (version < 2) {
    // The checksum does not cover the version: taken for the old one, which had nothing here, a slot that rotted would take the epoch back (D-6).
    if (epoch !== 0) return SLOT_FAULT.VERSION;
    return { counter, generation, clusterId, directoryId, nodeId, nextLogId, isClean, bootId, brokerEpoch: null };
  }
  const brokerEpoch = epoch === NO_EPOCH ? null : epoch;
  return { counter, generation, clusterId, directoryId, nodeId, nextLogId, isClean, bootId, brokerEpoch };
}

export interface FoundSuperblock {
  readonly block: Superblock;
  readonly passedOver: PassedOver | undefined;
}

/** The slot that counts, and what is wrong with the other. Throws DATA_DIR_NEWER, DATA_DIR_FOREIGN, DATA_DAMAGED. */
export const readSuperblockAt = (
  { files, checksum }: { readonly files: Files; readonly checksum: Checksum },
  path: string,
): Promise<FoundSuperblock> => withFile(files, { path, mode: "read" }, (file) => readSuperblock(file, checksum));

/** Likewise, of an open file. */
export async function readSuperblock(file: FileHandle, checksum: Checksum): Promise<FoundSuperblock> {
  const bytes = new Uint8Array(SLOT_BYTES * 2);
  const length = await file.read(0, bytes);
  let best: Superblock | undefined;
  let passedOver: PassedOver | undefined;
  let hasMagic = false;
  for (const start of [0, SLOT_BYTES]) {
    const slot = bytes.subarray(start, Math.max(start, Math.min(start + SLOT_BYTES, length)));
    hasMagic ||= slot.length >= 4 && readU32(slot, 0) === MAGIC.SUPERBLOCK;
    const block = decodeSuperblock(slot, { path: file.path, checksum });
    if (typeof block === "string") passedOver = { position: start, reason: block };
    else if (best === undefined || block.counter > best.counter) best = block;
  }
  if (best !== undefined) return { block: best, passedOver };
  // A file system that lost its blocks shows zeros, or nothing.
  if (hasMagic || bytes.every((byte) => byte === 0))
    throw new OttlaError("DATA_DAMAGED", `${file.path}: both slots are damaged`);
  throw new OttlaError("DATA_DIR_FOREIGN", `${file.path} is not a superblock of Ottla`);
}

/** Writes both slots, each synced before the next; gives what counts then. */
export async function writeSuperblock(file: FileHandle, block: Superblock, checksum: Checksum): Promise<Superblock> {
  await writeSlot(file, block, checksum);
  if (mutant("D-6slot")) return block;
  failpoint("superblock-one-slot");
  const twin = twinOf(block);
  await writeSlot(file, twin, checksum);
  return twin;
}

/** The same in the other slot. */
export const twinOf = (block: Superblock): Superblock => ({ ...block, counter: block.counter + 1 });

/** Writes the slot of the counter's parity and syncs it. */
export async function writeSlot(file: FileHandle, block: Superblock, checksum: Checksum): Promise<void> {
  await file.write((block.counter % 2) * SLOT_BYTES, [encodeSuperblock(block, checksum)]);
  await datasync(file);
}
