// Old copies of a disk (D-20): what they forgot, the others remember, so that nobody votes twice and nothing confirmed is lost.
import { afterEach, describe, expect, it } from "vitest";
import { activateMutants } from "../../../src/base/mutant.ts";
import { faultOfStanding, Marks } from "../../../src/broker/quorum/marks.ts";
import type { ReplicaId } from "../../../src/raft/types.ts";
import { QuorumCluster, type QuorumNode, registeredIn, registers } from "./support.ts";

afterEach(() => activateMutants([]));

describe("marks", () => {
  const mark = { boots: 3, term: 5, end: 20 };
  const standing = { boots: 3, term: 5, end: 20, commitEnd: 18 };

  it("believe what is not below them, and say what is", () => {
    expect(faultOfStanding(standing, mark)).toBeUndefined();
    expect(faultOfStanding({ boots: 4, term: 9, end: 25, commitEnd: 25 }, mark)).toBeUndefined();
    expect(faultOfStanding(standing, undefined)).toBeUndefined();
    expect(faultOfStanding({ ...standing, boots: 2 }, mark)).toContain("started 2 times");
    expect(faultOfStanding({ ...standing, term: 4 }, mark)).toContain("term 4");
    expect(faultOfStanding({ ...standing, end: 19 }, mark)).toContain("ends at 19");
  });

  it("each number only rises, and a rise is to be written", () => {
    const marks = new Marks(new Map([["1:a", mark]]));
    const replica = "1:a" as ReplicaId;
    marks.raise(replica, { boots: 2, term: 5, end: 3 });
    expect(marks.isDirty).toBe(false);
    marks.raise(replica, { end: 30 });
    expect(marks.isDirty).toBe(true);
    expect(marks.of(replica)).toEqual({ boots: 3, term: 5, end: 30 });
  });

  it("are bounded: those of strangers go first", () => {
    const marks = new Marks(new Map());
    for (let id = 0; id < 100; id++) marks.raise(`${id}:a` as ReplicaId, { boots: 1 });
    marks.prune((replica) => replica === "0:a");
    expect(marks.all.size).toBe(64);
    expect(marks.of("0:a" as ReplicaId)).toBeDefined();
  });
});

/** A voter whose disk is set back to before something that it confirmed, together with a leader that dies. */
async function setBack(): Promise<{ cluster: QuorumCluster; leader: QuorumNode; old: QuorumNode; third: QuorumNode }> {
  const cluster = new QuorumCluster();
  await cluster.start();
  const leader = await cluster.controller();
  await cluster.propose(leader, registers(1));
  await cluster.converged();
  const [old, third] = cluster.nodes.filter((node) => node !== leader) as [QuorumNode, QuorumNode];
  const restore = old.backup();
  await cluster.run(1_500);
  // Only the leader and the voter that will forget have it. The third one hears of it from that voter, not from the leader.
  cluster.cut(leader.id, third.id);
  await cluster.propose(leader, registers(2));
  await cluster.run(2_500);
  old.crash("power loss");
  restore();
  leader.crash();
  await cluster.start(old.id);
  return { cluster, leader, old, third };
}

describe("an old copy of a voter's disk", () => {
  it("is refused: it neither votes nor makes a majority, and says so", async () => {
    const { cluster, leader, old, third } = await setBack();
    await cluster.run(10_000);
    expect(cluster.controllers).toEqual([]);
    expect(third.quorum.status.voters.find(({ nodeId }) => nodeId === old.id)).toMatchObject({ isRefused: true });
    expect(old.quorum.status.trouble).toContain(`refused: node ${third.id} remembers more`);
    expect(third.quorum.status.trouble).toContain("waiting for");
    // With the one that has it all, there is a majority that remembers.
    cluster.network.heal();
    await cluster.start(leader.id);
    const next = await cluster.controller();
    expect(registeredIn(next)).toEqual([1, 2]);
    expect(next).not.toBe(old);
    await cluster.propose(next, registers(3));
    await cluster.run(2_000);
    expect(old.quorum.status.role).not.toBe("leader");
    expect(next.quorum.status.voters.find(({ nodeId }) => nodeId === old.id)).toMatchObject({ isRefused: true });
  });

  it("is back after it was replaced under a new directory id", async () => {
    const { cluster, leader, old } = await setBack();
    cluster.network.heal();
    await cluster.start(leader.id);
    const next = await cluster.controller();
    old.crash();
    old.wipe();
    await cluster.start(old.id);
    await cluster.settle(old.quorum.waitForImage());
    expect(old.quorum.status.role).toBe("observer");
    const outcome = await cluster.settle(
      next.quorum.change({ op: "replace", nodeId: old.id, directoryId: old.directoryId }, 10_000),
    );
    expect(outcome).toMatchObject({ kind: "done" });
    await cluster.converged();
    await cluster.until(() => old.quorum.status.trouble === null, 5_000);
    expect(old.quorum.status.role).toBe("follower");
    expect(registeredIn(old)).toEqual([1, 2]);
  });

  it("mutant D20m, marks are ignored: a change that was confirmed is gone", async () => {
    activateMutants(["D20m"]);
    const { cluster, old, third } = await setBack();
    const next = await cluster.controller([old, third]);
    expect(registeredIn(next)).toEqual([1]);
  });

  it("the marks survive the restart of those who remember", async () => {
    const { cluster, old, third } = await setBack();
    await cluster.run(1_000);
    third.crash("power loss");
    await cluster.start(third.id);
    await cluster.run(10_000);
    expect(cluster.controllers).toEqual([]);
    expect(third.quorum.status.voters.find(({ nodeId }) => nodeId === old.id)).toMatchObject({ isRefused: true });
  });
});

describe("an honest disk", () => {
  it("is never refused, whatever dies and is cut", async () => {
    for (let seed = 1; seed <= 4; seed++) {
      const cluster = new QuorumCluster({ seed, snapshotBytes: 3_000, raft: { retainedEntries: 4 } });
      await cluster.start();
      const rng = cluster.world.fork("test");
      let next = 1;
      for (let round = 0; round < 30; round++) {
        const victim = rng.pick(cluster.nodes);
        const other = rng.pick(cluster.nodes.filter((node) => node !== victim));
        if (rng.chance(0.5)) {
          if (victim.isUp) victim.crash(rng.chance(0.5) ? "power loss" : "process death");
          await cluster.run(rng.below(300));
          await cluster.start(victim.id);
        } else {
          cluster.network.cut(victim.name, other.name);
          await cluster.run(rng.below(1_500));
          cluster.network.mend(victim.name, other.name);
        }
        const [controller] = cluster.controllers;
        if (controller !== undefined) await cluster.propose(controller, registers(next++));
        for (const node of cluster.nodes) {
          expect(node.refusal ?? node.failure).toBeUndefined();
          for (const voter of node.isUp ? node.quorum.status.voters : [])
            expect(voter.isRefused, `seed ${seed} round ${round}: ${node.name} on ${voter.replicaId}`).toBe(false);
        }
      }
      cluster.network.heal();
      await cluster.controller();
      await cluster.converged();
    }
  });
});
