// The metadata quorum's own log: every append durable, a torn tail cut, damage refused.
import { expect, test } from "vitest";
import type { LeaderEpoch } from "../../src/model/ids.ts";
import { DROP_ALL } from "../../src/sim/disk-image.ts";
import { openLaneLog } from "../../src/storage/lane-log.ts";
import type { LaneLog } from "../../src/storage/types.ts";
import { MemoryFiles } from "./memory-files.ts";
import { makeDeps } from "./support.ts";

const DIRECTORY = "/data/metadata";
const PATH = `${DIRECTORY}/00000000000000000000.log`;
const open = (files: MemoryFiles): Promise<LaneLog> =>
  openLaneLog(makeDeps(files), { directory: DIRECTORY, segmentBytes: 300 });

async function values(lane: LaneLog): Promise<string[]> {
  const found: string[] = [];
  await lane.replay((offset, epoch, value) => found.push(`${offset}/${epoch}/${value.join(".")}`));
  return found;
}

async function fill(lane: LaneLog, count: number): Promise<void> {
  for (let at = 0; at < count; at++)
    await lane.append([Uint8Array.of(at), Uint8Array.of(at, at)], 3 as LeaderEpoch, 1000);
}

function fileOf(files: MemoryFiles, path = PATH) {
  const node = files.image.find(path);
  if (node?.kind !== "file") throw new Error(`${path} is no file`);
  return node;
}

test("D-19: an answered append survives a power loss that drops everything unsynced, across files", async () => {
  const files = new MemoryFiles();
  // The data directory itself is the store's to make durable.
  await files.makeDirectory("/data");
  await files.syncDirectory("/");
  const lane = await open(files);
  await fill(lane, 9);
  const expected = await values(lane);
  expect(expected).toHaveLength(18);
  files.image.crash(DROP_ALL);
  const again = await open(new MemoryFiles(files.image));
  expect(again.endOffset).toBe(18);
  expect(await values(again)).toEqual(expected);
});

test("a torn last batch is cut at every length", async () => {
  const files = new MemoryFiles();
  const lane = await open(files);
  await fill(lane, 1);
  const first = fileOf(files).live.sizeBytes;
  await fill(lane, 1);
  const whole = fileOf(files).live.sizeBytes;
  for (let size = first; size < whole; size++) {
    const image = files.image.clone();
    const copy = new MemoryFiles(image);
    image.truncate(fileOf(copy), size);
    const again = await open(copy);
    expect(again.endOffset).toBe(2);
    expect(fileOf(copy).live.sizeBytes).toBe(first);
  }
});

test("a damaged batch before a whole one is damage, and nothing is touched", async () => {
  const files = new MemoryFiles();
  const lane = await open(files);
  await fill(lane, 2);
  await lane.close();
  files.image.write(fileOf(files), 70, Uint8Array.of(0xff));
  const before = fileOf(files).live.view.slice();
  await expect(open(new MemoryFiles(files.image))).rejects.toMatchObject({ code: "DATA_DAMAGED" });
  expect(fileOf(files).live.view).toEqual(before);
});

test("D-18: a full disk refuses an append without a trace, first giving up the reserve", async () => {
  const files = new MemoryFiles();
  const lane = await open(files);
  await fill(lane, 1);
  files.capacityBytes = files.image.usedBytes + 10;
  await fill(lane, 1);
  files.capacityBytes = files.image.usedBytes + 10;
  await expect(fill(lane, 1)).rejects.toMatchObject({ code: "STORAGE_FULL" });
  expect(lane.endOffset).toBe(4);
  files.capacityBytes = Number.POSITIVE_INFINITY;
  await fill(lane, 1);
  expect(await values(lane)).toHaveLength(6);
});
