// Disks that are slow, full or broken under a quorum (D-18, D-19): nobody promises what is not written, and nobody stays out for ever.
import { describe, expect, it } from "vitest";
import { QuorumCluster, type QuorumNode, registeredIn, registers } from "./support.ts";

async function formed(): Promise<{ cluster: QuorumCluster; leader: QuorumNode; others: QuorumNode[] }> {
  const cluster = new QuorumCluster();
  await cluster.start();
  const leader = await cluster.controller();
  await cluster.propose(leader, registers(1));
  await cluster.converged();
  return { cluster, leader, others: cluster.nodes.filter((node) => node !== leader) };
}

/** Somebody else takes all the room, and more than the reserve gives back. */
const fill = (node: QuorumNode): void => {
  node.machine.disk.faults.foreignBytes = 2 ** 31;
};
const makeRoom = (node: QuorumNode): void => {
  node.machine.disk.faults.foreignBytes = 0;
};

describe("a full disk", () => {
  it("of the leader: it steps down, another one decides, and it comes back by itself when there is room", async () => {
    const { cluster, leader, others } = await formed();
    fill(leader);
    const decision = await cluster.propose(leader, registers(2));
    expect(decision).toMatchObject({ kind: "refused", error: "REQUEST_TIMED_OUT" });
    const next = await cluster.controller(others);
    await cluster.propose(next, registers(3));
    expect(leader.isController).toBe(false);
    expect(leader.failure).toBeUndefined();
    expect(leader.quorum.status.trouble).toContain("cannot be written");
    makeRoom(leader);
    await cluster.converged();
    expect(leader.quorum.status.trouble).toBeNull();
    expect(registeredIn(leader)).toContain(3);
  });

  it("of a voter: it does not vote and does not campaign; without a majority that can write nothing is decided", async () => {
    const { cluster, leader, others } = await formed();
    const [full, fine] = others as [QuorumNode, QuorumNode];
    fill(full);
    await cluster.propose(leader, registers(2));
    await cluster.until(() => full.quorum.status.trouble !== null);
    leader.crash();
    await cluster.run(10_000);
    expect(cluster.controllers).toEqual([]);
    makeRoom(full);
    await cluster.controller([full, fine]);
    await cluster.converged([full, fine]);
  });

  it("of a lone voter: changes are refused with STORAGE_FULL until there is room", async () => {
    const cluster = new QuorumCluster({ nodes: [1] });
    await cluster.start();
    const node = await cluster.controller();
    fill(node);
    expect(await cluster.propose(node, registers(1))).toMatchObject({ error: "REQUEST_TIMED_OUT" });
    expect(await cluster.propose(node, registers(2))).toMatchObject({ error: "STORAGE_FULL" });
    await cluster.run(5_000);
    makeRoom(node);
    await cluster.until(() => node.isController, 5_000);
    expect(await cluster.propose(node, registers(3))).toMatchObject({ kind: "records" });
    expect(registeredIn(node)).toContain(3);
  });
});

describe("a failed sync", () => {
  it("ends the node's quorum, and the others go on", async () => {
    const { cluster, leader, others } = await formed();
    leader.machine.disk.faults.failingSyncs = 1;
    await cluster.propose(leader, registers(2));
    expect(leader.failure?.code).toBe("DISK_FAILED");
    await cluster.propose(await cluster.controller(others), registers(3));
  });
});

describe("a failed sync of a node that stops", () => {
  it("is told, when it hands over the quorum", async () => {
    const { cluster, leader } = await formed();
    leader.machine.disk.faults.failingSyncs = 1;
    const closed = leader.quorum.close();
    await cluster.until(() => leader.failure !== undefined);
    expect(leader.failure?.code).toBe("DISK_FAILED");
    await cluster.settle(closed);
  });

  it("is told, when it is the last one", async () => {
    const cluster = new QuorumCluster({ nodes: [1] });
    await cluster.start();
    const node = await cluster.controller();
    await cluster.propose(node, registers(1));
    node.machine.disk.faults.failingSyncs = 1;
    await cluster.settle(node.quorum.close());
    expect(node.failure?.code).toBe("DISK_FAILED");
  });
});

describe("a slow disk", () => {
  it("a lone voter leads, however long its own vote takes to be written", async () => {
    const cluster = new QuorumCluster({ nodes: [1] });
    cluster.node(1).latencies.syncMs = 3_000;
    await cluster.start();
    await cluster.until(() => cluster.node(1).isController, 120_000);
  });

  it("three of them elect somebody", async () => {
    const cluster = new QuorumCluster();
    for (const node of cluster.nodes) node.latencies.syncMs = 80;
    await cluster.start();
    await cluster.controller();
  });
});
