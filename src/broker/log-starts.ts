// Raises where logs start, on their leaders: for retention, and for who deletes records.
import type { Offset } from "../model/ids.ts";
import type { LogStartWaiter, Replica } from "./replica.ts";
import type { ReplicaManager } from "./replica-manager.ts";

export interface LogStartWish {
  readonly toOffset: number;
  /** Producers may be forgotten by the clock (D-15). Default: true. */
  readonly mayExpire?: boolean;
  /** Asked once nothing is in the way any more: how far it is to go by then. Default: to `toOffset`. */
  readonly dueTo?: () => number;
}

/** Raises that wait for what must be in the log before them; one of each replica. */
class PendingRaise implements LogStartWaiter {
  readonly wishes: readonly LogStartWish[];
  readonly leaderEpoch: number;
  readonly #replicas: ReplicaManager;

  constructor(replicas: ReplicaManager, wishes: readonly LogStartWish[], leaderEpoch: number) {
    this.#replicas = replicas;
    this.wishes = wishes;
    this.leaderEpoch = leaderEpoch;
  }

  /** True: done, or given up. */
  tryNow(replica: Replica): boolean {
    const { core, isDropped } = replica;
    if (isDropped || !core.isLeader || core.leaderEpoch !== this.leaderEpoch) return true;
    const furthest = Math.max(...this.wishes.map(({ toOffset }) => toOffset));
    const mayExpire = this.wishes.every((wish) => wish.mayExpire !== false);
    if (!core.isCarried(furthest)) this.#replicas.carryProducers(replica, furthest as Offset, mayExpire);
    if (!core.mayBeginAt(furthest)) return false;
    const due = this.wishes.map(({ toOffset, dueTo }) => Math.min(toOffset, dueTo?.() ?? toOffset));
    this.#replicas.step(replica, { kind: "raise-start", toOffset: Math.max(...due) as Offset });
    return true;
  }

  onStepped(replica: Replica): void {
    replica.startWaiters.delete(this);
    if (!this.tryNow(replica)) replica.startWaiters.add(this);
  }
}

/**
 * The log start of `replica` goes where it is wished, at most to its high watermark: now, or as soon as what it must not lose of producers is committed
 * again above it. Given up when the replica leads no more.
 */
export function raiseLogStart(replicas: ReplicaManager, replica: Replica, wish: LogStartWish): void {
  const { leaderEpoch } = replica.core;
  let wishes: readonly LogStartWish[] = [wish];
  for (const waiter of [...replica.startWaiters]) {
    if (!(waiter instanceof PendingRaise)) continue;
    replica.startWaiters.delete(waiter);
    if (waiter.leaderEpoch === leaderEpoch) wishes = merged(waiter.wishes, wish);
  }
  const pending = new PendingRaise(replicas, wishes, leaderEpoch);
  if (!pending.tryNow(replica)) replica.startWaiters.add(pending);
}

/** One of each sort: of those for good the furthest, of those that are decided again the newest. */
function merged(wishes: readonly LogStartWish[], wish: LogStartWish): readonly LogStartWish[] {
  const isForGood = wish.dueTo === undefined;
  const alike = wishes.find(({ dueTo }) => (dueTo === undefined) === isForGood);
  const others = wishes.filter((each) => each !== alike);
  return [...others, isForGood && alike !== undefined && alike.toOffset > wish.toOffset ? alike : wish];
}
