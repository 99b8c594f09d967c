// The journal of one process: groups of records are written, then synced, each lane on its own (D-12).
import type { Rng } from "../../base/rng.ts";
import type { JournalRecord } from "./disk.ts";
import type { SimNode } from "./node.ts";
import type { SimReplica } from "./replica.ts";
import type { ReplicationWorld } from "./world.ts";

export interface Pending extends JournalRecord {
  readonly replica: SimReplica;
  /** Truncation count of the log when it was accepted. */
  readonly truncations: number;
  readonly onDurable: (() => void) | undefined;
}

/** Lives as long as the process. Shape: `#accepted` -> the kernel (`#written`) -> the platter, in order. */
export class SimJournal {
  readonly #world: ReplicationWorld;
  readonly #node: SimNode;
  readonly #rng: Rng;
  #accepted: Pending[] = [];
  #written: Pending[] = [];
  #isWriting = false;
  #isSyncing = false;

  constructor(world: ReplicationWorld, node: SimNode, rng: Rng) {
    this.#world = world;
    this.#node = node;
    this.#rng = rng;
  }

  add(record: Pending): void {
    this.#accepted.push(record);
    this.#write();
  }

  /** The records that a dying process had under way: a part of them reaches the kernel. */
  die(): void {
    const count = this.#isWriting ? this.#rng.below(this.#accepted.length + 1) : 0;
    for (const record of this.#accepted.slice(0, count)) {
      // What a full disk refuses does not end up on it.
      if (record.op.kind === "append" && this.#node.isDiskFull) break;
      this.#toKernel(record);
    }
    this.#accepted = [];
  }

  #toKernel(record: Pending): void {
    this.#node.disk.kernel.push(record);
    if (record.op.kind === "append") this.#world.checker.wrote(record.replica, record.op);
  }

  #write(): void {
    if (this.#isWriting || this.#accepted.length === 0) return;
    this.#isWriting = true;
    const count = this.#accepted.length;
    const { life } = this.#node;
    this.#world.at(this.#world.swarm.writeMs * (0.5 + this.#rng.below(1000) / 1000), () => {
      if (this.#node.life !== life) return;
      this.#node.whenRunning(() => this.#wrote(count));
    });
  }

  #wrote(count: number): void {
    const group = this.#accepted.slice(0, count);
    this.#accepted = this.#accepted.slice(count);
    const refused = new Set<SimReplica>();
    const touched = new Set<SimReplica>();
    for (const record of group) {
      if (refused.has(record.replica) && record.op.kind === "append") continue;
      if (record.op.kind === "append" && this.#node.isDiskFull) {
        refused.add(record.replica);
        continue;
      }
      this.#toKernel(record);
      this.#written.push(record);
      touched.add(record.replica);
      record.replica.log.wrote(record);
    }
    this.#isWriting = false;
    if (refused.size > 0)
      this.#accepted = this.#accepted.filter(({ op, replica }) => op.kind !== "append" || !refused.has(replica));
    for (const replica of touched) if (!refused.has(replica)) replica.wrote();
    for (const replica of refused) replica.refused([...group, ...this.#accepted]);
    this.#sync();
    this.#write();
  }

  #sync(): void {
    if (this.#isSyncing || this.#written.length === 0) return;
    this.#isSyncing = true;
    const count = this.#written.length;
    const { life } = this.#node;
    this.#world.at(this.#syncMs(), () => {
      if (this.#node.life !== life) return;
      this.#node.disk.sync(count);
      const isLess = this.#written.slice(0, count).some(({ op }) => op.kind === "truncate" || op.kind === "reset");
      if (isLess) this.#world.checker.lost(this.#node.nodeId);
      this.#node.whenRunning(() => this.#synced(count));
    });
  }

  #synced(count: number): void {
    const group = this.#written.slice(0, count);
    this.#written = this.#written.slice(count);
    const touched = new Set<SimReplica>();
    for (const record of group) {
      record.replica.log.synced(record);
      touched.add(record.replica);
    }
    this.#isSyncing = false;
    const { life } = this.#node;
    for (const replica of touched) replica.synced();
    for (const { onDurable } of group) if (this.#node.life === life) onDurable?.();
    this.#sync();
  }

  #syncMs(): number {
    const { syncMsMean, slowSyncChance } = this.#world.swarm;
    if (this.#world.isCalm) return this.#world.exponential(this.#rng, Math.min(3, syncMsMean));
    const base = this.#world.exponential(this.#rng, syncMsMean) * this.#node.syncFactor;
    return Math.min(5_000, this.#rng.chance(slowSyncChance) ? base + this.#rng.below(400) : base);
  }
}
