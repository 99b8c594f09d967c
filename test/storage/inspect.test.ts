// Looking at a stopped node's files: what is whole is reported whole, what is damaged with its first bad offset.
import { describe, expect, test } from "vitest";
import { concatBytes } from "../../src/base/bytes.ts";
import type { Offset } from "../../src/model/ids.ts";
import { type ProducerTable, sequencedAt } from "../../src/model/producer-table.ts";
import { verifyDirectory } from "../../src/storage/inspect.ts";
import { dumpLog, verifyLog } from "../../src/storage/inspect-log.ts";
import { dumpEntries } from "../../src/storage/inspect-metadata.ts";
import { readProducersFile } from "../../src/storage/inspect-producers.ts";
import { type BatchSummary, faultsOf } from "../../src/storage/inspect-types.ts";
import { MemoryFiles } from "./memory-files.ts";
import {
  append,
  entriesOf,
  freshFiles,
  logPath,
  METADATA,
  metaOf,
  openRaft,
  saveSnapshot,
  snapshotPath,
  STATE,
  vote,
  writeOf,
} from "./raft-support.ts";
import { appendBatch, checksum, makeBatch, openStore, Recorder, specOf } from "./support.ts";

const LOG = "/data/a-0/00000000000000000000.log";

async function made(isClosed = true) {
  const files = new MemoryFiles();
  const store = await openStore(files);
  const recorder = new Recorder();
  store.listen(recorder);
  const log = await store.createLog(specOf("a"));
  const batches: Uint8Array[] = [];
  for (let index = 0; index < 60; index++) {
    batches.push(appendBatch(log, { count: 2, epoch: index >> 4 }));
    await recorder.until(() => log.durableEnd === log.endOffset);
  }
  const raft = await openRaft(files);
  for (const entry of entriesOf(0, 9, 1)) await append(raft, [entry]);
  await saveSnapshot(raft, metaOf(7, 1, 100_000));
  await raft.writeMarks(new Map([["2:disk", { boots: 1, term: 1, end: 6 }]]));
  await raft.write(writeOf({ hardState: vote(2, "2:disk"), cutPrefixTo: 5 }));
  if (isClosed) await raft.close();
  if (isClosed) await store.close();
  else files.kill();
  return { files: isClosed ? files : new MemoryFiles(files.image), batches };
}

function flip(files: MemoryFiles, path: string, position: number): void {
  const node = files.image.find(path);
  if (node?.kind !== "file") throw new Error(`${path} is no file`);
  files.image.write(node, position, Uint8Array.of((node.live.view[position] as number) ^ 0xff));
}

test("a dump gives every batch with its offsets, position, epoch, count and codec", async () => {
  const { files, batches } = await made();
  const seen: string[] = [];
  const fault = await dumpLog({ files, checksum }, LOG, (batch, bytes) => {
    expect(bytes).toEqual(batches[seen.length]);
    seen.push(
      `${batch.baseOffset}-${batch.lastOffset} @${batch.position} e${batch.leaderEpoch} ${batch.recordCount} ${batch.codec}`,
    );
  });
  expect(fault).toBeUndefined();
  const size = (batches[0] as Uint8Array).length;
  expect(seen.slice(0, 2)).toEqual(["0-1 @0 e0 2 none", `2-3 @${size} e0 2 none`]);
});

test("a closed data directory and a killed one have no fault, and verifying changes nothing", async () => {
  for (const isClosed of [true, false]) {
    const { files } = await made(isClosed);
    const before = files.image.fingerprint(checksum);
    const report = await verifyDirectory({ files, checksum }, "/data");
    expect(faultsOf(report)).toEqual([]);
    expect(report.kind).toBe("data directory");
    if (isClosed) expect(report.logs.map((log) => log.endOffset)).toContain(120);
    expect(report.logs.at(-1)).toMatchObject({ endOffset: 9 });
    expect(report.metadata?.state).toMatchObject({ hardState: { term: 2, votedFor: "2:disk" }, boots: 1 });
    expect(report.metadata?.snapshots).toMatchObject([{ meta: { end: 7, sizeBytes: 100_000 }, faults: [] }]);
    expect(files.image.fingerprint(checksum)).toBe(before);
  }
});

test("a flipped byte is found with the first bad offset, by file, partition and data directory", async () => {
  const { files, batches } = await made();
  const size = (batches[0] as Uint8Array).length;
  flip(files, LOG, size * 3 + 70);
  const deps = { files, checksum };
  for (const fault of [
    (await verifyLog(deps, LOG)).faults[0],
    faultsOf(await verifyDirectory(deps, "/data/a-0"))[0],
    faultsOf(await verifyDirectory(deps, "/data")).find((each) => each.file === LOG),
  ]) {
    expect(fault).toMatchObject({ file: LOG, position: size * 3, offset: 6 });
  }
});

test("an epoch that is not the checkpoint's is found; a torn epoch file, which nothing reads, is only remarked", async () => {
  const { files } = await made();
  const size = (await verifyLog({ files, checksum }, LOG)).sizeBytes;
  // The last batch of the first file says the next epoch.
  let position = 0;
  await dumpLog({ files, checksum }, LOG, (batch) => {
    position = batch.position;
  });
  expect(position).toBeLessThan(size);
  const node = files.image.find(LOG);
  if (node?.kind !== "file") throw new Error("no file");
  files.image.write(node, position + 15, Uint8Array.of((node.live.view[position + 15] as number) + 1));
  const epochs = files.image.find("/data/a-0/leader-epoch-checkpoint");
  if (epochs?.kind !== "file") throw new Error("no file");
  files.image.truncate(epochs, 3);
  const report = await verifyDirectory({ files, checksum }, "/data");
  expect(faultsOf(report)[0]).toMatchObject({
    file: LOG,
    position,
    reason: expect.stringContaining("the checkpoint says"),
  });
  expect(report.remarks).toMatchObject([{ file: "/data/a-0/leader-epoch-checkpoint" }]);
  expect((await verifyDirectory({ files, checksum }, "/data/a-0")).remarks).toHaveLength(1);
});

test("a wrong index, a missing segment and a broken journal are found", async () => {
  const index = "/data/a-0/00000000000000000000.index";
  const first = await made();
  flip(first.files, index, 7);
  expect((await verifyLog({ files: first.files, checksum }, LOG)).faults[0]).toMatchObject({ file: index });
  const second = await made();
  second.files.image.unlink(LOG);
  expect(faultsOf(await verifyDirectory({ files: second.files, checksum }, "/data"))[0]).toMatchObject({
    file: LOG,
    offset: 0,
  });
  const third = await made(false);
  flip(third.files, "/data/journal/0000000001.journal", 600);
  const faults = faultsOf(await verifyDirectory({ files: third.files, checksum }, "/data"));
  expect(faults[0]).toMatchObject({
    file: "/data/journal",
    reason: expect.stringContaining("proves that more was synced"),
  });
});

test("of the metadata: every entry is dumped; damage of log, snapshot and state, and what is missing, is found", async () => {
  const { files } = await made();
  const deps = { files, checksum };
  const seen: string[] = [];
  const [base = 0] = (await verifyDirectory(deps, METADATA)).logs.map((log) => log.baseOffset);
  expect(base).toBeGreaterThan(0);
  const visit = dumpEntries(deps, logPath(base), ({ index, term, kind }, { syncedEnd }) =>
    seen.push(`${index}/${term} ${kind} after ${syncedEnd}`),
  );
  expect(await visit).toBeUndefined();
  expect(seen[0]).toBe("5/1 command after 5");

  type Damage = readonly [what: (files: MemoryFiles) => void, fault: object];
  const damages: Damage[] = [
    [(each) => flip(each, logPath(base), 70), { file: logPath(base), position: 0, offset: base }],
    [(each) => flip(each, logPath(base), 15), { file: logPath(base), position: 0, offset: base }],
    [(each) => flip(each, snapshotPath(7, 1), 90_000), { file: snapshotPath(7, 1) }],
    [(each) => each.image.unlink(snapshotPath(7, 1)), { file: METADATA }],
    [(each) => each.image.unlink(STATE), { file: STATE }],
    [(each) => [100, 8292].forEach((at) => flip(each, STATE, at)), { file: STATE }],
    [(each) => each.image.unlink(logPath(base)), { offset: base }],
  ];
  for (const [damage, fault] of damages) {
    const copy = new MemoryFiles(files.image.clone());
    damage(copy);
    const before = copy.image.fingerprint(checksum);
    const report = await verifyDirectory({ files: copy, checksum }, "/data");
    expect(faultsOf(report)[0]).toMatchObject(fault);
    expect(copy.image.fingerprint(checksum)).toBe(before);
    await expect(openRaft(copy)).rejects.toMatchObject({ code: "DATA_DAMAGED" });
  }
});

test("a torn end of the metadata log is no fault", async () => {
  const files = await freshFiles();
  await append(await openRaft(files), entriesOf(0, 3, 1));
  const node = files.image.find(logPath(0));
  if (node?.kind === "file") files.image.truncate(node, node.live.sizeBytes - 3);
  const report = await verifyDirectory({ files, checksum }, METADATA);
  expect([report.kind, faultsOf(report)]).toEqual(["metadata", []]);
  expect(report.logs[0]).toMatchObject({ endOffset: 2 });
  expect(report.logs[0]?.tailBytes).toBeGreaterThan(60);
});

test("a directory without a log is foreign", async () => {
  const files = new MemoryFiles();
  await files.makeDirectory("/else");
  await expect(verifyDirectory({ files, checksum }, "/else")).rejects.toMatchObject({ code: "DATA_DIR_FOREIGN" });
});

describe("images of producers", () => {
  const IMAGE = "/data/a-0/00000000000000000060.producers";

  /** Closed; one producer, and an image at offset 60. */
  async function withProducers(spoil?: (table: ProducerTable) => void): Promise<MemoryFiles> {
    const files = new MemoryFiles();
    const store = await openStore(files, { journalPinnedBytes: 1 << 20 });
    const recorder = new Recorder();
    store.listen(recorder);
    const log = await store.createLog(specOf("a"));
    for (let offset = 0; offset < 60; offset++) {
      const producer = { producerId: 5, producerEpoch: 0, baseSequence: offset };
      log.producers.observe(sequencedAt(appendBatch(log, { producer }), 0));
    }
    await recorder.until(() => log.durableEnd === 60);
    log.noteHighWatermark(60 as Offset);
    spoil?.(log.producers);
    await store.close();
    return files;
  }

  test("are good when they are what the log says; a dump shows the producers", async () => {
    const files = await withProducers();
    const report = await verifyDirectory({ files, checksum }, "/data");
    expect([faultsOf(report), report.remarks]).toEqual([[], []]);
    const batches = [55, 56, 57, 58, 59].map((at) => ({ baseSequence: at, baseOffset: at, lastOffset: at }));
    expect(await readProducersFile({ files, checksum }, IMAGE)).toMatchObject({
      image: { endOffset: 60, epoch: 0 },
      producers: [{ producerId: 5, producerEpoch: 0, batches }],
    });
    let first: BatchSummary | undefined;
    await dumpLog({ files, checksum }, LOG, (batch) => (first ??= batch));
    expect(first).toMatchObject({ producerId: 5, producerEpoch: 0, baseSequence: 0 });
  });

  test("that are damaged or missing are remarks: the next start reads the log", async () => {
    const files = await withProducers();
    flip(files, IMAGE, 50);
    const reason = "it does not match its checksum";
    expect(await verifyDirectory({ files, checksum }, "/data")).toMatchObject({ remarks: [{ file: IMAGE, reason }] });
    expect(await readProducersFile({ files, checksum }, IMAGE)).toMatchObject({ file: IMAGE, reason });
    files.image.unlink(IMAGE);
    const report = await verifyDirectory({ files, checksum }, "/data");
    expect(faultsOf(report)).toEqual([]);
    expect(report.remarks).toMatchObject([{ file: IMAGE }]);
  });

  test("that are of another log are remarks, in a partition's directory alone too", async () => {
    const files = await withProducers();
    const other = await withProducers();
    const node = other.image.find(LOG);
    if (node?.kind !== "file") throw new Error("no log");
    // Another log with the same offsets: one without producers.
    const plain = Array.from({ length: 60 }, (_, base) => makeBatch(base));
    const bytes = concatBytes(plain);
    other.image.truncate(node, bytes.length);
    other.image.write(node, 0, bytes);
    const report = await verifyDirectory({ files: other, checksum }, "/data/a-0");
    expect(report.remarks).toMatchObject([{ file: IMAGE, reason: "the log has another batch before offset 60" }]);
    expect((await verifyDirectory({ files, checksum }, "/data/a-0")).remarks).toEqual([]);
  });

  test("that agree with the log but hold other producers are faults", async () => {
    const files = await withProducers((table) => {
      table.truncate(59);
      table.advance(60);
    });
    const faults = faultsOf(await verifyDirectory({ files, checksum }, "/data"));
    expect(faults).toMatchObject([
      { file: IMAGE, reason: "the producers in it are not those of the log up to offset 60" },
    ]);
  });
});
