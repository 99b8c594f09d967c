// D-14, S-8: no handle outlives the name that it was opened under: what a new log writes goes to its own files.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { Offset } from "../../src/model/ids.ts";
import { FileError } from "../../src/ports/files.ts";
import { DROP_ALL } from "../../src/sim/disk-image.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import { MemoryFiles, type Operation } from "./memory-files.ts";
import { appendBatch, contentOf, openStore, Recorder, settle, specOf } from "./support.ts";

afterEach(() => activateMutants([]));

const BATCHES = 60;

/** A log in several segments, on the disk. Batches of the same size, so a log made like it has segments of the same names. */
async function withSegments() {
  const files = new MemoryFiles();
  const store = await openStore(files);
  const recorder = new Recorder();
  store.listen(recorder);
  const log = (await store.createLog(specOf("a"))) as ReplicaLogImpl;
  await fill(log, recorder);
  await store.checkpoint();
  expect(log.segments.all.length).toBeGreaterThan(2);
  return { files, store, recorder, log };
}

async function fill(log: ReplicaLogImpl, recorder: Recorder): Promise<Uint8Array[]> {
  const batches: Uint8Array[] = [];
  while (log.endOffset < BATCHES) batches.push(appendBatch(log));
  await recorder.until(() => log.durableEnd === BATCHES);
  await settle();
  return batches;
}

const pathOf = (log: ReplicaLogImpl, place: number): string => `${String(log.segments.all[place]?.path)}.log`;

/** What the next process finds of the log after a checkpoint and a power loss. */
async function afterCrash({ files, store }: Awaited<ReturnType<typeof withSegments>>, log: ReplicaLogImpl) {
  await store.checkpoint();
  files.kill();
  files.image.crash(DROP_ALL);
  const next = await openStore(new MemoryFiles(files.image));
  const found = next.find(log.topicId, log.partition);
  if (found === undefined || found.damage !== undefined) return `damaged: ${String(found?.damage?.reason)}`;
  return contentOf(found);
}

/** Does `act` once, before the first operation that `isMeant`. */
function once(files: MemoryFiles, isMeant: (operation: Operation) => boolean, act: () => void): () => boolean {
  let isDone = false;
  files.onOperation = (operation) => {
    if (isDone || !isMeant(operation)) return;
    isDone = true;
    act();
  };
  return () => isDone;
}

/** A cut that met a page that could not be read has dropped the segments behind it, but their files and handles are there. */
async function resetAfterFailedCut() {
  const ground = await withSegments();
  const { files, store, log, recorder } = ground;
  const first = pathOf(log, 0);
  let reads = 0;
  files.onOperation = ({ kind, path }) => {
    // The first one finds the batch, the second is the cut's.
    if (kind === "read" && path === first && ++reads > 1) throw new FileError("io", "read", path);
  };
  await log.truncate(3 as Offset).catch(() => undefined);
  await settle();
  expect([log.damage?.reason, log.segments.all.length]).toEqual([expect.stringContaining("io"), 1]);
  files.onOperation = () => undefined;
  const fresh = (await store.resetLog(log, 0 as Offset)) as ReplicaLogImpl;
  const batches = await fill(fresh, recorder);
  return { batches, found: await afterCrash(ground, fresh) };
}

/** A reader opens a segment again while the log's directory is about to be renamed. */
async function readerBesideDelete() {
  const ground = await withSegments();
  const { files, store, log, recorder } = ground;
  const path = pathOf(log, 1);
  const isRead = once(
    files,
    ({ kind, path: from }) => kind === "rename" && from === "/data/a-0",
    () => {
      files.delayTurns = () => 0;
      void store.handles.use(path, "write", (handle) => handle.size());
      files.delayTurns = () => 1;
    },
  );
  await store.deleteLog(log);
  const fresh = (await store.createLog(specOf("a", 0, 2))) as ReplicaLogImpl;
  expect(isRead()).toBe(true);
  const batches = await fill(fresh, recorder);
  return { batches, found: await afterCrash(ground, fresh) };
}

/** A reader opens a segment again while a cut is about to unlink it; the next segment has its name. */
async function readerBesideCut() {
  const ground = await withSegments();
  const { files, store, log, recorder } = ground;
  const path = pathOf(log, 1);
  const base = log.segments.all[1]?.base ?? 0;
  const kept = (await contentOf(log)).slice(0, base);
  const isRead = once(
    files,
    ({ kind, path: gone }) => kind === "unlink" && gone === path,
    () => {
      files.delayTurns = () => 0;
      void store.handles.use(path, "write", (handle) => handle.size());
      files.delayTurns = () => 1;
    },
  );
  await log.truncate(base as Offset);
  await settle();
  expect(isRead()).toBe(true);
  const batches = [...kept, ...(await fill(log, recorder))];
  return { batches, found: await afterCrash(ground, log) };
}

describe.each([
  ["a log that was reset after a cut that failed", resetAfterFailedCut],
  ["a log whose name another one had, read while it was deleted", readerBesideDelete],
  ["a segment whose name one had that was cut, read meanwhile", readerBesideCut],
])("D-14h: %s", (_, schedule) => {
  test("is written to files of its own", async () => {
    const { batches, found } = await schedule();
    expect(found).toEqual(batches);
  });

  test("is lost with the planted bug", async () => {
    activateMutants(["D-14h"]);
    expect((await schedule()).found).toMatch(/^damaged: .*\.log is missing$/);
  });
});
