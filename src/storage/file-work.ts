// Small jobs on whole files.
import type { FileHandle, Files, OpenMode } from "../ports/files.ts";
import { isNotFound } from "./faults.ts";

/** Opens, works, closes. */
export async function withFile<T>(
  files: Files,
  file: { readonly path: string; readonly mode: OpenMode },
  work: (handle: FileHandle) => Promise<T>,
): Promise<T> {
  const handle = await files.open(file.path, file.mode);
  try {
    return await work(handle);
  } finally {
    await handle.close();
  }
}

export async function readWhole(handle: FileHandle): Promise<Uint8Array> {
  const bytes = new Uint8Array(await handle.size());
  const length = await handle.read(0, bytes);
  return bytes.subarray(0, length);
}

export async function unlinkIfThere(files: Files, path: string): Promise<void> {
  try {
    await files.unlink(path);
  } catch (thrown) {
    if (!isNotFound(thrown)) throw thrown;
  }
}
