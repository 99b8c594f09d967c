// A simulated disk: a disk image with latencies, faults and a crash model, seen by a process through ports/Files.
import { bytesEqual, concatBytes } from "../base/bytes.ts";
import type { Rng } from "../base/rng.ts";
import {
  type DirectoryEntry,
  FileError,
  type FileHandle,
  type Files,
  type LockOutcome,
  type OpenMode,
} from "../ports/files.ts";
import { type CrashChoices, DiskImage, type Fate, type FileNode } from "./disk-image.ts";
import { MARK, markOfFile } from "./marks.ts";
import type { Incarnation, SimWorld } from "./world.ts";

/** However slow the disk is: what was asked of a slow one ends soon after it is fast again, and no run waits for it for minutes (seed 721222299). */
const LATENCY_MS_MAX = 5_000;
const SECTORS_PER_PAGE = 8;
const PAGE_BYTES = 4096;

/** Mean milliseconds of each kind of operation; single ones take up to fifty times as long. */
export interface DiskLatencies {
  readonly readMs: number;
  readonly writeMs: number;
  readonly syncMs: number;
  readonly directoryMs: number;
}

export interface DiskOptions {
  readonly latencies: DiskLatencies;
  readonly capacityBytes: number;
}

/** Faults that the nemesis switches on and off while processes run. */
export interface DiskFaults {
  /** D7: this many next datasyncs fail with EIO. */
  failingSyncs: number;
  /** D7: this many next syncs of a directory fail with EIO; its entries stay pending. */
  failingDirectorySyncs: number;
  /** D9: bytes that somebody else took. */
  foreignBytes: number;
  /** D12: probability that an open is refused. */
  openFailures: number;
  /** D10: everything takes this many times as long. */
  slowness: number;
}

export type CrashKind = "process death" | "power loss";

interface WriteUnderWay {
  readonly file: FileNode;
  readonly position: number;
  readonly bytes: Uint8Array;
}

export class SimDisk {
  readonly name: string;
  readonly faults: DiskFaults = {
    failingSyncs: 0,
    failingDirectorySyncs: 0,
    foreignBytes: 0,
    openFailures: 0,
    slowness: 1,
  };
  readonly world: SimWorld;
  /** Called when a sync fails (D7), before its caller hears it. */
  onFailedSync: (path: string) => void = () => undefined;
  readonly #rng: Rng;
  readonly #options: DiskOptions;
  readonly #writes = new Set<WriteUnderWay>();
  readonly #locks = new Map<string, Incarnation>();
  readonly #unreadable = new WeakMap<FileNode, Set<number>>();
  #image: DiskImage;

  constructor(world: SimWorld, name: string, options: DiskOptions, image = new DiskImage()) {
    this.world = world;
    this.name = name;
    this.#options = options;
    this.#rng = world.fork(`disk ${name}`);
    this.#image = image;
  }

  get image(): DiskImage {
    return this.#image;
  }

  get freeBytes(): number {
    return Math.max(0, this.#options.capacityBytes - this.#image.usedBytes - this.faults.foreignBytes);
  }

  files(owner: Incarnation): Files {
    return new SimFiles(this, owner);
  }

  /** Another disk, or another state of this one, is put in its place (D11). No process may use it now. */
  replace(image: DiskImage): void {
    this.#image = image;
    this.#writes.clear();
    this.#locks.clear();
  }

  /** What a copy of the running disk would hold: as after a power loss at this moment. */
  copy(): DiskImage {
    const copy = this.#image.clone();
    copy.crash(this.randomChoices());
    return copy;
  }

  /** The process that used the disk is gone; with a power loss unsynced operations are kept, dropped or torn one by one. */
  crash(kind: CrashKind): void {
    for (const write of this.#writes) this.#leaveUnderWay(write);
    this.#writes.clear();
    this.#locks.clear();
    if (kind === "power loss") {
      if (this.#image.pendingOperations().length > 0) this.world.sometimes(MARK.UNSYNCED_LOST);
      this.#image.crash(this.randomChoices());
    } else {
      this.#image.closeAll();
      if (this.#rng.chance(0.5)) this.#image.evictStale();
    }
  }

  /** Fates drawn per crash, so that some crashes keep nearly all and some nearly nothing. */
  randomChoices(): CrashChoices {
    const rng = this.#rng;
    const keep = rng.pick([0, 0.1, 0.5, 0.5, 0.9, 1]);
    const tear = rng.pick([0, 0.1, 0.5]);
    const isPageGrain = rng.chance(0.5);
    return {
      ofWrite: (): Fate => {
        if (rng.chance(tear)) return { kind: "torn", keepsSector: this.#tear(isPageGrain) };
        return { kind: rng.chance(keep) ? "kept" : "dropped" };
      },
      ofExtension: () => rng.chance(keep),
      ofTruncate: () => rng.chance(keep),
      ofDirectory: () => rng.chance(keep),
    };
  }

  #tear(isPageGrain: boolean): (sector: number) => boolean {
    const fates = new Map<number, boolean>();
    return (sector) => {
      const unit = isPageGrain ? Math.floor(sector / SECTORS_PER_PAGE) : sector;
      let isKept = fates.get(unit);
      if (isKept === undefined) {
        isKept = this.#rng.chance(0.5);
        if (!isKept) this.world.sometimes(MARK.TORN);
        fates.set(unit, isKept);
      }
      return isKept;
    };
  }

  /** A write that the process did not see return may be there in part. */
  #leaveUnderWay(write: WriteUnderWay): void {
    const part = this.#rng.pick(["nothing", "prefix", "all"] as const);
    const sizeBytes =
      part === "prefix" ? this.#rng.below(write.bytes.length + 1) : part === "all" ? write.bytes.length : 0;
    if (part === "prefix") this.world.sometimes(MARK.PARTIAL_WRITE);
    if (sizeBytes > 0) this.#image.write(write.file, write.position, write.bytes.subarray(0, sizeBytes));
  }

  latencyMs(meanMs: number): number {
    const uniform = (this.#rng.u32() + 1) / 2 ** 32;
    const tail = this.#rng.chance(0.01) ? 10 : 1;
    const ms = Math.min(-Math.log(uniform) * meanMs * tail, meanMs * 50) * this.faults.slowness;
    return Math.min(ms, LATENCY_MS_MAX);
  }

  lock(path: string, owner: Incarnation): LockOutcome {
    const holder = this.#locks.get(path);
    if (holder?.isAlive === true) return { kind: "held", ownerPid: holder.number };
    this.#locks.set(path, owner);
    return {
      kind: "acquired",
      release: async () => {
        if (this.#locks.get(path) === owner) this.#locks.delete(path);
      },
    };
  }

  directoryOperation<T>(owner: Incarnation, kind: string, path: string, apply: (image: DiskImage) => T): Promise<T> {
    const delayMs = this.latencyMs(this.#options.latencies.directoryMs);
    return this.world.later({ delayMs, kind, owner, detail: path }, () => apply(this.#image));
  }

  open(owner: Incarnation, path: string, mode: OpenMode): Promise<FileNode> {
    return this.directoryOperation(owner, "open", path, (image) => {
      if (this.faults.openFailures > 0 && this.#rng.chance(this.faults.openFailures)) {
        this.world.countFault("D12 too many open files");
        throw new FileError("too-many-open", "open", path);
      }
      const found = image.find(path);
      if (found?.kind === "directory") throw new FileError("other", "open", path);
      if (found === undefined && (mode === "read" || mode === "write")) throw new FileError("not-found", "open", path);
      if (found !== undefined && mode === "create") throw new FileError("exists", "open", path);
      const file = found ?? this.#create(path);
      image.openHandle(file);
      return file;
    });
  }

  #create(path: string): FileNode {
    if (this.freeBytes < 4096) this.#refuse("open", path);
    return this.#image.createFile(path);
  }

  #refuse(operation: string, path: string): never {
    this.world.countFault("D9 no space");
    this.world.sometimes(MARK.FULL);
    throw new FileError("no-space", operation, path);
  }

  read(owner: Incarnation, file: FileNode, path: string, position: number, target: Uint8Array): Promise<number> {
    const delayMs = this.latencyMs(this.#options.latencies.readMs);
    return this.world.later({ delayMs, kind: "read", owner, detail: path }, () => {
      if (this.#isUnreadable(file, position, position + target.length)) {
        this.world.countFault("D8 page cannot be read");
        throw new FileError("io", "read", path);
      }
      const bytes = file.live.view.subarray(position, position + target.length);
      target.set(bytes);
      this.#mark("read", path);
      return bytes.length;
    });
  }

  async write(
    owner: Incarnation,
    file: FileNode,
    path: string,
    position: number,
    chunks: readonly Uint8Array[],
  ): Promise<void> {
    const bytes = concatBytes(chunks);
    const underWay: WriteUnderWay = { file, position, bytes };
    this.#writes.add(underWay);
    const delayMs = this.latencyMs(this.#options.latencies.writeMs);
    await this.world.later({ delayMs, kind: "write", owner, payload: bytes, detail: `${path} @${position}` }, () => {
      this.#writes.delete(underWay);
      if (!areThere(bytes, chunks)) this.world.fail(new Error(`bytes changed while they were written to ${path}`));
      const growth = position + bytes.length - file.live.sizeBytes;
      if (growth > this.freeBytes) {
        const fits = this.#rng.below(Math.max(0, Math.min(bytes.length, bytes.length - growth + this.freeBytes)) + 1);
        if (fits > 0) this.#image.write(file, position, bytes.subarray(0, fits));
        this.#refuse("write", path);
      }
      this.#image.write(file, position, bytes);
      this.#remap(file, position, position + bytes.length);
      this.#mark("write", path);
    });
  }

  /** D8: the page that holds this byte gives an error, again and again, until it is written anew. */
  makeUnreadable(file: FileNode, position: number): void {
    const pages = this.#unreadable.get(file) ?? new Set<number>();
    this.#unreadable.set(file, pages.add(Math.floor(position / PAGE_BYTES)));
  }

  /** A page of it gives an error still. */
  hasUnreadable(file: FileNode): boolean {
    return (this.#unreadable.get(file)?.size ?? 0) > 0;
  }

  #isUnreadable(file: FileNode, from: number, to: number): boolean {
    for (const page of this.#unreadable.get(file) ?? []) {
      if (page * PAGE_BYTES < Math.min(to, file.live.sizeBytes) && from < (page + 1) * PAGE_BYTES) return true;
    }
    return false;
  }

  #remap(file: FileNode, from: number, to: number): void {
    const pages = this.#unreadable.get(file);
    if (pages === undefined) return;
    for (const page of pages) if (page * PAGE_BYTES < to && from < (page + 1) * PAGE_BYTES) pages.delete(page);
  }

  #mark(operation: "read" | "write", path: string): void {
    const mark = markOfFile(operation, path);
    if (mark !== undefined) this.world.sometimes(mark);
  }

  datasync(owner: Incarnation, file: FileNode, path: string): Promise<void> {
    const sequence = this.#image.sequence;
    const delayMs = this.latencyMs(this.#options.latencies.syncMs);
    return this.world.later({ delayMs, kind: "datasync", owner, detail: path }, () => {
      if (this.faults.failingSyncs > 0) {
        this.faults.failingSyncs--;
        this.world.countFault("D7 failed sync");
        this.onFailedSync(path);
        this.#image.failSync(file, this.randomChoices());
        if (this.#rng.chance(0.3)) this.#image.evictStale();
        throw new FileError("io", "datasync", path);
      }
      this.#image.sync(file, sequence);
    });
  }

  truncate(owner: Incarnation, file: FileNode, path: string, sizeBytes: number): Promise<void> {
    const delayMs = this.latencyMs(this.#options.latencies.writeMs);
    return this.world.later({ delayMs, kind: "truncate", owner, detail: `${path} to ${sizeBytes}` }, () => {
      this.#image.truncate(file, sizeBytes);
    });
  }

  syncDirectory(owner: Incarnation, path: string): Promise<void> {
    const sequence = this.#image.sequence;
    const delayMs = this.latencyMs(this.#options.latencies.syncMs);
    return this.world.later({ delayMs, kind: "sync directory", owner, detail: path }, () => {
      const node = this.#image.find(path);
      if (node?.kind !== "directory") throw new FileError("not-found", "syncDirectory", path);
      if (this.faults.failingDirectorySyncs > 0) {
        this.faults.failingDirectorySyncs--;
        this.world.countFault("D7 failed sync of a directory");
        this.onFailedSync(path);
        throw new FileError("io", "syncDirectory", path);
      }
      this.#image.syncDirectory(node, sequence);
    });
  }
}

function areThere(bytes: Uint8Array, chunks: readonly Uint8Array[]): boolean {
  let at = 0;
  return chunks.every((chunk) => bytesEqual(bytes.subarray(at, (at += chunk.length)), chunk));
}

class SimFiles implements Files {
  readonly #disk: SimDisk;
  readonly #owner: Incarnation;

  constructor(disk: SimDisk, owner: Incarnation) {
    this.#disk = disk;
    this.#owner = owner;
  }

  async open(path: string, mode: OpenMode): Promise<FileHandle> {
    return new SimFileHandle(
      this.#disk,
      this.#owner,
      { path, isWritable: mode !== "read" },
      await this.#disk.open(this.#owner, path, mode),
    );
  }

  rename(from: string, to: string): Promise<void> {
    return this.#disk.directoryOperation(this.#owner, "rename", `${from} to ${to}`, (image) => image.rename(from, to));
  }

  unlink(path: string): Promise<void> {
    return this.#disk.directoryOperation(this.#owner, "unlink", path, (image) => image.unlink(path));
  }

  makeDirectory(path: string): Promise<void> {
    return this.#disk.directoryOperation(this.#owner, "make directory", path, (image) => {
      if (this.#disk.freeBytes < 4096 && image.find(path) === undefined)
        throw new FileError("no-space", "makeDirectory", path);
      image.makeDirectory(path);
    });
  }

  removeDirectory(path: string): Promise<void> {
    return this.#disk.directoryOperation(this.#owner, "remove directory", path, (image) => image.removeDirectory(path));
  }

  list(path: string): Promise<readonly DirectoryEntry[]> {
    return this.#disk.directoryOperation(this.#owner, "list", path, (image) => {
      const node = image.find(path);
      if (node?.kind !== "directory") throw new FileError("not-found", "list", path);
      return [...node.live]
        .map(([name, child]) => ({ name, kind: child.kind }))
        .sort((left, right) => (left.name < right.name ? -1 : 1));
    });
  }

  syncDirectory(path: string): Promise<void> {
    return this.#disk.syncDirectory(this.#owner, path);
  }

  freeBytes(path: string): Promise<number> {
    return this.#disk.directoryOperation(this.#owner, "free bytes", path, () => this.#disk.freeBytes);
  }

  lockDirectory(path: string): Promise<LockOutcome> {
    return this.#disk.directoryOperation(this.#owner, "lock", path, (image) => {
      if (image.find(path)?.kind !== "directory") throw new FileError("not-found", "lockDirectory", path);
      return this.#disk.lock(path, this.#owner);
    });
  }
}

class SimFileHandle implements FileHandle {
  readonly path: string;
  readonly #disk: SimDisk;
  readonly #owner: Incarnation;
  readonly #file: FileNode;
  readonly #isWritable: boolean;
  #isClosed = false;

  constructor(
    disk: SimDisk,
    owner: Incarnation,
    opened: { readonly path: string; readonly isWritable: boolean },
    file: FileNode,
  ) {
    this.#disk = disk;
    this.#owner = owner;
    this.path = opened.path;
    this.#isWritable = opened.isWritable;
    this.#file = file;
  }

  async read(position: number, target: Uint8Array): Promise<number> {
    return this.#disk.read(this.#owner, this.#open("read"), this.path, position, target);
  }

  async write(position: number, chunks: readonly Uint8Array[]): Promise<void> {
    await this.#disk.write(this.#owner, this.#open("write"), this.path, position, chunks);
  }

  async datasync(): Promise<void> {
    await this.#disk.datasync(this.#owner, this.#open("datasync"), this.path);
  }

  async truncate(sizeBytes: number): Promise<void> {
    await this.#disk.truncate(this.#owner, this.#open("truncate"), this.path, sizeBytes);
  }

  async size(): Promise<number> {
    const file = this.#open("size");
    return this.#disk.directoryOperation(this.#owner, "size", this.path, () => file.live.sizeBytes);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#disk.directoryOperation(this.#owner, "close", this.path, (image) => image.closeHandle(this.#file));
  }

  #open(operation: string): FileNode {
    const isRefused = !this.#isWritable && (operation === "write" || operation === "truncate");
    if (this.#isClosed || isRefused) throw new FileError("other", operation, this.path);
    return this.#file;
  }
}
