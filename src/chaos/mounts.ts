// Small file systems for data directories: a tmpfs, or ext4 on a loop image.
import type { NodeMount } from "./cluster-types.ts";

/** Mounts at `directory`, which must be there and empty; the returned function unmounts and removes the image. */
export async function mountFor(directory: string, mount: NodeMount): Promise<() => Promise<void>> {
  return Promise.reject(new Error(`no ${mount.kind} for ${directory} yet`));
}
