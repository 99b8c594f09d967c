// Raises where logs start, on their leaders: for retention, and for who deletes records.
import type { Offset } from "../model/ids.ts";
import type { LogStartWaiter, Replica } from "./replica.ts";
import type { ReplicaManager } from "./replica-manager.ts";

/** A raise that waits for what must be in the log before it; one of each replica. */
class PendingRaise implements LogStartWaiter {
  readonly toOffset: number;
  readonly leaderEpoch: number;
  readonly #mayExpire: boolean;
  readonly #replicas: ReplicaManager;

  constructor(
    replicas: ReplicaManager,
    wish: { readonly toOffset: number; readonly leaderEpoch: number; readonly mayExpire: boolean },
  ) {
    this.#replicas = replicas;
    this.toOffset = wish.toOffset;
    this.leaderEpoch = wish.leaderEpoch;
    this.#mayExpire = wish.mayExpire;
  }

  /** True: done, or given up. */
  tryNow(replica: Replica): boolean {
    const { core, isDropped } = replica;
    if (isDropped || !core.isLeader || core.leaderEpoch !== this.leaderEpoch) return true;
    const toOffset = this.toOffset as Offset;
    if (!core.isCarried(toOffset)) this.#replicas.carryProducers(replica, toOffset, this.#mayExpire);
    if (!core.mayBeginAt(toOffset)) return false;
    this.#replicas.step(replica, { kind: "raise-start", toOffset });
    return true;
  }

  onStepped(replica: Replica): void {
    replica.startWaiters.delete(this);
    if (!this.tryNow(replica)) replica.startWaiters.add(this);
  }
}

/**
 * The log start of `replica` goes to `toOffset`, at most its high watermark: now, or as soon as what it must not lose of producers is committed again
 * above it. Given up when the replica leads no more.
 */
export function raiseLogStart(replicas: ReplicaManager, replica: Replica, toOffset: Offset, mayExpire = true): void {
  const { leaderEpoch } = replica.core;
  let furthest: number = toOffset;
  for (const waiter of [...replica.startWaiters]) {
    if (!(waiter instanceof PendingRaise)) continue;
    replica.startWaiters.delete(waiter);
    if (waiter.leaderEpoch === leaderEpoch) furthest = Math.max(furthest, waiter.toOffset);
  }
  const pending = new PendingRaise(replicas, { toOffset: furthest, leaderEpoch, mayExpire });
  if (!pending.tryNow(replica)) replica.startWaiters.add(pending);
}
