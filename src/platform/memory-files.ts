// A disk that is memory: ports/Files for clusters in tests. It loses nothing when the process that uses it is killed, only with the process that
// holds it; so syncs have nothing to do.
import {
  type DirectoryEntry,
  FileError,
  type FileHandle,
  type Files,
  type LockOutcome,
  type OpenMode,
} from "../ports/files.ts";

const PAGE_BYTES = 64 * 1024;

/** Bytes by page; a page that was never written takes no memory and reads as zeros. */
class MemoryFile {
  readonly kind = "file" as const;
  readonly #disk: Usage;
  #pages: (Uint8Array | undefined)[] = [];
  #sizeBytes = 0;
  #isNamed = true;
  #handles = 0;

  constructor(disk: Usage) {
    this.#disk = disk;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  read(position: number, target: Uint8Array): number {
    const count = Math.max(0, Math.min(target.length, this.#sizeBytes - position));
    for (let done = 0; done < count; ) {
      const at = position + done;
      const page = this.#pages[Math.floor(at / PAGE_BYTES)];
      const from = at % PAGE_BYTES;
      const length = Math.min(PAGE_BYTES - from, count - done);
      if (page === undefined) target.fill(0, done, done + length);
      else target.set(page.subarray(from, from + length), done);
      done += length;
    }
    return count;
  }

  /** False: there is no room for all of it, and a part was written. */
  write(position: number, bytes: Uint8Array): boolean {
    for (let done = 0; done < bytes.length; ) {
      const at = position + done;
      const page = this.#pageFor(Math.floor(at / PAGE_BYTES));
      if (page === undefined) return false;
      const from = at % PAGE_BYTES;
      const length = Math.min(PAGE_BYTES - from, bytes.length - done);
      page.set(bytes.subarray(done, done + length), from);
      done += length;
      this.#sizeBytes = Math.max(this.#sizeBytes, position + done);
    }
    return true;
  }

  #pageFor(index: number): Uint8Array | undefined {
    const known = this.#pages[index];
    if (known !== undefined) return known;
    if (!this.#disk.take(PAGE_BYTES)) return undefined;
    const made = new Uint8Array(PAGE_BYTES);
    this.#pages[index] = made;
    return made;
  }

  /** What is cut off reads as zeros if the file grows again. */
  truncate(sizeBytes: number): void {
    const keptPages = Math.ceil(sizeBytes / PAGE_BYTES);
    for (let index = keptPages; index < this.#pages.length; index++)
      if (this.#pages[index] !== undefined) this.#disk.give(PAGE_BYTES);
    if (this.#pages.length > keptPages) this.#pages.length = keptPages;
    if (sizeBytes < this.#sizeBytes) this.#pages[keptPages - 1]?.fill(0, ((sizeBytes - 1) % PAGE_BYTES) + 1);
    this.#sizeBytes = sizeBytes;
  }

  opened(): void {
    this.#handles++;
  }

  closed(): void {
    this.#handles--;
    this.#freeIfGone();
  }

  unlinked(): void {
    this.#isNamed = false;
    this.#freeIfGone();
  }

  /** An open file outlives its name. */
  #freeIfGone(): void {
    if (!this.#isNamed && this.#handles === 0) this.truncate(0);
  }
}

class MemoryDirectory {
  readonly kind = "directory" as const;
  readonly entries = new Map<string, MemoryFile | MemoryDirectory>();
  isLocked = false;
}

type MemoryNode = MemoryFile | MemoryDirectory;

class Usage {
  readonly #capacityBytes: number;
  #usedBytes = 0;

  constructor(capacityBytes: number) {
    this.#capacityBytes = capacityBytes;
  }

  get freeBytes(): number {
    return this.#capacityBytes - this.#usedBytes;
  }

  take(bytes: number): boolean {
    if (bytes > this.freeBytes) return false;
    this.#usedBytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#usedBytes -= bytes;
  }
}

interface Subject {
  readonly operation: string;
  readonly path: string;
}

const failed = (kind: FileError["kind"], { operation, path }: Subject): FileError =>
  new FileError(kind, operation, path);

const partsOf = (path: string): string[] => path.split("/").filter((part) => part !== "" && part !== ".");

/** Paths are looked up from one root, whether they begin with "/" or not. */
class MemoryFiles implements Files {
  readonly #root = new MemoryDirectory();
  readonly #usage: Usage;

  constructor(capacityBytes: number) {
    this.#usage = new Usage(capacityBytes);
  }

  async open(path: string, mode: OpenMode): Promise<FileHandle> {
    const subject = { operation: "open", path };
    const { directory, name } = this.#placeOf(subject);
    const found = directory.entries.get(name);
    if (found?.kind === "directory") throw failed("other", subject);
    if (found === undefined && (mode === "read" || mode === "write")) throw failed("not-found", subject);
    if (found !== undefined && mode === "create") throw failed("exists", subject);
    const file = found ?? new MemoryFile(this.#usage);
    directory.entries.set(name, file);
    return new MemoryFileHandle(path, file, mode !== "read");
  }

  async rename(from: string, to: string): Promise<void> {
    const source = this.#placeOf({ operation: "rename", path: from });
    const node = this.#at({ operation: "rename", path: from });
    const target = this.#placeOf({ operation: "rename", path: to });
    const replaced = target.directory.entries.get(target.name);
    if (replaced === node) return;
    if (replaced?.kind === "directory") throw failed("not-empty", { operation: "rename", path: to });
    source.directory.entries.delete(source.name);
    target.directory.entries.set(target.name, node);
    replaced?.unlinked();
  }

  async unlink(path: string): Promise<void> {
    const subject = { operation: "unlink", path };
    const node = this.#at(subject);
    if (node.kind === "directory") throw failed("other", subject);
    const { directory, name } = this.#placeOf(subject);
    directory.entries.delete(name);
    node.unlinked();
  }

  async makeDirectory(path: string): Promise<void> {
    let directory = this.#root;
    for (const part of partsOf(path)) {
      const next = directory.entries.get(part) ?? new MemoryDirectory();
      if (next.kind === "file") throw failed("exists", { operation: "makeDirectory", path });
      directory.entries.set(part, next);
      directory = next;
    }
  }

  async removeDirectory(path: string): Promise<void> {
    const subject = { operation: "removeDirectory", path };
    if (this.#directoryAt(subject).entries.size > 0) throw failed("not-empty", subject);
    const { directory, name } = this.#placeOf(subject);
    directory.entries.delete(name);
  }

  async list(path: string): Promise<readonly DirectoryEntry[]> {
    const { entries } = this.#directoryAt({ operation: "list", path });
    return [...entries]
      .map(([name, { kind }]) => ({ name, kind }))
      .sort((left, right) => (left.name < right.name ? -1 : 1));
  }

  async syncDirectory(path: string): Promise<void> {
    this.#directoryAt({ operation: "syncDirectory", path });
  }

  async freeBytes(): Promise<number> {
    return this.#usage.freeBytes;
  }

  async lockDirectory(path: string): Promise<LockOutcome> {
    const directory = this.#directoryAt({ operation: "lockDirectory", path });
    if (directory.isLocked) return { kind: "held", ownerPid: process.pid };
    directory.isLocked = true;
    return {
      kind: "acquired",
      release: async () => {
        directory.isLocked = false;
      },
    };
  }

  #at(subject: Subject): MemoryNode {
    let node: MemoryNode | undefined = this.#root;
    for (const part of partsOf(subject.path)) node = node?.kind === "directory" ? node.entries.get(part) : undefined;
    if (node === undefined) throw failed("not-found", subject);
    return node;
  }

  #directoryAt(subject: Subject): MemoryDirectory {
    const node = this.#at(subject);
    if (node.kind === "file") throw failed("not-found", subject);
    return node;
  }

  #placeOf(subject: Subject): { readonly directory: MemoryDirectory; readonly name: string } {
    const parts = partsOf(subject.path);
    const name = parts.pop();
    if (name === undefined) throw failed("other", subject);
    return { directory: this.#directoryAt({ ...subject, path: parts.join("/") }), name };
  }
}

class MemoryFileHandle implements FileHandle {
  readonly path: string;
  readonly #file: MemoryFile;
  readonly #isWritable: boolean;
  #isClosed = false;

  constructor(path: string, file: MemoryFile, isWritable: boolean) {
    this.path = path;
    this.#file = file;
    this.#isWritable = isWritable;
    file.opened();
  }

  async read(position: number, target: Uint8Array): Promise<number> {
    return this.#open("read").read(position, target);
  }

  async write(position: number, chunks: readonly Uint8Array[]): Promise<void> {
    const file = this.#writable("write");
    let at = position;
    for (const chunk of chunks) {
      if (!file.write(at, chunk)) throw failed("no-space", { operation: "write", path: this.path });
      at += chunk.length;
    }
  }

  async datasync(): Promise<void> {
    this.#open("datasync");
  }

  async truncate(sizeBytes: number): Promise<void> {
    this.#writable("truncate").truncate(sizeBytes);
  }

  async size(): Promise<number> {
    return this.#open("size").sizeBytes;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#file.closed();
  }

  #open(operation: string): MemoryFile {
    if (this.#isClosed) throw failed("other", { operation, path: this.path });
    return this.#file;
  }

  #writable(operation: string): MemoryFile {
    const file = this.#open(operation);
    if (!this.#isWritable) throw failed("denied", { operation, path: this.path });
    return file;
  }
}

export function createMemoryFiles(capacityBytes: number): Files {
  return new MemoryFiles(capacityBytes);
}
