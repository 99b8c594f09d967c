import { describe, expect, it } from "vitest";
import { createSimHost } from "../../scripts/sim-host.ts";
import { utf8Decode, utf8Encode } from "../../src/base/bytes.ts";
import { createRng } from "../../src/base/rng.ts";
import { SimDisk } from "../../src/sim/disk.ts";
import {
  type CrashChoices,
  DiskImage,
  DROP_ALL,
  type FileNode,
  KEEP_ALL,
  SECTOR_BYTES,
} from "../../src/sim/disk-image.ts";
import { SimWorld } from "../../src/sim/world.ts";

const host = await createSimHost();

function text(image: DiskImage, path: string): string | undefined {
  const node = image.find(path);
  return node?.kind === "file" ? utf8Decode(node.live.view) : undefined;
}

/** A file whose creation and content are on the platter. */
function settled(image: DiskImage, path: string, content: string): FileNode {
  const file = image.createFile(path);
  image.write(file, 0, utf8Encode(content));
  image.sync(file, image.sequence);
  image.syncDirectory(image.parentOf(path, "test").directory, image.sequence);
  return file;
}

function fileOf(image: DiskImage, path: string): FileNode {
  const node = image.find(path);
  if (node?.kind !== "file") throw new Error(`no file ${path}`);
  return node;
}

describe("disk image at a power loss", () => {
  it("D1: an unsynced write is kept or dropped, a synced one stays", () => {
    const image = new DiskImage();
    const file = settled(image, "a", "durable");
    image.write(file, 0, utf8Encode("DURABLE"));
    const other = image.clone();
    image.crash(DROP_ALL);
    other.crash(KEEP_ALL);
    expect([text(image, "a"), text(other, "a")]).toEqual(["durable", "DURABLE"]);
  });

  it("D1: a length may be kept without its bytes, and bytes without their length", () => {
    const image = new DiskImage();
    image.write(settled(image, "a", "head"), 4, utf8Encode("tail"));
    const onlyBytes = image.clone();
    image.crash({ ...DROP_ALL, ofExtension: () => true });
    onlyBytes.crash({ ...KEEP_ALL, ofExtension: () => false });
    expect([text(image, "a"), text(onlyBytes, "a")]).toEqual(["head\0\0\0\0", "head"]);
  });

  it("D1: each of many writes has its own fate, in any order", () => {
    const image = new DiskImage();
    const file = settled(image, "a", "......");
    for (const [at, letter] of [..."abcdef"].entries()) image.write(file, at, utf8Encode(letter));
    let count = 0;
    image.crash({ ...KEEP_ALL, ofWrite: () => ({ kind: count++ % 2 === 0 ? "dropped" : "kept" }) });
    expect(text(image, "a")).toBe(".b.d.f");
  });

  it("D2: a write is torn at sectors, counted in the file", () => {
    const image = new DiskImage();
    const file = settled(image, "a", ".".repeat(SECTOR_BYTES * 3));
    image.write(file, 500, utf8Encode("x".repeat(SECTOR_BYTES * 2)));
    image.crash({ ...KEEP_ALL, ofWrite: () => ({ kind: "torn", keepsSector: (sector) => sector === 1 }) });
    expect(text(image, "a")).toBe(".".repeat(SECTOR_BYTES) + "x".repeat(SECTOR_BYTES) + ".".repeat(SECTOR_BYTES));
  });

  it("D1: creating, renaming and unlinking may each vanish until the directory is synced", () => {
    const image = new DiskImage();
    settled(image, "old", "old");
    settled(image, "gone", "gone");
    const fresh = image.createFile("fresh");
    image.write(fresh, 0, utf8Encode("fresh"));
    image.sync(fresh, image.sequence);
    image.rename("old", "new");
    image.unlink("gone");
    const synced = image.clone();
    image.crash(DROP_ALL);
    expect([text(image, "old"), text(image, "new"), text(image, "gone"), text(image, "fresh")]).toEqual([
      "old",
      undefined,
      "gone",
      undefined,
    ]);
    synced.syncDirectory(synced.parentOf("x", "test").directory, synced.sequence);
    synced.crash(DROP_ALL);
    expect([text(synced, "old"), text(synced, "new"), text(synced, "gone"), text(synced, "fresh")]).toEqual([
      undefined,
      "old",
      undefined,
      "fresh",
    ]);
  });

  it("D1: a rename may survive without the creation before it, and a later operation without an earlier one", () => {
    const image = new DiskImage();
    const draft = image.createFile("draft");
    image.write(draft, 0, utf8Encode("text"));
    image.sync(draft, image.sequence);
    image.rename("draft", "final");
    image.crash({ ...KEEP_ALL, ofDirectory: (operation) => operation.kind === "rename" });
    expect([text(image, "draft"), text(image, "final")]).toEqual([undefined, "text"]);
  });

  it("D1: a file in a directory whose creation vanished is lost with it", () => {
    const image = new DiskImage();
    image.makeDirectory("parent/child");
    const file = image.createFile("parent/child/a");
    image.write(file, 0, utf8Encode("text"));
    image.sync(file, image.sequence);
    const child = image.find("parent/child");
    if (child?.kind === "directory") image.syncDirectory(child, image.sequence);
    image.crash(DROP_ALL);
    expect(image.find("parent")).toBeUndefined();
  });

  it("a sync covers only what was done before it was issued", () => {
    const image = new DiskImage();
    const file = settled(image, "a", "..");
    image.write(file, 0, utf8Encode("1"));
    const issued = image.sequence;
    image.write(file, 1, utf8Encode("2"));
    image.sync(file, issued);
    image.crash(DROP_ALL);
    expect(text(image, "a")).toBe("1.");
  });

  it("D7: after a failed sync the bytes are visible, the next sync succeeds, and they are lost all the same", () => {
    const image = new DiskImage();
    const file = settled(image, "a", "old");
    image.write(file, 0, utf8Encode("new"));
    image.failSync(file, DROP_ALL);
    expect(text(image, "a")).toBe("new");
    image.sync(file, image.sequence);
    const evicted = image.clone();
    evicted.evictStale();
    image.crash(KEEP_ALL);
    expect([text(image, "a"), text(evicted, "a")]).toEqual(["old", "old"]);
  });

  it("a clone is independent, with what is pending", () => {
    const image = new DiskImage();
    image.makeDirectory("one");
    image.makeDirectory("two");
    const file = image.createFile("one/a");
    image.write(file, 0, utf8Encode("text"));
    image.rename("one/a", "two/b");
    const copy = image.clone();
    expect(copy.pendingOperations()).toHaveLength(image.pendingOperations().length);
    expect(copy.fingerprint(host.checksum)).toBe(image.fingerprint(host.checksum));
    copy.write(fileOf(copy, "two/b"), 0, utf8Encode("TEXT"));
    copy.unlink("two/b");
    expect([text(image, "two/b"), text(copy, "two/b")]).toEqual(["text", undefined]);
    expect(copy.usedBytes).toBe(0);
    expect(image.usedBytes).toBe(4);
  });

  it("agrees with a naive twin under random writes, truncations, syncs and crashes that keep all", () => {
    const rng = createRng(5);
    const image = new DiskImage();
    let file = settled(image, "a", "");
    let twin = new Uint8Array(0);
    for (let step = 0; step < 2000; step++) {
      const position = rng.below(2000);
      if (rng.chance(0.1)) {
        image.truncate(file, position);
        const next = new Uint8Array(position);
        next.set(twin.subarray(0, position));
        twin = next;
      } else if (rng.chance(0.05)) image.sync(file, image.sequence);
      else if (rng.chance(0.02)) {
        image.crash(KEEP_ALL);
        file = fileOf(image, "a");
      } else {
        const bytes = new Uint8Array(rng.below(300));
        rng.fill(bytes);
        image.write(file, position, bytes);
        const next = new Uint8Array(Math.max(twin.length, bytes.length === 0 ? 0 : position + bytes.length));
        next.set(twin);
        next.set(bytes, bytes.length === 0 ? 0 : position);
        twin = next;
      }
      if (step % 50 === 0) expect(Buffer.compare(file.live.view, twin)).toBe(0);
      expect(image.usedBytes).toBe(twin.length);
    }
  });
});

const OPTIONS = { latencies: { readMs: 1, writeMs: 1, syncMs: 5, directoryMs: 1 }, capacityBytes: 100_000 };

describe("simulated disk", () => {
  it("D3: a killed process leaves its completed writes, and one under way in part", async () => {
    const seen = new Set<string>();
    for (let seed = 0; seed < 60; seed++) {
      const world = new SimWorld({ seed, host });
      const disk = new SimDisk(world, "d", OPTIONS);
      const first = world.startIncarnation("p");
      const handle = await world.settle(disk.files(first).open("a", "create"));
      await world.settle(handle.write(0, [utf8Encode("done")]));
      let isSettled = false;
      void handle.write(4, [utf8Encode("12345678")]).then(() => {
        isSettled = true;
      });
      first.end();
      disk.crash("process death");
      await world.runFor(1000);
      expect(isSettled).toBe(false);
      seen.add(text(disk.image, "a") ?? "gone");
    }
    expect(seen.size).toBeGreaterThan(3);
    for (const content of seen) expect("done12345678".startsWith(content) && content.startsWith("done")).toBe(true);
  });

  it("D1: at a power loss anything unsynced may be gone, nothing synced is", async () => {
    const seen = new Set<string>();
    for (let seed = 0; seed < 60; seed++) {
      const world = new SimWorld({ seed, host });
      const disk = new SimDisk(world, "d", OPTIONS);
      const files = disk.files(world.startIncarnation("p"));
      const handle = await world.settle(files.open("a", "create"));
      await world.settle(handle.write(0, [utf8Encode("sync")]));
      await world.settle(handle.datasync());
      await world.settle(files.syncDirectory(""));
      await world.settle(handle.write(4, [utf8Encode("ed ")]));
      await world.settle(handle.write(7, [utf8Encode("lost")]));
      disk.crash("power loss");
      seen.add(text(disk.image, "a") ?? "gone");
    }
    expect(seen.has("gone")).toBe(false);
    expect([...seen].every((content) => content.startsWith("sync"))).toBe(true);
    expect(seen.has("sync") && seen.has("synced lost") && seen.size > 4).toBe(true);
  });

  it("D9: a full disk refuses growth, takes overwriting, and heals", async () => {
    const world = new SimWorld({ seed: 1, host });
    const disk = new SimDisk(world, "d", OPTIONS);
    const files = disk.files(world.startIncarnation("p"));
    const handle = await world.settle(files.open("a", "create"));
    await world.settle(handle.write(0, [new Uint8Array(1000)]));
    disk.faults.foreignBytes = OPTIONS.capacityBytes;
    expect(await world.settle(files.freeBytes("a"))).toBe(0);
    await expect(world.settle(handle.write(500, [new Uint8Array(1000)]))).rejects.toMatchObject({ kind: "no-space" });
    await world.settle(handle.write(0, [new Uint8Array(1000).fill(1)]));
    await expect(world.settle(files.open("b", "create"))).rejects.toMatchObject({ kind: "no-space" });
    disk.faults.foreignBytes = 0;
    await world.settle(handle.write(500, [new Uint8Array(1000)]));
    expect(world.faults.get("D9 no space")).toBe(2);
  });

  it("D7: one datasync fails with io, the next does not", async () => {
    const world = new SimWorld({ seed: 1, host });
    const disk = new SimDisk(world, "d", OPTIONS);
    const files = disk.files(world.startIncarnation("p"));
    const handle = await world.settle(files.open("a", "create"));
    disk.faults.failingSyncs = 1;
    await expect(world.settle(handle.datasync())).rejects.toMatchObject({ kind: "io" });
    await world.settle(handle.datasync());
  });

  it("copies what is written, and finds a writer that changes its bytes too early", async () => {
    const world = new SimWorld({ seed: 1, host });
    const disk = new SimDisk(world, "d", OPTIONS);
    const handle = await world.settle(disk.files(world.startIncarnation("p")).open("a", "create"));
    const bytes = utf8Encode("abc");
    await world.settle(handle.write(0, [bytes]));
    bytes[0] = 0;
    expect(text(disk.image, "a")).toBe("abc");
    const writing = handle.write(0, [bytes]);
    bytes[1] = 0;
    await expect(world.settle(writing)).rejects.toThrow("bytes changed");
  });

  it("a dead process's lock is free again", async () => {
    const world = new SimWorld({ seed: 1, host });
    const disk = new SimDisk(world, "d", OPTIONS);
    const first = world.startIncarnation("p");
    await world.settle(disk.files(first).makeDirectory("data"));
    expect((await world.settle(disk.files(first).lockDirectory("data"))).kind).toBe("acquired");
    const second = world.startIncarnation("p");
    expect((await world.settle(disk.files(second).lockDirectory("data"))).kind).toBe("held");
    first.end();
    disk.crash("process death");
    expect((await world.settle(disk.files(second).lockDirectory("data"))).kind).toBe("acquired");
  });
});

it("choices are asked once per operation, oldest first", () => {
  const image = new DiskImage();
  const file = settled(image, "a", "");
  image.write(file, 0, utf8Encode("1"));
  image.createFile("b");
  image.truncate(file, 0);
  const asked: string[] = [];
  const choices: CrashChoices = {
    ofWrite: () => (asked.push("write"), { kind: "kept" }),
    ofExtension: () => (asked.push("extension"), true),
    ofTruncate: () => (asked.push("truncate"), true),
    ofDirectory: () => (asked.push("directory"), true),
  };
  image.crash(choices);
  expect(asked).toEqual(["write", "extension", "directory", "truncate"]);
});

describe("D10: a slow disk", () => {
  it("takes many times as long, but nobody waits for it for minutes", () => {
    const world = new SimWorld({ seed: 1, host });
    const latencies = { readMs: 1, writeMs: 1, syncMs: 1, directoryMs: 1 };
    const disk = new SimDisk(world, "disk", { latencies, capacityBytes: 2 ** 20 }, new DiskImage());
    const drawn = () => Array.from({ length: 1_000 }, () => disk.latencyMs(10));
    const usual = drawn();
    disk.faults.slowness = 300;
    const slow = drawn();
    expect(Math.max(...usual)).toBeLessThanOrEqual(500);
    expect(Math.max(...slow)).toBe(5_000);
    expect(slow.toSorted((left, right) => left - right)[500]).toBeGreaterThan(1_000);
  });
});
