// What met a full disk, or too few descriptors, is tried again and leaves nothing stale behind; nobody waits for ever for it (D-18).
import { expect, test } from "vitest";
import type { LeaderEpoch, Offset } from "../../src/model/ids.ts";
import type { OttlaError } from "../../src/model/errors.ts";
import { FileError, type FileErrorKind } from "../../src/ports/files.ts";
import { MemoryFiles } from "./memory-files.ts";
import { append, entriesOf, freshFiles, openRaft, reopen, textOf } from "./raft-support.ts";
import { appendBatch, contentOf, makeDeps, ManualTimers, openStore, Recorder, settle, specOf } from "./support.ts";
import { DROP_ALL } from "../../src/sim/disk-image.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import { ReplacementWriter } from "../../src/storage/replacement-writer.ts";
import type { Segment } from "../../src/storage/segment.ts";
import type { ReplicaLog, StorageConfig } from "../../src/storage/types.ts";

const RETRY_MS = 1000;

async function opened(config: Partial<StorageConfig> = {}, files = new MemoryFiles()) {
  const timers = new ManualTimers();
  const store = await openStore(files, config, makeDeps(files, { timers }));
  const recorder = new Recorder();
  store.listen(recorder);
  return { files, timers, store, recorder };
}

/** The first operation of this kind on such a file fails. */
function failOnce(files: MemoryFiles, kind: string, suffix: string, error: FileErrorKind): () => boolean {
  let hasFailed = false;
  files.onOperation = (operation) => {
    if (hasFailed || operation.kind !== kind || !operation.path.endsWith(suffix)) return;
    hasFailed = true;
    throw new FileError(error, kind, operation.path);
  };
  return () => hasFailed;
}

test("R-12: a cut that could not be carried out is, before anything is written behind it", async () => {
  for (const suffix of [".index", ".log"]) {
    const { files, timers, store, recorder } = await opened();
    const log = await store.createLog(specOf("a"));
    const batches = Array.from({ length: 60 }, () => appendBatch(log));
    await recorder.until(() => log.durableEnd === 60);
    await store.checkpoint();
    await store.checkpoint();
    const hasFailed = failOnce(files, suffix === ".log" ? "unlink" : "open", suffix, "too-many-open");
    await log.truncate(5 as Offset);
    batches.length = 5;
    for (let count = 0; count < 5; count++) batches.push(appendBatch(log, { fill: 99 }));
    await settle();
    expect(hasFailed()).toBe(true);
    timers.fire(RETRY_MS);
    await recorder.until(() => log.durableEnd === 10);
    await store.checkpoint();
    expect(await contentOf(log)).toEqual(batches);
    await store.close();
    expect(recorder.failure).toBeUndefined();
    const again = await opened({}, new MemoryFiles(files.image));
    const found = again.store.find(log.topicId, log.partition) as ReplicaLog;
    expect(found.damage).toBeUndefined();
    expect(await contentOf(found)).toEqual(batches);
  }
});

test("D-16: a checkpoint that meets a cut half done says nothing of what was written to the segment", async () => {
  const { files, store, recorder } = await opened({ segmentBytes: 400, indexIntervalBytes: 100 });
  const log = (await store.createLog(specOf("a"))) as ReplicaLogImpl;
  const batches = Array.from({ length: 5 }, () => appendBatch(log));
  await recorder.until(() => log.durableEnd === 5);
  await store.checkpoint();
  await store.checkpoint();
  const { segments } = log;
  const [first] = segments.all as [Segment];
  const hasFailed = failOnce(files, "open", ".timeindex", "too-many-open");
  await expect(segments.cut(1)).rejects.toMatchObject({ kind: "too-many-open" });
  expect(hasFailed()).toBe(true);
  await segments.saveIdentity(first);
  await segments.cut(1);
  expect([first.sizeBytes, segments.endOffset]).toEqual([batches[0]?.length, 1]);
});

test("S-2: what is left of a log that could not be made is in no way of the one that is made then", async () => {
  const { files, store, recorder } = await opened();
  const hasFailed = failOnce(files, "write", "partition.metadata", "no-space");
  await expect(store.createLog(specOf("a"))).rejects.toMatchObject({ code: "STORAGE_FULL" });
  expect(hasFailed()).toBe(true);
  const log = await store.createLog(specOf("a"));
  await store.deleteLog(log);
  await settle();
  expect(recorder.failure).toBeUndefined();
  await store.createLog(specOf("a", 0, 3));
});

test("D12: the files of a deleted log go when they can, and its name is free then: no failure of the disk", async () => {
  for (const [kind, suffix] of [
    ["open", "partition.metadata"],
    ["rename", "/a-0"],
    ["list", "-delete"],
  ] as const) {
    const { files, timers, store, recorder } = await opened();
    const log = await store.createLog(specOf("a"));
    const hasFailed = failOnce(files, kind, suffix, kind === "rename" ? "no-space" : "too-many-open");
    await store.deleteLog(log);
    const next = store.createLog(specOf("a", 0, 2));
    await settle();
    expect(hasFailed()).toBe(true);
    timers.fire(RETRY_MS);
    expect(appendBatch(await next)).toBeDefined();
    expect(recorder.failure).toBeUndefined();
    expect((await files.list("/data")).filter(({ name }) => name.endsWith("-delete"))).toEqual([]);
  }
});

test("a close on a full disk is no failure of it, and tells a cut that waits for the checkpoint under way", async () => {
  const { files, timers, store, recorder } = await opened();
  const log = await store.createLog(specOf("a"));
  for (let count = 0; count < 5; count++) appendBatch(log);
  await recorder.until(() => log.durableEnd === 5);
  files.onOperation = ({ kind, path }) => {
    if (kind === "write" && path.endsWith(".log")) throw new FileError("no-space", kind, path);
  };
  const checkpoint = store.checkpoint();
  await settle();
  const isCut = log.truncate(2 as Offset).catch((thrown: OttlaError) => thrown.code);
  const closed = store.close();
  for (let second = 0; second < 3; second++) {
    await settle();
    timers.fire(RETRY_MS);
  }
  await Promise.all([checkpoint, closed]);
  expect(await isCut).toBe("CLOSED");
  expect(recorder.failure).toBeUndefined();
});

test("R-9: an epoch that is durable stays when what was appended in it is refused", async () => {
  const { files, timers, store, recorder } = await opened();
  const log = await store.createLog(specOf("a"));
  appendBatch(log);
  await log.startEpoch(1 as LeaderEpoch);
  const hasFailed = failOnce(files, "write", ".journal", "no-space");
  appendBatch(log, { epoch: 1 });
  await recorder.until(() => recorder.refusedFrom === 1);
  expect(hasFailed()).toBe(true);
  const epochs = [
    { epoch: 0, startOffset: 0 },
    { epoch: 1, startOffset: 1 },
  ];
  expect(log.epochs).toEqual(epochs);
  // so a cut there is one, and the journal has it before anything older comes in its place.
  await log.truncate(1 as Offset);
  const older = appendBatch(log, { epoch: 0 });
  await recorder.until(() => log.durableEnd === 2);
  timers.fire(RETRY_MS);
  files.kill();
  files.image.closeAll();
  const again = await opened({}, new MemoryFiles(files.image));
  const found = again.store.find(log.topicId, log.partition) as ReplicaLog;
  expect(found.epochs).toEqual(epochs.slice(0, 1));
  expect((await contentOf(found))[1]).toEqual(older);
});

test("S-30: what a raised log start lets go beside a checkpoint goes behind it", async () => {
  const { files, store, recorder } = await opened({ segmentBytes: 400 });
  const log = (await store.createLog(specOf("a"))) as ReplicaLogImpl;
  for (let count = 0; count < 20; count++) appendBatch(log);
  await recorder.until(() => log.durableEnd === 20);
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const run = files.run.bind(files);
  files.run = async (kind, path, work) => {
    if (kind === "write" && path.endsWith(".log")) await held;
    return run(kind, path, work);
  };
  const checkpoint = store.checkpoint();
  await settle();
  for (let count = 0; count < 20; count++) appendBatch(log);
  await recorder.until(() => log.durableEnd === 40);
  log.noteHighWatermark(40 as Offset);
  await log.advanceStart(36 as Offset);
  release();
  await checkpoint;
  await settle();
  expect(log.held.flushedEnd).toBe(40);
  expect(log.segments.all[0]?.base).toBe(36);
});

test("S-41: a name whose file cannot be removed is another's all the same", async () => {
  const { files, store, recorder } = await opened();
  const log = (await store.createLog(specOf("a"))) as ReplicaLogImpl;
  const open = (): Promise<ReplacementWriter> =>
    ReplacementWriter.open(store.files, log.segments, { base: 0, createdMs: 0 });
  const writer = await open();
  const hasFailed = failOnce(files, "unlink", ".cleaned", "no-space");
  await writer.discard();
  expect(hasFailed()).toBe(true);
  await (await open()).finish(0);
  expect(recorder.failure).toBeUndefined();
});

test("a close on a full disk ends, whatever cut it has refused", async () => {
  const { files, store, recorder } = await opened({ tailCacheBytes: 4000 });
  const log = await store.createLog(specOf("a"));
  const batches = [appendBatch(log), appendBatch(log)];
  await recorder.until(() => log.durableEnd === 2);
  await store.checkpoint();
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const run = files.run.bind(files);
  files.run = async (kind, path, work) => {
    if (path.endsWith(".image.tmp")) await held;
    return run(kind, path, work);
  };
  // The last checkpoint comes behind the refusal.
  void store.checkpoint();
  await settle();
  const hasFailed = failOnce(files, "write", ".journal", "no-space");
  // Closed while the cut is written: later it would be tried again.
  let isClosed = false;
  const failing = files.run;
  files.run = (kind, path, work) => {
    if (kind === "write" && path.endsWith(".journal")) void store.close().then(() => (isClosed = true));
    return failing(kind, path, work);
  };
  const isCut = log.truncate(1 as Offset).catch((thrown: OttlaError) => thrown.code);
  expect(await isCut).toBe("STORAGE_FULL");
  release();
  await settle();
  expect([hasFailed(), isClosed, recorder.failure]).toEqual([true, true, undefined]);
  const again = await opened({}, new MemoryFiles(files.image));
  const found = again.store.find(log.topicId, log.partition) as ReplicaLog;
  expect(await contentOf(found)).toEqual(batches);
});

test("D-18: the reserve that a start finds is given up, too", async () => {
  const first = await opened({ diskReserveBytes: 100_000 });
  await settle();
  await first.store.close();
  const image = first.files.image;
  expect(image.usedBytes).toBeGreaterThan(100_000);
  const files = new MemoryFiles(image);
  files.capacityBytes = image.usedBytes + 40_000;
  const { store } = await opened({ diskReserveBytes: 100_000, diskLowSpaceBytes: 50_000 }, files);
  expect(store.isLowOnSpace).toBe(true);
  files.capacityBytes = image.usedBytes;
  expect(await store.giveUpReserve()).toBe(true);
});

test("D-12: what a checkpoint that was put off could not sync the next one does, before it counts", async () => {
  const { files, store, recorder } = await opened({ openFilesMax: 1 });
  const logs = [await store.createLog(specOf("a")), await store.createLog(specOf("b", 0, 2))];
  const batches = logs.map((log) => [appendBatch(log), appendBatch(log)]);
  await recorder.until(() => logs.every((log) => log.durableEnd === 2));
  let isSyncing = false;
  let failures = 0;
  files.onOperation = ({ kind, path }) => {
    isSyncing ||= kind === "datasync" && path.endsWith(".log");
    if (isSyncing && kind === "open" && path.endsWith(".log") && failures++ === 0)
      throw new FileError("too-many-open", kind, path);
  };
  await store.checkpoint();
  expect(failures).toBe(1);
  await store.checkpoint();
  files.kill();
  files.image.crash(DROP_ALL);
  const again = await opened({}, new MemoryFiles(files.image));
  for (const [place, { topicId, partition }] of logs.entries()) {
    const found = again.store.find(topicId, partition) as ReplicaLog;
    expect(found.damage).toBeUndefined();
    expect(await contentOf(found)).toEqual(batches[place]);
  }
});

test("a checkpoint that was put off is made after the interval, also when nothing is written", async () => {
  const { files, timers, store, recorder } = await opened();
  const log = await store.createLog(specOf("a"));
  appendBatch(log);
  await recorder.until(() => log.durableEnd === 1);
  const hasFailed = failOnce(files, "write", ".image.tmp", "no-space");
  await store.checkpoint();
  expect(hasFailed()).toBe(true);
  const images = async () => (await files.list("/data/checkpoint")).map(({ name }) => name);
  expect(await images()).not.toContain("0000000003.image");
  timers.fire(60_000);
  await settle();
  expect(await images()).toEqual(["0000000003.image"]);
});

test("D-18: the reserve of the metadata that a start finds on a full disk is given up, too", async () => {
  const files = await freshFiles();
  const first = await openRaft(files);
  await append(first, entriesOf(0, 3, 1));
  await first.close();
  const full = new MemoryFiles(files.image);
  full.capacityBytes = full.image.usedBytes;
  const store = await openRaft(full);
  await append(store, entriesOf(3, 6, 1));
  expect(textOf((await reopen(full.image)).restored.log.entries)).toEqual(textOf(entriesOf(0, 6, 1)));
});
