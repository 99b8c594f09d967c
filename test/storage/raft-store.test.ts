// The quorum's store: what a resolved write promised is there after a power loss; files roll, are cut and dropped; snapshots; a full disk.
import { expect, test } from "vitest";
import { bytesEqual } from "../../src/base/bytes.ts";
import { OttlaError } from "../../src/model/errors.ts";
import { type DirectoryId, toNodeId } from "../../src/model/ids.ts";
import { DROP_ALL, KEEP_ALL } from "../../src/sim/disk-image.ts";
import { verifyMetadata } from "../../src/storage/inspect-metadata.ts";
import { faultsOf } from "../../src/storage/inspect-types.ts";
import { MemoryFiles } from "./memory-files.ts";
import {
  append,
  entriesOf,
  freshFiles,
  logPath,
  METADATA,
  metaOf,
  OWNER,
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
import { checksum, ManualTimers, makeDeps, settle } from "./support.ts";

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

test("a cut in the middle of a file and over files, a reset and a dropped beginning leave what they should", async () => {
  const files = await freshFiles();
  const store = await openRaft(files);
  await append(store, entriesOf(0, 12, 1));
  for (const entry of entriesOf(12, 24, 1)) await append(store, [entry]);
  await store.write(writeOf({ cutSuffixTo: 22, entries: entriesOf(22, 24, 2) }));
  await store.write(writeOf({ cutSuffixTo: 14, entries: entriesOf(14, 20, 3) }));
  // At or above the end there is nothing to cut.
  await store.write(writeOf({ cutSuffixTo: 20 }));
  const expected = [...entriesOf(0, 14, 1), ...entriesOf(14, 20, 3)];
  expect(textOf((await reopen(files.image)).restored.log.entries)).toEqual(textOf(expected));

  await saveSnapshot(store, metaOf(16, 3, 100));
  await store.write(writeOf({ cutPrefixTo: 15 }));
  await store.close();
  const cut = (await reopen(files.image)).restored.log;
  expect(cut.start).toBeGreaterThan(0);
  expect(cut.start).toBeLessThanOrEqual(15);
  expect(cut.startTerm).toBe(expected[cut.start - 1]?.term);
  expect(textOf(cut.entries)).toEqual(textOf(expected.slice(cut.start)));
  expect(await namesIn(files)).not.toContain(logPath(0).slice(METADATA.length + 1));

  const again = await reopen(files.image);
  await saveSnapshot(again, metaOf(50, 4, 100));
  await again.write(writeOf({ resetLogTo: { start: 50, startTerm: 4 }, entries: entriesOf(50, 53, 4) }));
  files.image.crash(DROP_ALL);
  const { log } = (await reopen(files.image)).restored;
  expect([log.start, log.startTerm]).toEqual([50, 4]);
  expect(textOf(log.entries)).toEqual(textOf(entriesOf(50, 53, 4)));
});

test("the entries found at the start are let go once the log's beginning is", async () => {
  const files = await freshFiles();
  await append(await openRaft(files), entriesOf(0, 12, 1));
  const store = await reopen(files.image);
  expect(store.restored.log.entries).toHaveLength(12);
  await append(store, entriesOf(12, 13, 1));
  await saveSnapshot(store, metaOf(13, 1, 1));
  await store.write(writeOf({ cutPrefixTo: 13 }));
  await append(store, entriesOf(13, 14, 1));
  expect(store.restored.log.entries).toHaveLength(0);
});

test("Q-14: a snapshot beyond the log, or one that differs from it, is where the log begins", async () => {
  for (const [end, term] of [
    [20, 1],
    [6, 3],
  ] as const) {
    const files = await freshFiles();
    const store = await openRaft(files);
    await append(store, entriesOf(0, 10, 1));
    await saveSnapshot(store, metaOf(end, term, 1000));
    files.image.crash(DROP_ALL);
    const again = await reopen(files.image);
    expect(again.restored.snapshot).toEqual(metaOf(end, term, 1000));
    expect(again.restored.log).toEqual({ start: end, startTerm: term, entries: [] });
    await append(again, entriesOf(end, end + 3, 4));
    files.image.crash(DROP_ALL);
    expect(textOf((await reopen(files.image)).restored.log.entries)).toEqual(textOf(entriesOf(end, end + 3, 4)));
  }
});

test("snapshots come back in pieces of any size, several are kept, unfinished ones leave nothing", async () => {
  const files = await freshFiles();
  const store = await openRaft(files);
  await append(store, entriesOf(0, 30, 1));
  const meta = metaOf(10, 1, 150_001);
  await saveSnapshot(store, meta, 7_777);
  const bytes = snapshotBytes(meta);
  for (const [position, length] of [
    [0, 1],
    [65_530, 20],
    [1, 150_000],
    [150_000, 50],
    [150_001, 50],
    [200_000, 50],
  ] as const) {
    const piece = await store.readSnapshot(10, position, length);
    expect(piece !== undefined && bytesEqual(piece, bytes.slice(position, position + length))).toBe(true);
  }
  expect(await store.readSnapshot(11, 0, 10)).toBeUndefined();

  await saveSnapshot(store, metaOf(20, 1, 10));
  await saveSnapshot(store, metaOf(25, 1, 0));
  const abandoned = await store.beginSnapshot(metaOf(28, 1, 100_000));
  await abandoned.write(0, new Uint8Array(90_000));
  await abandoned.abandon();
  const unfinished = await store.beginSnapshot(metaOf(29, 1, 100_000));
  await unfinished.write(0, new Uint8Array(90_000));
  await store.retainSnapshots([10]);
  expect(await store.readSnapshot(20, 0, 10)).toBeUndefined();
  expect(await store.readSnapshot(10, 0, 10)).toHaveLength(10);
  expect(await store.readSnapshot(25, 0, 10)).toHaveLength(0);
  files.image.crash(KEEP_ALL);
  const again = await reopen(files.image);
  expect(again.restored.snapshot).toEqual(metaOf(25, 1, 0));
  expect((await namesIn(files)).filter((name) => name.includes("snapshot"))).toHaveLength(2);
  expect(await again.readSnapshot(10, 0, 10)).toEqual(bytes.slice(0, 10));
});

test("D5: a damaged piece of a snapshot is never served; one that a start needs refuses it", async () => {
  const files = await freshFiles();
  const store = await openRaft(files);
  await append(store, entriesOf(0, 12, 1));
  await saveSnapshot(store, metaOf(10, 1, 150_000));
  flip(files, snapshotPath(10, 1), 100_000);
  expect(await store.readSnapshot(10, 0, 65_536)).toHaveLength(65_536);
  expect(await store.readSnapshot(10, 65_536, 65_536)).toBeUndefined();
  await expect(reopen(files.image)).rejects.toMatchObject({ code: "DATA_DAMAGED" });
});

function flip(files: MemoryFiles, path: string, position: number, bit = 0): void {
  const node = files.image.find(path);
  if (node?.kind !== "file") throw new Error(`${path} is no file`);
  files.image.write(node, position, Uint8Array.of((node.live.view[position] as number) ^ (1 << bit)));
}

/** A directory with everything in it, closed in order. */
async function closed(owner = OWNER): Promise<MemoryFiles> {
  const files = await freshFiles();
  const store = await openRaft(files, makeDeps(files), 480, owner);
  for (const entry of entriesOf(0, 12, 1)) await append(store, [entry]);
  await saveSnapshot(store, metaOf(10, 1, 40));
  await store.write(writeOf({ cutPrefixTo: 8, hardState: vote(3, "2:disk"), entries: entriesOf(12, 14, 2) }));
  await store.writeMarks(new Map([["2:disk", { boots: 1, term: 2, end: 13 }]]));
  await store.close();
  return files;
}

const REFUSALS = ["DATA_DAMAGED", "DATA_DIR_NEWER", "DATA_DIR_FOREIGN"];
const CODES = (code: unknown): boolean => REFUSALS.includes(String(code));

test("D5: any flipped bit in any file refuses the start by a code, touching nothing, or takes nothing away", async () => {
  const files = await closed();
  const { restored, marks } = await reopen(files.image.clone());
  const outcomes = { refused: 0, mended: 0 };
  for (const name of await namesIn(files)) {
    const node = files.image.find(`${METADATA}/${name}`);
    if (node?.kind !== "file" || name === "reserve") continue;
    for (let position = 0; position < node.live.sizeBytes; position += name === "quorum-state" ? 5 : 2) {
      const image = files.image.clone();
      const damagedFiles = new MemoryFiles(image);
      flip(damagedFiles, `${METADATA}/${name}`, position, (position >> 1) % 8);
      const before = image.fingerprint(checksum);
      try {
        const store = await openRaft(damagedFiles);
        expect({ restored: store.restored, marks: store.marks }, `${name} at ${position}`).toEqual({ restored, marks });
        outcomes.mended++;
      } catch (thrown) {
        if (!(thrown instanceof OttlaError)) throw thrown;
        expect(thrown.code, `${name} at ${position}: ${thrown.message}`).toSatisfy(CODES);
        expect(thrown.message).toContain(METADATA);
        expect(image.fingerprint(checksum)).toBe(before);
        outcomes.refused++;
      }
    }
  }
  expect(outcomes.refused).toBeGreaterThan(500);
});

test("a missing file is a refusal, unless nothing of it is needed", async () => {
  const names = (await namesIn(await closed())).filter((name) => name !== "reserve");
  expect(names.length).toBeGreaterThanOrEqual(4);
  for (const name of names) {
    const files = await closed();
    files.image.unlink(`${METADATA}/${name}`);
    await expect(reopen(files.image), name).rejects.toMatchObject({ code: "DATA_DAMAGED" });
  }
  const files = await closed();
  files.image.unlink(`${METADATA}/reserve`);
  await reopen(files.image);
  expect(await namesIn(files)).toContain("reserve");
});

test("D-11: rot of what was synced is damage even at the end, once it was noted; a torn end is cut", async () => {
  const timers = new ManualTimers();
  const files = await freshFiles();
  const store = await openRaft(files, makeDeps(files, { timers }), 1 << 20);
  for (const entry of entriesOf(0, 4, 1)) await append(store, [entry]);
  const size = sizeOf(files, logPath(0));
  const torn = new MemoryFiles(files.image.clone());
  flip(torn, logPath(0), size - 1);
  expect((await reopen(torn.image)).restored.log.entries).toHaveLength(3);
  // In the middle it is damage: what follows was written after a sync of it.
  const middle = new MemoryFiles(files.image.clone());
  flip(middle, logPath(0), 80);
  await expect(reopen(middle.image)).rejects.toMatchObject({ code: "DATA_DAMAGED" });
  timers.fire(50);
  await settle();
  flip(files, logPath(0), size - 1);
  await expect(reopen(files.image)).rejects.toMatchObject({ code: "DATA_DAMAGED" });
});

function sizeOf(files: MemoryFiles, path: string): number {
  const node = files.image.find(path);
  return node?.kind === "file" ? node.live.sizeBytes : 0;
}

test("D-31: a newer state, snapshot or entry is refused by name, an earlier build's log as foreign", async () => {
  const state = await closed();
  for (const slot of [0, 8192]) bytesAt(state, STATE, slot + 4, [0, 7, 0, 7]);
  const snapshot = await closed();
  bytesAt(snapshot, snapshotPath(10, 1), 4, [0, 7, 0, 7]);
  for (const [files, path] of [
    [state, STATE],
    [snapshot, snapshotPath(10, 1)],
  ] as const) {
    const error = await reopen(files.image).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "DATA_DIR_NEWER" });
    expect(String(error)).toContain(path);
  }
  const old = await freshFiles();
  await old.makeDirectory(METADATA);
  for (const name of ["lane.metadata", "00000000000000000000.log"]) await old.open(`${METADATA}/${name}`, "create");
  await expect(openRaft(old)).rejects.toMatchObject({ code: "DATA_DIR_FOREIGN" });
  const foreign = await freshFiles();
  await foreign.makeDirectory(METADATA);
  await foreign.open(`${METADATA}/photos.zip`, "create");
  await expect(openRaft(foreign)).rejects.toMatchObject({ code: "DATA_DIR_FOREIGN" });
});

function bytesAt(files: MemoryFiles, path: string, position: number, bytes: readonly number[]): void {
  const node = files.image.find(path);
  if (node?.kind !== "file") throw new Error(`${path} is no file`);
  files.image.write(node, position, Uint8Array.from(bytes));
}

test("D-20: the state, an entry or a snapshot of another disk is refused by name, nothing touched", async () => {
  const other = { nodeId: toNodeId(2), directoryId: "AAAAAAAAAAAAAAAAAAAAAg" as DirectoryId };
  const own = await closed();
  const foreign = await closed(other);
  expect(await namesIn(own)).toEqual(await namesIn(foreign));
  const names = (await namesIn(own)).filter((name) => name !== "reserve");
  for (const name of names) {
    const mixed = new MemoryFiles(own.image.clone());
    const node = foreign.image.find(`${METADATA}/${name}`);
    const into = mixed.image.find(`${METADATA}/${name}`);
    if (node?.kind !== "file" || into?.kind !== "file") throw new Error(`${name} is no file`);
    mixed.image.write(into, 0, node.live.view.slice(0, node.live.sizeBytes));
    const before = mixed.image.fingerprint(checksum);
    const error = await openRaft(mixed).catch((thrown: unknown) => thrown);
    expect(error, name).toMatchObject({ code: "DATA_DIR_FOREIGN" });
    expect(String(error)).toContain(`${METADATA}/${name}`);
    expect(String(error)).toContain(other.directoryId);
    expect(mixed.image.fingerprint(checksum)).toBe(before);
    const { faults, logs, metadata } = await verifyMetadata({ files: mixed, checksum }, METADATA, OWNER);
    expect(
      faultsOf({ directory: METADATA, faults, logs, metadata })
        .map(({ reason }) => reason)
        .join(),
    ).toContain(other.directoryId);
  }
});

test("D5: a slot of the state that is passed over is told, and made good by the start", async () => {
  const files = await closed();
  flip(files, STATE, 8192 + 100);
  const remark = { file: STATE, position: 8192, reason: expect.stringContaining("checksum") };
  expect(await verifyMetadata({ files, checksum }, METADATA)).toMatchObject({ faults: [], remarks: [remark] });
  const told: unknown[] = [];
  const deps = makeDeps(files);
  const store = await openRaft(files, {
    ...deps,
    logger: { ...deps.logger, warn: (...line: unknown[]) => void told.push(line) },
  });
  expect(told).toEqual([["quorum_state_slot_damaged", remark]]);
  await store.close();
  expect(await verifyMetadata({ files, checksum }, METADATA)).toMatchObject({ remarks: [] });
});
