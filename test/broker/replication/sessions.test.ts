// The leader's fetch sessions (D-3, R-21 to R-23): what counts, what is of the past, and when an answer goes out.
import { describe, expect, it } from "vitest";
import { ReplicatingNodes, TOPIC } from "./nodes.ts";
import { RawFollower } from "./raw-follower.ts";

const slot = (id: number, partition = 0) => ({ slot: id, topicId: TOPIC, partition });

/** Node 1 leads partition 0 with two batches, nodes 2 and 3 are not there; the raw follower says that it is node 2. */
async function led(partitions: readonly number[] = [0], config: Readonly<Record<string, unknown>> = {}) {
  const nodes = await ReplicatingNodes.start({ config });
  const only = [nodes.node(1)];
  await nodes.apply({ leader: 1, leaderEpoch: 3, isr: [nodes.node(1).nodeId], minIsr: 1 }, partitions, only);
  for (const partition of partitions) for (const text of ["a", "b"]) await nodes.node(1).settled(text, { partition });
  return nodes;
}

const IDENTITY = { nodeId: 2, brokerEpoch: 12, sessionId: 1 };

describe("fetch sessions", () => {
  it("answer a first position at once, also with nothing, and later ones when there is something", async () => {
    const nodes = await led();
    const follower = await RawFollower.open(nodes, 1, IDENTITY);
    const first = await follower.answer({ added: [slot(5)], positions: [5, 3, 2, 3] });
    expect(first.rows).toEqual([
      { slot: 5, error: "NONE", leaderEpoch: 3, highWatermark: 2, diverging: [-1, -1], bytes: 0 },
    ]);
    const startMs = nodes.world.nowMs;
    const waiting = follower.fetch({});
    await nodes.world.runFor(100);
    await nodes.node(1).settled("c");
    const second = await nodes.world.settle(waiting);
    expect(second.rows.map(({ slot: id, bytes }) => [id, bytes > 0])).toEqual([[5, true]]);
    expect(second.atMs - startMs).toBeLessThan(110);
    // Answered: silent until it asks again.
    const idle = follower.fetch({ maxWaitMs: 300 });
    await nodes.node(1).settled("d");
    expect((await nodes.world.settle(idle)).rows).toEqual([]);
  });

  it("tell a high watermark that rose alone within milliseconds, and the slot stays active", async () => {
    const nodes = await led();
    const follower = await RawFollower.open(nodes, 1, IDENTITY);
    await follower.answer({ added: [slot(1)], positions: [1, 3, 2, 3] });
    const got = await nodes.world.settle(
      (async () => {
        const waiting = follower.fetch({});
        void nodes.node(1).produce("c");
        return waiting;
      })(),
    );
    // Shipped when written, before it is durable at the leader.
    expect(got.rows[0]).toMatchObject({ bytes: expect.any(Number), highWatermark: 2 });
    const startMs = nodes.world.nowMs;
    const mark = await follower.answer({ positions: [1, 3, 3, 3] });
    expect(mark.rows).toMatchObject([{ slot: 1, bytes: 0, highWatermark: 3 }]);
    expect(mark.atMs - startMs).toBeLessThan(40);
    const more = follower.fetch({});
    await nodes.node(1).settled("d");
    expect((await nodes.world.settle(more)).rows[0]?.bytes).toBeGreaterThan(0);
  });

  it("end the wait of a fetch when a newer one comes, and answer both in order", async () => {
    const nodes = await led([0, 1]);
    const follower = await RawFollower.open(nodes, 1, IDENTITY);
    await follower.answer({ added: [slot(1)], positions: [1, 3, 2, 3] });
    const startMs = nodes.world.nowMs;
    const order: string[] = [];
    const waiting = follower.fetch({}).then((answer) => (order.push("old"), answer));
    await nodes.world.runFor(50);
    const newer = follower
      .fetch({ added: [slot(2, 1)], positions: [2, 3, 0, -1] })
      .then((answer) => (order.push("new"), answer));
    const [old, fresh] = await nodes.world.settle(Promise.all([waiting, newer]));
    expect(order).toEqual(["old", "new"]);
    expect(old.rows).toEqual([]);
    expect(fresh.rows).toMatchObject([{ slot: 2, highWatermark: 2 }]);
    expect(fresh.rows[0]?.bytes).toBeGreaterThan(0);
    expect(fresh.atMs - startMs).toBeLessThan(60);
  });

  it("refuse a third fetch beside two", async () => {
    const partitions = Array.from({ length: 9 }, (_, index) => index);
    const nodes = await led(partitions);
    const follower = await RawFollower.open(nodes, 1, IDENTITY);
    for (const partition of partitions)
      for (let index = 0; index < 4; index++) await nodes.node(1).settled("x", { partition, sizeBytes: 200_000 });
    const added = partitions.map((partition) => slot(partition, partition));
    const positions = partitions.flatMap((partition) => [partition, 3, 0, -1]);
    const all = [follower.fetch({ added, positions }), follower.fetch({}), follower.fetch({})];
    const [first, , third] = await nodes.world.settle(Promise.all(all));
    expect(third?.error).toBe("INVALID_REQUEST");
    // The first came in parts of at most 1 MiB, one a turn.
    expect(first?.parts.length).toBeGreaterThan(2);
    for (const sizeBytes of first?.parts ?? []) expect(sizeBytes).toBeLessThanOrEqual(1024 * 1024);
    expect(first?.rows.reduce((sum, { bytes }) => sum + bytes, 0)).toBeGreaterThan(9 * 4 * 200_000);
  });

  it("say where the follower's log leaves theirs, and nothing of the high watermark with it (R-6, R-13)", async () => {
    const nodes = await led();
    const follower = await RawFollower.open(nodes, 1, IDENTITY);
    const answer = await follower.answer({ added: [slot(1)], positions: [1, 3, 9, 2] });
    expect(answer.rows).toMatchObject([{ error: "NONE", highWatermark: -1, bytes: 0 }]);
    expect(answer.rows[0]?.diverging[1]).toBe(0);
  });

  it("refuse an older leader epoch at once, and hold a newer one until this broker knows it too (R-21)", async () => {
    const nodes = await led();
    const follower = await RawFollower.open(nodes, 1, IDENTITY);
    const old = await follower.answer({ added: [slot(1)], positions: [1, 2, 2, 2] });
    expect(old.rows).toMatchObject([{ error: "FENCED_LEADER_EPOCH" }]);
    const startMs = nodes.world.nowMs;
    const ahead = follower.fetch({ positions: [1, 4, 2, 3], maxWaitMs: 5_000 });
    await nodes.world.runFor(200);
    await nodes.apply({ leader: 1, leaderEpoch: 4, isr: [nodes.node(1).nodeId], minIsr: 1 }, [0], [nodes.node(1)]);
    const held = await nodes.world.settle(ahead);
    expect(held.rows).toMatchObject([{ error: "NONE", leaderEpoch: 4 }]);
    expect(held.atMs - startMs).toBeLessThan(210);
  });

  it("wait for a partition that is not here yet", async () => {
    const nodes = await led();
    const follower = await RawFollower.open(nodes, 1, IDENTITY);
    const waiting = follower.fetch({ added: [slot(1, 7)], positions: [1, 1, 0, -1] });
    await nodes.world.runFor(100);
    await nodes.apply({ leader: 1, leaderEpoch: 1, isr: [nodes.node(1).nodeId], minIsr: 1 }, [7], [nodes.node(1)]);
    expect((await nodes.world.settle(waiting)).rows).toMatchObject([{ slot: 1, error: "NONE", leaderEpoch: 1 }]);
  });

  it("know no slot that was not added", async () => {
    const nodes = await led();
    const follower = await RawFollower.open(nodes, 1, IDENTITY);
    const answer = await follower.answer({ positions: [8, 3, 0, -1] });
    expect(answer.rows).toMatchObject([{ slot: 8, error: "FETCH_SESSION_ID_NOT_FOUND" }]);
  });

  it("end with a newer one: what comes late of an older session changes nothing (N3)", async () => {
    const nodes = await led();
    const old = await RawFollower.open(nodes, 1, IDENTITY);
    await old.answer({ added: [slot(1)], positions: [1, 3, 2, 3] });
    const waiting = old.fetch({});
    await nodes.world.runFor(20);
    const fresh = await RawFollower.open(nodes, 1, { ...IDENTITY, sessionId: 2 });
    await fresh.answer({ added: [slot(1)], positions: [1, 3, 0, -1] });
    // Its connection is closed: nobody listens there any more.
    expect((await nodes.world.settle(waiting)).error).toBe("CONNECTION_LOST");
    const { replication } = nodes.node(1);
    const positionOf = () => nodes.node(1).replica().core.describe(nodes.world.nowMs).replicas[1]?.endOffset;
    expect(positionOf()).toBe(0);
    // Late: the position of the old session would claim two batches that the new one does not have.
    const late = await RawFollower.open(nodes, 1, IDENTITY);
    for (let times = 0; times < 3; times++)
      expect((await late.answer({ added: [slot(1)], positions: [1, 3, 2, 3] })).error).toBe(
        "FETCH_SESSION_ID_NOT_FOUND",
      );
    late.report([1, 3, 2, 0]);
    late.report([1, 3, 2, 0], { sessionId: 2 });
    await nodes.world.runFor(20);
    expect(positionOf()).toBe(0);
    expect(nodes.node(1).replica().core.describe(nodes.world.nowMs).replicas[1]?.durableEnd).toBeLessThanOrEqual(0);
    expect(replication.counts.sessions).toBe(1);
    // Also when no session is left.
    await nodes.world.settle(fresh.connection.close(new Error("bye") as never));
    await nodes.until("no session", () => replication.counts.sessions === 0);
    expect((await late.answer({ added: [slot(1)], positions: [1, 3, 2, 3] })).error).toBe("FETCH_SESSION_ID_NOT_FOUND");
    expect(replication.counts.sessions).toBe(0);
  });

  it("are of a registered broker, in its present epoch (R-23)", async () => {
    const nodes = await led();
    const stale = await RawFollower.open(nodes, 1, { ...IDENTITY, brokerEpoch: 11 });
    expect((await stale.answer({})).error).toBe("STALE_BROKER_EPOCH");
    const ahead = await RawFollower.open(nodes, 1, { ...IDENTITY, brokerEpoch: Number.MAX_SAFE_INTEGER });
    expect((await ahead.answer({})).error).toBe("STALE_BROKER_EPOCH");
    const unknown = await RawFollower.open(nodes, 1, { ...IDENTITY, nodeId: 9 });
    expect((await unknown.answer({})).error).toBe("STALE_BROKER_EPOCH");
    const self = await RawFollower.open(nodes, 1, { nodeId: 1, brokerEpoch: 11, sessionId: 1 });
    expect((await self.answer({})).error).toBe("INVALID_REQUEST");
    const present = await RawFollower.open(nodes, 1, IDENTITY);
    await present.answer({ added: [slot(1)], positions: [1, 3, 0, -1] });
    const waiting = present.fetch({});
    await nodes.world.runFor(20);
    nodes.brokerEpochs.set(nodes.node(2).nodeId, 40);
    nodes.brokersChanged();
    expect((await nodes.world.settle(waiting)).error).toBe("STALE_BROKER_EPOCH");
    expect(nodes.node(1).replication.counts.sessions).toBe(0);
  });

  it("credit a durable report only up to the position that was validated (D-3)", async () => {
    const nodes = await led();
    const follower = await RawFollower.open(nodes, 1, IDENTITY);
    const durableEnd = () =>
      nodes
        .node(1)
        .replica()
        .core.followers.find(({ nodeId }) => nodeId === 2);
    follower.report([1, 3, 2, 0]);
    await follower.answer({ added: [slot(1)], positions: [1, 3, 1, 3] });
    follower.report([1, 3, 2, 0]);
    await nodes.world.runFor(20);
    const progress = durableEnd();
    expect(Math.min(progress?.position ?? -1, progress?.durableEnd ?? -1)).toBe(1);
  });
});
