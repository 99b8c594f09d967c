// The disk. No append mode and no implicit order: each write names its position, and only `datasync` and `syncDir` make
// anything durable. A file's creation, rename and removal are durable once its directory was synced.

export type FileErrorKind =
  | "not-found"
  | "exists"
  | "no-space"
  | "io"
  | "read-only"
  | "denied"
  | "too-many-open"
  | "not-empty"
  | "other";

/** Every rejection of this port. */
export class FileError extends Error {
  override readonly name = "FileError";
  readonly kind: FileErrorKind;
  readonly operation: string;
  readonly path: string;

  constructor(kind: FileErrorKind, operation: string, path: string, cause?: unknown) {
    super(`${operation} ${path}: ${kind}`, cause === undefined ? undefined : { cause });
    this.kind = kind;
    this.operation = operation;
    this.path = path;
  }
}

/** `read`: must exist. `write`: must exist, readable and writable. `create`: must not exist yet. `open-or-create`: either. */
export type OpenMode = "read" | "write" | "create" | "open-or-create";

export interface FileHandle {
  readonly path: string;
  /** Fills `target` from `position`; resolves to the bytes read, fewer only at the end of the file. */
  read(position: number, target: Uint8Array): Promise<number>;
  /**
   * Writes all chunks one after another from `position`, or rejects; after a rejection any part may have been written.
   * Chunks must not be changed until it settles. Bytes between the old end and `position` read as zeros.
   */
  write(position: number, chunks: readonly Uint8Array[]): Promise<void>;
  /** Makes what was written before this call durable. A rejection is final for the file: never retry (D-13). */
  datasync(): Promise<void>;
  truncate(sizeBytes: number): Promise<void>;
  size(): Promise<number>;
  close(): Promise<void>;
}

export interface DirectoryEntry {
  readonly name: string;
  readonly kind: "file" | "directory" | "other";
}

export type LockOutcome =
  | { readonly kind: "acquired"; release(): Promise<void> }
  /** `ownerPid` is 0 where it cannot be told. */
  | { readonly kind: "held"; readonly ownerPid: number };

/** Paths use "/" and are absolute or relative to the process; the simulator treats them as opaque names. */
export interface Files {
  open(path: string, mode: OpenMode): Promise<FileHandle>;
  rename(from: string, to: string): Promise<void>;
  unlink(path: string): Promise<void>;
  /** Creates the directory and its missing parents; no error when it exists. */
  makeDirectory(path: string): Promise<void>;
  /** Removes an empty directory. */
  removeDirectory(path: string): Promise<void>;
  /** Sorted by name; rejects with `not-found`. */
  list(path: string): Promise<readonly DirectoryEntry[]>;
  syncDirectory(path: string): Promise<void>;
  freeBytes(path: string): Promise<number>;
  /** An exclusive lock on a directory, held by this process until released or dead. A dead owner's lock is taken over. */
  lockDirectory(path: string): Promise<LockOutcome>;
}
