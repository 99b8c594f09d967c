// Each planted bug of the storage has a directed schedule that holds without it and breaks with it.
import { afterEach, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { Offset } from "../../src/model/ids.ts";
import { FileError } from "../../src/ports/files.ts";
import { DROP_ALL, KEEP_ALL } from "../../src/sim/disk-image.ts";
import type { ReplicaLog, StorageConfig } from "../../src/storage/types.ts";
import { MemoryFiles, type Operation } from "./memory-files.ts";
import { appendBatch, contentOf, openStore, Recorder, settle, specOf } from "./support.ts";

afterEach(() => activateMutants([]));

async function opened(files = new MemoryFiles(), config: Partial<StorageConfig> = {}) {
  const store = await openStore(files, config);
  const recorder = new Recorder();
  store.listen(recorder);
  return { files, store, recorder };
}

const isJournal = (operation: Operation): boolean => operation.path.includes("/journal/");

/** The log after a crash, as the next process finds it. */
async function after(
  files: MemoryFiles,
  log: ReplicaLog,
  choices: typeof KEEP_ALL,
): Promise<{ end: number; highWatermark: number; content: Uint8Array[] | undefined }> {
  files.kill();
  files.image.crash(choices);
  const { store } = await opened(new MemoryFiles(files.image)).catch(() => ({ store: undefined }));
  const found = store?.find(log.topicId, log.partition);
  if (found === undefined || found.damage !== undefined) return { end: -1, highWatermark: -1, content: undefined };
  return { end: found.endOffset, highWatermark: found.highWatermark, content: await contentOf(found) };
}

/** The first `count` syncs of the journal end when told, those after never. */
function holdSyncs(files: MemoryFiles, count: number): () => void {
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const run = files.run.bind(files);
  let syncs = 0;
  files.run = async (kind, path, work) => {
    if (kind === "datasync" && path.includes("/journal/")) {
      if (++syncs > count) return new Promise(() => undefined);
      await held;
    }
    return run(kind, path, work);
  };
  return release;
}

/** What was synced rots before the next start. */
async function rotBelowTheMark(): Promise<boolean> {
  const { files, store, recorder } = await opened();
  const log = await store.createLog(specOf("a"));
  const path = "/data/journal/0000000001.journal";
  const sizes: number[] = [];
  for (let count = 1; count <= 5; count++) {
    appendBatch(log);
    await recorder.until(() => log.durableEnd === count);
    const node = files.image.find(path);
    sizes.push(node?.kind === "file" ? node.live.sizeBytes : 0);
  }
  const node = files.image.find(path);
  if (node?.kind === "file") files.image.write(node, (sizes[1] as number) + 100, Uint8Array.of(0xee, 0xee));
  // Cut at the damage the log would be two offsets long, and those reported durable would be gone without a word.
  const { end } = await after(files, log, KEEP_ALL);
  return end === -1 || end >= 5;
}

/** The sync of what was cut ends while others have its offsets. */
async function slowSyncAcrossACut(): Promise<boolean> {
  const { files, store, recorder } = await opened();
  const log = await store.createLog(specOf("a"));
  const release = holdSyncs(files, 2);
  for (let count = 0; count < 10; count++) appendBatch(log);
  await recorder.until(() => log.writtenEnd === 10);
  const cut = log.truncate(5 as Offset);
  release();
  await cut;
  for (let count = 0; count < 5; count++) appendBatch(log, { epoch: 1, fill: 90 });
  await recorder.until(() => log.writtenEnd === 10);
  await settle();
  const reported = log.durableEnd;
  return (await after(files, log, DROP_ALL)).end >= reported;
}

/** A log is made while a checkpoint begins so many turns later, and takes a record. */
async function bornBesideCheckpoint(turns: number) {
  const { files, store, recorder } = await opened();
  appendBatch(await store.createLog(specOf("a")));
  const created = store.createLog(specOf("b", 0, 2));
  for (let left = turns; left > 0; left--) await undefined;
  const checkpoint = store.checkpoint();
  const log = await created;
  const batch = appendBatch(log);
  await recorder.until(() => log.durableEnd === 1);
  await checkpoint;
  return { files, log, batch };
}

async function createdBesideCheckpoint(turns: number): Promise<boolean> {
  const { files, log, batch } = await bornBesideCheckpoint(turns);
  const { content } = await after(files, log, DROP_ALL);
  return content !== undefined && String(content) === String([batch]);
}

/** Each says whether what was promised held. */
const schedules: Record<string, () => Promise<boolean>> = {
  "D-6slot": async () => {
    const { files, store } = await opened();
    for (const epoch of [5, 11]) await store.storeBrokerEpoch(epoch);
    files.kill();
    const node = files.image.find("/data/superblock");
    if (node?.kind !== "file") throw new Error("no superblock");
    const epochs = [0, 4096].map(async (start) => {
      const image = files.image.clone();
      const rotten = image.find("/data/superblock");
      if (rotten?.kind === "file")
        image.write(rotten, start + 200, Uint8Array.of((node.live.view[start + 200] as number) ^ 1));
      return (await openStore(new MemoryFiles(image))).brokerEpoch;
    });
    return (await Promise.all(epochs)).every((epoch) => epoch === 11);
  },
  M2: async () => {
    const { files, store, recorder } = await opened();
    const log = await store.createLog(specOf("a"));
    files.onOperation = (operation) => {
      if (operation.kind === "datasync" && isJournal(operation)) files.kill();
    };
    appendBatch(log);
    await recorder.until(() => log.writtenEnd === 1);
    await settle();
    const reported = log.durableEnd;
    return (await after(files, log, DROP_ALL)).end >= reported;
  },
  M20: async () => {
    const { files, store, recorder } = await opened();
    const log = await store.createLog(specOf("a"));
    let failures = 0;
    files.onOperation = (operation) => {
      if (operation.kind !== "datasync" || !isJournal(operation) || failures++ > 0) return;
      const node = files.image.find(operation.path);
      if (node?.kind === "file") files.image.failSync(node, DROP_ALL);
      throw new FileError("io", "datasync", operation.path);
    };
    appendBatch(log);
    await recorder.until(() => recorder.failure !== undefined || log.durableEnd === 1);
    const reported = log.durableEnd;
    return (await after(files, log, DROP_ALL)).end >= reported;
  },
  M19c: async () => {
    const { files, store, recorder } = await opened();
    const log = await store.createLog(specOf("a"));
    appendBatch(log);
    await recorder.until(() => log.durableEnd === 1);
    files.onOperation = (operation) => {
      if (operation.path.includes("/checkpoint/") && operation.kind === "open") files.kill();
    };
    void store.checkpoint();
    await settle();
    return (await after(files, log, KEEP_ALL)).end >= 1;
  },
  "D-2": async () => {
    const { files, store, recorder } = await opened();
    const log = await store.createLog(specOf("a"));
    const kept = Array.from({ length: 10 }, () => appendBatch(log)).slice(0, 5);
    await recorder.until(() => log.durableEnd === 10);
    await log.truncate(5 as Offset);
    kept.push(appendBatch(log, { fill: 99, epoch: 1 }));
    await recorder.until(() => log.durableEnd === 6);
    const { content } = await after(files, log, KEEP_ALL);
    return content !== undefined && String(content) === String(kept);
  },
  "D-7": async () => {
    const { files, store, recorder } = await opened();
    const log = await store.createLog(specOf("a"));
    for (let count = 0; count < 8; count++) appendBatch(log);
    await recorder.until(() => log.durableEnd === 8);
    log.noteHighWatermark(8 as Offset);
    // The mark goes with this one.
    appendBatch(log);
    await recorder.until(() => log.durableEnd === 9);
    // After an unclean election others have these places, and nobody has said yet that they are committed.
    await log.truncate(3 as Offset);
    for (let count = 0; count < 7; count++) appendBatch(log, { epoch: 2, fill: 90 });
    await recorder.until(() => log.durableEnd === 10);
    return (await after(files, log, DROP_ALL)).highWatermark <= 3;
  },
  "D-7a": async () => {
    const { files, store, recorder } = await opened(new MemoryFiles(), { journalPinnedBytes: 1 << 20 });
    const log = await store.createLog(specOf("a"));
    await settle();
    let writes = 0;
    files.onOperation = (operation) => {
      if (operation.kind === "write" && isJournal(operation) && ++writes === 2) files.kill();
    };
    // More records than a group takes: the mark would go with the first one, before what it is about.
    for (let count = 0; count < 600; count++) appendBatch(log, { valueBytes: 0 });
    log.noteHighWatermark(600 as Offset);
    await recorder.until(() => log.writtenEnd === 500);
    await settle();
    const { end, highWatermark } = await after(files, log, KEEP_ALL);
    return end === 500 && highWatermark <= end;
  },
  "D-12": async () => {
    const { files, store, recorder } = await opened();
    const log = await store.createLog(specOf("a"));
    const release = holdSyncs(files, 1);
    appendBatch(log);
    await recorder.until(() => log.writtenEnd === 1);
    appendBatch(log);
    await recorder.until(() => log.writtenEnd === 2);
    release();
    await recorder.until(() => log.durableEnd >= 1);
    const reported = log.durableEnd;
    return (await after(files, log, DROP_ALL)).end >= reported;
  },
  "D-12c": async () => {
    for (let turns = 0; turns < 100; turns++) if (!(await createdBesideCheckpoint(turns))) return false;
    return true;
  },
  "D-17": async () => {
    const { files, store, recorder } = await opened();
    const log = await store.createLog(specOf("a"));
    for (let count = 0; count < 8; count++) appendBatch(log);
    await recorder.until(() => log.durableEnd === 8);
    await store.checkpoint();
    files.image.flipBit("/data/a-0/00000000000000000000.log", 80, 3);
    await contentOf(log).catch(() => undefined);
    const isTold = recorder.events.includes("damaged a-0");
    await settle();
    // The rotten page is below all that the next process looks at by itself.
    return isTold && (await after(files, log, DROP_ALL).catch(() => ({ end: 0 }))).end === -1;
  },
  "D-17n": async () => {
    const { files, store, recorder } = await opened();
    const log = await store.createLog(specOf("a"));
    for (let count = 0; count < 3; count++) appendBatch(log);
    await recorder.until(() => log.durableEnd === 3);
    files.kill();
    files.image.crash(DROP_ALL);
    files.image.flipBit("/data/journal/0000000001.journal", 128 + 20, 3);
    files.image.unlink("/data/a-0/partition.metadata");
    const { store: next } = await opened(new MemoryFiles(files.image));
    for (const stray of [...next.logs]) next.adoptLog(stray, log.topicId);
    return (await next.createLog(specOf("a"))).damage !== undefined;
  },
  "D-18": async () => {
    const { files, store, recorder } = await opened(new MemoryFiles(), { diskReserveBytes: 8192 });
    await settle();
    const log = await store.createLog(specOf("a"));
    for (let count = 0; count < 3; count++) appendBatch(log);
    await recorder.until(() => log.durableEnd === 3);
    files.capacityBytes = files.image.usedBytes;
    let isCut = false;
    void log.truncate(2 as Offset).then(() => {
      isCut = true;
    });
    await settle();
    return isCut && (await after(files, log, DROP_ALL)).end === 2;
  },
  "D-13": async () => {
    const { files, store, recorder } = await opened();
    const log = await store.createLog(specOf("a"));
    const batches = [appendBatch(log), appendBatch(log)];
    await recorder.until(() => log.durableEnd === 2);
    files.kill();
    files.image.closeAll();
    const next = await opened(new MemoryFiles(files.image));
    if (next.store.find(log.topicId, log.partition)?.durableEnd !== 2) return false;
    const { content } = await after(next.files, log, DROP_ALL);
    return content !== undefined && String(content) === String(batches);
  },
  "D-14": async () => {
    const { files, store, recorder } = await opened();
    const old = await store.createLog(specOf("a", 0, 1));
    appendBatch(old, { count: 3 });
    await recorder.until(() => old.durableEnd === 3);
    await store.deleteLog(old);
    const fresh = await store.createLog(specOf("a", 0, 2));
    const batch = appendBatch(fresh, { fill: 77 });
    await recorder.until(() => fresh.durableEnd === 1);
    const { content } = await after(files, fresh, KEEP_ALL);
    return content !== undefined && String(content) === String([batch]);
  },
};

const named = [
  ["D-11", rotBelowTheMark],
  ["M21", rotBelowTheMark],
  ["M35", slowSyncAcrossACut],
] as const;

for (const [id, schedule] of [...Object.entries(schedules), ...named]) {
  test(`${id}: the directed schedule holds, and breaks with the planted bug`, async () => {
    expect(await schedule()).toBe(true);
    activateMutants([id]);
    expect(await schedule()).toBe(false);
  });
}

test("D-14: a log that the journal appends to, and of which neither image nor CREATE speaks, is damaged and not one that never was", async () => {
  activateMutants(["D-12c"]);
  const reasons: (string | undefined)[] = [];
  for (let turns = 0; turns < 100; turns++) {
    const { files, log } = await bornBesideCheckpoint(turns);
    files.kill();
    files.image.crash(DROP_ALL);
    const { store } = await opened(new MemoryFiles(files.image));
    const found = store.find(log.topicId, log.partition);
    expect(found).toBeDefined();
    if (found?.damage !== undefined) reasons.push(found.damage.reason);
  }
  expect(reasons.length).toBeGreaterThan(0);
  expect(new Set(reasons)).toEqual(new Set(["the journal appends to a log that nothing speaks of"]));
});

test("D-14: a log that was deleted beside a checkpoint, which leaves it out, is gone after a crash, whatever the journal still appends to it", async () => {
  for (let turns = 0; turns < 60; turns++) {
    const { files, store } = await opened();
    const log = await store.createLog(specOf("a"));
    appendBatch(log);
    await settle();
    files.onOperation = ({ kind, path }) => {
      if (kind === "rename" && path === "/data/a-0") files.kill();
    };
    void store.checkpoint();
    appendBatch(log);
    for (let left = turns; left > 0; left--) await undefined;
    appendBatch(log);
    void store.deleteLog(log);
    await settle();
    files.kill();
    files.image.crash(KEEP_ALL);
    const next = await opened(new MemoryFiles(files.image));
    expect(next.store.find(log.topicId, log.partition)).toBeUndefined();
  }
});

test("D-14: with rot in the journal a directory that has gone to another topic's log is that one's, which is damaged and not one that never was", async () => {
  const { files, store, recorder } = await opened();
  const first = await store.createLog(specOf("a", 0, 1));
  appendBatch(first);
  await recorder.until(() => first.durableEnd === 1);
  await store.checkpoint();
  await store.deleteLog(first);
  const second = await store.createLog(specOf("a", 0, 2));
  for (let count = 1; count <= 3; count++) {
    appendBatch(second);
    await recorder.until(() => second.durableEnd === count);
  }
  files.kill();
  // The DELETE of the first log.
  files.image.flipBit("/data/journal/0000000002.journal", 140, 3);
  const next = await opened(new MemoryFiles(files.image));
  const found = next.store.find(second.topicId, second.partition);
  expect(found?.damage?.reason).toContain("breaks at position");
  expect(next.store.find(first.topicId, first.partition)).toBeUndefined();
  expect((await next.store.resetLog(found as ReplicaLog, 0 as Offset)).damage).toBeUndefined();
});
