// Files whose failed writes and syncs are told where they happen: the process has to stop within 100 ms (D-13, invariant 42), whatever the one who
// asked does about it, how long it takes to tidy up, and whether the log that it was for is still wanted.
import { mutant } from "../base/mutant.ts";
import { isNotOpened } from "./faults.ts";
import {
  type DirectoryEntry,
  FileError,
  type FileHandle,
  type Files,
  type LockOutcome,
  type OpenMode,
} from "../ports/files.ts";

export type OnFailed = (thrown: unknown) => void;

/** Any failure of it. */
const isOfSync = (): boolean => !mutant("M20");
const isOfDirectorySync = (thrown: unknown): boolean => isOfSync() && (!isNotOpened(thrown) || mutant("S-57d"));
/** Only what a device says: a full disk, unlike one that a sync reports, may be tried again (D-18). */
const isOfDevice = (thrown: unknown): boolean => thrown instanceof FileError && thrown.kind === "io";

async function told(work: Promise<void>, isFinal: (thrown: unknown) => boolean, onFailed: OnFailed): Promise<void> {
  try {
    await work;
  } catch (thrown) {
    if (isFinal(thrown)) onFailed(thrown);
    throw thrown;
  }
}

export class FailStopFiles implements Files {
  readonly #files: Files;
  readonly #onFailed: OnFailed;

  constructor(files: Files, onFailed: OnFailed) {
    this.#files = files;
    this.#onFailed = onFailed;
  }

  async open(path: string, mode: OpenMode): Promise<FileHandle> {
    return new FailStopHandle(await this.#files.open(path, mode), this.#onFailed);
  }

  syncDirectory(path: string): Promise<void> {
    return told(this.#files.syncDirectory(path), isOfDirectorySync, this.#onFailed);
  }

  rename(from: string, to: string): Promise<void> {
    return this.#files.rename(from, to);
  }

  unlink(path: string): Promise<void> {
    return this.#files.unlink(path);
  }

  makeDirectory(path: string): Promise<void> {
    return this.#files.makeDirectory(path);
  }

  removeDirectory(path: string): Promise<void> {
    return this.#files.removeDirectory(path);
  }

  list(path: string): Promise<readonly DirectoryEntry[]> {
    return this.#files.list(path);
  }

  freeBytes(path: string): Promise<number> {
    return this.#files.freeBytes(path);
  }

  lockDirectory(path: string): Promise<LockOutcome> {
    return this.#files.lockDirectory(path);
  }
}

class FailStopHandle implements FileHandle {
  readonly #handle: FileHandle;
  readonly #onFailed: OnFailed;

  constructor(handle: FileHandle, onFailed: OnFailed) {
    this.#handle = handle;
    this.#onFailed = onFailed;
  }

  get path(): string {
    return this.#handle.path;
  }

  datasync(): Promise<void> {
    return told(this.#handle.datasync(), isOfSync, this.#onFailed);
  }

  read(position: number, target: Uint8Array): Promise<number> {
    return this.#handle.read(position, target);
  }

  write(position: number, chunks: readonly Uint8Array[]): Promise<void> {
    return told(this.#handle.write(position, chunks), isOfDevice, this.#onFailed);
  }

  truncate(sizeBytes: number): Promise<void> {
    return told(this.#handle.truncate(sizeBytes), isOfDevice, this.#onFailed);
  }

  size(): Promise<number> {
    return this.#handle.size();
  }

  close(): Promise<void> {
    return this.#handle.close();
  }
}
