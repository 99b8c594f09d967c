// Looking at a stopped node's files: what is whole is reported whole, what is damaged with its first bad offset.
import { expect, test } from "vitest";
import { dumpLog, faultsOf, verifyDirectory, verifyLog } from "../../src/storage/inspect.ts";
import { openLaneLog } from "../../src/storage/lane-log.ts";
import type { LeaderEpoch } from "../../src/model/ids.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, checksum, makeDeps, openStore, Recorder, specOf } from "./support.ts";

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
  const lane = await openLaneLog(makeDeps(files), { directory: "/data/metadata", segmentBytes: 1000 });
  await lane.append([Uint8Array.of(1)], 0 as LeaderEpoch, 5);
  await lane.close();
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
    if (isClosed) expect(report.logs.map((log) => log.endOffset).filter((end) => end > 1)).toContain(120);
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

test("a directory without a log is foreign", async () => {
  const files = new MemoryFiles();
  await files.makeDirectory("/else");
  await expect(verifyDirectory({ files, checksum }, "/else")).rejects.toMatchObject({ code: "DATA_DIR_FOREIGN" });
});
