// Files that take the place of segments (S-41): by a checkpoint or not at all, at every crash; and what waits for them or is in their way.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { Offset } from "../../src/model/ids.ts";
import { baseOffsetAt } from "../../src/model/record-batch.ts";
import { FileError } from "../../src/ports/files.ts";
import { type CrashChoices, type DiskImage, DROP_ALL, KEEP_ALL } from "../../src/sim/disk-image.ts";
import { emptied, encodeEmpty } from "../../src/storage/compaction/empty-batch.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import { ReplacementWriter } from "../../src/storage/replacement-writer.ts";
import type { LogStoreImpl } from "../../src/storage/store.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, checksum, contentOf, type ManualTimers, openStore, Recorder, settle, specOf } from "./support.ts";

afterEach(() => activateMutants([]));

const config = { segmentBytes: 400, indexIntervalBytes: 100, openFilesMax: 3 };

interface Prepared {
  readonly files: MemoryFiles;
  readonly store: LogStoreImpl;
  readonly log: ReplicaLogImpl;
  readonly batches: Uint8Array[];
}

/** Four segments and more, all synced and below the high watermark. */
async function prepared(): Promise<Prepared> {
  const files = new MemoryFiles();
  const store = await openStore(files, config);
  const recorder = new Recorder();
  store.listen(recorder);
  const log = (await store.createLog(specOf("a"))) as ReplicaLogImpl;
  const batches = Array.from({ length: 16 }, () => appendBatch(log));
  await recorder.until(() => log.durableEnd === 16);
  await store.checkpoint();
  log.noteHighWatermark(16 as Offset);
  return { files, store, log, batches };
}

const isEven = (batch: Uint8Array): boolean => baseOffsetAt(batch, 0) % 2 === 0;
const halfOf = (batch: Uint8Array): Uint8Array => (isEven(batch) ? encodeEmpty(emptied(batch), checksum) : batch);

/** The segments from `place` on, as many as `count`, become one in which every second batch is empty. */
async function written(from: Pick<Prepared, "files" | "log">, place: number, count: number) {
  const { files, log } = from;
  const { all } = log.segments;
  const [first, end] = [all[place], all[place + count]?.base];
  if (first === undefined || end === undefined) throw new Error(`only ${all.length} segments`);
  const writer = await ReplacementWriter.open(files, log.segments, first);
  const inRange = (await contentOf(log, first.base)).filter((batch) => baseOffsetAt(batch, 0) < end);
  for (const batch of inRange) await writer.append(halfOf(batch));
  return { fromBase: first.base, endOffset: end, state: await writer.finish(end) };
}

const namesOf = async (files: MemoryFiles): Promise<string[]> =>
  (await files.list("/data/a-0")).map(({ name }) => name).filter((name) => /^\d/.test(name));

/** What a start finds: content and damage. */
async function found(image: DiskImage): Promise<{ content: string[]; damage: string | undefined }> {
  const files = new MemoryFiles(image);
  const store = await openStore(files, config);
  const log = store.find(specOf("a").topicId, specOf("a").partition);
  if (log === undefined) return { content: [], damage: "gone" };
  // A read may meet damage that the start has not.
  const content =
    log.damage === undefined
      ? await contentOf(log).then(
          (batches) => batches.map(String),
          () => [],
        )
      : [];
  files.kill();
  return { content, damage: log.damage?.reason };
}

interface Crash {
  readonly what: string;
  /** Undefined: the process dies, and its page cache stays. */
  readonly choices: CrashChoices | undefined;
}

/** Names have their changes, and nothing that was not synced is in a file. */
const NAMES_ONLY: CrashChoices = { ...DROP_ALL, ofDirectory: () => true };
const WRITES_ONLY: CrashChoices = { ...KEEP_ALL, ofDirectory: () => false };
const CRASHES: readonly Crash[] = [
  { what: "process", choices: undefined },
  { what: "nothing kept", choices: DROP_ALL },
  { what: "all kept", choices: KEEP_ALL },
  { what: "names kept", choices: NAMES_ONLY },
  { what: "writes kept", choices: WRITES_ONLY },
];

function crashed(image: DiskImage, { choices }: Crash): DiskImage {
  const clone = image.clone();
  if (choices === undefined) clone.closeAll();
  else clone.crash(choices);
  return clone;
}

/** The disk when the start of a process was killed at its `killAt`th operation. */
async function halfStarted(image: DiskImage, killAt: number): Promise<DiskImage | undefined> {
  const files = new MemoryFiles(image.clone());
  const isDead = new Promise<boolean>((resolve) => {
    files.onOperation = ({ number }) => {
      if (number !== killAt) return;
      files.kill();
      resolve(true);
    };
  });
  const opened = openStore(files, config).then(() => false);
  return (await Promise.race([isDead, opened])) ? files.image : undefined;
}

/** What is wrong after each crash of a replacement, and of the start behind each; nothing without a planted bug. */
async function faultsOfAllCrashes(most = Number.POSITIVE_INFINITY): Promise<string[]> {
  const prepared1 = await prepared();
  const { files, store, log, batches } = prepared1;
  const images: { at: string; image: DiskImage; isDone: boolean }[] = [];
  let isDone = false;
  files.onOperation = ({ kind, path }) => {
    images.push({ at: `${kind} ${path}`, image: files.image.clone(), isDone });
  };
  const replacement = await written(prepared1, 0, 2);
  const replaced = log.replace(replacement).then((done) => {
    isDone = done;
  });
  await store.checkpoint();
  await replaced;
  await store.checkpoint();
  await settle();
  const old = batches.map(String);
  const next = batches.map((batch) => String(baseOffsetAt(batch, 0) < replacement.endOffset ? halfOf(batch) : batch));
  const faults: string[] = [];
  const look = async (image: DiskImage, where: string, mustBeNew: boolean): Promise<void> => {
    const { content, damage } = await found(image);
    const isRight = String(content) === String(next) || (!mustBeNew && String(content) === String(old));
    if (damage !== undefined || !isRight) faults.push(`${where}: ${damage ?? "other records"}`);
  };
  for (const { at, image, isDone: wasDone } of images)
    for (const crash of CRASHES) {
      if (faults.length >= most) return faults;
      const disk = crashed(image, crash);
      await look(disk.clone(), `${at}, ${crash.what}`, wasDone);
      // Renames are ended in the first operations of a start, where it can be cut short again.
      if (!/superblock|rename|checkpoint/.test(at) || crash.choices === KEEP_ALL) continue;
      for (let killAt = 20; killAt < 70; killAt += 4) {
        const half = await halfStarted(disk, killAt);
        if (half === undefined) break;
        await look(crashed(half, { what: "", choices: NAMES_ONLY }), `${at}, ${crash.what}, start ${killAt}`, wasDone);
      }
    }
  return faults;
}

describe("S-41: a file takes a segment's place with a checkpoint", () => {
  test("or not at all, at every crash of it and of the start behind", async () => {
    expect(await faultsOfAllCrashes()).toEqual([]);
  });

  // Renamed before the superblock names it; not ended by a start; not durable before the image says that it is done; a start that trusts a superblock
  // that is in the page cache only.
  test.each(["S-41", "S-41r", "S-41d", "S-41p"])(
    "planted bug %s shows in a crash",
    async (id) => {
      activateMutants([id]);
      expect((await faultsOfAllCrashes(1)).length).toBeGreaterThan(0);
    },
    60_000,
  );

  test("old files and names are gone, reads go on, and a clean start finds it so", async () => {
    const before = await prepared();
    const { files, store, log, batches } = before;
    const replacement = await written(before, 1, 2);
    const replaced = log.replace(replacement);
    expect((await contentOf(log)).map(String)).toEqual(batches.map(String));
    await store.checkpoint();
    expect(await replaced).toBe(true);
    const { fromBase, endOffset } = replacement;
    const isIn = (batch: Uint8Array): boolean =>
      baseOffsetAt(batch, 0) >= fromBase && baseOffsetAt(batch, 0) < endOffset;
    const expected = batches.map((batch) => String(isIn(batch) ? halfOf(batch) : batch));
    expect((await contentOf(log)).map(String)).toEqual(expected);
    await settle();
    const names = await namesOf(files);
    expect(names.filter((name) => name.includes("cleaned"))).toEqual([]);
    expect(names.filter((name) => name.endsWith(".log")).map((name) => Number.parseInt(name, 10))).toEqual(
      log.segments.all.map(({ base }) => base),
    );
    await store.close();
    expect(await found(files.image.clone())).toEqual({ content: expected, damage: undefined });
  });

  test("several of a log share a checkpoint, and a close ends what waits", async () => {
    const before = await prepared();
    const { files, store, log, batches } = before;
    const [first, second] = [await written(before, 0, 1), await written(before, 2, 1)];
    const both = Promise.all([log.replace(first), log.replace(second)]);
    await store.close();
    expect(await both).toEqual([true, true]);
    const { content, damage } = await found(files.image.clone());
    expect(damage).toBeUndefined();
    expect(content.filter((each, place) => each !== String(batches[place]))).toHaveLength(
      batches.filter((batch) => isEven(batch) && [first, second].some((each) => holds(each, batch))).length,
    );
  });

  test("a name is another's only behind the next checkpoint", async () => {
    const before = await prepared();
    const { store, log } = before;
    const replaced = log.replace(await written(before, 0, 1));
    await store.checkpoint();
    expect(await replaced).toBe(true);
    let isOpen = false;
    const opening = written(before, 0, 1).then((next) => {
      isOpen = true;
      return next;
    });
    await settle();
    expect(isOpen).toBe(false);
    await store.checkpoint();
    await settle();
    const again = log.replace(await opening);
    await store.checkpoint();
    expect(await again).toBe(true);
  });
});

const holds = (range: { fromBase: number; endOffset: number }, batch: Uint8Array): boolean =>
  baseOffsetAt(batch, 0) >= range.fromBase && baseOffsetAt(batch, 0) < range.endOffset;

describe("what a replacement meets", () => {
  test("it is not taken above the high watermark, of the last segment, or of a part of one", async () => {
    const before = await prepared();
    const { files, log } = before;
    const { fromBase, endOffset, state } = await written(before, 0, 1);
    expect(await log.replace({ fromBase, endOffset: endOffset - 1, state })).toBe(false);
    expect((await namesOf(files)).filter((name) => name.includes("cleaned"))).toEqual([]);
    const last = log.segments.all.at(-1)?.base ?? 0;
    expect(await log.replace({ fromBase: last, endOffset: log.endOffset, state })).toBe(false);
  });

  test.each([
    ["a truncation below its end", (log: ReplicaLogImpl) => log.truncate(2 as Offset)],
    ["a truncation to its end", (log: ReplicaLogImpl) => log.truncate(log.segments.all[2]?.base as Offset)],
    ["the end of the log", (log: ReplicaLogImpl, store: LogStoreImpl) => store.deleteLog(log)],
    ["damage", (log: ReplicaLogImpl) => Promise.resolve(void log.markDamaged(new Error("planted"), 0))],
  ])("%s ends it, and its files are gone", async (_, act) => {
    const before = await prepared();
    const { files, store, log } = before;
    const replaced = log.replace(await written(before, 0, 2));
    await act(log, store);
    expect(await replaced).toBe(false);
    await settle();
    const directories = (await files.list("/data")).map(({ name }) => name);
    const names = directories.includes("a-0") ? await namesOf(files) : [];
    expect(names.filter((name) => name.includes("cleaned"))).toEqual([]);
  });

  test("a cut below one that a checkpoint names waits for it", async () => {
    const before = await prepared();
    const { files, store, log, batches } = before;
    const replaced = log.replace(await written(before, 0, 2));
    let cut: Promise<void> | undefined;
    let wasDone: boolean | undefined;
    void replaced.then((isDone) => {
      wasDone = isDone;
    });
    files.onOperation = ({ kind, path }) => {
      if (kind !== "rename" || !path.endsWith(".image.tmp")) return;
      cut = log.truncate(3 as Offset).then(() => expect(wasDone).toBe(true));
    };
    await store.checkpoint();
    await cut;
    expect(cut).toBeDefined();
    expect((await contentOf(log)).map(String)).toEqual(batches.slice(0, 3).map((batch) => String(halfOf(batch))));
    files.kill();
    files.image.crash(DROP_ALL);
    expect((await found(files.image)).content).toHaveLength(3);
  });

  test.each(["before", "beside"])(
    "a cut to its very end %s the checkpoint: what is written on there stays (seed 833281043)",
    async (when) => {
      const before = await prepared();
      const { files, store, log } = before;
      const replacement = await written(before, 0, 1);
      const replaced = log.replace(replacement);
      let writtenOn: Promise<void> | undefined;
      const cut = (): void => {
        writtenOn ??= log.truncate(replacement.endOffset as Offset).then(() => void appendBatch(log));
      };
      if (when === "beside")
        files.onOperation = ({ kind, path }) => {
          if (kind === "rename" && path.endsWith(".image.tmp")) cut();
        };
      else {
        cut();
        await writtenOn;
      }
      await store.checkpoint();
      await writtenOn;
      await store.checkpoint();
      expect(await replaced).toBe(when === "beside");
      const offsets = (await contentOf(log)).map((batch) => baseOffsetAt(batch, 0));
      expect(offsets).toEqual(Array.from({ length: replacement.endOffset + 1 }, (_, offset) => offset));
      files.kill();
      expect((await found(files.image)).damage).toBeUndefined();
    },
  );

  test("a raised log start drops its segments behind it", async () => {
    const before = await prepared();
    const { store, log } = before;
    const replacement = await written(before, 0, 2);
    const replaced = log.replace(replacement);
    await log.advanceStart(replacement.endOffset as Offset);
    await settle();
    expect(log.segments.all[0]?.base).toBe(0);
    await store.checkpoint();
    expect(await replaced).toBe(true);
    await settle();
    expect(log.segments.all[0]?.base).toBe(replacement.endOffset);
  });

  test("a read, a look by time and a cut beside each of its renames say what is there", async () => {
    const before = await prepared();
    const { files, store, log, batches } = before;
    const replaced = log.replace(await written(before, 0, 3));
    const looks: Promise<unknown>[] = [];
    files.delayTurns = () => 3;
    files.onOperation = ({ kind, path }) => {
      if (kind !== "rename" && kind !== "unlink") return;
      if (!path.includes("/a-0/")) return;
      for (const offset of [0, 3, 7, 12])
        looks.push(
          Promise.resolve(
            log.read(offset as Offset, { limitOffset: 16 as Offset, maxBytes: 1 << 16, atLeastOne: true }),
          ).then(({ nextOffset }) => expect(nextOffset).toBeGreaterThan(offset)),
          log.findTimestamp(1001, 16 as Offset).then((answer) => expect([1, 3]).toContain(answer?.offset)),
        );
    };
    await store.checkpoint();
    expect(await replaced).toBe(true);
    await Promise.all(looks);
    expect(looks.length).toBeGreaterThan(20);
    expect(log.damage).toBeUndefined();
    expect((await contentOf(log)).length).toBe(batches.length);
  });

  test("a full disk puts the renames off, not the readers", async () => {
    const before = await prepared();
    const { files, store, log } = before;
    const replaced = log.replace(await written(before, 0, 2));
    let refused = 0;
    files.onOperation = ({ kind, path }) => {
      if (kind !== "rename" || !path.endsWith(".cleaned") || refused++ > 0) return;
      throw new FileError("no-space", kind, path);
    };
    const checkpoint = store.checkpoint();
    await settle();
    expect(refused).toBe(1);
    expect((await contentOf(log)).length).toBe(16);
    (store.deps.timers as ManualTimers).fire(1000);
    await checkpoint;
    expect(await replaced).toBe(true);
    expect((await contentOf(log)).length).toBe(16);
  });

  test("a close on a full disk leaves them to the next start", async () => {
    const before = await prepared();
    const { files, store, log, batches } = before;
    const replaced = log.replace(await written(before, 0, 2));
    files.onOperation = ({ kind, path }) => {
      if (kind === "rename" && path.endsWith(".cleaned")) throw new FileError("no-space", kind, path);
    };
    const checkpoint = store.checkpoint();
    await settle();
    const closed = store.close();
    for (let second = 0; second < 3; second++) {
      await settle();
      (store.deps.timers as ManualTimers).fire(1000);
    }
    await Promise.all([checkpoint, closed]);
    expect(await replaced).toBe(false);
    const { content, damage } = await found(files.image);
    expect(damage).toBeUndefined();
    expect(content).toEqual(batches.map((batch, place) => String(place < 8 ? halfOf(batch) : batch)));
  });
});
