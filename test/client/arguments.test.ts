// What plain JavaScript passes wrongly is refused at once, by a code, with the field named.
import { describe, expect, it } from "vitest";
import type { OttlaError } from "../../src/model/errors.ts";
import { connect, startNode } from "../../src/index.ts";
import { FakeBroker } from "./fake-broker.ts";
import { createWorld } from "./world.ts";

async function setUp() {
  const world = createWorld();
  const broker = await FakeBroker.start(world);
  broker.createTopic("t");
  const client = await world.connect();
  const producer = client.producer();
  await world.time.until(producer.prepare("t"));
  return { world, time: world.time, broker, client, producer };
}

/** What the call throws or rejects with, without time passing. */
async function refusal(call: () => unknown): Promise<OttlaError> {
  try {
    await call();
  } catch (error) {
    return error as OttlaError;
  }
  throw new Error("was taken");
}

const RECORDS: readonly [what: string, record: unknown, message: RegExp][] = [
  ["a number as value", { value: 5 }, /record\.value takes bytes.* not 5/],
  ["no value", {}, /record\.value .* not undefined/],
  ["an object as value", { value: { a: 1 } }, /record\.value .* not an object/],
  ["a list as value", { value: [1, 2] }, /record\.value .* not a list/],
  ["no record", undefined, /record takes an object/],
  ["null", null, /record takes an object/],
  ["a string as record", "hello", /record takes an object.* not "hello"/],
  ["a number as key", { key: 7, value: "v" }, /record\.key .* not 7/],
  ["NaN as timestamp", { value: "v", timestamp: Number.NaN }, /record\.timestamp .* not NaN/],
  ["a date as timestamp", { value: "v", timestamp: new Date(0) }, /record\.timestamp/],
  ["a timestamp beyond what a record holds", { value: "v", timestamp: 2 ** 52 }, /record\.timestamp/],
  ["partition -1", { value: "v", partition: -1 }, /record\.partition .* not -1/],
  ["partition 1.5", { value: "v", partition: 1.5 }, /record\.partition .* not 1\.5/],
  ["a text partition", { value: "v", partition: "1" }, /record\.partition .* not "1"/],
  ["headers that are a string", { value: "v", headers: "a=b" }, /record\.headers/],
  ["headers that are flat", { value: "v", headers: ["a", "b"] }, /record\.headers takes pairs/],
  ["a header of three", { value: "v", headers: [["a", null, null]] }, /record\.headers takes pairs/],
  ["a header value that is a number", { value: "v", headers: { a: 1 } }, /record\.headers\.a .* not 1/],
  ["a listed header value that is text", { value: "v", headers: [["a", "b"]] }, /record\.headers: a/],
];

describe("records", () => {
  it.each(RECORDS)("refuses %s", async (_, record, message) => {
    const { broker, producer } = await setUp();
    for (const call of [
      () => producer.send("t", record as never),
      () => producer.enqueue("t", record as never),
      () =>
        producer.sendBatch("t", [record as never]).catch((error: AggregateError) => Promise.reject(error.errors[0])),
      () => producer.send("a topic whose metadata is not there", record as never),
    ]) {
      const error = await refusal(call);
      expect(error).toMatchObject({ name: "OttlaError", code: "INVALID_REQUEST" });
      expect(error.message).toMatch(message);
    }
    expect(broker.values("t")).toEqual([]);
  });

  it("takes every shape that the types allow", async () => {
    const { time, broker, producer } = await setUp();
    const bytes = new Uint8Array([65]);
    const headers = [[["a", bytes]], [["b", null]], { c: "text", d: bytes, e: null }, {}, []] as const;
    const sends = headers.map((each) => producer.send("t", { key: "k", value: bytes, headers: each as never }));
    sends.push(producer.send("t", { key: undefined as never, value: null, timestamp: -1, partition: 0 }));
    await time.until(Promise.all(sends));
    expect(broker.values("t")).toEqual(["A", "A", "A", "A", "A", ""]);
  });

  it("refuses a wrong topic, wrong acks and wrong options of one send", async () => {
    const { producer } = await setUp();
    const record = { value: "v" };
    const calls: readonly [() => unknown, RegExp][] = [
      [() => producer.send(undefined as never, record), /topic takes a topic's name, not undefined/],
      [() => producer.send("", record), /topic takes/],
      [() => producer.enqueue(5 as never, record), /topic takes/],
      [() => producer.prepare(null as never), /topic takes/],
      [() => producer.send("t", record, { acks: 2 as never }), /send: acks takes 0 or 1 or "all", not 2/],
      [() => producer.send("t", record, { ack: 1 } as never), /no option "ack": did you mean acks\?/],
      [() => producer.send("t", record, "all" as never), /send takes an object/],
      [() => producer.send("t", record, { signal: {} as never }), /send: signal takes an AbortSignal/],
      [() => producer.sendBatch("t", record as never), /records takes a list/],
      [() => producer.flush({ timeoutMs: 5 } as never), /no option "timeoutMs"/],
    ];
    for (const [call, message] of calls) {
      const error = await refusal(call);
      expect(error).toMatchObject({ code: "INVALID_REQUEST" });
      expect(error.message).toMatch(message);
    }
    expect(await refusal(() => producer.close({ timeoutMs: Number.NaN }))).toMatchObject({ code: "INVALID_REQUEST" });
  });
});

const PRODUCERS: readonly [options: unknown, message: RegExp][] = [
  [null, /producer takes an object/],
  [{ acks: 2 }, /producer: acks takes 0 or 1 or "all", not 2/],
  [{ compression: "br" }, /producer: compression takes .*"zstd", not "br"/],
  [{ lingerMs: -1 }, /producer: lingerMs .* not -1/],
  [{ lingerMs: Number.NaN }, /producer: lingerMs .* not NaN/],
  [{ batchBytes: 0 }, /producer: batchBytes/],
  [{ batchBytes: "64KiB" }, /producer: batchBytes .* not "64KiB"/],
  [{ bufferBytes: Number.NaN }, /producer: bufferBytes/],
  [{ maxInFlight: 1.5 }, /producer: maxInFlight/],
  [{ deliveryTimeoutMs: 0 }, /producer: deliveryTimeoutMs/],
  [{ requestTimeoutMs: -5 }, /producer: requestTimeoutMs/],
  [{ partitioner: "murmur2" }, /producer: partitioner takes a function/],
  [{ linger: 5 }, /no option "linger": did you mean lingerMs\?/],
  [{ toString: 5 }, /no option "toString"/],
  [{ idempotent: true, acks: 1 }, /idempotent: true goes with acks: "all" only/],
  [{ idempotent: true, acks: 0 }, /idempotent: true goes with acks: "all" only/],
  [{ name: "n", acks: 1 }, /name goes with/],
  [{ name: "n", idempotent: false }, /name goes with/],
  [{ name: "" }, /producer: name takes a text/],
  [{ name: 5 }, /producer: name takes a text/],
  [{ name: "n".repeat(250) }, /producer: name takes 1 to 249 characters/],
  [{ name: "a\nb" }, /producer: name takes .* none of them a control character/],
  [{ name: "\uFEFFname" }, /producer: name takes .* the first no byte order mark/],
  [{ name: "half \ud83d" }, /producer: name takes .* none of them a control character/],
];

const CONSUMERS: readonly [options: unknown, message: RegExp][] = [
  [undefined, /consumer takes an object/],
  [{}, /consumer: topics/],
  [{ topics: [] }, /consumer: topics .* not empty/],
  [{ topics: "t" }, /consumer: topics takes a list.* not "t"/],
  [{ topics: [5] }, /consumer: topics/],
  [{ topic: ["t"] }, /no option "topic": did you mean topics\?/],
  [{ topics: ["t"], from: "begin" }, /consumer: from takes "start".* not "begin"/],
  [{ topics: ["t"], from: { offset: -1 } }, /consumer: from takes \{ offset \} with an integer from 0 on/],
  [{ topics: ["t"], from: { offset: Number.NaN } }, /consumer: from/],
  [{ topics: ["t"], from: { fromEnd: "3" } }, /consumer: from/],
  [{ topics: ["t"], from: { offset: 1, timestamp: 1 } }, /consumer: from/],
  [{ topics: ["t"], from: {} }, /consumer: from/],
  [{ topics: ["t"], from: 5 }, /consumer: from/],
  [{ topics: ["t"], partitions: [-1] }, /consumer: partitions/],
  [{ topics: ["t"], partitions: 0 }, /consumer: partitions/],
  [{ topics: ["t"], untilEnd: "yes" }, /consumer: untilEnd takes true or false/],
  [{ topics: ["t"], maxBytes: Number.NaN }, /consumer: maxBytes/],
  [{ topics: ["t"], maxPartitionBytes: 0 }, /consumer: maxPartitionBytes/],
  [{ topics: ["t"], maxWaitMs: -1 }, /consumer: maxWaitMs/],
  [{ topics: ["t"], onOutOfRange: "latest" }, /consumer: onOutOfRange/],
];

describe("options", () => {
  it.each(PRODUCERS)("producer(%j) is refused", async (options, message) => {
    const { client } = await setUp();
    const error = await refusal(() => client.producer(options as never));
    expect(error).toMatchObject({ code: "INVALID_REQUEST" });
    expect(error.message).toMatch(message);
  });

  it.each(CONSUMERS)("consumer(%j) is refused", async (options, message) => {
    const { client } = await setUp();
    const error = await refusal(() => client.consumer(options as never));
    expect(error).toMatchObject({ code: "INVALID_REQUEST" });
    expect(error.message).toMatch(message);
  });

  it("takes an option that is given as undefined as not given", async () => {
    const { time, client } = await setUp();
    const producer = client.producer({ acks: undefined, batchBytes: undefined } as never);
    expect(await time.until(producer.send("t", { value: "v" }, { acks: undefined } as never))).toMatchObject({
      offset: 0,
    });
    client.consumer({ topics: ["t"], from: undefined } as never);
  });

  it("takes producers whose options go together", async () => {
    const { client } = await setUp();
    for (const options of [
      { acks: 1 },
      { acks: 0, idempotent: false },
      { idempotent: true },
      { name: "n".repeat(249) },
    ])
      client.producer(options as never);
  });

  it("a producer with a name refuses acks 0 and 1: its successor could not fence them", async () => {
    const { client, time } = await setUp();
    const producer = client.producer({ name: "orders" });
    await time.until(producer.prepare("t"));
    for (const acks of [0, 1] as const)
      for (const call of [
        () => producer.send("t", { value: "v" }, { acks }),
        () => producer.enqueue("t", { value: "v" }, { acks }),
      ])
        expect(await refusal(call)).toMatchObject({
          code: "INVALID_REQUEST",
          message: expect.stringContaining('a producer with a name sends with acks: "all" only'),
          hint: expect.stringContaining("a producer without a name"),
          outcome: "not appended",
        });
  });

  it("seek and admin refuse by name too", async () => {
    const { client } = await setUp();
    const consumer = client.consumer({ topics: ["t"] });
    const admin = client.admin();
    const calls: readonly [() => unknown, RegExp][] = [
      [() => consumer.seek("t", 0, "begin" as never), /seek takes/],
      [() => admin.createTopic("x", { partition: 3 } as never), /no option "partition": did you mean partitions\?/],
      [() => admin.createTopic("x", { partitions: 1.5 }), /createTopic: partitions/],
      [() => admin.createTopic("x", { partitions: -1 }), /createTopic: partitions takes a number from 1 on, not -1/],
      [() => admin.createTopic("x", { replicationFactor: -1 }), /createTopic: replicationFactor/],
      [() => admin.createTopic("x", { configs: [] as never }), /createTopic: configs takes an object, not a list/],
      [() => admin.createTopic("x", null as never), /createTopic takes an object/],
      [() => admin.createTopic(undefined as never), /topic takes/],
      [() => admin.deleteTopic("x", { wait: 1 } as never), /deleteTopic: wait/],
      [() => admin.describeTopic(5 as never), /topic takes/],
    ];
    for (const [call, message] of calls) {
      const error = await refusal(call);
      expect(error).toMatchObject({ code: "INVALID_REQUEST" });
      expect(error.message).toMatch(message);
    }
  });

  it("connect and startNode refuse what they do not know before they do anything", async () => {
    const calls: readonly [() => unknown, RegExp][] = [
      [
        () => connect({ broker: ["elsewhere:7070"] } as never),
        /connect: there is no option "broker": did you mean brokers\?/,
      ],
      [() => connect("elsewhere:7070" as never), /connect takes an object/],
      [() => connect({ brokers: "elsewhere:7070" as never }), /connect: brokers takes a list/],
      [() => connect({ brokers: [] }), /connect: brokers/],
      [() => connect({ connectTimeoutMs: Number.NaN }), /connect: connectTimeoutMs/],
      [() => startNode({ datadir: "./x" } as never), /startNode: there is no option "datadir": did you mean dataDir\?/],
      [() => startNode({ listeners: 7070 as never }), /startNode: listeners/],
    ];
    for (const [call, message] of calls) {
      const error = await refusal(call);
      expect(error).toMatchObject({ name: "OttlaError", code: "INVALID_REQUEST" });
      expect(error.message).toMatch(message);
    }
  });
});
