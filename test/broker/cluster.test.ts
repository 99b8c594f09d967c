// Three brokers as one cluster: forming, registering, failing over.
import { describe, expect, test } from "vitest";
import { ClusterWorld } from "./cluster-world.ts";
import { batchOf } from "./support.ts";

describe("a cluster of three", () => {
  test("forms, registers every broker, spreads partitions; every node tells the same", async () => {
    const cluster = await new ClusterWorld().start();
    console.log("formed after", cluster.world.nowMs);
    const controller = await cluster.controller();
    const topicId = await cluster.createTopic("t", 3);
    for (const nodeId of [1, 2, 3]) {
      await cluster.until("the topic", async () => (await cluster.leaders(nodeId, "t")).length === 3);
      const { brokers, controllerId, clusterId } = await cluster.metadata(nodeId);
      expect(controllerId).toBe(controller);
      expect(clusterId).toBe(cluster.node(1).broker.identity.clusterId);
      expect(brokers.map((broker) => [broker.nodeId, broker.address, broker.isFenced])).toEqual([
        [1, "node1:7070", false],
        [2, "node2:7070", false],
        [3, "node3:7070", false],
      ]);
    }
    const leaders = await cluster.leaders(1, "t");
    expect([...leaders].sort()).toEqual([1, 2, 3]);
    for (const [partition, leader] of leaders.entries()) {
      const client = await cluster.client(leader);
      expect(await client.produce(topicId, batchOf(["x"]), { partition })).toMatchObject({ error: "NONE" });
      const other = await cluster.client((leader % 3) + 1);
      expect(await other.produce(topicId, batchOf(["x"]), { partition })).toMatchObject({
        error: "NOT_LEADER_OR_FOLLOWER",
        outcome: "not appended",
      });
    }
  });
});
