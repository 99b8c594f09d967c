// Full disks, failing disks, damaged files.
import { expect, test } from "vitest";
import { type LeaderEpoch, type Offset, toLogId } from "../../src/model/ids.ts";
import { FileError } from "../../src/ports/files.ts";
import { DROP_ALL, type FileNode } from "../../src/sim/disk-image.ts";
import { openLogStore } from "../../src/storage/log-store.ts";
import { encodePartitionMetadata } from "../../src/storage/partition-metadata.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, baseConfig, checksum, contentOf, makeDeps, opened, settle, specOf } from "./support.ts";

function fileOf(files: MemoryFiles, path: string): FileNode {
  const node = files.image.find(path);
  if (node?.kind !== "file") throw new Error(`${path} is no file`);
  return node;
}

const journal = (files: MemoryFiles, generation = 1): FileNode =>
  fileOf(files, `/data/journal/${String(generation).padStart(10, "0")}.journal`);

test("D-18: a full disk refuses what it did not write, in order, and appends go on when space returns", async () => {
  const files = new MemoryFiles();
  const { store, recorder, timers } = await opened(files);
  const log = await store.createLog(specOf("a"));
  const kept = [appendBatch(log, { epoch: 1 })];
  await recorder.until(() => log.durableEnd === 1);
  const size = journal(files).live.sizeBytes;
  files.capacityBytes = files.image.usedBytes + 100;
  appendBatch(log, { epoch: 2 });
  appendBatch(log, { epoch: 2 });
  await recorder.until(() => recorder.refusedFrom !== undefined);
  expect(recorder.refusedFrom).toBe(1);
  expect([log.endOffset, log.writtenEnd, log.durableEnd]).toEqual([1, 1, 1]);
  expect(log.epochs).toEqual([{ epoch: 1, startOffset: 0 }]);
  expect(journal(files).platter.sizeBytes).toBe(size);
  expect(store.isLowOnSpace).toBe(true);
  files.capacityBytes = Number.POSITIVE_INFINITY;
  timers.fire(1000);
  await settle();
  expect(store.isLowOnSpace).toBe(false);
  kept.push(appendBatch(log, { epoch: 2 }));
  await recorder.until(() => log.durableEnd === 2);
  expect(recorder.failure).toBeUndefined();
  files.image.crash(DROP_ALL);
  const again = await opened(new MemoryFiles(files.image));
  const found = again.store.find(log.topicId, log.partition);
  expect(found === undefined ? [] : await contentOf(found)).toEqual(kept);
});

test("D-18: with the reserve given up, a truncation and an epoch are journaled on a full disk", async () => {
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files, { diskReserveBytes: 8192 });
  await settle();
  const log = await store.createLog(specOf("a"));
  const kept = [appendBatch(log), appendBatch(log), appendBatch(log)].slice(0, 2);
  await recorder.until(() => log.durableEnd === 3);
  files.capacityBytes = files.image.usedBytes;
  const refused = appendBatch(log);
  const cut = log.truncate(2 as Offset);
  await cut;
  await log.startEpoch(5 as LeaderEpoch);
  expect(refused.length).toBeGreaterThan(0);
  expect([log.endOffset, log.durableEnd]).toEqual([2, 2]);
  files.image.crash(DROP_ALL);
  const again = await opened(new MemoryFiles(files.image));
  const found = again.store.find(log.topicId, log.partition);
  expect(found?.epochs.at(-1)).toEqual({ epoch: 5, startOffset: 2 });
  expect(found === undefined ? [] : await contentOf(found)).toEqual(kept);
});

test("a full disk refuses a new log, and an ordered close still ends", async () => {
  const files = new MemoryFiles();
  const { store } = await opened(files);
  files.capacityBytes = files.image.usedBytes;
  await expect(store.createLog(specOf("a"))).rejects.toMatchObject({ code: "STORAGE_FULL" });
  await store.close();
});

for (const kind of ["write", "datasync"] as const) {
  test(`D-13: EIO of the journal's ${kind} stops the store at once; nothing more is credited or accepted`, async () => {
    const files = new MemoryFiles();
    const { store, recorder } = await opened(files);
    const log = await store.createLog(specOf("a"));
    recorder.events.length = 0;
    files.onOperation = (operation) => {
      if (operation.kind === kind) throw new FileError("io", kind, operation.path);
    };
    appendBatch(log);
    await recorder.until(() => recorder.failure !== undefined);
    await settle();
    expect(recorder.failure?.code).toBe("DISK_FAILED");
    expect(recorder.events.filter((event) => event.startsWith("durable"))).toEqual([]);
    expect(recorder.events.filter((event) => event === "failed")).toHaveLength(1);
    expect(() => appendBatch(log)).toThrow(expect.objectContaining({ code: "DISK_FAILED" }));
    await expect(store.createLog(specOf("b", 0, 2))).rejects.toMatchObject({ code: "DISK_FAILED" });
    await store.close();
  });
}

test("D-18: a full disk reported by a sync is a failed sync", async () => {
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files);
  const log = await store.createLog(specOf("a"));
  files.onOperation = (operation) => {
    if (operation.kind === "datasync") throw new FileError("no-space", "datasync", operation.path);
  };
  appendBatch(log);
  await recorder.until(() => recorder.failure !== undefined);
  expect(recorder.failure?.code).toBe("DISK_FAILED");
});

test("a sync that fails during recovery refuses the start and says so", async () => {
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files);
  const log = await store.createLog(specOf("a"));
  appendBatch(log);
  await recorder.until(() => log.durableEnd === 1);
  files.kill();
  const next = new MemoryFiles(files.image);
  next.onOperation = (operation) => {
    if (operation.kind === "datasync") throw new FileError("io", "datasync", operation.path);
  };
  const opening = openLogStore(makeDeps(next), baseConfig);
  await expect(opening).rejects.toMatchObject({
    code: "DISK_FAILED",
    message: expect.stringContaining("during recovery: "),
  });
});

/** A store that lived and was killed with everything synced, and where its journal's records lie. */
async function killed(appends: number) {
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files);
  const log = await store.createLog(specOf("a"));
  const ends: number[] = [];
  for (let count = 1; count <= appends; count++) {
    appendBatch(log);
    await recorder.until(() => log.durableEnd === count);
    ends.push(journal(files).live.sizeBytes);
  }
  files.kill();
  files.image.crash(DROP_ALL);
  return { files: new MemoryFiles(files.image), log, ends };
}

function flip(files: MemoryFiles, path: string, position: number): void {
  const node = fileOf(files, path);
  files.image.write(node, position, Uint8Array.of((node.live.view[position] as number) ^ 0xff));
}

const METADATA_PATH = "/data/a-0/partition.metadata";
const JOURNAL_PATH = "/data/journal/0000000001.journal";

test("D-11: a broken record that a later one proves synced is damage: nothing is served, nothing is lost sight of", async () => {
  const { files, log, ends } = await killed(6);
  flip(files, JOURNAL_PATH, (ends[2] as number) + 90);
  const before = fileOf(files, JOURNAL_PATH).live.view.slice();
  for (let start = 0; start < 3; start++) {
    const { store } = await opened(files);
    const found = store.find(log.topicId, log.partition);
    expect(found?.damage?.reason).toContain("proves that more was synced");
    await expect(
      found?.read(0 as Offset, { limitOffset: 1 as Offset, maxBytes: 10, atLeastOne: true }),
    ).rejects.toMatchObject({ code: "STORAGE_ERROR" });
    expect(() => appendBatch(found as typeof log)).toThrow(expect.objectContaining({ code: "STORAGE_ERROR" }));
    await store.close();
    expect(fileOf(files, `${JOURNAL_PATH}.damaged`).live.view).toEqual(before);
  }
});

test("D-11: a log whose CREATE is behind the break is damaged, at every start, and may be begun anew", async () => {
  const { files, log } = await killed(6);
  // The first record behind the file's header: the CREATE of the only log.
  flip(files, JOURNAL_PATH, 128 + 20);
  for (let start = 0; start < 3; start++) {
    const { store } = await opened(files);
    const found = store.find(log.topicId, log.partition);
    expect(found?.damage?.reason).toContain("proves that more was synced");
    expect(found?.topic).toBe(log.topic);
    if (start === 2 && found !== undefined) expect((await store.resetLog(found, 0 as Offset)).damage).toBeUndefined();
    await store.close();
  }
  const { store } = await opened(files);
  expect(store.find(log.topicId, log.partition)?.damage).toBeUndefined();
  await store.close();
});

test.each([
  ["is rotten", (files: MemoryFiles) => flip(files, METADATA_PATH, 60)],
  ["is gone", (files: MemoryFiles) => files.image.unlink(METADATA_PATH)],
  [
    // Seed 719392081
    "is another log's",
    (files: MemoryFiles) => {
      const strangers = { ...specOf("b", 0, 7), logId: toLogId(1) };
      files.image.write(fileOf(files, METADATA_PATH), 0, encodePartitionMetadata(strangers, checksum));
    },
  ],
])(
  "D-17: a log whose CREATE is behind the break and whose metadata file %s is damaged, and its partition's by name",
  async (_, harm) => {
    const { files, log } = await killed(6);
    flip(files, JOURNAL_PATH, 128 + 20);
    harm(files);
    for (let start = 0; start < 4; start++) {
      const { store } = await opened(files);
      const [found, ...others] = store.logs;
      expect(others).toEqual([]);
      expect(found).toMatchObject({
        topic: "a",
        partition: 0,
        damage: { reason: expect.stringContaining("whose it is") },
      });
      expect(store.find(log.topicId, log.partition)).toBe(start < 2 ? undefined : found);
      // What it is adopted as is known to the next start when a checkpoint has come between.
      if (start === 1) {
        await expect(store.createLog(specOf("a"))).rejects.toMatchObject({ code: "STORAGE_ERROR" });
        store.adoptLog(found as typeof log, log.topicId);
        expect(await store.createLog(specOf("a"))).toBe(found);
      }
      if (start === 3) expect((await store.resetLog(found as typeof log, 0 as Offset)).damage).toBeUndefined();
      await store.close();
    }
    const { store } = await opened(files);
    expect(store.find(log.topicId, log.partition)).toMatchObject({ damage: undefined, endOffset: 0 });
    await store.close();
  },
);

test("D-11: a broken last record is the tail, and is dropped", async () => {
  const { files, log, ends } = await killed(6);
  flip(files, JOURNAL_PATH, (ends[4] as number) + 90);
  const { store } = await opened(files);
  const found = store.find(log.topicId, log.partition);
  expect(found?.damage).toBeUndefined();
  expect(found?.endOffset).toBe(5);
  await store.close();
});

test("D-11: after a mark the last record is proven too", async () => {
  const files = new MemoryFiles();
  const { store, recorder, timers } = await opened(files);
  const log = await store.createLog(specOf("a"));
  appendBatch(log);
  await recorder.until(() => log.durableEnd === 1);
  await settle();
  const end = journal(files).live.sizeBytes;
  timers.fire(50);
  await settle();
  expect(journal(files).live.sizeBytes).toBeGreaterThan(end);
  files.kill();
  files.image.crash(DROP_ALL);
  flip(files, JOURNAL_PATH, end - 1);
  const again = await opened(new MemoryFiles(files.image));
  expect(again.store.find(log.topicId, log.partition)?.damage).toBeDefined();
});

test("D-11: a later journal whose header rots is damage: it had one before it had its name", async () => {
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files);
  const log = await store.createLog(specOf("a"));
  appendBatch(log);
  files.onOperation = ({ kind, path }) => {
    if (kind === "write" && path.endsWith(".image.tmp")) throw new FileError("no-space", kind, path);
  };
  // It has ended its journal, and is put off.
  await store.checkpoint();
  appendBatch(log);
  await recorder.until(() => log.durableEnd === 2);
  files.kill();
  files.image.crash(DROP_ALL);
  flip(new MemoryFiles(files.image), "/data/journal/0000000002.journal", 30);
  const again = await opened(new MemoryFiles(files.image));
  expect(again.store.find(log.topicId, log.partition)?.damage?.reason).toContain("0000000002.journal has no header");
});

test("D-11: a directory of journals that is missing is damage of the logs, as one that is empty is, and no failure of the disk", async () => {
  const { files, log } = await killed(3);
  for (const { name } of await files.list("/data/journal")) await files.unlink(`/data/journal/${name}`);
  await files.removeDirectory("/data/journal");
  const { store } = await opened(files);
  expect(store.find(log.topicId, log.partition)?.damage?.reason).toContain("0000000001.journal is missing");
  await store.close();
});

/** A closed store of some segments. */
async function closed() {
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files);
  const log = await store.createLog(specOf("a"));
  const other = await store.createLog(specOf("b", 0, 2));
  const batches = Array.from({ length: 60 }, () => appendBatch(log));
  appendBatch(other);
  await recorder.until(() => log.durableEnd === 60 && other.durableEnd === 1);
  await store.close();
  const bases = (log as ReplicaLogImpl).segments.all.map((segment) => segment.base);
  return { files, log, other, batches, bases };
}

test("S-15: missing and wrong indexes are rebuilt from the log", async () => {
  for (const harm of ["missing", "size", "order", "wrong"] as const) {
    const { files, log, batches } = await closed();
    const directory = files.image.find("/data/a-0");
    if (directory?.kind !== "directory") throw new Error("no directory");
    const names = [...directory.live.keys()].filter((name) => name.endsWith(".index"));
    expect(names.length).toBeGreaterThan(1);
    for (const name of names) {
      const path = `/data/a-0/${name}`;
      const size = fileOf(files, path).live.sizeBytes;
      if (harm === "missing") files.image.unlink(path);
      if (harm === "size") files.image.truncate(fileOf(files, path), Math.max(0, size - 3));
      if (harm === "order" && size > 8) flip(files, path, 3);
      if (harm === "wrong" && size > 8) flip(files, path, 7);
    }
    const { store } = await opened(files);
    const found = store.find(log.topicId, log.partition);
    for (let offset = 0; offset < 60; offset++) {
      const result = await found?.read(offset as Offset, {
        limitOffset: (offset + 1) as Offset,
        maxBytes: 1,
        atLeastOne: true,
      });
      expect(result?.chunks.map((chunk) => [...chunk])).toEqual([[...(batches[offset] as Uint8Array)]]);
    }
    await store.close();
  }
});

test("a damaged batch is never served; what lies before it is", async () => {
  const { files, log, batches } = await closed();
  const path = "/data/a-0/00000000000000000000.log";
  flip(files, path, (batches[0] as Uint8Array).length * 3 + 70);
  const { store } = await opened(files);
  const found = store.find(log.topicId, log.partition) as typeof log;
  expect(found.damage).toBeUndefined();
  const result = await found.read(0 as Offset, { limitOffset: 60 as Offset, maxBytes: 100_000, atLeastOne: true });
  expect(result.nextOffset).toBe(3);
  await expect(
    found.read(3 as Offset, { limitOffset: 60 as Offset, maxBytes: 100_000, atLeastOne: true }),
  ).rejects.toMatchObject({ code: "STORAGE_ERROR" });
  expect(found.damage).toMatchObject({ fromOffset: 3 });
  await store.close();
});

for (const harm of ["missing", "short", "foreign", "tail"] as const) {
  test(`a segment that is not what the checkpoint proves is damage of its log only: ${harm}`, async () => {
    const { files, log, other, bases } = await closed();
    const lastPath = `/data/a-0/${String(bases.at(-1)).padStart(20, "0")}.log`;
    if (harm === "missing") files.image.unlink("/data/a-0/00000000000000000000.log");
    if (harm === "short") files.image.truncate(fileOf(files, lastPath), 5);
    if (harm === "foreign") files.image.rename("/data/b-0/partition.metadata", "/data/a-0/partition.metadata");
    if (harm === "tail") flip(files, lastPath, fileOf(files, lastPath).live.sizeBytes - 1);
    const { store } = await opened(files);
    expect(store.find(log.topicId, log.partition)?.damage).toBeDefined();
    if (harm !== "foreign") expect(store.find(other.topicId, other.partition)?.damage).toBeUndefined();
    await store.close();
  });
}

test("S-31: an epoch whose first append is refused leaves a history that begins where the log does by now", async () => {
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files, { diskReserveBytes: 8192 });
  await settle();
  const log = await store.createLog(specOf("a"));
  for (let count = 0; count < 6; count++) appendBatch(log, { epoch: 1 });
  await recorder.until(() => log.durableEnd === 6);
  log.noteHighWatermark(6 as Offset);
  files.capacityBytes = files.image.usedBytes;
  // As one answer of a leader may have both.
  appendBatch(log, { epoch: 3 });
  await log.advanceStart(6 as Offset);
  expect(recorder.refusedFrom).toBe(6);
  expect([log.startOffset, log.endOffset, log.epochs]).toEqual([6, 6, [{ epoch: 1, startOffset: 6 }]]);
  await log.truncate(6 as Offset);
  expect(log.epochs).toEqual([]);
});

test("D-17: directories that no partition can have are left alone by a start from a damaged journal", async () => {
  const { files } = await killed(6);
  flip(files, JOURNAL_PATH, 128 + 20);
  for (const name of ["b-01", "backup-20261130194500", "notes"]) files.image.makeDirectory(`/data/${name}`);
  const { store } = await opened(files);
  expect([...store.logs].map(({ topic, partition }) => `${topic}-${partition}`)).toEqual(["a-0"]);
  await store.close();
  expect((await files.list("/data")).map(({ name }) => name)).toEqual(expect.arrayContaining(["b-01", "notes"]));
});
