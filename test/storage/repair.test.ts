// D-17: damage of closed segments ends without dropping the log: what is committed comes from a peer, and a checkpoint puts it in its place.
import { afterEach, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { concatBytes } from "../../src/base/bytes.ts";
import { CLEANUP } from "../../src/model/config-values.ts";
import type { Offset } from "../../src/model/ids.ts";
import { sequencedAt } from "../../src/model/producer-table.ts";
import { DROP_ALL } from "../../src/sim/disk-image.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import type { LogRepair } from "../../src/storage/types.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, contentOf, makeBatch, opened, readAll, specOf } from "./support.ts";

afterEach(() => activateMutants([]));

const BATCHES = 80;

/** All committed; `tail` batches came since the checkpoint. */
async function withLog(tail = 5) {
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files);
  const log = (await store.createLog(specOf("a", 0, 1))) as ReplicaLogImpl;
  const batches = Array.from({ length: BATCHES }, () => appendBatch(log));
  await recorder.until(() => log.durableEnd === BATCHES);
  log.noteHighWatermark(log.durableEnd);
  await store.checkpoint();
  for (let count = 0; count < tail; count++) batches.push(appendBatch(log));
  await recorder.until(() => log.durableEnd === BATCHES + tail);
  return { files, store, recorder, log, batches };
}

const readAt = async (log: ReplicaLogImpl, offset: number) =>
  log.read(offset as Offset, { ...readAll, limitOffset: log.endOffset });

async function damage(files: MemoryFiles, log: ReplicaLogImpl, place = 1): Promise<void> {
  const { path, base } = log.segments.all[place] as (typeof log.segments.all)[number];
  files.image.flipBit(`${path}.log`, 100, 1);
  await expect(readAt(log, base)).rejects.toMatchObject({ code: "STORAGE_ERROR" });
  expect(log.damage).toBeDefined();
}

/** Hands in what a leader would give, `count` batches at a time. */
async function fill(repair: LogRepair, batches: readonly Uint8Array[], count = 3): Promise<void> {
  for (let offset = repair.nextOffset; offset !== undefined; offset = repair.nextOffset)
    await repair.take(concatBytes(batches.slice(offset, offset + count)));
}

const beginRepair = (log: ReplicaLogImpl): LogRepair => {
  const repair = log.beginRepair();
  if (repair === undefined) throw new Error("nothing can be repaired");
  return repair;
};

test("D-17: a damaged closed segment is made anew; the log then gives what it had, takes more, and so it stays over crashes", async () => {
  const { files, store, recorder, log, batches } = await withLog();
  await damage(files, log);
  const repair = beginRepair(log);
  expect(repair.nextOffset).toBe(log.segments.all[1]?.base);
  await fill(repair, batches);
  expect(await repair.finish()).toBe(true);
  expect(log.damage).toBeUndefined();
  expect(await contentOf(log)).toEqual(batches);
  batches.push(appendBatch(log));
  await recorder.until(() => log.durableEnd === BATCHES + 6);
  files.kill();
  files.image.crash(DROP_ALL);
  const { store: again } = await opened(new MemoryFiles(files.image));
  const found = again.find(log.topicId, log.partition) as ReplicaLogImpl;
  expect(found.damage).toBeUndefined();
  expect(await contentOf(found)).toEqual(batches);
  expect(store.isRunning).toBe(true);
});

test("D-17: a segment whose file is missing is made anew, and so are several at once", async () => {
  const { files, log, batches, store } = await withLog();
  const [first, , third] = log.segments.all;
  expect(files.image.vanish(`${third?.path}.log`)).toBe(true);
  await store.handles.closeAll();
  await damage(files, log, 0);
  (third as { isSuspect: boolean }).isSuspect = true;
  const repair = beginRepair(log);
  expect(repair.nextOffset).toBe(first?.base);
  await fill(repair, batches, 1000);
  expect(await repair.finish()).toBe(true);
  expect(await contentOf(log)).toEqual(batches);
});

test("D-17: a repair does not end what was met beside it: what memory had could not go to its segment", async () => {
  const { files, store, log, batches } = await withLog();
  await damage(files, log);
  const repair = beginRepair(log);
  await fill(repair, batches);
  expect(files.image.vanish(`${log.segments.all.at(-1)?.path}.log`)).toBe(true);
  await store.handles.closeAll();
  expect(await repair.finish()).toBe(false);
  expect(log.damage).toBeDefined();
  await store.checkpoint();
  expect([log.damage === undefined, log.beginRepair()]).toEqual([false, undefined]);
  files.kill();
  const { store: again } = await opened(new MemoryFiles(files.image));
  expect((again.find(log.topicId, log.partition) as ReplicaLogImpl).damage).toBeDefined();
});

test("D-16: bytes that are not those that were written are refused, however right they look", async () => {
  const { files, log, batches } = await withLog();
  await damage(files, log);
  const repair = beginRepair(log);
  const base = repair.nextOffset as number;
  const others = batches.map((batch, offset) => (offset === base ? makeBatch(offset, { fill: 200 }) : batch));
  await expect(fill(repair, others)).rejects.toMatchObject({ message: expect.stringContaining("other batches") });
  await repair.giveUp();
  const names = (await files.list("/data/a-0")).map(({ name }) => name);
  expect(names.filter((name) => name.endsWith(".cleaned"))).toEqual([]);
  expect(log.damage).toBeDefined();
  // Begun again with the right ones.
  const next = beginRepair(log);
  await fill(next, batches);
  expect(await next.finish()).toBe(true);
});

test("D-17r: with the planted bug they are taken", async () => {
  const { files, log, batches } = await withLog();
  await damage(files, log);
  activateMutants(["D-17r"]);
  const repair = beginRepair(log);
  const base = repair.nextOffset as number;
  const others = batches.map((batch, offset) => (offset === base ? makeBatch(offset, { fill: 200 }) : batch));
  await fill(repair, others);
  expect(await repair.finish()).toBe(true);
  expect(await contentOf(log)).not.toEqual(batches);
});

test("D-17: a gap, another epoch and a rotten batch are refused", async () => {
  const { files, log, batches } = await withLog();
  await damage(files, log);
  const base = beginRepair(log).nextOffset as number;
  const rotten = (batches[base] as Uint8Array).slice();
  rotten[70] = (rotten[70] as number) ^ 1;
  for (const wrong of [batches[base + 1] as Uint8Array, makeBatch(base, { epoch: 1 }), rotten]) {
    const repair = beginRepair(log);
    await expect(repair.take(wrong)).rejects.toMatchObject({ code: "STORAGE_ERROR" });
    await repair.giveUp();
  }
});

test("D-17: nothing but closed, committed segments damaged at run time is repaired", async () => {
  const active = await withLog(0);
  await damage(active.files, active.log, active.log.segments.all.length - 1);
  expect(active.log.beginRepair()).toBeUndefined();
  const whole = await withLog();
  expect(whole.log.beginRepair()).toBeUndefined();
  const uncommitted = await withLog();
  uncommitted.log.mark.cut(30);
  await damage(uncommitted.files, uncommitted.log);
  expect(uncommitted.log.beginRepair()).toBeUndefined();
  const compacted = await withLog();
  compacted.log.configure({ ...compacted.log.segments.settings, cleanupPolicy: CLEANUP.COMPACT });
  await damage(compacted.files, compacted.log);
  expect(compacted.log.beginRepair()).toBeUndefined();
  const restarted = await withLog();
  await damage(restarted.files, restarted.log);
  await restarted.store.close();
  const { store } = await opened(new MemoryFiles(restarted.files.image));
  const found = store.find(restarted.log.topicId, restarted.log.partition) as ReplicaLogImpl;
  expect(found.damage).toBeDefined();
  for (const segment of found.segments.all) segment.isSuspect = true;
  expect(found.beginRepair()).toBeUndefined();
});

test("D-15: a damage that the start met itself is not repaired: nobody knows the producers", async () => {
  const { files, store, recorder, log } = await withLog();
  const batch = appendBatch(log, { producer: { producerId: 5, producerEpoch: 0, baseSequence: 0 } });
  log.producers.observe(sequencedAt(batch, 0));
  await recorder.until(() => log.durableEnd === log.endOffset);
  log.noteHighWatermark(log.durableEnd);
  const [first] = log.segments.all;
  await store.close();
  files.image.flipBit(`${first?.path}.log`, 100, 1);
  for (const { name } of await files.list("/data/a-0"))
    if (name.endsWith(".producers")) await files.unlink(`/data/a-0/${name}`);
  const { store: again } = await opened(new MemoryFiles(files.image));
  const found = again.find(log.topicId, log.partition) as ReplicaLogImpl;
  expect([found.damage?.reason, found.segments.all[0]?.isSuspect]).toEqual([expect.stringContaining("written"), true]);
  expect(found.beginRepair()).toBeUndefined();
});
