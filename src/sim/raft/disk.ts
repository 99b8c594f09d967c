// The disk of one simulated Raft node: what is durable, and what a crash makes of the writes that were under way.
import type { Rng } from "../../base/rng.ts";
import { emptyState } from "../../raft/raft-node.ts";
import type { Entry, HardState, RestoredState, SnapshotMeta, Term, WriteBatch } from "../../raft/types.ts";

export interface StoredSnapshot {
  readonly meta: SnapshotMeta;
  readonly bytes: Uint8Array;
}

export class RaftDisk {
  hardState: HardState;
  snapshot: StoredSnapshot | null = null;
  /** Older snapshots that are still being sent, by end. */
  readonly older = new Map<number, StoredSnapshot>();
  start: number;
  startTerm: Term;
  entries: Entry[];

  constructor(state: RestoredState = emptyState()) {
    this.hardState = state.hardState;
    this.start = state.log.start;
    this.startTerm = state.log.startTerm;
    this.entries = [...state.log.entries];
  }

  get end(): number {
    return this.start + this.entries.length;
  }

  get restored(): RestoredState {
    const { hardState, start, startTerm, entries } = this;
    return { hardState, snapshot: this.snapshot?.meta ?? null, log: { start, startTerm, entries } };
  }

  write(batch: WriteBatch, entriesMax = Number.POSITIVE_INFINITY): void {
    if (batch.hardState !== null) this.hardState = batch.hardState;
    if (batch.resetLogTo !== null) {
      this.start = batch.resetLogTo.start;
      this.startTerm = batch.resetLogTo.startTerm;
      this.entries = [];
    }
    if (batch.cutSuffixTo !== null)
      this.entries.length = Math.max(0, Math.min(this.entries.length, batch.cutSuffixTo - this.start));
    for (const entry of batch.entries.slice(0, entriesMax)) {
      if (entry.index !== this.end)
        throw new RangeError(`entry ${entry.index} written to a log that ends at ${this.end}`);
      this.entries.push(entry);
    }
    if (batch.cutPrefixTo !== null && batch.cutPrefixTo > this.start && batch.cutPrefixTo <= this.end) {
      const cut = batch.cutPrefixTo - this.start;
      this.startTerm = this.entries[cut - 1]?.term ?? this.startTerm;
      this.entries = this.entries.slice(cut);
      this.start = batch.cutPrefixTo;
    }
  }

  /** Of the batches under way any beginning may have reached the platter, and of the next one a part; hard state and log are two files. */
  crash(pending: readonly WriteBatch[], rng: Rng): void {
    const whole = rng.below(pending.length + 1);
    for (const batch of pending.slice(0, whole)) this.write(batch);
    const torn = pending[whole];
    if (torn === undefined || rng.chance(0.5)) return;
    if (torn.hardState !== null) this.hardState = torn.hardState;
    if (rng.chance(0.5)) this.write({ ...torn, cutPrefixTo: null }, rng.below(torn.entries.length + 1));
  }
}
