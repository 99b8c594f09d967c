// D-17, D8: damage that is met while the store runs is a state of its log, told once and kept; the others go on.
import { expect, test } from "vitest";
import type { LeaderEpoch, Offset } from "../../src/model/ids.ts";
import { FileError } from "../../src/ports/files.ts";
import { DROP_ALL } from "../../src/sim/disk-image.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, contentOf, openStore, readAll, Recorder, settle, specOf } from "./support.ts";

async function opened(files = new MemoryFiles()) {
  const store = await openStore(files);
  const recorder = new Recorder();
  store.listen(recorder);
  return { files, store, recorder };
}

/** Two logs with batches in segments, and some of `log` that only the journal and memory have. */
async function withLogs() {
  const ground = await opened();
  const { store, recorder } = ground;
  const log = (await store.createLog(specOf("a", 0, 1))) as ReplicaLogImpl;
  const other = (await store.createLog(specOf("b", 0, 2))) as ReplicaLogImpl;
  const batches = Array.from({ length: 20 }, () => appendBatch(log));
  const others = Array.from({ length: 5 }, () => appendBatch(other));
  await recorder.until(() => log.durableEnd === 20 && other.durableEnd === 5);
  await store.checkpoint();
  const tail = Array.from({ length: 3 }, () => appendBatch(log));
  await recorder.until(() => log.durableEnd === 23);
  return { ...ground, log, other, batches, others, tail };
}

/** The first segment of the log gives EIO. */
function unreadable(files: MemoryFiles): void {
  files.onOperation = ({ kind, path }) => {
    if (kind === "read" && path === "/data/a-0/00000000000000000000.log") throw new FileError("io", "read", path);
  };
}

const read = async (log: ReplicaLogImpl, offset: number) =>
  log.read(offset as Offset, { ...readAll, limitOffset: log.endOffset });

const damaged = { code: "STORAGE_ERROR", message: expect.stringContaining("damaged") };
const told = (recorder: Recorder): string[] => recorder.events.filter((event) => event.startsWith("damaged"));

test("a page that cannot be read damages its log, which takes and gives nothing from then on; the other log goes on", async () => {
  const { files, store, recorder, log, other, others } = await withLogs();
  unreadable(files);
  expect(log.damage).toBeUndefined();
  await expect(read(log, 2)).rejects.toMatchObject(damaged);
  expect(log.damage).toMatchObject({ fromOffset: 2, reason: expect.stringContaining("io") });
  await expect(read(log, 22)).rejects.toMatchObject(damaged);
  expect(() => appendBatch(log)).toThrow(/damaged/);
  await expect(log.truncate(4 as Offset)).rejects.toMatchObject(damaged);
  await expect(log.startEpoch(9 as LeaderEpoch)).rejects.toMatchObject(damaged);
  await expect(log.findTimestamp(0, log.endOffset)).rejects.toMatchObject(damaged);
  expect(told(recorder)).toEqual(["damaged a-0"]);
  others.push(appendBatch(other));
  await recorder.until(() => other.durableEnd === 6);
  expect(await contentOf(other)).toEqual(others);
  expect(recorder.failure).toBeUndefined();
  await store.close();
});

test("a batch whose epoch rots is not given out, though its CRC does not cover that", async () => {
  const { files, log, batches } = await withLogs();
  files.image.flipBit("/data/a-0/00000000000000000000.log", (batches[0] as Uint8Array).length + 15, 0);
  // D-16: nor is a neighbour, of which that can only be told together with it.
  await expect(read(log, 0)).rejects.toMatchObject(damaged);
  expect(log.damage?.reason).toMatch(/not those that were written/);
});

test("a damaged log answers for nothing that was on its way", async () => {
  const { recorder, log, other } = await withLogs();
  const before = recorder.events.length;
  appendBatch(log);
  log.markDamaged(new Error("rot"), 0);
  appendBatch(other);
  await recorder.until(() => other.durableEnd === 6);
  expect(recorder.events.slice(before).filter((event) => event.includes(" a-0"))).toEqual(["damaged a-0"]);
});

test("what only memory had goes to the segments, and the memory is given back", async () => {
  const { files, store, log, tail } = await withLogs();
  unreadable(files);
  await expect(read(log, 2)).rejects.toMatchObject(damaged);
  await settle();
  expect([log.held.pinnedBytes, log.held.cachedBytes]).toEqual([0, 0]);
  expect(log.segments.endOffset).toBe(23);
  const last = log.segments.all.at(-1);
  const node = files.image.find(`${last?.path}.log`);
  const bytes = node?.kind === "file" ? [...node.live.view.slice(0, node.live.sizeBytes)] : [];
  expect(bytes.slice(-(tail[2] as Uint8Array).length)).toEqual([...(tail[2] as Uint8Array)]);
  await store.close();
});

test("damage outlives a crash, a checkpoint and an ordered stop, until the log is reset", async () => {
  const { files, log, recorder } = await withLogs();
  unreadable(files);
  await expect(read(log, 2)).rejects.toMatchObject(damaged);
  await recorder.until(() => told(recorder).length === 1);
  await settle();
  files.kill();
  files.image.crash(DROP_ALL);
  let next = await opened(new MemoryFiles(files.image));
  const found = (): ReplicaLogImpl => next.store.find(log.topicId, log.partition) as ReplicaLogImpl;
  expect(found().damage).toMatchObject({ fromOffset: 2, reason: expect.stringContaining("io") });
  await next.store.checkpoint();
  await next.store.close();
  next = await opened(new MemoryFiles(next.files.image));
  expect(found().damage).toMatchObject({ fromOffset: 2 });
  const fresh = await next.store.resetLog(found(), 7 as Offset);
  expect(fresh).toMatchObject({ damage: undefined, startOffset: 7, endOffset: 7 });
  next.files.kill();
  next.files.image.crash(DROP_ALL);
  next = await opened(new MemoryFiles(next.files.image));
  expect(found()).toMatchObject({ damage: undefined, startOffset: 7, endOffset: 7 });
});

test("a segment that the flush cannot read damages its log alone, and a checkpoint under way ends", async () => {
  const { files, store, recorder, log, other } = await withLogs();
  for (const each of log.segments.all) each.index = undefined;
  files.onOperation = ({ kind, path }) => {
    if (kind === "read" && path.startsWith("/data/a-0/")) throw new FileError("io", "read", path);
  };
  await store.checkpoint();
  expect(log.damage).toBeDefined();
  expect([log.held.pinnedBytes, log.held.cachedBytes]).toEqual([0, 0]);
  expect(told(recorder)).toEqual(["damaged a-0"]);
  expect(recorder.failure).toBeUndefined();
  appendBatch(other);
  await recorder.until(() => other.durableEnd === 6);
  await store.close();
  const next = await opened(new MemoryFiles(files.image));
  expect(next.store.find(log.topicId, log.partition)?.damage).toBeDefined();
  expect(next.store.find(other.topicId, other.partition)).toMatchObject({ damage: undefined, endOffset: 6 });
});

test("a truncation that meets a page that cannot be read damages the log", async () => {
  const { files, recorder, log } = await withLogs();
  unreadable(files);
  await expect(log.truncate(2 as Offset)).rejects.toMatchObject(damaged);
  expect(told(recorder)).toEqual(["damaged a-0"]);
  expect(log.endOffset).toBe(23);
});

test("a metadata file of a log that cannot be read damages that log at the start, and a reset helps", async () => {
  const { files, store, log, other } = await withLogs();
  await store.close();
  const next = new MemoryFiles(files.image);
  next.onOperation = ({ kind, path }) => {
    if (kind === "read" && path === "/data/a-0/partition.metadata") throw new FileError("io", "read", path);
  };
  const { store: again } = await opened(next);
  const found = again.find(log.topicId, log.partition) as ReplicaLogImpl;
  expect(found.damage).toBeDefined();
  expect(again.find(other.topicId, other.partition)?.damage).toBeUndefined();
  expect((await again.resetLog(found, 0 as Offset)).damage).toBeUndefined();
  await again.close();
});

test("a page that recovery cannot read damages its log; the store opens, and what the journal has of it is kept", async () => {
  const { files, store, log, other } = await withLogs();
  await store.checkpoint();
  await log.truncate(3 as Offset);
  await settle();
  files.kill();
  files.image.crash(DROP_ALL);
  const next = new MemoryFiles(files.image);
  next.onOperation = ({ kind, path }) => {
    if (kind === "read" && path.startsWith("/data/a-0/0")) throw new FileError("io", "read", path);
  };
  const { store: again, recorder } = await opened(next);
  expect(again.find(log.topicId, log.partition)?.damage).toBeDefined();
  const found = again.find(other.topicId, other.partition) as ReplicaLogImpl;
  appendBatch(found);
  await recorder.until(() => found.durableEnd === 6);
  await again.close();
  expect(files.image.filesBelow("/data/journal").some(({ path }) => path.endsWith(".damaged"))).toBe(true);
});

test("D5: any flipped bit of a log's metadata file damages that log alone", async () => {
  const { files, store, log, other } = await withLogs();
  await store.close();
  const path = "/data/a-0/partition.metadata";
  const node = files.image.find(path);
  const size = node?.kind === "file" ? node.live.sizeBytes : 0;
  expect(size).toBeGreaterThan(100);
  for (let position = 0; position < size; position++) {
    const image = files.image.clone();
    image.flipBit(path, position, position % 8);
    const { store: next } = await opened(new MemoryFiles(image));
    expect(next.find(log.topicId, log.partition)?.damage, `byte ${position}`).toBeDefined();
    expect(next.find(other.topicId, other.partition)?.damage).toBeUndefined();
    await next.close();
  }
});

for (const harm of ["missing", "foreign"] as const) {
  test(`a damaged log whose directory is ${harm} can be reset`, async () => {
    const { files, store, log } = await withLogs();
    await store.close();
    if (harm === "missing") files.image.rename("/data/a-0", "/elsewhere");
    else files.image.rename("/data/b-0/partition.metadata", "/data/a-0/partition.metadata");
    const { store: next, recorder } = await opened(new MemoryFiles(files.image));
    const found = next.find(log.topicId, log.partition) as ReplicaLogImpl;
    expect(found.damage).toBeDefined();
    const fresh = await next.resetLog(found, 9 as Offset);
    expect(fresh).toMatchObject({ damage: undefined, endOffset: 9 });
    appendBatch(fresh);
    await recorder.until(() => fresh.durableEnd === 10);
    await next.close();
  });
}
