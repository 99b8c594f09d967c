// Schedules that random ones find once in thousands of seeds: each a story from the papers, played by hand in the same world.
import { present } from "../../base/assert.ts";
import { createRng } from "../../base/rng.ts";
import type { ReplicaId } from "../../raft/types.ts";
import type { RaftViolation } from "./checker.ts";
import type { RaftReplica } from "./replica.ts";
import { guarded } from "./run-raft-seed.ts";
import { drawSwarm, FAULTS, type FaultKind, type RaftSwarm } from "./swarm.ts";
import { RaftWorld } from "./world.ts";

/** Nothing goes wrong by itself, and one entry travels at a time. */
function quietSwarm(founders: number): RaftSwarm {
  const drawn = drawSwarm(createRng(1));
  return {
    ...drawn,
    founders,
    spares: 0,
    faultMeanMs: Object.fromEntries(FAULTS.map((kind) => [kind, 0])) as Record<FaultKind, number>,
    lossChance: 0,
    duplicateChance: 0,
    lateChance: 0,
    delayMsMean: 1,
    syncMsMean: 1,
    slowSyncChance: 0,
    tickSkipChance: 0,
    driftMax: 0,
    snapshotEvery: 1000,
    settings: { ...drawn.settings, entriesPerMessageMax: 1, inFlightMessagesMax: 1 },
  };
}

class Stage {
  readonly world: RaftWorld;

  constructor(founders: number) {
    this.world = new RaftWorld(1, quietSwarm(founders));
    for (const replica of this.world.replicas.values()) replica.start();
  }

  node(number: number): RaftReplica {
    return present(this.world.replicas.get(`${number}:a` as ReplicaId), `node ${number}`);
  }

  /** In steps shorter than any message: whoever waits for a moment acts before what follows from it arrives. */
  until(isReached: () => boolean): void {
    const endMs = this.world.timeMs + 140;
    while (!isReached()) {
      if (this.world.timeMs >= endMs) throw new RangeError("the schedule does not come to this point");
      this.world.runUntil(this.world.timeMs + 0.05);
    }
  }

  /** All that are named forget their leader, and the first campaigns. */
  campaign(number: number, others: readonly number[]): void {
    for (const one of [number, ...others])
      this.node(one).input((core) => {
        if (core.leader !== null) core.peerUnreachable(core.leader);
      });
    // Refused by those of a later term, it learns that term and asks again.
    this.until(() => {
      this.node(number).input((core) => {
        if (core.role === "follower") core.campaign();
      });
      return this.node(number).core?.role === "leader";
    });
  }

  /** What the leader knows of the other one. */
  matchEnd(leader: number, other: number): number | undefined {
    return this.node(leader).core?.peers().get(this.node(other).id)?.matchEnd;
  }

  cutOff(number: number, others: readonly number[]): void {
    for (const other of others) {
      this.world.cut(number, other);
      this.world.cut(other, number);
    }
  }
}

/**
 * Figure 8 of the Raft paper: entry 2 of term 2 reaches a majority only under the leader of term 4. It is not committed by
 * that: node 5, with an entry of term 3 there, can still win.
 */
export function figure8(): RaftViolation | undefined {
  const stage = new Stage(5);
  return guarded(stage.world, () => {
    stage.campaign(1, []);
    stage.until(() => [1, 2, 3, 4, 5].every((number) => stage.node(number).disk.end === 2));
    stage.cutOff(1, [3, 4, 5]);
    stage.node(1).input((core) => core.propose({ bytes: new Uint8Array([8]) }));
    stage.until(() => stage.node(1).disk.end === 3 && stage.node(2).disk.end === 3);
    stage.node(1).crash();
    stage.campaign(5, [3, 4]);
    stage.cutOff(5, [1, 2, 3, 4]);
    stage.until(() => stage.node(5).disk.end === 3);
    stage.node(5).crash();
    // What it sent while cut off is lost before the cuts are gone.
    stage.world.runUntil(stage.world.timeMs + 30);
    stage.world.heal();
    stage.node(1).start();
    stage.cutOff(1, [4, 5]);
    stage.campaign(1, [2, 3]);
    stage.cutOff(1, [3]);
    stage.until(() => (stage.matchEnd(1, 2) ?? 0) >= 3);
    stage.world.heal();
    stage.cutOff(1, [4, 5]);
    stage.until(() => stage.matchEnd(1, 3) === 3);
    stage.cutOff(1, [3]);
    stage.node(1).crash();
    stage.node(5).start();
    stage.campaign(5, [3, 4]);
    stage.until(() => [3, 4, 5].every((number) => stage.node(number).appliedEnd === 4));
  });
}

/** Node 2 promises its vote to node 1, loses power before that is on disk, and is asked by node 3 in the same term. */
export function forgottenVote(): RaftViolation | undefined {
  const stage = new Stage(3);
  return guarded(stage.world, () => {
    stage.node(2).syncFactor = 50;
    stage.node(3).syncFactor = 20;
    stage.node(1).input((core) => core.campaign());
    stage.node(3).input((core) => core.campaign());
    stage.until(() => stage.node(2).core?.hardState.votedFor === stage.node(1).id);
    stage.node(2).crash({ isAllLost: true });
    stage.node(2).syncFactor = 0.01;
    stage.node(2).start();
    stage.world.runUntil(stage.world.timeMs + 100);
  });
}
