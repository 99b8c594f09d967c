// What a follower needs of its log: runs of batches, truncation, the high watermark of a checkpoint, a reset.
import { expect, test } from "vitest";
import { bytesEqual, concatBytes } from "../../src/base/bytes.ts";
import type { LeaderEpoch, Offset } from "../../src/model/ids.ts";
import { DROP_ALL, KEEP_ALL } from "../../src/sim/disk-image.ts";
import { RUN_BYTES_MAX } from "../../src/storage/batch-run.ts";
import {
  LogHighWatermark,
  RisenHighWatermarks,
  type RisingLog,
  ROWS_MAX,
  rowsOf,
} from "../../src/storage/high-watermark.ts";
import { KIND } from "../../src/storage/journal-record.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import type { LogStoreImpl } from "../../src/storage/store.ts";
import type { Damage, ReplicaLog, StorageConfig } from "../../src/storage/types.ts";
import { MemoryFiles } from "./memory-files.ts";
import {
  appendBatch,
  appendRun,
  contentOf,
  makeBatch,
  makeDeps,
  ManualTimers,
  opened,
  openStore,
  Recorder,
  settle,
  specOf,
} from "./support.ts";

async function withLog(config: Partial<StorageConfig> = {}) {
  const ground = await opened(new MemoryFiles(), config);
  const log = (await ground.store.createLog(specOf("a"))) as ReplicaLogImpl;
  const durable = (): Promise<void> => ground.recorder.until(() => log.durableEnd === log.endOffset);
  return { ...ground, log, durable };
}

async function crashed(files: MemoryFiles, choices = DROP_ALL, config: Partial<StorageConfig> = {}) {
  files.kill();
  files.image.crash(choices);
  return opened(new MemoryFiles(files.image), config);
}

const foundIn = (store: LogStoreImpl, log: ReplicaLog): ReplicaLogImpl =>
  store.find(log.topicId, log.partition) as ReplicaLogImpl;

const epochsOf = (log: ReplicaLog): string =>
  log.epochs.map(({ epoch, startOffset }) => `${epoch}@${startOffset}`).join(" ");

test("a run is one record of the journal, and gives its batches one by one", async () => {
  const { store, log, durable, files } = await withLog();
  const kinds: number[] = [];
  const push = store.push.bind(store);
  store.push = (entry) => {
    kinds.push(entry.kind);
    push(entry);
  };
  const batches = appendRun(log, 12);
  expect(kinds).toEqual([KIND.APPEND]);
  await durable();
  const read = await log.read(5 as Offset, { limitOffset: 9 as Offset, maxBytes: 1 << 20, atLeastOne: true });
  expect(concatBytes(read.chunks)).toEqual(concatBytes(batches.slice(5, 9)));
  expect(read.nextOffset).toBe(9);
  const size = (batches[0] as Uint8Array).length;
  const short = await log.read(3 as Offset, { limitOffset: 12 as Offset, maxBytes: size * 2, atLeastOne: false });
  expect(short).toMatchObject({ sizeBytes: size * 2, nextOffset: 5 });
  const first = await log.read(3 as Offset, { limitOffset: 12 as Offset, maxBytes: 1, atLeastOne: true });
  expect(first).toMatchObject({ sizeBytes: size, nextOffset: 4 });
  const none = await log.read(3 as Offset, { limitOffset: 12 as Offset, maxBytes: 1, atLeastOne: false });
  expect(none).toMatchObject({ sizeBytes: 0, nextOffset: 3 });
  expect(await log.findTimestamp(1007, 12 as Offset)).toMatchObject({ offset: 7 });
  const next = await crashed(files);
  expect(await contentOf(foundIn(next.store, log))).toEqual(batches);
});

test("a run that is longer than may be is taken in pieces", async () => {
  const { log, durable } = await withLog({ segmentBytes: 1 << 20 });
  const valueBytes = 40_000;
  const batches = appendRun(log, 14, { valueBytes });
  expect(log.held.window.length).toBe(Math.ceil((14 * valueBytes) / RUN_BYTES_MAX));
  await durable();
  expect(bytesEqual(concatBytes(await contentOf(log)), concatBytes(batches))).toBe(true);
});

test("a run is cut at any of its batches, in memory and on the disk", async () => {
  for (const isFlushed of [false, true]) {
    const { store, log, durable, files } = await withLog({ segmentBytes: 10_000 });
    const batches = appendRun(log, 10);
    await durable();
    if (isFlushed) await store.checkpoint();
    const pinnedBefore = log.held.pinnedBytes;
    await log.truncate(4 as Offset);
    expect(log.endOffset).toBe(4);
    if (!isFlushed) expect(log.held.pinnedBytes).toBe(pinnedBefore - 6 * (batches[0] as Uint8Array).length);
    const more = appendRun(log, 3, { epoch: 1, fill: 77 });
    await durable();
    expect(await contentOf(log)).toEqual([...batches.slice(0, 4), ...more]);
    const next = await crashed(files);
    const found = foundIn(next.store, log);
    expect(await contentOf(found)).toEqual([...batches.slice(0, 4), ...more]);
    expect(epochsOf(found)).toBe("0@0 1@4");
  }
});

test("an offset within a batch cuts that batch whole", async () => {
  for (const isFlushed of [false, true]) {
    const { store, log, durable } = await withLog();
    for (let count = 0; count < 3; count++) appendBatch(log, { count: 5 });
    await durable();
    if (isFlushed) await store.checkpoint();
    await log.truncate(7 as Offset);
    expect(log.endOffset).toBe(5);
  }
});

test("R-12: a truncation to the end or beyond trims the empty epoch there, durably", async () => {
  for (const to of [3, 8]) {
    const { log, durable, files } = await withLog();
    for (let count = 0; count < 3; count++) appendBatch(log);
    await durable();
    await log.startEpoch(4 as LeaderEpoch);
    expect(epochsOf(log)).toBe("0@0 4@3");
    await log.truncate(to as Offset);
    expect(log.endOffset).toBe(3);
    expect(epochsOf(log)).toBe(to === 3 ? "0@0" : "0@0 4@3");
    const next = await crashed(files);
    expect(epochsOf(foundIn(next.store, log))).toBe(epochsOf(log));
  }
});

test("a truncation while the log is being written to its segments leaves memory and segments in step", async () => {
  const { files, store, log, durable } = await withLog();
  const batches = [appendBatch(log), appendBatch(log), appendBatch(log)];
  await durable();
  let cut: Promise<void> | undefined;
  files.onOperation = ({ kind, path }) => {
    if (kind === "write" && path.endsWith(".log")) cut ??= log.truncate(1 as Offset);
  };
  store.requestFlush(log);
  while (cut === undefined) await settle(1);
  files.onOperation = () => undefined;
  await cut;
  batches.splice(1, 2, appendBatch(log, { epoch: 1, fill: 50 }));
  await durable();
  await store.checkpoint();
  expect(store.isRunning).toBe(true);
  expect(log.held.pinnedBytes).toBe(0);
  expect(await contentOf(log)).toEqual(batches);
  const next = await crashed(files);
  expect(await contentOf(foundIn(next.store, log))).toEqual(batches);
});

test("a log that is cut again while its segments are being cut stays in step with them", async () => {
  const { files, store, log, durable } = await withLog();
  const batches = Array.from({ length: 6 }, () => appendBatch(log));
  await durable();
  await store.checkpoint();
  let again: Promise<void> | undefined;
  files.onOperation = ({ kind, path }) => {
    if (kind === "truncate" && path.endsWith(".log")) again ??= log.truncate(2 as Offset);
  };
  await log.truncate(4 as Offset);
  while (again === undefined) await settle(1);
  await again;
  expect(log.held.flushedEnd).toBeLessThanOrEqual(log.endOffset);
  batches.splice(2, 4, appendBatch(log, { epoch: 1, fill: 50 }), appendBatch(log, { epoch: 1, fill: 60 }));
  await durable();
  await store.checkpoint();
  expect(log.segments.endOffset).toBe(4);
  expect(await contentOf(log)).toEqual(batches);
  const next = await crashed(files);
  expect(await contentOf(foundIn(next.store, log))).toEqual(batches);
});

test("truncations of what is in memory wait for no other log's files", async () => {
  const { files, store, log, durable, recorder } = await withLog();
  const busy = [await store.createLog(specOf("b", 0, 2)), await store.createLog(specOf("c", 0, 3))];
  for (const each of [...busy, log]) for (let count = 0; count < 4; count++) appendBatch(each);
  await durable();
  await recorder.until(() => busy.every((each) => each.durableEnd === 4));
  // Both lanes of the flusher hang in files of the others.
  const run = files.run.bind(files);
  files.run = (kind, path, work) => (/\/[bc]-0\//.test(path) ? new Promise(() => undefined) : run(kind, path, work));
  for (const each of busy) store.requestFlush(each as ReplicaLogImpl);
  await settle();
  await log.truncate(2 as Offset);
  appendBatch(log, { epoch: 1 });
  await durable();
  expect(log.endOffset).toBe(3);
});

test("D-7: the high watermark comes back with a checkpoint, never above what was durable", async () => {
  const { files, store, log, durable } = await withLog();
  for (let count = 0; count < 6; count++) appendBatch(log);
  await durable();
  expect(log.highWatermark).toBe(0);
  log.noteHighWatermark(4 as Offset);
  log.noteHighWatermark(3 as Offset);
  expect(log.highWatermark).toBe(4);
  log.noteHighWatermark(60 as Offset);
  expect(log.highWatermark).toBe(6);
  await log.truncate(5 as Offset);
  expect(log.highWatermark).toBe(5);
  await store.checkpoint();
  const next = await crashed(files);
  expect(foundIn(next.store, log).highWatermark).toBe(5);
  await next.store.close();
  const last = await opened(new MemoryFiles(next.files.image));
  expect(foundIn(last.store, log).highWatermark).toBe(5);
});

/** A crash, and the high watermark that the next process finds. */
async function next(files: MemoryFiles, log: ReplicaLog, highWatermark: number, choices = DROP_ALL) {
  const { store } = await crashed(files, choices);
  expect(foundIn(store, log).highWatermark).toBe(highWatermark);
}

test("D-7: a high watermark goes with the next record of the journal, whoever's it is", async () => {
  const { files, log, durable } = await withLog();
  for (let count = 0; count < 6; count++) appendBatch(log);
  await durable();
  log.noteHighWatermark(6 as Offset);
  await log.advanceStart(2 as Offset);
  await next(files, log, 6);
});

test("D-7: what a truncation has taken is not known to be committed, whatever comes in its place", async () => {
  const { files, store, log, durable } = await withLog();
  for (let count = 0; count < 6; count++) appendBatch(log);
  await durable();
  log.noteHighWatermark(6 as Offset);
  await store.checkpoint();
  await log.truncate(3 as Offset);
  for (let count = 0; count < 3; count++) appendBatch(log);
  await durable();
  await next(files, log, 3, KEEP_ALL);
});

test("D-7: a high watermark that is the last thing to rise goes with a mark", async () => {
  const timers = new ManualTimers();
  const memory = new MemoryFiles();
  const store = await openStore(memory, {}, makeDeps(memory, { timers }));
  const recorder = new Recorder();
  store.listen(recorder);
  const log = await store.createLog(specOf("a"));
  const other = await store.createLog(specOf("b", 0, 2));
  for (let count = 0; count < 6; count++) appendBatch(log);
  await recorder.until(() => log.durableEnd === 6);
  await settle();
  timers.fire(25);
  await settle();
  const before = memory.operations;
  log.noteHighWatermark(3 as Offset);
  log.noteHighWatermark(5 as Offset);
  other.noteHighWatermark(5 as Offset);
  await settle();
  expect(memory.operations).toBe(before);
  timers.fire(25);
  await settle();
  expect(memory.operations).toBeGreaterThan(before);
  const written = memory.operations;
  timers.fire(25);
  await settle();
  // Nothing more to tell.
  expect(memory.operations).toBe(written);
  await next(memory, log, 5);
});

test("a checkpoint and a cut of what its snapshot may speak of both end, whichever is a few steps ahead", async () => {
  for (let steps = 0; steps < 40; steps++) {
    const { store, log, durable, files } = await withLog();
    for (let count = 0; count < 6; count++) appendBatch(log);
    await durable();
    const done = { checkpoint: false, cut: false };
    void store.checkpoint().then(() => (done.checkpoint = true));
    for (let step = 0; step < steps; step++) await undefined;
    void log.truncate(5 as Offset).then(() => (done.cut = true));
    await settle();
    expect(done, `${steps} steps`).toEqual({ checkpoint: true, cut: true });
    const again = await crashed(files);
    expect(foundIn(again.store, log).endOffset).toBe(5);
  }
});

test("D-7: what rises while a checkpoint takes its snapshot is in the next journal", async () => {
  const { files, store, log, durable } = await withLog();
  for (let count = 0; count < 6; count++) appendBatch(log);
  await durable();
  log.noteHighWatermark(3 as Offset);
  const done = store.checkpoint();
  log.noteHighWatermark(5 as Offset);
  await done;
  appendBatch(log);
  await durable();
  await next(files, log, 5);
});

test("D-7: a full disk keeps no high watermark for ever, and none makes work of it", async () => {
  const timers = new ManualTimers();
  const memory = new MemoryFiles();
  const store = await openStore(memory, {}, makeDeps(memory, { timers }));
  const recorder = new Recorder();
  store.listen(recorder);
  const log = await store.createLog(specOf("a"));
  for (let count = 0; count < 6; count++) appendBatch(log);
  await recorder.until(() => log.durableEnd === 6);
  await settle();
  log.noteHighWatermark(6 as Offset);
  memory.capacityBytes = memory.image.usedBytes;
  appendBatch(log, { valueBytes: 8000 });
  await recorder.until(() => log.endOffset === 6);
  await settle();
  timers.fire(25);
  await settle();
  const tried = memory.operations;
  for (let round = 0; round < 3; round++) {
    timers.fire(25);
    await settle();
  }
  expect(memory.operations).toBe(tried);
  memory.capacityBytes = Number.POSITIVE_INFINITY;
  appendBatch(log);
  await recorder.until(() => log.durableEnd === 7);
  await next(memory, log, 6);
});

test("D-7: more logs than a record has rows for are told in several, and no deleted or damaged one", async () => {
  const risen = new RisenHighWatermarks();
  const make = (logId: number, state: { isDeleted?: boolean; damage?: Damage } = {}): RisingLog => {
    const mark = new LogHighWatermark(0 as Offset, { offset: 0, epoch: -1 });
    mark.raise(10);
    return {
      logId,
      durableEnd: logId % 2 === 0 ? 10 : 7,
      epochs: [{ epoch: 4 as LeaderEpoch, startOffset: 0 as Offset }],
      isDeleted: state.isDeleted ?? false,
      damage: state.damage,
      mark,
    };
  };
  risen.add(make(1, { isDeleted: true }));
  risen.add(make(2, { damage: { reason: "rotten", fromOffset: undefined } }));
  for (let logId = 3; logId < 3 + ROWS_MAX + 1000; logId++) risen.add(make(logId));
  const rows = [];
  const counts: number[] = [];
  for (let body = risen.take(); body !== undefined; body = risen.take()) {
    const found = [...rowsOf(body)];
    rows.push(...found);
    counts.push(found.length);
    risen.written();
  }
  expect(counts).toEqual([ROWS_MAX, 1000]);
  expect(risen.isFresh).toBe(false);
  expect(rows.map(({ logId }) => logId)).toEqual(Array.from({ length: ROWS_MAX + 1000 }, (_, place) => place + 3));
  expect(rows.slice(0, 2)).toEqual([
    { logId: 3, offset: 7, epoch: 4 },
    { logId: 4, offset: 10, epoch: 4 },
  ]);
});

test("a reset log is another one, empty where it was told, and gives its memory back", async () => {
  const { files, store, log, recorder, durable } = await withLog({ tailCacheBytes: 1 << 20 });
  for (let count = 0; count < 6; count++) appendBatch(log);
  await durable();
  await store.checkpoint();
  for (let count = 0; count < 6; count++) appendBatch(log);
  await durable();
  expect(log.held.pinnedBytes).toBeGreaterThan(0);
  expect(log.held.cachedBytes).toBeGreaterThan(0);
  const fresh = await store.resetLog(log, 40 as Offset);
  expect([log.held.pinnedBytes, log.held.cachedBytes, log.held.window.length]).toEqual([0, 0, 0]);
  expect(store.find(log.topicId, log.partition)).toBe(fresh);
  expect(fresh.logId).not.toBe(log.logId);
  expect(fresh).toMatchObject({ startOffset: 40, endOffset: 40, durableEnd: 40, highWatermark: 40, epochs: [] });
  expect(() => appendBatch(log)).toThrow(/deleted/);
  const batch = makeBatch(40, { epoch: 3 });
  fresh.append(batch, 40 as Offset, 3 as LeaderEpoch);
  await recorder.until(() => fresh.durableEnd === 41);
  const next = await crashed(files);
  const found = foundIn(next.store, log);
  expect(found).toMatchObject({ startOffset: 40, endOffset: 41, logId: fresh.logId });
  expect(await contentOf(found)).toEqual([batch]);
  expect(files.image.filesBelow("/data").filter(({ path }) => path.includes("-delete"))).toEqual([]);
});

test("a crash at any step of a reset leaves the old log whole, none, or the new one", async () => {
  const seen = new Set<string>();
  for (let killAt = 1; ; killAt++) {
    const { files, store, log, durable } = await withLog();
    const batches = Array.from({ length: 6 }, () => appendBatch(log));
    await durable();
    await store.checkpoint();
    const start = files.operations;
    files.onOperation = ({ number }) => {
      if (number === start + killAt) files.kill();
    };
    let isDone = false;
    void store.resetLog(log, 40 as Offset).then(() => {
      isDone = true;
    });
    await settle(60);
    for (const choices of [DROP_ALL, KEEP_ALL]) {
      const image = files.image.clone();
      image.crash(choices);
      const next = await opened(new MemoryFiles(image));
      const found = foundIn(next.store, log);
      if (found === undefined) seen.add("none");
      else if (found.startOffset === 40) {
        expect(found).toMatchObject({ endOffset: 40, damage: undefined });
        seen.add("new");
      } else {
        expect(isDone).toBe(false);
        expect(await contentOf(found)).toEqual(batches);
        seen.add("old");
      }
      expect((await next.store.createLog(specOf("a"))).damage).toBeUndefined();
      await next.store.close();
    }
    if (isDone) break;
  }
  expect([...seen].sort()).toEqual(["new", "none", "old"]);
});
