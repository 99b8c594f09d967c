import { describe, expect, it } from "vitest";
import type { OttlaError } from "../../src/model/errors.ts";
import { API } from "../../src/wire/native/apis.ts";
import type { BatchReport } from "../../src/client/types.ts";
import { createAbort } from "./abort.ts";
import { FakeBroker } from "./fake-broker.ts";
import { createWorld } from "./world.ts";

async function setUp(partitionCount = 1, maxMessageBytes?: number) {
  const world = createWorld();
  const broker = await FakeBroker.start(world);
  broker.createTopic("t", partitionCount, maxMessageBytes);
  const client = await world.connect();
  return { world, time: world.time, broker, client };
}

const failure = (promise: Promise<unknown>): Promise<OttlaError> =>
  promise.then(
    () => {
      throw new Error("did not fail");
    },
    (error: OttlaError) => error,
  );

describe("producer: compacted topics", () => {
  it.each(["compact", "compact,delete", "delete,compact"])("%s takes no record without a key", async (policy) => {
    const { time, broker, client } = await setUp();
    const topic = broker.topics.get("t");
    if (topic !== undefined) topic.configs = { "cleanup.policy": policy };
    const producer = client.producer({ lingerMs: 0, compression: "gzip" });
    const refused = { code: "INVALID_RECORD", outcome: "not appended", hint: "give each record a key (CLI: -K :)" };
    // Before the metadata are there, and after.
    expect(await failure(time.until(producer.send("t", { value: "a" })))).toMatchObject(refused);
    expect(await failure(time.until(producer.send("t", { key: null, value: "a" })))).toMatchObject(refused);
    expect(() => producer.enqueue("t", { value: "a" })).toThrow(expect.objectContaining(refused));
    expect(broker.of(API.PRODUCE)).toEqual([]);
    await time.until(producer.send("t", { key: "", value: "an empty key is one" }));
    await time.until(producer.send("t", { key: "k", value: null }));
    await time.until(producer.flush());
    expect(broker.values("t")).toEqual(["an empty key is one", ""]);
  });

  it("what the metadata say later counts from then on; other policies take any record", async () => {
    const { time, broker, client } = await setUp();
    const topic = broker.topics.get("t");
    if (topic === undefined) throw new Error("no topic");
    topic.configs = { "cleanup.policy": "delete" };
    const producer = client.producer({ lingerMs: 0 });
    await time.until(producer.send("t", { value: "a" }));
    topic.configs = { "cleanup.policy": "compact" };
    await time.until(client.admin().describeTopic("t"));
    expect(await failure(time.until(producer.send("t", { value: "b" })))).toMatchObject({ code: "INVALID_RECORD" });
    expect(broker.values("t")).toEqual(["a"]);
  });
});

describe("producer: batching", () => {
  it("tells each send the offset of its record", async () => {
    const { time, broker, client } = await setUp();
    const producer = client.producer({ lingerMs: 0 });
    const results = await time.until(Promise.all(["a", "b", "c"].map((value) => producer.send("t", { value }))));
    expect(results.map((result) => result.offset)).toEqual([0, 1, 2]);
    expect(broker.values("t")).toEqual(["a", "b", "c"]);
  });

  it("lets a batch linger for more records, and no longer", async () => {
    const { time, broker, client } = await setUp();
    const producer = client.producer({ lingerMs: 20 });
    await time.until(producer.prepare("t"));
    const sends = [producer.send("t", { value: "a" })];
    await time.pass(15);
    expect(broker.of(API.PRODUCE)).toHaveLength(0);
    sends.push(producer.send("t", { value: "b" }));
    await time.pass(6);
    expect(broker.of(API.PRODUCE)).toHaveLength(1);
    await time.until(Promise.all(sends));
    expect(broker.partition("t").batches).toHaveLength(1);
  });

  it("sends a full batch without lingering, and never one above batchBytes", async () => {
    const { time, broker, client } = await setUp();
    const producer = client.producer({ lingerMs: 10_000, batchBytes: 1_000 });
    await time.until(producer.prepare("t"));
    const value = "x".repeat(300);
    const sends = Array.from({ length: 7 }, () => producer.send("t", { value }));
    await time.pass(1);
    expect(broker.partition("t").batches).toHaveLength(3 - 1);
    for (const batch of broker.partition("t").batches) expect(batch.length).toBeLessThanOrEqual(1_000);
    await time.until(Promise.all([producer.flush(), ...sends]));
    expect(broker.values("t")).toHaveLength(7);
  });

  it("takes a record larger than batchBytes up to the topic's max.message.bytes, and refuses a larger one", async () => {
    const { time, broker, client } = await setUp(1, 5_000);
    const producer = client.producer({ batchBytes: 1_000 });
    await time.until(producer.send("t", { value: "x".repeat(4_000) }));
    expect(broker.values("t")).toHaveLength(1);
    const error = await failure(time.until(producer.send("t", { value: "x".repeat(5_000) })));
    expect(error).toMatchObject({ code: "MESSAGE_TOO_LARGE", retriable: false, outcome: "not appended" });
    expect(() => producer.enqueue("t", { value: "x".repeat(5_000) })).toThrow(/max.message.bytes/);
    await time.until(producer.send("t", { value: "still works" }));
  });

  it("keeps batches within max.message.bytes of a topic of small batches", async () => {
    const { time, broker, client } = await setUp(1, 500);
    const producer = client.producer();
    await time.until(Promise.all(Array.from({ length: 20 }, () => producer.send("t", { value: "x".repeat(100) }))));
    for (const batch of broker.partition("t").batches) expect(batch.length).toBeLessThanOrEqual(500);
    expect(broker.values("t")).toHaveLength(20);
  });

  it("puts keys where Kafka puts them, and lets null keys stick to one partition per batch", async () => {
    const { time, broker, client } = await setUp(6);
    const producer = client.producer({ lingerMs: 1 });
    const keyed = await time.until(producer.send("t", { key: "foobar", value: "v" }));
    expect(keyed.partition).toBe((-790332482 & 0x7fffffff) % 6);
    const together = await time.until(
      Promise.all(Array.from({ length: 10 }, (_, index) => producer.send("t", { value: String(index) }))),
    );
    expect(new Set(together.map((result) => result.partition)).size).toBe(1);
    const apart = new Set<number>();
    for (let count = 0; count < 30; count++)
      apart.add((await time.until(producer.send("t", { value: "v" }))).partition);
    expect(apart.size).toBeGreaterThan(3);
    expect(broker.of(API.PRODUCE).length).toBeGreaterThan(30);
  });

  it("puts batches of several partitions into one request, one batch of each, of one kind of acks", async () => {
    const { time, broker, client } = await setUp(4);
    const producer = client.producer({ lingerMs: 5 });
    await time.until(producer.prepare("t"));
    const sends = [0, 1, 2, 3].flatMap((partition) => [
      producer.send("t", { value: "all", partition }),
      producer.send("t", { value: "one", partition }, { acks: 1 }),
    ]);
    await time.until(Promise.all(sends));
    const requests = broker.of(API.PRODUCE);
    expect(new Set(requests.map((request) => request.request.acks))).toEqual(new Set([-1, 1]));
    expect(requests).toHaveLength(2);
    for (const { request } of requests) expect(new Set(request.entries.map((entry) => entry.partition)).size).toBe(4);
  });

  it("keeps the bodies of one request to 1 MiB (D-24)", async () => {
    const { time, broker, client } = await setUp(6);
    const producer = client.producer({ batchBytes: 400_000, lingerMs: 5 });
    await time.until(producer.prepare("t"));
    const value = "x".repeat(390_000);
    await time.until(Promise.all([0, 1, 2, 3, 4, 5].map((partition) => producer.send("t", { value, partition }))));
    expect(broker.of(API.PRODUCE).length).toBe(3);
  });

  it("compresses batches", async () => {
    const { time, broker, client } = await setUp();
    const producer = client.producer({ compression: "gzip" });
    await time.until(producer.send("t", { value: "squeezed", headers: { h: "1" } }));
    expect(broker.values("t")).toEqual(["squeezed"]);
  });

  it("answers acks 0 when handed over, without an offset", async () => {
    const { time, broker, client } = await setUp();
    const producer = client.producer({ acks: 0 });
    expect(await time.until(producer.send("t", { value: "v" }))).toEqual({
      topic: "t",
      partition: 0,
      offset: undefined,
    });
    await time.pass(10);
    expect(broker.values("t")).toEqual(["v"]);
  });
});

describe("producer: refusals and unknown outcomes", () => {
  it("without numbers, never sends again what may have been appended: a lost connection", async () => {
    const { time, broker, client } = await setUp();
    broker.onProduce = ({ requestIndex }) => (requestIndex === 0 ? "cut" : undefined);
    const producer = client.producer({ idempotent: false });
    const error = await failure(time.until(producer.send("t", { value: "once" })));
    expect(error).toMatchObject({ code: "CONNECTION_LOST", outcome: "unknown" });
    expect(error.hint).not.toBe("");
    await time.until(producer.send("t", { value: "next" }));
    expect(broker.values("t")).toEqual(["once", "next"]);
  });

  it("without numbers, never sends again what may have been appended: no answer in time", async () => {
    const { time, broker, client } = await setUp();
    broker.onProduce = ({ requestIndex }) => (requestIndex === 0 ? "swallow" : undefined);
    const producer = client.producer({ requestTimeoutMs: 1_000, idempotent: false });
    const error = await failure(time.until(producer.send("t", { value: "once" })));
    expect(error).toMatchObject({ code: "REQUEST_TIMED_OUT", outcome: "unknown" });
    await time.pass(10_000);
    expect(broker.values("t")).toEqual(["once"]);
  });

  it("without numbers, never sends again what the broker itself calls unknown", async () => {
    const { time, broker, client } = await setUp();
    broker.onProduce = () => ({ error: "REQUEST_TIMED_OUT", outcome: "unknown" });
    const producer = client.producer({ idempotent: false });
    const error = await failure(time.until(producer.send("t", { value: "v" })));
    expect(error).toMatchObject({ code: "REQUEST_TIMED_OUT", outcome: "unknown", retriable: true });
    expect(broker.of(API.PRODUCE)).toHaveLength(1);
  });

  it("sends again what was not appended, later batches of the partition behind it", async () => {
    const { time, broker, client } = await setUp();
    let refusals = 3;
    broker.onProduce = () => (refusals-- > 0 ? { error: "BUSY", outcome: "not appended" } : undefined);
    const producer = client.producer({ lingerMs: 0, maxInFlight: 1 });
    const sends: Promise<unknown>[] = [];
    for (let index = 0; index < 10; index++) {
      sends.push(producer.send("t", { value: String(index) }));
      await time.pass(1);
    }
    await time.until(Promise.all(sends));
    expect(broker.values("t")).toEqual(["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
  });

  it("keeps the order of refused batches that were in flight together", async () => {
    const { time, broker, client } = await setUp();
    broker.onProduce = ({ requestIndex }) =>
      requestIndex < 8 ? { error: "NOT_LEADER_OR_FOLLOWER", outcome: "not appended" } : undefined;
    const producer = client.producer({ lingerMs: 10_000, batchBytes: 200 });
    await time.until(producer.prepare("t"));
    const values = Array.from({ length: 8 }, (_, index) => `${index}${"x".repeat(80)}`);
    const sends = values.map((value) => producer.send("t", { value }));
    await time.until(Promise.all([producer.flush(), ...sends]));
    expect(broker.values("t")).toEqual(values);
  });

  it("without numbers, sends nothing past a batch that waits to be sent again, and nothing beside it until it is through", async () => {
    const { time, broker, client } = await setUp();
    broker.onProduce = ({ requestIndex }) =>
      requestIndex === 0 || requestIndex === 3 ? { error: "BUSY", outcome: "not appended" } : undefined;
    const producer = client.producer({ lingerMs: 10_000, batchBytes: 200, idempotent: false });
    await time.until(producer.prepare("t"));
    const send = (index: number) => producer.send("t", { value: `${index}${"x".repeat(80)}` });
    const early = [send(0), send(1), send(2)];
    void producer.flush();
    await time.pass(2);
    const late = [send(3), send(4)];
    await time.until(Promise.all([producer.flush(), ...early, ...late]));
    expect(broker.values("t").map((value) => value[0])).toEqual(["1", "2", "0", "3", "4"]);
  });

  it("gives up at the delivery timeout while a request is under way: unknown", async () => {
    const { time, broker, client } = await setUp();
    broker.onProduce = () => "swallow";
    const producer = client.producer({ deliveryTimeoutMs: 5_000, requestTimeoutMs: 30_000 });
    const error = await failure(time.until(producer.send("t", { value: "v" })));
    expect(error).toMatchObject({ code: "DELIVERY_TIMED_OUT", outcome: "unknown" });
  });

  it("gives up at the delivery timeout: not appended, not retriable any more, with the last cause", async () => {
    const { time, broker, client } = await setUp();
    broker.onProduce = () => ({ error: "NOT_ENOUGH_REPLICAS", outcome: "not appended" });
    const producer = client.producer({ deliveryTimeoutMs: 5_000 });
    const startMs = time.nowMs;
    const error = await failure(time.until(producer.send("t", { value: "v" })));
    expect(error).toMatchObject({ code: "DELIVERY_TIMED_OUT", retriable: false, outcome: "not appended" });
    expect(error.cause).toMatchObject({ code: "NOT_ENOUGH_REPLICAS" });
    expect(time.nowMs - startMs).toBeLessThan(5_100);
  });

  it("tells of an error that no retry mends at once", async () => {
    const { time, broker, client } = await setUp();
    broker.onProduce = () => ({ error: "INVALID_RECORD", outcome: "not appended" });
    const producer = client.producer();
    expect(await failure(time.until(producer.send("t", { value: "v" })))).toMatchObject({ code: "INVALID_RECORD" });
    expect(broker.of(API.PRODUCE)).toHaveLength(1);
  });

  it("follows a topic that was deleted and created again", async () => {
    const { time, broker, client } = await setUp();
    const producer = client.producer();
    await time.until(producer.send("t", { value: "old" }));
    broker.createTopic("t");
    await time.until(producer.send("t", { value: "new" }));
    expect(broker.values("t")).toEqual(["new"]);
  });

  it("fails within seconds when the topic is gone for good", async () => {
    const { time, broker, client } = await setUp();
    const producer = client.producer();
    await time.until(producer.send("t", { value: "old" }));
    broker.topics.delete("t");
    const startMs = time.nowMs;
    const error = await failure(time.until(producer.send("t", { value: "late" })));
    expect(error).toMatchObject({ code: "UNKNOWN_TOPIC_OR_PARTITION", outcome: "not appended" });
    expect(time.nowMs - startMs).toBeLessThan(10_000);
  });

  it("refuses an unknown topic, a bad partition and bad acks", async () => {
    const { time, client } = await setUp(2);
    const producer = client.producer();
    const codes = [
      await failure(time.until(producer.send("nowhere", { value: "v" }))),
      await failure(time.until(producer.send("t", { value: "v", partition: 2 }))),
      await failure(time.until(producer.send("t", { value: "v" }, { acks: 2 as never }))),
    ].map((error) => error.code);
    expect(codes).toEqual(["UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_OR_PARTITION", "INVALID_REQUEST"]);
  });

  it("waits for a broker that comes back", async () => {
    const { time, broker, client } = await setUp();
    const producer = client.producer();
    await time.until(producer.send("t", { value: "before" }));
    await broker.stopListening();
    broker.cutAll();
    await time.pass(1);
    const send = producer.send("t", { value: "after" });
    await time.pass(20_000);
    await broker.listen();
    await time.until(send);
    expect(broker.values("t")).toEqual(["before", "after"]);
  });
});

describe("producer: a topic that vanishes", () => {
  it("enqueue says UNKNOWN_TOPIC_OR_PARTITION, flush tells of all before", async () => {
    const { time, broker, client } = await setUp();
    const reports: BatchReport[] = [];
    const producer = client.producer({ onBatch: (report) => reports.push(report) });
    expect(() => producer.enqueue("t", { value: "too early" })).toThrow(/prepare/);
    await time.until(producer.prepare("t"));
    void producer.enqueue("t", { value: "before" });
    await time.until(producer.flush());
    expect(reports[0]?.topicId).toBe(broker.topics.get("t")?.topicId);
    broker.topics.delete("t");
    for (let count = 0; count < 3; count++) void producer.enqueue("t", { value: "lost" });
    await time.pass(10_000);
    expect(() => producer.enqueue("t", { value: "late" })).toThrow(
      expect.objectContaining({ code: "UNKNOWN_TOPIC_OR_PARTITION", outcome: "not appended" }),
    );
    expect((await failure(time.until(producer.flush()))).message).toContain("3 enqueued records");
    await time.until(producer.close());
    expect(reports.map(({ recordCount, error }) => [recordCount, error?.code])).toEqual([
      [1, undefined],
      [3, "UNKNOWN_TOPIC_OR_PARTITION"],
    ]);
  });
});

describe("producer: bounds", () => {
  it("makes sends wait in order while the buffer is full", async () => {
    const { time, broker, client } = await setUp();
    const producer = client.producer({ bufferBytes: 2_000, batchBytes: 1_000, lingerMs: 0 });
    const values = Array.from({ length: 40 }, (_, index) => `${index}-${"x".repeat(200)}`);
    const results = await time.until(Promise.all(values.map((value) => producer.send("t", { value }))));
    expect(broker.values("t")).toEqual(values);
    expect(results.map((result) => result.offset)).toEqual(values.map((_, index) => index));
  });

  it("makes enqueue return a promise while the buffer is full, and refuses who does not wait", async () => {
    const { time, broker, client } = await setUp();
    const producer = client.producer({ bufferBytes: 1_000, lingerMs: 0 });
    await time.until(producer.prepare("t"));
    broker.isSilent = true;
    const value = "x".repeat(300);
    expect(producer.enqueue("t", { value })).toBeUndefined();
    let full: Promise<void> | undefined;
    for (let count = 0; count < 5 && full === undefined; count++) full = producer.enqueue("t", { value });
    expect(full).toBeInstanceOf(Promise);
    expect(() => {
      for (let count = 0; count < 20; count++) void producer.enqueue("t", { value });
    }).toThrow(/full/);
    const closed = producer.close({ timeoutMs: 100 });
    await time.until(Promise.all([closed, full]));
  });

  it("holds back with `maxInFlight` requests", async () => {
    const { time, broker, client } = await setUp();
    broker.onProduce = () => "swallow";
    const producer = client.producer({ maxInFlight: 3, batchBytes: 200, lingerMs: 0 });
    const sends = Array.from({ length: 20 }, () => failure(producer.send("t", { value: "x".repeat(100) })));
    await time.pass(1_000);
    expect(broker.of(API.PRODUCE)).toHaveLength(3);
    await time.until(Promise.all([producer.close({ timeoutMs: 10 }), ...sends]));
  });

  it("holds back while the connection's unsent bytes are high, and goes on when they fell", async () => {
    const { world, time, broker, client } = await setUp();
    const producer = client.producer({ acks: 0, lingerMs: 0 });
    await time.until(producer.prepare("t"));
    const [pipe] = world.network.pipes;
    if (pipe === undefined) throw new Error("no connection");
    pipe.unsentBytes = 5_000_000;
    const send = producer.send("t", { value: "v" });
    await time.pass(1_000);
    expect(broker.of(API.PRODUCE)).toHaveLength(0);
    pipe.unsentBytes = 0;
    pipe.drain();
    await time.until(send, 1);
    await time.pass(1);
    expect(broker.of(API.PRODUCE)).toHaveLength(1);
  });

  it("rejects a waiting send when its signal fires; what is in a batch stays", async () => {
    const { time, broker, client } = await setUp();
    const producer = client.producer({ bufferBytes: 500, lingerMs: 50 });
    await time.until(producer.prepare("t"));
    const { signal, abort, listeners } = createAbort();
    const batched = producer.send("t", { value: "x".repeat(600) }, { signal });
    const waiting = producer.send("t", { value: "waits" }, { signal });
    abort();
    expect(await failure(time.until(waiting))).toMatchObject({ code: "ABORTED", outcome: "not appended" });
    await time.until(batched);
    expect(await failure(producer.send("t", { value: "late" }, { signal }))).toMatchObject({ code: "ABORTED" });
    expect(broker.values("t")).toHaveLength(1);
    expect(listeners.size).toBe(0);
  });
});

describe("producer: flush and close", () => {
  it("flush sends what lingers, waits for it, and reports errors of enqueued records once", async () => {
    const { time, broker, client } = await setUp();
    const reports: BatchReport[] = [];
    const producer = client.producer({ lingerMs: 60_000, onBatch: (report) => reports.push(report) });
    await time.until(producer.prepare("t"));
    for (let count = 0; count < 5; count++) void producer.enqueue("t", { value: "v" });
    await time.until(producer.flush(), 1_000);
    expect(reports).toMatchObject([{ topic: "t", recordCount: 5, baseOffset: 0, error: undefined }]);
    broker.onProduce = () => ({ error: "INVALID_RECORD", outcome: "not appended" });
    for (let count = 0; count < 3; count++) void producer.enqueue("t", { value: "v" });
    const error = await failure(time.until(producer.flush()));
    expect(error).toBeInstanceOf(AggregateError);
    expect(error.message).toContain("3 enqueued records");
    await time.until(producer.flush());
    expect(reports[1]?.error).toMatchObject({ code: "INVALID_RECORD", outcome: "not appended" });
  });

  it("flush includes sends that wait for room", async () => {
    for (let count = 15; count < 23; count++) {
      const { time, broker, client } = await setUp();
      const producer = client.producer({ bufferBytes: 1_000, batchBytes: 500, lingerMs: 60_000 });
      const sends = Array.from({ length: count }, () => producer.send("t", { value: "x".repeat(200) }));
      await time.until(producer.flush(), 1_000);
      expect(broker.values("t")).toHaveLength(count);
      await Promise.all(sends);
    }
  });

  it("close ends in its time when the broker is silent, and every send is told", async () => {
    const { time, broker, client } = await setUp();
    broker.isSilent = true;
    const producer = client.producer({ lingerMs: 0, maxInFlight: 1, batchBytes: 150 });
    const sent = failure(producer.send("t", { value: "x".repeat(80) }));
    const waiting = failure(producer.send("t", { value: "y".repeat(80) }));
    await time.pass(5);
    const startMs = time.nowMs;
    await time.until(producer.close({ timeoutMs: 300 }));
    expect(time.nowMs - startMs).toBeLessThanOrEqual(304);
    expect(await sent).toMatchObject({ code: "CLOSED", outcome: "unknown" });
    expect(await waiting).toMatchObject({ code: "CLOSED", outcome: "not appended" });
    expect(await failure(producer.send("t", { value: "v" }))).toMatchObject({ code: "CLOSED" });
    expect(() => producer.enqueue("t", { value: "v" })).toThrow(/closed/);
  });

  it("client.close ends everything made from it while no broker can be reached", async () => {
    const { time, broker, client } = await setUp();
    const producer = client.producer();
    await time.until(producer.send("t", { value: "v" }));
    await broker.stopListening();
    broker.cutAll();
    await time.pass(1);
    const send = failure(producer.send("t", { value: "v" }));
    await time.until(client.close({ timeoutMs: 500 }), 600);
    expect(await send).toMatchObject({ code: "CLOSED" });
    expect(() => client.producer()).toThrow(/closed/);
  });

  it("sendBatch gathers what failed", async () => {
    const { time, client } = await setUp(1, 1_000);
    const producer = client.producer();
    const records = [{ value: "a" }, { value: "x".repeat(2_000) }, { value: "b" }];
    const error = (await failure(time.until(producer.sendBatch("t", records)))) as unknown as AggregateError;
    expect(error.errors).toMatchObject([{ code: "MESSAGE_TOO_LARGE" }]);
    expect(await time.until(producer.sendBatch("t", [{ value: "c" }]))).toMatchObject([{ offset: 2 }]);
  });
});
