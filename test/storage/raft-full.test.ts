// The metadata store on a disk that is full, or short of descriptors, or failing: what passes leaves nothing behind and may be tried again.
import { expect, test } from "vitest";
import { createRng } from "../../src/base/rng.ts";
import { FileError } from "../../src/ports/files.ts";
import { DROP_ALL } from "../../src/sim/disk-image.ts";
import type { StoredEntry } from "../../src/storage/raft-types.ts";
import type { MemoryFiles } from "./memory-files.ts";
import {
  append,
  entriesOf,
  freshFiles,
  METADATA,
  metaOf,
  openRaft,
  reopen,
  saveSnapshot,
  textOf,
  vote,
  writeOf,
} from "./raft-support.ts";
import { makeDeps, ManualTimers, settle } from "./support.ts";

const SEGMENT_BYTES = 1 << 20;
const RESERVE_BYTES = 256 * 1024;

async function opened() {
  const files = await freshFiles();
  let nowMs = 0;
  const deps = { ...makeDeps(files), clock: { monoMs: () => nowMs, wallMs: () => nowMs } };
  const store = await openRaft(files, deps, SEGMENT_BYTES);
  const wait = (ms: number): void => {
    nowMs += ms;
  };
  return { files, store, wait };
}

const fill = (files: MemoryFiles): void => {
  files.capacityBytes = files.image.usedBytes;
};
const reserveBytes = (files: MemoryFiles): number => {
  const node = files.image.find(`${METADATA}/reserve`);
  return node?.kind === "file" ? node.live.sizeBytes : 0;
};
const entriesOn = async (files: MemoryFiles): Promise<string[]> =>
  textOf((await reopen(files.image.clone())).restored.log.entries);

/** Entries of a kilobyte each. */
const large = (from: number, to: number): StoredEntry[] =>
  entriesOf(from, to, 1).map((entry) => ({ ...entry, kind: "command", bytes: new Uint8Array(1000).fill(entry.index) }));

test("D-18, D-19: on a full disk the reserve goes first, then entries are refused without a trace; votes are still stored", async () => {
  const { files, store } = await opened();
  await append(store, entriesOf(0, 3, 1));
  expect(reserveBytes(files)).toBe(RESERVE_BYTES);
  fill(files);
  await store.write(writeOf({ hardState: vote(2, "2:disk"), entries: entriesOf(3, 6, 1) }));
  expect(reserveBytes(files)).toBe(0);
  files.capacityBytes = files.image.usedBytes + 100;
  await expect(append(store, large(6, 7))).rejects.toMatchObject({ code: "STORAGE_FULL" });
  await settle();
  await store.write(writeOf({ hardState: vote(3) }));
  await store.writeMarks(new Map([["2:disk", { boots: 1, term: 3, end: 6 }]]));
  files.image.crash(DROP_ALL);
  const again = await reopen(files.image);
  expect(again.restored.hardState).toEqual(vote(3));
  expect(again.marks.size).toBe(1);
  expect(textOf(again.restored.log.entries)).toEqual(textOf(entriesOf(0, 6, 1)));
});

test("what was queued behind a refused write is refused with it, also what is given before anybody could hear of it", async () => {
  const { files, store } = await opened();
  await append(store, entriesOf(0, 1, 1));
  fill(files);
  await append(store, entriesOf(1, 2, 1));
  fill(files);
  const outcomes: string[] = [];
  const note = (name: string, work: Promise<void>): Promise<void> =>
    work.then(
      () => void outcomes.push(`${name} durable`),
      (error: { code: string }) => void outcomes.push(`${name} ${error.code}`),
    );
  const first = note("large", append(store, large(2, 3))).then(() =>
    // In the turn of the rejection: as a host does whose core has not been told yet.
    note("late", append(store, entriesOf(4, 5, 1))),
  );
  await Promise.all([first, note("behind", append(store, entriesOf(3, 4, 1)))]);
  expect(outcomes).toEqual(["large STORAGE_FULL", "behind STORAGE_FULL", "late STORAGE_FULL"]);
  await settle();
  files.capacityBytes = Number.POSITIVE_INFINITY;
  // As the core tries again: everything above what was durable, anew.
  await store.write(writeOf({ cutSuffixTo: 2, entries: [...large(2, 3), ...entriesOf(3, 5, 1)] }));
  expect(await entriesOn(files)).toEqual(textOf([...entriesOf(0, 2, 1), ...large(2, 3), ...entriesOf(3, 5, 1)]));
});

test("those before a refused write in the same group are durable", async () => {
  const { files, store } = await opened();
  await append(store, entriesOf(0, 1, 1));
  fill(files);
  await append(store, entriesOf(1, 2, 1));
  files.capacityBytes = files.image.usedBytes + 500;
  const outcomes = await Promise.allSettled([append(store, entriesOf(2, 4, 1)), append(store, large(4, 5))]);
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
  files.image.crash(DROP_ALL);
  expect(await entriesOn(files)).toEqual(textOf(entriesOf(0, 4, 1)));
});

test("the reserve is made again when there is room, not more often than once a second", async () => {
  const { files, store, wait } = await opened();
  await append(store, entriesOf(0, 1, 1));
  fill(files);
  await append(store, entriesOf(1, 2, 1));
  wait(500);
  files.capacityBytes = Number.POSITIVE_INFINITY;
  await append(store, entriesOf(2, 3, 1));
  await settle();
  expect(reserveBytes(files)).toBe(0);
  wait(500);
  await append(store, entriesOf(3, 4, 1));
  await settle();
  expect(reserveBytes(files)).toBe(RESERVE_BYTES);
});

test("a reserve that somebody removed, and free space that cannot be told, are no failure of the disk", async () => {
  const { files, store, wait } = await opened();
  await append(store, entriesOf(0, 1, 1));
  files.image.unlink(`${METADATA}/reserve`);
  fill(files);
  await expect(append(store, large(1, 2))).rejects.toMatchObject({ code: "STORAGE_FULL" });
  await settle();
  files.capacityBytes = Number.POSITIVE_INFINITY;
  files.onOperation = ({ kind, path }) => {
    if (kind === "freeBytes") throw new FileError("other", kind, path);
  };
  wait(2000);
  await append(store, entriesOf(1, 2, 1));
  await append(store, entriesOf(2, 3, 1));
  expect(await entriesOn(files)).toEqual(textOf(entriesOf(0, 3, 1)));
});

test("a snapshot that meets a full disk is refused, leaves nothing, and may be written later", async () => {
  const { files, store } = await opened();
  await append(store, entriesOf(0, 12, 1));
  files.capacityBytes = files.image.usedBytes + 100_000;
  const sink = await store.beginSnapshot(metaOf(10, 1, 300_000));
  await expect(sink.write(0, new Uint8Array(200_000))).rejects.toMatchObject({ code: "STORAGE_FULL" });
  await sink.abandon();
  expect((await files.list(METADATA)).filter(({ name }) => name.includes("snapshot"))).toEqual([]);
  expect(reserveBytes(files)).toBe(RESERVE_BYTES);
  files.capacityBytes = Number.POSITIVE_INFINITY;
  await saveSnapshot(store, metaOf(10, 1, 300_000));
  expect((await reopen(files.image)).restored.snapshot).toEqual(metaOf(10, 1, 300_000));
});

test("D12: without descriptors the log goes on in its file; a first file is refused and may be tried again", async () => {
  const { files, store } = await opened();
  let isShort = true;
  files.onOperation = ({ kind, path }) => {
    if (isShort && kind === "open" && path.endsWith(".log")) throw new FileError("too-many-open", kind, path);
  };
  await expect(append(store, entriesOf(0, 1, 1))).rejects.toMatchObject({ code: "STORAGE_ERROR" });
  await settle();
  isShort = false;
  const many = large(0, 1100);
  await append(store, many);
  isShort = true;
  await append(store, entriesOf(1100, 1102, 1));
  isShort = false;
  await append(store, entriesOf(1102, 1103, 1));
  expect(await entriesOn(files)).toEqual(textOf([...many, ...entriesOf(1100, 1103, 1)]));
  expect((await files.list(METADATA)).filter(({ name }) => name.endsWith(".log"))).toHaveLength(2);
});

test("D12: without descriptors a cut is refused and may be tried again; what was given with it is durable", async () => {
  const files = await freshFiles();
  const store = await openRaft(files);
  for (let at = 0; at < 12; at += 4) await append(store, entriesOf(at, at + 4, 1));
  let isShort = true;
  files.onOperation = ({ kind, path }) => {
    if (isShort && kind === "open" && path.endsWith(".log")) throw new FileError("too-many-open", kind, path);
  };
  const outcomes = await Promise.allSettled([
    append(store, entriesOf(12, 13, 1)),
    store.write(writeOf({ cutSuffixTo: 1 })),
  ]);
  expect(outcomes).toMatchObject([{ status: "fulfilled" }, { reason: { code: "STORAGE_ERROR" } }]);
  await settle();
  isShort = false;
  await store.write(writeOf({ cutSuffixTo: 1, entries: entriesOf(1, 3, 2) }));
  expect(await entriesOn(files)).toEqual(textOf([...entriesOf(0, 1, 1), ...entriesOf(1, 3, 2)]));
});

test("D-13: a write that fails for another reason is final", async () => {
  const { files, store } = await opened();
  await append(store, entriesOf(0, 1, 1));
  files.onOperation = ({ kind, path }) => {
    if (kind === "write" && path.endsWith(".log")) throw new FileError("io", kind, path);
  };
  const outcomes = await Promise.allSettled([append(store, entriesOf(1, 2, 1)), append(store, entriesOf(2, 3, 1))]);
  for (const outcome of outcomes) expect(outcome).toMatchObject({ reason: { code: "DISK_FAILED" } });
  files.onOperation = () => undefined;
  await settle();
  await expect(append(store, entriesOf(1, 2, 1))).rejects.toMatchObject({ code: "DISK_FAILED" });
  await store.close();
});

test("D-13: a sync that fails where nobody waits, in the note of an idle log, ends the store and is told", async () => {
  const files = await freshFiles();
  const timers = new ManualTimers();
  const store = await openRaft(files, makeDeps(files, { timers }), SEGMENT_BYTES);
  const told: string[] = [];
  store.onFailed((error) => told.push(error.code));
  await append(store, entriesOf(0, 1, 1));
  await settle();
  files.onOperation = ({ kind, path }) => {
    if (kind === "datasync" && path.endsWith("quorum-state")) throw new FileError("io", kind, path);
  };
  timers.fire(50);
  await settle();
  expect(told).toEqual(["DISK_FAILED"]);
  await expect(append(store, entriesOf(1, 2, 1))).rejects.toMatchObject({ code: "DISK_FAILED" });
  store.onFailed((error) => told.push(`again ${error.code}`));
  expect(told).toEqual(["DISK_FAILED", "again DISK_FAILED"]);
  await store.close();
});

test("a disk that is full now and then: every resolved entry is there, in order, whatever was refused between", async () => {
  for (let seed = 1; seed <= 20; seed++) {
    const rng = createRng(seed);
    const files = await freshFiles();
    const store = await openRaft(files, makeDeps(files), 3000);
    let durable: StoredEntry[] = [];
    let isCutNeeded = false;
    let refusals = 0;
    for (let step = 0; step < 60; step++) {
      files.capacityBytes = rng.chance(0.4) ? files.image.usedBytes + rng.below(400) : Number.POSITIVE_INFINITY;
      const writes = Array.from({ length: rng.between(1, 3) }, () => rng.between(1, 3));
      let next = durable.length;
      const batches = writes.map((count) => entriesOf(next, (next += count), 1, step));
      const outcomes = await Promise.allSettled(
        batches.map((entries, place) =>
          store.write(writeOf({ cutSuffixTo: place === 0 && isCutNeeded ? durable.length : null, entries })),
        ),
      );
      const done = outcomes.findIndex(({ status }) => status === "rejected");
      durable = [...durable, ...batches.slice(0, done < 0 ? batches.length : done).flat()];
      isCutNeeded = done >= 0;
      if (done >= 0) refusals++;
      await settle(2);
      if (rng.chance(0.2)) expect(await entriesOn(files)).toEqual(textOf(durable));
    }
    expect(refusals).toBeGreaterThan(3);
    files.capacityBytes = Number.POSITIVE_INFINITY;
    files.image.crash(DROP_ALL);
    expect(await entriesOn(files)).toEqual(textOf(durable));
  }
});
