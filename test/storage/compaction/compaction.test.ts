// Compaction of whole logs against a twin that knows every record ever written: the last value of each key survives, offsets never move (20).
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { createRng, type Rng } from "../../../src/base/rng.ts";
import { activateMutants } from "../../../src/base/mutant.ts";
import { CLEANUP } from "../../../src/model/config-values.ts";
import type { Offset } from "../../../src/model/ids.ts";
import {
  assignOffsets,
  attributesAt,
  BATCH_HEADER_BYTES,
  baseOffsetAt,
  batchSizeAt,
  COMPRESSIONS,
  type BatchCompression,
  DELETE_HORIZON_BIT,
  lastOffsetAt,
  leaderEpochAt,
  producerIdAt,
  recordCountAt,
  sealBatch,
} from "../../../src/model/record-batch.ts";
import { decodeRecords, RecordBatchBuilder } from "../../../src/model/records.ts";
import { loadCodecs } from "../../../src/platform/codecs.ts";
import { compact, type PassResult } from "../../../src/storage/compaction/pass.ts";
import { cleanableOf } from "../../../src/storage/compaction/plan.ts";
import { dumpLog } from "../../../src/storage/inspect-log.ts";
import { UNCONFIGURED_LOG } from "../../../src/storage/log-settings.ts";
import type { ReplicaLogImpl } from "../../../src/storage/replica-log.ts";
import type { LogStoreImpl } from "../../../src/storage/store.ts";
import { MemoryFiles } from "../memory-files.ts";
import { checksum, contentOf, makeDeps, openStore, Recorder, specOf } from "../support.ts";

afterEach(() => activateMutants([]));

const codecs = await loadCodecs();
const SETTINGS = {
  ...UNCONFIGURED_LOG,
  segmentBytes: 1500,
  indexIntervalBytes: 200,
  cleanupPolicy: CLEANUP.COMPACT,
  deleteRetentionMs: 1000,
  minCleanableDirtyRatio: 0,
  minCompactionLagMs: 0,
};

interface Row {
  readonly offset: number;
  readonly key: string;
  readonly value: string | null;
  readonly timestamp: number;
}

const text = new TextEncoder();
const str = (bytes: Uint8Array | null): string | null => (bytes === null ? null : new TextDecoder().decode(bytes));

/** A store with one compacted log, a clock of its own, and every record that was ever appended. */
class World {
  readonly files: MemoryFiles;
  readonly store: LogStoreImpl;
  readonly log: ReplicaLogImpl;
  readonly recorder: Recorder;
  readonly rows: Row[] = [];
  readonly sequences = new Map<number, number>();
  nowMs = 1_700_000_000_000;

  private constructor(parts: { files: MemoryFiles; store: LogStoreImpl; log: ReplicaLogImpl; recorder: Recorder }) {
    this.files = parts.files;
    this.store = parts.store;
    this.log = parts.log;
    this.recorder = parts.recorder;
  }

  static async open(files = new MemoryFiles()): Promise<World> {
    const deps = { ...makeDeps(files), codecs };
    const store = await openStore(files, { segmentBytes: 1500, openFilesMax: 4 }, deps);
    const recorder = new Recorder();
    store.listen(recorder);
    const log = (await store.createLog(specOf("t"))) as ReplicaLogImpl;
    log.configure(SETTINGS);
    return new World({ files, store, log, recorder });
  }

  append(
    records: readonly { key: string | null; value: string | null }[],
    options: { codec?: BatchCompression; producerId?: number; epoch?: number; spoils?: boolean } = {},
  ): Uint8Array {
    const { codec = "none", producerId = -1, epoch = 0 } = options;
    const base = this.log.endOffset;
    const builder = new RecordBatchBuilder({ limitBytes: 1 << 20 });
    for (const [place, { key, value }] of records.entries()) {
      const timestamp = 5000 + base + place;
      const headers = [["h", text.encode("x")] as const];
      const [keyBytes, valueBytes] = [key, value].map((each) => (each === null ? null : text.encode(each)));
      builder.tryAppend({ key: keyBytes ?? null, value: valueBytes ?? null, headers, timestamp });
      if (key !== null) this.rows.push({ offset: base + place, key, value, timestamp });
    }
    const baseSequence = this.sequences.get(producerId) ?? 0;
    const producer = producerId < 0 ? {} : { producer: { producerId, producerEpoch: 0, baseSequence } };
    this.sequences.set(producerId, baseSequence + records.length);
    const batch = builder.build({ compression: codec, codecs, checksum, ...producer });
    if (options.spoils === true) batch.fill(0xee, BATCH_HEADER_BYTES);
    if (options.spoils === true) sealBatch(batch, checksum);
    assignOffsets(batch, base, epoch);
    this.log.append(batch, (base + records.length - 1) as Offset, epoch as never);
    if (producerId < 0) this.log.producers.advance(this.log.endOffset);
    else
      this.log.producers.observe({
        producerId,
        producerEpoch: 0,
        baseSequence,
        baseOffset: base,
        lastOffset: this.log.endOffset - 1,
        crc: 1,
      });
    return batch;
  }

  /** Everything is in segments, synced and committed. */
  async settle(): Promise<void> {
    await this.recorder.until(() => this.log.durableEnd === this.log.endOffset);
    await this.store.checkpoint();
    this.log.noteHighWatermark(this.log.endOffset);
  }

  /** One pass, and the checkpoint that puts it in place. */
  async compact(dedupeBytes = 1 << 20): Promise<PassResult | undefined> {
    const { log } = this;
    const { startOffset, highWatermark, cleanedTo } = log;
    const looked = { segments: log.segmentViews(), startOffset, highWatermark, cleanedTo, settings: SETTINGS };
    const cleanable = cleanableOf(looked, this.nowMs);
    if (cleanable === undefined) return undefined;
    const clock = { monoMs: () => 0, wallMs: () => this.nowMs };
    const deps = { ...makeDeps(this.files), codecs, clock };
    const result = await compact(log, cleanable, {
      deps,
      dedupeBytes,
      pace: () => Promise.resolve(),
      breathe: () => Promise.resolve(),
    });
    await this.store.checkpoint();
    expect(await result.isDone).toBe(true);
    await this.store.checkpoint();
    return result;
  }
}

interface Read {
  readonly rows: (Omit<Row, "key"> & { key: string | null })[];
  readonly batches: readonly Uint8Array[];
}

async function readAll(log: ReplicaLogImpl): Promise<Read> {
  const batches = await contentOf(log);
  const rows: Read["rows"] = [];
  for (const batch of batches) {
    try {
      const options = { checksum, codecs, decompressedBytesMax: 1 << 20 };
      for (const { offset, key, value, timestamp } of decodeRecords(batch, options))
        rows.push({ offset, key: str(key), value: str(value), timestamp });
    } catch (thrown) {
      if (attributesAt(batch, 0) !== COMPRESSIONS.indexOf("gzip")) throw thrown;
    }
  }
  return { rows, batches };
}

/** What is wrong with what compaction left; undefined: nothing. */
function faultOf(read: Read, world: World): string | undefined {
  let next = 0;
  for (const batch of read.batches) {
    if (baseOffsetAt(batch, 0) !== next) return `offset ${baseOffsetAt(batch, 0)} where ${next} should be`;
    if (recordCountAt(batch, 0) === 0 && batchSizeAt(batch, 0) !== BATCH_HEADER_BYTES)
      return "an empty batch of more than its header";
    next = lastOffsetAt(batch, 0) + 1;
  }
  if (next !== world.log.endOffset) return `ends at ${next}`;
  const written = new Map(world.rows.map((row) => [row.offset, row]));
  const left = new Set<number>();
  for (const row of read.rows) {
    const original = written.get(row.offset);
    if (
      row.key !== null &&
      JSON.stringify({ ...row }) !==
        JSON.stringify({
          offset: row.offset,
          key: original?.key,
          value: original?.value,
          timestamp: original?.timestamp,
        })
    )
      return `offset ${row.offset} is another record now`;
    left.add(row.offset);
  }
  const last = new Map(world.rows.map((row) => [row.key, row]));
  for (const row of last.values()) {
    if (row.value !== null && !left.has(row.offset)) return `the last value of ${row.key}, at ${row.offset}, is gone`;
    // A tombstone may go once nothing that it deletes is left.
    const older = read.rows.find(({ key, offset }) => key === row.key && offset < row.offset);
    if (row.value === null && !left.has(row.offset) && older !== undefined)
      return `${row.key} of ${older.offset} came back to life: its tombstone at ${row.offset} is gone`;
  }
  return undefined;
}

/** S-36: of a key in the compacted part only its last record there is left. */
function duplicateIn(read: Read, below: number): string | undefined {
  const seen = new Map<string, number>();
  for (const { key, offset } of read.rows) {
    if (key === null || offset >= below) continue;
    const before = seen.get(key);
    if (before !== undefined) return `${key} is at ${before} and at ${offset}`;
    seen.set(key, offset);
  }
  return undefined;
}

function grow(world: World, rng: Rng, batches: number): void {
  for (let left = batches; left > 0; left--) {
    const records = Array.from({ length: rng.between(1, 6) }, () => ({
      key: `k${rng.below(rng.chance(0.5) ? 5 : 40)}`,
      value: rng.chance(0.2) ? null : `v${rng.below(1000)}${"x".repeat(rng.below(40))}`,
    }));
    const codec = rng.chance(0.5) ? "none" : rng.pick(COMPRESSIONS);
    world.append(records, {
      codec,
      producerId: rng.chance(0.3) ? rng.below(3) : -1,
      epoch: Math.floor(world.log.endOffset / 60),
    });
  }
}

describe("compaction", () => {
  test("S-36: the last value of each key survives at its offset, whatever came before, at each of several passes and after a restart", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 1 << 30 }), fc.integer({ min: 1, max: 4 }), async (seed, passes) => {
        const rng = createRng(seed);
        const world = await World.open();
        for (let pass = 0; pass < passes; pass++) {
          grow(world, rng, rng.between(10, 40));
          await world.settle();
          const result = await world.compact(rng.chance(0.3) ? 30_000 : 1 << 20);
          const read = await readAll(world.log);
          expect(faultOf(read, world)).toBeUndefined();
          if (result !== undefined) expect(duplicateIn(read, result.mapEnd + 1)).toBeUndefined();
          world.nowMs += rng.below(2000);
        }
        const before = await readAll(world.log);
        const table = String(
          world.log.producers
            .view()
            .map(({ producerId, batches }) => [
              producerId,
              batches.map(({ baseSequence, baseOffset }) => [baseSequence, baseOffset]),
            ]),
        );
        await world.store.close();
        const next = await World.open(new MemoryFiles(world.files.image));
        expect(String((await readAll(next.log)).batches)).toBe(String(before.batches));
        expect(next.log.cleanedTo).toBe(world.log.cleanedTo);
        expect(
          String(
            next.log.producers
              .view()
              .map(({ producerId, batches }) => [
                producerId,
                batches.map(({ baseSequence, baseOffset }) => [baseSequence, baseOffset]),
              ]),
          ),
        ).toBe(table);
      }),
      { numRuns: 25 },
    );
  });

  test.each(["S-36", "S-37", "S-38"])("planted bug %s shows", async (id) => {
    activateMutants([id]);
    const faults: string[] = [];
    for (let seed = 1; seed <= 10 && faults.length === 0; seed++) {
      const rng = createRng(seed);
      const world = await World.open();
      for (let pass = 0; pass < 3; pass++) {
        grow(world, rng, 30);
        await world.settle();
        await world.compact(30_000);
        const read = await readAll(world.log);
        const fault = faultOf(read, world) ?? windowFault(read, world) ?? tombstoneFault(read, world);
        if (fault !== undefined) faults.push(fault);
      }
    }
    expect(faults.length).toBeGreaterThan(0);
  });

  test("S-35: a map that is full ends the pass where it was full, and the next goes on there", async () => {
    const world = await World.open();
    for (let count = 0; count < 4000; count += 10)
      world.append(Array.from({ length: 10 }, (_, place) => ({ key: `key-${count + place}`, value: "v" })));
    for (let count = 0; count < 30; count++) world.append([{ key: "key-1", value: "new" }]);
    await world.settle();
    const ends: number[] = [];
    for (let result = await world.compact(64 * 1024); result !== undefined; result = await world.compact(64 * 1024)) {
      ends.push(result.mapEnd);
      expect(result.keys).toBeLessThan(4000);
      expect(ends.length).toBeLessThan(50);
    }
    expect(ends.length).toBeGreaterThan(2);
    expect(ends).toEqual(ends.toSorted((left, right) => left - right));
    expect(faultOf(await readAll(world.log), world)).toBeUndefined();
  });

  test("S-37: a tombstone stays until its horizon, which the first pass sets, and goes with a later pass", async () => {
    const world = await World.open();
    const fill = async (): Promise<void> => {
      for (let count = 0; count < 80; count++) world.append([{ key: "filler", value: "f".repeat(30) }]);
      await world.settle();
    };
    world.append([{ key: "a", value: "1" }]);
    world.append([
      { key: "a", value: null },
      { key: "b", value: "2" },
    ]);
    await fill();
    await world.compact();
    const tombstone = async () => (await readAll(world.log)).rows.find(({ key }) => key === "a");
    expect(await tombstone()).toMatchObject({ offset: 1, value: null, timestamp: 5001 });
    const batch = (await readAll(world.log)).batches.find((each) => lastOffsetAt(each, 0) === 2) as Uint8Array;
    expect(attributesAt(batch, 0) & DELETE_HORIZON_BIT).toBe(DELETE_HORIZON_BIT);
    const horizons: (number | undefined)[] = [];
    await dumpLog({ files: world.files, checksum }, "/data/t-0/00000000000000000000.log", ({ deleteHorizonMs }) => {
      horizons.push(deleteHorizonMs);
    });
    expect(horizons).toContain(world.nowMs + 1000);
    world.nowMs += 999;
    await fill();
    await world.compact();
    expect(await tombstone()).toBeDefined();
    world.nowMs += 1;
    await fill();
    await world.compact();
    expect(await tombstone()).toBeUndefined();
    expect((await readAll(world.log)).rows.find(({ key }) => key === "b")).toMatchObject({
      offset: 2,
      timestamp: 5002,
    });
    expect(faultOf(await readAll(world.log), world)).toBeUndefined();
  });

  test("S-38: what a producer's window has keeps its header; other empty batches become one, of one epoch each", async () => {
    const world = await World.open();
    for (let count = 0; count < 100; count++)
      world.append([{ key: "k", value: "v".repeat(20) }], { epoch: count < 50 ? 0 : 1 });
    world.append([{ key: "p", value: "1" }], { producerId: 7, epoch: 1 });
    for (let count = 0; count < 100; count++) world.append([{ key: "p", value: "v".repeat(20) }], { epoch: 1 });
    await world.settle();
    const before = await readAll(world.log);
    await world.compact();
    const { batches } = await readAll(world.log);
    expect(batches.length).toBeLessThan(before.batches.length / 2);
    const own = batches.find((each) => producerIdAt(each, 0) === 7) as Uint8Array;
    expect([baseOffsetAt(own, 0), lastOffsetAt(own, 0), recordCountAt(own, 0)]).toEqual([100, 100, 0]);
    const merged = batches.filter((each) => recordCountAt(each, 0) === 0 && producerIdAt(each, 0) < 0);
    expect(merged.length).toBeLessThan(20);
    // The epoch changes at 50: none reaches across it.
    for (const each of merged) expect(baseOffsetAt(each, 0) < 50).toBe(lastOffsetAt(each, 0) < 50);
    for (const each of merged) expect(leaderEpochAt(each, 0)).toBe(lastOffsetAt(each, 0) < 50 ? 0 : 1);
    for (let count = 0; count < 40; count++) world.append([{ key: "k", value: "v".repeat(20) }], { epoch: 1 });
    await world.settle();
    await world.compact();
    const again = (await readAll(world.log)).batches;
    expect(lastOffsetAt(again[0] as Uint8Array, 0)).toBeGreaterThan(lastOffsetAt(batches[0] as Uint8Array, 0));
    expect(windowFault(await readAll(world.log), world)).toBeUndefined();
  });

  test("D-15: an image of producers that ends with a batch which is another now is made anew, so that a start need not read all of the log", async () => {
    const world = await World.open();
    const { log, store } = world;
    // An image is due after 2,000 bytes.
    log.configure({ ...SETTINGS, segmentBytes: 8000 });
    const append = (value: string, producerId: number): number =>
      world.append([{ key: "k", value }], { producerId }).length;
    for (let sizeBytes = 0; sizeBytes < 7000; ) sizeBytes += append("v".repeat(20), log.endOffset % 3);
    await world.settle();
    await store.checkpoint();
    const end = log.endOffset;
    expect(log.images.ends[0]).toBe(end);
    append("v".repeat(1500), -1);
    await world.settle();
    await store.checkpoint();
    expect([log.images.ends[0], log.segments.all.at(-1)?.base]).toEqual([end, end]);
    await world.compact();
    expect(log.images.ends).toEqual([end + 1]);
    await store.close();
    const warnings: string[] = [];
    const files = new MemoryFiles(world.files.image);
    const plain = makeDeps(files);
    const logger = { ...plain.logger, warn: (event: string) => void warnings.push(event) };
    await openStore(files, { segmentBytes: 1500 }, { ...plain, codecs, logger });
    expect(warnings).toEqual([]);
  });

  test("S-43: what was read before a truncation takes no place, even where segments have the same bounds again", async () => {
    const world = await World.open();
    const fill = (value: string): void => {
      for (let count = 0; count < 30; count++) world.append([{ key: `k${count % 7}`, value: value.repeat(20) }]);
    };
    fill("a");
    await world.settle();
    const bounds = world.log.segmentViews().map(({ base }) => base);
    const looked = { segments: world.log.segmentViews(), startOffset: 0, highWatermark: 30, cleanedTo: 0 };
    const cleanable = cleanableOf({ ...looked, settings: SETTINGS }, world.nowMs);
    if (cleanable === undefined) throw new Error("nothing to clean");
    const deps = { ...makeDeps(world.files), codecs };
    let turns = 0;
    const result = await compact(world.log, cleanable, {
      deps,
      dedupeBytes: 1 << 20,
      breathe: () => Promise.resolve(),
      pace: async () => {
        // The keys are known and the first group is read.
        if (++turns !== 2) return;
        await world.log.truncate(0 as Offset);
        expect(world.log.producers.truncate(0)).toBe(true);
        world.rows.length = 0;
        fill("b");
        await world.settle();
        expect(world.log.segmentViews().map(({ base }) => base)).toEqual(bounds);
      },
    });
    await world.store.checkpoint();
    expect(await result.isDone).toBe(false);
    expect(turns).toBeGreaterThan(1);
    const read = await readAll(world.log);
    expect(faultOf(read, world)).toBeUndefined();
    expect(world.log.cleanedTo).toBe(0);
  });

  test("records without a key go, and are counted; a batch that cannot be opened stays as it is, and is counted", async () => {
    const world = await World.open();
    world.append([
      { key: null, value: "x" },
      { key: "a", value: "1" },
    ]);
    world.append([{ key: "b", value: "1".repeat(30) }], { codec: "gzip", spoils: true });
    const spoilt = (await contentOf(world.log))[1];
    world.append([{ key: "a", value: "2" }]);
    for (let count = 0; count < 100; count++) world.append([{ key: `k${count}`, value: "v".repeat(20) }]);
    await world.settle();
    expect(await world.compact()).toMatchObject({ keyless: 1, removed: 2, unreadable: 1 });
    const { rows, batches } = await readAll(world.log);
    expect(rows[0]).toMatchObject({ key: "a", value: "2" });
    expect(String(batches[1])).toBe(String(spoilt));
  });
});

/** Each batch that a producer's window has is there by itself. */
function windowFault(read: Read, world: World): string | undefined {
  const bases = new Map(read.batches.map((batch) => [baseOffsetAt(batch, 0), producerIdAt(batch, 0)]));
  for (const { producerId, batches } of world.log.producers.view())
    for (const { baseOffset } of batches)
      if (bases.get(baseOffset) !== producerId)
        return `the batch of ${producerId} at ${baseOffset} has lost its header`;
  return undefined;
}

/** No time has passed: every tombstone that is a last record is there. */
function tombstoneFault(read: Read, world: World): string | undefined {
  const left = new Set(read.rows.map(({ offset }) => offset));
  const last = new Map(world.rows.map((row) => [row.key, row]));
  for (const row of last.values())
    if (row.value === null && !left.has(row.offset)) return `the tombstone of ${row.key} at ${row.offset} is gone`;
  return undefined;
}
