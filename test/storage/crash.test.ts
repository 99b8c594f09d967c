// Power loss and process death at every file operation of a random life, and again inside the recovery.
import { expect, test } from "vitest";
import { bytesEqual } from "../../src/base/bytes.ts";
import { createRng, type Rng } from "../../src/base/rng.ts";
import { type CrashChoices, type DiskImage, DROP_ALL, KEEP_ALL } from "../../src/sim/disk-image.ts";
import type { LogStoreImpl } from "../../src/storage/store.ts";
import { MemoryFiles } from "./memory-files.ts";
import { emptied as emptiedOf, encodeEmpty } from "../../src/storage/compaction/empty-batch.ts";
import { checksum, contentOf, makeDeps, openStore } from "./support.ts";
import { nameOf, type Snapshot, type Trace, TraceRun, traceConfig } from "./trace.ts";

const random = (rng: Rng): CrashChoices => ({
  ofWrite: () =>
    rng.chance(0.3)
      ? { kind: "torn", keepsSector: () => rng.chance(0.5) }
      : { kind: rng.chance(0.5) ? "kept" : "dropped" },
  ofExtension: () => rng.chance(0.5),
  ofTruncate: () => rng.chance(0.5),
  ofDirectory: () => rng.chance(0.5),
});

async function check(store: LogStoreImpl, snapshot: Snapshot, bound: "written" | "durable"): Promise<void> {
  for (const entry of snapshot.logs) {
    const { model } = entry;
    const log = store.find(model.spec.topicId, model.spec.partition);
    if (entry.isDeleting && log === undefined) continue;
    const where = `${snapshot.operation}, ${bound}, ${model.spec.topic}-${model.spec.partition}`;
    expect(log, where).toBeDefined();
    if (log === undefined) continue;
    expect(log.damage, where).toBeUndefined();
    expect(log.durableEnd, where).toBe(log.endOffset);
    expect(log.highWatermark, where).toBeGreaterThanOrEqual(log.startOffset);
    expect(log.highWatermark, where).toBeLessThanOrEqual(log.endOffset);
    if (log.highWatermark > log.startOffset)
      expect(log.highWatermark, where).toBeLessThanOrEqual(model.highestOf(log.truncations));
    const isEmptyAt = log.startOffset === log.endOffset && log.epochs.length === 0 ? log.endOffset : undefined;
    if (entry.resetTo !== undefined && isEmptyAt === entry.resetTo) continue;
    const content = await contentOf(log);
    const matches = model.states.findLastIndex((state) => {
      const isSame =
        state.endOffset === log.endOffset &&
        state.startOffset === log.startOffset &&
        JSON.stringify(state.epochs) === JSON.stringify(log.epochs);
      if (!isSame) return false;
      const batches = state.batches.filter((batch) => lastOf(batch) >= state.startOffset);
      return batches.length === content.length && batches.every((batch, place) => isLeft(content[place], batch, entry));
    });
    expect(
      matches,
      `${where}: no state of the log is this one (${log.startOffset}..${log.endOffset}, ${JSON.stringify(log.epochs)})`,
    ).toBeGreaterThanOrEqual(0);
    expect(matches, `${where}: older than what was reported`).toBeGreaterThanOrEqual(entry[bound]);
  }
}

/** The batch itself, or its header where a replacement took the records: which it may have from when it was handed in, and must have once it was told. */
function isLeft(
  found: Uint8Array | undefined,
  batch: Uint8Array,
  { gone, emptied }: Snapshot["logs"][number],
): boolean {
  const name = nameOf(batch);
  if (found === undefined) return false;
  if (bytesEqual(found, batch)) return !gone.has(name);
  return emptied.has(name) && bytesEqual(found, encodeEmpty(emptiedOf(batch), checksum));
}

const lastOf = (batch: Uint8Array): number => {
  const view = new DataView(batch.buffer, batch.byteOffset);
  return view.getInt32(4) + view.getInt32(23);
};

async function open(
  image: DiskImage,
  killAt = Number.POSITIVE_INFINITY,
): Promise<{ store: LogStoreImpl | undefined; files: MemoryFiles }> {
  const files = new MemoryFiles(image);
  let killed: () => void = () => undefined;
  const death = new Promise<undefined>((resolve) => {
    killed = () => resolve(undefined);
  });
  files.onOperation = ({ number }) => {
    if (number !== killAt) return;
    files.kill();
    killed();
  };
  return { store: await Promise.race([openStore(files, traceConfig, makeDeps(files)), death]), files };
}

async function checkCrash(snapshot: Snapshot, choices: CrashChoices | undefined, rng: Rng): Promise<void> {
  const image = snapshot.image.clone();
  if (choices === undefined) image.closeAll();
  else image.crash(choices);
  const bound = choices === undefined || choices === KEEP_ALL ? "written" : "durable";
  // A second crash somewhere in the recovery changes nothing.
  const second = image.clone();
  const first = await open(image);
  if (first.store === undefined) throw new Error("not opened");
  await check(first.store, snapshot, bound);
  const killAt = rng.between(1, first.files.operations);
  const half = await open(second, killAt);
  const choices2 = rng.pick([DROP_ALL, KEEP_ALL, random(rng)]);
  if (half.store === undefined) second.crash(choices2);
  else second.closeAll();
  const again = await open(second);
  if (again.store === undefined) throw new Error("not opened again");
  await check(again.store, snapshot, half.store !== undefined || choices2 === KEEP_ALL ? bound : "durable");
}

/** Crashes every so many operations of a life. */
async function crashThrough(trace: Trace, seed: number): Promise<void> {
  const rng = createRng(seed).fork("crashes");
  expect(trace.snapshots.length).toBeGreaterThan(150);
  for (const [place, snapshot] of trace.snapshots.entries()) {
    if (place % stride !== seed % stride) continue;
    await checkCrash(snapshot, rng.pick([undefined, KEEP_ALL, DROP_ALL, random(rng), random(rng)]), rng);
  }
}

// OTTLA_CRASH_SEEDS=1..40 tries more lives than a run of all tests has time for.
const [firstSeed = 1, lastSeed = 2] = (process.env["OTTLA_CRASH_SEEDS"] ?? "1..2").split("..").map(Number);
const stride = process.env["OTTLA_CRASH_SEEDS"] === undefined ? 6 : 2;

for (let seed = firstSeed; seed <= lastSeed; seed++) {
  test(`D-2, D-13: a crash at every operation of life ${seed} recovers to a state the log went through, none older than reported`, async () => {
    await crashThrough(await new TraceRun(seed, 60).run(), seed);
  });

  test(`S-41: so does one of life ${seed} whose segments are replaced, and no record comes back that a replacement took`, async () => {
    const trace = await new TraceRun(seed, 80, 0.2).run();
    expect(trace.outcomes.filter((isDone) => isDone).length).toBeGreaterThan(0);
    await crashThrough(trace, seed);
  });
}
