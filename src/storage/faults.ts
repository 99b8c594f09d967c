// What a failure of the disk becomes for the rest of the broker (D-13, D-18).
import { OttlaError } from "../model/errors.ts";
import { FileError, type FileHandle, type Files } from "../ports/files.ts";
import type { Timers } from "../ports/timers.ts";

export const isNoSpace = (thrown: unknown): boolean => thrown instanceof FileError && thrown.kind === "no-space";
/** Troubles that pass: what met them may be tried again later. Never true of a sync. */
export const isPassing = (thrown: unknown): boolean =>
  thrown instanceof FileError && (thrown.kind === "no-space" || thrown.kind === "too-many-open");
export const isNotFound = (thrown: unknown): boolean => thrown instanceof FileError && thrown.kind === "not-found";
/** Of a directory that was to be synced: it could not be opened for that, so nothing of it was lost (S-57). */
export const isNotOpened = (thrown: unknown): boolean =>
  isNotFound(thrown) || (thrown instanceof FileError && thrown.kind === "too-many-open");

/** A file did not give what it must hold, or gave what cannot be right: damage of its log, not the end of the disk (D8). */
export const isUnreadable = (thrown: unknown): boolean =>
  isNotFound(thrown) ||
  (thrown instanceof FileError && thrown.kind === "io" && thrown.operation === "read") ||
  (thrown instanceof OttlaError && thrown.code === "STORAGE_ERROR");

const describe = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown));

/** What `diskFailed` made: nobody uses the disk any more. */
export const isDiskFailure = (thrown: unknown): boolean =>
  thrown instanceof OttlaError && thrown.code === "DISK_FAILED";

/** What a store that is being closed gives up for want of room: nothing of the disk has failed. */
export const isStorageFull = (thrown: unknown): boolean =>
  thrown instanceof OttlaError && thrown.code === "STORAGE_FULL";

/** A failed write or sync: the process must stop. */
export function diskFailed(thrown: unknown): OttlaError {
  if (thrown instanceof OttlaError && isDiskFailure(thrown)) return thrown;
  return new OttlaError("DISK_FAILED", `the disk failed: ${describe(thrown)}`, { cause: thrown });
}

export const storageError = (message: string, cause?: unknown): OttlaError =>
  new OttlaError("STORAGE_ERROR", message, cause === undefined ? {} : { cause });

export const storageFull = (thrown: unknown): OttlaError =>
  new OttlaError("STORAGE_FULL", `no space left: ${describe(thrown)}`, { cause: thrown });

/** Starts every DISK_FAILED message of a failure while the directory was being opened; the CLI tells exit code 31 by it. */
export const RECOVERY_FAILURE_PREFIX = "during recovery: ";

/** A failure while opening the directory. OttlaErrors pass unchanged, apart from DISK_FAILED. */
export function openingFailure(thrown: unknown, directory: string): unknown {
  if (thrown instanceof OttlaError) {
    return isDiskFailure(thrown)
      ? new OttlaError("DISK_FAILED", RECOVERY_FAILURE_PREFIX + thrown.message, { cause: thrown })
      : thrown;
  }
  if (!(thrown instanceof FileError)) return thrown;
  // The path leads through a file, or to one, or to where nothing can be made.
  const isNoDirectory =
    ["not-found", "exists"].includes(thrown.kind) && ["makeDirectory", "lockDirectory"].includes(thrown.operation);
  if (thrown.kind === "read-only" || thrown.kind === "denied" || isNoDirectory) {
    return new OttlaError("DATA_DIR_READ_ONLY", `${directory} cannot be written: ${thrown.message}`, { cause: thrown });
  }
  if (thrown.kind === "too-many-open")
    return new OttlaError("STORAGE_ERROR", `${directory}: too many open files: ${thrown.message}`, { cause: thrown });
  if (thrown.kind === "no-space")
    return new OttlaError("STORAGE_FULL", `${directory}: no space left to open it: ${thrown.message}`, {
      cause: thrown,
    });
  return new OttlaError("DISK_FAILED", RECOVERY_FAILURE_PREFIX + thrown.message, { cause: thrown });
}

/** Syncs a file; any failure of it, a full disk included, is the disk's (D-18). */
export async function datasync(handle: FileHandle): Promise<void> {
  try {
    await handle.datasync();
  } catch (thrown) {
    throw diskFailed(thrown);
  }
}

/** Any failure of it is the disk's, unless the directory could not be opened. */
export async function syncDirectory(files: Files, path: string): Promise<void> {
  try {
    await files.syncDirectory(path);
  } catch (thrown) {
    throw isNotOpened(thrown) ? thrown : diskFailed(thrown);
  }
}

/** What passes is tried again after this. */
export const RETRY_AFTER_MS = 1000;

export interface RetryDeps {
  readonly timers: Timers;
  /** False: nothing is tried again. */
  isRunning(): boolean;
}

/** Tries again what meets something passing. Undefined: it was still in the way when nothing ran any more; the next start does the rest. */
export async function untilItPasses<T>(work: () => Promise<T>, deps: RetryDeps): Promise<T | undefined> {
  for (;;) {
    try {
      return await work();
    } catch (thrown) {
      if (!isPassing(thrown)) throw thrown;
    }
    if (deps.isRunning()) await new Promise<void>((resolve) => deps.timers.after(RETRY_AFTER_MS, resolve));
    if (!deps.isRunning()) return undefined;
  }
}

/**
 * Runs `work` over the items, at most `limit` at once. Rejects with the first failure: at once with one that is the end of the disk, since
 * the process has to stop within 100 ms (invariant 42); after the running ones ended with one that passes, since it is tried again.
 */
export function runLimited<T>(items: Iterable<T>, limit: number, work: (item: T) => Promise<void>): Promise<void> {
  const iterator = items[Symbol.iterator]();
  const failures: unknown[] = [];
  return new Promise((resolve, reject) => {
    const lane = async (): Promise<void> => {
      for (let next = iterator.next(); next.done !== true && failures.length === 0; next = iterator.next()) {
        try {
          await work(next.value);
        } catch (thrown) {
          failures.push(thrown);
          if (!isPassing(thrown)) reject(thrown as Error);
        }
      }
    };
    void Promise.all(Array.from({ length: limit }, lane)).then(() => {
      if (failures.length > 0) reject(failures[0] as Error);
      else resolve();
    });
  });
}
