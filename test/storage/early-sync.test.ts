// What is written to segments is synced as it comes, not all at once by a checkpoint: that held up the journal, and with it every acknowledgement.
import { expect, test } from "vitest";
import { FileError } from "../../src/ports/files.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, openStore, Recorder, settle, specOf } from "./support.ts";

const MiB = 1024 * 1024;

/** Appends 21 MB, one after the other, without a checkpoint. */
async function written(onSync: (path: string) => void) {
  const files = new MemoryFiles();
  files.onOperation = ({ kind, path }) => {
    if (kind === "datasync" && path.endsWith(".log")) onSync(path);
  };
  const limits = { segmentBytes: 64 * MiB, journalBytes: 256 * MiB, journalPinnedBytes: 64 * MiB, tailCacheBytes: 0 };
  const store = await openStore(files, limits);
  const recorder = new Recorder();
  store.listen(recorder);
  const log = await store.createLog(specOf("a"));
  for (let round = 0; round < 21 && recorder.failure === undefined; round++) {
    appendBatch(log, { valueBytes: 1_000_000 });
    await recorder.until(() => log.durableEnd === log.endOffset || recorder.failure !== undefined);
    while (recorder.failure === undefined && log.isInMemory((log.endOffset - 1) as never)) await settle();
  }
  return { files, store, recorder, log };
}

test("a segment is synced after each MiB, and of what is left a checkpoint syncs the rest", async () => {
  let syncs = 0;
  const { store } = await written(() => syncs++);
  // After 2 MB each.
  expect(syncs).toBe(10);
  await store.checkpoint();
  expect(syncs).toBe(11);
  await store.close();
});

test("one that fails is the end of the disk, as any sync", async () => {
  const { recorder } = await written((path) => {
    throw new FileError("io", "datasync", path);
  });
  expect(recorder.failure?.code).toBe("DISK_FAILED");
});

test("no space at such a sync is no reason to go on either: what it covered may be gone", async () => {
  const { recorder } = await written((path) => {
    throw new FileError("no-space", "datasync", path);
  });
  expect(recorder.failure?.code).toBe("DISK_FAILED");
});
