// What a leader that was killed knows to be committed (D-7), and what it gives of it while fewer than min.insync.replicas are in sync.
import { afterEach, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { API, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP } from "../../src/wire/native/apis.ts";
import { recordCountAt } from "../../src/model/record-batch.ts";
import { ReplicaWorld } from "./replica-world.ts";
import { batchOf, type TestClient } from "./support.ts";
import type { TopicId } from "../../src/model/ids.ts";

afterEach(() => activateMutants([]));

/** A partition of two replicas, both of which must have what is acknowledged. */
async function started() {
  const cluster = await new ReplicaWorld().start();
  const topicId = await cluster.createReplicated("t", { replicationFactor: 2 });
  const { leader, replicas } = await cluster.untilIsr("t", (await cluster.partition("t")).replicas);
  const follower = replicas.find((nodeId) => nodeId !== leader) ?? 0;
  return { cluster, topicId, leader, follower };
}

/** Both are killed, the follower first; it comes back alone, and is elected from the ELR. */
async function onlyTheFollowerComesBack({ cluster, leader, follower }: Awaited<ReturnType<typeof started>>) {
  cluster.node(follower).crash("process death");
  await cluster.untilIsr("t", [leader], 20_000);
  cluster.node(leader).crash("process death");
  await cluster.world.settle(cluster.node(follower).begin(), 60_000);
  await cluster.until(
    "it leads",
    async () => {
      const { leader: elected, isr } = await cluster.partition("t", 0, follower);
      return elected === follower && isr.length === 1;
    },
    30_000,
  );
  return cluster.client(follower);
}

async function offsetAt(client: TestClient, topicId: TopicId, timestamp: number) {
  const { response } = await client.call(API.LIST_OFFSETS, { entries: [{ topicId, partition: 0, timestamp }] });
  const { error, offset } = response.entries[0] ?? { error: "none", offset: Number.NaN };
  return { error, offset };
}

test.each([
  { mutants: [], found: { error: "NONE", highWatermark: 10 } },
  { mutants: ["D-7j"], found: { error: "OFFSET_NOT_AVAILABLE" } },
])(
  "D-7: what was acknowledged is readable at once from a replica that was killed and leads alone, below min ISR ($mutants)",
  async ({ mutants, found }) => {
    activateMutants(mutants);
    const ground = await started();
    const { cluster, topicId, leader, follower } = ground;
    const producer = await cluster.client(leader);
    for (let count = 0; count < 10; count++)
      expect(await producer.produce(topicId, batchOf([`v${count}`]))).toMatchObject({
        error: "NONE",
        baseOffset: count,
      });
    // It is told within a fetch, and its journal within an idle moment.
    await cluster.world.runFor(100);
    expect(cluster.ends(follower, topicId).highWatermark).toBe(10);
    const client = await onlyTheFollowerComesBack(ground);
    const read = await client.fetch(topicId, 0);
    expect(read).toMatchObject(found);
    if (mutants.length > 0) return;
    const starts = [];
    for (
      let at = 0, { bytes } = read;
      at < bytes.length;
      at += 12 + new DataView(bytes.buffer, bytes.byteOffset).getInt32(at + 8)
    )
      starts.push(recordCountAt(bytes, at));
    expect(starts).toEqual(Array.from({ length: 10 }, () => 1));
    expect(await offsetAt(client, topicId, LATEST_TIMESTAMP)).toEqual({ error: "NONE", offset: 10 });
  },
);

test.each([
  { mutants: [], told: -1 },
  // It tells an end below the one that the old leader may have told (invariant 10).
  { mutants: ["M30"], told: 3 },
])(
  "S-25: a new leader gives what it knows to be committed, and says neither where that ends nor what lies behind it ($mutants)",
  async ({ mutants, told }) => {
    activateMutants(mutants);
    const ground = await started();
    const { cluster, topicId, leader, follower } = ground;
    const producer = await cluster.client(leader);
    await producer.produce(topicId, batchOf(["a", "b", "c"], { timestamp: 1_000 }));
    await cluster.until("the follower knows of three", () => cluster.ends(follower, topicId).highWatermark === 3);
    await cluster.world.runFor(100);
    // The follower has it on its disk, but its word of that is lost, and so is the leader's.
    void producer.sendProduce(topicId, batchOf(["d", "e"], { timestamp: 2_000 }));
    for (let steps = 0; cluster.ends(follower, topicId).endOffset < 5 && steps < 100_000; steps++)
      await cluster.world.runFor(0.05);
    cluster.isolate(follower);
    await cluster.until("it is on the disk", () => cluster.ends(follower, topicId).durableEnd === 5);
    expect(cluster.ends(follower, topicId).highWatermark).toBe(3);
    cluster.node(follower).crash("process death");
    cluster.rejoin(follower);
    const client = await onlyTheFollowerComesBack(ground);
    expect(cluster.ends(follower, topicId)).toEqual({ endOffset: 5, durableEnd: 5, highWatermark: 3 });
    const known = await client.fetch(topicId, 0);
    expect(known).toMatchObject({ error: "NONE", highWatermark: told, lastStableOffset: told });
    if (mutants.length > 0) return;
    expect(recordCountAt(known.bytes, 0)).toBe(3);
    expect(known.bytes.length).toBe(12 + new DataView(known.bytes.buffer, known.bytes.byteOffset).getInt32(8));
    for (const offset of [3, 4, 5]) expect((await client.fetch(topicId, offset)).error).toBe("OFFSET_NOT_AVAILABLE");
    expect(await offsetAt(client, topicId, LATEST_TIMESTAMP)).toMatchObject({ error: "OFFSET_NOT_AVAILABLE" });
    expect(await offsetAt(client, topicId, EARLIEST_TIMESTAMP)).toEqual({ error: "NONE", offset: 0 });
    expect(await offsetAt(client, topicId, 1_001)).toEqual({ error: "NONE", offset: 1 });
    expect(await offsetAt(client, topicId, 2_000)).toMatchObject({ error: "OFFSET_NOT_AVAILABLE" });
    await cluster.world.settle(cluster.node(leader).begin(), 60_000);
    await cluster.untilIsr("t", [leader, follower], 30_000);
    await cluster.until("all is committed", () => cluster.ends(leader, topicId).highWatermark === 5);
  },
);
