// Directories that are not this node's are refused by name, and not a byte of them changes.
import { expect, test } from "vitest";
import { writeU16, writeU32 } from "../../src/base/bytes.ts";
import type { ClusterId, NodeId } from "../../src/model/ids.ts";
import { FileError, type LockOutcome } from "../../src/ports/files.ts";
import { DROP_ALL, KEEP_ALL } from "../../src/sim/disk-image.ts";
import { openLogStore } from "../../src/storage/log-store.ts";
import { verifyDirectory } from "../../src/storage/inspect.ts";
import { decodeSuperblock, encodeSuperblock } from "../../src/storage/superblock.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, baseConfig, checksum, makeDeps, openStore, Recorder, specOf } from "./support.ts";

const SUPERBLOCK = "/data/superblock";
const CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ" as ClusterId;
const OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAg" as ClusterId;

async function made(): Promise<MemoryFiles> {
  const files = new MemoryFiles();
  const store = await openStore(files);
  const recorder = new Recorder();
  store.listen(recorder);
  const log = await store.createLog(specOf("a"));
  appendBatch(log);
  await recorder.until(() => log.durableEnd === 1);
  await store.close();
  return files;
}

async function refused(files: MemoryFiles, code: string, config = {}): Promise<string> {
  const before = files.image.fingerprint(checksum);
  const opening = openLogStore(makeDeps(files), { ...baseConfig, ...config });
  const error = await opening.then(
    () => undefined,
    (thrown: Error & { code?: string }) => thrown,
  );
  expect(error?.code).toBe(code);
  expect(files.image.fingerprint(checksum)).toBe(before);
  return error?.message ?? "";
}

function edit(files: MemoryFiles, path: string, change: (bytes: Uint8Array) => void): void {
  const node = files.image.find(path);
  if (node?.kind !== "file") throw new Error(`${path} is no file`);
  const bytes = node.live.view.slice();
  change(bytes);
  files.image.write(node, 0, bytes);
}

test("a directory with somebody else's files is foreign", async () => {
  const files = new MemoryFiles();
  await files.makeDirectory("/data");
  await files.open("/data/photos.zip", "create");
  expect(await refused(files, "DATA_DIR_FOREIGN")).toContain("photos.zip");
});

test("another node's and another cluster's directories are foreign, and say whose they are", async () => {
  const files = await made();
  const store = await openStore(files);
  await store.adoptCluster(CLUSTER);
  await store.close();
  expect(await refused(files, "DATA_DIR_FOREIGN", { nodeId: 2 as NodeId })).toContain("node 1");
  expect(await refused(files, "DATA_DIR_FOREIGN", { clusterId: OTHER_CLUSTER })).toContain(OTHER_CLUSTER);
});

test("D-20: a disk is of no cluster until it adopts one, once and durably", async () => {
  const files = await made();
  const store = await openStore(files, { clusterId: CLUSTER });
  expect(store.identity).toMatchObject({ clusterId: null, nodeId: 1 });
  await expect(store.adoptCluster(OTHER_CLUSTER)).rejects.toMatchObject({ code: "DATA_DIR_FOREIGN" });
  expect(store.identity.clusterId).toBeNull();
  await store.adoptCluster(CLUSTER);
  await store.adoptCluster(CLUSTER);
  const { identity } = store;
  files.kill();
  files.image.crash(DROP_ALL);
  const again = await openStore(new MemoryFiles(files.image));
  expect(again.identity).toEqual(identity);
  expect(again.identity.clusterId).toBe(CLUSTER);
  await expect(again.adoptCluster(OTHER_CLUSTER)).rejects.toMatchObject({ code: "DATA_DIR_FOREIGN" });
});

test("D-6: a stored broker epoch survives a power loss, checkpoints and an ordered close", async () => {
  const files = await made();
  const store = await openStore(files);
  expect(store.brokerEpoch).toBeNull();
  await Promise.all([store.storeBrokerEpoch(7), store.checkpoint(), store.storeBrokerEpoch(9)]);
  expect(store.brokerEpoch).toBe(9);
  files.kill();
  files.image.crash(DROP_ALL);
  const again = await openStore(new MemoryFiles(files.image));
  expect(again.brokerEpoch).toBe(9);
  await again.checkpoint();
  await again.close();
  await expect(again.storeBrokerEpoch(10)).rejects.toMatchObject({ code: "CLOSED" });
  const third = await openStore(new MemoryFiles(files.image));
  expect([third.brokerEpoch, third.restart]).toEqual([9, "clean"]);
});

test("a superblock of version 1 is read: it has a cluster and no broker epoch", () => {
  const block = { counter: 3, generation: 2, clusterId: CLUSTER, directoryId: OTHER_CLUSTER, nodeId: 1 as NodeId };
  const slot = encodeSuperblock({ ...block, nextLogId: 5, bootId: "boot", isClean: true, brokerEpoch: null }, checksum);
  writeU16(slot, 4, 1);
  writeU16(slot, 6, 1);
  slot.fill(0, 77 + 4 + "boot".length);
  writeU32(slot, 8, checksum.crc32c(slot.subarray(12)));
  expect(decodeSuperblock(slot, { path: SUPERBLOCK, checksum })).toEqual({
    ...block,
    nextLogId: 5,
    bootId: "boot",
    isClean: true,
    brokerEpoch: null,
  });
});

test("a directory that lost its superblock is damaged, not empty", async () => {
  const files = await made();
  files.image.unlink(SUPERBLOCK);
  expect(await refused(files, "DATA_DAMAGED")).toContain("superblock");
});

test("D-6: the rot of one slot of the superblock takes nothing back, is told, and is made good by the start", async () => {
  const files = await made();
  const before = await openStore(files);
  await before.adoptCluster(CLUSTER);
  await before.storeBrokerEpoch(5);
  await before.checkpoint();
  await before.storeBrokerEpoch(11);
  const { identity } = before;
  files.kill();
  const images = [files.image.clone(), files.image.clone()].map((image) => new MemoryFiles(image));
  for (const [slot, rotten] of images.entries()) {
    edit(rotten, SUPERBLOCK, (bytes) => (bytes[slot * 4096 + 200] = (bytes[slot * 4096 + 200] as number) ^ 1));
    const remark = { file: SUPERBLOCK, position: slot * 4096, reason: expect.stringContaining("checksum") };
    const report = await verifyDirectory({ files: rotten, checksum }, "/data");
    expect(report).toMatchObject({ faults: [], remarks: [remark] });
    const told: unknown[] = [];
    const deps = makeDeps(rotten);
    const logger = { ...deps.logger, warn: (...line: unknown[]) => void told.push(line) };
    const store = await openLogStore({ ...deps, logger }, baseConfig);
    expect([store.brokerEpoch, store.identity]).toEqual([11, identity]);
    expect(told).toEqual([["superblock_slot_damaged", remark]]);
    await store.close();
    expect(await verifyDirectory({ files: rotten, checksum }, "/data")).toMatchObject({ remarks: [] });
  }
});

test("both slots of a new superblock are good; two damaged ones are damage", async () => {
  const fresh = new MemoryFiles();
  await openStore(fresh);
  fresh.kill();
  const report = await verifyDirectory({ files: new MemoryFiles(fresh.image), checksum }, "/data");
  expect(report).toMatchObject({ faults: [], remarks: [] });
  const files = await made();
  edit(files, SUPERBLOCK, (bytes) => {
    bytes.fill(0xaa, 50, 60);
    bytes.fill(0xaa, 4096 + 50, 4096 + 60);
  });
  await refused(files, "DATA_DAMAGED");
  for (const bytes of [new Uint8Array(), new Uint8Array(8192)]) {
    const handle = await files.open(SUPERBLOCK, "write");
    await handle.truncate(0);
    await handle.write(0, [bytes]);
    await handle.close();
    await expect(openStore(new MemoryFiles(files.image))).rejects.toMatchObject({ code: "DATA_DAMAGED" });
  }
});

test("D-31: a newer superblock, image, journal or partition.metadata is refused by its name and version", async () => {
  const newer = (bytes: Uint8Array): void => {
    writeU16(bytes, 4, 7);
    writeU16(bytes, 6, 7);
  };
  const names = await made().then(async (files) => ({
    image: (await files.list("/data/checkpoint"))[0]?.name ?? "",
    journal: (await files.list("/data/journal"))[0]?.name ?? "",
  }));
  const cases: [string, (bytes: Uint8Array) => void][] = [
    [
      SUPERBLOCK,
      (bytes) => {
        newer(bytes.subarray(0));
        newer(bytes.subarray(4096));
      },
    ],
    [`/data/checkpoint/${names.image}`, newer],
    [
      `/data/journal/${names.journal}`,
      (bytes) => {
        newer(bytes);
        writeU32(bytes, 8, checksum.crc32c(bytes.subarray(12, 128)));
      },
    ],
    [
      "/data/a-0/partition.metadata",
      (bytes) => {
        bytes.set(new TextEncoder().encode("version: 7\nmin_reader_version: 7"), bytes.indexOf(10) + 1);
        const text = bytes.subarray(0, bytes.length - "crc32c: 12345678\n".length);
        const sum = checksum.crc32c(text).toString(16).padStart(8, "0");
        bytes.set(new TextEncoder().encode(sum), bytes.length - 9);
      },
    ],
  ];
  for (const [path, change] of cases) {
    const files = await made();
    edit(files, path, change);
    const message = await refused(files, "DATA_DIR_NEWER");
    expect(message).toContain(path);
    expect(message).toContain("7");
  }
});

test("a directory that cannot be written is read-only, a locked one names the pid", async () => {
  const files = await made();
  files.onOperation = ({ kind, path }) => {
    if (kind === "open" && path === SUPERBLOCK && files.operations > 0) throw new FileError("read-only", "open", path);
  };
  await refused(files, "DATA_DIR_READ_ONLY");
  files.onOperation = () => undefined;
  files.lockDirectory = async (): Promise<LockOutcome> => ({ kind: "held", ownerPid: 4711 });
  expect(await refused(files, "DATA_DIR_LOCKED")).toContain("4711");
});

test("a first start that is cut short at any operation starts again as a first one, or as itself", async () => {
  const whole = new MemoryFiles();
  await openStore(whole);
  for (let killAt = 1; killAt <= whole.operations; killAt++) {
    const files = new MemoryFiles();
    const death = new Promise<void>((resolve) => {
      files.onOperation = ({ number }) => {
        if (number !== killAt) return;
        files.kill();
        resolve();
      };
    });
    await Promise.race([openStore(files), death]);
    files.image.crash(KEEP_ALL);
    const store = await openStore(new MemoryFiles(files.image));
    expect([...store.logs]).toEqual([]);
    await store.close();
  }
});
