// Invariant 20: what the log of a replica may let go, where it may begin anew, and what a leader may say is gone.
import type { NodeId } from "../../model/ids.ts";
import type { WatchedReplica } from "./checker.ts";
import { ReplicationBroken } from "./violation.ts";
import type { ReplicationWorld } from "./world.ts";

/** What else is known of a partition. */
interface Known {
  readonly committedEnd: number;
  /** Leader epoch of the last unclean election, -1: there was none. */
  readonly uncleanEpoch: number;
}

export class StartChecker {
  readonly #world: ReplicationWorld;
  readonly #known: (partition: number) => Known;
  /** By partition: the highest log start that a leader was asked for. */
  readonly #trimmedTo = new Map<number, number>();

  constructor(world: ReplicationWorld, known: (partition: number) => Known) {
    this.#world = world;
    this.#known = known;
  }

  trims({ partition }: WatchedReplica, toOffset: number): void {
    this.#trimmedTo.set(partition, Math.max(this.#asked(partition), toOffset));
  }

  #asked(partition: number): number {
    return this.#trimmedTo.get(partition) ?? 0;
  }

  /** Only what is committed goes, and only because a leader was asked to let it go. */
  letsGo({ name, partition }: WatchedReplica, startOffset: number): void {
    const { committedEnd, uncleanEpoch } = this.#known(partition);
    const asked = this.#asked(partition);
    if (startOffset > asked || (startOffset > committedEnd && uncleanEpoch < 0))
      throw new ReplicationBroken(
        20,
        `${name} lets go what is below ${startOffset}; asked for was ${asked}, committed is ${committedEnd}`,
      );
  }

  /** A log begins anew only where everything below may go, or has nothing to lose (S-32). */
  restarts({ name, partition }: WatchedReplica, fromOffset: number): void {
    const asked = this.#asked(partition);
    if (fromOffset > asked)
      throw new ReplicationBroken(
        20,
        `${name} begins anew at ${fromOffset}; nobody let go more than what is below ${asked}`,
      );
  }

  /** S-30: a leader may tell that below `low` no replica that lives has anything on its disk. */
  hasGone(
    replica: WatchedReplica,
    { low, eligible }: { readonly low: number; readonly eligible: ReadonlyMap<NodeId, number> },
  ): void {
    if (low <= 0) return;
    this.#world.mark("gone everywhere");
    for (const member of replica.record?.replicas ?? []) {
      const node = this.#world.node(member);
      // What it does not have any more, or has anew from its leader, is not there either.
      const isAlive = eligible.has(member) && eligible.get(member) === node.brokerEpoch;
      if (!isAlive || node.hurt.has(replica.partition)) continue;
      const state = node.disk.logs[replica.partition]?.state;
      const first = state?.batches[0];
      if (state !== undefined && state.startOffset < low && first !== undefined && first.endOffset <= low)
        throw new ReplicationBroken(
          20,
          `${replica.name} says that everything below ${low} is gone; on the disk of node ${member} the log starts at ${state.startOffset}`,
        );
    }
  }
}
