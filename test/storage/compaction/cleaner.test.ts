// The cleaner of a store: which log it takes, at which pace, and what does not keep it from the others (S-34, S-43, S-44).
import { expect, test } from "vitest";
import { CLEANUP } from "../../../src/model/config-values.ts";
import type { Offset } from "../../../src/model/ids.ts";
import { assignOffsets } from "../../../src/model/record-batch.ts";
import { RecordBatchBuilder } from "../../../src/model/records.ts";
import { FileError } from "../../../src/ports/files.ts";
import { UNCONFIGURED_LOG } from "../../../src/storage/log-settings.ts";
import type { ReplicaLogImpl } from "../../../src/storage/replica-log.ts";
import type { LogStoreImpl } from "../../../src/storage/store.ts";
import type { StorageDeps } from "../../../src/storage/types.ts";
import { MemoryFiles } from "../memory-files.ts";
import { checksum, codecs, makeDeps, ManualTimers, openStore, Recorder, settle, specOf } from "../support.ts";

const SETTINGS = {
  ...UNCONFIGURED_LOG,
  segmentBytes: 1000,
  indexIntervalBytes: 200,
  cleanupPolicy: CLEANUP.COMPACT,
  deleteRetentionMs: 1000,
  minCleanableDirtyRatio: 0.5,
  minCompactionLagMs: 0,
};
const BACKOFF_MS = 5000;

interface Opened {
  readonly files: MemoryFiles;
  readonly store: LogStoreImpl;
  readonly recorder: Recorder;
  readonly timers: ManualTimers;
  readonly warnings: string[];
  readonly clock: { ms: number };
}

async function opened(files = new MemoryFiles(), cleanerBytesPerSecond = 1e9): Promise<Opened> {
  const timers = new ManualTimers();
  const warnings: string[] = [];
  const clock = { ms: 0 };
  const plain = makeDeps(files, { timers });
  const logger = { ...plain.logger, warn: (event: string) => void warnings.push(event) };
  const deps: StorageDeps = { ...plain, logger, clock: { monoMs: () => clock.ms, wallMs: () => 1e12 + clock.ms } };
  const maintenance = {
    cleanerBackoffMs: BACKOFF_MS,
    cleanerDedupeBytes: 1 << 20,
    cleanerBytesPerSecond,
    scrubPeriodMs: 1e12,
    scrubBytesPerSecond: 1e9,
  };
  const store = await openStore(files, { segmentBytes: 1000, maintenance }, deps);
  const recorder = new Recorder();
  store.listen(recorder);
  return { files, store, recorder, timers, warnings, clock };
}

async function filled({ store, recorder }: Opened, topic: string, number: number): Promise<ReplicaLogImpl> {
  const log = (await store.createLog(specOf(topic, 0, number))) as ReplicaLogImpl;
  log.configure(SETTINGS);
  fill(log);
  await recorder.until(() => log.durableEnd === log.endOffset);
  await store.checkpoint();
  log.noteHighWatermark(log.endOffset);
  return log;
}

/** Eighty records of one key. */
function fill(log: ReplicaLogImpl): void {
  for (let count = 0; count < 80; count++) {
    const builder = new RecordBatchBuilder({ limitBytes: 1 << 16 });
    const bytes = Uint8Array.of(count);
    builder.tryAppend({ key: Uint8Array.of(7), value: bytes, headers: [], timestamp: 1000 });
    const batch = builder.build({ compression: "none", codecs, checksum });
    assignOffsets(batch, log.endOffset, 0);
    log.append(batch, log.endOffset, 0 as never);
    log.producers.advance(log.endOffset);
  }
}

/** Timers of up to the backoff fire until nothing more comes of it. */
async function pass({ timers, store, clock }: Opened): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    clock.ms += BACKOFF_MS;
    timers.fire(BACKOFF_MS);
    await settle(60);
  }
  await store.checkpoint();
  await settle();
}

test("S-34: dirty logs are compacted, one whose policy is another is not; a store that is closed leaves nothing half done", async () => {
  const world = await opened();
  const [log, other] = [await filled(world, "a", 1), await filled(world, "b", 2)];
  other.configure({ ...SETTINGS, cleanupPolicy: CLEANUP.DELETE });
  const [before, untouched] = [log.segments.sizeBytes, other.segments.sizeBytes];
  await pass(world);
  expect(log.segments.sizeBytes).toBeLessThan(before / 3);
  expect(log.cleanedTo).toBe(log.segments.all.at(-1)?.base);
  expect(other.segments.sizeBytes).toBe(untouched);
  await world.store.close();
  const names = (await world.files.list("/data/a-0")).map(({ name }) => name);
  expect(names.filter((name) => name.endsWith(".cleaned"))).toEqual([]);
});

test("S-43: a log that cannot be compacted does not keep the others from it, and is left alone for a while", async () => {
  const world = await opened();
  const [bad, good] = [await filled(world, "a", 1), await filled(world, "b", 2)];
  let refused = 0;
  world.files.onOperation = ({ kind, path }) => {
    if (kind !== "open" || !path.startsWith("/data/a-0/") || !path.endsWith(".cleaned")) return;
    refused++;
    throw new FileError("no-space", "open", path);
  };
  await pass(world);
  expect(good.cleanedTo).toBeGreaterThan(0);
  expect(bad.cleanedTo).toBe(0);
  expect(world.warnings).toEqual(["log_not_compacted"]);
  await pass(world);
  expect(refused).toBe(1);
  expect(world.recorder.failure).toBeUndefined();
  for (let turn = 0; turn < 8; turn++) await pass(world);
  expect(refused).toBeGreaterThan(1);
});

test("S-43: one that is damaged is left alone, one that is cut meanwhile is compacted later", async () => {
  const world = await opened();
  const [damaged, cut] = [await filled(world, "a", 1), await filled(world, "b", 2)];
  damaged.markDamaged(new Error("planted"), 0);
  world.timers.fire(BACKOFF_MS);
  await settle(60);
  await cut.truncate(3 as Offset);
  expect(cut.producers.truncate(cut.endOffset)).toBe(true);
  await world.store.checkpoint();
  expect(cut.cleanedTo).toBeLessThanOrEqual(3);
  fill(cut);
  await world.recorder.until(() => cut.durableEnd === cut.endOffset);
  await world.store.checkpoint();
  cut.noteHighWatermark(cut.endOffset);
  await pass(world);
  await pass(world);
  expect(cut.cleanedTo).toBeGreaterThan(3);
  expect(cut.damage).toBeUndefined();
  expect(damaged.cleanedTo).toBe(0);
});

test("what is read and written waits for its bytes, and a close does not", async () => {
  const world = await opened(new MemoryFiles(), 1000);
  const log = await filled(world, "a", 1);
  world.timers.fire(BACKOFF_MS);
  await settle(60);
  const waits = [...world.timers.pending.values()].map(({ delayMs }) => delayMs);
  // As much as was read, at a byte a millisecond.
  expect(waits.some((delayMs) => delayMs > log.segments.sizeBytes * 0.7 && delayMs < log.segments.sizeBytes)).toBe(
    true,
  );
  await world.store.close();
  const names = (await world.files.list("/data/a-0")).map(({ name }) => name);
  expect(names.filter((name) => name.endsWith(".cleaned"))).toEqual([]);
});

test("S-44: a log whose policy is another one while it is compacted keeps what was not written yet", async () => {
  const world = await opened(new MemoryFiles(), 100_000);
  const log = await filled(world, "a", 1);
  const before = log.segments.all.map(({ sizeBytes }) => sizeBytes);
  world.timers.fire(BACKOFF_MS);
  // The keys are in the map, and their bytes are waited for.
  await settle(20);
  log.configure({ ...SETTINGS, cleanupPolicy: CLEANUP.DELETE });
  await pass(world);
  await pass(world);
  expect(log.segments.all.map(({ sizeBytes }) => sizeBytes)).toEqual(before);
  expect(log.cleanedTo).toBe(0);
  log.configure(SETTINGS);
  for (let turn = 0; turn < 3; turn++) await pass(world);
  expect(log.cleanedTo).toBeGreaterThan(0);
});

test("D-13: a write of compaction that fails, other than on a full disk, ends the store", async () => {
  const world = await opened();
  await filled(world, "a", 1);
  world.files.onOperation = ({ kind, path }) => {
    if (kind === "write" && path.endsWith(".cleaned")) throw new FileError("io", "write", path);
  };
  await pass(world);
  expect(world.recorder.failure?.code).toBe("DISK_FAILED");
});

test("D-17: rot that compaction meets is damage of the log, and nothing of it is written anew", async () => {
  const world = await opened();
  const log = await filled(world, "a", 1);
  world.files.image.flipBit("/data/a-0/00000000000000000000.log", 100, 3);
  await pass(world);
  expect(log.damage).toBeDefined();
  expect(log.cleanedTo).toBe(0);
  expect(world.recorder.events).toContain("damaged a-0");
  const names = (await world.files.list("/data/a-0")).map(({ name }) => name);
  expect(names.filter((name) => name.endsWith(".cleaned"))).toEqual([]);
});
