// Full disks, slow readers, floods, failures and stops.
import { describe, expect, test } from "vitest";
import { utf8Decode } from "../../src/base/bytes.ts";
import { baseOffsetAt } from "../../src/model/record-batch.ts";
import { API } from "../../src/wire/native/apis.ts";
import { encodeRequest } from "../../src/wire/native/codec.ts";
import { batchOf, BrokerWorld, startWorld } from "./support.ts";

const PRODUCE_HEADER = { api: API.PRODUCE, version: 0, correlationId: 77, deadlineMs: 0 };

describe("a full disk", () => {
  test("below the low-space mark produce is refused, not appended, reads go on; it heals when space returns", async () => {
    const { broker, client } = await startWorld({ capacityBytes: 2 ** 26 });
    const topicId = await client.createTopic("t");
    await client.produce(topicId, batchOf(["a"]));
    broker.disk.faults.foreignBytes = 2 ** 26;
    await broker.world.runFor(5_000);
    expect(await client.produce(topicId, batchOf(["b"]))).toMatchObject({
      error: "STORAGE_FULL",
      outcome: "not appended",
    });
    expect((await client.fetch(topicId, 0)).bytes.length).toBeGreaterThan(0);
    const topics = [{ name: "u", partitions: 1, replicationFactor: -1, configs: [] }];
    expect(
      (await client.call(API.CREATE_TOPICS, { validateOnly: false, topics, requestId: null })).response.topics[0]
        ?.error,
    ).toBe("STORAGE_FULL");
    broker.disk.faults.foreignBytes = 0;
    await broker.world.runFor(5_000);
    expect(await client.produce(topicId, batchOf(["c"]))).toMatchObject({ error: "NONE", baseOffset: 1 });
    expect(broker.fatal).toEqual([]);
  });

  test("a write that meets a full disk is not appended, the offsets go on where they stopped, and every answer is true", async () => {
    const config = { "disk.low.space.bytes": 0, "journal.bytes": "64KiB" };
    const { broker, client } = await startWorld({ config, capacityBytes: 2 ** 24 });
    const topicId = await client.createTopic("t", { partitions: 2 });
    const appended: string[][] = [[], []];
    const outcomes = new Set<string>();
    const sendOne = async (value: string, partition: number) => {
      const answer = await client.sendProduce(topicId, batchOf([value], { padBytes: 30_000 }), {
        acks: partition === 0 ? -1 : 1,
        partition,
      });
      const entry = answer.response?.entries[0];
      outcomes.add(`${entry?.error} ${entry?.outcome}`);
      const offsets = appended[partition] ?? [];
      if (entry?.error === "NONE") offsets[entry.baseOffset] = value;
    };
    for (const foreignBytes of [0, 2 ** 24, 0]) {
      broker.disk.faults.foreignBytes = foreignBytes;
      const sends = Array.from({ length: 20 }, (_, index) => sendOne(`${foreignBytes}-${index};`, index % 2));
      await broker.world.settle(Promise.all(sends));
      await broker.world.runFor(5_000);
    }
    expect(outcomes).toEqual(new Set(["NONE appended", "STORAGE_FULL not appended"]));
    for (const partition of [0, 1]) {
      const values = appended[partition] ?? [];
      expect((await client.fetch(topicId, 0, { partition })).highWatermark).toBe(values.length);
      for (const [offset, value] of values.entries()) {
        const { bytes } = await client.fetch(topicId, offset, { partition, partitionMaxBytes: 1 });
        expect([offset, baseOffsetAt(bytes, 0), utf8Decode(bytes).includes(value)]).toEqual([offset, offset, true]);
      }
    }
    expect(broker.fatal).toEqual([]);
  });

  test("a topic whose logs a full disk keeps from being created exists, says why, and is served when there is room", async () => {
    const config = { "disk.low.space.bytes": 0 };
    const { broker, client } = await startWorld({ capacityBytes: 2 ** 24, config });
    await broker.world.runFor(1_000);
    // Room for a metadata record, not for a file.
    broker.disk.faults.foreignBytes = broker.disk.freeBytes - 3_000;
    const topics = [{ name: "t", partitions: 20, replicationFactor: -1, configs: [] }];
    const { response } = await client.call(API.CREATE_TOPICS, { validateOnly: false, topics, requestId: null });
    expect(response.topics[0], "created it is, whatever its logs do").toMatchObject({ error: "NONE" });
    const [listed] = (await client.metadata()).topics;
    if (listed === undefined) throw new Error("the topic is not in the metadata");
    expect(await client.produce(listed.topicId, batchOf(["x"]), { partition: 19 })).toMatchObject({
      error: "STORAGE_FULL",
      outcome: "not appended",
    });
    broker.disk.faults.foreignBytes = 0;
    await broker.world.runFor(5_000);
    for (let partition = 0; partition < 20; partition++) {
      expect(await client.produce(listed.topicId, batchOf(["x"]), { partition })).toMatchObject({ error: "NONE" });
    }
  });

  test("without pinned room produce waits in order, and a deadline that passes meanwhile says not appended", async () => {
    const config = { "journal.pinned.bytes": "64KiB" };
    const { broker, client } = await startWorld({ config, syncMs: 100 });
    const topicId = await client.createTopic("t");
    const sends = Array.from({ length: 40 }, (_, index) =>
      client.sendProduce(topicId, batchOf([`${index}`], { padBytes: 20_000 }), { timeoutMs: 30_000 }),
    );
    const hasty = client.sendProduce(topicId, batchOf(["hasty"]), { timeoutMs: 1 });
    expect((await broker.world.settle(hasty)).response.entries[0]).toMatchObject({
      error: "REQUEST_TIMED_OUT",
      outcome: "not appended",
    });
    const offsets = (await broker.world.settle(Promise.all(sends))).map(
      ({ response }) => response.entries[0]?.baseOffset,
    );
    expect(offsets).toEqual(Array.from({ length: 40 }, (_, index) => index));
    expect((await client.fetch(topicId, 40)).highWatermark).toBe(40);
  });
});

describe("budgets", () => {
  test("D-26: a flood of one connection pauses its reading, and every request is still answered", async () => {
    const config = { "connection.inflight.bytes": "1MiB", "connection.unsent.bytes": "64KiB" };
    const { broker, client } = await startWorld({ config, syncMs: 20 });
    const topicId = await client.createTopic("t");
    const sends = Array.from({ length: 60 }, () =>
      client.sendProduce(topicId, batchOf(["x"], { padBytes: 100_000 }), { timeoutMs: 100_000 }),
    );
    let peakUnsent = 0;
    await broker.world.runUntil(() => {
      peakUnsent = Math.max(peakUnsent, client.connection.unsentBytes);
      return client.answered.length > 30;
    }, broker.world.nowMs + 60_000);
    // Six megabytes were sent: what the broker did not read stays with the sender.
    expect(peakUnsent).toBeGreaterThan(1_000_000);
    const answers = await broker.world.settle(Promise.all(sends));
    expect(answers.every(({ response }) => response.entries[0]?.error === "NONE")).toBe(true);
  });

  test("D-26: a reader that takes no answers gets no more work done, and others are served", async () => {
    const config = { "connection.unsent.bytes": "1MiB" };
    const { broker, client } = await startWorld({ config });
    const topicId = await client.createTopic("t");
    for (let index = 0; index < 4; index++) await client.produce(topicId, batchOf(["x"], { padBytes: 500_000 }));
    const slow = await broker.connect();
    slow.connection.pause();
    const fetches = Array.from({ length: 50 }, () => slow.sendFetch(topicId, 0, { maxBytes: 2 ** 20 }));
    await broker.world.runFor(5_000);
    expect(broker.metrics.values.get("topic_bytes_out_total")).toBeLessThan(4_000_000);
    expect((await client.fetch(topicId, 0)).error).toBe("NONE");
    slow.connection.resume();
    const answers = await broker.world.settle(Promise.all(fetches));
    expect(answers.every(({ error, response }) => error === "NONE" && response.entries[0]?.error === "NONE")).toBe(
      true,
    );
  });

  test("when few places are left, who holds one without a Hello loses it after two seconds, not ten", async () => {
    const { broker, client } = await startWorld({ config: { "connections.max": 12 } });
    for (let peer = 0; peer < 8; peer++) await broker.dial();
    await broker.world.runFor(4_000);
    for (let peer = 0; peer < 8; peer++) await broker.connect();
    expect((await client.metadata()).topics).toEqual([]);
  });

  test("D-24: half a logical message and 10 s of silence close the connection and change nothing", async () => {
    const { broker, client } = await startWorld();
    const topicId = await client.createTopic("t");
    const batch = batchOf(["x"], { padBytes: 20_000 });
    const request = {
      acks: -1,
      timeoutMs: 1_000,
      entries: [{ topicId, partition: 0, leaderEpoch: -1, isResent: false }],
    };
    const [envelope] = encodeRequest(PRODUCE_HEADER, request, [batch]);
    const half = await broker.connect();
    half.connection.send(envelope === undefined ? [] : [envelope]);
    await broker.world.runFor(9_000);
    expect(half.closedWith).toBeUndefined();
    await broker.world.runFor(4_000);
    expect(half.closedWith).toBeDefined();
    expect((await client.fetch(topicId, 0)).highWatermark).toBe(0);
  });

  test("a connection that never says Hello is closed, one that did may be idle", async () => {
    const { broker, client } = await startWorld();
    const mute = await broker.dial();
    await broker.world.runFor(15_000);
    expect(mute.closedWith).toBeDefined();
    expect(client.closedWith).toBeUndefined();
  });

  test("D-38: connections beyond connections.max are closed", async () => {
    const { broker, client } = await startWorld({ config: { "connections.max": 2 } });
    await broker.dial();
    const third = await broker.dial();
    await broker.world.runFor(2_000);
    expect(third.closedWith).toBeDefined();
    expect(client.closedWith).toBeUndefined();
  });

  test("a quarter of the places is kept for other nodes: clients are told BUSY, a node still comes in", async () => {
    const { broker, client } = await startWorld({ config: { "connections.max": 8 } });
    for (let peer = 0; peer < 5; peer++) await broker.connect();
    const seventh = await broker.dial();
    const refused = await seventh.call(API.HELLO, { clientId: "test", software: "test/1" });
    expect([refused.error, refused.message]).toEqual([
      "BUSY",
      "connections.max is reached; the places left are for other nodes",
    ]);
    await broker.world.runFor(10);
    expect(seventh.closedWith).toBeDefined();
    const stranger = await broker.dial();
    expect((await stranger.call(API.HELLO, { clientId: "node 9", software: "test/1" })).error).toBe("BUSY");
    const node = await broker.dial();
    expect((await node.call(API.HELLO, { clientId: "node 1", software: "test/1" })).error).toBe("NONE");
    expect(client.closedWith).toBeUndefined();
  });

  test("a closed connection gives back what it held", async () => {
    const { broker, client } = await startWorld({ config: { "connection.unsent.bytes": "1MiB" } });
    const topicId = await client.createTopic("t");
    const batch = batchOf(["x"], { padBytes: 500_000 });
    await client.produce(topicId, batch.slice());
    for (let round = 0; round < 3; round++) {
      const other = await broker.connect();
      for (let index = 0; index < 10; index++) void other.sendFetch(topicId, 1, { maxWaitMs: 20_000 });
      // Some of them long answers that nobody takes, and half a request.
      other.connection.pause();
      for (let index = 0; index < 10; index++) void other.sendFetch(topicId, 0, { maxWaitMs: 20_000 });
      other.connection.send(
        encodeRequest(
          PRODUCE_HEADER,
          { acks: 1, timeoutMs: 1, entries: [{ topicId, partition: 0, leaderEpoch: -1, isResent: false }] },
          [batch],
        ).slice(0, 1),
      );
      await broker.world.runFor(100);
      other.connection.destroy();
      await broker.world.runFor(2_000);
    }
    for (const gauge of ["delayed_operations", "requests_inflight", "request_inflight_bytes", "unsent_bytes"]) {
      expect([gauge, broker.metrics.values.get(gauge)]).toEqual([gauge, 0]);
    }
    expect(broker.metrics.values.get("connections")).toBe(1);
  });
});

describe("ends", () => {
  test("D-13: a failed sync stops the broker at once: connections cut, nothing acknowledged, told once", async () => {
    const { broker, client } = await startWorld();
    const topicId = await client.createTopic("t");
    broker.disk.faults.failingSyncs = 100;
    let isAnswered = false;
    void client.sendProduce(topicId, batchOf(["a"])).then(() => {
      isAnswered = true;
    });
    await broker.world.runFor(5_000);
    expect(broker.fatal.map(({ code }) => code)).toEqual(["DISK_FAILED"]);
    expect(broker.broker.state).toBe("failed");
    expect(broker.broker.health()).toMatchObject({ live: false, ready: false });
    expect(isAnswered).toBe(false);
    expect(client.closedWith).toBeDefined();
    await broker.stop();
  });

  test("an ordered stop answers what waits, closes, and leaves a clean directory", async () => {
    const { broker, client } = await startWorld();
    const topicId = await client.createTopic("t");
    const waiting = client.sendFetch(await client.createTopic("quiet"), 0, { maxWaitMs: 20_000 });
    const producing = client.sendProduce(topicId, batchOf(["a"]));
    await broker.world.runFor(0.5);
    const startMs = broker.world.nowMs;
    await broker.stop();
    expect(broker.world.nowMs - startMs).toBeLessThan(3_000);
    expect((await broker.world.settle(producing)).response.entries[0]).toMatchObject({ error: "NONE" });
    const fetched = await broker.world.settle(waiting);
    expect([fetched.error, fetched.response?.entries[0]?.error]).toEqual(["BROKER_NOT_AVAILABLE", undefined]);
    expect(client.closedWith).toBeDefined();
    expect(broker.broker.state).toBe("stopped");
    await broker.start();
    expect((await (await broker.connect()).fetch(topicId, 0)).highWatermark).toBe(1);
  });

  test("D-13: a sync that fails while starting refuses the start, gives the lock and the port back, and the next start is served", async () => {
    const { broker, client } = await startWorld();
    await client.createTopic("t");
    broker.crash("process death");
    broker.disk.faults.failingSyncs = 1;
    await expect(broker.start()).rejects.toMatchObject({ code: "DISK_FAILED" });
    expect(broker.fatal).toEqual([]);
    expect(broker.broker.state).not.toBe("running");
    await broker.start();
    expect((await (await broker.connect()).metadata()).topics.map(({ name }) => name)).toEqual(["t"]);
  });

  test("a stop during the start ends both", async () => {
    const broker = new BrokerWorld();
    const starting = broker.begin();
    await broker.world.settle(Promise.allSettled([broker.broker.stop(), starting]));
    expect(broker.broker.state).toBe("stopped");
    await broker.start();
    expect(broker.broker.state).toBe("running");
  });

  test("a taken port refuses the start before the directory is touched", async () => {
    const { broker } = await startWorld();
    const second = new BrokerWorld();
    Object.assign(second, { world: broker.world, network: broker.network });
    await expect(second.start()).rejects.toMatchObject({ code: "PORT_IN_USE" });
    expect(second.disk.image.find("/data")).toBeUndefined();
  });

  test("who connects while the broker starts is served when it runs", async () => {
    const { broker, client } = await startWorld();
    const topicId = await client.createTopic("t");
    await broker.stop();
    const starting = broker.begin();
    await broker.world.runFor(0.2);
    const early = await broker.dial();
    const hello = early.send(API.HELLO, { clientId: "early", software: "x" });
    await broker.world.settle(starting);
    expect((await broker.world.settle(hello)).error).toBe("NONE");
    expect((await early.fetch(topicId, 0)).error).toBe("NONE");
  });
});
