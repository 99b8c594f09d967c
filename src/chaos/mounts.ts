// Small file systems for data directories: a tmpfs, or ext4 on a loop image beside the directory. Needs the right to mount: root, or
// the root of a user namespace (`unshare -rm`), where tmpfs works and loop images do not.
import { execFile } from "node:child_process";
import { closeSync, existsSync, ftruncateSync, openSync, rmdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import type { NodeMount } from "./cluster-types.ts";

const RUN_MS = 30_000;
const UNMOUNT_TRIES = 20;
const UNMOUNT_AGAIN_MS = 100;

/** Mounts at `directory`, which must be there and empty; the returned function unmounts and removes the image. */
export async function mountFor(directory: string, mount: NodeMount): Promise<() => Promise<void>> {
  switch (mount.kind) {
    case "tmpfs":
      await run("mount", ["-t", "tmpfs", "-o", `size=${mount.sizeBytes},mode=755`, "tmpfs", directory]);
      return () => unmount(directory);
    case "loop":
      return mountLoop(directory, mount.sizeBytes);
  }
}

async function mountLoop(directory: string, sizeBytes: number): Promise<() => Promise<void>> {
  const image = `${directory}.ext4`;
  const remove = () => rmSync(image, { force: true });
  const fd = openSync(image, "wx");
  ftruncateSync(fd, sizeBytes);
  closeSync(fd);
  try {
    // No blocks kept for root: full is full for every process.
    await run("mkfs.ext4", ["-q", "-F", "-m", "0", image]);
    await run("mount", ["-o", "loop", image, directory]);
  } catch (error) {
    remove();
    throw error;
  }
  const lostAndFound = join(directory, "lost+found");
  if (existsSync(lostAndFound)) rmdirSync(lostAndFound);
  return async () => {
    await unmount(directory);
    remove();
  };
}

/** A process that has just ended may still hold it for a moment; after that it is taken out of the tree and goes when it is free. */
async function unmount(directory: string): Promise<void> {
  for (let tries = 0; tries < UNMOUNT_TRIES; tries++) {
    const error = await run("umount", [directory]).then(
      () => undefined,
      (thrown: unknown) => String(thrown),
    );
    if (error === undefined) return;
    if (!/busy/.test(error)) throw new Error(error);
    await sleep(UNMOUNT_AGAIN_MS);
  }
  await run("umount", ["-l", directory]);
}

/** Rejects with what the command said. */
async function run(command: string, flags: readonly string[]): Promise<void> {
  try {
    await promisify(execFile)(command, [...flags], { timeout: RUN_MS });
  } catch (error) {
    const { stderr = "", message } = error as Error & { stderr?: string };
    throw new Error(`${command}: ${stderr.trim() || message}`);
  }
}
