// Partitions with three replicas on three brokers: what producers are told, who leads, who is in sync.
import { describe, expect, test } from "vitest";
import { batchOf } from "./support.ts";
import { ReplicaWorld } from "./replica-world.ts";

describe("acks=all", () => {
  test("is answered when all that are in sync have it on their disks, and read from there on", async () => {
    const cluster = await new ReplicaWorld().start();
    const topicId = await cluster.createReplicated("t");
    const { leader, isr } = await cluster.partition("t");
    expect(isr.toSorted()).toEqual([1, 2, 3]);
    const client = await cluster.client(leader);
    const answer = await client.produce(topicId, batchOf(["a", "b"]));
    expect(answer).toMatchObject({ error: "NONE", baseOffset: 0, outcome: "appended" });
    for (const nodeId of [1, 2, 3]) expect(cluster.ends(nodeId, topicId).durableEnd).toBe(2);
    expect((await client.fetch(topicId, 0)).highWatermark).toBe(2);
  });
});
