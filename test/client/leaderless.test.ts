// Partitions without a leader, and leaders that hang: they hold up nothing but themselves, and nobody waits longer than told.
import { describe, expect, it } from "vitest";
import { utf8Decode } from "../../src/base/bytes.ts";
import type { ConsumerOptions } from "../../src/client/types.ts";
import type { OttlaError } from "../../src/model/errors.ts";
import { API } from "../../src/wire/native/apis.ts";
import { createAbort } from "./abort.ts";
import { FakeBroker } from "./fake-broker.ts";
import { createWorld, quiet } from "./world.ts";

/** Topic t with partitions 0 and 2 led by broker 1, and 1 and 3 by broker 2; each has its own number and "x" in two batches. */
async function setUp() {
  const world = createWorld();
  const first = await FakeBroker.start(world);
  const second = await first.join();
  first.createTopic("t", 4);
  for (const index of [0, 1, 2, 3]) {
    first.partition("t", index).leader = (index % 2) + 1;
    for (const value of [`${index}`, `${index}x`]) first.append("t", [value], index);
  }
  const notes: [event: string, fields: unknown][] = [];
  const note = (event: string, fields: unknown) => void notes.push([event, fields]);
  (world.deps as { logger: unknown }).logger = { ...quiet, info: note, warn: note };
  const client = await world.connect();
  const lead = (leader: number, ...indexes: number[]) => {
    for (const index of indexes) {
      first.partition("t", index).leader = leader;
      first.partition("t", index).leaderEpoch++;
    }
  };
  const consume = (options: Partial<ConsumerOptions> = {}) => {
    const seen: string[] = [];
    const consumer = client.consumer({ topics: ["t"], ...options });
    const read = async () => {
      for await (const record of consumer) seen.push(utf8Decode(record.value ?? new Uint8Array()));
    };
    return { consumer, seen, done: read() };
  };
  return { world, time: world.time, first, second, client, lead, consume, notes };
}

const failure = (promise: Promise<unknown>): Promise<OttlaError> =>
  promise.then(
    () => {
      throw new Error("did not fail");
    },
    (error: OttlaError) => error,
  );

/** Of each partition, without what it had before. */
const values = (broker: FakeBroker) =>
  [0, 1, 2, 3].map((index) => broker.values("t", index).filter((value) => !/^[0-3]x?$/.test(value)));

const LED = ["0", "0x", "2", "2x"];
const ALL = ["0", "0x", "1", "1x", "2", "2x", "3", "3x"];

describe("consumer: partitions without a leader", () => {
  it.each(["start", { offset: 0 }, { fromEnd: 2 }, { timestamp: 0 }] as const)(
    "from %j: the others begin at once, and these as soon as they are led",
    async (from) => {
      const { time, lead, consume } = await setUp();
      lead(-1, 1, 3);
      const { consumer, seen, done } = consume({ from });
      await time.pass(500);
      expect(seen.toSorted()).toEqual(LED);
      await time.pass(120_000);
      lead(2, 1);
      await time.pass(2_000);
      expect(seen.toSorted()).toEqual([...LED, "1", "1x"].toSorted());
      lead(1, 3);
      await time.pass(2_000);
      expect(seen.toSorted()).toEqual(ALL);
      await consumer.close();
      await time.until(done, 0);
    },
  );

  it("untilEnd gives all that can be had, then fails and names them", async () => {
    const { time, lead, consume } = await setUp();
    lead(-1, 1, 3);
    const startMs = time.nowMs;
    const { seen, done } = consume({ untilEnd: true, timeoutMs: 4_000 });
    const error = await time.until(failure(done));
    expect(seen.toSorted()).toEqual(LED);
    expect(error).toMatchObject({ code: "NOT_LEADER_OR_FOLLOWER", retriable: true });
    expect(error.message).toContain("t-1, t-3: no leader");
    expect(error.hint).toContain("ottla cluster health");
    expect(time.nowMs - startMs).toBeGreaterThanOrEqual(4_000);
    expect(time.nowMs - startMs).toBeLessThan(4_100);
  });

  it("untilEnd waits for those that are led in time, from then on to their end of then", async () => {
    const { time, lead, consume, first } = await setUp();
    lead(-1, 1, 3);
    const { seen, done } = consume({ untilEnd: true, timeoutMs: 4_000 });
    await time.pass(2_500);
    first.append("t", ["3y"], 3);
    lead(1, 1, 3);
    await time.until(done, 1_500);
    expect(seen.toSorted()).toEqual([...ALL, "3y"]);
  });

  it("end at once when closed or aborted, also before anything is known", async () => {
    const { time, first, lead, consume } = await setUp();
    lead(-1, 0, 1, 2, 3);
    const { signal, abort } = createAbort();
    for (const beforeMs of [0, 5_000]) {
      const closed = consume();
      await time.pass(beforeMs);
      await closed.consumer.close();
      await time.until(closed.done, 0);
    }
    first.metadataDelayMs = 60_000;
    const aborted = consume({ signal });
    await time.pass(5);
    abort();
    await time.until(aborted.done, 0);
  });

  it("ask no more often together than a few times a second, and say once what they wait for", async () => {
    const { time, first, second, lead, consume, notes } = await setUp();
    lead(-1, 1, 3);
    const { consumer, done } = consume();
    await time.pass(10_000);
    const before = first.of(API.METADATA).length + second.of(API.METADATA).length;
    await time.pass(10_000);
    expect(first.of(API.METADATA).length + second.of(API.METADATA).length - before).toBeLessThan(50);
    expect(notes).toEqual([["partitions_wait", { topic: "t", partitions: [1, 3], reason: "no leader" }]]);
    lead(2, 1, 3);
    await time.pass(3_000);
    expect(notes.slice(1)).toEqual([["partitions_go_on", { topic: "t", partitions: [1, 3] }]]);
    await consumer.close();
    await time.until(done, 0);
  });
});

describe("consumer: a leader that hangs", () => {
  it("holds up its own partitions only, from the start on, and is left when they are led elsewhere", async () => {
    const { time, second, lead, consume } = await setUp();
    second.pause();
    const { consumer, seen, done } = consume();
    await time.pass(500);
    expect(seen.toSorted()).toEqual(LED);
    await time.pass(10_000);
    lead(1, 1, 3);
    await time.pass(10_000);
    expect(seen.toSorted()).toEqual(ALL);
    await consumer.close();
    await time.until(done, 0);
  });

  it.each(["is led elsewhere", "goes on"])("in the middle: reading goes on when the partition %s", async (what) => {
    const { time, first, second, lead, consume } = await setUp();
    const { consumer, seen, done } = consume();
    await time.pass(500);
    expect(seen.toSorted()).toEqual(ALL);
    second.pause();
    await time.pass(12_000);
    if (what === "goes on") second.resume();
    else lead(1, 1, 3);
    first.append("t", ["late"], 3);
    await time.pass(16_000);
    expect(seen.filter((value) => value === "late")).toHaveLength(1);
    expect(seen).toHaveLength(9);
    await consumer.close();
    await time.until(done, 0);
  });

  it("untilEnd is bounded, in the middle as at the start", async () => {
    const { time, second, first, consume } = await setUp();
    second.pause();
    const atStart = consume({ untilEnd: true, timeoutMs: 5_000 });
    const error = await time.until(failure(atStart.done), 5_100);
    expect(atStart.seen.toSorted()).toEqual(LED);
    expect(error.message).toMatch(/^t-1, t-3: .*broker-2:7070/);
    second.resume();
    await time.pass(2_000);
    second.onFetch = () => {
      second.pause();
      return undefined;
    };
    first.append("t", ["x".repeat(1000)], 1);
    const inTheMiddle = consume({ untilEnd: true, timeoutMs: 5_000, maxPartitionBytes: 100 });
    const later = await time.until(failure(inTheMiddle.done), 5_600);
    expect(later.message).toMatch(/t-1.*t-3.*broker-2:7070 did not answer in time/);
    expect(inTheMiddle.seen).toEqual(expect.arrayContaining(LED));
  });
});

describe("admin: offsets", () => {
  it("partial: tells what is known at once, and why the rest is not", async () => {
    const { time, lead, client } = await setUp();
    lead(-1, 1);
    const found = await time.until(client.admin().offsets("t", { partial: true }), 200);
    expect(found.map(({ startOffset, endOffset }) => [startOffset, endOffset])).toEqual([
      [0, 2],
      [-1, -1],
      [0, 2],
      [0, 2],
    ]);
    expect(found.map(({ error }) => error?.message)).toEqual([undefined, "no leader", undefined, undefined]);
  });

  it("partial: a leader that hangs is waited for until the deadline; one that has just changed is found", async () => {
    const { time, second, lead, client } = await setUp();
    const admin = client.admin();
    second.pause();
    const found = await time.until(admin.offsets("t", { partial: true, timeoutMs: 4_000 }), 4_100);
    expect(found.map(({ endOffset }) => endOffset)).toEqual([2, -1, 2, -1]);
    expect(found[1]?.error?.message).toContain("broker-2:7070");
    const asked = admin.offsets("t", { partial: true });
    await time.pass(2);
    lead(1, 1, 3);
    expect((await time.until(asked, 8_000)).map(({ endOffset }) => endOffset)).toEqual([2, 2, 2, 2]);
  });

  it("else waits for all until the deadline, and names what is missing", async () => {
    const { time, lead, client } = await setUp();
    lead(-1, 1, 3);
    const startMs = time.nowMs;
    const error = await time.until(failure(client.admin().offsets("t", { timeoutMs: 3_000 })), 3_000);
    expect(error).toMatchObject({ code: "NOT_LEADER_OR_FOLLOWER", message: "t-1, t-3: no leader" });
    expect(time.nowMs - startMs).toBeGreaterThan(1_900);
    const asked = client.admin().offsets("t");
    await time.pass(5_000);
    lead(1, 1, 3);
    expect(await time.until(asked, 2_000)).toHaveLength(4);
  });
});

describe("producer: partitions without a leader", () => {
  it("hold up no record of another partition; theirs are sent when they are led", async () => {
    const { time, first, lead, client } = await setUp();
    lead(-1, 1, 3);
    const producer = client.producer({ lingerMs: 0 });
    const waiting = [1, 3].map((partition) => producer.send("t", { value: "late", partition }));
    const sent = [0, 2].map((partition) => producer.send("t", { value: "now", partition }));
    await time.until(Promise.all(sent), 100);
    expect(values(first)).toEqual([["now"], [], ["now"], []]);
    await time.pass(60_000);
    lead(1, 1, 3);
    await time.until(Promise.all(waiting), 2_000);
    expect(values(first)).toEqual([["now"], ["late"], ["now"], ["late"]]);
  });

  it("fail their records at the delivery timeout, saying of which partition and why", async () => {
    const { time, first, lead, client, notes } = await setUp();
    lead(-1, 1, 3);
    const producer = client.producer({ lingerMs: 0, deliveryTimeoutMs: 5_000 });
    const error = await time.until(failure(producer.send("t", { value: "a", partition: 3 })), 5_010);
    expect(error).toMatchObject({ code: "DELIVERY_TIMED_OUT", outcome: "not appended" });
    expect(error.message).toBe("t-3: not acknowledged within 5000 ms: no leader");
    expect(error.hint).toContain("ottla cluster health");
    expect(notes).toEqual([["partitions_wait", { topic: "t", partitions: [3], reason: "no leader" }]]);
    lead(1, 1, 3);
    await time.pass(5_000);
    expect(values(first).flat()).toEqual([]);
    expect(notes).toHaveLength(1);
  });

  it("say once what waits, and that it goes on", async () => {
    const { time, lead, client, notes } = await setUp();
    lead(-1, 1, 3);
    const producer = client.producer();
    const sends = [1, 3, 1].map((partition) => producer.send("t", { value: "a", partition }));
    await time.pass(10_000);
    expect(notes).toEqual([["partitions_wait", { topic: "t", partitions: [1, 3], reason: "no leader" }]]);
    lead(2, 1, 3);
    await time.until(Promise.all(sends), 2_000);
    expect(notes.slice(1)).toEqual([["partitions_go_on", { topic: "t", partitions: [1, 3] }]]);
  });

  it("get no records without key, and give back those that they have", async () => {
    const { time, first, second, lead, client } = await setUp();
    const producer = client.producer({ lingerMs: 0, batchBytes: 200 });
    await time.until(producer.prepare("t"));
    // Dead, but nobody has noticed yet.
    await second.stopListening();
    const sends = Array.from({ length: 40 }, (_, index) => producer.send("t", { value: `v${index}`.padEnd(60, ".") }));
    const keyed = producer.send("t", { value: "keyed", partition: 1 });
    await time.pass(3_000);
    lead(-1, 1, 3);
    const results = await time.until(Promise.all(sends), 3_000);
    expect(results.every(({ partition }) => partition === 0 || partition === 2)).toBe(true);
    for (const { offset = -1 } of results) expect(offset).toBeGreaterThan(1);
    expect(values(first).flat()).toHaveLength(40);
    for (let count = 0; count < 40; count++) {
      await time.until(producer.send("t", { value: `w${count}` }), 100);
    }
    lead(1, 1, 3);
    expect(await time.until(keyed, 3_000)).toMatchObject({ partition: 1, offset: 2 });
  });
});

describe("producer: a leader that hangs", () => {
  it("holds up no record of another partition; without numbers what it was sent is unknown at the request's timeout, the rest is sent later", async () => {
    const { time, second, lead, client } = await setUp();
    const producer = client.producer({ lingerMs: 0, requestTimeoutMs: 4_000, maxInFlight: 1, idempotent: false });
    await time.until(producer.send("t", { value: "before", partition: 1 }));
    await time.pass(10);
    second.pause();
    const sent = failure(producer.send("t", { value: "in flight", partition: 1 }));
    await time.pass(10);
    const behind = producer.send("t", { value: "behind", partition: 1 });
    await time.until(producer.send("t", { value: "other", partition: 0 }), 100);
    const error = await time.until(sent, 4_010);
    expect(error).toMatchObject({ code: "REQUEST_TIMED_OUT", outcome: "unknown" });
    expect(error.message).toMatch(/^t-1: broker-2:7070 did not answer in time/);
    await time.pass(10_000);
    lead(1, 1, 3);
    expect(await time.until(behind, 10_000)).toMatchObject({ partition: 1, offset: 3 });
  });

  it("gets few records without key", async () => {
    const { time, first, second, client } = await setUp();
    const producer = client.producer({ lingerMs: 0, batchBytes: 200 });
    await time.until(producer.prepare("t"));
    for (const partition of [0, 1]) await time.until(producer.send("t", { value: "before", partition }));
    second.pause();
    for (let count = 0; count < 1_000; count++) {
      void producer.enqueue("t", { value: "x".repeat(100) });
      if (count % 5 === 0) await time.pass(2);
    }
    await time.pass(100);
    expect(values(first).flat().length).toBeGreaterThan(900);
    second.resume();
    await time.until(producer.flush(), 5_000);
    expect(values(first).flat()).toHaveLength(1_002);
  });
});
