// D-13 at every sync of a life: it fails and loses its bytes, which stay visible in the page cache; the process dies, the next one recovers
// from what it sees, and then the power goes.
import { expect, test } from "vitest";
import { concatBytes } from "../../src/base/bytes.ts";
import { FileError } from "../../src/ports/files.ts";
import { DROP_ALL } from "../../src/sim/disk-image.ts";
import type { LogStoreImpl } from "../../src/storage/store.ts";
import type { ReplicaLog } from "../../src/storage/types.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, contentOf, openStore, Recorder, settle, specOf } from "./support.ts";

interface Life {
  readonly files: MemoryFiles;
  readonly batches: Uint8Array[];
  /** Highest durable end that was reported. */
  readonly reported: number;
  readonly syncs: number;
}

/** Appends and checkpoints until the sync of this number fails. */
async function live(failAt: number, end: "kill" | "close" = "kill"): Promise<Life> {
  const files = new MemoryFiles();
  const store = await openStore(files, { segmentBytes: 500 });
  const recorder = new Recorder();
  store.listen(recorder);
  const log = await store.createLog(specOf("a"));
  let syncs = 0;
  files.onOperation = ({ kind, path }) => {
    if ((kind !== "datasync" && kind !== "syncDirectory") || ++syncs !== failAt) return;
    const node = files.image.find(path);
    if (node?.kind === "file") files.image.failSync(node, DROP_ALL);
    throw new FileError("io", kind, path);
  };
  const batches: Uint8Array[] = [];
  for (let round = 0; round < 4 && recorder.failure === undefined; round++) {
    for (let count = 0; count < 5; count++) batches.push(appendBatch(log));
    await recorder.until(() => recorder.failure !== undefined || log.durableEnd === log.endOffset);
    if (round % 2 === 0) await store.checkpoint();
    await settle(2);
  }
  const reported = log.durableEnd;
  if (end === "close") await store.close();
  files.kill();
  files.image.closeAll();
  return { files, batches, reported, syncs };
}

function find(store: LogStoreImpl): ReplicaLog {
  const { topicId, partition } = specOf("a");
  const log = store.find(topicId, partition);
  if (log === undefined) throw new Error("the log is gone");
  expect(log.damage).toBeUndefined();
  return log;
}

async function check(store: LogStoreImpl, life: Life): Promise<Uint8Array> {
  const log = find(store);
  expect(log.durableEnd).toBeGreaterThanOrEqual(life.reported);
  const content = concatBytes(await contentOf(log));
  expect(content).toEqual(concatBytes(life.batches).subarray(0, content.length));
  return content;
}

test("D-13: whatever sync fails, what was reported durable stays, what a recovery served stays too, and a close ends", async () => {
  const { syncs } = await live(0);
  expect(syncs).toBeGreaterThan(15);
  for (let failAt = 1; failAt <= syncs; failAt++) {
    const life = await live(failAt, failAt % 2 === 0 ? "kill" : "close");
    const next = new MemoryFiles(life.files.image);
    const served = await check(await openStore(next, { segmentBytes: 500 }), life);
    next.kill();
    next.image.crash(DROP_ALL);
    expect(await check(await openStore(new MemoryFiles(next.image), { segmentBytes: 500 }), life)).toEqual(served);
  }
});

test("D-13: the power may go at any operation of the recovery after a failed sync", async () => {
  const { syncs } = await live(0);
  for (let failAt = 1; failAt <= syncs; failAt++) {
    const life = await live(failAt);
    const whole = new MemoryFiles(life.files.image.clone());
    await openStore(whole, { segmentBytes: 500 });
    for (let killAt = 1 + (failAt % 4); killAt <= whole.operations; killAt += 4) {
      const files = new MemoryFiles(life.files.image.clone());
      const death = new Promise<void>((resolve) => {
        files.onOperation = ({ number }) => {
          if (number !== killAt) return;
          files.kill();
          resolve();
        };
      });
      await Promise.race([openStore(files, { segmentBytes: 500 }), death]);
      files.image.crash(DROP_ALL);
      await check(await openStore(new MemoryFiles(files.image), { segmentBytes: 500 }), life);
    }
  }
});
