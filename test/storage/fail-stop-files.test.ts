// D-13, invariant 42: whoever asked for a write or a sync that fails, the store is at an end at that moment.
import { afterEach, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { OttlaError } from "../../src/model/errors.ts";
import type { LeaderEpoch, Offset } from "../../src/model/ids.ts";
import { FileError } from "../../src/ports/files.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import { ReplacementWriter } from "../../src/storage/replacement-writer.ts";
import type { LogStoreImpl } from "../../src/storage/store.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, openStore, Recorder, settle, specOf } from "./support.ts";

afterEach(() => activateMutants([]));

async function opened() {
  const files = new MemoryFiles();
  const store = await openStore(files);
  const recorder = new Recorder();
  store.listen(recorder);
  const log = (await store.createLog(specOf("a"))) as ReplicaLogImpl;
  /** Of an empty file: what is written to it is no matter here. */
  const replacement = () => ReplacementWriter.open(store.files, log.segments, { base: 0, createdMs: 0 });
  return { files, store, recorder, log, replacement };
}

test("one of a file that nobody waits for", async () => {
  const { files, recorder, replacement } = await opened();
  const writer = await replacement();
  files.onOperation = ({ kind, path }) => {
    if (kind === "datasync" && path.endsWith(".cleaned")) throw new FileError("io", kind, path);
  };
  writer.finish(0).catch(() => undefined);
  await settle();
  expect(recorder.failure?.code).toBe("DISK_FAILED");
});

test("one of a directory, of a log that is being deleted (seed 142601030)", async () => {
  const { files, store, recorder, log, replacement } = await opened();
  const writer = await replacement();
  files.onOperation = ({ kind, path }) => {
    if (kind !== "syncDirectory") return;
    store.deleteLog(log).catch(() => undefined);
    throw new FileError("io", kind, path);
  };
  await expect(writer.finish(0)).rejects.toMatchObject({ code: "DISK_FAILED" });
  expect(log.isDeleted).toBe(true);
  expect(recorder.failure?.code).toBe("DISK_FAILED");
});

test("a write that a device refuses, of a file that nobody waits for; one that finds no room is none of it", async () => {
  for (const kind of ["write", "truncate"])
    for (const error of ["io", "no-space"] as const) {
      const { files, recorder, replacement } = await opened();
      files.onOperation = (operation) => {
        if (operation.kind === kind && operation.path.endsWith(".cleaned"))
          throw new FileError(error, kind, operation.path);
      };
      const written = replacement().then((writer) => writer.finish(0));
      await expect(written).rejects.toMatchObject({ kind: error });
      expect(recorder.failure?.code).toBe(error === "io" ? "DISK_FAILED" : undefined);
    }
});

test("a full disk at a sync is no other failure", async () => {
  const { files, recorder, replacement } = await opened();
  const writer = await replacement();
  files.onOperation = ({ kind, path }) => {
    if (kind === "datasync" && path.endsWith(".cleaned")) throw new FileError("no-space", kind, path);
  };
  await expect(writer.finish(0)).rejects.toMatchObject({ code: "DISK_FAILED" });
  expect(recorder.failure?.code).toBe("DISK_FAILED");
});

test("M20: the first sync of the journal that fails ends it, and no second is tried", async () => {
  const journalSyncs = async (): Promise<{ syncs: number; hasEnded: boolean }> => {
    const { files, recorder, log } = await opened();
    let syncs = 0;
    files.onOperation = ({ kind, path }) => {
      if (kind === "datasync" && path.includes("/journal/") && syncs++ === 0) throw new FileError("io", kind, path);
    };
    appendBatch(log);
    await settle();
    return { syncs, hasEnded: recorder.failure !== undefined };
  };
  expect(await journalSyncs()).toEqual({ syncs: 1, hasEnded: true });
  activateMutants(["M20"]);
  expect(await journalSyncs()).toEqual({ syncs: 2, hasEnded: false });
});

/** What became of work that waited for the journal, and of a close behind it, once everything had its turn. */
async function fates(store: LogStoreImpl, work: Promise<unknown>): Promise<string[]> {
  const waits = (): Promise<string> => settle().then(() => "waits");
  const told = work.then(
    () => "done",
    (thrown: OttlaError) => thrown.code,
  );
  const fate = await Promise.race([told, waits()]);
  return [fate, await Promise.race([store.close().then(() => "closed"), waits()])];
}

const isJournal = (path: string): boolean => path.includes("/journal/");

type Opened = Awaited<ReturnType<typeof opened>>;

/** Everything that waits for a record of the journal to be durable. */
const WAITING: readonly ((of: Opened) => Promise<unknown>)[] = [
  ({ log }) => log.startEpoch(1 as LeaderEpoch),
  ({ log }) => log.advanceStart(1 as Offset),
  ({ log }) => log.truncate(1 as Offset),
  ({ store }) => store.createLog(specOf("b", 0, 2)),
  ({ store, log }) => store.deleteLog(log),
];

test("whoever waits for the sync of the journal that fails is told, and a close ends", async () => {
  for (const wait of WAITING) {
    const all = await opened();
    const { files, store, recorder, log } = all;
    appendBatch(log);
    appendBatch(log);
    await recorder.until(() => log.durableEnd === 2);
    files.onOperation = ({ kind, path }) => {
      if (kind === "datasync" && isJournal(path)) throw new FileError("io", kind, path);
    };
    expect(await fates(store, wait(all))).toEqual(["DISK_FAILED", "closed"]);
  }
});

test("so is who waits for a sync that ends well behind a write that failed", async () => {
  const { files, store, log } = await opened();
  let writes = 0;
  files.onOperation = ({ kind, path }) => {
    if (kind !== "write" || !isJournal(path)) return;
    if (++writes > 1) throw new FileError("io", kind, path);
    // Its sync comes next, and takes longer than the second write.
    const turns = [100];
    files.delayTurns = () => turns.shift() ?? 1;
    queueMicrotask(() => queueMicrotask(() => appendBatch(log, { epoch: 1 })));
  };
  expect(await fates(store, log.startEpoch(1 as LeaderEpoch))).toEqual(["DISK_FAILED", "closed"]);
  expect(writes).toBe(2);
});

test("so is who waits for a write of the journal that ends, in whatever way, behind a sync that failed elsewhere", async () => {
  for (const fault of ["io", "no-space", undefined] as const) {
    const { files, store, log, replacement } = await opened();
    const writer = await replacement();
    const ended: string[] = [];
    files.onOperation = ({ kind, path }) => {
      if (kind === "datasync") ended.push(kind);
      if (kind === "datasync") throw new FileError("io", kind, path);
      if (kind !== "write" || !isJournal(path)) return;
      ended.push(kind);
      if (fault !== undefined) throw new FileError(fault, kind, path);
    };
    const turns = [100];
    files.delayTurns = () => turns.shift() ?? 1;
    const started = log.startEpoch(1 as LeaderEpoch);
    for (let turn = 0; turn < 10; turn++) await undefined;
    expect(turns).toEqual([]);
    writer.finish(0).catch(() => undefined);
    expect(await fates(store, started)).toEqual(["DISK_FAILED", "closed"]);
    expect(ended).toEqual(["datasync", "write"]);
  }
});

test("so is a cut that waits for a checkpoint that will never be", async () => {
  for (const kind of ["write", "datasync"]) {
    const { files, store, recorder, log } = await opened();
    appendBatch(log);
    appendBatch(log);
    await recorder.until(() => log.durableEnd === 2);
    files.onOperation = ({ kind: found, path }) => {
      if (found === kind && path.endsWith(".log")) throw new FileError("io", kind, path);
    };
    void store.checkpoint();
    while (store.gate === undefined) await undefined;
    expect(await fates(store, log.truncate(1 as Offset))).toEqual(["DISK_FAILED", "closed"]);
  }
});
