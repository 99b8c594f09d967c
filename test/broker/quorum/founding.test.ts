// From empty disks to a quorum (D-20): one voter, three voters, and what each restart finds.
import { describe, expect, it } from "vitest";
import { QuorumCluster, registers } from "./support.ts";

describe("one voter", () => {
  it("founds at once, leads at once, and has the cluster record first", async () => {
    const cluster = new QuorumCluster({ nodes: [1] });
    await cluster.start();
    await cluster.settle(cluster.node(1).quorum.waitForImage(), 200);
    const { quorum } = cluster.node(1);
    expect(quorum.isController).toBe(true);
    expect(quorum.image.cluster?.clusterId).toBe(quorum.clusterId);
    expect(await cluster.propose(cluster.node(1), registers(1))).toMatchObject({ kind: "records" });
  });
});

describe("three voters", () => {
  it("found together, elect one controller and agree", async () => {
    const cluster = new QuorumCluster();
    await cluster.start();
    const controller = await cluster.controller();
    for (let id = 1; id <= 5; id++)
      expect(await cluster.propose(controller, registers(id))).toMatchObject({ kind: "records" });
    await cluster.converged();
    expect(cluster.controllers).toHaveLength(1);
    expect([...cluster.node(2).quorum.image.brokers]).toHaveLength(5);
  });
});
