// What is wrong with one partition is no matter of the others: a slow disk, bad bytes, a log without room, a cut under way.
import { describe, expect, it } from "vitest";
import { bytesEqual } from "../../../src/base/bytes.ts";
import type { ReplicaLog } from "../../../src/storage/types.ts";
import { type NodesSettings, ReplicatingNodes } from "./nodes.ts";

async function two(settings: NodesSettings = {}) {
  const nodes = await ReplicatingNodes.start({ count: 2, ...settings });
  await nodes.apply({ leader: 1, leaderEpoch: 1 }, [0, 1]);
  for (const partition of [0, 1]) await nodes.node(1).settled("first", { partition });
  return nodes;
}

/** How long an acknowledgement of partition 1 takes, at worst of ten. */
async function worstOf(nodes: ReplicatingNodes): Promise<number> {
  let worstMs = 0;
  for (let index = 0; index < 10; index++) {
    const startMs = nodes.world.nowMs;
    const { error } = await nodes.node(1).settled("b", { partition: 1 });
    expect(error).toBe("NONE");
    worstMs = Math.max(worstMs, nodes.world.nowMs - startMs);
    await nodes.world.runFor(20);
  }
  return worstMs;
}

/** In place of the log's own read, until the returned function is called. */
function replaceRead(log: ReplicaLog, read: (own: ReplicaLog["read"]) => ReplicaLog["read"]): () => void {
  const own = log.read.bind(log);
  Object.assign(log, { read: read(own) });
  return () => void Object.assign(log, { read: own });
}

describe("partitions beside a bad one", () => {
  it("go on while a read of another one from disk takes seconds", async () => {
    const nodes = await two({
      config: { "tail.cache.bytes": "64KiB", "checkpoint.interval.ms": 200, "replica.lag.time.max.ms": 60_000 },
    });
    nodes.node(2).crash();
    for (let index = 0; index < 20; index++) void nodes.node(1).produce(`${index}`, { sizeBytes: 40_000, acks: 1 });
    const { log } = nodes.node(1).replica(0);
    await nodes.until("flushed", () => !log.isInMemory(log.startOffset), 20_000);
    nodes.node(1).latencies.readMs = 3_000;
    nodes.brokerEpochs.set(nodes.node(2).nodeId, 33);
    await nodes.node(2).start();
    nodes.brokersChanged();
    await nodes.apply({ leader: 1, leaderEpoch: 1 }, [0, 1], [nodes.node(2)]);
    await nodes.until("partition 1", () => nodes.node(2).replica(1).core.durableEnd === 1);
    expect(nodes.node(2).replica(0).core.endOffset).toBe(1);
    expect(await worstOf(nodes)).toBeLessThan(10);
    expect(nodes.node(2).replica(0).core.endOffset).toBe(1);
    nodes.node(1).latencies.readMs = 0.05;
    await nodes.until("partition 0", () => nodes.node(2).replica(0).core.durableEnd === 21, 20_000);
  });

  it("go on while another one's bytes do not check; those are asked for again and never appended (B-19)", async () => {
    const nodes = await two();
    const leader = nodes.node(1).replica(0);
    let bad = 0;
    const restore = replaceRead(leader.log, (own) => (offset, options) => {
      const result = own(offset, options);
      if (result instanceof Promise) return result;
      bad++;
      const chunks = result.chunks.map((chunk) => chunk.map((byte, at) => (at === chunk.length - 1 ? byte ^ 1 : byte)));
      return { ...result, chunks };
    });
    const answer = nodes.node(1).produce("a");
    expect(await worstOf(nodes)).toBeLessThan(10);
    await nodes.world.runFor(3_000);
    expect(nodes.node(2).replica(0).log.endOffset).toBe(1);
    // About one try a second: replica.fetch.backoff.ms.
    expect(bad).toBeGreaterThan(1);
    expect(bad).toBeLessThan(6);
    expect(nodes.world.marks.get("log warn fetched_batches_refused")).toBe(bad);
    restore();
    expect((await nodes.world.settle(answer)).error).toBe("NONE");
    expect(bytesEqual(await nodes.node(1).bytes(), await nodes.node(2).bytes())).toBe(true);
  });

  it("go on while another one's leader cannot read it", async () => {
    const nodes = await two();
    const leader = nodes.node(1).replica(0);
    const restore = replaceRead(leader.log, () => () => Promise.reject(new Error("bad page")));
    const answer = nodes.node(1).produce("a");
    expect(await worstOf(nodes)).toBeLessThan(10);
    restore();
    expect((await nodes.world.settle(answer)).error).toBe("NONE");
  });

  it("go on while a cut of another one takes long", async () => {
    const nodes = await two();
    await nodes.apply({ leader: null, leaderEpoch: 2 }, [0], [nodes.node(1)]);
    // Node 2 has two records of an epoch that nobody else knows.
    await nodes.apply({ leader: 2, leaderEpoch: 2 }, [0], [nodes.node(2)]);
    for (const text of ["x", "y"]) void nodes.node(2).produce(text, { acks: 1 });
    await nodes.world.runFor(20);
    const follower = nodes.node(2).replica(0);
    const own = follower.log.truncate.bind(follower.log);
    Object.assign(follower.log, {
      truncate: (to: never) =>
        new Promise((resolve) => nodes.world.schedule({ delayMs: 2_000, kind: "slow cut" }, () => resolve(own(to)))),
    });
    await nodes.apply({ leader: null, leaderEpoch: 3 }, [0]);
    await nodes.apply({ leader: 1, leaderEpoch: 4 }, [0]);
    await nodes.until("the cut begins", () => follower.core.isCutting);
    expect(await worstOf(nodes)).toBeLessThan(10);
    expect(follower.core.isCutting).toBe(true);
    await nodes.until("cut", () => !follower.core.isCutting);
    expect((await nodes.node(1).settled("a")).error).toBe("NONE");
    expect(follower.log.truncations).toBe(1);
  });

  it("a store without room is asked for nothing, and goes on when it has some", async () => {
    const nodes = await two();
    nodes.node(2).hasRoom = false;
    // The fetch that waits at the leader is answered all the same: nothing of that is kept.
    const answer = nodes.node(1).produce("a");
    await nodes.world.runFor(2_000);
    expect(nodes.node(2).replica(0).log.endOffset).toBe(1);
    const bytesOut = nodes.node(1).parts.metrics.gauges.get("out");
    await nodes.world.runFor(2_000);
    expect(nodes.node(1).parts.metrics.gauges.get("out")).toBe(bytesOut);
    nodes.node(2).hasRoom = true;
    nodes.node(2).replication.onRoomChanged();
    expect((await nodes.world.settle(answer)).error).toBe("NONE");
  });
});
