// Which logs may be found damaged, because bits of them or of their node's journal turned over; and which were. Only planted faults may damage a log.
import type { NodeId } from "../../model/ids.ts";
import type { ReplicaLog } from "../../storage/types.ts";
import type { PartitionName } from "../../checkers/history.ts";
import type { Planted } from "../at-rest.ts";
import type { DiskImage } from "../disk-image.ts";
import { type RotEntry, RotLedger, segmentBaseOf } from "../rot-ledger.ts";

const LOOK_EVERY_MS = 200;

/** What is known of one disk: a copy of it that is put in later brings its damage back. */
export interface DamageOnDisk {
  readonly rot: readonly RotEntry[];
  readonly spoilt: readonly (readonly [key: string, times: number])[];
  readonly inSpoiltJournal: readonly string[];
  readonly damaged: readonly (readonly [key: string, logId: number])[];
}

/** Of an empty disk. */
export const NO_DAMAGE: DamageOnDisk = { rot: [], spoilt: [], inSpoiltJournal: [], damaged: [] };

export class PlantedDamage {
  /** Of files, as far as it is known what was planted there. */
  readonly #rot: RotLedger;
  /** Node and partition: so many times damaged in any other way, and nothing has shown it yet. Each may be found by itself: a repair is of one segment. */
  readonly #spoilt = new Map<string, number>();
  /** Log ids: another one holds nothing of what was damaged. */
  readonly #logIds = new Map<string, number>();
  /** Bound: the pages that are unreadable still, and those that ceased to be since the last one was planted. */
  #unreadable: { readonly key: string; readonly isThere: () => boolean }[] = [];
  /** Those that a start may find damaged, because the journal is. */
  readonly #inSpoiltJournal = new Set<string>();
  /** Log ids of those that were found damaged. One is found again by each process until it is dropped or repaired. */
  readonly #damaged = new Map<string, number>();
  /** Replicas that are damaged: what is opened for them next is another log, or has been repaired. */
  readonly #isDropped = new Set<string>();
  readonly #toldOf = new WeakSet<ReplicaLog>();
  #lookedMs = 0;

  constructor(imageOf: (node: NodeId) => DiskImage) {
    this.#rot = new RotLedger(imageOf);
  }

  /** Pages cannot be read, or bits of something turned over. */
  spoil(node: NodeId, partition: PartitionName): void {
    const key = keyOf(node, partition);
    this.#spoilt.set(key, (this.#spoilt.get(key) ?? 0) + 1);
    // Made, perhaps, by a process that died before anybody looked at it: the log that is seen next is the one.
    this.#logIds.delete(key);
  }

  /** D8: a page of a file of it cannot be read, for as long as `isThere`: also in the next life of whoever met it and had no time to drop the log. */
  makeUnreadable(node: NodeId, partition: PartitionName, isThere: () => boolean): void {
    this.#unreadable = this.#unreadable.filter((page) => page.isThere());
    this.#unreadable.push({ key: keyOf(node, partition), isThere });
  }

  plant(node: NodeId, partition: PartitionName, planted: Planted, plantedMs: number): void {
    this.#rot.add({ node, partition, base: segmentBaseOf(planted.path), plantedMs, planted });
  }

  spoilJournal(node: NodeId, partition: PartitionName): void {
    this.#inSpoiltJournal.add(keyOf(node, partition));
  }

  onDisk(node: NodeId): DamageOnDisk {
    const isOfNode = (key: string): boolean => key.startsWith(`${node} `);
    return {
      rot: this.#rot.onDisk(node),
      spoilt: [...this.#spoilt].filter(([key]) => isOfNode(key)),
      inSpoiltJournal: [...this.#inSpoiltJournal].filter(isOfNode),
      damaged: [...this.#damaged].filter(([key]) => isOfNode(key)),
    };
  }

  /** `damage`: that of the disk in its place. Its logs are found damaged after the metadata knows the disk, when nothing else excuses them. */
  diskLost(node: NodeId, damage: DamageOnDisk): void {
    this.#rot.diskLost(node, damage.rot);
    for (const keys of [this.#spoilt, this.#inSpoiltJournal, this.#isDropped, this.#damaged, this.#logIds])
      for (const key of [...keys.keys()]) if (key.startsWith(`${node} `)) keys.delete(key);
    for (const [key, times] of damage.spoilt) this.#spoilt.set(key, times);
    for (const key of damage.inSpoiltJournal) this.#inSpoiltJournal.add(key);
    for (const [key, logId] of damage.damaged) this.#damaged.set(key, logId);
  }

  isSpoilt(node: NodeId, partition: PartitionName, nowMs: number): boolean {
    const key = keyOf(node, partition);
    if (this.#spoilt.has(key) || this.#inSpoiltJournal.has(key)) return true;
    // Asked at every event of a replica: a file is looked for only where one was planted.
    return this.#unreadable.some((page) => page.key === key && page.isThere()) || this.#hasRot(node, partition, nowMs);
  }

  #hasRot(node: NodeId, partition: PartitionName, nowMs: number): boolean {
    if (nowMs - this.#lookedMs > LOOK_EVERY_MS) this.outstanding(nowMs);
    return this.#rot.has(node, partition);
  }

  /** What is not put right yet. */
  outstanding(nowMs: number): readonly RotEntry[] {
    this.#lookedMs = nowMs;
    return this.#rot.look(nowMs);
  }

  /** A log is opened. True: the one before was damaged. */
  opened(node: NodeId, partition: PartitionName): boolean {
    const key = keyOf(node, partition);
    this.#inSpoiltJournal.delete(key);
    this.#damaged.delete(key);
    return this.#isDropped.delete(key);
  }

  /** It will be dropped whole. */
  dropped(node: NodeId, partition: PartitionName): void {
    this.#isDropped.add(keyOf(node, partition));
  }

  /** "known": told before. */
  found(node: NodeId, partition: PartitionName, { log, nowMs }: { readonly log: ReplicaLog; readonly nowMs: number }) {
    const key = keyOf(node, partition);
    if ((this.#logIds.get(key) ?? log.logId) !== log.logId) this.#spoilt.delete(key);
    this.#logIds.set(key, log.logId);
    if (log.damage === undefined) {
      this.#toldOf.delete(log);
      this.#rot.foundWhole(node, partition);
      return "intact";
    }
    if (this.#toldOf.has(log)) return "known";
    this.#toldOf.add(log);
    const isPlanted = this.#damaged.get(key) === log.logId || this.isSpoilt(node, partition, nowMs);
    const left = (this.#spoilt.get(key) ?? 0) - 1;
    if (left > 0) this.#spoilt.set(key, left);
    else this.#spoilt.delete(key);
    this.#inSpoiltJournal.delete(key);
    this.#isDropped.add(key);
    if (isPlanted) this.#damaged.set(key, log.logId);
    return isPlanted ? "planted" : "unexplained";
  }
}

function keyOf(node: NodeId, partition: PartitionName): string {
  return `${node} ${partition}`;
}
