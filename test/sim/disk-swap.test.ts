import { describe, expect, it } from "vitest";
import { createSimHost } from "../../scripts/sim-host.ts";
import { utf8Decode, utf8Encode } from "../../src/base/bytes.ts";
import { SimDisk } from "../../src/sim/disk.ts";
import { DiskImage, DROP_ALL } from "../../src/sim/disk-image.ts";
import { SimWorld } from "../../src/sim/world.ts";

const host = await createSimHost();
const OPTIONS = { latencies: { readMs: 1, writeMs: 1, syncMs: 1, directoryMs: 1 }, capacityBytes: 1 << 20 };

function text(image: DiskImage, path: string): string | undefined {
  const node = image.find(path);
  return node?.kind === "file" ? utf8Decode(node.live.view) : undefined;
}

function write(image: DiskImage, path: string, content: string, isSynced: boolean): void {
  const found = image.find(path);
  const file = found?.kind === "file" ? found : image.createFile(path);
  image.write(file, 0, utf8Encode(content));
  if (!isSynced) return;
  image.sync(file, image.sequence);
  image.syncDirectory(image.parentOf(path, "test").directory, image.sequence);
}

describe("D5: a bit that turns over at rest", () => {
  it("is another one in memory and on the platter, and nothing else changes", () => {
    const image = new DiskImage();
    write(image, "a", "abc", true);
    write(image, "b", "abc", true);
    image.flipBit("a", 1, 0);
    expect([text(image, "a"), text(image, "b")]).toEqual(["acc", "abc"]);
    image.crash(DROP_ALL);
    expect(text(image, "a")).toBe("acc");
    image.flipBit("a", 1, 0);
    expect(text(image, "a")).toBe("abc");
  });

  it("leaves a copy of the disk alone", () => {
    const image = new DiskImage();
    write(image, "a", "abc", true);
    const copy = image.clone();
    image.flipBit("a", 0, 7);
    expect(text(copy, "a")).toBe("abc");
  });

  it("finds the files of a directory and of those in it, in order", () => {
    const image = new DiskImage();
    image.makeDirectory("data/metadata/log");
    for (const path of ["data/metadata/b", "data/metadata/a", "data/metadata/log/c", "data/else"])
      write(image, path, path, true);
    expect(image.filesBelow("data/metadata")).toEqual([
      { path: "data/metadata/a", sizeBytes: 15 },
      { path: "data/metadata/b", sizeBytes: 15 },
      { path: "data/metadata/log/c", sizeBytes: 19 },
    ]);
    expect(image.filesBelow("data/nowhere")).toEqual([]);
  });
});

describe("D11: another disk in the place of one", () => {
  it("a copy of a running disk has what was synced, and of the rest what chance leaves", () => {
    const seen = new Set<string | undefined>();
    for (let seed = 0; seed < 30; seed++) {
      const disk = new SimDisk(new SimWorld({ seed, host }), "d", OPTIONS);
      write(disk.image, "a", "synced", true);
      write(disk.image, "b", "not", false);
      const copy = disk.copy();
      expect(text(copy, "a")).toBe("synced");
      seen.add(text(copy, "b"));
      expect(text(disk.image, "b")).toBe("not");
    }
    expect(seen.has("not")).toBe(true);
    expect(seen.has(undefined)).toBe(true);
  });

  it("a process on the disk that was put in finds that one's files", async () => {
    const world = new SimWorld({ seed: 1, host });
    const disk = new SimDisk(world, "d", OPTIONS);
    write(disk.image, "a", "old", true);
    const old = disk.copy();
    write(disk.image, "a", "new", true);
    disk.replace(old);
    const files = disk.files(world.startIncarnation("d"));
    const handle = await world.settle(files.open("a", "read"));
    const target = new Uint8Array(3);
    await world.settle(handle.read(0, target));
    expect(utf8Decode(target)).toBe("old");
    disk.replace(new DiskImage());
    await expect(world.settle(disk.files(world.startIncarnation("d")).open("a", "read"))).rejects.toMatchObject({
      kind: "not-found",
    });
  });

  it("nobody holds a lock on it", async () => {
    const world = new SimWorld({ seed: 1, host });
    const disk = new SimDisk(world, "d", OPTIONS);
    disk.image.makeDirectory("data");
    const first = disk.files(world.startIncarnation("d"));
    expect((await world.settle(first.lockDirectory("data"))).kind).toBe("acquired");
    const other = disk.files(world.startIncarnation("d"));
    expect((await world.settle(other.lockDirectory("data"))).kind).toBe("held");
    disk.replace(disk.copy());
    disk.image.makeDirectory("data");
    expect((await world.settle(other.lockDirectory("data"))).kind).toBe("acquired");
  });
});
