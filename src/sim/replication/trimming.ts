// Raises the log start of a partition that a replica leads, as a broker does: what it must not lose of producers is written and committed first (D-15).
import type { Offset } from "../../model/ids.ts";
import type { SimReplica } from "./replica.ts";
import type { ReplicationWorld } from "./world.ts";

export class Trimming {
  readonly #world: ReplicationWorld;
  readonly #replica: SimReplica;
  #wanted: { readonly toOffset: number; readonly leaderEpoch: number } | undefined;

  constructor(world: ReplicationWorld, replica: SimReplica) {
    this.#world = world;
    this.#replica = replica;
  }

  wish(toOffset: number): void {
    const { name, core } = this.#replica;
    this.#world.trace(() => `${name} is to let go what is below ${toOffset}`);
    this.#wanted = { toOffset, leaderEpoch: core.leaderEpoch };
    this.look();
  }

  /** After each step. */
  look(): void {
    const { core } = this.#replica;
    const wanted = this.#wanted;
    this.#wanted = undefined;
    if (wanted === undefined) return;
    const toOffset = wanted.toOffset as Offset;
    const isOver = !core.isLeader || core.leaderEpoch !== wanted.leaderEpoch;
    if (isOver) return;
    if (!core.isCarried(toOffset)) {
      const wallMs = Math.floor(this.#world.timeMs);
      this.#replica.step({ kind: "carry-producers", toOffset, wallMs, mayExpire: true });
    }
    if (!core.mayBeginAt(toOffset)) {
      this.#wanted = wanted;
      return;
    }
    this.#world.checker.starts.trims(this.#replica, toOffset);
    this.#replica.step({ kind: "raise-start", toOffset });
  }
}
