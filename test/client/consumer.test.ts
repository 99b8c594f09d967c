import { describe, expect, it } from "vitest";
import type { ConsumerOptions } from "../../src/client/types.ts";
import type { OttlaError } from "../../src/model/errors.ts";
import { RecordBatchBuilder } from "../../src/model/records.ts";
import { API } from "../../src/wire/native/apis.ts";
import { createAbort } from "./abort.ts";
import { all, setUp, text } from "./consuming.ts";
import { toyCodecs } from "./world.ts";

const failure = (promise: Promise<unknown>): Promise<OttlaError> =>
  promise.then(
    () => {
      throw new Error("did not fail");
    },
    (error: OttlaError) => error,
  );

const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => String(from + index));

describe("consumer: reading", () => {
  it("reads to the end that was current at the start, and stops", async () => {
    const { time, broker, consume } = await setUp(3);
    for (const index of [0, 1, 2])
      for (let n = 0; n < 5; n++) broker.append("t", [`${index}:${n}a`, `${index}:${n}b`], index);
    const reading = all(consume({ untilEnd: true }));
    const seen = await time.until(reading);
    expect(seen).toHaveLength(30);
    for (const index of [0, 1, 2]) {
      const own = seen.filter((value) => value.startsWith(`${index}:`));
      expect(own).toEqual(own.toSorted());
    }
  });

  it("ends at once on an empty topic with untilEnd", async () => {
    const { time, consume } = await setUp();
    expect(await time.until(all(consume({ untilEnd: true })), 100)).toEqual([]);
  });

  it("gives no record appended after the start with untilEnd, not even of a batch fetched along", async () => {
    const { time, broker, consume } = await setUp();
    broker.append("t", ["a", "b"]);
    const consumer = consume({ untilEnd: true })[Symbol.asyncIterator]();
    expect(text((await time.until(consumer.next())).value)).toBe("a");
    broker.append("t", ["late"]);
    expect(text((await time.until(consumer.next())).value)).toBe("b");
    expect((await time.until(consumer.next())).done).toBe(true);
  });

  it("S-19: skips records below the position in the first batch", async () => {
    const { time, broker, consume } = await setUp();
    broker.append("t", numbers(0, 10));
    broker.append("t", numbers(10, 20));
    expect(await time.until(all(consume({ from: { offset: 7 }, untilEnd: true })))).toEqual(numbers(7, 20));
    const views = [];
    for await (const view of collect(consume({ from: { offset: 7 }, untilEnd: true }).batches(), time))
      views.push(view);
    expect(views.map((view) => view.recordCount)).toEqual([3, 10]);
    expect(views.map((view) => view.topicId)).toEqual(Array(2).fill(broker.topics.get("t")?.topicId));
    expect([...(views[0] ?? [])].map(text)).toEqual(numbers(7, 10));
  });

  it("D-33: skips control batches and goes on after them", async () => {
    const { time, broker, consume } = await setUp();
    broker.appendControl("t");
    broker.append("t", ["a"]);
    broker.appendControl("t");
    broker.append("t", ["b"]);
    broker.appendControl("t");
    const consumer = consume({ untilEnd: true });
    expect(await time.until(all(consumer))).toEqual(["a", "b"]);
    expect(consumer.position("t", 0)).toBe(5);
  });

  it("takes answers in several parts", async () => {
    const { time, broker, consume } = await setUp(5);
    broker.entriesPerPart = 1;
    for (let index = 0; index < 5; index++) for (let n = 0; n < 4; n++) broker.append("t", [`${index}${n}`], index);
    expect(await time.until(all(consume({ untilEnd: true, maxPartitionBytes: 100 })))).toHaveLength(20);
  });

  it("starts where it is told", async () => {
    const { time, broker, consume } = await setUp();
    broker.append("t", numbers(0, 10));
    const from = async (start: ConsumerOptions["from"]) =>
      await time.until(all(consume({ ...(start === undefined ? {} : { from: start }), untilEnd: true })));
    expect(await from(undefined)).toHaveLength(10);
    expect(await from("end")).toHaveLength(0);
    expect(await from({ fromEnd: 3 })).toEqual(numbers(7, 10));
    expect(await from({ fromEnd: 100 })).toHaveLength(10);
    expect(await from({ timestamp: 500 })).toHaveLength(10);
    expect(await from({ timestamp: 5_000 })).toHaveLength(0);
  });

  it("waits for records with long polls, and gives them when they come", async () => {
    const { time, broker, consume } = await setUp();
    const consumer = consume({ from: "end", maxWaitMs: 500 })[Symbol.asyncIterator]();
    const next = consumer.next();
    await time.pass(2_600);
    expect(broker.of(API.FETCH).length).toBeLessThanOrEqual(7);
    broker.append("t", ["news"]);
    expect(text((await time.until(next)).value)).toBe("news");
  });

  it("fetches ahead, but no more than its bound", async () => {
    const { time, broker, consume } = await setUp();
    for (let n = 0; n < 100; n++) broker.append("t", [`${n} ${"x".repeat(1_000)}`]);
    const consumer = consume({ maxBytes: 5_000, maxPartitionBytes: 5_000 })[Symbol.asyncIterator]();
    await time.until(consumer.next());
    await time.pass(10_000);
    const ahead = broker.of(API.FETCH).length;
    expect(ahead).toBeGreaterThanOrEqual(2);
    expect(ahead).toBeLessThanOrEqual(3);
    for (let n = 1; n < 100; n++) expect(text((await time.until(consumer.next())).value)).toMatch(new RegExp(`^${n} `));
  });

  it("reads partitions in turn, none starving", async () => {
    const { time, broker, consume } = await setUp(4);
    for (let index = 0; index < 4; index++) for (let n = 0; n < 50; n++) broker.append("t", [String(index)], index);
    const seen = await time.until(all(consume({ untilEnd: true, maxPartitionBytes: 300 })));
    const firstOfEach = [0, 1, 2, 3].map((index) => seen.indexOf(String(index)));
    expect(seen).toHaveLength(200);
    expect(Math.max(...firstOfEach)).toBeLessThan(40);
  });
});

describe("consumer: moving and ending", () => {
  it("seeks while it is being iterated, dropping what was fetched", async () => {
    const { time, broker, consume } = await setUp();
    broker.append("t", numbers(0, 10));
    broker.append("t", numbers(10, 20));
    const consumer = consume();
    const iterator = consumer[Symbol.asyncIterator]();
    const next = async () => text((await time.until(iterator.next())).value);
    expect(await next()).toBe("0");
    consumer.seek("t", 0, { offset: 15 });
    expect(consumer.position("t", 0)).toBe(15);
    expect(await next()).toBe("15");
    consumer.seek("t", 0, "start");
    expect(await next()).toBe("0");
    consumer.seek("t", 0, { fromEnd: 1 });
    expect(await next()).toBe("19");
    expect(() => consumer.seek("t", 9, "start")).toThrow(/does not read/);
  });

  it("takes nothing of a fetch that was under way when it moved", async () => {
    const { time, broker, consume } = await setUp();
    for (let n = 0; n < 20; n++) broker.append("t", [String(n)]);
    broker.fetchDelayMs = 50;
    const consumer = consume({ maxPartitionBytes: 150 });
    const iterator = consumer[Symbol.asyncIterator]();
    const next = async () => text((await time.until(iterator.next())).value);
    expect(await next()).toBe("0");
    await time.pass(10);
    consumer.seek("t", 0, { offset: 0 });
    const seen = [];
    for (let n = 0; n < 20; n++) seen.push(await next());
    expect(seen).toEqual(numbers(0, 20));
  });

  it("ends quietly when its signal fires, and when closed from elsewhere", async () => {
    const { time, consume } = await setUp();
    const { signal, abort, listeners } = createAbort();
    const aborted = all(consume({ signal }));
    const consumer = consume();
    const closed = all(consumer);
    await time.pass(100);
    abort();
    await consumer.close();
    expect(await time.until(Promise.all([aborted, closed]), 1)).toEqual([[], []]);
    expect(listeners.size).toBe(0);
    expect(await all(consume({ signal }))).toEqual([]);
  });

  it("is closed by leaving the loop, and iterated once only", async () => {
    const { time, broker, consume } = await setUp();
    broker.append("t", numbers(0, 3));
    const consumer = consume();
    const leave = async () => {
      for await (const record of consumer) if (text(record) === "1") break;
    };
    await time.until(leave());
    expect(consumer.position("t", 0)).toBe(2);
    expect(() => consumer[Symbol.asyncIterator]()).toThrow(/once/);
  });

  it("ends with the client", async () => {
    const { time, client, consume } = await setUp();
    const reading = all(consume());
    await time.pass(10);
    await time.until(client.close());
    expect(await time.until(reading, 1)).toEqual([]);
  });
});

describe("consumer: damage", () => {
  it("S-46: STORAGE_ERROR ends the read after five answers, what else was fetched is given first", async () => {
    const { time, broker, consume } = await setUp(2);
    broker.append("t", ["fine"], 0);
    broker.append("t", ["also fine"], 1);
    broker.append("t", ["damaged"], 1);
    let refusals = 0;
    broker.onFetch = ({ partition, offset }) => {
      if (partition === 0 || offset < 1) return undefined;
      refusals++;
      return "STORAGE_ERROR";
    };
    const seen: string[] = [];
    const read = async () => {
      for await (const record of consume({ maxPartitionBytes: 50 })) seen.push(text(record));
    };
    const startMs = time.nowMs;
    const error = await failure(time.until(read()));
    expect(error).toMatchObject({ code: "STORAGE_ERROR" });
    expect(error.message).toContain("t-1 at offset 1");
    expect(seen.toSorted()).toEqual(["also fine", "fine"]);
    expect(refusals).toBe(5);
    expect(time.nowMs - startMs).toBeGreaterThan(1_500);
    expect(time.nowMs - startMs).toBeLessThan(5_000);
  });

  it("bears STORAGE_ERROR that passes, however often it comes again", async () => {
    const { time, broker, consume } = await setUp();
    for (let n = 0; n < 10; n++) broker.append("t", [String(n)]);
    const refusals = new Map<number, number>();
    broker.onFetch = ({ offset }) => {
      const count = (refusals.get(offset) ?? 0) + 1;
      refusals.set(offset, count);
      return count <= 4 ? "STORAGE_ERROR" : undefined;
    };
    expect(await time.until(all(consume({ untilEnd: true, maxPartitionBytes: 50 })))).toEqual(numbers(0, 10));
  });

  it("ends at a damaged batch although other partitions are fine, and can seek past it", async () => {
    const { time, broker, client, consume } = await setUp(2);
    for (let n = 0; n < 50; n++) broker.append("t", [`fine ${n}`], 0);
    broker.append("t", ["a", "b"], 1);
    broker.append("t", ["c"], 1);
    const damaged = broker.partition("t", 1).batches[0] as Uint8Array;
    damaged[damaged.length - 2] = 0;
    const error = await failure(time.until(all(consume({ maxPartitionBytes: 100 }))));
    expect(error).toMatchObject({ code: "CORRUPT_MESSAGE" });
    expect(error.message).toMatch(/t-1 at offset 0, .* ends with offset 1/);
    const next = client.consumer({ topics: ["t"], partitions: [1], untilEnd: true });
    next.seek("t", 1, { offset: 2 });
    expect(await time.until(all(next))).toEqual(["c"]);
  });

  it("ends at garbage inside a right checksum, naming the offset, and can seek past it", async () => {
    const { world, time, broker, consume } = await setUp();
    broker.append("t", ["fine"]);
    const garbage = new RecordBatchBuilder({ limitBytes: 1_000 });
    garbage.tryAppend({ key: null, value: new Uint8Array(100), headers: [], timestamp: 1 });
    const { checksum } = world.deps;
    const codecs = { ...toyCodecs, compress: () => new Uint8Array(50).fill(7) };
    broker.appendBatch("t", garbage.build({ compression: "gzip", codecs, checksum }));
    broker.append("t", ["behind"]);
    const seen: string[] = [];
    const read = async () => {
      for await (const record of consume()) seen.push(text(record));
    };
    const error = await failure(time.until(read()));
    expect(error.code).toMatch(/^(INVALID_RECORD|CORRUPT_MESSAGE)$/);
    expect(error.message).toContain("t-0 at offset 1");
    expect(seen).toEqual(["fine"]);
    expect(await time.until(all(consume({ from: { offset: 2 }, untilEnd: true })))).toEqual(["behind"]);
  });
});

describe("consumer: trouble", () => {
  it("S-25: takes what a new leader gives that cannot say where the partition ends, and shows no end that goes back", async () => {
    const { time, broker, consume } = await setUp();
    for (const value of ["a", "b", "c"]) broker.append("t", [value]);
    let fetched = 0;
    broker.onFetch = ({ offset }) => {
      broker.isEndUnknown = ++fetched > 1;
      return offset === 3 && fetched < 6 ? "OFFSET_NOT_AVAILABLE" : undefined;
    };
    const ends: number[] = [];
    const read = async () => {
      for await (const batch of consume({ maxPartitionBytes: 1 }).batches()) {
        ends.push(batch.highWatermark);
        if (ends.length === 3) broker.append("t", ["d"]);
        if (ends.length === 4) break;
      }
    };
    await time.until(read());
    expect(ends).toEqual([3, 3, 3, 4]);
  });

  it("an explicit start beyond the end follows onOutOfRange, also with untilEnd; the error names the range", async () => {
    const { time, broker, consume } = await setUp();
    broker.append("t", numbers(0, 10));
    broker.append("t", numbers(10, 15));
    broker.partition("t").batches.shift();
    broker.partition("t").startOffset = 10;
    const from = { offset: 99 };
    expect(await time.until(all(consume({ from, untilEnd: true })))).toEqual(numbers(10, 15));
    expect(await time.until(all(consume({ from, untilEnd: true, onOutOfRange: "end" })))).toEqual([]);
    for (const untilEnd of [true, false]) {
      const error = await failure(time.until(all(consume({ from, untilEnd, onOutOfRange: "error" }))));
      expect(error).toMatchObject({ code: "OFFSET_OUT_OF_RANGE" });
      expect(error.message).toMatch(/t-0: offset 99 .*\[10, 15\]/);
    }
    const consumer = consume({ from: { offset: 15 }, untilEnd: true });
    expect(await time.until(all(consumer))).toEqual([]);
    expect(consumer.position("t", 0)).toBe(15);
  });

  it("onOutOfRange: starts anew, at either end, or fails", async () => {
    const { time, broker, consume } = await setUp();
    broker.append("t", numbers(0, 5));
    broker.append("t", numbers(5, 10));
    broker.partition("t").batches.shift();
    broker.partition("t").startOffset = 5;
    const from = { offset: 2 };
    expect(await time.until(all(consume({ from, untilEnd: true })))).toEqual(numbers(5, 10));
    expect(await time.until(all(consume({ from, untilEnd: true, onOutOfRange: "end" })))).toEqual([]);
    const error = await failure(time.until(all(consume({ from, onOutOfRange: "error" }))));
    expect(error).toMatchObject({ code: "OFFSET_OUT_OF_RANGE" });
  });

  it("shows every record once across lost connections", async () => {
    const { time, broker, consume } = await setUp(2);
    for (let n = 0; n < 60; n++) broker.append("t", [`${n % 2}:${String(n).padStart(3, "0")}`], n % 2);
    let fetches = 0;
    broker.onFetch = () => (++fetches % 3 === 0 ? "cut" : undefined);
    const seen = await time.until(all(consume({ untilEnd: true, maxPartitionBytes: 200 })));
    expect(fetches).toBeGreaterThan(6);
    expect(new Set(seen).size).toBe(60);
    expect(seen).toHaveLength(60);
    for (const index of [0, 1]) {
      const own = seen.filter((value) => value.startsWith(`${index}:`));
      expect(own).toEqual(own.toSorted());
    }
  });

  it("tries again on errors that pass, with a pause", async () => {
    const { time, broker, consume } = await setUp();
    broker.append("t", ["a"]);
    let errors = 5;
    broker.onFetch = () => (errors-- > 0 ? "NOT_LEADER_OR_FOLLOWER" : undefined);
    const startMs = time.nowMs;
    expect(await time.until(all(consume({ untilEnd: true })))).toEqual(["a"]);
    expect(time.nowMs - startMs).toBeGreaterThan(200);
    expect(broker.of(API.METADATA).length).toBeGreaterThanOrEqual(6);
  });

  it("fails on an error that does not pass, after what it already has", async () => {
    const { time, broker, consume } = await setUp();
    broker.append("t", ["a"]);
    broker.onFetch = ({ offset }) => (offset > 0 ? "INVALID_REQUEST" : undefined);
    const iterator = consume()[Symbol.asyncIterator]();
    expect(text((await time.until(iterator.next())).value)).toBe("a");
    expect(await failure(time.until(iterator.next()))).toMatchObject({ code: "INVALID_REQUEST" });
  });

  it("fetches a damaged batch again, and fails when it stays damaged", async () => {
    const { time, broker, consume } = await setUp();
    broker.append("t", ["good"]);
    broker.append("t", ["bad"]);
    const damaged = broker.partition("t").batches[1] as Uint8Array;
    damaged[damaged.length - 2] = 0;
    const iterator = consume()[Symbol.asyncIterator]();
    expect(text((await time.until(iterator.next())).value)).toBe("good");
    expect(await failure(time.until(iterator.next()))).toMatchObject({ code: "CORRUPT_MESSAGE" });
    expect(broker.of(API.FETCH).length).toBeGreaterThan(3);
  });

  it("starts anew on a topic that was deleted and created again", async () => {
    const { time, broker, consume } = await setUp();
    broker.append("t", numbers(0, 5));
    const iterator = consume()[Symbol.asyncIterator]();
    for (let n = 0; n < 5; n++) await time.until(iterator.next());
    broker.createTopic("t");
    broker.append("t", ["new"]);
    expect(text((await time.until(iterator.next())).value)).toBe("new");
  });

  it("fails when the topic is gone for good, and when it never was", async () => {
    const { time, broker, consume, client } = await setUp();
    broker.append("t", ["a"]);
    const iterator = consume()[Symbol.asyncIterator]();
    await time.until(iterator.next());
    broker.topics.delete("t");
    expect(await failure(time.until(iterator.next(), 20_000))).toMatchObject({ code: "UNKNOWN_TOPIC_OR_PARTITION" });
    const never = all(client.consumer({ topics: ["nowhere"] }));
    expect(await failure(time.until(never))).toMatchObject({ code: "UNKNOWN_TOPIC_OR_PARTITION" });
  });
});

/** Lets virtual time pass while a foreign loop waits. */
async function* collect<T>(source: AsyncIterable<T>, time: { until<R>(promise: Promise<R>): Promise<R> }) {
  const iterator = source[Symbol.asyncIterator]();
  for (;;) {
    const result = await time.until(iterator.next());
    if (result.done === true) return;
    yield result.value;
  }
}
