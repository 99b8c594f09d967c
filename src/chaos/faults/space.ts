// Full disks: a small file system really filled with a ballast file and freed again, or growth refused by the shim with ENOSPC while
// the broker still sees space (as with a quota).
import { closeSync, openSync, rmSync, statfsSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { ChaosNode } from "../cluster-types.ts";
import { allOf, listed, targetsOf } from "./parts.ts";
import { risesOf, SHIM_NEEDS, shimOf } from "./shim-parts.ts";
import type { FaultKind } from "./types.ts";

const KiB = 1024;
const MiB = 1024 * KiB;
const BALLAST = "ballast";
const CHUNK = Buffer.alloc(256 * KiB);
/** What the shim lets files grow by before it says that the disk is full. */
const LEFT_MAX_BYTES = 64 * KiB;

/** So that a node fits on a small file system, and is full only when the ballast has come. */
const SMALL = {
  "disk.low.space.bytes": 8 * MiB,
  "disk.reserve.bytes": MiB,
  "journal.bytes": 16 * MiB,
  "segment.bytes": 8 * MiB,
};
const MOUNT_BYTES = 160 * MiB;

const QUOTA: FaultKind = {
  name: "disk-full",
  says: "files can grow no more (ENOSPC), while the disk looks as if it had room",
  needs: SHIM_NEEDS,
  cluster: { shim: true },
  tolerates: "writes",
  inject: (cluster, target, rng) => {
    const struck = targetsOf(cluster, target).map((node) => {
      const shim = shimOf(node);
      const rises = risesOf(shim, "writesRefused");
      shim.set({ spaceLeftBytes: rng.below(LEFT_MAX_BYTES) });
      return { node, shim, rises };
    });
    return Promise.resolve({
      description: `${listed(target)}: no space`,
      observed: () =>
        Promise.resolve(
          allOf(
            struck.map(({ node, rises }) =>
              rises() === 0 ? undefined : `node ${node.nodeId}: ${rises()} writes refused with ENOSPC`,
            ),
          ),
        ),
      heal: () => {
        for (const { shim } of struck) shim.clear();
        return Promise.resolve();
      },
    });
  },
};

/** Fills the file system up to the last block; returns the bytes written. */
function fill(path: string): number {
  const fd = openSync(path, "w");
  let total = 0;
  try {
    // At the end in small pieces: a write that does not fit may take nothing at all.
    for (let sizeBytes = CHUNK.length; sizeBytes >= 512; sizeBytes /= 2) total += fillBy(fd, sizeBytes);
  } finally {
    closeSync(fd);
  }
  return total;
}

function fillBy(fd: number, sizeBytes: number): number {
  let total = 0;
  for (;;) {
    try {
      total += writeSync(fd, CHUNK, 0, sizeBytes);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOSPC") return total;
      throw error;
    }
  }
}

/** Fills the file system of a directory up to the last block; the returned function gives the space back. */
export function fillDisk(directory: string): () => void {
  const path = join(directory, BALLAST);
  fill(path);
  return () => rmSync(path, { force: true });
}

interface Ballast {
  readonly node: ChaosNode;
  readonly path: string;
  readonly evidence: string | undefined;
}

function load(node: ChaosNode): Ballast {
  // Not a name of the broker's own: it leaves it alone.
  const path = join(node.dataDir, BALLAST);
  const bytes = fill(path);
  const { bavail, bsize } = statfsSync(node.dataDir);
  const isFull = bavail * bsize < MiB;
  const told = `node ${node.nodeId}: ${Math.round(bytes / MiB)} MiB of ballast, ${bavail * bsize} bytes free`;
  return { node, path, evidence: isFull ? told : undefined };
}

function fullMount(name: string, kind: "tmpfs" | "loop", says: string): FaultKind {
  return {
    name,
    says,
    needs: [kind === "tmpfs" ? "tmpfs" : "loop file system"],
    cluster: { mounts: kind, mountBytes: MOUNT_BYTES, settings: SMALL },
    tolerates: "writes",
    inject: (cluster, target) => {
      const ballast = targetsOf(cluster, target).map(load);
      return Promise.resolve({
        description: `${listed(target)}: ${says}`,
        observed: () => Promise.resolve(allOf(ballast.map(({ evidence }) => evidence))),
        heal: () => {
          for (const { path } of ballast) rmSync(path, { force: true });
          return Promise.resolve();
        },
      });
    },
  };
}

export const SPACE_KINDS: readonly FaultKind[] = [
  QUOTA,
  fullMount("full-tmpfs", "tmpfs", "a small tmpfs filled to the last block"),
  fullMount("full-ext4", "loop", "a small ext4 on an image filled to the last block"),
];
