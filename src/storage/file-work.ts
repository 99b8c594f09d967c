// Small jobs on whole files.
import type { DirectoryEntry, FileHandle, Files, OpenMode } from "../ports/files.ts";
import { isDiskFailure, isNotFound } from "./faults.ts";

/** Opens, works, closes. A failure of the disk is told at once: the process has to stop within 100 ms (invariant 42), and a close may take longer. */
export async function withFile<T>(
  files: Files,
  file: { readonly path: string; readonly mode: OpenMode },
  work: (handle: FileHandle) => Promise<T>,
): Promise<T> {
  const handle = await files.open(file.path, file.mode);
  let result: T;
  try {
    result = await work(handle);
  } catch (thrown) {
    const closed = handle.close();
    if (isDiskFailure(thrown)) closed.catch(() => undefined);
    else await closed;
    throw thrown;
  }
  await handle.close();
  return result;
}

/** A file that stays open, unless `work` fails: then nobody would close it. */
export async function orClose<T>(handle: FileHandle, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    await handle.close().catch(() => undefined);
    throw thrown;
  }
}

export async function readWhole(handle: FileHandle): Promise<Uint8Array> {
  const bytes = new Uint8Array(await handle.size());
  const length = await handle.read(0, bytes);
  return bytes.subarray(0, length);
}

/** Gives its room back; resolves to the bytes it held. Rejects with what opening and cutting do: "not-found" where there is none. */
export function emptyFile(files: Files, path: string): Promise<number> {
  return withFile(files, { path, mode: "write" }, async (handle) => {
    const sizeBytes = await handle.size();
    if (sizeBytes > 0) await handle.truncate(0);
    return sizeBytes;
  });
}

export async function unlinkIfThere(files: Files, path: string): Promise<void> {
  try {
    await files.unlink(path);
  } catch (thrown) {
    if (!isNotFound(thrown)) throw thrown;
  }
}

/** What a checkpoint meant to write is left to the next one when it fails: `mark` says so. */
export async function orMark(work: Promise<void>, mark: () => void): Promise<void> {
  try {
    await work;
  } catch (thrown) {
    mark();
    throw thrown;
  }
}

/** Of a directory that may not be there. */
export async function listOrEmpty(files: Files, directory: string): Promise<readonly DirectoryEntry[]> {
  try {
    return await files.list(directory);
  } catch (thrown) {
    if (isNotFound(thrown)) return [];
    throw thrown;
  }
}
