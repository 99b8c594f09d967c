// The disk: ports/Files over node:fs. File descriptors are raw, each callback is wrapped once, short reads and writes are looped.
import * as fs from "node:fs";
import * as path from "node:path";
import {
  type DirectoryEntry,
  FileError,
  type FileErrorKind,
  type FileHandle,
  type Files,
  type LockOutcome,
  type OpenMode,
} from "../ports/files.ts";
import { monoMs } from "./host-time.ts";
import { lockDirectory } from "./lock.ts";

/** Chunks of one vectored write: Linux takes no more (IOV_MAX). */
const CHUNKS_PER_WRITE = 1024;
/** A write up to this is done synchronously: the page cache takes it faster than the thread pool hands it over. Larger ones are better off there. */
const SYNC_WRITE_BYTES = 16 * 1024;
/** A synchronous write that took longer stalled the event loop (dirty throttling): write asynchronously for a while. */
const SLOW_SYNC_WRITE_MS = 5;
const ASYNC_PERIOD_MS = 1000;

const OPEN_FLAGS: Readonly<Record<OpenMode, number>> = {
  read: fs.constants.O_RDONLY,
  write: fs.constants.O_RDWR,
  create: fs.constants.O_RDWR | fs.constants.O_CREAT | fs.constants.O_EXCL,
  "open-or-create": fs.constants.O_RDWR | fs.constants.O_CREAT,
};

const KIND_OF_CODE: Readonly<Record<string, FileErrorKind>> = {
  ENOENT: "not-found",
  ENOTDIR: "not-found",
  EEXIST: "exists",
  ENOSPC: "no-space",
  EDQUOT: "no-space",
  EIO: "io",
  EROFS: "read-only",
  EACCES: "denied",
  EPERM: "denied",
  EMFILE: "too-many-open",
  ENFILE: "too-many-open",
  ENOTEMPTY: "not-empty",
};

interface Subject {
  readonly operation: string;
  readonly path: string;
}

function fileError(thrown: unknown, subject: Subject): FileError {
  const code = (thrown as NodeJS.ErrnoException | null)?.code ?? "";
  return new FileError(KIND_OF_CODE[code] ?? "other", subject.operation, subject.path, thrown);
}

/** One node:fs call with a callback as a promise whose rejection is a FileError. */
function call<T>(subject: Subject, start: (done: (error: Error | null, value?: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    start((error, value) => {
      if (error === null) resolve(value as T);
      else reject(fileError(error, subject));
    });
  });
}

/** Decides between synchronous and asynchronous writes; one for each set of files. */
class WriteMode {
  #asyncUntilMs = 0;

  get isSync(): boolean {
    return monoMs() >= this.#asyncUntilMs;
  }

  observe(startMs: number): void {
    const endMs = monoMs();
    if (endMs - startMs > SLOW_SYNC_WRITE_MS) this.#asyncUntilMs = endMs + ASYNC_PERIOD_MS;
  }
}

/** What is left of the chunks after the first `written` bytes. */
function rest(chunks: readonly Uint8Array[], written: number): Uint8Array[] {
  let skip = written;
  let index = 0;
  while (index < chunks.length && skip >= (chunks[index] as Uint8Array).length)
    skip -= (chunks[index++] as Uint8Array).length;
  const left = chunks.slice(index);
  if (skip > 0 && left[0] !== undefined) left[0] = left[0].subarray(skip);
  return left;
}

class NodeFileHandle implements FileHandle {
  readonly path: string;
  readonly #fd: number;
  readonly #writeMode: WriteMode;
  #isClosed = false;

  constructor(filePath: string, fd: number, writeMode: WriteMode) {
    this.path = filePath;
    this.#fd = fd;
    this.#writeMode = writeMode;
  }

  async read(position: number, target: Uint8Array): Promise<number> {
    const fd = this.#openFd("read");
    let total = 0;
    while (total < target.length) {
      const at = total;
      const count = await call<number>({ operation: "read", path: this.path }, (done) =>
        fs.read(fd, target, at, target.length - at, position + at, done),
      );
      if (count === 0) break;
      total += count;
    }
    return total;
  }

  async write(position: number, chunks: readonly Uint8Array[]): Promise<void> {
    let at = position;
    for (let first = 0; first < chunks.length; first += CHUNKS_PER_WRITE) {
      at = await this.#writeGroup(
        at,
        chunks.length <= CHUNKS_PER_WRITE ? chunks : chunks.slice(first, first + CHUNKS_PER_WRITE),
      );
    }
  }

  /** Returns the position after the group. */
  async #writeGroup(position: number, group: readonly Uint8Array[]): Promise<number> {
    let total = 0;
    for (const chunk of group) total += chunk.length;
    let written = 0;
    while (written < total) {
      const left = written === 0 ? group : rest(group, written);
      const count = await this.#writeOnce(position + written, left, total - written);
      if (count === 0) throw new FileError("io", "write", this.path, new Error("the file took no byte"));
      written += count;
    }
    return position + total;
  }

  #writeOnce(position: number, chunks: readonly Uint8Array[], sizeBytes: number): number | Promise<number> {
    const fd = this.#openFd("write");
    const subject = { operation: "write", path: this.path };
    if (sizeBytes > SYNC_WRITE_BYTES || !this.#writeMode.isSync) {
      return call<number>(subject, (done) => fs.writev(fd, chunks, position, done));
    }
    const startMs = monoMs();
    try {
      return fs.writevSync(fd, chunks, position);
    } catch (thrown) {
      throw fileError(thrown, subject);
    } finally {
      this.#writeMode.observe(startMs);
    }
  }

  async datasync(): Promise<void> {
    const fd = this.#openFd("datasync");
    await call({ operation: "datasync", path: this.path }, (done) => fs.fdatasync(fd, done));
  }

  async truncate(sizeBytes: number): Promise<void> {
    const fd = this.#openFd("truncate");
    await call({ operation: "truncate", path: this.path }, (done) => fs.ftruncate(fd, sizeBytes, done));
  }

  async size(): Promise<number> {
    const fd = this.#openFd("size");
    const stats = await call<fs.Stats>({ operation: "size", path: this.path }, (done) => fs.fstat(fd, done));
    return stats.size;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await call({ operation: "close", path: this.path }, (done) => fs.close(this.#fd, done));
  }

  /** A closed descriptor's number may already be another file's: it must never be used again. */
  #openFd(operation: string): number {
    if (this.#isClosed) throw new FileError("other", operation, this.path, new Error("the file is closed"));
    return this.#fd;
  }
}

function entryKind(entry: fs.Dirent): DirectoryEntry["kind"] {
  if (entry.isFile()) return "file";
  return entry.isDirectory() ? "directory" : "other";
}

async function syncAndClose(fd: number, subject: Subject): Promise<void> {
  try {
    await call(subject, (done) => fs.fsync(fd, done));
  } finally {
    await call(subject, (done) => fs.close(fd, done));
  }
}

/**
 * A descriptor that is given up to sync a directory by when there is no other: a sync that fails ends the use of the disk (D-13), and want of
 * descriptors passes (D12). One directory after another; synchronous where it changes hands, so that no connection is accepted by it meanwhile.
 */
class SpareDescriptor {
  #fd: number | undefined;
  #last: Promise<void> = Promise.resolve();

  hold(): void {
    try {
      this.#fd ??= fs.openSync("/dev/null", fs.constants.O_RDONLY);
    } catch {
      // There is none to spare; the next sync of a directory tries again.
    }
  }

  syncDirectory(subject: Subject): Promise<void> {
    const synced = this.#last.then(() => this.#sync(subject));
    this.#last = synced.catch(() => undefined);
    return synced;
  }

  async #sync(subject: Subject): Promise<void> {
    const fd = this.#exchange(subject);
    try {
      await call(subject, (done) => fs.fsync(fd, done));
    } finally {
      fs.closeSync(fd);
      this.hold();
    }
  }

  #exchange(subject: Subject): number {
    if (this.#fd !== undefined) fs.closeSync(this.#fd);
    this.#fd = undefined;
    try {
      return fs.openSync(subject.path, fs.constants.O_RDONLY);
    } catch (thrown) {
      this.hold();
      throw fileError(thrown, subject);
    }
  }
}

/** Of the process, as the limit is. */
const spare = new SpareDescriptor();

class NodeFiles implements Files {
  readonly #writeMode = new WriteMode();

  async open(filePath: string, mode: OpenMode): Promise<FileHandle> {
    const fd = await call<number>({ operation: "open", path: filePath }, (done) =>
      fs.open(filePath, OPEN_FLAGS[mode], 0o644, done),
    );
    return new NodeFileHandle(filePath, fd, this.#writeMode);
  }

  async rename(from: string, to: string): Promise<void> {
    await call({ operation: "rename", path: from }, (done) => fs.rename(from, to, done));
  }

  async unlink(filePath: string): Promise<void> {
    await call({ operation: "unlink", path: filePath }, (done) => fs.unlink(filePath, done));
  }

  async makeDirectory(directory: string): Promise<void> {
    // Step by step: Node's own recursive mkdir says "no such file" on a read-only file system, and never ends in /proc.
    const missing: string[] = [];
    for (let at = path.resolve(directory); !fs.existsSync(at); at = path.dirname(at)) missing.push(at);
    for (const step of missing.reverse()) {
      await call({ operation: "makeDirectory", path: step }, (done) =>
        fs.mkdir(step, (error) => done(error?.code === "EEXIST" ? null : error)),
      );
    }
  }

  async removeDirectory(directory: string): Promise<void> {
    await call({ operation: "removeDirectory", path: directory }, (done) => fs.rmdir(directory, done));
  }

  async list(directory: string): Promise<readonly DirectoryEntry[]> {
    const found = await call<fs.Dirent[]>({ operation: "list", path: directory }, (done) =>
      fs.readdir(directory, { withFileTypes: true }, done),
    );
    return found
      .map((entry) => ({ name: entry.name, kind: entryKind(entry) }))
      .sort((left, right) => (left.name < right.name ? -1 : 1));
  }

  async syncDirectory(directory: string): Promise<void> {
    const subject = { operation: "syncDirectory", path: directory };
    let fd: number;
    try {
      fd = await call<number>(subject, (done) => fs.open(directory, fs.constants.O_RDONLY, done));
    } catch (thrown) {
      if (!(thrown instanceof FileError) || thrown.kind !== "too-many-open") throw thrown;
      return spare.syncDirectory(subject);
    }
    await syncAndClose(fd, subject);
    spare.hold();
  }

  async freeBytes(anyPath: string): Promise<number> {
    const stats = await call<fs.StatsFs>({ operation: "freeBytes", path: anyPath }, (done) => fs.statfs(anyPath, done));
    return stats.bavail * stats.bsize;
  }

  async lockDirectory(directory: string): Promise<LockOutcome> {
    try {
      return await lockDirectory(path.resolve(directory));
    } catch (thrown) {
      throw fileError(thrown, { operation: "lockDirectory", path: directory });
    }
  }
}

export function createFiles(): Files {
  return new NodeFiles();
}
