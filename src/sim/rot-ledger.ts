// What was planted in segment files and is not healed yet: read from the files themselves, so that nobody need be believed who says so.
import type { NodeId } from "../model/ids.ts";
import type { PartitionName } from "../checkers/history.ts";
import { isStillThere, type Planted } from "./at-rest.ts";
import type { DiskImage } from "./disk-image.ts";

export interface RotEntry {
  readonly node: NodeId;
  readonly partition: PartitionName;
  /** Of the segment; undefined: of another file. */
  readonly base: number | undefined;
  readonly plantedMs: number;
  readonly planted: Planted;
  /** When it was first seen to be there no more. */
  healedMs: number | undefined;
  /** Since then its replica was seen undamaged: no start has noted on the disk what it met, to tell of it once it has a role. */
  isOver: boolean;
}

/** `data/<topic>-<partition>/<20 digits>.log`. */
const SEGMENT = /\/([^/]+-\d+)\/(\d{20})\.log$/;
/** Who met it may tell of it later. */
const REMEMBERED_MS = 3000;

/** Base offset of a segment file; undefined of other files. */
export function segmentBaseOf(path: string): number | undefined {
  const base = SEGMENT.exec(path)?.[2];
  return base === undefined ? undefined : Number(base);
}

export class RotLedger {
  /** Bound: the faults that were planted. */
  #entries: RotEntry[] = [];
  readonly #imageOf: (node: NodeId) => DiskImage;

  constructor(imageOf: (node: NodeId) => DiskImage) {
    this.#imageOf = imageOf;
  }

  add(entry: Omit<RotEntry, "healedMs" | "isOver">): void {
    this.#entries.push({ ...entry, healedMs: undefined, isOver: false });
  }

  /** A process that knows its role has it undamaged. */
  foundWhole(node: NodeId, partition: PartitionName): void {
    for (const entry of this.#entries)
      if (entry.node === node && entry.partition === partition && entry.healedMs !== undefined) entry.isOver = true;
  }

  /** What a copy of the node's disk has of it. */
  onDisk(node: NodeId): readonly RotEntry[] {
    return this.#entries.filter((entry) => entry.node === node).map((entry) => ({ ...entry }));
  }

  /** The node has another disk; `rot`: what that one had when it was copied. */
  diskLost(node: NodeId, rot: readonly RotEntry[]): void {
    this.#entries = this.#entries.filter((entry) => entry.node !== node);
    for (const entry of rot) this.#entries.push({ ...entry });
  }

  /** Something that was planted there is there, or was: until a moment ago, or when somebody may have met it who has not told yet. */
  has(node: NodeId, partition: PartitionName): boolean {
    return this.#entries.some((entry) => entry.node === node && entry.partition === partition);
  }

  /** What is still as it was planted. */
  look(nowMs: number): readonly RotEntry[] {
    this.#entries = this.#entries.filter((entry) => {
      if (isStillThere(this.#imageOf(entry.node), entry.planted)) [entry.healedMs, entry.isOver] = [undefined, false];
      else entry.healedMs ??= nowMs;
      return entry.healedMs === undefined || !entry.isOver || nowMs - entry.healedMs <= REMEMBERED_MS;
    });
    return this.#entries.filter(({ healedMs }) => healedMs === undefined);
  }
}
