// The quorum's store: what a resolved write promised is there after a power loss; files roll, are cut and dropped; snapshots; a full disk.
import { expect, test } from "vitest";
import { FileError } from "../../src/ports/files.ts";
import { DROP_ALL, KEEP_ALL } from "../../src/sim/disk-image.ts";
import { MemoryFiles, type Operation } from "./memory-files.ts";
import {
  append,
  entriesOf,
  freshFiles,
  logPath,
  METADATA,
  metaOf,
  openRaft,
  reopen,
  saveSnapshot,
  snapshotBytes,
  snapshotPath,
  STATE,
  textOf,
  vote,
  writeOf,
} from "./raft-support.ts";
import { ManualTimers, makeDeps, settle } from "./support.ts";

const namesIn = async (files: MemoryFiles): Promise<string[]> => (await files.list(METADATA)).map(({ name }) => name);

test("an empty disk is empty, and counts its starts", async () => {
  const files = await freshFiles();
  const first = await openRaft(files);
  expect(first.isEmpty).toBe(true);
  expect(first.restored).toEqual({
    hardState: vote(0),
    snapshot: null,
    log: { start: 0, startTerm: 0, entries: [] },
  });
  expect([first.boots, first.marks.size]).toEqual([1, 0]);
  files.image.crash(DROP_ALL);
  expect((await reopen(files.image)).boots).toBe(2);
  files.image.crash(DROP_ALL);
  expect((await reopen(files.image)).boots).toBe(3);
});

test("D-19: hard state, entries and marks of resolved writes survive a power loss, across files", async () => {
  const files = await freshFiles();
  const store = await openRaft(files);
  const entries = [...entriesOf(0, 12, 1), ...entriesOf(12, 20, 3)];
  await store.write(writeOf({ hardState: vote(3, "2:disk"), entries: entries.slice(0, 5) }));
  for (const entry of entries.slice(5)) await append(store, [entry]);
  const mark = { boots: 4, term: 3, end: 17 };
  await store.writeMarks(new Map([["2:disk", mark]]));
  files.image.crash(DROP_ALL);
  const again = await reopen(files.image);
  expect(again.isEmpty).toBe(false);
  expect(again.restored.hardState).toEqual(vote(3, "2:disk"));
  expect(again.restored.log.start).toBe(0);
  expect(textOf(again.restored.log.entries)).toEqual(textOf(entries));
  expect(again.marks).toEqual(new Map([["2:disk", mark]]));
  expect((await namesIn(files)).filter((name) => name.endsWith(".log")).length).toBeGreaterThan(3);
});

test("writes that wait share a sync of the log", async () => {
  const files = await freshFiles();
  const store = await openRaft(files, makeDeps(files), 1 << 20);
  await append(store, entriesOf(0, 1, 1));
  let syncs = 0;
  files.onOperation = ({ kind }) => {
    if (kind === "datasync") syncs++;
  };
  const writes = Array.from({ length: 50 }, (_, at) => append(store, entriesOf(1 + at, 2 + at, 1)));
  await Promise.all(writes);
  expect(syncs).toBeLessThanOrEqual(2);
  expect(textOf((await reopen(files.image)).restored.log.entries)).toEqual(textOf(entriesOf(0, 51, 1)));
});
