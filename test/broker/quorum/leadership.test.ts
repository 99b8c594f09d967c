// Leaders that die, stop, stand still or are cut off: who decides then, and what was promised stays.
import { afterEach, describe, expect, it } from "vitest";
import { activateMutants } from "../../../src/base/mutant.ts";
import { QuorumCluster, type QuorumNode, registeredIn, registers } from "./support.ts";

afterEach(() => activateMutants([]));

async function formed(seed = 1): Promise<{ cluster: QuorumCluster; leader: QuorumNode; others: QuorumNode[] }> {
  const cluster = new QuorumCluster({ seed });
  await cluster.start();
  const leader = await cluster.controller();
  await cluster.propose(leader, registers(1));
  await cluster.converged();
  // Everybody is past the short waits of a cold start.
  await cluster.run(3_000);
  return { cluster, leader, others: cluster.nodes.filter((node) => node !== leader) };
}

/** Simulated milliseconds until one of these is the controller. */
async function gap(cluster: QuorumCluster, among: readonly QuorumNode[]): Promise<number> {
  const beganMs = cluster.world.nowMs;
  await cluster.controller(among);
  return cluster.world.nowMs - beganMs;
}

describe("a leader that is killed", () => {
  it("is followed by another within an election timeout, with everything that was committed", async () => {
    const { cluster, leader, others } = await formed();
    for (let id = 2; id <= 10; id++) await cluster.propose(leader, registers(id));
    leader.crash();
    expect(await gap(cluster, others)).toBeLessThan(2_000);
    const next = await cluster.controller(others);
    await cluster.propose(next, registers(11));
    await cluster.start(leader.id);
    await cluster.converged();
    expect(registeredIn(leader)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect(cluster.controllers).toHaveLength(1);
  });

  /** The shortest of several: a killed process may also leave connections behind that nobody resets. */
  async function shortestGap(): Promise<number> {
    let shortest = Number.POSITIVE_INFINITY;
    for (let seed = 1; seed <= 12 && shortest > 300; seed++) {
      const { cluster, leader, others } = await formed(seed);
      leader.crash();
      shortest = Math.min(shortest, await gap(cluster, others));
    }
    return shortest;
  }

  it("D-22: nobody listens where it was, so nobody waits for the timeout", async () => {
    expect(await shortestGap()).toBeLessThan(300);
  });

  it("mutant D22r, a refused connection says nothing: the timeout is waited for", async () => {
    activateMutants(["D22r"]);
    expect(await shortestGap()).toBeGreaterThan(400);
  });

  it("leaves what was under way unknown, never refused as if it had not happened", async () => {
    const { cluster, leader, others } = await formed();
    // Nothing comes back to the leader: what it proposes may be in the others' logs.
    for (const other of others) cluster.network.cut(other.name, leader.name);
    const outcome = leader.quorum.propose(registers(9));
    await cluster.controller(others);
    expect(await cluster.settle(outcome)).toMatchObject({ kind: "refused", error: "REQUEST_TIMED_OUT" });
    for (const other of others) cluster.network.mend(other.name, leader.name);
    await cluster.converged();
  });
});

describe("a leader that is closed", () => {
  it("hands over first: nobody waits for a timeout", async () => {
    const { cluster, leader, others } = await formed();
    const beganMs = cluster.world.nowMs;
    await cluster.settle(leader.stop());
    expect(cluster.world.nowMs - beganMs).toBeLessThan(300);
    expect(await gap(cluster, others)).toBeLessThan(50);
  });

  it("ends in time without anybody to hand over to", async () => {
    const { cluster, leader, others } = await formed();
    for (const other of others) other.crash();
    await cluster.run(100);
    const waiting = leader.quorum.propose(registers(9));
    const beganMs = cluster.world.nowMs;
    await cluster.settle(leader.stop());
    expect(cluster.world.nowMs - beganMs).toBeLessThanOrEqual(2_000);
    expect(await waiting).toMatchObject({ kind: "refused", error: "REQUEST_TIMED_OUT" });
  });

  it("a follower that is closed disturbs nobody", async () => {
    const { cluster, leader, others } = await formed();
    const { term } = leader.quorum.status;
    await cluster.settle((others[0] as QuorumNode).stop());
    await cluster.run(5_000);
    expect(leader.quorum.status).toMatchObject({ role: "leader", term });
  });
});

describe("D-22: a node that stands still", () => {
  /** Campaigns of a follower that stands still again and again, for longer than an election timeout each time. */
  async function campaignsAfterPauses(): Promise<number> {
    const { cluster, leader, others } = await formed();
    const { term } = leader.quorum.status;
    const [still] = others as [QuorumNode];
    let campaigns = 0;
    still.probe.onMessage = ({ kind }) => {
      if (kind === "voteRequest") campaigns++;
    };
    for (let round = 0; round < 20; round++) {
      cluster.world.pause(cluster.world.machine(still.name));
      await cluster.run(1_500);
      cluster.world.resume(cluster.world.machine(still.name));
      await cluster.run(200);
    }
    expect(leader.quorum.status).toMatchObject({ role: "leader", term });
    return campaigns;
  }

  it("a follower does not make up for the ticks it missed: its leader was alive all the time", async () => {
    expect(await campaignsAfterPauses()).toBe(0);
  });

  it("mutant D22t, missed ticks are made up: it campaigns against a live leader", async () => {
    activateMutants(["D22t"]);
    expect(await campaignsAfterPauses()).toBeGreaterThan(0);
  });

  it("a leader that stood still finds another one when it goes on", async () => {
    const { cluster, leader, others } = await formed();
    const machine = cluster.world.machine(leader.name);
    cluster.world.pause(machine);
    await cluster.controller(others);
    cluster.world.resume(machine);
    await cluster.until(() => !leader.isController);
    expect(await cluster.propose(leader, registers(9))).toMatchObject({ kind: "refused", error: "NOT_CONTROLLER" });
    await cluster.converged();
  });
});

describe("cuts", () => {
  it("a leader that is heard and hears nothing gives up; the others go on", async () => {
    const { cluster, leader, others } = await formed();
    for (const other of others) cluster.network.cut(other.name, leader.name);
    await cluster.until(() => !leader.isController, 5_000);
    const next = await cluster.controller(others);
    await cluster.propose(next, registers(5));
    for (const other of others) cluster.network.mend(other.name, leader.name);
    await cluster.converged();
    expect(registeredIn(leader)).toEqual([1, 5]);
  });

  it("a leader that hears and is not heard is replaced", async () => {
    const { cluster, leader, others } = await formed();
    for (const other of others) cluster.network.cut(leader.name, other.name);
    const next = await cluster.controller(others);
    await cluster.propose(next, registers(5));
    for (const other of others) cluster.network.mend(leader.name, other.name);
    await cluster.converged();
  });

  it("a voter that was cut off comes back without disturbing the leader", async () => {
    const { cluster, leader, others } = await formed();
    const [away] = others as [QuorumNode];
    const { term } = leader.quorum.status;
    for (const other of cluster.nodes) if (other !== away) cluster.cut(away.id, other.id);
    await cluster.run(10_000);
    await cluster.propose(leader, registers(5));
    for (const other of cluster.nodes) if (other !== away) cluster.mend(away.id, other.id);
    await cluster.converged();
    expect(leader.quorum.status).toMatchObject({ role: "leader", term });
    expect(registeredIn(away)).toEqual([1, 5]);
  });

  it("without a majority nothing is decided and nothing is read; with it everything goes on", async () => {
    const { cluster, leader, others } = await formed();
    for (const other of others) cluster.cut(leader.id, other.id);
    cluster.cut((others[0] as QuorumNode).id, (others[1] as QuorumNode).id);
    await cluster.run(5_000);
    expect(cluster.controllers).toEqual([]);
    expect(await cluster.settle(leader.quorum.barrier())).toMatchObject({ code: "NOT_CONTROLLER" });
    expect(leader.quorum.status.trouble).toBe("waiting for a quorum: 1 of 3 voters reachable");
    cluster.network.heal();
    const next = await cluster.controller();
    expect(await cluster.settle(next.quorum.barrier())).toBeNull();
    await cluster.converged();
  });
});

describe("reads", () => {
  it("a deposed leader that does not know it answers no read and no refusal", async () => {
    const { cluster, leader, others } = await formed();
    for (const other of others) cluster.cut(leader.id, other.id);
    const next = await cluster.controller(others);
    await cluster.propose(next, registers(5));
    const barrier = leader.quorum.barrier();
    const refusal = leader.quorum.propose(() => ({ kind: "refused", error: "INVALID_REQUEST", message: "no 5" }));
    const nothing = leader.quorum.propose(() => ({ kind: "records", records: [] }));
    expect((await cluster.settle(barrier))?.code).toBe("NOT_CONTROLLER");
    expect(await cluster.settle(refusal)).toMatchObject({ error: "NOT_CONTROLLER" });
    expect(await cluster.settle(nothing)).toMatchObject({ error: "NOT_CONTROLLER" });
  });

  for (const id of ["M38a", "M38c"])
    it(`mutant ${id}: it answers from its stale image`, async () => {
      const { cluster, leader, others } = await formed();
      for (const other of others) cluster.cut(leader.id, other.id);
      // Check-quorum has not noticed yet.
      await cluster.run(300);
      activateMutants([id]);
      const refusal = await cluster.settle(
        leader.quorum.propose(() => ({ kind: "refused", error: "INVALID_REQUEST", message: "no 5" })),
      );
      const barrier = id === "M38c" ? await cluster.settle(leader.quorum.barrier()) : null;
      expect(refusal).toMatchObject({ error: "INVALID_REQUEST" });
      expect(barrier).toBeNull();
    });
});

describe("a new leader", () => {
  /** What the image holds that the first decision after a restart of all is made on, of 30 committed changes. */
  async function firstDecision(): Promise<number | undefined> {
    const cluster = new QuorumCluster({ snapshotBytes: 4_000, raft: { retainedEntries: 2 } });
    await cluster.start();
    const before = await cluster.controller();
    for (let id = 1; id <= 30; id++) await cluster.propose(before, registers(id));
    await cluster.converged();
    await cluster.until(() => cluster.nodes.every((node) => node.quorum.status.snapshotEnd > 0));
    for (const node of cluster.nodes) node.crash("power loss");
    await cluster.start();
    let decided: number | undefined;
    const asked = new Set<QuorumNode>();
    await cluster.until(() => {
      for (const node of cluster.nodes) {
        if (node.core?.role !== "leader" || asked.has(node) || decided !== undefined) continue;
        asked.add(node);
        void node.quorum.propose((image) => {
          decided ??= [...image.brokers].length;
          return { kind: "records", records: [] };
        });
      }
      return cluster.controllers.length > 0;
    });
    return decided;
  }

  it("decides nothing before its image holds all that was committed before it", async () => {
    expect([undefined, 30]).toContain(await firstDecision());
  });

  it("mutant M38b, it decides as soon as it is elected: on an image that lacks what was committed", async () => {
    activateMutants(["M38b"]);
    expect(await firstDecision()).toBeLessThan(30);
  });
});
