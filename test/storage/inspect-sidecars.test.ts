// What lies beside the segments, looked at from outside: indexes that are not what the log asks for, and batches that are not what was written (D-16).
import { beforeEach, describe, expect, test } from "vitest";
import { lastOffsetAt } from "../../src/model/record-batch.ts";
import { sequencedAt } from "../../src/model/producer-table.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import { verifyDirectory } from "../../src/storage/inspect.ts";
import { verifyLog } from "../../src/storage/inspect-log.ts";
import { readSidecarRows } from "../../src/storage/inspect-sidecars.ts";
import { type DirectoryReport, faultsOf } from "../../src/storage/inspect-types.ts";
import { MemoryFiles } from "./memory-files.ts";
import { encodeSnapshot } from "../../src/storage/producer-snapshot.ts";
import { ReplacementWriter } from "../../src/storage/replacement-writer.ts";
import { appendBatch, checksum, contentOf, openStore, Recorder, settle, specOf } from "./support.ts";

const FIRST = "/data/a-0/00000000000000000000";

let files = new MemoryFiles();

beforeEach(async () => {
  files = new MemoryFiles();
  const store = await openStore(files);
  const recorder = new Recorder();
  store.listen(recorder);
  const log = (await store.createLog(specOf("a"))) as ReplicaLogImpl;
  for (let place = 0; place < 80; place++) {
    appendBatch(log, { count: 2, timestamp: 1000 + place * 10 - (place % 3) * 25 });
    if (place % 10 === 9) await recorder.until(() => log.durableEnd === log.endOffset);
  }
  await store.close();
  expect(log.segments.all.length).toBeGreaterThan(3);
});

const verified = (directory = "/data"): Promise<DirectoryReport> => verifyDirectory({ files, checksum }, directory);

function flip(suffix: string, position: number): void {
  files.image.flipBit(FIRST + suffix, position, 0);
}

test("nothing is wrong with what a store leaves, by data directory, partition and file", async () => {
  for (const directory of ["/data", "/data/a-0"]) {
    const report = await verified(directory);
    expect({ faults: faultsOf(report), remarks: report.remarks }).toEqual({ faults: [], remarks: [] });
    expect(report.logs.length).toBeGreaterThan(3);
  }
  expect(await verifyLog({ files, checksum }, `${FIRST}.log`)).toMatchObject({ faults: [], remarks: [] });
});

describe("a bit that turned over", () => {
  test.each([".index", ".timeindex"])(
    "in %s is found by the checkpoint's checksum, and by the log alone",
    async (suffix) => {
      flip(suffix, 7);
      const reason = expect.stringContaining("not those that the checkpoint speaks of");
      expect(faultsOf(await verified())).toEqual([expect.objectContaining({ file: FIRST + suffix, reason })]);
      expect(faultsOf(await verified("/data/a-0"))).toEqual([expect.objectContaining({ file: FIRST + suffix })]);
    },
  );

  test("in the rows of an identity is remarked: the checkpoint knows what the segment is", async () => {
    flip(".ident", 50);
    const report = await verified();
    expect(faultsOf(report)).toEqual([]);
    expect(report.remarks).toEqual([expect.objectContaining({ file: `${FIRST}.ident` })]);
  });
});

test("an index that is gone is remarked where the checkpoint knows of it", async () => {
  for (const suffix of [".index", ".timeindex"]) expect(files.image.vanish(FIRST + suffix)).toBe(true);
  const report = await verified();
  expect(faultsOf(report)).toEqual([]);
  expect(report.remarks.map(({ file }) => file)).toEqual([`${FIRST}.index`, `${FIRST}.timeindex`]);
});

test("D-16: a batch that a lost write left, whole by its own checksum, is damage of the log", async () => {
  // The second segment's first batch in the place of the first one's, with the offsets of there.
  const other = new MemoryFiles();
  const store = await openStore(other);
  const recorder = new Recorder();
  store.listen(recorder);
  const log = (await store.createLog(specOf("a"))) as ReplicaLogImpl;
  appendBatch(log, { count: 2, timestamp: 1000, fill: 77 });
  await recorder.until(() => log.durableEnd === log.endOffset);
  await store.close();
  const node = other.image.find(`${FIRST}.log`);
  if (node?.kind !== "file") throw new Error("no log");
  files.image.corrupt(`${FIRST}.log`, 0, node.live.view.slice(0, node.live.sizeBytes));
  const report = await verified();
  expect(faultsOf(report)[0]).toMatchObject({
    file: `${FIRST}.log`,
    offset: 0,
    reason: expect.stringContaining("not those that were written"),
  });
  // Where nobody knows what was written, the sidecar disagrees.
  expect(faultsOf(await verified("/data/a-0"))[0]).toMatchObject({ file: `${FIRST}.ident` });
});

test("a dump gives the rows of each", async () => {
  const deps = { files, checksum };
  const index = await readSidecarRows(deps, `${FIRST}.index`, undefined);
  expect(index).toContainEqual({ relativeLast: expect.any(Number), position: expect.any(Number) });
  const times = await readSidecarRows(deps, `${FIRST}.timeindex`, undefined);
  expect(times).toContainEqual({ timestamp: expect.any(Number), relativeLast: expect.any(Number) });
  const { topicId, partition } = specOf("a");
  const rows = await readSidecarRows(deps, `${FIRST}.ident`, { topicId, partition, base: 0 });
  expect(rows).toContainEqual({ relativeEnd: 0, position: 0, chain: expect.any(Number) });
  expect(await readSidecarRows(deps, `${FIRST}.ident`, { topicId, partition, base: 1 })).toMatchObject({
    reason: expect.stringContaining("another segment"),
  });
  files.image.cutOff(`${FIRST}.index`, 11);
  expect(await readSidecarRows(deps, `${FIRST}.index`, undefined)).toMatchObject({ file: `${FIRST}.index` });
});

test("Kafka's file of producers is what the image beside it says; that it is not is remarked, since nothing of ours reads it", async () => {
  files = new MemoryFiles();
  const store = await openStore(files);
  const recorder = new Recorder();
  store.listen(recorder);
  const log = (await store.createLog(specOf("a"))) as ReplicaLogImpl;
  for (let place = 0; place < 20; place++) {
    const producer = { producerId: 3 + (place % 2), producerEpoch: 1, baseSequence: Math.floor(place / 2) * 2 };
    log.producers.observe(sequencedAt(appendBatch(log, { count: 2, producer }), 0));
    await recorder.until(() => log.durableEnd === log.endOffset);
    log.noteHighWatermark(log.durableEnd);
  }
  await store.close();
  const snapshot = "/data/a-0/00000000000000000040.snapshot";
  expect(await readSidecarRows({ files, checksum }, snapshot, undefined)).toEqual(
    [3, 4].map((producerId, place) => ({
      producerId,
      producerEpoch: 1,
      lastSequence: 19,
      lastOffset: 37 + place * 2,
      offsetDelta: 1,
    })),
  );
  expect((await verified()).remarks).toEqual([]);
  files.image.flipBit(snapshot, 20, 0);
  const report = await verified();
  expect(faultsOf(report)).toEqual([]);
  expect(report.remarks).toEqual([
    expect.objectContaining({ file: snapshot, reason: "it does not match its checksum" }),
  ]);
  // As old as a file that a crash left.
  const bytes = encodeSnapshot(
    [{ producerId: 3, producerEpoch: 1, lastSequence: 1, lastOffset: 1, offsetDelta: 1 }],
    checksum,
  );
  const node = files.image.find(snapshot);
  if (node?.kind !== "file") throw new Error("no snapshot");
  files.image.truncate(node, 0);
  files.image.write(node, 0, bytes);
  expect((await verified()).remarks).toEqual([
    expect.objectContaining({ reason: expect.stringContaining("the image beside it") }),
  ]);
});

test("S-41: a checkpoint may name files that have not got their own names yet: those are looked at", async () => {
  files = new MemoryFiles();
  const store = await openStore(files);
  const recorder = new Recorder();
  store.listen(recorder);
  const log = (await store.createLog(specOf("a"))) as ReplicaLogImpl;
  for (let place = 0; place < 60; place++) appendBatch(log, { count: 2 });
  await recorder.until(() => log.durableEnd === log.endOffset);
  await store.checkpoint();
  log.noteHighWatermark(log.endOffset);
  const [first, second] = log.segments.all;
  if (first === undefined || second === undefined) throw new Error("no closed segment");
  const writer = await ReplacementWriter.open(files, log.segments, { base: 0, createdMs: first.createdMs });
  for (const batch of await contentOf(log)) if (lastOffsetAt(batch, 0) < second.base) await writer.append(batch);
  const state = await writer.finish(second.base);
  void log.replace({ fromBase: 0, endOffset: second.base, state });
  let isKilled = false;
  files.onOperation = ({ kind, path }) => {
    if (kind !== "rename" || !path.endsWith(".cleaned")) return;
    files.kill();
    isKilled = true;
  };
  void store.checkpoint();
  while (!isKilled) await settle(1);
  files = new MemoryFiles(files.image);
  expect(files.image.find(`${FIRST}.log.cleaned`)).toBeDefined();
  const report = await verified();
  expect([faultsOf(report), report.remarks]).toEqual([[], []]);
  expect(report.logs[0]?.file).toBe(`${FIRST}.log.cleaned`);
  files.image.flipBit(`${FIRST}.log.cleaned`, 80, 1);
  expect(faultsOf(await verified())[0]).toMatchObject({ file: `${FIRST}.log.cleaned`, position: 0 });
});
