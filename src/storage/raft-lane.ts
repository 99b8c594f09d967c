// The metadata log's own files (D-19): written at the end, cut at the end, whole files dropped at the beginning. What is cut is gone from the
// disk before anything is written in its place.
//
//   start <= syncedEnd <= end; files are contiguous, the first one begins at start, only the last one is written.
import { failpoint } from "../base/failpoint.ts";
import { assert, present } from "../base/assert.ts";
import { concatBytes } from "../base/bytes.ts";
import { mutant } from "../base/mutant.ts";
import type { FileHandle } from "../ports/files.ts";
import { datasync, isPassing, syncDirectory } from "./faults.ts";
import { unlinkIfThere } from "./file-work.ts";
import { join, LOG_SUFFIX, offsetName } from "./paths.ts";
import { encodeEntry } from "./raft-entries.ts";
import type { RaftStoreOptions, StoredEntry, StoredLogStart } from "./raft-types.ts";
import type { StorageDeps } from "./types.ts";

/** One file: entries from `base` on. */
export interface LaneFile {
  readonly base: number;
  /** Of the entry before `base`. */
  readonly startTerm: number;
  /** Of each entry: where its batch starts, and its term. */
  readonly positions: number[];
  readonly terms: number[];
  sizeBytes: number;
}

export const laneFilePath = (directory: string, base: number): string => join(directory, offsetName(base) + LOG_SUFFIX);

const endOf = (file: LaneFile): number => file.base + file.positions.length;
const lastTermOf = (file: LaneFile): number => file.terms.at(-1) ?? file.startTerm;

export class RaftLane {
  readonly #deps: StorageDeps;
  readonly #options: RaftStoreOptions;
  readonly #files: LaneFile[];
  #start: StoredLogStart;
  #syncedEnd: number;
  /** Of the last file; opened when it is needed. */
  #handle: FileHandle | undefined;
  /** A file was made since the directory was synced. */
  #isDirectoryDirty = false;

  /** What recovery found, all of it synced. */
  constructor(deps: StorageDeps, options: RaftStoreOptions, start: StoredLogStart, files: LaneFile[]) {
    this.#deps = deps;
    this.#options = options;
    this.#start = start;
    this.#files = files;
    this.#syncedEnd = this.end;
  }

  get start(): StoredLogStart {
    return this.#start;
  }

  get end(): number {
    const last = this.#files.at(-1);
    return last === undefined ? this.#start.start : endOf(last);
  }

  get syncedEnd(): number {
    return this.#syncedEnd;
  }

  get isEmpty(): boolean {
    return this.#files.length === 0;
  }

  /** Term of the last entry of [0, end); undefined when the log does not know it. */
  termBefore(end: number): number | undefined {
    if (end === this.#start.start) return this.#start.startTerm;
    const file = this.#files.findLast(({ base }) => base < end);
    return file?.terms[end - 1 - file.base];
  }

  // ---- at the end

  /** Writes the entries; nothing of them is left when it rejects. All go to one file. */
  async append(entries: readonly StoredEntry[], timestamp: number): Promise<void> {
    assert(entries[0]?.index === this.end, `entry ${entries[0]?.index} appended to a log that ends at ${this.end}`);
    await this.#rollIfFull();
    const file = present(this.#files.at(-1), "last file");
    const { directoryId } = this.#options.owner;
    const context = { syncedEnd: this.#syncedEnd, timestamp, directoryId };
    const batches = entries.map((entry) => encodeEntry(entry, context, this.#deps.checksum));
    await this.#write(file, batches);
    for (const [at, entry] of entries.entries()) {
      assert(entry.index === endOf(file), `entry ${entry.index} where ${endOf(file)} should be`);
      assert(entry.term >= lastTermOf(file), `entry ${entry.index} of term ${entry.term} after ${lastTermOf(file)}`);
      file.positions.push(file.sizeBytes);
      file.terms.push(entry.term);
      file.sizeBytes += present(batches[at], "batch").length;
    }
  }

  async #write(file: LaneFile, batches: readonly Uint8Array[]): Promise<void> {
    const handle = await this.#lastHandle();
    try {
      await handle.write(file.sizeBytes, [concatBytes(batches)]);
      failpoint("metadata-written");
    } catch (thrown) {
      if (isPassing(thrown)) await this.#takeBack(file, handle);
      throw thrown;
    }
  }

  /** Not even a power loss brings back what met a full disk. */
  async #takeBack(file: LaneFile, handle: FileHandle): Promise<void> {
    await handle.truncate(file.sizeBytes);
    await this.#sync(handle);
  }

  async #rollIfFull(): Promise<void> {
    const last = this.#files.at(-1);
    if (last !== undefined && last.sizeBytes < this.#options.segmentBytes) return;
    try {
      await this.#roll();
    } catch (thrown) {
      // The last file serves on.
      if (last === undefined || !isPassing(thrown)) throw thrown;
    }
  }

  async #roll(): Promise<void> {
    // Only the last file may have an end that is not synced.
    await this.sync();
    const base = this.end;
    const last = this.#files.at(-1);
    const startTerm = last === undefined ? this.#start.startTerm : lastTermOf(last);
    const handle = await this.#deps.files.open(this.#path(base), "open-or-create");
    await this.#closeHandle();
    this.#handle = handle;
    this.#isDirectoryDirty = true;
    this.#files.push({ base, startTerm, positions: [], terms: [], sizeBytes: 0 });
    await handle.truncate(0);
    failpoint("metadata-rolled");
  }

  /** Everything that was appended is durable afterwards. */
  async sync(): Promise<void> {
    if (this.#syncedEnd < this.end || this.#isDirectoryDirty) await this.#sync(await this.#lastHandle());
  }

  async #sync(handle: FileHandle): Promise<void> {
    const { end } = this;
    await datasync(handle);
    failpoint("metadata-synced");
    if (this.#isDirectoryDirty) await this.#syncDirectory();
    this.#syncedEnd = end;
  }

  async #syncDirectory(): Promise<void> {
    await syncDirectory(this.#deps.files, this.#options.directory);
    this.#isDirectoryDirty = false;
  }

  async #lastHandle(): Promise<FileHandle> {
    this.#handle ??= await this.#deps.files.open(this.#path(present(this.#files.at(-1), "last file").base), "write");
    return this.#handle;
  }

  async #closeHandle(): Promise<void> {
    const handle = this.#handle;
    this.#handle = undefined;
    await handle?.close();
  }

  #path(base: number): string {
    return laneFilePath(this.#options.directory, base);
  }

  /** Every entry from `to` on is gone, durably. Files go from the last one on, each durably: a crash leaves no hole. */
  async cutSuffix(to: number): Promise<void> {
    assert(to >= this.#start.start, `cut to ${to}, but the log starts at ${this.#start.start}`);
    if (to >= this.end) return;
    for (let last = this.#files.at(-1); last !== undefined && last.base >= to; last = this.#files.at(-1)) {
      // While it may stay its handle does: a sync of what it holds must not lack a descriptor.
      await unlinkIfThere(this.#deps.files, this.#path(last.base));
      await this.#closeHandle();
      if (!mutant("D-19")) await this.#syncDirectory();
      this.#files.pop();
      this.#syncedEnd = Math.min(this.#syncedEnd, this.end);
    }
    const file = this.#files.at(-1);
    if (file === undefined) return;
    const position = file.positions[to - file.base];
    if (position === undefined) return;
    const handle = await this.#lastHandle();
    await handle.truncate(position);
    failpoint("metadata-cut");
    if (!mutant("D-19")) await datasync(handle);
    file.positions.length = file.terms.length = to - file.base;
    file.sizeBytes = position;
    this.#syncedEnd = to;
  }

  // ---- at the beginning

  /** Where the log may begin when nothing below `to` is wanted: at a file's base. Undefined: where it does now. */
  startFor(to: number): StoredLogStart | undefined {
    const first = this.#files.findLast(({ base }) => base <= to);
    return first === undefined || first.base <= this.#start.start
      ? undefined
      : { start: first.base, startTerm: first.startTerm };
  }

  /** Removes the files below a start that is durable elsewhere: those that a crash brings back are known as garbage by it. */
  async dropPrefix(start: StoredLogStart): Promise<void> {
    this.#start = start;
    for (let first = this.#files[0]; first !== undefined && first.base < start.start; first = this.#files[0]) {
      this.#files.shift();
      await unlinkIfThere(this.#deps.files, this.#path(first.base));
    }
  }

  /** Removes all files, durably, and begins anew. */
  async reset(start: StoredLogStart): Promise<void> {
    for (const { base } of this.#files) await unlinkIfThere(this.#deps.files, this.#path(base));
    await this.#closeHandle();
    await this.#syncDirectory();
    this.#files.length = 0;
    this.#start = start;
    this.#syncedEnd = start.start;
  }

  async close(): Promise<void> {
    await this.#closeHandle().catch(() => undefined);
  }
}
