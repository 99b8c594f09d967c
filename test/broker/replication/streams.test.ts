// What followers fetch and leaders answer, over real logs.
import { describe, expect, it } from "vitest";
import { bytesEqual } from "../../../src/base/bytes.ts";
import { ReplicatingNodes } from "./nodes.ts";

const caughtUp = (nodes: ReplicatingNodes, nodeId: number, end: number, partition = 0): boolean =>
  nodes.node(nodeId).replica(partition).core.durableEnd === end;

async function equalLogs(nodes: ReplicatingNodes, partition = 0): Promise<boolean> {
  const all: Uint8Array[] = [];
  for (const node of nodes.nodes) all.push(await node.bytes(partition));
  return all.every((bytes) => bytesEqual(bytes, all[0] as Uint8Array));
}

describe("replication streams", () => {
  it("copy what the leader appends, byte for byte, and what is on all disks is committed", async () => {
    const nodes = await ReplicatingNodes.start();
    await nodes.apply({ leader: 1, leaderEpoch: 1 });
    const answers = [];
    for (let index = 0; index < 20; index++) answers.push(await nodes.node(1).settled(`value ${index}`));
    expect(answers.map(({ error, baseOffset }) => [error, baseOffset])).toEqual(
      answers.map((_, index) => ["NONE", index]),
    );
    for (const nodeId of [2, 3]) await nodes.until("caught up", () => caughtUp(nodes, nodeId, 20));
    expect(await equalLogs(nodes)).toBe(true);
  });

  it("tell followers the last high watermark of an idle partition within 50 ms", async () => {
    const nodes = await ReplicatingNodes.start();
    await nodes.apply({ leader: 1, leaderEpoch: 1 });
    await nodes.node(1).settled("a");
    const knows = (nodeId: number): boolean => nodes.node(nodeId).replica().core.highWatermark === 1;
    await nodes.until("mark", () => knows(2) && knows(3), 50);
  });

  it("acknowledge in about the time of two syncs", async () => {
    const nodes = await ReplicatingNodes.start();
    await nodes.apply({ leader: 1, leaderEpoch: 1 });
    await nodes.node(1).settled("warm");
    const tookMs: number[] = [];
    for (let index = 0; index < 20; index++) {
      const startMs = nodes.world.nowMs;
      await nodes.node(1).settled(`${index}`);
      tookMs.push(nodes.world.nowMs - startMs);
    }
    expect(tookMs.sort((a, b) => a - b)[10]).toBeLessThan(5);
  });

  it("carry a batch that is longer than every limit, alone", async () => {
    const nodes = await ReplicatingNodes.start({
      config: {
        "replica.fetch.max.bytes": "64KiB",
        "replica.fetch.response.max.bytes": "128KiB",
        "max.message.bytes": "4MiB",
      },
    });
    await nodes.apply({ leader: 1, leaderEpoch: 1 });
    await nodes.node(1).settled("small");
    await nodes.node(1).settled("big", { sizeBytes: 3 * 1024 * 1024 });
    await nodes.node(1).settled("small");
    for (const nodeId of [2, 3]) await nodes.until("caught up", () => caughtUp(nodes, nodeId, 3));
    expect(await equalLogs(nodes)).toBe(true);
  });

  it("bring a follower up that was away, also from what only the disk has", async () => {
    const config = { "tail.cache.bytes": "64KiB", "segment.bytes": "256KiB", "checkpoint.interval.ms": 200 };
    const nodes = await ReplicatingNodes.start({ config });
    await nodes.apply({ leader: 1, leaderEpoch: 1 });
    nodes.node(3).crash();
    await nodes.apply({ leader: 1, leaderEpoch: 1, partitionEpoch: 2, isr: [1, 2].map((id) => nodes.node(id).nodeId) });
    for (let index = 0; index < 60; index++) await nodes.node(1).settled(`${index}`, { sizeBytes: 40_000 });
    const { log } = nodes.node(1).replica();
    await nodes.until("flushed", () => !log.isInMemory(log.startOffset), 20_000);
    nodes.brokerEpochs.set(nodes.node(3).nodeId, 33);
    await nodes.node(3).start();
    nodes.brokersChanged();
    await nodes.apply({ leader: 1, leaderEpoch: 1 }, [0], [nodes.node(3)]);
    await nodes.until("caught up", () => caughtUp(nodes, 3, 60), 5_000);
    expect(await equalLogs(nodes)).toBe(true);
    // All that was set aside for answers is given back.
    await nodes.world.runFor(1_000);
    expect(nodes.node(1).parts.accountant.unsent.usedBytes).toBe(0);
  });

  it("go on in a new session when the connection breaks, and lose and double nothing", async () => {
    const nodes = await ReplicatingNodes.start({ seed: 3 });
    await nodes.apply({ leader: 1, leaderEpoch: 1 });
    const answers = [];
    for (let index = 0; index < 60; index++) {
      answers.push(nodes.node(1).produce(`value ${index}`));
      await nodes.world.runFor(3);
      if (index % 10 === 5) nodes.network.cutOne(index % 20 === 5 ? "both" : "silent");
    }
    const settled = await nodes.world.settle(Promise.all(answers), 60_000);
    expect(settled.map(({ error, baseOffset }) => [error, baseOffset])).toEqual(
      settled.map((_, index) => ["NONE", index]),
    );
    for (const nodeId of [2, 3]) await nodes.until("caught up", () => caughtUp(nodes, nodeId, 60), 30_000);
    expect(await equalLogs(nodes)).toBe(true);
  });

  it("follow a new leader at once, though their fetch of other partitions waits there", async () => {
    const nodes = await ReplicatingNodes.start();
    await nodes.apply({ leader: 1, leaderEpoch: 1 }, [0]);
    await nodes.apply({ leader: 2, leaderEpoch: 1 }, [1]);
    await nodes.node(1).settled("a");
    await nodes.node(2).settled("a", { partition: 1 });
    // All is idle, every fetch waits at its leader.
    await nodes.world.runFor(700);
    await nodes.apply({ leader: 2, leaderEpoch: 2 }, [0]);
    const startMs = nodes.world.nowMs;
    const answer = await nodes.node(2).settled("b");
    expect(answer).toMatchObject({ error: "NONE", baseOffset: 1 });
    expect(nodes.world.nowMs - startMs).toBeLessThan(30);
    expect(nodes.node(2).replication.counts).toMatchObject({ streams: 0, sessions: 2 });
    expect(nodes.node(1).replication.counts).toMatchObject({ streams: 1, followed: 2 });
  });

  it("cut what a leader wrote alone, and refetch what the others have (R-14, zig-zag)", async () => {
    const nodes = await ReplicatingNodes.start();
    await nodes.apply({ leader: 1, leaderEpoch: 1, minIsr: 1 });
    await nodes.node(1).settled("common");
    await nodes.until("all have it", () => caughtUp(nodes, 2, 1) && caughtUp(nodes, 3, 1));
    // Nodes 2 and 3 no longer fetch: they know a newer epoch, whose leader is not told yet.
    await nodes.apply({ leader: null, leaderEpoch: 2 }, [0], [nodes.node(2), nodes.node(3)]);
    for (let index = 0; index < 3; index++) void nodes.node(1).produce(`lost ${index}`, { acks: 1 });
    await nodes.world.runFor(20);
    await nodes.apply({ leader: 2, leaderEpoch: 3 }, [0], [nodes.node(2), nodes.node(3)]);
    void nodes.node(2).produce("kept");
    await nodes.world.runFor(20);
    await nodes.apply({ leader: 2, leaderEpoch: 3 }, [0], [nodes.node(1)]);
    for (const nodeId of [1, 2, 3]) await nodes.until("caught up", () => caughtUp(nodes, nodeId, 2));
    expect(await equalLogs(nodes)).toBe(true);
    expect(nodes.node(1).replica().log.truncations).toBe(1);
  });

  it("begin a session anew when this broker has another epoch", async () => {
    const nodes = await ReplicatingNodes.start();
    await nodes.apply({ leader: 1, leaderEpoch: 1 });
    await nodes.node(1).settled("a");
    nodes.brokerEpochs.set(nodes.node(2).nodeId, 50);
    nodes.brokersChanged();
    expect((await nodes.node(1).settled("b")).error).toBe("NONE");
    expect(
      nodes
        .node(1)
        .replica()
        .core.followers.find(({ nodeId }) => nodeId === 2)?.brokerEpoch,
    ).toBe(50);
  });

  it("say nothing and ask nothing once they are stopped", async () => {
    const nodes = await ReplicatingNodes.start();
    await nodes.apply({ leader: 1, leaderEpoch: 1 });
    await nodes.node(1).settled("a");
    nodes.node(2).replication.stop();
    await nodes.world.runFor(100);
    void nodes.node(1).produce("b");
    await nodes.world.runFor(2_000);
    expect(nodes.node(2).replica().log.endOffset).toBe(1);
    nodes.node(1).replication.stop();
    expect(nodes.node(1).replication.counts).toEqual({ streams: 0, followed: 0, sessions: 0, isrChanges: 0 });
  });
});
