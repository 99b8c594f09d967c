// The index files against a plain walk of the log: their bytes after any life of it, and after any of them was lost or damaged (S-10, S-12 to S-15); and
// what is found by time through them (S-24).
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { concatBytes } from "../../src/base/bytes.ts";
import type { LeaderEpoch, Offset } from "../../src/model/ids.ts";
import { lastOffsetAt, maxTimestampAt } from "../../src/model/record-batch.ts";
import { forEachBatch } from "../../src/model/records.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import type { LogStoreImpl } from "../../src/storage/store.ts";
import { MemoryFiles } from "./memory-files.ts";
import { makeBatch, openStore, Recorder, settle, specOf } from "./support.ts";

const INTERVAL_BYTES = 200;
const DIRECTORY = "/data/a-0";

afterEach(() => activateMutants([]));

type Step =
  | { readonly kind: "append"; readonly times: readonly number[]; readonly valueBytes: number; readonly isRun: boolean }
  | { readonly kind: "truncate"; readonly at: number }
  | { readonly kind: "checkpoint" | "restart" };

const fraction = fc.double({ min: 0, max: 1, noNaN: true });
/** Equal ones, decreasing ones, and none at all. */
const time = fc.oneof(fc.integer({ min: 0, max: 12 }), fc.constant(-1), fc.constant(7));
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant("append" as const),
      times: fc.array(time, { minLength: 1, maxLength: 12 }),
      valueBytes: fc.integer({ min: 0, max: 150 }),
      isRun: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("truncate" as const), at: fraction }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom("checkpoint" as const, "restart" as const) }) },
);

interface Batch {
  readonly base: number;
  readonly time: number;
}

class Life {
  readonly files: MemoryFiles;
  batches: Batch[] = [];
  store: LogStoreImpl | undefined;
  recorder = new Recorder();

  constructor(files = new MemoryFiles()) {
    this.files = files;
  }

  async open(): Promise<ReplicaLogImpl> {
    this.store = await openStore(this.files, { indexIntervalBytes: INTERVAL_BYTES, tailCacheBytes: 0 });
    this.recorder = new Recorder();
    this.store.listen(this.recorder);
    return (await this.store.createLog(specOf("a"))) as ReplicaLogImpl;
  }

  async settle(log: ReplicaLogImpl): Promise<void> {
    await this.recorder.until(() => log.durableEnd === log.endOffset);
  }

  /** One batch a record, so that each time has a place of its own. */
  append(log: ReplicaLogImpl, { times, valueBytes, isRun }: Extract<Step, { kind: "append" }>): void {
    const made = times.map((timestamp, place) => {
      const base = log.endOffset + place;
      this.batches.push({ base, time: timestamp });
      return makeBatch(base, { valueBytes, timestamp });
    });
    const append = (bytes: Uint8Array, count: number): void =>
      log.append(bytes, (log.endOffset + count - 1) as Offset, 0 as LeaderEpoch);
    if (isRun) append(concatBytes(made), made.length);
    else for (const batch of made) append(batch, 1);
  }

  async act(log: ReplicaLogImpl, each: Step): Promise<ReplicaLogImpl> {
    switch (each.kind) {
      case "append":
        this.append(log, each);
        return log;
      case "truncate": {
        await this.settle(log);
        const to = Math.floor(each.at * this.batches.length);
        await log.truncate(to as Offset);
        this.batches = this.batches.slice(0, to);
        return log;
      }
      case "checkpoint":
        await this.settle(log);
        await this.store?.checkpoint();
        return log;
      case "restart":
        await this.settle(log);
        await this.store?.close();
        return this.open();
    }
  }

  /** The files of the log whose names end so, by name. */
  filesOf(...suffixes: readonly string[]): Map<string, Uint8Array> {
    const directory = this.files.image.find(DIRECTORY);
    const found = new Map<string, Uint8Array>();
    if (directory?.kind !== "directory") return found;
    for (const [name, node] of directory.live)
      if (node.kind === "file" && suffixes.some((suffix) => name.endsWith(suffix)))
        found.set(name, node.live.view.slice(0, node.live.sizeBytes));
    return found;
  }
}

/** By the words of S-12, S-13 and S-10. */
function expectedIndexes(base: number, log: Uint8Array, isSealed: boolean): { index: Uint8Array; times: Uint8Array } {
  const offsets: [number, number][] = [];
  const times: [number, number][] = [];
  let newest: [number, number] = [-1, 0];
  let sinceEntry = 0;
  const addNewest = (): void => {
    if (newest[0] > (times.at(-1)?.[0] ?? -1)) times.push(newest);
  };
  forEachBatch(log, (position, sizeBytes) => {
    const relative = lastOffsetAt(log, position) - base;
    if (maxTimestampAt(log, position) > newest[0]) newest = [maxTimestampAt(log, position), relative];
    if (sinceEntry > INTERVAL_BYTES) {
      offsets.push([relative, position]);
      addNewest();
      sinceEntry = 0;
    }
    sinceEntry += sizeBytes;
  });
  if (isSealed && offsets.length > 0) addNewest();
  const index = new DataView(new ArrayBuffer(offsets.length * 8));
  for (const [place, [relative, position]] of offsets.entries()) {
    index.setInt32(place * 8, relative);
    index.setInt32(place * 8 + 4, position);
  }
  const byTime = new DataView(new ArrayBuffer(times.length * 12));
  for (const [place, [timestamp, relative]] of times.entries()) {
    byTime.setBigInt64(place * 12, BigInt(timestamp));
    byTime.setInt32(place * 12 + 8, relative);
  }
  return { index: new Uint8Array(index.buffer), times: new Uint8Array(byTime.buffer) };
}

/** The files of the indexes are those that the log asks for, and there are no others. */
function checkFiles(life: Life): Map<string, Uint8Array> {
  const logs = [...life.filesOf(".log")].sort(([one], [other]) => (one < other ? -1 : 1));
  const files = life.filesOf(".index", ".timeindex");
  const expected = new Map<string, Uint8Array>();
  for (const [place, [name, bytes]] of logs.entries()) {
    const stem = name.slice(0, -".log".length);
    const { index, times } = expectedIndexes(Number(stem), bytes, place < logs.length - 1);
    if (index.length > 0) expected.set(`${stem}.index`, index);
    if (times.length > 0) expected.set(`${stem}.timeindex`, times);
  }
  expect(files).toEqual(expected);
  return files;
}

async function checkTimes(life: Life, log: ReplicaLogImpl): Promise<void> {
  for (let wanted = 0; wanted <= 14; wanted++) {
    const found = await log.findTimestamp(wanted, log.endOffset);
    expect(found?.offset).toBe(life.batches.find((batch) => batch.time >= wanted)?.base);
  }
}

async function live(life: Life, steps: readonly Step[]): Promise<ReplicaLogImpl> {
  let log = await life.open();
  for (const each of steps) log = await life.act(log, each);
  await life.settle(log);
  return log;
}

test("S-10, S-12, S-13, S-14, S-24: after any life the index files are what the log asks for, and give what a walk of it gives", async () => {
  let entries = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40 }), async (steps) => {
      const life = new Life();
      const log = await live(life, steps);
      await checkTimes(life, log);
      await life.store?.close();
      entries += checkFiles(life).size;
      const again = await life.open();
      await checkTimes(life, again);
      await life.store?.close();
    }),
    { numRuns: 120, seed: 11 },
  );
  expect(entries).toBeGreaterThan(100);
});

type Harm = { readonly at: number; readonly kind: "gone" | "flip" | "shorter" | "stale"; readonly where: number };
const harm: fc.Arbitrary<Harm> = fc.record({
  at: fraction,
  kind: fc.constantFrom("gone" as const, "flip" as const, "shorter" as const, "stale" as const),
  where: fraction,
});

function spoil(life: Life, files: Map<string, Uint8Array>, { at, kind, where }: Harm): boolean {
  const names = [...files.keys()];
  const name = names[Math.floor(at * names.length)];
  if (name === undefined) return false;
  const path = `${DIRECTORY}/${name}`;
  const sizeBytes = (files.get(name) as Uint8Array).length;
  const entryBytes = name.endsWith(".index") ? 8 : 12;
  const { image } = life.files;
  if (kind === "gone") return image.vanish(path) && files.delete(name);
  if (kind === "flip") image.flipBit(path, Math.floor(where * sizeBytes), Math.floor(where * 8e6) % 8);
  else if (kind === "shorter") image.cutOff(path, Math.floor(where * sizeBytes));
  // What a write that was lost leaves: entries that are right, and too few.
  else image.cutOff(path, Math.floor((where * sizeBytes) / entryBytes) * entryBytes);
  return true;
}

test("S-15: an index that is gone, or damaged in any way, is made anew, byte for byte, and never gives a wrong answer", async () => {
  let spoilt = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 8, maxLength: 40 }),
      fc.array(harm, { minLength: 1, maxLength: 4 }),
      async (steps, harms) => {
        const life = new Life();
        await live(life, steps);
        await life.store?.close();
        const files = checkFiles(life);
        const left = new Map(files);
        for (const each of harms) if (spoil(life, left, each)) spoilt++;
        const log = await life.open();
        await checkTimes(life, log);
        for (const segment of log.segments.all) await log.segments.indexes.refresh(segment);
        await life.store?.close();
        expect(life.filesOf(".index", ".timeindex")).toEqual(files);
      },
    ),
    { numRuns: 150, seed: 12 },
  );
  expect(spoilt).toBeGreaterThan(100);
});

test("S-15: files that go bad beside indexes in memory are written again", async () => {
  const life = new Life();
  const log = await live(life, [
    { kind: "append", times: Array.from({ length: 60 }, (_, place) => place), valueBytes: 50, isRun: false },
    { kind: "checkpoint" },
  ]);
  const files = life.filesOf(".index", ".timeindex");
  expect(files.size).toBeGreaterThan(4);
  for (const [name] of files) life.files.image.flipBit(`${DIRECTORY}/${name}`, 3, 1);
  for (const segment of log.segments.all) expect(await log.segments.indexes.refresh(segment)).toBe(true);
  await life.store?.checkpoint();
  await life.store?.close();
  expect(checkFiles(life)).toEqual(files);
});

test("S-15: an index is held against the image's checksum; the planted bug takes an entry that rotted for a right one", async () => {
  const times = Array.from({ length: 60 }, (_, place) => place * 4);
  const life = new Life();
  await live(life, [{ kind: "append", times, valueBytes: 50, isRun: false }]);
  await life.store?.close();
  const [name] = [...life.filesOf(".timeindex").keys()];
  // The first entry's time becomes less: what is older than it was, but newer than that, seems to lie behind it.
  const path = `${DIRECTORY}/${name}`;
  const before = life.filesOf(".timeindex").get(name as string) as Uint8Array;
  const [first] = before.subarray(7, 8);
  life.files.image.corrupt(path, 7, new Uint8Array([1]));
  const find = async (): Promise<number | undefined> => {
    const log = await life.open();
    const found = await log.findTimestamp((first as number) - 5, log.endOffset);
    await life.store?.close();
    return found?.offset;
  };
  const image = life.files.image.clone();
  activateMutants(["S-15"]);
  expect(await find()).not.toBe((first as number) / 4 - 1);
  activateMutants([]);
  const rotted = new Life(new MemoryFiles(image));
  const log = await rotted.open();
  expect((await log.findTimestamp((first as number) - 5, log.endOffset))?.offset).toBe((first as number) / 4 - 1);
  await rotted.store?.close();
  expect(rotted.filesOf(".timeindex").get(name as string)).toEqual(before);
});

test("S-57: a segment that goes while a checkpoint writes its index leaves no index behind", async () => {
  const life = new Life();
  const log = await live(life, [
    { kind: "append", times: Array.from({ length: 60 }, (_, place) => place), valueBytes: 50, isRun: false },
  ]);
  const first = `${DIRECTORY}/${"0".repeat(20)}`;
  const run = life.files.run.bind(life.files);
  let remove: () => void = () => undefined;
  const removed = new Promise<void>((resolve) => {
    remove = resolve;
  });
  let isHeld = false;
  life.files.run = async (kind, path, work) => {
    if (kind === "open" && path === `${first}.index` && !isHeld) {
      isHeld = true;
      await removed;
    }
    // The last of its files to go; it may not be there yet.
    if (kind === "unlink" && path === `${first}.ident`) remove();
    return run(kind, path, work);
  };
  const checkpoint = life.store?.checkpoint();
  while (!isHeld) await settle(1);
  await log.advanceStart(30 as Offset);
  await checkpoint;
  await life.store?.close();
  expect(isHeld).toBe(true);
  expect(
    [...life.filesOf(".log", ".index", ".timeindex").keys()].filter((name) => first.endsWith(name.slice(0, 20))),
  ).toEqual([]);
  checkFiles(life);
});
