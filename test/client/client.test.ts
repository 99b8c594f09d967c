import { describe, expect, it } from "vitest";
import { openClient } from "../../src/client/client.ts";
import type { ConnectOptions } from "../../src/client/types.ts";
import type { OttlaError } from "../../src/model/errors.ts";
import { API } from "../../src/wire/native/apis.ts";
import { createAbort } from "./abort.ts";
import { FakeBroker } from "./fake-broker.ts";
import { ADDRESS, createWorld, quiet } from "./world.ts";

const failure = (promise: Promise<unknown>): Promise<OttlaError> =>
  promise.then(
    () => {
      throw new Error("did not fail");
    },
    (error: OttlaError) => error,
  );

describe("connecting", () => {
  it("reaches the first broker that answers", async () => {
    const world = createWorld();
    await FakeBroker.start(world);
    const client = await world.connect({ brokers: ["nobody:1", `ws://${ADDRESS}`] });
    expect((await world.time.until(client.admin().describeCluster())).controllerId).toBe(1);
  });

  it("gives up in time with the reason, whether refused or never answered", async () => {
    const world = createWorld();
    world.network.blackHoles.add("hole:1");
    for (const brokers of [["nobody:1"], ["hole:1"]]) {
      const startMs = world.time.nowMs;
      const error = await failure(world.connect({ brokers, connectTimeoutMs: 3_000 }));
      expect(error).toMatchObject({ code: "CONNECTION_FAILED" });
      expect(error.hint).toContain("--bootstrap");
      expect(world.time.nowMs - startMs).toBeLessThanOrEqual(3_000);
    }
  });

  it("waits for a broker that comes up, with growing pauses", async () => {
    const world = createWorld();
    const broker = new FakeBroker(world);
    world.time.timers.after(8_000, () => void broker.listen());
    await world.connect({ connectTimeoutMs: 10_000 });
    expect(world.network.connectCount).toBeLessThan(40);
  });

  it("gives up after 3 s of refusals only, unless it was told how long to wait", async () => {
    const world = createWorld();
    const after = async (options: ConnectOptions) => {
      const startMs = world.time.nowMs;
      expect(await failure(world.connect(options))).toMatchObject({ code: "CONNECTION_FAILED" });
      return Math.round((world.time.nowMs - startMs) / 100) / 10;
    };
    expect(await after({ brokers: ["nobody:1", "nobody:2"] })).toBe(3);
    expect(await after({ brokers: ["nobody:1"], connectTimeoutMs: 6_000 })).toBeGreaterThan(4);
    world.network.blackHoles.add("hole:1");
    expect(await after({ brokers: ["nobody:1", "hole:1"] })).toBe(10);
  });

  it("waits on through refusals of the first 3 s when a broker is up in time", async () => {
    const world = createWorld();
    const broker = new FakeBroker(world);
    world.time.timers.after(2_500, () => void broker.listen());
    const client = await world.connect();
    await world.time.until(client.admin().describeCluster());
  });

  it("takes addresses as people write them", async () => {
    const world = createWorld();
    await FakeBroker.start(world);
    for (const address of ["ws://broker-1:7070/", "broker-1", " broker-1:7070 "]) {
      await world.time.until((await world.connect({ brokers: [address] })).close());
    }
    expect(await failure(world.connect({ brokers: [] }))).toMatchObject({ code: "INVALID_REQUEST" });
  });

  it("leaves no connection behind when Hello is refused, and tries again", async () => {
    const world = createWorld();
    const broker = await FakeBroker.start(world);
    broker.helloError = "BROKER_NOT_AVAILABLE";
    const connecting = world.connect();
    await world.time.pass(2_000);
    broker.helloError = undefined;
    await world.time.until(connecting);
    await world.time.pass(1);
    expect(world.network.pipes.length).toBeGreaterThan(2);
    expect(world.network.pipes.filter((pipe) => pipe.isOpen)).toHaveLength(1);
  });

  it("stops waiting when its signal fires", async () => {
    const world = createWorld();
    const { signal, abort } = createAbort();
    world.time.timers.after(100, abort);
    expect(await failure(world.connect({ signal }))).toMatchObject({ code: "ABORTED" });
  });
});

describe("outages", () => {
  async function setUp() {
    const world = createWorld();
    const broker = await FakeBroker.start(world);
    broker.createTopic("t");
    const events: string[] = [];
    const note = (level: string) => (event: string) => {
      if (event.startsWith("broker_") && level !== "debug") events.push(`${level} ${event}`);
    };
    const logger = { ...quiet, info: note("info"), warn: note("warn") };
    const client = await world.time.until(openClient({ ...world.deps, logger }, { brokers: [ADDRESS] }));
    const producer = client.producer();
    await world.time.until(producer.send("t", { value: "before" }));
    const stop = async () => {
      await broker.stopListening();
      broker.cutAll();
      await world.time.pass(1);
    };
    return { ...world, broker, client, producer, events, stop };
  }

  it("says broker_lost once per outage and broker_back at its end", async () => {
    const { time, broker, producer, events, stop } = await setUp();
    for (let outage = 1; outage <= 2; outage++) {
      await stop();
      const send = producer.send("t", { value: "during" });
      await time.pass(20_000);
      expect(events).toHaveLength(2 * outage - 1);
      await broker.listen();
      await time.until(send);
    }
    expect(events).toEqual(["warn broker_lost", "info broker_back", "warn broker_lost", "info broker_back"]);
  });

  it("says nothing when the connection is back within a second, or when the client was closed", async () => {
    const { time, broker, client, producer, events, stop } = await setUp();
    await stop();
    await broker.listen();
    await time.until(producer.send("t", { value: "after" }));
    await time.pass(5_000);
    await stop();
    await time.until(client.close());
    await time.pass(5_000);
    expect(events).toEqual([]);
  });
});

describe("metadata", () => {
  it("a partition with STORAGE_ERROR and a leader is produced to, read and shown", async () => {
    const world = createWorld();
    const broker = await FakeBroker.start(world);
    broker.createTopic("t").partitions[0] = { batches: [], startOffset: 0, leaderEpoch: 1, error: "STORAGE_ERROR" };
    const client = await world.connect();
    await world.time.until(client.producer().send("t", { value: "v" }));
    const consumer = client.consumer({ topics: ["t"] })[Symbol.asyncIterator]();
    expect((await world.time.until(consumer.next())).value).toMatchObject({ offset: 0 });
    const { partitions } = await world.time.until(client.admin().describeTopic("t"));
    expect(partitions).toMatchObject([{ error: "STORAGE_ERROR", leader: 1 }]);
  });

  it("never puts an older leader epoch over a newer one, except for a topic made anew", async () => {
    const world = createWorld();
    const broker = await FakeBroker.start(world);
    broker.createTopic("t");
    const client = await world.connect();
    const epoch = async () => (await world.time.until(client.admin().describeTopic("t"))).partitions[0]?.leaderEpoch;
    broker.partition("t").leaderEpoch = 5;
    expect(await epoch()).toBe(5);
    broker.partition("t").leaderEpoch = 3;
    expect(await epoch()).toBe(5);
    broker.partition("t").leaderEpoch = 6;
    expect(await epoch()).toBe(6);
    broker.createTopic("t");
    expect(await epoch()).toBe(1);
  });
});

describe("connection", () => {
  it("ignores the answer of a request that it gave up", async () => {
    const world = createWorld();
    const broker = await FakeBroker.start(world);
    broker.createTopic("t");
    const client = await world.connect();
    const producer = client.producer();
    await world.time.until(producer.prepare("t"));
    broker.metadataDelayMs = 40_000;
    const describing = failure(client.admin().describeTopic("t"));
    await world.time.pass(10_000);
    await world.time.until(producer.send("t", { value: "a sign of life" }));
    expect(await world.time.until(describing)).toMatchObject({ code: "REQUEST_TIMED_OUT" });
    broker.metadataDelayMs = 0;
    await world.time.pass(60_000);
    expect(await world.time.until(client.admin().describeTopic("t"))).toMatchObject({ name: "t" });
    expect(broker.connections).toHaveLength(1);
  });

  it("replaces a connection on which nothing comes back any more", async () => {
    const world = createWorld();
    const broker = await FakeBroker.start(world);
    broker.createTopic("t");
    const client = await world.connect();
    const producer = client.producer({ requestTimeoutMs: 1_000 });
    broker.onProduce = () => "swallow";
    expect(await failure(world.time.until(producer.send("t", { value: "lost" })))).toMatchObject({
      outcome: "unknown",
    });
    broker.onProduce = () => undefined;
    await world.time.until(producer.send("t", { value: "next" }));
    expect(broker.connections).toHaveLength(2);
  });

  it("tells of a peer that breaks the protocol", async () => {
    const world = createWorld();
    await world.network.listen(ADDRESS, (connection) => {
      connection.start({
        onReceive: () => connection.send([new TextEncoder().encode("SSH-2.0-OpenSSH")]),
        onClose: () => {},
        onDrain: () => {},
      });
    });
    expect(await failure(world.connect())).toMatchObject({ code: "PROTOCOL_ERROR", retriable: false });
  });
});

describe("admin", () => {
  async function setUp() {
    const world = createWorld();
    const broker = await FakeBroker.start(world);
    const client = await world.connect();
    return { broker, time: world.time, admin: client.admin() };
  }

  it("creates, describes, lists page by page, deletes", async () => {
    const { broker, time, admin } = await setUp();
    const created = await time.until(admin.createTopic("a", { partitions: 3 }));
    expect(created).toMatchObject({ name: "a", topicId: broker.topics.get("a")?.topicId });
    expect(created.partitions).toHaveLength(3);
    for (const name of ["b", "c", "d", "e", "f", "g"]) broker.createTopic(name);
    const names = (await time.until(admin.listTopics())).map((topic) => topic.name);
    expect(names).toEqual(["a", "b", "c", "d", "e", "f", "g"]);
    expect((await time.until(admin.describeTopic("a"))).partitions[2]?.leader).toBe(1);
    await time.until(admin.deleteTopic("a"));
    expect((await time.until(admin.describeTopic("a"))).isDeleting).toBe(true);
    await time.until(admin.deleteTopic("b", { wait: true }));
    expect(await failure(time.until(admin.describeTopic("b")))).toMatchObject({ code: "UNKNOWN_TOPIC_OR_PARTITION" });
  });

  it("creates again only if asked to bear that it exists", async () => {
    const { broker, time, admin } = await setUp();
    broker.createTopic("a", 2);
    expect(await failure(time.until(admin.createTopic("a")))).toMatchObject({ code: "TOPIC_ALREADY_EXISTS" });
    expect((await time.until(admin.createTopic("a", { ifNotExists: true }))).partitions).toHaveLength(2);
    const planned = await time.until(admin.createTopic("new", { partitions: 4, validateOnly: true }));
    expect(planned.partitions).toHaveLength(4);
    expect(broker.topics.has("new")).toBe(false);
  });

  it("tells start and end of each partition", async () => {
    const { broker, time, admin } = await setUp();
    broker.createTopic("a", 2);
    broker.append("a", ["x", "y"], 1);
    expect(await time.until(admin.offsets("a"))).toEqual([
      { partition: 0, startOffset: 0, endOffset: 0 },
      { partition: 1, startOffset: 0, endOffset: 2 },
    ]);
  });

  it("keeps the time that a caller gives it, whatever is asked", async () => {
    const { time, broker, admin } = await setUp();
    broker.createTopic("t");
    const timeoutMs = 2_000;
    broker.metadataDelayMs = 60_000;
    const asked = [
      admin.describeTopic("t", { timeoutMs }),
      admin.listTopics({ timeoutMs }),
      admin.offsets("t", { timeoutMs }),
      admin.createTopic("t", { ifNotExists: true, timeoutMs }),
    ];
    const startMs = time.nowMs;
    for (const result of await time.until(Promise.all(asked.map(failure)))) {
      expect(result).toMatchObject({ retriable: true });
    }
    expect(time.nowMs - startMs).toBeLessThan(2_100);
  });

  it("asks once for what many want to know at the same time", async () => {
    const { broker, time, admin } = await setUp();
    for (const name of ["a", "b", "c"]) broker.createTopic(name);
    const before = broker.of(API.METADATA).length;
    await time.until(Promise.all(["a", "b", "c", "a"].map((name) => admin.describeTopic(name))));
    expect(broker.of(API.METADATA).length - before).toBe(1);
  });
});
