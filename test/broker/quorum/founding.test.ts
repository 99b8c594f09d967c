// From empty disks to a quorum (D-20): one voter, three voters, and who may not found.
import { afterEach, describe, expect, it } from "vitest";
import { activateMutants } from "../../../src/base/mutant.ts";
import { idOf, QuorumCluster, registeredIn, registers } from "./support.ts";

afterEach(() => activateMutants([]));

describe("one voter", () => {
  it("founds at once, leads at once, and has the cluster record first", async () => {
    const cluster = new QuorumCluster({ nodes: [1] });
    await cluster.start();
    const { quorum } = cluster.node(1);
    await cluster.settle(quorum.waitForImage(), 100);
    expect(quorum.isController).toBe(true);
    expect(quorum.image.cluster?.clusterId).toBe(quorum.clusterId);
    expect(await cluster.propose(cluster.node(1), registers(1))).toMatchObject({ kind: "records" });
    expect(quorum.status).toMatchObject({ role: "leader", leaderId: 1, trouble: null, reachable: [1] });
  });

  it("takes the cluster id of its configuration, and keeps to it", async () => {
    const cluster = new QuorumCluster({ nodes: [1], clusterId: idOf(77) });
    await cluster.start();
    await cluster.settle(cluster.node(1).quorum.waitForImage());
    expect(cluster.node(1).quorum.clusterId).toBe(idOf(77));
    cluster.node(1).crash();
    cluster.node(1).options = { clusterId: idOf(78) };
    await cluster.start(1);
    expect(cluster.node(1).refusal?.code).toBe("DATA_DIR_FOREIGN");
  });

  it("is found in its own log when a crash came before the superblock was written", async () => {
    const cluster = new QuorumCluster({ nodes: [1] });
    await cluster.start();
    const node = cluster.node(1);
    await cluster.settle(node.quorum.waitForImage());
    const { clusterId } = node.quorum;
    await cluster.propose(node, registers(5));
    node.crash("power loss");
    node.machine.superblock = { ...node.machine.superblock, clusterId: null };
    await cluster.start(1);
    await cluster.settle(node.quorum.waitForImage());
    expect(node.quorum.clusterId).toBe(clusterId);
    expect(node.machine.superblock.clusterId).toBe(clusterId);
    expect(registeredIn(node)).toEqual([5]);
  });

  it("does not start without its metadata log", async () => {
    const cluster = new QuorumCluster({ nodes: [1] });
    await cluster.start();
    const node = cluster.node(1);
    await cluster.settle(node.quorum.waitForImage());
    node.crash();
    const { superblock } = node.machine;
    node.wipe();
    node.machine.superblock = superblock;
    await cluster.start(1);
    expect(node.refusal?.code).toBe("DATA_DAMAGED");
  });

  it("that is refused leaves nothing behind: no connection, no question to anybody", async () => {
    const cluster = new QuorumCluster({ nodes: [1, 2, 3], clusterId: idOf(77) });
    await cluster.start();
    await cluster.controller();
    const node = cluster.node(3);
    node.crash();
    node.options = { clusterId: idOf(78) };
    await cluster.start(3);
    expect(node.refusal?.code).toBe("DATA_DIR_FOREIGN");
    cluster.network.heal();
    await cluster.run(5_000);
    // One each way between the two others.
    expect(cluster.network.connectionCount).toBe(2);
  });
});

describe("three voters", () => {
  it("found together, elect one controller within a second and agree", async () => {
    const cluster = new QuorumCluster();
    await cluster.start();
    const controller = await cluster.controller();
    expect(cluster.world.nowMs).toBeLessThan(1_000);
    for (let id = 1; id <= 5; id++)
      expect(await cluster.propose(controller, registers(id))).toMatchObject({ kind: "records" });
    await cluster.converged();
    expect(cluster.controllers).toHaveLength(1);
    for (const node of cluster.nodes) {
      expect(registeredIn(node)).toEqual([1, 2, 3, 4, 5]);
      expect(node.quorum.clusterId).toBe(controller.quorum.clusterId);
      expect(node.machine.superblock.clusterId).toBe(controller.quorum.clusterId);
      await cluster.settle(node.quorum.waitForImage());
    }
  });

  it("wait for the last of them, and say for whom", async () => {
    const cluster = new QuorumCluster();
    await cluster.start(1, 2);
    await cluster.run(5_000);
    expect(cluster.node(1).quorum.status).toMatchObject({
      role: "forming",
      trouble: "waiting for a quorum: 2 of 3 voters reachable; not node 3",
    });
    await cluster.start(3);
    await cluster.controller();
  });

  it("do not found while their lists differ", async () => {
    const cluster = new QuorumCluster();
    cluster.node(3).options = { voters: cluster.options.voters.slice(1) };
    await cluster.start();
    await cluster.run(5_000);
    expect(cluster.node(1).quorum.status.trouble).toContain("controller.quorum.voters differs at node 3");
    expect(cluster.nodes.map(({ quorum }) => quorum.status.role)).toEqual(["forming", "forming", "forming"]);
  });

  it("a founding voter that was not told asks, and adopts what was founded", async () => {
    const cluster = new QuorumCluster();
    await cluster.start();
    const third = cluster.node(3);
    // It hears nothing of the founding: it is gone once the others know that it is empty.
    await cluster.until(() => cluster.node(1).quorum.status.trouble === "forming", 30_000, "founding under way");
    third.crash("power loss");
    const controller = await cluster.controller();
    await cluster.propose(controller, registers(4));
    expect(third.machine.superblock.clusterId).toBeNull();
    await cluster.start(3);
    await cluster.until(() => third.quorum.status.role === "follower");
    await cluster.converged();
    expect(registeredIn(third)).toEqual([4]);
  });

  it("go on after a restart of all, with everything that was committed", async () => {
    const cluster = new QuorumCluster();
    await cluster.start();
    const first = await cluster.controller();
    for (let id = 1; id <= 20; id++) await cluster.propose(first, registers(id));
    const { term } = first.quorum.status;
    for (const node of cluster.nodes) node.crash("power loss");
    await cluster.run(10);
    const beganMs = cluster.world.nowMs;
    await cluster.start();
    const second = await cluster.controller();
    expect(cluster.world.nowMs - beganMs).toBeLessThan(1_500);
    expect(second.quorum.status.term).toBeGreaterThan(term);
    await cluster.converged();
    expect(registeredIn(cluster.node(3))).toHaveLength(20);
  });
});

describe("an empty disk beside a formed cluster", () => {
  async function formed(): Promise<QuorumCluster> {
    const cluster = new QuorumCluster();
    await cluster.start();
    await cluster.propose(await cluster.controller(), registers(7));
    await cluster.converged();
    return cluster;
  }

  it("becomes an observer: it knows everything and has no vote", async () => {
    const cluster = await formed();
    const wiped = cluster.node(3);
    wiped.crash();
    wiped.wipe();
    await cluster.start(3);
    await cluster.settle(wiped.quorum.waitForImage());
    expect(wiped.quorum.status.role).toBe("observer");
    expect(registeredIn(wiped)).toEqual([7]);
    expect(wiped.quorum.clusterId).toBe(cluster.node(1).quorum.clusterId);
    // Even when the others need a vote.
    const controller = await cluster.controller();
    controller.crash();
    await cluster.run(10_000);
    expect(cluster.controllers).toEqual([]);
  });

  it("two of them do not found another cluster while the third is away", async () => {
    const cluster = await formed();
    for (const node of cluster.nodes) node.crash();
    cluster.node(1).wipe();
    cluster.node(2).wipe();
    await cluster.start(1, 2);
    await cluster.run(10_000);
    expect([cluster.node(1), cluster.node(2)].map(({ quorum }) => quorum.status.role)).toEqual(["forming", "forming"]);
    await cluster.start(3);
    await cluster.until(() => cluster.node(1).quorum.status.role === "observer");
    expect(cluster.node(1).quorum.clusterId).toBe(cluster.node(3).quorum.clusterId);
  });

  it("mutant D20b, a majority of empty disks founds: two clusters", async () => {
    const cluster = await formed();
    activateMutants(["D20b"]);
    for (const node of cluster.nodes) node.crash();
    cluster.node(1).wipe();
    cluster.node(2).wipe();
    await cluster.start(1, 2);
    await cluster.run(10_000);
    await cluster.start(3);
    await cluster.run(1_000);
    expect(cluster.node(1).quorum.clusterId).not.toBe(cluster.node(3).quorum.clusterId);
  });

  it("an observer's disk never says that it is empty", async () => {
    const cluster = await formed();
    cluster.node(3).crash();
    cluster.node(3).wipe();
    await cluster.start(3);
    await cluster.settle(cluster.node(3).quorum.waitForImage());
    for (const node of cluster.nodes) node.crash();
    cluster.node(1).wipe();
    cluster.node(2).wipe();
    await cluster.start();
    await cluster.run(5_000);
    expect(cluster.node(3).quorum.status.role).toBe("observer");
    expect(cluster.controllers).toEqual([]);
    expect(cluster.node(1).quorum.status.role).not.toBe("leader");
  });
});
