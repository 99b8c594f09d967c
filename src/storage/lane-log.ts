// A log of its own lane (D-19): own directory, own files, own fdatasync; never the shared journal, retention or compaction. One append
// at a time, each one record batch, each synced before it is answered. So only the last batch of the last file can be torn.
import { assert, present } from "../base/assert.ts";
import { utf8Decode, utf8Encode } from "../base/bytes.ts";
import { OttlaError } from "../model/errors.ts";
import { type LeaderEpoch, type Offset, toOffset } from "../model/ids.ts";
import { assignOffsets, baseOffsetAt, checkStoredBatch } from "../model/record-batch.ts";
import { decodeRecords, RecordBatchBuilder } from "../model/records.ts";
import type { FileHandle } from "../ports/files.ts";
import { type ScannedBatch, scanBatches } from "./batch-scan.ts";
import { datasync, diskFailed, isNoSpace, openingFailure, storageFull, syncDirectory } from "./faults.ts";
import { FORMAT_VERSION, MIN_READER_VERSION, refuseNewer } from "./format.ts";
import { baseOffsetOf, join, LOG_SUFFIX, offsetName, RESERVE } from "./paths.ts";
import { readWhole, unlinkIfThere, withFile } from "./file-work.ts";
import type { LaneLog, StorageDeps } from "./types.ts";

const METADATA = "lane.metadata";
const HEAD = "ottla.lane.metadata";
/** Given up when the disk is full, so that the quorum can still write (D-19). */
const RESERVE_BYTES = 64 * 1024;
const BATCH_BYTES_MAX = 64 * 1024 * 1024;

export interface LaneOptions {
  readonly directory: string;
  readonly segmentBytes: number;
}

/** Rejects with OttlaError: DATA_DAMAGED, DATA_DIR_NEWER, DATA_DIR_FOREIGN, DATA_DIR_READ_ONLY, STORAGE_FULL, DISK_FAILED. */
export async function openLaneLog(deps: StorageDeps, options: LaneOptions): Promise<LaneLog> {
  try {
    await openMetadata(deps, options.directory);
    return await Lane.open(deps, options);
  } catch (thrown) {
    throw openingFailure(thrown, options.directory);
  }
}

async function openMetadata({ files }: StorageDeps, directory: string): Promise<void> {
  const path = join(directory, METADATA);
  await files.makeDirectory(directory);
  const entries = await files.list(directory);
  if (entries.some((entry) => entry.name === METADATA))
    return checkMetadata(await withFile(files, { path, mode: "read" }, readWhole), path);
  const foreign = entries.find((entry) => entry.name !== `${METADATA}.new`);
  if (foreign !== undefined)
    throw new OttlaError("DATA_DIR_FOREIGN", `${directory} has no ${METADATA} but holds ${foreign.name}`);
  const text = `${HEAD}\nversion: ${FORMAT_VERSION}\nmin_reader_version: ${MIN_READER_VERSION}\n`;
  await withFile(files, { path: `${path}.new`, mode: "open-or-create" }, async (handle) => {
    await handle.truncate(0);
    await handle.write(0, [utf8Encode(text)]);
    await datasync(handle);
  });
  await files.rename(`${path}.new`, path);
  await syncDirectory(files, directory);
  const slash = directory.lastIndexOf("/");
  if (slash > 0) await syncDirectory(files, directory.slice(0, slash));
}

function checkMetadata(bytes: Uint8Array, path: string): void {
  const match = /^(\S+)\nversion: (\d+)\nmin_reader_version: (\d+)\n/.exec(utf8Decode(bytes));
  if (match?.[1] !== HEAD) throw new OttlaError("DATA_DAMAGED", `${path} is damaged`);
  refuseNewer(path, { version: Number(match[2]), minReader: Number(match[3]) });
}

class Lane implements LaneLog {
  readonly #deps: StorageDeps;
  readonly #options: LaneOptions;
  /** Base offsets of the files, oldest first. */
  readonly #bases: number[] = [];
  #active: FileHandle | undefined;
  #activeBytes = 0;
  #end = 0;
  #isBusy = false;
  #isReserved = false;
  #failure: OttlaError | undefined;

  private constructor(deps: StorageDeps, options: LaneOptions) {
    this.#deps = deps;
    this.#options = options;
  }

  static async open(deps: StorageDeps, options: LaneOptions): Promise<Lane> {
    const lane = new Lane(deps, options);
    try {
      await lane.#recover();
      await lane.#makeReserve();
    } catch (thrown) {
      await lane.#active?.close().catch(() => undefined);
      throw thrown;
    }
    return lane;
  }

  get endOffset(): Offset {
    return this.#end as Offset;
  }

  #path(base: number): string {
    return join(this.#options.directory, offsetName(base) + LOG_SUFFIX);
  }

  async #recover(): Promise<void> {
    const { files } = this.#deps;
    const found = (await files.list(this.#options.directory)).flatMap((entry) => baseOffsetOf(entry.name)?.base ?? []);
    for (const [place, base] of found.entries()) {
      const isLast = place === found.length - 1;
      if (place > 0 && base !== this.#end) throw this.#damaged(base, `offset ${this.#end} should come next`);
      if (place === 0) this.#end = base;
      await this.#recoverFile(base, isLast);
      this.#bases.push(base);
    }
    const last = this.#bases.at(-1);
    if (last !== undefined) await this.#openActive(last);
  }

  #damaged(base: number, reason: string): OttlaError {
    return new OttlaError("DATA_DAMAGED", `${this.#path(base)}: ${reason}`);
  }

  async #recoverFile(base: number, isLast: boolean): Promise<void> {
    await withFile(this.#deps.files, { path: this.#path(base), mode: isLast ? "write" : "read" }, async (handle) => {
      const size = await handle.size();
      let last: ScannedBatch | undefined;
      let gap: string | undefined;
      const end = await scanBatches(handle, {
        from: 0,
        end: size,
        checksum: this.#deps.checksum,
        visit: (batch) => {
          if (batch.base !== this.#end)
            gap = `offset ${batch.base} at position ${batch.position} where ${this.#end} should be`;
          else {
            last = { ...batch, bytes: batch.bytes.slice(batch.at, batch.at + batch.sizeBytes), at: 0 };
            this.#end = batch.last + 1;
          }
          return gap === undefined;
        },
      });
      if (gap !== undefined) throw this.#damaged(base, gap);
      if (!isLast) {
        if (end.kind !== "end") throw this.#damaged(base, `${end.reason} at position ${end.position}`);
        return;
      }
      if (end.kind !== "end") await this.#cutTail(handle, { base, position: end.position, size, reason: end.reason });
      // The page cache may show a last batch that a failed sync kept from the disk (D-13): write it again.
      if (last !== undefined) await handle.write(last.position, [last.bytes]);
      await datasync(handle);
      await syncDirectory(this.#deps.files, this.#options.directory);
    });
  }

  /** A torn tail is cut only if nothing whole follows it: otherwise what was synced is damaged. */
  async #cutTail(
    handle: FileHandle,
    tail: { readonly base: number; readonly position: number; readonly size: number; readonly reason: string },
  ): Promise<void> {
    const rest = new Uint8Array(tail.size - tail.position);
    await handle.read(tail.position, rest);
    for (let at = 1; at < rest.length; at++) {
      const check = checkStoredBatch(rest, at, { end: rest.length, checksum: this.#deps.checksum });
      if (check.kind !== "valid" || baseOffsetAt(rest, at) < this.#end) continue;
      throw this.#damaged(
        tail.base,
        `${tail.reason} at position ${tail.position}, but a whole batch follows at ${tail.position + at}`,
      );
    }
    this.#deps.logger.warn("lane_tail_cut", {
      file: this.#path(tail.base),
      position: tail.position,
      bytes: rest.length,
    });
    await handle.truncate(tail.position);
  }

  async #openActive(base: number): Promise<void> {
    this.#active = await this.#deps.files.open(this.#path(base), "write");
    this.#activeBytes = await this.#active.size();
  }

  async append(records: readonly Uint8Array[], epoch: LeaderEpoch, timestamp: number): Promise<Offset> {
    if (this.#failure !== undefined) throw this.#failure;
    assert(!this.#isBusy, "one append at a time");
    assert(records.length > 0, "an append of nothing");
    this.#isBusy = true;
    try {
      return await this.#append(this.#build(records, epoch, timestamp), records.length);
    } finally {
      this.#isBusy = false;
    }
  }

  #build(records: readonly Uint8Array[], epoch: LeaderEpoch, timestamp: number): Uint8Array {
    const builder = new RecordBatchBuilder({ limitBytes: BATCH_BYTES_MAX });
    for (const value of records)
      assert(builder.tryAppend({ key: null, value, headers: [], timestamp }), "the records are too large for a batch");
    const batch = builder.build({ compression: "none", codecs: this.#deps.codecs, checksum: this.#deps.checksum });
    assignOffsets(batch, this.#end, epoch);
    return batch;
  }

  async #append(batch: Uint8Array, count: number): Promise<Offset> {
    for (let attempt = 0; ; attempt++) {
      try {
        await this.#write(batch);
        break;
      } catch (thrown) {
        if (!isNoSpace(thrown)) throw this.#fail(thrown);
        await this.#takeBack();
        if (attempt > 0 || !(await this.#giveUpReserve())) throw storageFull(thrown);
      }
    }
    this.#activeBytes += batch.length;
    const base = this.#end;
    this.#end += count;
    return toOffset(base);
  }

  async #write(batch: Uint8Array): Promise<void> {
    const isFull = this.#activeBytes > 0 && this.#activeBytes + batch.length > this.#options.segmentBytes;
    const isNew = this.#active === undefined || isFull;
    if (isNew) await this.#roll();
    const active = present(this.#active, "active file");
    await active.write(this.#activeBytes, [batch]);
    await datasync(active);
    if (isNew) await syncDirectory(this.#deps.files, this.#options.directory);
  }

  async #roll(): Promise<void> {
    const fresh = await this.#deps.files.open(this.#path(this.#end), "open-or-create");
    await fresh.truncate(0);
    await this.#active?.close();
    this.#active = fresh;
    this.#activeBytes = 0;
    if (this.#bases.at(-1) !== this.#end) this.#bases.push(this.#end);
  }

  /** A write that met a full disk leaves no trace, not even after a power loss. */
  async #takeBack(): Promise<void> {
    if (this.#active === undefined) return;
    try {
      await this.#active.truncate(this.#activeBytes);
      await datasync(this.#active);
      await syncDirectory(this.#deps.files, this.#options.directory);
    } catch (thrown) {
      throw this.#fail(thrown);
    }
  }

  #fail(thrown: unknown): OttlaError {
    this.#failure ??= diskFailed(thrown);
    return this.#failure;
  }

  async #makeReserve(): Promise<void> {
    const path = join(this.#options.directory, RESERVE);
    try {
      await withFile(this.#deps.files, { path, mode: "open-or-create" }, async (handle) => {
        const size = await handle.size();
        if (size < RESERVE_BYTES) await handle.write(size, [new Uint8Array(RESERVE_BYTES - size)]);
        await datasync(handle);
      });
      this.#isReserved = true;
    } catch (thrown) {
      if (!isNoSpace(thrown)) throw thrown;
      await unlinkIfThere(this.#deps.files, path);
    }
  }

  async #giveUpReserve(): Promise<boolean> {
    if (!this.#isReserved) return false;
    this.#isReserved = false;
    const path = join(this.#options.directory, RESERVE);
    await withFile(this.#deps.files, { path, mode: "write" }, (handle) => handle.truncate(0));
    return true;
  }

  async replay(visit: (offset: Offset, epoch: LeaderEpoch, value: Uint8Array) => void): Promise<void> {
    for (const base of this.#bases) {
      const end = await withFile(this.#deps.files, { path: this.#path(base), mode: "read" }, async (handle) =>
        scanBatches(handle, {
          from: 0,
          end: await handle.size(),
          checksum: this.#deps.checksum,
          visit: (batch) => this.#visit(batch, visit),
        }),
      );
      if (end.kind !== "end") throw this.#damaged(base, `${end.reason} at position ${end.position}`);
    }
  }

  /** Values are copies: the walk uses its buffer again. */
  #visit(batch: ScannedBatch, visit: (offset: Offset, epoch: LeaderEpoch, value: Uint8Array) => void): boolean {
    const bytes = batch.bytes.slice(batch.at, batch.at + batch.sizeBytes);
    const { checksum, codecs } = this.#deps;
    const decoded = decodeRecords(bytes, { checksum, codecs, decompressedBytesMax: BATCH_BYTES_MAX });
    for (const record of decoded)
      visit(record.offset as Offset, decoded.leaderEpoch as LeaderEpoch, record.value ?? new Uint8Array(0));
    return true;
  }

  async close(): Promise<void> {
    this.#failure ??= new OttlaError("CLOSED", "the lane log is closed");
    await this.#active?.close().catch(() => undefined);
    this.#active = undefined;
  }
}
