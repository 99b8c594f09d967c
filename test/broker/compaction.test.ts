// Compacted topics on whole brokers: what is refused, what survives, and replicas that compact each for itself (D-17).
import { afterEach, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import {
  BATCH_HEADER_BYTES,
  baseOffsetAt,
  DECOMPRESSED_BYTES_MAX,
  forEachBatch,
  lastOffsetAt,
  recordCountAt,
} from "../../src/model/record-batch.ts";
import { decodeRecords, RecordBatchBuilder } from "../../src/model/records.ts";
import { utf8Decode, utf8Encode } from "../../src/base/bytes.ts";
import { createSimHost } from "../../scripts/sim-host.ts";
import { ReplicaWorld } from "./replica-world.ts";
import { batchOf, type TestClient } from "./support.ts";
import type { TopicId } from "../../src/model/ids.ts";

afterEach(() => activateMutants([]));

const host = await createSimHost();
const CONFIG = { "log.cleaner.backoff.ms": 100, "checkpoint.interval.ms": 200 };
const COMPACTED = {
  "cleanup.policy": "compact",
  "segment.bytes": "1024",
  "min.cleanable.dirty.ratio": "0",
  "delete.retention.ms": "0",
};

function keyed(rows: readonly (readonly [key: string, value: string | null])[]): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: 2 ** 20 });
  for (const [key, value] of rows) {
    const bytes = value === null ? null : utf8Encode(value);
    builder.tryAppend({ key: utf8Encode(key), value: bytes, headers: [], timestamp: 1_000 });
  }
  return builder.build({ compression: "none", codecs: host.codecs, checksum: host.checksum });
}

/** Everything that the leader gives: its batches, without a gap, and what a reader takes from them. */
async function readAll(client: TestClient, topicId: TopicId, endOffset: number) {
  const batches: Uint8Array[] = [];
  for (let offset = 0; offset < endOffset; ) {
    const { error, bytes } = await client.fetch(topicId, offset);
    expect(error).toBe("NONE");
    forEachBatch(bytes, (at, sizeBytes) => void batches.push(bytes.slice(at, at + sizeBytes)));
    const last = batches.at(-1);
    if (last === undefined || lastOffsetAt(last, 0) < offset) throw new Error(`nothing at ${offset}`);
    offset = lastOffsetAt(last, 0) + 1;
  }
  let next = 0;
  const values = new Map<string, string>();
  let records = 0;
  for (const batch of batches) {
    expect(baseOffsetAt(batch, 0)).toBe(next);
    next = lastOffsetAt(batch, 0) + 1;
    const options = { checksum: host.checksum, codecs: host.codecs, decompressedBytesMax: DECOMPRESSED_BYTES_MAX };
    for (const { key, value } of decodeRecords(batch, options)) {
      records++;
      const name = utf8Decode(key ?? new Uint8Array());
      if (value === null) values.delete(name);
      else values.set(name, utf8Decode(value));
    }
  }
  expect(next).toBe(endOffset);
  return { values, records, empty: batches.filter((batch) => recordCountAt(batch, 0) === 0) };
}

const logBytes = (cluster: ReplicaWorld, nodeId: number, topicId: TopicId): number =>
  cluster
    .replica(nodeId, topicId)
    .log.segmentViews()
    .reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);

test("S-36: a compacted topic takes no record without a key, and says which", async () => {
  const cluster = await new ReplicaWorld({ nodes: 1, config: CONFIG }).start();
  const topicId = await cluster.createReplicated("t", { replicationFactor: 1, configs: COMPACTED });
  const client = await cluster.client(1);
  expect(await client.produce(topicId, keyed([["a", "1"]]))).toMatchObject({ error: "NONE" });
  expect(await client.produce(topicId, batchOf(["no key"]))).toMatchObject({
    error: "INVALID_RECORD",
    message: expect.stringContaining("record 0 has no key"),
  });
});

test("S-36: nor a compressed one; what has keys is taken, and a topic without compaction is not opened", async () => {
  const cluster = await new ReplicaWorld({ nodes: 1, config: CONFIG }).start();
  const configs = { ...COMPACTED, "max.message.bytes": "1024" };
  const compacted = await cluster.createReplicated("t", { replicationFactor: 1, configs });
  const plain = await cluster.createReplicated("u", { replicationFactor: 1 });
  const client = await cluster.client(1);
  const zipped = (key: string | null, value: string): Uint8Array => {
    const builder = new RecordBatchBuilder({ limitBytes: 2 ** 20 });
    const bytes = key === null ? null : utf8Encode(key);
    builder.tryAppend({ key: utf8Encode("a"), value: null, headers: [], timestamp: 1_000 });
    builder.tryAppend({ key: bytes, value: utf8Encode(value), headers: [], timestamp: 1_000 });
    return builder.build({ compression: "gzip", codecs: host.codecs, checksum: host.checksum });
  };
  expect(await client.produce(compacted, zipped("b", "1"))).toMatchObject({ error: "NONE", baseOffset: 0 });
  expect(await client.produce(compacted, zipped(null, "1"))).toMatchObject({
    error: "INVALID_RECORD",
    message: "record 1 has no key, and the topic is compacted",
  });
  expect(await client.produce(compacted, zipped("b", "x".repeat(17 * 1024)))).toMatchObject({
    error: "INVALID_RECORD",
    message: expect.stringContaining("more than 16384 bytes"),
  });
  const damaged = (): Uint8Array => {
    const bytes = zipped("b", "x".repeat(500));
    bytes.fill(0, BATCH_HEADER_BYTES);
    new DataView(bytes.buffer, bytes.byteOffset).setUint32(17, host.checksum.crc32c(bytes.subarray(21)));
    return bytes;
  };
  expect(await client.produce(compacted, damaged())).toMatchObject({ error: "CORRUPT_MESSAGE" });
  expect(await client.produce(compacted, zipped("b", "2"))).toMatchObject({ error: "NONE", baseOffset: 2 });
  for (const batch of [zipped(null, "1"), damaged()])
    expect(await client.produce(plain, batch)).toMatchObject({ error: "NONE" });
});

/** A follower that was away while the leader compacted, and ends inside of what is one empty batch by now. */
async function staleFollower() {
  const cluster = await new ReplicaWorld({ config: CONFIG }).start();
  const configs = { ...COMPACTED, "min.insync.replicas": "1" };
  const topicId = await cluster.createReplicated("t", { replicationFactor: 2, configs });
  const { leader, replicas } = await cluster.untilIsr("t", (await cluster.partition("t")).replicas);
  const follower = replicas.find((nodeId) => nodeId !== leader) ?? 0;
  const client = await cluster.client(leader);
  const produce = async (round: number, count: number): Promise<void> => {
    for (let number = 0; number < count; number++) {
      const value = `${round}-${number}`;
      const rows = [["k", value] as const, [`r${number % 3}`, value] as const];
      expect((await client.produce(topicId, keyed(rows))).error).toBe("NONE");
    }
  };
  await produce(1, 25);
  await cluster.until("the follower has all", () => cluster.ends(follower, topicId).durableEnd === 50);
  cluster.node(follower).crash("process death");
  await cluster.untilIsr("t", [leader], 30_000);
  await produce(2, 200);
  let endOffset = 450;
  // Small segments become one, and their empty batches, with the passes behind the first.
  const isMerged = async (): Promise<boolean> => {
    await produce(3, 20);
    endOffset += 40;
    await cluster.world.runFor(1000);
    const { empty } = await readAll(client, topicId, endOffset);
    return empty.some((batch) => baseOffsetAt(batch, 0) < 50 && lastOffsetAt(batch, 0) >= 50);
  };
  await cluster.until("one empty batch reaches across the follower's end", isMerged, 60_000);
  await cluster.world.settle(cluster.node(follower).begin(), 60_000);
  return { cluster, topicId, leader, follower, client, endOffset };
}

test("planted bug S-19f shows: that follower does not come back", async () => {
  activateMutants(["S-19f"]);
  const { cluster, leader, follower } = await staleFollower();
  await expect(cluster.untilIsr("t", [leader, follower], 15_000)).rejects.toThrow("not within");
});

test("S-19: a follower that ends inside of a merged empty batch comes back into the ISR and may lead", async () => {
  const { cluster, topicId, leader, follower, client, endOffset } = await staleFollower();
  await cluster.untilIsr("t", [leader, follower], 30_000);
  const before = await readAll(client, topicId, endOffset);
  expect(before.values.get("k")).toBe("3-19");
  expect(before.records).toBeLessThan(100);
  cluster.node(leader).crash("process death");
  await cluster.untilLeader("t", (nodeId) => nodeId === follower, 30_000);
  const other = await cluster.client(follower);
  await cluster.until(
    "it says what is committed",
    async () => (await other.fetch(topicId, 0)).highWatermark === endOffset,
    30_000,
  );
  const after = await readAll(other, topicId, endOffset);
  expect(after.values).toEqual(before.values);
});

test("S-37: a key that was deleted is gone in the end, on every replica, and the disk gets its room back", async () => {
  const cluster = await new ReplicaWorld({ config: CONFIG }).start();
  const topicId = await cluster.createReplicated("t", { replicationFactor: 3, configs: COMPACTED });
  const { leader, replicas } = await cluster.untilIsr("t", (await cluster.partition("t")).replicas);
  const client = await cluster.client(leader);
  for (let number = 0; number < 100; number++)
    await client.produce(topicId, keyed([[`k${number % 10}`, "x".repeat(50)]]));
  for (let number = 0; number < 10; number++) await client.produce(topicId, keyed([[`k${number}`, null]]));
  const full = logBytes(cluster, leader, topicId);
  let offset = 110;
  const isGone = async (): Promise<boolean> => {
    // Tombstones go with a later pass, which needs something to do.
    for (let number = 0; number < 20; number++, offset++)
      await client.produce(topicId, keyed([["other", "y".repeat(50)]]));
    await cluster.world.runFor(1000);
    const { values, records } = await readAll(client, topicId, offset);
    expect(values.get("other")).toBe("y".repeat(50));
    return values.size === 1 && records < 40;
  };
  await cluster.until("nothing but the other key is left", isGone, 120_000);
  await cluster.until("so it is everywhere", () =>
    replicas.every((nodeId) => logBytes(cluster, nodeId, topicId) < full / 2),
  );
});
