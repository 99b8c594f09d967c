// Looks at what lies beside a segment from outside: whether its indexes say of the log what is there, and whether its batches are those that were
// written to it (D-16). All of it is read only, held against the batches as they are walked.
import { maxTimestampAt, recordCountAt } from "../model/record-batch.ts";
import type { ScannedBatch } from "./batch-scan.ts";
import { isNotFound } from "./faults.ts";
import { readWhole, withFile } from "./file-work.ts";
import { chainOver, segmentSeed, UNKNOWN_CHAIN } from "./identity.ts";
import { decodeIdentity, IDENTITY_HEADER_BYTES, IDENTITY_ROW_BYTES, type SegmentOwner } from "./identity-file.ts";
import type { IdentityRows } from "./identity-rows.ts";
import type { Fault, InspectDeps, Remark } from "./inspect-types.ts";
import { INDEX_ENTRY_BYTES, OffsetIndex } from "./offset-index.ts";
import { IDENT_SUFFIX, INDEX_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX } from "./paths.ts";
import { decodeSnapshot } from "./producer-snapshot.ts";
import type { IndexCheck } from "./saved-entries.ts";
import type { SegmentState } from "./segment.ts";
import { TIME_INDEX_ENTRY_BYTES, TimeIndex } from "./time-index.ts";

/** Undefined: there is none. */
export async function readSidecar(deps: InspectDeps, path: string): Promise<Uint8Array | undefined> {
  try {
    return await withFile(deps.files, { path, mode: "read" }, readWhole);
  } catch (thrown) {
    if (!isNotFound(thrown)) throw thrown;
    return undefined;
  }
}

const notIncreasing = (entryBytes: number): string =>
  `the entries do not increase, or the size is no multiple of ${entryBytes}`;

/** What is known of the segment from elsewhere. */
export interface KnownSegment {
  /** Its files, without `.log` and the like. */
  readonly stem: string;
  /** Behind the names of its files: a checkpoint names them before they have their own. */
  readonly suffix: string;
  readonly base: number;
  /** What a checkpoint says. */
  readonly state: SegmentState | undefined;
  /** Whose it is. */
  readonly owner: Omit<SegmentOwner, "base"> | undefined;
}

/** The beginning of an index that a checkpoint speaks of; all of it when none does. */
function provenEntries(bytes: Uint8Array, check: IndexCheck | undefined, entryBytes: number): Uint8Array {
  return check === undefined ? bytes : bytes.subarray(0, check.entries * entryBytes);
}

interface IndexFile<Entries> {
  readonly path: string;
  readonly entryBytes: number;
  readonly check: IndexCheck | undefined;
  readonly decode: (bytes: Uint8Array) => Entries | undefined;
}

/** Follows the batches of one segment. */
export class SidecarCheck {
  readonly faults: Fault[] = [];
  readonly remarks: Remark[] = [];
  readonly #known: KnownSegment;
  readonly #indexPath: string;
  readonly #timesPath: string;
  readonly #identPath: string;
  #index: OffsetIndex | undefined;
  #times: TimeIndex | undefined;
  #rows: IdentityRows | undefined;
  #nextEntry = 0;
  #nextTime = 0;
  #nextRow = 1;
  #newest = -1;
  #chain: number | undefined;
  #wrongRow: number | undefined;

  private constructor(known: KnownSegment) {
    this.#known = known;
    const pathOf = (suffix: string): string => known.stem + suffix + known.suffix;
    this.#indexPath = pathOf(INDEX_SUFFIX);
    this.#timesPath = pathOf(TIME_INDEX_SUFFIX);
    this.#identPath = pathOf(IDENT_SUFFIX);
  }

  static async of(deps: InspectDeps, known: KnownSegment): Promise<SidecarCheck> {
    const check = new SidecarCheck(known);
    const { state } = known;
    check.#index = await check.#load(deps, {
      path: check.#indexPath,
      entryBytes: INDEX_ENTRY_BYTES,
      check: state?.indexCheck,
      decode: (bytes) => OffsetIndex.decode(bytes),
    });
    check.#times = await check.#load(deps, {
      path: check.#timesPath,
      entryBytes: TIME_INDEX_ENTRY_BYTES,
      check: state?.timesCheck,
      decode: (bytes) => TimeIndex.decode(bytes),
    });
    await check.#loadIdentity(deps);
    return check;
  }

  async #load<Entries>(deps: InspectDeps, file: IndexFile<Entries>): Promise<Entries | undefined> {
    const { path, entryBytes, check, decode } = file;
    const found = await readSidecar(deps, path);
    if (found === undefined) {
      if (check !== undefined && check.entries > 0)
        this.#remark(path, "the file is missing; it is made anew from the log");
      return undefined;
    }
    const bytes = provenEntries(found, check, entryBytes);
    if (check !== undefined && deps.checksum.crc32c(bytes) !== check.crc) {
      this.#fault(path, undefined, `its ${check.entries} entries are not those that the checkpoint speaks of`);
      return undefined;
    }
    const entries = decode(bytes);
    if (entries === undefined) this.#fault(path, undefined, notIncreasing(entryBytes));
    return entries;
  }

  async #loadIdentity(deps: InspectDeps): Promise<void> {
    const { owner: log, base } = this.#known;
    if (log === undefined) return;
    const owner = { ...log, base };
    this.#chain = segmentSeed(owner.topicId, owner.partition, base);
    const bytes = await readSidecar(deps, this.#identPath);
    if (bytes === undefined) return;
    const found = decodeIdentity(bytes, owner);
    if (typeof found === "string") return this.#remark(this.#identPath, found);
    if (found.fault !== undefined) this.#remark(this.#identPath, found.fault);
    this.#rows = found.rows;
  }

  visit(batch: ScannedBatch): void {
    this.#visitOffset(batch);
    this.#visitTime(batch);
    this.#visitIdentity(batch);
  }

  #visitOffset(batch: ScannedBatch): void {
    const entry =
      this.#index !== undefined && this.#nextEntry < this.#index.count ? this.#index.at(this.#nextEntry) : undefined;
    if (entry === undefined || entry.position > batch.position) return;
    const last = this.#known.base + entry.relativeLast;
    if (entry.position !== batch.position || last !== batch.last) {
      const reason = `entry ${this.#nextEntry} says that a batch up to offset ${last} starts at ${entry.position}`;
      this.#fault(this.#indexPath, this.#nextEntry * INDEX_ENTRY_BYTES, reason);
    }
    this.#nextEntry++;
  }

  #visitTime({ bytes, at, last: lastOffset }: ScannedBatch): void {
    if (recordCountAt(bytes, at) === 0) return;
    const before = this.#newest;
    const timestamp = maxTimestampAt(bytes, at);
    this.#newest = Math.max(before, timestamp);
    const entry =
      this.#times !== undefined && this.#nextTime < this.#times.count ? this.#times.at(this.#nextTime) : undefined;
    const last = this.#known.base + (entry?.relativeLast ?? 0);
    if (entry === undefined || last > lastOffset) return;
    if (last !== lastOffset || entry.timestamp !== timestamp || timestamp <= before) {
      const reason = `entry ${this.#nextTime} says that the batch up to offset ${last} is the first of ${entry.timestamp}`;
      this.#fault(this.#timesPath, this.#nextTime * TIME_INDEX_ENTRY_BYTES, reason);
    }
    this.#nextTime++;
  }

  #visitIdentity(batch: ScannedBatch): void {
    if (this.#chain === undefined) return;
    this.#chain = chainOver(this.#chain, batch.bytes, batch.at);
    const rows = this.#rows;
    const end = batch.position + batch.sizeBytes;
    if (rows === undefined || this.#nextRow >= rows.count || rows.positionAt(this.#nextRow) > end) return;
    const isRight =
      rows.positionAt(this.#nextRow) === end &&
      rows.chainAt(this.#nextRow) === this.#chain &&
      rows.relativeEndAt(this.#nextRow) === batch.last + 1 - this.#known.base;
    if (!isRight) this.#wrongRow ??= this.#nextRow;
    this.#nextRow++;
  }

  /** All batches were visited, and all were good. */
  finish(): void {
    if (this.#index !== undefined && this.#nextEntry < this.#index.count) {
      const left = this.#index.count - this.#nextEntry;
      this.#fault(this.#indexPath, this.#nextEntry * INDEX_ENTRY_BYTES, `${left} entries point behind the last batch`);
    }
    if (this.#times !== undefined && this.#nextTime < this.#times.count) {
      const left = this.#times.count - this.#nextTime;
      this.#fault(
        this.#timesPath,
        this.#nextTime * TIME_INDEX_ENTRY_BYTES,
        `${left} entries point behind the last batch`,
      );
    }
    this.#finishIdentity();
  }

  /** What a checkpoint says decides; the sidecar may be of another time than it. */
  #finishIdentity(): void {
    const known = this.#known.state?.chain ?? UNKNOWN_CHAIN;
    const isProven = known !== UNKNOWN_CHAIN && this.#chain !== undefined;
    if (isProven && known !== this.#chain) {
      const offset = this.#known.base + (this.#rows?.relativeEndAt((this.#wrongRow ?? 1) - 1) ?? 0);
      const reason = "its batches are not those that were written to it";
      const file = this.#known.stem + ".log" + this.#known.suffix;
      this.faults.push({ file, position: undefined, offset, reason });
      return;
    }
    if (this.#wrongRow === undefined) return;
    const position = IDENTITY_HEADER_BYTES + (this.#wrongRow - 1) * IDENTITY_ROW_BYTES;
    const reason = `row ${this.#wrongRow} is not of the batches that the segment has`;
    if (isProven) this.remarks.push({ file: this.#identPath, position, reason });
    else this.#fault(this.#identPath, position, `${reason}: one of the two is not what was written`);
  }

  #fault(file: string, position: number | undefined, reason: string): void {
    this.faults.push({ file, position, offset: undefined, reason });
  }

  #remark(file: string, reason: string): void {
    this.remarks.push({ file, position: 0, reason });
  }
}

/** One row of a file beside a segment, as it stands there. */
export type SidecarRow = Readonly<Record<string, number>>;

/** What the file holds, or why it cannot be read; `owner` of an identity only. */
export async function readSidecarRows(
  deps: InspectDeps,
  path: string,
  owner: SegmentOwner | undefined,
): Promise<readonly SidecarRow[] | Fault> {
  const bytes = await withFile(deps.files, { path, mode: "read" }, readWhole);
  const fault = (reason: string): Fault => ({ file: path, position: undefined, offset: undefined, reason });
  if (path.endsWith(INDEX_SUFFIX)) {
    const index = OffsetIndex.decode(bytes);
    return index === undefined
      ? fault(notIncreasing(INDEX_ENTRY_BYTES))
      : rowsOf(index.count, (row) => ({ ...index.at(row) }));
  }
  if (path.endsWith(TIME_INDEX_SUFFIX)) {
    const times = TimeIndex.decode(bytes);
    return times === undefined
      ? fault(notIncreasing(TIME_INDEX_ENTRY_BYTES))
      : rowsOf(times.count, (row) => ({ ...times.at(row) }));
  }
  if (path.endsWith(SNAPSHOT_SUFFIX)) {
    const entries = decodeSnapshot(bytes, deps.checksum);
    return typeof entries === "string" ? fault(entries) : entries.map((entry) => ({ ...entry }));
  }
  if (owner === undefined) return fault("whose it is cannot be told: there is no partition.metadata beside it");
  const found = decodeIdentity(bytes, owner);
  if (typeof found === "string") return fault(found);
  if (found.fault !== undefined) return fault(found.fault);
  const { rows } = found;
  return rowsOf(rows.count, (row) => ({
    relativeEnd: rows.relativeEndAt(row),
    position: rows.positionAt(row),
    chain: rows.chainAt(row),
  }));
}

function rowsOf(count: number, rowAt: (row: number) => SidecarRow): SidecarRow[] {
  return Array.from({ length: count }, (_, row) => rowAt(row));
}
