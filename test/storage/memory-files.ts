// Files over a DiskImage without time: every operation takes one turn of the microtask queue. A hook sees each operation before it
// happens and may refuse it; a killed instance leaves all its operations unanswered.
import { concatBytes } from "../../src/base/bytes.ts";
import {
  type DirectoryEntry,
  FileError,
  type FileHandle,
  type Files,
  type LockOutcome,
  type OpenMode,
} from "../../src/ports/files.ts";
import { DiskImage, type FileNode } from "../../src/sim/disk-image.ts";

export interface Operation {
  readonly kind: string;
  readonly path: string;
  /** Counted from 1. */
  readonly number: number;
}

export class MemoryFiles implements Files {
  readonly image: DiskImage;
  /** Sees every operation before it happens; what it throws is the operation's outcome. */
  onOperation: (operation: Operation) => void = () => undefined;
  /** Microtasks that the next operation takes. */
  delayTurns: () => number = () => 1;
  capacityBytes = Number.POSITIVE_INFINITY;
  operations = 0;
  #isKilled = false;
  #isLocked = false;

  constructor(image = new DiskImage()) {
    this.image = image;
  }

  /** Nothing is answered any more. */
  kill(): void {
    this.#isKilled = true;
  }

  async run<T>(kind: string, path: string, work: () => T): Promise<T> {
    for (let turn = this.delayTurns(); turn > 0; turn--) await undefined;
    if (this.#isKilled) return new Promise<T>(() => undefined);
    this.operations++;
    this.onOperation({ kind, path, number: this.operations });
    if (this.#isKilled) return new Promise<T>(() => undefined);
    return work();
  }

  open(path: string, mode: OpenMode): Promise<FileHandle> {
    return this.run("open", path, () => {
      const found = this.image.find(path);
      if (found?.kind === "directory") throw new FileError("other", "open", path);
      if (found === undefined && (mode === "read" || mode === "write")) throw new FileError("not-found", "open", path);
      if (found !== undefined && mode === "create") throw new FileError("exists", "open", path);
      const file = found ?? this.image.createFile(path);
      this.image.openHandle(file);
      return new MemoryHandle(this, path, file);
    });
  }

  rename(from: string, to: string): Promise<void> {
    return this.run("rename", from, () => this.image.rename(from, to));
  }

  unlink(path: string): Promise<void> {
    return this.run("unlink", path, () => this.image.unlink(path));
  }

  makeDirectory(path: string): Promise<void> {
    return this.run("makeDirectory", path, () => this.image.makeDirectory(path));
  }

  removeDirectory(path: string): Promise<void> {
    return this.run("removeDirectory", path, () => this.image.removeDirectory(path));
  }

  list(path: string): Promise<readonly DirectoryEntry[]> {
    return this.run("list", path, () => {
      const node = this.image.find(path);
      if (node?.kind !== "directory") throw new FileError("not-found", "list", path);
      return [...node.live]
        .map(([name, child]) => ({ name, kind: child.kind }))
        .sort((left, right) => (left.name < right.name ? -1 : 1));
    });
  }

  syncDirectory(path: string): Promise<void> {
    return this.run("syncDirectory", path, () => {
      const node = this.image.find(path);
      if (node?.kind !== "directory") throw new FileError("not-found", "syncDirectory", path);
      this.image.syncDirectory(node, Number.POSITIVE_INFINITY);
    });
  }

  freeBytes(path: string): Promise<number> {
    return this.run("freeBytes", path, () => Math.max(0, this.capacityBytes - this.image.usedBytes));
  }

  lockDirectory(path: string): Promise<LockOutcome> {
    return this.run("lockDirectory", path, (): LockOutcome => {
      if (this.#isLocked) return { kind: "held", ownerPid: 4711 };
      this.#isLocked = true;
      return {
        kind: "acquired",
        release: async () => {
          this.#isLocked = false;
        },
      };
    });
  }
}

class MemoryHandle implements FileHandle {
  readonly path: string;
  readonly #files: MemoryFiles;
  readonly #file: FileNode;
  #isClosed = false;

  constructor(files: MemoryFiles, path: string, file: FileNode) {
    this.#files = files;
    this.path = path;
    this.#file = file;
  }

  #run<T>(kind: string, work: () => T): Promise<T> {
    if (this.#isClosed) return Promise.reject(new FileError("other", kind, this.path));
    return this.#files.run(kind, this.path, work);
  }

  read(position: number, target: Uint8Array): Promise<number> {
    return this.#run("read", () => {
      const bytes = this.#file.live.view.subarray(position, position + target.length);
      target.set(bytes);
      return bytes.length;
    });
  }

  write(position: number, chunks: readonly Uint8Array[]): Promise<void> {
    return this.#run("write", () => {
      const bytes = concatBytes(chunks);
      const growth = Math.max(0, position + bytes.length - this.#file.live.sizeBytes);
      if (this.#files.image.usedBytes + growth > this.#files.capacityBytes) {
        this.#files.image.write(this.#file, position, bytes.slice(0, bytes.length >> 1));
        throw new FileError("no-space", "write", this.path);
      }
      this.#files.image.write(this.#file, position, bytes);
    });
  }

  datasync(): Promise<void> {
    // What is written while the sync is under way is not covered.
    const sequence = this.#files.image.sequence;
    return this.#run("datasync", () => this.#files.image.sync(this.#file, sequence));
  }

  truncate(sizeBytes: number): Promise<void> {
    return this.#run("truncate", () => this.#files.image.truncate(this.#file, sizeBytes));
  }

  size(): Promise<number> {
    return this.#run("size", () => this.#file.live.sizeBytes);
  }

  close(): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    const closed = this.#run("close", () => this.#files.image.closeHandle(this.#file));
    this.#isClosed = true;
    return closed;
  }
}
