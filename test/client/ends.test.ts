// Whoever waits for a client is told, and goes on with what is so by then: after a lost connection, beside a picture of the cluster that others refresh.
import { describe, expect, it } from "vitest";
import type { OttlaError } from "../../src/model/errors.ts";
import { API } from "../../src/wire/native/apis.ts";
import { createAbort } from "./abort.ts";
import { all, setUp, text } from "./consuming.ts";
import type { FakeBroker, Verdict } from "./fake-broker.ts";

describe("a consumer beside others of its client", () => {
  it("goes on where they know the leader to be, also when its connection to the one before fails just then", async () => {
    const { world, time, broker, client, consume } = await setUp();
    await broker.join();
    broker.append("t", ["a"]);
    broker.createTopic("led by the other");
    broker.partition("led by the other").leader = 2;
    await time.until(client.producer({ lingerMs: 0 }).send("led by the other", { value: "connects to it" }));
    const consumer = consume();
    const seen: string[] = [];
    const reading = all(consumer, seen);
    await time.pass(100);
    const connect = world.network.connect.bind(world.network);
    const connecting: ((error: Error) => void)[] = [];
    world.network.connect = (address) =>
      address === broker.address ? new Promise((_, reject) => connecting.push(reject)) : connect(address);
    broker.cutAll();
    while (connecting.length === 0) await time.pass(1);
    Object.assign(broker.partition("t"), { leader: 2, leaderEpoch: 2 });
    await time.until(client.admin().describeTopic("t"));
    for (const fail of connecting) fail(new Error("refused"));
    broker.append("t", ["b"]);
    await time.pass(1_000);
    expect(seen).toEqual(["a", "b"]);
    await time.until(consumer.close());
    await time.until(reading);
  });
});

describe("an iterator that is asked again before it has answered", () => {
  it("gives each its own record, in order, and a close ends them all", async () => {
    const { time, broker, consume } = await setUp();
    const consumer = consume();
    const iterator = consumer[Symbol.asyncIterator]();
    const given: string[] = [];
    const ask = async (name: string) => {
      const { done, value } = await iterator.next();
      given.push(`${name} ${done === true ? "end" : text(value)}`);
    };
    const asked = ["1st", "2nd", "3rd", "4th", "5th", "6th"].map(ask);
    await time.pass(50);
    broker.append("t", ["a", "b"]);
    broker.append("t", ["c"]);
    await time.pass(1_000);
    broker.append("t", ["d"]);
    await time.pass(1_000);
    expect(given).toEqual(["1st a", "2nd b", "3rd c", "4th d"]);
    await time.until(consumer.close());
    await time.until(Promise.all(asked), 10);
    expect(given.slice(4)).toEqual(["5th end", "6th end"]);
    // It reads no more, as often as it was begun.
    const before = broker.of(API.FETCH).length;
    await time.pass(2_000);
    expect(broker.of(API.FETCH).length - before).toBeLessThanOrEqual(1);
  });

  it("ends those behind one that failed", async () => {
    const { time, consume } = await setUp();
    const iterator = consume({ topics: ["nowhere"] })[Symbol.asyncIterator]();
    const asked = Promise.allSettled([iterator.next(), iterator.next()]);
    const [first, second] = await time.until(asked);
    expect(first).toMatchObject({ status: "rejected", reason: { code: "UNKNOWN_TOPIC_OR_PARTITION" } });
    expect(second).toEqual({ status: "fulfilled", value: { done: true, value: undefined } });
  });
});

describe("reading to the end", () => {
  /** Gives the first of ten records, and reads on only after `change`. */
  async function afterFirst(change: (broker: FakeBroker) => void): Promise<string[]> {
    const { time, broker, consume } = await setUp();
    for (let n = 0; n < 10; n++) broker.append("t", [`${n}`]);
    const consumer = consume({ untilEnd: true, maxPartitionBytes: 1, maxBytes: 1 });
    const iterator = consumer[Symbol.asyncIterator]();
    await time.until(iterator.next());
    await time.pass(20);
    change(broker);
    const rest: string[] = [];
    const reading = all({ ...consumer, [Symbol.asyncIterator]: () => iterator }, rest);
    await time.until(reading, 60_000);
    return rest;
  }

  it("ends with the end of the topic that was made anew meanwhile, which may never get as far", async () => {
    const rest = await afterFirst((broker) => {
      broker.createTopic("t");
      broker.append("t", ["x", "y"]);
    });
    expect(rest.slice(-2)).toEqual(["x", "y"]);
  });

  it.each([
    ["all that was read is left", 4],
    ["some of it is gone", 1],
  ])("ends where an unclean election has left an end before it: %s", async (_, left) => {
    const rest = await afterFirst((broker) => {
      const partition = broker.partition("t");
      partition.batches.length = left;
      Object.assign(partition, { leaderEpoch: 2, uncleanEpoch: 2 });
      broker.onFetch = () => {
        broker.onFetch = () => undefined;
        return "FENCED_LEADER_EPOCH";
      };
    });
    expect(rest.at(-1)).toBe(`${left - 1}`);
  });

  it("does not look for a later end where only its start has moved on", async () => {
    const rest = await afterFirst((broker) => {
      const partition = broker.partition("t");
      partition.batches.splice(0, 6);
      partition.startOffset = 6;
      broker.append("t", ["late"]);
    });
    expect(rest.slice(-4)).toEqual(["6", "7", "8", "9"]);
  });
});

describe("partitions in which nothing happens", () => {
  /** How long a record takes that comes while all are waited for. */
  async function delaysMs(
    { partitionCount, brokerCount }: { readonly partitionCount: number; readonly brokerCount: number },
    indexes: readonly number[],
  ): Promise<number[]> {
    const { time, broker, consume } = await setUp(partitionCount);
    for (let count = 1; count < brokerCount; count++) await broker.join();
    for (let index = 0; index < partitionCount; index++)
      broker.partition("t", index).leader = 1 + Math.floor((index * brokerCount) / partitionCount);
    const consumer = consume({ from: { offset: 0 }, maxWaitMs: 500 });
    const seen: string[] = [];
    const reading = all(consumer, seen);
    await time.pass(3_000);
    const delays: number[] = [];
    for (const index of indexes) {
      const fromMs = time.nowMs;
      broker.append("t", ["x"], index);
      while (seen.length === delays.length) await time.pass(10);
      delays.push(time.nowMs - fromMs);
    }
    await time.until(consumer.close());
    await time.until(reading);
    return delays;
  }

  // The fake broker looks only when a fetch has waited its 500 ms: what is asked for all the time is there in two of them.
  it("hold up no others: more of one broker than one request holds", async () => {
    const delays = await delaysMs({ partitionCount: 700, brokerCount: 1 }, [0, 200, 511, 512, 600, 699]);
    expect(Math.max(...delays)).toBeLessThanOrEqual(1_000);
  });

  it("hold up no others: of more brokers than may bring as much as they could", async () => {
    const delays = await delaysMs({ partitionCount: 40, brokerCount: 4 }, [5, 15, 25, 35, 6, 16, 26, 36]);
    expect(Math.max(...delays)).toBeLessThanOrEqual(1_000);
  });
});

describe("a duration that no request can carry", () => {
  const LONG = [Number.POSITIVE_INFINITY, 3_000_000_000, 5_000_000_000, 60_000.5];

  it.each(LONG)("%d ms: the wait is the client's own", async (longMs) => {
    const { time, broker, client, consume } = await setUp();
    const producer = client.producer({ lingerMs: 0, requestTimeoutMs: longMs, deliveryTimeoutMs: longMs });
    await time.until(producer.send("t", { value: "a" }), 1_000);
    const consumer = consume({ maxWaitMs: longMs, timeoutMs: longMs });
    const { value } = await time.until(consumer[Symbol.asyncIterator]().next(), 1_000);
    expect(text(value)).toBe("a");
    await time.until(consumer.close());
    const admin = client.admin();
    const [described] = await time.until(admin.describePartitions("t", { timeoutMs: longMs }), 1_000);
    expect(described).toMatchObject({ endOffset: 1 });
    const [trimmed] = await time.until(admin.deleteRecords("t", { offset: 1 }, { timeoutMs: longMs }), 1_000);
    expect(trimmed).toEqual({ partition: 0, startOffset: 1 });
    expect(broker.of(API.PRODUCE)).toHaveLength(1);
  });
});

describe("the wait for a topic to be gone", () => {
  async function waiting(options: { readonly timeoutMs?: number; readonly signal?: AbortSignal }) {
    const { time, broker, client } = await setUp();
    const deleting = client.admin().deleteTopic("t", { wait: true, ...options });
    const failed = expect(deleting).rejects;
    await time.pass(100);
    broker.metadataDelayMs = 100_000;
    return { time, failed };
  }

  it("ends with its time, also while nobody answers", async () => {
    const { time, failed } = await waiting({ timeoutMs: 2_000 });
    const told = failed.toMatchObject({ code: "REQUEST_TIMED_OUT", outcome: "appended" });
    await time.until(told, 2_500);
  });

  it("ends with its signal, also while nobody answers", async () => {
    const { signal, abort } = createAbort();
    const { time, failed } = await waiting({ signal });
    const told = failed.toMatchObject({ code: "ABORTED", outcome: "appended" });
    await time.pass(5_000);
    abort();
    await time.until(told, 10);
  });
});

describe("a topic that was made anew with fewer partitions", () => {
  it.each(["all", 1] as const)(
    "acks %s: takes what waited in any of its predecessor and belongs to none",
    async (acks) => {
      const { time, broker, client } = await setUp(8);
      const producer = client.producer({ lingerMs: 0, acks });
      await time.until(producer.prepare("t"));
      for (const partition of broker.topics.get("t")?.partitions ?? []) partition.leader = -1;
      await time.until(client.admin().describeTopic("t"));
      const sends: Promise<{ readonly partition: number }>[] = [];
      for (let n = 0; n < 16; n++) {
        sends.push(producer.send("t", { value: `${n}` }));
        await time.pass(20);
      }
      broker.createTopic("t", 1);
      const told = await time.until(Promise.all(sends), 30_000);
      expect(new Set(told.map(({ partition }) => partition))).toEqual(new Set([0]));
      await expect(time.until(producer.send("t", { value: "bound", partition: 7 }))).rejects.toMatchObject({
        code: "UNKNOWN_TOPIC_OR_PARTITION",
        outcome: "not appended",
      });
    },
  );
});

describe("a leader that refuses where it says that its log begins", () => {
  it.each(["start", "end"] as const)("is asked with pauses, and read from the %s once it agrees", async (to) => {
    const { time, broker, consume } = await setUp();
    for (const value of ["a", "b"]) broker.append("t", [value]);
    broker.onFetch = () => "OFFSET_OUT_OF_RANGE";
    const consumer = consume({ onOutOfRange: to });
    const seen: string[] = [];
    const reading = all(consumer, seen);
    await time.pass(10_000);
    expect(broker.of(API.FETCH).length).toBeLessThan(30);
    broker.onFetch = () => undefined;
    await time.pass(2_000);
    broker.append("t", ["c"]);
    await time.pass(1_000);
    expect(seen).toEqual(to === "start" ? ["a", "b", "c"] : ["c"]);
    await time.until(consumer.close());
    await time.until(reading);
  });
});

describe("a flush that is aborted", () => {
  it.each(["before", "while it waits"])("%s leaves to the next one what failed", async (when) => {
    const { time, broker, client } = await setUp();
    const producer = client.producer({ lingerMs: 0 });
    await time.until(producer.prepare("t"));
    broker.onProduce = () => ({ error: "INVALID_RECORD", outcome: "not appended" });
    void producer.enqueue("t", { value: "a" });
    const { signal, abort } = createAbort();
    if (when === "before") abort();
    const aborted = expect(producer.flush({ signal })).rejects.toMatchObject({ code: "ABORTED" });
    abort();
    await aborted;
    await time.pass(1_000);
    const told = await time.until(producer.flush()).then(String, ({ errors }: AggregateError) => errors);
    expect(told).toMatchObject([{ code: "INVALID_RECORD", outcome: "not appended" }]);
    await time.until(producer.flush());
  });
});

describe("a topic that is being deleted", () => {
  it("takes sends again when it was made anew, whoever did so", async () => {
    const { time, broker, client } = await setUp();
    const producer = client.producer({ lingerMs: 0 });
    await time.until(producer.send("t", { value: "old" }));
    const old = broker.topics.get("t");
    if (old !== undefined) old.isDeleting = true;
    await time.until(client.admin().describeTopic("t"));
    const send = () => time.until(producer.send("t", { value: "new" })).then(String, ({ message }: Error) => message);
    expect(await send()).toBe("t is being deleted");
    broker.createTopic("t");
    await time.pass(2_000);
    const asked = broker.of(API.METADATA).length;
    for (let count = 0; count < 20; count++) expect(await send()).toBe("t is being deleted");
    expect(broker.of(API.METADATA).length - asked).toBeLessThanOrEqual(1);
    await time.pass(10);
    expect(await send()).toBe("[object Object]");
    expect(broker.values("t")).toEqual(["new"]);
  });

  it("is prepared as it is by then", async () => {
    const { time, broker, client } = await setUp();
    const old = broker.topics.get("t");
    if (old !== undefined) old.isDeleting = true;
    await time.until(client.admin().describeTopic("t"));
    await expect(time.until(client.producer().prepare("t"))).rejects.toThrow("t is being deleted");
    const { topicId } = broker.createTopic("t");
    expect(await time.until(client.producer().prepare("t"))).toMatchObject({ topicId });
  });
});

describe("a producer with a name", () => {
  it.each([0, 200])("is not fenced by its own higher epoch, given after %d ms", async (initDelayMs) => {
    const { time, broker, client } = await setUp(2);
    const producer = client.producer({ lingerMs: 0, name: "n" });
    await time.until(producer.send("t", { value: "first", partition: 0 }));
    await time.until(producer.send("t", { value: "first", partition: 1 }));
    const given: string[] = [];
    const send = (value: string, partition: number) =>
      producer.send("t", { value, partition }).then(
        () => void given.push(value),
        ({ code }: OttlaError) => void given.push(`${value} ${code}`),
      );
    const vague = { error: "UNKNOWN_SERVER_ERROR", outcome: "unknown" } as const;
    const refused = { error: "NOT_ENOUGH_REPLICAS", outcome: "not appended" } as const;
    // Of partition 0 the one before is refused for now, and the one behind it is given up in doubt; of partition 1 one is given up.
    const verdicts: Verdict[] = [refused, vague, vague];
    broker.onProduce = () => verdicts.shift();
    broker.initDelayMs = initDelayMs;
    broker.pause();
    const sends = [send("a", 0)];
    await time.pass(1);
    sends.push(send("b", 0), send("x", 1));
    await time.pass(1);
    broker.resume();
    sends.push(send("y", 1));
    await time.until(Promise.all(sends));
    await time.until(send("c", 0));
    await time.until(send("z", 1));
    expect(given).toEqual(
      expect.arrayContaining(["b UNKNOWN_SERVER_ERROR", "x UNKNOWN_SERVER_ERROR", "a", "y", "c", "z"]),
    );
    expect(broker.values("t", 0)).toEqual(["first", "a", "c"]);
  });
});

describe("a client that is closed", () => {
  it("leaves no connection open, not even one that has been waiting for its Hello since the attempt before", async () => {
    const { world, time, broker, client } = await setUp();
    const connect = world.network.connect.bind(world.network);
    let delayMs = 3_000;
    world.network.connect = async (address) => {
      await new Promise<void>((resolve) => void time.timers.after(delayMs, resolve));
      delayMs = 0;
      return connect(address);
    };
    broker.pause();
    broker.cutAll();
    const described = client.admin().describeTopic("t");
    const refused = expect(described).rejects.toMatchObject({ code: "CLOSED" });
    // The first attempt has its connection after 3 s, and is given up after 5: the second begins.
    await time.pass(6_000);
    expect(world.network.pipes.filter(({ isOpen }) => isOpen)).toHaveLength(2);
    await time.until(client.close(), 2_000);
    await refused;
    await time.pass(60_000);
    expect(world.network.pipes.filter(({ isOpen }) => isOpen)).toHaveLength(0);
  });
});

describe("a lost connection", () => {
  it("leaves in doubt what was sent over it, and nothing that waited for its turn", async () => {
    const { time, broker, client } = await setUp(4);
    const producer = client.producer({ lingerMs: 0, acks: 1, maxInFlight: 1 });
    await time.until(producer.prepare("t"));
    broker.onProduce = () => "swallow";
    const told: string[] = [];
    const send = (value: string, partition: number) =>
      producer.send("t", { value, partition }).then(
        ({ offset }) => void told.push(`${value} at ${offset}`),
        ({ code, outcome }: OttlaError) => void told.push(`${value} ${code} ${outcome}`),
      );
    const sends = [send("sent", 0)];
    await time.pass(10);
    sends.push(send("a", 0), send("b", 1), send("c", 2), send("d", 3));
    await time.pass(10);
    expect(broker.of(API.PRODUCE)).toHaveLength(1);
    broker.onProduce = () => undefined;
    broker.cutAll();
    await time.until(Promise.all(sends));
    expect(told.toSorted()).toEqual(["a at 1", "b at 0", "c at 0", "d at 0", "sent CONNECTION_LOST unknown"]);
  });
});
