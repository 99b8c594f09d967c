// What the harness switches in the preload shim of one node, and what the shim counted. Both live in one small file that the shim
// maps into its memory: faults begin and end while the process runs, and the counters outlive it.
//
// The file is 4 KiB of 64-bit little-endian slots. src/chaos/shim/preload.c names the same slots; a test compares them.
import { closeSync, openSync, readSync, writeSync } from "node:fs";
import type { Rng } from "../../base/rng.ts";
import { type Choices, randomChoices } from "./choices.ts";
import { losePower, type PowerLoss } from "./power-loss.ts";
import { forgetUndo } from "./undo-files.ts";

export type { PowerLoss } from "./power-loss.ts";

/** All of a node's files below its data directory; the clock is the whole process's. */
export interface ShimFaults {
  /** The next so many syncs of files and directories fail with EIO; -1: all. What they did not sync stays so for good, as on Linux. */
  readonly failSyncs: number;
  /** Each sync takes this much longer. */
  readonly syncDelayMs: number;
  /** The next so many writes fail with EIO; -1: all. */
  readonly failWrites: number;
  readonly writeDelayMs: number;
  /** Every write of more than one byte takes only part of it. */
  readonly shortWrites: boolean;
  /** Bytes by which files may still grow before ENOSPC; -1: no limit. Counts down. */
  readonly spaceLeftBytes: number;
  /** Added to the wall clock; the monotonic clock stays as it is. */
  readonly clockOffsetMs: number;
  /** Faults of syncs and writes strike only paths that hold this text, at most 63 bytes; "": all. */
  readonly match: string;
}

export interface ShimCounters {
  readonly syncs: number;
  readonly syncsFailed: number;
  readonly syncsDelayed: number;
  readonly writes: number;
  readonly writesFailed: number;
  readonly writesDelayed: number;
  readonly writesShortened: number;
  /** With ENOSPC. */
  readonly writesRefused: number;
  /** Truncations. */
  readonly resizes: number;
  /** Names made, moved and removed. */
  readonly names: number;
  /** Readings of the wall clock that were shifted. */
  readonly clockReads: number;
  readonly undoRecords: number;
  readonly undoBytes: number;
  /** Operations that the undo journal had no room for: a power loss can no longer be played. */
  readonly undoLost: number;
  /** Calls on files of the data directory that the shim sees but cannot undo: the same. */
  readonly unsupported: number;
  /** When the last sync or write failed, on the machine's monotonic clock; 0: none did. */
  readonly lastFailureUs: number;
}

export interface ShimControl {
  readonly dataDir: string;
  /** False: a power loss cannot be played, for the reason in `noUndo`. */
  readonly hasUndo: boolean;
  readonly noUndo: string | undefined;
  faults(): ShimFaults;
  /** From the next call of the process on. */
  set(change: Partial<ShimFaults>): void;
  /** No faults. */
  clear(): void;
  counters(): ShimCounters;
  /** The process must be dead. Takes back a random part of what it had not synced; what is left counts as synced. */
  powerLoss(rng: Rng, choices?: Choices): Promise<PowerLoss>;
  /** All that is on the disk counts as synced: to be called, while the process is down, after files were changed behind its back. */
  settle(): Promise<void>;
  close(): void;
}

export const CONTROL_BYTES = 4096;
export const CONTROL_MAGIC = 0x314d4948_5341544fn;
const SLOT_BYTES = 8;
const MATCH_BYTES = 64;
/** Slot numbers. */
export const FAULT_SLOTS = {
  failSyncs: 1,
  syncDelayMs: 2,
  failWrites: 3,
  writeDelayMs: 4,
  shortWrites: 5,
  spaceLeftBytes: 6,
  clockOffsetMs: 7,
  match: 8,
} as const satisfies Record<keyof ShimFaults, number>;
export const COUNTER_SLOTS = {
  syncs: 32,
  syncsFailed: 33,
  syncsDelayed: 34,
  writes: 35,
  writesFailed: 36,
  writesDelayed: 37,
  writesShortened: 38,
  writesRefused: 39,
  resizes: 40,
  names: 41,
  clockReads: 42,
  undoRecords: 43,
  undoBytes: 44,
  undoLost: 45,
  unsupported: 46,
  lastFailureUs: 47,
} as const satisfies Record<keyof ShimCounters, number>;

export const NO_FAULTS: ShimFaults = {
  failSyncs: 0,
  syncDelayMs: 0,
  failWrites: 0,
  writeDelayMs: 0,
  shortWrites: false,
  spaceLeftBytes: -1,
  clockOffsetMs: 0,
  match: "",
};

export interface ShimPaths {
  readonly dataDir: string;
  readonly controlFile: string;
  /** Undefined: without an undo journal. */
  readonly undoDir: string | undefined;
  readonly noUndo: string | undefined;
}

/** Makes the control file. */
export function openControl(paths: ShimPaths): ShimControl {
  return new FileControl(paths);
}

class FileControl implements ShimControl {
  readonly dataDir: string;
  readonly hasUndo: boolean;
  readonly noUndo: string | undefined;
  readonly #paths: ShimPaths;
  readonly #fd: number;

  constructor(paths: ShimPaths) {
    this.#paths = paths;
    this.dataDir = paths.dataDir;
    this.hasUndo = paths.undoDir !== undefined;
    this.noUndo = paths.noUndo;
    this.#fd = openSync(paths.controlFile, "w+");
    writeSync(this.#fd, Buffer.alloc(CONTROL_BYTES), 0, CONTROL_BYTES, 0);
    this.clear();
    this.#put(0, CONTROL_MAGIC);
  }

  #put(slot: number, value: bigint): void {
    const bytes = Buffer.alloc(SLOT_BYTES);
    bytes.writeBigInt64LE(value);
    writeSync(this.#fd, bytes, 0, SLOT_BYTES, slot * SLOT_BYTES);
  }

  #read(): Buffer {
    const bytes = Buffer.alloc(CONTROL_BYTES);
    readSync(this.#fd, bytes, 0, CONTROL_BYTES, 0);
    return bytes;
  }

  faults(): ShimFaults {
    const bytes = this.#read();
    const slot = (name: keyof ShimFaults) => Number(bytes.readBigInt64LE(FAULT_SLOTS[name] * SLOT_BYTES));
    const match = bytes.subarray(FAULT_SLOTS.match * SLOT_BYTES, FAULT_SLOTS.match * SLOT_BYTES + MATCH_BYTES);
    return {
      failSyncs: slot("failSyncs"),
      syncDelayMs: slot("syncDelayMs"),
      failWrites: slot("failWrites"),
      writeDelayMs: slot("writeDelayMs"),
      shortWrites: slot("shortWrites") !== 0,
      spaceLeftBytes: slot("spaceLeftBytes"),
      clockOffsetMs: slot("clockOffsetMs"),
      match: match.subarray(0, match.indexOf(0)).toString(),
    };
  }

  set(change: Partial<ShimFaults>): void {
    const { match, shortWrites, ...numbers } = change;
    // A fault is never on for more paths than it is meant for: a narrower text goes first, a wider one last.
    if (match !== undefined && match !== "") this.#putMatch(match);
    if (shortWrites !== undefined) this.#put(FAULT_SLOTS.shortWrites, shortWrites ? 1n : 0n);
    for (const [name, value] of Object.entries(numbers))
      this.#put(FAULT_SLOTS[name as keyof typeof numbers], BigInt(value));
    if (match === "") this.#putMatch(match);
  }

  #putMatch(match: string): void {
    const bytes = Buffer.alloc(MATCH_BYTES);
    if (Buffer.byteLength(match) >= MATCH_BYTES) throw new RangeError(`longer than ${MATCH_BYTES - 1} bytes: ${match}`);
    bytes.write(match);
    writeSync(this.#fd, bytes, 0, MATCH_BYTES, FAULT_SLOTS.match * SLOT_BYTES);
  }

  clear(): void {
    this.set(NO_FAULTS);
  }

  counters(): ShimCounters {
    const bytes = this.#read();
    const counted = Object.entries(COUNTER_SLOTS).map(([name, slot]) => [
      name,
      Number(bytes.readBigInt64LE(slot * SLOT_BYTES)),
    ]);
    return Object.fromEntries(counted) as unknown as ShimCounters;
  }

  async powerLoss(rng: Rng, choices: Choices = randomChoices(rng)): Promise<PowerLoss> {
    const { dataDir, undoDir, noUndo } = this.#paths;
    if (undoDir === undefined) throw new Error(`no power loss of ${dataDir}: ${noUndo ?? "no undo journal"}`);
    const { undoLost, unsupported } = this.counters();
    if (undoLost + unsupported > 0)
      throw new Error(`no power loss of ${dataDir}: ${undoLost} operations not recorded, ${unsupported} not supported`);
    return losePower({ dataDir, undoDir }, choices);
  }

  async settle(): Promise<void> {
    if (this.#paths.undoDir !== undefined) forgetUndo(this.#paths.undoDir);
  }

  close(): void {
    closeSync(this.#fd);
  }
}
