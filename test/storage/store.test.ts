// The store's daily work: append, events, read, roll, checkpoint, restart, create and delete.
import { activateMutants } from "../../src/base/mutant.ts";
import { UNCONFIGURED_LOG } from "../../src/storage/log-settings.ts";
import { expect, test } from "vitest";
import type { Offset } from "../../src/model/ids.ts";
import { FileError } from "../../src/ports/files.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, baseConfig, contentOf, ManualTimers, opened, settle, specOf } from "./support.ts";

test("a batch is accepted, written, durable, in this order, and read back from memory", async () => {
  const { store, recorder } = await opened(new MemoryFiles());
  expect(store.restart).toBe("first");
  const log = await store.createLog(specOf("a"));
  recorder.events.length = 0;
  const batch = appendBatch(log, { count: 3 });
  expect([log.endOffset, log.writtenEnd, log.durableEnd]).toEqual([3, 0, 0]);
  await recorder.until(() => log.durableEnd === 3);
  expect(recorder.events).toEqual(["written a-0 3", "durable a-0 3"]);
  const result = log.read(0 as Offset, { limitOffset: 3 as Offset, maxBytes: 1000, atLeastOne: true });
  expect(result).not.toBeInstanceOf(Promise);
  expect(result).toEqual({ chunks: [batch], sizeBytes: batch.length, nextOffset: 3 });
  await store.close();
});

test("what was appended is there after an ordered close and a start, from segments that rolled", async () => {
  const files = new MemoryFiles();
  const first = await opened(files);
  const log = await first.store.createLog(specOf("a"));
  const batches = Array.from({ length: 100 }, (_, index) =>
    appendBatch(log, { count: 1 + (index % 3), epoch: index >> 5 }),
  );
  await first.recorder.until(() => log.durableEnd === log.endOffset);
  await first.store.close();
  const second = await opened(files);
  expect(second.store.restart).toBe("clean");
  const found = second.store.find(log.topicId, log.partition);
  expect(found?.endOffset).toBe(log.endOffset);
  expect(found?.durableEnd).toBe(log.endOffset);
  expect(found?.epochs).toEqual(log.epochs);
  expect(found === undefined ? [] : await contentOf(found)).toEqual(batches);
  expect([...second.store.logs][0]?.segments.all.length).toBeGreaterThan(3);
  await second.store.close();
});

test("settings of a running log hold for what is written next; a batch taken before may fill a segment alone", async () => {
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files, { segmentBytes: 100_000 });
  const log = await store.createLog(specOf("a"));
  const batches = [appendBatch(log, { valueBytes: 300 })];
  await recorder.until(() => log.durableEnd === 1);
  batches.push(appendBatch(log, { valueBytes: 300 }), appendBatch(log, { valueBytes: 300 }));
  log.configure({ ...UNCONFIGURED_LOG, segmentBytes: 350, indexIntervalBytes: 50 });
  batches.push(...Array.from({ length: 4 }, () => appendBatch(log, { valueBytes: 20 })));
  await recorder.until(() => log.durableEnd === log.endOffset);
  await store.checkpoint();
  const [segments] = [...store.logs].map((each) => each.segments.all.map((segment) => segment.base));
  expect(segments).toEqual([0, 1, 2, 3, 6]);
  expect(await contentOf(log)).toEqual(batches);
  await store.close();
  const again = await opened(files);
  const found = again.store.find(log.topicId, log.partition);
  expect(found === undefined ? [] : await contentOf(found)).toEqual(batches);
  await again.store.close();
});

test("a killed process loses nothing that was written", async () => {
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files);
  const log = await store.createLog(specOf("a"));
  const batches = Array.from({ length: 60 }, () => appendBatch(log, { count: 2 }));
  await recorder.until(() => log.writtenEnd === log.endOffset);
  files.kill();
  files.image.closeAll();
  const again = await opened(new MemoryFiles(files.image));
  expect(again.store.restart).toBe("process-death");
  const found = again.store.find(log.topicId, log.partition);
  expect(found === undefined ? [] : await contentOf(found)).toEqual(batches);
  await again.store.close();
});

test("a deleted topic's name is free at once, and its data never comes back", async () => {
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files);
  const old = await store.createLog(specOf("a", 0, 1));
  appendBatch(old, { count: 5 });
  await recorder.until(() => old.durableEnd === 5);
  await store.deleteLog(old);
  expect(store.find(old.topicId, old.partition)).toBeUndefined();
  await expect(
    old.read(0 as Offset, { limitOffset: 5 as Offset, maxBytes: 1000, atLeastOne: true }),
  ).rejects.toMatchObject({ code: "STORAGE_ERROR" });
  const fresh = await store.createLog(specOf("a", 0, 2));
  expect(fresh.endOffset).toBe(0);
  expect(fresh.logId).not.toBe(old.logId);
  await settle();
  await store.close();
});

test("a log whose topic has the longest name can be deleted, also by the start after a crash", async () => {
  const topic = "y".repeat(249);
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files);
  const [first, second] = [await store.createLog(specOf(topic, 0, 1)), await store.createLog(specOf(topic, 1, 1))];
  appendBatch(first, { count: 5 });
  await recorder.until(() => first.durableEnd === 5);
  await store.deleteLog(first);
  await settle();
  expect(recorder.failure).toBeUndefined();
  await store.deleteLog(second);
  files.kill();
  files.image.closeAll();
  const survived = new MemoryFiles(files.image);
  const again = await opened(survived);
  expect((await survived.list("/data")).filter(({ name }) => name.startsWith("yyy"))).toEqual([]);
  await again.store.close();
});

test("truncation and log start survive a restart, also when cut in the middle of segments", async () => {
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files);
  const log = await store.createLog(specOf("a"));
  const kept = Array.from({ length: 50 }, () => appendBatch(log, { epoch: 1 }));
  await recorder.until(() => log.durableEnd === 50);
  await store.checkpoint();
  await log.truncate(33 as Offset);
  const rest = Array.from({ length: 10 }, () => appendBatch(log, { epoch: 2, fill: 200 }));
  await recorder.until(() => log.durableEnd === 43);
  await log.advanceStart(7 as Offset);
  const expected = [...kept.slice(7, 33), ...rest];
  expect(await contentOf(log)).toEqual(expected);
  await store.checkpoint();
  expect(await contentOf(log)).toEqual(expected);
  await store.close();
  const again = await opened(files);
  const found = again.store.find(log.topicId, log.partition);
  expect(found?.startOffset).toBe(7);
  expect(found?.epochs).toEqual([
    { epoch: 1, startOffset: 7 },
    { epoch: 2, startOffset: 33 },
  ]);
  expect(found === undefined ? [] : await contentOf(found)).toEqual(expected);
  await again.store.close();
});

test("no start waits for epoch files: the first checkpoint writes them, also where nothing else has to be written", async () => {
  const files = new MemoryFiles();
  const first = await opened(files);
  const log = await first.store.createLog(specOf("a"));
  appendBatch(log, { epoch: 7 });
  await first.recorder.until(() => log.durableEnd === 1);
  files.kill();
  const again = new MemoryFiles(files.image);
  const timers = new ManualTimers();
  const { store } = await opened(again, {}, timers);
  const path = "/data/a-0/leader-epoch-checkpoint";
  expect(again.image.find(path)).toBeUndefined();
  timers.fire(baseConfig.checkpointIntervalMs);
  await store.idle;
  const file = again.image.find(path);
  expect(file?.kind === "file" && Buffer.from(file.live.view).toString("latin1")).toBe("0\n1\n7 0\n");
  await store.close();
});

test("S-57: a directory that is missing when its epoch file is to be written is one of its log, not of the disk", async () => {
  const files = new MemoryFiles();
  const first = await opened(files);
  for (const topic of ["a", "b"])
    appendBatch(await first.store.createLog(specOf(topic, 0, topic === "a" ? 1 : 2)), { epoch: 7 });
  await first.recorder.until(() => [...first.store.logs].every((log) => log.durableEnd === 1));
  files.kill();
  const again = new MemoryFiles(files.image);
  const { store, recorder } = await opened(again);
  again.onOperation = ({ kind, path }) => {
    if (kind === "open" && path === "/data/a-0/leader-epoch-checkpoint") throw new FileError("not-found", "open", path);
  };
  await store.checkpoint();
  expect(recorder.failure).toBeUndefined();
  expect([...store.logs].map(({ topic, damage }) => [topic, damage !== undefined])).toEqual([
    ["a", true],
    ["b", false],
  ]);
  await store.close();
});

/** What the store says of the disk when a log's directory goes with it while it is synced. */
async function deletedInSync(): Promise<string | undefined> {
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files);
  const [gone] = [await store.createLog(specOf("a", 0, 1)), await store.createLog(specOf("b", 0, 2))];
  for (const log of store.logs) appendBatch(log);
  await recorder.until(() => [...store.logs].every((log) => log.durableEnd === 1));
  let deleted: Promise<void> | undefined;
  files.onOperation = ({ kind, path }) => {
    if (kind !== "syncDirectory" || path !== "/data/a-0") return;
    deleted ??= store.deleteLog(gone);
    deleted.catch(() => undefined);
    throw new FileError("not-found", kind, path);
  };
  await store.checkpoint();
  expect(deleted).toBeDefined();
  const failure = recorder.failure?.code;
  if (failure === undefined) {
    await deleted;
    expect([...store.logs].map(({ topic, damage }) => [topic, damage])).toEqual([["b", undefined]]);
  }
  await store.close();
  return failure;
}

test("S-57: a directory that goes with its log while it is synced is no failure of the disk", async () => {
  expect(await deletedInSync()).toBeUndefined();
});

test("S-57d: if it were, a topic that is deleted would end the broker", async () => {
  activateMutants(["S-57d"]);
  try {
    expect(await deletedInSync()).toBe("DISK_FAILED");
  } finally {
    activateMutants([]);
  }
});

test("S-57: a directory that cannot be opened to be synced, for want of a descriptor, puts the checkpoint off", async () => {
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files);
  const log = await store.createLog(specOf("a"));
  appendBatch(log);
  await recorder.until(() => log.durableEnd === 1);
  let refused = 0;
  files.onOperation = ({ kind, path }) => {
    if (kind !== "syncDirectory" || path !== "/data/checkpoint") return;
    refused++;
    throw new FileError("too-many-open", kind, path);
  };
  await store.checkpoint();
  expect([refused, recorder.failure]).toEqual([1, undefined]);
  files.onOperation = () => undefined;
  await store.checkpoint();
  await store.close();
  expect(recorder.failure).toBeUndefined();
  const again = await opened(files);
  expect([again.store.restart, again.store.find(log.topicId, log.partition)?.endOffset]).toEqual(["clean", 1]);
  await again.store.close();
});
