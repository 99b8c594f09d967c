// D-15: whoever reads a compacted log must refuse what its leader would: a first batch, sent again, of a producer of whom nothing is left but that
// others took its place. Few producers are remembered here, so that few batches do what 10,000 do.
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../../src/base/mutant.ts";
import { CLEANUP } from "../../../src/model/config-values.ts";
import type { LeaderEpoch, Offset } from "../../../src/model/ids.ts";
import { nextToTell } from "../../../src/model/producer-carry.ts";
import { ProducerTable, PRODUCERS_MAX, sequencedAt } from "../../../src/model/producer-table.ts";
import { forgottenAsId } from "../../../src/model/sequenced-batch.ts";
import {
  assignOffsets,
  baseOffsetAt,
  producerAt,
  producerIdAt,
  recordCountAt,
} from "../../../src/model/record-batch.ts";
import { RecordBatchBuilder } from "../../../src/model/records.ts";
import { loadCodecs } from "../../../src/platform/codecs.ts";
import { compact } from "../../../src/storage/compaction/pass.ts";
import { cleanableOf } from "../../../src/storage/compaction/plan.ts";
import { UNCONFIGURED_LOG } from "../../../src/storage/log-settings.ts";
import { observeBatch } from "../../../src/storage/producer-replay.ts";
import type { ReplicaLogImpl } from "../../../src/storage/replica-log.ts";
import type { LogStoreImpl } from "../../../src/storage/store.ts";
import { MemoryFiles } from "../memory-files.ts";
import { checksum, contentOf, makeDeps, openStore, Recorder, specOf } from "../support.ts";

afterEach(() => activateMutants([]));

const codecs = await loadCodecs();
const NOW_MS = 1_700_000_000_000;
const SMALL = { segmentBytes: 1_500, openFilesMax: 4 };
const SETTINGS = {
  ...UNCONFIGURED_LOG,
  segmentBytes: SMALL.segmentBytes,
  indexIntervalBytes: 200,
  cleanupPolicy: CLEANUP.COMPACT,
  deleteRetentionMs: 1_000,
  minCleanableDirtyRatio: 0,
  minCompactionLagMs: 0,
};
const nothing = (): Promise<void> => Promise.resolve();

/** One compacted log of one key, and every producer that ever wrote to it. */
class World {
  readonly files = new MemoryFiles();
  readonly wrote = new Set<number>();
  readonly #next = new Map<number, number>();
  readonly #recorder = new Recorder();
  readonly #most: number;
  store!: LogStoreImpl;
  log!: ReplicaLogImpl;

  constructor(most: number) {
    this.#most = most;
  }

  static async open(most: number): Promise<World> {
    const world = new World(most);
    world.store = await openStore(world.files, SMALL, { ...makeDeps(world.files), codecs });
    world.store.listen(world.#recorder);
    world.log = (await world.store.createLog(specOf("t"))) as ReplicaLogImpl;
    world.log.configure(SETTINGS);
    world.log.producers = new ProducerTable(0, most);
    return world;
  }

  /** One record of the one key; as its client would, a producer that was forgotten goes on in a new epoch. */
  write(producerId: number): void {
    const { log } = this;
    const next = log.producers.nextOf(producerId);
    const epoch = next?.producerEpoch ?? (this.#next.get(producerId) ?? -1) + 1;
    this.#next.set(producerId, epoch);
    this.wrote.add(producerId);
    const builder = new RecordBatchBuilder({ limitBytes: 1 << 16 });
    builder.tryAppend({
      key: new Uint8Array([1]),
      value: new Uint8Array(20),
      headers: [],
      timestamp: NOW_MS - 1_000_000,
    });
    const producer = { producerId, producerEpoch: epoch, baseSequence: next?.baseSequence ?? 0 };
    const batch = builder.build({ compression: "none", codecs, checksum, producer });
    assignOffsets(batch, log.endOffset, 0);
    log.producers.observe(sequencedAt(batch, 0));
    log.append(batch, log.endOffset, 0 as LeaderEpoch);
  }

  /** Everything is in segments, synced and committed. */
  async settle(): Promise<void> {
    const { log } = this;
    await this.#recorder.until(() => log.durableEnd === log.endOffset);
    log.noteHighWatermark(log.endOffset);
    log.producers.settle(log.endOffset);
    await this.store.checkpoint();
    await this.store.checkpoint();
  }

  async compact(): Promise<void> {
    const { log } = this;
    const { startOffset, highWatermark, cleanedTo } = log;
    const looked = { segments: log.segmentViews(), startOffset, highWatermark, cleanedTo, settings: SETTINGS };
    const cleanable = cleanableOf(looked, NOW_MS);
    if (cleanable === undefined) return;
    const deps = { ...makeDeps(this.files), codecs, clock: { monoMs: () => 0, wallMs: () => NOW_MS } };
    const result = await compact(log, cleanable, { deps, dedupeBytes: 1 << 20, pace: nothing, breathe: nothing });
    await this.store.checkpoint();
    expect(await result.isDone).toBe(true);
  }

  /** As a replica that copies the log from its beginning comes to know its producers. */
  async reader(): Promise<ProducerTable> {
    const table = new ProducerTable(0, this.#most);
    for (const batch of await contentOf(this.log)) observeBatch(table, batch, 0);
    return table;
  }
}

const firstAgain = (table: ProducerTable, producerId: number, producerEpoch = 0) =>
  table.check({ producerId, producerEpoch, baseSequence: 0, recordCount: 1, crc: 1, isResent: true });
/** But for contents, which compaction changes. */
const windowsOf = (table: ProducerTable) =>
  table.view().map(({ batches, ...view }) => ({ ...view, batches: batches.map((batch) => ({ ...batch, crc: 0 })) }));
const UNKNOWN = { kind: "refused", error: "UNKNOWN_PRODUCER_ID" };

/** Producer 9 made room for others, and nothing of it is left. */
async function forgotten(): Promise<World> {
  const world = await World.open(2);
  world.write(9);
  for (let count = 0; count < 60; count++) world.write(count % 2);
  await world.settle();
  await world.compact();
  expect((await contentOf(world.log)).some((batch) => producerIdAt(batch, 0) === 9)).toBe(false);
  return world;
}

describe("a producer of which compaction left nothing", () => {
  test("is refused by who reads the log afterwards, too, when its first batch is sent again", async () => {
    const world = await forgotten();
    expect(firstAgain(world.log.producers, 9)).toEqual(UNKNOWN);
    const reader = await world.reader();
    expect(firstAgain(reader, 9)).toEqual(UNKNOWN);
    // It is refused that batch, not for ever: its client goes on in a new epoch, which was not sent before.
    const next = { producerId: 9, producerEpoch: 1, baseSequence: 0, recordCount: 1, crc: 1, isResent: false };
    expect(reader.check(next)).toEqual({ kind: "new" });
    // Of a producer that cannot have been there it is a first one, whoever leads.
    for (const table of [reader, world.log.producers]) expect(firstAgain(table, 10)).toEqual({ kind: "new" });
    expect(reader.equals(world.log.producers)).toBe(true);
  });

  test("D-15g: the planted bug writes it twice", async () => {
    activateMutants(["D-15g"]);
    const world = await forgotten();
    expect(firstAgain(world.log.producers, 9)).toEqual(UNKNOWN);
    expect(firstAgain(await world.reader(), 9)).toEqual({ kind: "new" });
  });

  test("also where it came back, and another one of a lower id did not", async () => {
    const world = await World.open(2);
    for (const id of [9, 5, 0, 1]) world.write(id);
    world.write(9);
    for (let count = 0; count < 60; count++) world.write(count % 2 === 0 ? 9 : 1);
    await world.settle();
    await world.compact();
    expect(firstAgain(await world.reader(), 5)).toEqual(UNKNOWN);
  });

  test("also after a second pass, and in the part of an empty batch that a follower lacks", async () => {
    const world = await forgotten();
    for (let count = 0; count < 60; count++) world.write(count % 2);
    await world.settle();
    await world.compact();
    expect(firstAgain(await world.reader(), 9)).toEqual(UNKNOWN);
    const [first] = await contentOf(world.log);
    expect([baseOffsetAt(first as Uint8Array, 0), recordCountAt(first as Uint8Array, 0)]).toEqual([0, 0]);
    const wish = { limitOffset: world.log.endOffset, maxBytes: 1, atLeastOne: true, isFollowing: true };
    const { chunks } = await world.log.read(1 as Offset, wish);
    const part = chunks[0] as Uint8Array;
    expect([baseOffsetAt(part, 0), producerAt(part, 0)]).toEqual([
      1,
      { producerId: forgottenAsId(9), producerEpoch: -1, baseSequence: -1 },
    ]);
  });

  test("is not told of where it may be known again: it made room for what is not committed", async () => {
    const world = await World.open(2);
    for (let count = 0; count < 60; count++) world.write(8 + (count % 2));
    await world.settle();
    const end = world.log.endOffset;
    world.write(1);
    world.write(2);
    expect([world.log.producers.forgottenMaxId, world.log.producers.settledForgottenMaxId]).toEqual([9, -1]);
    await world.compact();
    expect(world.log.producers.truncate(end)).toBe(true);
    const table = new ProducerTable(0, 2);
    for (const batch of await contentOf(world.log)) if (baseOffsetAt(batch, 0) < end) observeBatch(table, batch, 0);
    expect(table.equals(world.log.producers)).toBe(true);
    expect(firstAgain(table, 3)).toEqual({ kind: "new" });
  });

  test("at its full size: a start that has lost its images of producers knows no less", async () => {
    const world = await World.open(PRODUCERS_MAX);
    const forgottenId = 2 * PRODUCERS_MAX;
    world.write(forgottenId);
    for (let id = 0; id < PRODUCERS_MAX + 20; id++) world.write(id);
    await world.settle();
    await world.compact();
    await world.settle();
    world.files.kill();
    const directory = world.files.image.find("/data/t-0");
    const names = directory?.kind === "directory" ? [...directory.live.keys()] : [];
    const images = names.filter((name) => name.endsWith(".producers"));
    expect(images.length).toBeGreaterThan(0);
    for (const name of images) world.files.image.unlink(`/data/t-0/${name}`);
    const files = new MemoryFiles(world.files.image);
    const after = await openStore(files, SMALL, { ...makeDeps(files), codecs });
    const { producers } = [...after.logs][0] as ReplicaLogImpl;
    expect([producers.size, producers.forgottenMaxId]).toEqual([PRODUCERS_MAX, forgottenId]);
    expect(firstAgain(producers, forgottenId)).toEqual(UNKNOWN);
  });
});

describe("whoever reads a compacted log", () => {
  test("knows or refuses everybody who ever wrote to it, and refuses nobody whom its leader would not", async () => {
    let [absent, passes] = [0, 0];
    const step = fc.oneof(
      { weight: 30, arbitrary: fc.record({ write: fc.nat(7), times: fc.integer({ min: 1, max: 8 }) }) },
      { weight: 2, arbitrary: fc.constant("compact" as const) },
    );
    const property = fc.asyncProperty(
      fc.array(step, { minLength: 30, maxLength: 80 }),
      fc.integer({ min: 1, max: 4 }),
      async (steps, most) => {
        const world = await World.open(most);
        for (const one of [...steps, "compact" as const]) {
          if (one !== "compact") {
            for (let left = one.times; left > 0; left--) world.write(one.write);
            continue;
          }
          await world.settle();
          await world.compact();
          passes++;
          const { producers } = world.log;
          const reader = await world.reader();
          expect(windowsOf(reader)).toEqual(windowsOf(producers));
          expect(reader.forgottenMaxId).toBeLessThanOrEqual(producers.forgottenMaxId);
          for (const id of world.wrote) {
            if (reader.nextOf(id) !== undefined) continue;
            absent++;
            expect(firstAgain(reader, id)).toEqual(UNKNOWN);
          }
        }
      },
    );
    await fc.assert(property, { numRuns: 40 });
    expect(passes).toBeGreaterThan(60);
    expect(absent).toBeGreaterThan(60);
  });

  test("tells of it before its log begins further up, though a control batch of before knew of fewer", () => {
    const table = new ProducerTable(0, 2);
    const place = { producerEpoch: -1, baseSequence: -1, crc: 0 };
    table.observe({ ...place, producerId: forgottenAsId(9), baseOffset: 0, lastOffset: 40 });
    const told = { kind: "carried" as const, producers: [], forgottenMaxId: 5, rememberedFrom: 41 };
    table.observe({ ...place, producerId: -1, baseOffset: 41, lastOffset: 41, told });
    const question = { startOffset: 41, nowMs: 1, expirationMs: 1, mayExpire: true };
    expect(nextToTell(table, question)).toMatchObject({ kind: "carried", forgottenMaxId: 9 });
    // All of it is taken back with the log.
    expect([table.truncate(41), table.forgottenMaxId]).toEqual([true, 9]);
    expect([table.truncate(0), table.forgottenMaxId]).toEqual([true, -1]);
  });
});
