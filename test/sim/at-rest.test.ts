// Faults at rest: each kind changes what it says, is seen while it is there, and not any more once the file is right again.
import { describe, expect, it } from "vitest";
import { createSimHost } from "../../scripts/sim-host.ts";
import { bytesEqual } from "../../src/base/bytes.ts";
import { createRng } from "../../src/base/rng.ts";
import type { NodeId } from "../../src/model/ids.ts";
import { RecordBatchBuilder } from "../../src/model/records.ts";
import { baseOffsetAt, assignOffsets } from "../../src/model/batch-header.ts";
import { AT_REST_KINDS, isStillThere, plantAtRest } from "../../src/sim/at-rest.ts";
import { DiskImage } from "../../src/sim/disk-image.ts";
import { RotLedger, segmentBaseOf } from "../../src/sim/rot-ledger.ts";

const host = await createSimHost();
const PATH = "data/t-0/00000000000000000000.log";
const OTHER = "data/t-1/00000000000000000000.log";

function batch(base: number, filler: number, sizeBytes = 30): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: 1 << 16 });
  builder.tryAppend({ key: null, value: new Uint8Array(sizeBytes).fill(filler), headers: [], timestamp: 1 });
  const bytes = builder.build({ compression: "none", codecs: host.codecs, checksum: host.checksum });
  assignOffsets(bytes, base, 0);
  return bytes;
}

function put(image: DiskImage, path: string, chunks: readonly Uint8Array[]): void {
  image.makeDirectory(path.slice(0, path.lastIndexOf("/")));
  const file = image.createFile(path);
  let at = 0;
  for (const bytes of chunks) {
    image.write(file, at, bytes);
    at += bytes.length;
  }
  image.sync(file, image.sequence);
  image.syncDirectory(image.parentOf(path, "test").directory, image.sequence);
}

/** Two partitions with the same offsets, and other records. */
function diskOf(): DiskImage {
  const image = new DiskImage();
  for (const [path, filler] of [
    [PATH, 1],
    [OTHER, 2],
  ] as const)
    put(
      image,
      path,
      [0, 1, 2, 3].map((base) => batch(base, filler)),
    );
  return image;
}

function bytesOf(image: DiskImage, path = PATH): Uint8Array | undefined {
  const node = image.find(path);
  return node?.kind === "file" ? node.live.view.slice() : undefined;
}

describe("a fault at rest", () => {
  it.each(AT_REST_KINDS)("%s: is there, survives a power loss, and is gone when the file is right again", (kind) => {
    for (let seed = 1; seed <= 20; seed++) {
      const image = diskOf();
      const right = bytesOf(image) ?? new Uint8Array(0);
      const planted = plantAtRest(image, PATH, { kind, rng: createRng(seed), others: [PATH, OTHER] });
      if (planted === undefined) throw new Error(`nothing was planted with seed ${seed}`);
      const wrong = bytesOf(image);
      expect(wrong !== undefined && bytesEqual(wrong, right)).toBe(false);
      expect(isStillThere(image, planted)).toBe(true);
      image.crash({
        ofWrite: () => ({ kind: "kept" }),
        ofExtension: () => true,
        ofTruncate: () => true,
        ofDirectory: () => true,
      });
      expect(isStillThere(image, planted)).toBe(true);
      if (kind === "missing file") image.createFile(PATH);
      const node = image.find(PATH);
      if (node?.kind !== "file") throw new Error("no file");
      image.truncate(node, 0);
      image.write(node, 0, right);
      expect(isStillThere(image, planted)).toBe(false);
    }
  });

  it("44: a truncation takes more than zeros, which a file in its place may have there as well (seed 672000065)", () => {
    for (let seed = 1; seed <= 20; seed++) {
      const image = diskOf();
      const file = image.find(PATH);
      if (file?.kind !== "file") throw new Error("no file");
      const zerosFrom = file.live.sizeBytes;
      image.write(file, zerosFrom, new Uint8Array(1000));
      const planted = plantAtRest(image, PATH, { kind: "truncation", rng: createRng(seed), others: [] });
      expect(planted?.from).toBeLessThan(zerosFrom);
      image.write(file, planted?.from ?? 0, new Uint8Array(zerosFrom + 1000).fill(1));
      expect(planted !== undefined && isStillThere(image, planted)).toBe(false);
    }
  });

  it("44: a truncation is there at its end, and under a hole, but not in a shorter file that took the place (seed 993220033)", () => {
    const image = diskOf();
    const whole = bytesOf(image) ?? new Uint8Array(0);
    const planted = plantAtRest(image, PATH, { kind: "truncation", rng: createRng(1), others: [] });
    const file = image.find(PATH);
    if (planted === undefined || file?.kind !== "file") throw new Error("nothing was planted");
    const { from, to } = planted;
    expect(from).toBeGreaterThan(batch(0, 1).length);
    expect(file.live.sizeBytes).toBe(from);
    expect(isStillThere(image, planted)).toBe(true);
    // Whoever has it open appends behind the end that it knew.
    image.write(file, to, batch(4, 1));
    expect(isStillThere(image, planted)).toBe(true);
    image.write(file, from, whole.subarray(from, to));
    expect(isStillThere(image, planted)).toBe(false);
    // Fetched anew, or compacted since: it never gets as long as it was.
    image.truncate(file, 0);
    image.write(file, 0, batch(0, 1));
    expect(isStillThere(image, planted)).toBe(false);
  });

  it("D6: a misdirected write is a batch of the same offset whose sum is right", () => {
    const image = diskOf();
    const planted = plantAtRest(image, PATH, { kind: "misdirected write", rng: createRng(1), others: [PATH, OTHER] });
    const found = bytesOf(image) ?? new Uint8Array(0);
    expect(baseOffsetAt(found, planted?.from ?? 0)).toBe(
      baseOffsetAt(bytesOf(image, OTHER) ?? found, planted?.from ?? 0),
    );
    expect(found.includes(2)).toBe(true);
  });

  it("D6: a donor that is rotten itself gives what is whole of it (seed 615772249)", () => {
    const image = diskOf();
    // The length of its second batch: as if it took nothing.
    image.corrupt(OTHER, batch(0, 2).length + 8, Uint8Array.of(255, 255, 255, 244));
    const planted = plantAtRest(image, PATH, { kind: "misdirected write", rng: createRng(1), others: [PATH, OTHER] });
    expect(planted).toBeDefined();
  });

  it("D6: a stale write is what was there before the file was cut and written anew", () => {
    const image = diskOf();
    const node = image.find(PATH);
    if (node?.kind !== "file") throw new Error("no file");
    const before = bytesOf(image) ?? new Uint8Array(0);
    image.truncate(node, 0);
    image.write(node, 0, batch(0, 9));
    const planted = plantAtRest(image, PATH, { kind: "stale write", rng: createRng(1), others: [] });
    expect(planted).toBeDefined();
    const end = batch(0, 9).length;
    expect(bytesOf(image)).toEqual(before.slice(0, end));
  });

  it("has no effect on a file that is empty or not there", () => {
    const image = new DiskImage();
    put(image, PATH, []);
    for (const kind of AT_REST_KINDS)
      for (const path of [PATH, OTHER])
        expect(plantAtRest(image, path, { kind, rng: createRng(1), others: [] })).toBeUndefined();
  });

  it("a missing file stays open for whoever has it, and a name that is not on the platter yet stays", () => {
    const image = diskOf();
    const node = image.find(PATH);
    if (node?.kind !== "file") throw new Error("no file");
    image.openHandle(node);
    expect(image.vanish(PATH)).toBe(true);
    expect(node.live.sizeBytes).toBeGreaterThan(0);
    image.createFile("data/t-0/new.log");
    expect(image.vanish("data/t-0/new.log")).toBe(false);
  });
});

describe("the ledger of what was planted", () => {
  const node = 1 as NodeId;

  function withBitFlip(image: DiskImage): RotLedger {
    const ledger = new RotLedger(() => image);
    const planted = plantAtRest(image, PATH, { kind: "bit flip", rng: createRng(1), others: [] });
    if (planted === undefined) throw new Error("nothing was planted");
    ledger.add({ node, partition: "t-0", base: segmentBaseOf(PATH), plantedMs: 0, planted });
    return ledger;
  }

  function zero(image: DiskImage): void {
    const file = image.find(PATH);
    if (file?.kind !== "file") throw new Error("no file");
    image.write(file, 0, new Uint8Array(file.live.sizeBytes));
  }

  it("has what is still there, and remembers for a while what is not", () => {
    const image = diskOf();
    const ledger = withBitFlip(image);
    expect(ledger.look(1)).toHaveLength(1);
    zero(image);
    expect(ledger.look(2)).toHaveLength(0);
    ledger.foundWhole(node, "t-0");
    ledger.look(3);
    expect(ledger.has(node, "t-0")).toBe(true);
    ledger.look(60_000);
    expect(ledger.has(node, "t-0")).toBe(false);
  });

  it("remembers what is gone for as long as a start may have met it and nobody has told", () => {
    const image = diskOf();
    const ledger = withBitFlip(image);
    // Undamaged as long as it is not met: that says nothing of later.
    ledger.foundWhole(node, "t-0");
    zero(image);
    ledger.look(2);
    ledger.look(60_000);
    expect(ledger.has(node, "t-0")).toBe(true);
    ledger.foundWhole(2 as NodeId, "t-0");
    ledger.look(60_001);
    expect(ledger.has(node, "t-0")).toBe(true);
    ledger.foundWhole(node, "t-0");
    ledger.look(60_002);
    expect(ledger.has(node, "t-0")).toBe(false);
  });

  it("knows segments by their names", () => {
    expect(segmentBaseOf("data/t-0/00000000000000000042.log")).toBe(42);
    expect(segmentBaseOf("data/t-0/00000000000000000042.log.cleaned")).toBeUndefined();
    expect(segmentBaseOf("data/metadata/00000000000000000042.logs")).toBeUndefined();
  });
});
