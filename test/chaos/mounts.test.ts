// Small file systems: they are as small as asked for, really get full, have room again, and leave nothing behind.
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { mountFor } from "../../src/chaos/mounts.ts";
import type { NodeMount } from "../../src/chaos/cluster-types.ts";

const MiB = 1024 * 1024;
const SIZE_BYTES = 24 * MiB;

function newDirectory(): string {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), "ottla-mounts-")));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const at = join(directory, "data");
  mkdirSync(at);
  return at;
}

const isMounted = (at: string) => readFileSync("/proc/self/mounts", "utf8").includes(` ${at} `);

/** Why such a file system cannot be had here. */
async function missing(kind: NodeMount["kind"]): Promise<string | undefined> {
  if (process.platform !== "linux") return `no mounts on ${process.platform}`;
  const directory = mkdtempSync(join(tmpdir(), "ottla-mounts-probe-"));
  try {
    const at = join(directory, "data");
    mkdirSync(at);
    await (await mountFor(at, { kind, sizeBytes: SIZE_BYTES }))();
    return undefined;
  } catch (error) {
    return String(error);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

for (const kind of ["tmpfs", "loop"] as const) {
  const reason = await missing(kind);
  if (reason !== undefined) console.warn(`NOT RUN: small file systems (${kind}): ${reason}`);

  describe.runIf(reason === undefined)(`a small file system (${kind})`, () => {
    test("is empty, gets full, has room again, and is gone with its image", async () => {
      const at = newDirectory();
      const unmount = await mountFor(at, { kind, sizeBytes: SIZE_BYTES });
      try {
        expect(isMounted(at)).toBe(true);
        expect(readdirSync(at)).toEqual([]);
        const { bavail, bsize } = statfsSync(at);
        expect(bavail * bsize).toBeLessThanOrEqual(SIZE_BYTES);
        expect(bavail * bsize).toBeGreaterThan(SIZE_BYTES / 2);
        const tooMuch = () => writeFileSync(join(at, "ballast"), Buffer.alloc(SIZE_BYTES + MiB, 1));
        expect(tooMuch).toThrow(/ENOSPC/);
        rmSync(join(at, "ballast"));
        writeFileSync(join(at, "again"), Buffer.alloc(MiB));
      } finally {
        await unmount();
      }
      expect(isMounted(at)).toBe(false);
      expect(readdirSync(join(at, ".."))).toEqual(["data"]);
    });
  });
}

test("what cannot be mounted says why, and leaves nothing behind", async () => {
  const at = newDirectory();
  await expect(mountFor(join(at, "absent"), { kind: "tmpfs", sizeBytes: MiB })).rejects.toThrow(/mount: /);
  await expect(mountFor(join(at, "absent"), { kind: "loop", sizeBytes: 8 * MiB })).rejects.toThrow(/: /);
  expect(readdirSync(at)).toEqual([]);
});
