// What a client meets: handshake, produce, fetch, offsets, errors that stay where they belong.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { bytesEqual } from "../../src/base/bytes.ts";
import type { TopicId } from "../../src/model/ids.ts";
import { baseOffsetAt, batchSizeAt, leaderEpochAt } from "../../src/model/record-batch.ts";
import { API, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP } from "../../src/wire/native/apis.ts";
import { batchOf, startWorld, type WorldSettings } from "./support.ts";

async function startWithTopic(settings: WorldSettings = {}, partitions = 1) {
  const { broker, client } = await startWorld(settings);
  return { broker, client, topicId: await client.createTopic("t", { partitions }) };
}

afterEach(() => activateMutants([]));

describe("handshake", () => {
  test("Hello tells who the broker is and what it speaks", async () => {
    const { broker, client } = await startWorld();
    const { response } = await client.call(API.HELLO, { clientId: "c", software: "s" });
    expect(response.clusterId).toBe(broker.broker.identity.clusterId);
    expect(response.nodeId).toBe(1);
    expect(new Set(response.apis.map(({ key }) => key))).toEqual(new Set(Object.values(API)));
  });

  test("any other first request is answered HANDSHAKE_REQUIRED and the connection closed; others go on", async () => {
    const { broker, client } = await startWorld();
    const stranger = await broker.dial();
    const answer = await stranger.call(API.METADATA, { topics: null, after: null, barrier: false });
    expect(answer.error).toBe("HANDSHAKE_REQUIRED");
    await broker.world.runFor(2_000);
    expect(stranger.closedWith).toBeDefined();
    expect((await client.metadata()).topics).toEqual([]);
  });

  test("bytes that are no envelope close their connection only", async () => {
    const { broker, client } = await startWorld();
    const stranger = await broker.dial();
    stranger.connection.send([new Uint8Array([0x93, 1, 2, 3])]);
    await broker.world.runFor(2_000);
    expect(stranger.strays).toHaveLength(1);
    expect(stranger.closedWith).toBeDefined();
    expect((await client.metadata()).topics).toEqual([]);
  });
});

describe("produce and fetch", () => {
  test.each([1, -1])(
    "B-12: acks %i gives the base offset, and the bytes come back with offset and epoch written in",
    async (acks) => {
      const { client, topicId } = await startWithTopic();
      const batch = batchOf(["a", "b", "c"]);
      expect(await client.produce(topicId, batch, { acks })).toMatchObject({
        error: "NONE",
        outcome: "appended",
        baseOffset: 0,
      });
      expect(await client.produce(topicId, batchOf(["d"]), { acks })).toMatchObject({ baseOffset: 3 });
      const fetched = await client.fetch(topicId, 0, { maxWaitMs: 1_000, minBytes: batch.length + 1 });
      expect(fetched).toMatchObject({ error: "NONE", highWatermark: 4, lastStableOffset: 4, logStartOffset: 0 });
      expect(bytesEqual(fetched.bytes.subarray(21, batch.length), batch.subarray(21))).toBe(true);
      expect([baseOffsetAt(fetched.bytes, 0), leaderEpochAt(fetched.bytes, 0)]).toEqual([0, fetched.leaderEpoch]);
      expect(baseOffsetAt(fetched.bytes, batchSizeAt(fetched.bytes, 0))).toBe(3);
    },
  );

  test("acks 0 is never answered, and appended", async () => {
    const { broker, client, topicId } = await startWithTopic();
    void client.sendProduce(topicId, batchOf(["a"]), { acks: 0 });
    void client.sendProduce(topicId, new Uint8Array(70), { acks: 0 });
    const fetched = await client.fetch(topicId, 0, { maxWaitMs: 1_000 });
    expect(fetched.bytes.length).toBeGreaterThan(0);
    await broker.world.runFor(6_000);
    expect(client.answered).not.toContain(3);
    expect(client.answered).not.toContain(4);
  });

  test("S-19: a fetch in the middle of a batch begins with the batch that holds the offset", async () => {
    const { client, topicId } = await startWithTopic();
    await client.produce(topicId, batchOf(["a", "b", "c"]));
    const fetched = await client.fetch(topicId, 2);
    expect(baseOffsetAt(fetched.bytes, 0)).toBe(0);
  });

  test("S-20: the first batch comes whole though larger than every limit; after it limits are hard", async () => {
    const { client } = await startWorld();
    const topicId = await client.createTopic("t", { partitions: 2 });
    for (const partition of [0, 1]) await client.produce(topicId, batchOf(["a"], { padBytes: 5_000 }), { partition });
    const entries = [0, 1].map((partition) => ({ topicId, partition, leaderEpoch: -1, offset: 0, maxBytes: 100 }));
    const { response, bodies } = await client.call(API.FETCH, { maxWaitMs: 0, minBytes: 1, maxBytes: 200, entries });
    expect(response.entries.map(({ index, error, body }) => [index, error, body])).toEqual([
      [0, "NONE", 0],
      [1, "NONE", -1],
    ]);
    expect(bodies[0]?.length).toBeGreaterThan(5_000);
  });

  test("invariant 11: what is written and not durable is not read", async () => {
    const { broker, client, topicId } = await startWithTopic({ syncMs: 200 });
    expect(await client.produce(topicId, batchOf(["a"]), { acks: 1 })).toMatchObject({ baseOffset: 0 });
    const early = await client.fetch(topicId, 0);
    expect([early.error, early.highWatermark, early.bytes.length]).toEqual(["NONE", 0, 0]);
    await broker.world.runFor(20_000);
    expect((await client.fetch(topicId, 0)).highWatermark).toBe(1);
  });

  test("M1: the planted bug acknowledges acks all before the high watermark has passed it", async () => {
    const highWatermarkAtAck = async () => {
      const { client, topicId } = await startWithTopic({ syncMs: 200 });
      await client.produce(topicId, batchOf(["a"]), { acks: -1, timeoutMs: 30_000 });
      return (await client.fetch(topicId, 0)).highWatermark;
    };
    expect(await highWatermarkAtAck()).toBe(1);
    activateMutants(["M1"]);
    expect(await highWatermarkAtAck()).toBe(0);
  });

  test("D-24: a long answer comes in parts of at most 1 MiB, each entry once", async () => {
    const { client } = await startWorld();
    const topicId = await client.createTopic("t", { partitions: 4 });
    for (const partition of [0, 1, 2, 3])
      await client.produce(topicId, batchOf(["a"], { padBytes: 600_000 }), { partition });
    const entries = [0, 1, 2, 3].map((partition) => ({
      topicId,
      partition,
      leaderEpoch: -1,
      offset: 0,
      maxBytes: 2 ** 20,
    }));
    const { parts } = await client.call(API.FETCH, { maxWaitMs: 0, minBytes: 1, maxBytes: 2 ** 24, entries });
    expect(parts.map(({ header }) => header.more)).toEqual([true, true, true, false]);
    for (const { bodies } of parts)
      expect(bodies.reduce((sum, body) => sum + body.length, 0)).toBeLessThanOrEqual(2 ** 20);
    const indexes = parts.flatMap(({ response }) =>
      (response as { entries: { index: number }[] }).entries.map(({ index }) => index),
    );
    expect(indexes).toEqual([0, 1, 2, 3]);
  });

  test("one partition gives at most 1 MiB an answer, in whole batches", async () => {
    const { client, topicId } = await startWithTopic();
    for (let index = 0; index < 4; index++) await client.produce(topicId, batchOf(["a"], { padBytes: 400_000 }));
    const fetched = await client.fetch(topicId, 0, { maxBytes: 2 ** 24, partitionMaxBytes: 2 ** 24 });
    expect(fetched.bytes.length).toBeGreaterThan(800_000);
    expect(fetched.bytes.length).toBeLessThanOrEqual(2 ** 20);
    expect(batchSizeAt(fetched.bytes, 0) * 2).toBe(fetched.bytes.length);
  });
});

describe("waiting", () => {
  test("a fetch at the end waits, and wakes when the high watermark moves", async () => {
    const { broker, client, topicId } = await startWithTopic();
    const startMs = broker.world.nowMs;
    const waiting = client.sendFetch(topicId, 0, { maxWaitMs: 10_000 });
    await broker.world.runFor(500);
    const producing = client.sendProduce(topicId, batchOf(["a"]));
    const { response } = await broker.world.settle(waiting);
    expect(response.entries[0]).toMatchObject({ highWatermark: 1, body: 0 });
    expect(broker.world.nowMs - startMs).toBeLessThan(1_000);
    await broker.world.settle(producing);
  });

  test("max wait: nothing came, the answer is empty and on time", async () => {
    const { broker, client, topicId } = await startWithTopic();
    const startMs = broker.world.nowMs;
    const fetched = await client.fetch(topicId, 0, { maxWaitMs: 300 });
    expect([fetched.error, fetched.bytes.length]).toEqual(["NONE", 0]);
    expect(broker.world.nowMs - startMs).toBeGreaterThanOrEqual(300);
    expect(broker.world.nowMs - startMs).toBeLessThan(400);
  });

  test("min bytes: a fetch waits until enough is below the high watermark, over all its partitions", async () => {
    const { broker, client } = await startWorld();
    const topicId = await client.createTopic("t", { partitions: 2 });
    const entries = [0, 1].map((partition) => ({ topicId, partition, leaderEpoch: -1, offset: 0, maxBytes: 2 ** 20 }));
    let isAnswered = false;
    const waiting = client.send(API.FETCH, { maxWaitMs: 20_000, minBytes: 2_500, maxBytes: 2 ** 20, entries });
    void waiting.then(() => {
      isAnswered = true;
    });
    await client.produce(topicId, batchOf(["a"], { padBytes: 1_000 }), { partition: 0 });
    await client.produce(topicId, batchOf(["a"], { padBytes: 1_000 }), { partition: 1 });
    await broker.world.runFor(1_000);
    expect(isAnswered).toBe(false);
    await client.produce(topicId, batchOf(["a"], { padBytes: 1_000 }), { partition: 1 });
    const { bodies } = await broker.world.settle(waiting);
    expect(bodies.reduce((sum, body) => sum + body.length, 0)).toBeGreaterThan(3_000);
  });

  test("a long poll does not hold up other requests of its connection", async () => {
    const { broker, client, topicId } = await startWithTopic();
    void client.sendFetch(topicId, 0, { maxWaitMs: 10_000 });
    const startMs = broker.world.nowMs;
    await client.metadata();
    expect(broker.world.nowMs - startMs).toBeLessThan(100);
  });

  test("produce requests of one connection keep their order", async () => {
    const { broker, client, topicId } = await startWithTopic();
    const answers = Array.from({ length: 50 }, (_, index) => client.sendProduce(topicId, batchOf([`${index}`])));
    const offsets = (await broker.world.settle(Promise.all(answers))).map(
      ({ response }) => response.entries[0]?.baseOffset,
    );
    expect(offsets).toEqual(Array.from({ length: 50 }, (_, index) => index));
  });

  test("a produce that is not durable by its deadline is answered REQUEST_TIMED_OUT, outcome unknown", async () => {
    const { broker, client, topicId } = await startWithTopic();
    broker.latencies.syncMs = 2_000;
    const entry = await client.produce(topicId, batchOf(["a"]), { timeoutMs: 20 });
    expect(entry).toMatchObject({ error: "REQUEST_TIMED_OUT", outcome: "unknown", baseOffset: -1 });
    expect(entry.message).toBe("it waited for the replicas in sync: the disk of node 1, which leads, is behind");
  });

  test("fetches beyond delayed.requests.max are told BUSY", async () => {
    const { broker, client, topicId } = await startWithTopic({ config: { "delayed.requests.max": 2 } });
    const [, , third] = [1, 2, 3].map(() => client.sendFetch(topicId, 0, { maxWaitMs: 5_000 }));
    expect(await broker.world.settle(third ?? Promise.reject(new Error("no third")))).toMatchObject({ error: "BUSY" });
  });
});

describe("errors", () => {
  const NOBODY = "AAAAAAAAAAAAAAAAAAAAAQ" as TopicId;

  test("unknown topic and partition, for produce, fetch and offsets", async () => {
    const { client, topicId } = await startWithTopic();
    const batch = batchOf(["a"]);
    expect(await client.produce(NOBODY, batch)).toMatchObject({ error: "UNKNOWN_TOPIC_ID", outcome: "not appended" });
    expect(await client.produce(topicId, batch, { partition: 1 })).toMatchObject({
      error: "UNKNOWN_TOPIC_OR_PARTITION",
    });
    expect(await client.fetch(NOBODY, 0, { maxWaitMs: 5_000 })).toMatchObject({ error: "UNKNOWN_TOPIC_ID" });
    expect(await client.fetch(topicId, 0, { partition: -1, maxWaitMs: 5_000 })).toMatchObject({
      error: "UNKNOWN_TOPIC_OR_PARTITION",
    });
    const entries = [{ topicId: NOBODY, partition: 0, timestamp: LATEST_TIMESTAMP }];
    expect((await client.call(API.LIST_OFFSETS, { entries })).response.entries).toMatchObject([
      { error: "UNKNOWN_TOPIC_ID" },
    ]);
  });

  test("B-17 row 1: a wrong acks fails the whole request", async () => {
    const { broker, client, topicId } = await startWithTopic();
    const answer = await broker.world.settle(client.sendProduce(topicId, batchOf(["a"]), { acks: 2 }));
    expect([answer.error, answer.response]).toEqual(["INVALID_REQUIRED_ACKS", null]);
    expect((await client.fetch(topicId, 0)).highWatermark).toBe(0);
  });

  test("stale and future leader epochs", async () => {
    const { broker, client, topicId } = await startWithTopic();
    broker.crash("process death");
    await broker.start();
    const again = await broker.connect();
    const { leaderEpoch } = await again.fetch(topicId, 0);
    const batch = () => batchOf(["a"]);
    expect(await again.produce(topicId, batch(), { leaderEpoch: leaderEpoch - 1 })).toMatchObject({
      error: "FENCED_LEADER_EPOCH",
      outcome: "not appended",
    });
    expect(await again.produce(topicId, batch(), { leaderEpoch: leaderEpoch + 1 })).toMatchObject({
      error: "UNKNOWN_LEADER_EPOCH",
    });
    expect(await again.fetch(topicId, 0, { leaderEpoch: leaderEpoch - 1, maxWaitMs: 5_000 })).toMatchObject({
      error: "FENCED_LEADER_EPOCH",
    });
    expect(await again.produce(topicId, batch(), { leaderEpoch })).toMatchObject({ error: "NONE" });
    expect(client.closedWith ?? "silent").toBeDefined();
  });

  test("S-17: outside the log is OFFSET_OUT_OF_RANGE, at the end is empty", async () => {
    const { client, topicId } = await startWithTopic();
    await client.produce(topicId, batchOf(["a"]));
    expect(await client.fetch(topicId, 1)).toMatchObject({ error: "NONE", body: -1 });
    expect(await client.fetch(topicId, 2)).toMatchObject({ error: "OFFSET_OUT_OF_RANGE" });
    expect(await client.fetch(topicId, -1)).toMatchObject({ error: "OFFSET_OUT_OF_RANGE" });
  });

  test("B-20: wrong CRC, wrong count and too large are told entry by entry, and the good ones are appended", async () => {
    const { client } = await startWorld();
    const topicId = await client.createTopic("t", { partitions: 4, configs: { "max.message.bytes": "1000" } });
    const wrongCrc = batchOf(["a"]);
    wrongCrc[wrongCrc.length - 1] = (wrongCrc[wrongCrc.length - 1] ?? 0) ^ 1;
    const bodies = [batchOf(["good"]), wrongCrc, batchOf(["a"], { padBytes: 2_000 }), new Uint8Array(3)];
    const entries = bodies.map((_, partition) => ({ topicId, partition, leaderEpoch: -1, isResent: false }));
    const { response } = await client.call(API.PRODUCE, { acks: -1, timeoutMs: 1_000, entries }, { bodies });
    expect(response.entries.map(({ error, outcome }) => [error, outcome])).toEqual([
      ["NONE", "appended"],
      ["CORRUPT_MESSAGE", "not appended"],
      ["MESSAGE_TOO_LARGE", "not appended"],
      ["CORRUPT_MESSAGE", "not appended"],
    ]);
    expect((await client.fetch(topicId, 0, { partition: 1 })).highWatermark).toBe(0);
  });
});

describe("list offsets", () => {
  test("S-23: earliest, latest, by time, and none that late", async () => {
    const { client, topicId } = await startWithTopic();
    await client.produce(topicId, batchOf(["a", "b"], { timestamp: 1_000 }));
    await client.produce(topicId, batchOf(["c"], { timestamp: 5_000 }));
    const at = async (timestamp: number) => {
      const { response } = await client.call(API.LIST_OFFSETS, { entries: [{ topicId, partition: 0, timestamp }] });
      const entry = response.entries[0];
      return [entry?.error, entry?.offset, entry?.timestamp];
    };
    expect(await at(EARLIEST_TIMESTAMP)).toEqual(["NONE", 0, -1]);
    expect(await at(LATEST_TIMESTAMP)).toEqual(["NONE", 3, -1]);
    expect(await at(0)).toEqual(["NONE", 0, 1_000]);
    expect(await at(1_001)).toEqual(["NONE", 1, 1_001]);
    expect(await at(1_002)).toEqual(["NONE", 2, 5_000]);
    expect(await at(5_001)).toEqual(["NONE", -1, -1]);
    expect(await at(-7)).toEqual(["INVALID_REQUEST", -1, -1]);
  });

  test("D-36: latest counts what acks 1 acknowledged before, once it is durable, and waits no longer than half a second", async () => {
    for (const [syncMs, isInTime] of [
      [20, true],
      [20_000, false],
    ] as const) {
      const { broker, client, topicId } = await startWithTopic();
      broker.latencies.syncMs = syncMs;
      await client.produce(topicId, batchOf(["a"]), { acks: 1 });
      const startMs = broker.world.nowMs;
      const { response } = await client.call(API.LIST_OFFSETS, {
        entries: [{ topicId, partition: 0, timestamp: LATEST_TIMESTAMP }],
      });
      expect(response.entries[0]?.offset).toBe(isInTime ? 1 : 0);
      expect(broker.world.nowMs - startMs).toBeLessThan(600);
    }
  });
});
