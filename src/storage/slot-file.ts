// A small state in a file of two slots, written in turn and in place: a torn write leaves the other slot, and a full disk is in no way.
// The valid slot with the higher counter counts.
import { failpoint } from "../base/failpoint.ts";
import { assert } from "../base/assert.ts";
import { readU16, readU32, writeU32 } from "../base/bytes.ts";
import { mutant } from "../base/mutant.ts";
import { OttlaError } from "../model/errors.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { FileHandle, Files } from "../ports/files.ts";
import { datasync } from "./faults.ts";
import { readWhole, withFile } from "./file-work.ts";
import {
  ByteReader,
  ByteWriter,
  type PassedOver,
  readChecked,
  refuseNewer,
  refuseUnreleased,
  SLOT_FAULT,
} from "./format.ts";

/** Magic, versions and CRC of everything behind it. */
const PREFIX_BYTES = 12;
/** The prefix, the counter and the length of the payload. */
const HEAD_BYTES = PREFIX_BYTES + 12;

export interface SlotFormat {
  readonly magic: number;
  /** Written, and the only one read: there is no older one outside of development. */
  readonly version: number;
  readonly slotBytes: number;
}

interface SlotDeps {
  readonly files: Files;
  readonly checksum: Checksum;
}

export interface Slot {
  readonly counter: number;
  readonly payload: Uint8Array;
}

export interface FoundSlot extends Slot {
  readonly passedOver: PassedOver | undefined;
}

function encodeSlot({ counter, payload }: Slot, format: SlotFormat, checksum: Checksum): Uint8Array {
  assert(HEAD_BYTES + payload.length <= format.slotBytes, `a state of ${payload.length} bytes fits no slot`);
  const writer = new ByteWriter();
  writer.u32(format.magic);
  writer.u16(format.version);
  writer.u16(format.version);
  writer.u32(0);
  writer.i64(counter);
  writer.u32(payload.length);
  writer.raw(payload);
  const slot = new Uint8Array(format.slotBytes);
  slot.set(writer.bytes());
  writeU32(slot, PREFIX_BYTES - 4, checksum.crc32c(slot.subarray(PREFIX_BYTES)));
  return slot;
}

/** A text says why the slot holds nothing valid. Throws DATA_DIR_NEWER, DATA_DIR_FOREIGN. */
function decodeSlot(slot: Uint8Array, path: string, format: SlotFormat, checksum: Checksum): Slot | string {
  if (slot.length < format.slotBytes) return SLOT_FAULT.SHORT;
  if (readU32(slot, 0) !== format.magic) return SLOT_FAULT.MAGIC;
  const version = readU16(slot, 4);
  refuseNewer(path, { version, minReader: readU16(slot, 6) }, format.version);
  if (checksum.crc32c(slot.subarray(PREFIX_BYTES)) !== readU32(slot, 8)) return SLOT_FAULT.CHECKSUM;
  refuseUnreleased(path, version, format.version);
  return readChecked(path, () => {
    const reader = new ByteReader(slot, PREFIX_BYTES);
    const counter = reader.i64();
    return { counter, payload: reader.raw(reader.u32()) };
  });
}

/** The slot that counts, and what is wrong with the other. Throws DATA_DIR_NEWER, DATA_DIR_FOREIGN, DATA_DAMAGED. */
export function newestSlot(bytes: Uint8Array, path: string, format: SlotFormat, checksum: Checksum): FoundSlot {
  let best: Slot | undefined;
  let passedOver: PassedOver | undefined;
  for (const start of [0, format.slotBytes]) {
    const slot = decodeSlot(bytes.subarray(start, start + format.slotBytes), path, format, checksum);
    if (typeof slot === "string") passedOver = { position: start, reason: slot };
    else if (best === undefined || slot.counter > best.counter) best = slot;
  }
  if (best === undefined) throw new OttlaError("DATA_DAMAGED", `${path}: both slots are damaged`);
  return { ...best, passedOver };
}

export class SlotFile {
  readonly #handle: FileHandle;
  readonly #format: SlotFormat;
  readonly #checksum: Checksum;
  /** Of the last write that was synced. */
  #counter: number;

  private constructor(handle: FileHandle, format: SlotFormat, checksum: Checksum, counter: number) {
    this.#handle = handle;
    this.#format = format;
    this.#checksum = checksum;
    this.#counter = counter;
  }

  /** Writes a file with both slots, synced. The caller gives it its name, and syncs the directory. */
  static async write(deps: SlotDeps, path: string, format: SlotFormat, payload: Uint8Array): Promise<void> {
    await withFile(deps.files, { path, mode: "open-or-create" }, async (handle) => {
      await handle.truncate(0);
      await handle.write(
        0,
        [0, 1].map((counter) => encodeSlot({ counter, payload }, format, deps.checksum)),
      );
      await datasync(handle);
    });
  }

  /** `check` throws for a payload that is not to be used: nothing has been changed then. Throws DATA_DIR_NEWER, DATA_DIR_FOREIGN, DATA_DAMAGED. */
  static async open(
    deps: SlotDeps,
    path: string,
    format: SlotFormat,
    check: (payload: Uint8Array) => void,
  ): Promise<{ readonly file: SlotFile; readonly payload: Uint8Array; readonly passedOver: PassedOver | undefined }> {
    const handle = await deps.files.open(path, "write");
    try {
      const found = newestSlot(await readWhole(handle), path, format, deps.checksum);
      check(found.payload);
      const file = new SlotFile(handle, format, deps.checksum, found.counter);
      // The slot found may be in the page cache only, after a sync that failed (D-13), and the other one the last good one on the disk.
      await file.#write(found);
      return { file, payload: found.payload, passedOver: found.passedOver };
    } catch (thrown) {
      await handle.close().catch(() => undefined);
      throw thrown;
    }
  }

  async #write(slot: Slot): Promise<void> {
    const { slotBytes } = this.#format;
    await this.#handle.write((slot.counter % 2) * slotBytes, [encodeSlot(slot, this.#format, this.#checksum)]);
    if (!mutant("Q-1")) await datasync(this.#handle);
    this.#counter = slot.counter;
  }

  /** Durable in one slot: rot of that slot brings back the state before. */
  async note(payload: Uint8Array): Promise<void> {
    await this.#write({ counter: this.#counter + 1, payload });
  }

  /** Durable in both slots: rot of one of them takes nothing back. */
  async commit(payload: Uint8Array): Promise<void> {
    await this.note(payload);
    failpoint("state-one-slot");
    await this.note(payload);
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}
