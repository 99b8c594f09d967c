// The last N records are records that a consumer sees, whatever offsets lie between them: control batches, and what compaction removed.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { utf8Encode } from "../../src/base/bytes.ts";
import { COUNTED_MAX } from "../../src/client/last-records.ts";
import { API } from "../../src/wire/native/apis.ts";
import { assignOffsets } from "../../src/model/record-batch.ts";
import { RecordBatchBuilder } from "../../src/model/records.ts";
import { emptied, encodeEmpty } from "../../src/storage/compaction/empty-batch.ts";
import { filterBatch } from "../../src/storage/compaction/batch-filter.ts";
import { FakeBroker } from "./fake-broker.ts";
import { createWorld, toyCodecs } from "./world.ts";

async function setUp() {
  const world = createWorld();
  const broker = await FakeBroker.start(world);
  broker.createTopic("t");
  const client = await world.connect();
  const { time } = world;
  const { checksum } = world.deps;
  /** One batch of as many records as `keeps` says; those of them that are false were compacted away. */
  const batch = (keeps: readonly boolean[], compression: "none" | "gzip") => {
    const builder = new RecordBatchBuilder({ limitBytes: 1 << 20 });
    for (const [at, keep] of keeps.entries())
      builder.tryAppend({ key: utf8Encode(keep ? `k${at}` : "old"), value: null, headers: [], timestamp: 1_000 });
    const whole = builder.build({ compression, codecs: toyCodecs, checksum });
    const base = broker.endOffset(broker.partition("t"));
    assignOffsets(whole, base, 1);
    const end = base + keeps.length;
    const rules = {
      lastOffsetOf: (key: Uint8Array) => (key[0] === 0x6f ? end : -1),
      mapEnd: end,
      firstDirty: 0,
      nowMs: 0,
      deleteRetentionMs: 1e9,
    };
    const filtered = filterBatch(whole, rules, { checksum, codecs: toyCodecs });
    const left = filtered.kind === "some" ? filtered.batch : encodeEmpty(emptied(whole), checksum);
    broker.partition("t").batches.push(filtered.kind === "whole" ? whole : left);
  };
  const seen = async (from: "start" | { readonly fromEnd: number }): Promise<number[]> => {
    const offsets: number[] = [];
    for await (const record of client.consumer({ topics: ["t"], from, untilEnd: true })) offsets.push(record.offset);
    return offsets;
  };
  return {
    time,
    broker,
    client,
    batch,
    seen: (from: "start" | { readonly fromEnd: number }) => time.until(seen(from)),
  };
}

describe("the last N records", () => {
  it("each trim leaves as many as it says, however many control batches come with the producers", async () => {
    const { time, broker, client, seen } = await setUp();
    for (const _round of [1, 2, 3]) {
      for (const _producer of [1, 2]) {
        for (let n = 0; n < 10; n++) broker.append("t", [`${n}`]);
        for (let n = 0; n < 7; n++) broker.appendControl("t");
      }
      await time.until(client.admin().deleteRecords("t", { fromEnd: 10 }));
      expect(await seen("start")).toHaveLength(10);
      await time.until(client.admin().deleteRecords("t", { fromEnd: 10 }));
      expect(await seen("start")).toHaveLength(10);
    }
    await time.until(client.admin().deleteRecords("t", { fromEnd: 0 }));
    expect(await seen("start")).toEqual([]);
  });

  it("a consumer that waits for N of them gets them: the end of the log has none", async () => {
    const { time, broker, client } = await setUp();
    broker.append("t", ["a", "b", "c", "d"]);
    for (let n = 0; n < 5; n++) broker.appendControl("t");
    const reading = client.consumer({ topics: ["t"], from: { fromEnd: 3 } })[Symbol.asyncIterator]();
    const offsets = [];
    for (let n = 0; n < 3; n++)
      offsets.push(((await time.until(reading.next(), 5_000)).value as { offset: number }).offset);
    expect(offsets).toEqual([1, 2, 3]);
  });

  it("are the same for any log and any N", async () => {
    const kind = fc.oneof(
      fc.constant("control" as const),
      fc.record({
        keeps: fc.array(fc.boolean(), { minLength: 1, maxLength: 12 }),
        compression: fc.constantFrom("none" as const, "gzip" as const),
      }),
    );
    const log = fc.array(kind, { minLength: 1, maxLength: 25 });
    let holed = 0;
    await fc.assert(
      fc.asyncProperty(log, fc.nat(40), fc.nat(20), async (batches, count, startAt) => {
        const { time, broker, client, batch, seen } = await setUp();
        for (const one of batches) {
          if (one === "control") broker.appendControl("t");
          else batch(one.keeps, one.compression);
        }
        const partition = broker.partition("t");
        const end = broker.endOffset(partition);
        partition.startOffset = Math.min(startAt, end);
        const all = await seen("start");
        const wanted = count === 0 ? [] : all.slice(-count);
        if (end - (wanted[0] ?? end) > wanted.length) holed++;
        expect(await seen({ fromEnd: count })).toEqual(wanted);
        const [trimmed] = await time.until(client.admin().deleteRecords("t", { fromEnd: count }));
        expect(trimmed?.error).toBeUndefined();
        expect(await seen("start")).toEqual(wanted);
        await time.until(client.close());
      }),
      { numRuns: 60, seed: 7 },
    );
    expect(holed).toBeGreaterThan(20);
  });

  it("few steps find them where nearly all was compacted away", async () => {
    const { time, broker, client, batch, seen } = await setUp();
    batch([true, true], "none");
    const { checksum } = createWorld().deps;
    const [first] = broker.partition("t").batches as [Uint8Array];
    for (let base = 2, n = 0; n < 40; n++, base += 10_000)
      broker.partition("t").batches.push(encodeEmpty({ ...emptied(first), base, last: base + 9_999 }, checksum));
    const before = broker.of(API.FETCH).length;
    const [trimmed] = await time.until(client.admin().deleteRecords("t", { fromEnd: 1 }));
    expect(trimmed).toEqual({ partition: 0, startOffset: 1 });
    expect(broker.of(API.FETCH).length - before).toBeLessThan(30);
    expect(await seen("start")).toEqual([1]);
  });

  it("what is deleted while they are counted is not among them", async () => {
    const { time, broker, client } = await setUp();
    for (let n = 0; n < 10; n++) broker.append("t", [`${n}`]);
    for (let n = 0; n < 10; n++) broker.appendControl("t");
    broker.onFetch = () => {
      broker.partition("t").startOffset = 7;
      return undefined;
    };
    const [trimmed] = await time.until(client.admin().deleteRecords("t", { fromEnd: 10 }));
    expect(trimmed).toEqual({ partition: 0, startOffset: 7 });
  });

  it("a leader that does not give them yet is asked again; one that never does ends with its words", async () => {
    const { time, broker, client } = await setUp();
    broker.append("t", ["a", "b"]);
    broker.appendControl("t");
    let refusals = 2;
    broker.onFetch = () => (refusals-- > 0 ? "NOT_LEADER_OR_FOLLOWER" : undefined);
    expect(await time.until(client.admin().deleteRecords("t", { fromEnd: 1 }))).toEqual([
      { partition: 0, startOffset: 1 },
    ]);
    broker.onFetch = () => "OFFSET_NOT_AVAILABLE";
    const [stuck] = await time.until(client.admin().deleteRecords("t", { fromEnd: 1 }, { timeoutMs: 2_000 }));
    expect(stuck).toMatchObject({ startOffset: null, error: { code: "OFFSET_NOT_AVAILABLE" } });
    expect(broker.of(API.DELETE_RECORDS)).toHaveLength(1);
  });

  it("a consumer does not take long counting for silence; a trim says that it takes too long", async () => {
    const { time, broker, client } = await setUp();
    for (let n = 0; n < 6; n++) broker.append("t", [`${n}${"x".repeat(600_000)}`]);
    broker.fetchDelayMs = 400;
    const consumer = client.consumer({ topics: ["t"], from: { fromEnd: 6 }, untilEnd: true, timeoutMs: 1_000 });
    const offsets: number[] = [];
    const reading = async () => {
      for await (const record of consumer) offsets.push(record.offset);
    };
    await time.until(reading());
    expect(offsets).toEqual([0, 1, 2, 3, 4, 5]);
    const [trimmed] = await time.until(client.admin().deleteRecords("t", { fromEnd: 6 }, { timeoutMs: 1_000 }));
    expect(trimmed?.error).toMatchObject({ code: "REQUEST_TIMED_OUT", hint: expect.stringContaining("--timeout") });
    expect(broker.of(API.DELETE_RECORDS)).toEqual([]);
  });

  it("records that stay damaged end the reading, like those that are read", async () => {
    const { time, broker, batch, seen } = await setUp();
    broker.append("t", ["a"]);
    batch([true, false, true], "none");
    const damaged = broker.partition("t").batches[1] as Uint8Array;
    const last = damaged.length - 1;
    damaged[last] = (damaged[last] ?? 0) ^ 1;
    await expect(seen({ fromEnd: 3 })).rejects.toMatchObject({ code: "CORRUPT_MESSAGE" });
    const [trimmed] = await time
      .until(broker.world.connect())
      .then((client) => time.until(client.admin().deleteRecords("t", { fromEnd: 3 }, { timeoutMs: 2_000 })));
    expect(trimmed?.error).toMatchObject({ code: "CORRUPT_MESSAGE" });
  });

  it("more than can be counted are taken by their offsets: nothing is read", async () => {
    const { time, broker, client } = await setUp();
    broker.append("t", ["a", "b"]);
    broker.appendControl("t");
    const [trimmed] = await time.until(client.admin().deleteRecords("t", { fromEnd: COUNTED_MAX + 1 }));
    expect(trimmed).toEqual({ partition: 0, startOffset: 0 });
    expect(broker.of(API.FETCH)).toEqual([]);
  });
});
