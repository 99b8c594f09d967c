// Reading the metadata log back: every entry, up to a torn tail. A tail is torn only if nothing says that it had been synced (D-11): no mark
// in the quorum state, and no later batch that was written after a sync of it. What is kept is written and synced again (D-13).
import { present } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import { OttlaError } from "../model/errors.ts";
import type { DirectoryId } from "../model/ids.ts";
import { baseOffsetAt, checkStoredBatch } from "../model/record-batch.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { FileHandle, Files } from "../ports/files.ts";
import { type ScannedBatch, scanBatches } from "./batch-scan.ts";
import { datasync, syncDirectory } from "./faults.ts";
import { unlinkIfThere, withFile } from "./file-work.ts";
import { baseOffsetOf, LOG_SUFFIX } from "./paths.ts";
import type { QuorumState } from "./quorum-state.ts";
import { type DecodedEntry, decodeEntry } from "./raft-entries.ts";
import { type LaneFile, laneFilePath } from "./raft-lane.ts";
import type { RaftOwner, StoredEntry } from "./raft-types.ts";
import type { StorageDeps } from "./types.ts";

const REWRITE_BYTES = 1024 * 1024;

type SurveyDeps = Pick<StorageDeps, "files" | "checksum">;
type KnownState = Pick<QuorumState, "owner" | "logStart" | "provenEnd" | "isResetting">;

/** What one more batch must be, and what is wrong with it otherwise. */
export class EntryWalk {
  readonly entries: StoredEntry[] = [];
  readonly files: LaneFile[] = [];
  /** Of the last entry: everything below had been synced when it was written. */
  lastSyncedEnd = 0;
  readonly #checksum: Checksum;
  readonly #owner: RaftOwner;
  end: number;
  term: number;

  constructor(state: KnownState, checksum: Checksum) {
    this.end = state.logStart.start;
    this.term = state.logStart.startTerm;
    this.#checksum = checksum;
    this.#owner = state.owner;
  }

  beginFile(base: number): void {
    this.files.push({ base, startTerm: this.term, positions: [], terms: [], sizeBytes: 0 });
  }

  /** Undefined: taken. Throws DATA_DIR_NEWER, DATA_DIR_FOREIGN. */
  take(batch: ScannedBatch, path: string): string | undefined {
    // A copy: the scan uses its buffer again.
    const bytes = batch.bytes.slice(batch.at, batch.at + batch.sizeBytes);
    if (batch.base !== this.end) return `index ${batch.base} where ${this.end} should be`;
    const decoded = decodeEntry(bytes, path, this.#checksum);
    if (typeof decoded === "string") return decoded;
    const { entry, syncedEnd, directoryId } = decoded;
    if (directoryId !== this.#owner.directoryId) throw foreign(path, entry.index, directoryId, this.#owner);
    if (entry.term < this.term) return `entry ${entry.index} of term ${entry.term} after term ${this.term}`;
    const file = present(this.files.at(-1), "file");
    file.positions.push(batch.position);
    file.terms.push(entry.term);
    file.sizeBytes = batch.position + batch.sizeBytes;
    this.entries.push(entry);
    this.lastSyncedEnd = syncedEnd;
    this.term = entry.term;
    this.end = entry.index + 1;
    return undefined;
  }
}

/** Where the walk of a file ended; `reason` is undefined at its end. */
export interface FileEnd {
  readonly position: number;
  readonly sizeBytes: number;
  readonly reason: string | undefined;
  /** Why this is damage and no torn tail, where that is known. */
  readonly damage: string | undefined;
}

/** Walks one file; the last one of a log may have a torn tail. */
export async function walkFile(
  deps: SurveyDeps,
  walk: EntryWalk,
  options: { readonly path: string; readonly base: number; readonly isLast: boolean },
): Promise<FileEnd> {
  const { path, base, isLast } = options;
  walk.beginFile(base);
  return withFile(deps.files, { path, mode: "read" }, async (handle) => {
    const sizeBytes = await handle.size();
    let fault: string | undefined;
    const stop = await scanBatches(handle, {
      from: 0,
      end: sizeBytes,
      checksum: deps.checksum,
      visit: (batch) => {
        fault = walk.take(batch, path);
        return fault === undefined;
      },
    });
    const reason = fault ?? (stop.kind === "end" ? undefined : stop.reason);
    const { position } = stop;
    if (reason === undefined) return { position, sizeBytes, reason, damage: undefined };
    const damage = isLast
      ? await damageBehind(deps, handle, { path, position, sizeBytes, end: walk.end })
      : "a later file follows";
    return { position, sizeBytes, reason, damage };
  });
}

/** A whole batch behind the break that was written after a sync of what should be there. */
async function damageBehind(
  deps: SurveyDeps,
  handle: FileHandle,
  tail: { readonly path: string; readonly position: number; readonly sizeBytes: number; readonly end: number },
): Promise<string | undefined> {
  const { path, position, sizeBytes, end } = tail;
  const rest = new Uint8Array(sizeBytes - position);
  const length = await handle.read(position, rest);
  for (let at = 0; at < length; at++) {
    const check = checkStoredBatch(rest, at, { end: length, checksum: deps.checksum });
    if (check.kind !== "valid" || baseOffsetAt(rest, at) < end) continue;
    const decoded: DecodedEntry | string = decodeEntry(rest.subarray(at, at + check.sizeBytes), path, deps.checksum);
    if (typeof decoded === "string" || decoded.syncedEnd <= end) continue;
    return `entry ${decoded.entry.index} at position ${position + at} was written after a sync of it`;
  }
  return undefined;
}

/** What the files hold, and what recovery has to do with them. */
export interface LaneSurvey {
  readonly directory: string;
  readonly walk: EntryWalk;
  /** Of files that hold nothing of the log. */
  readonly garbage: readonly number[];
  /** Undefined: there is no file. */
  readonly fileEnd: FileEnd | undefined;
}

/** Bases of the files that may hold something, oldest first. */
export async function laneBases(files: Files, directory: string): Promise<number[]> {
  const names = (await files.list(directory)).map(({ name }) => name);
  return names.flatMap((name) => (name.endsWith(LOG_SUFFIX) ? (baseOffsetOf(name)?.base ?? []) : []));
}

/** Reads all of the log. Changes nothing. Rejects with DATA_DAMAGED, DATA_DIR_NEWER or DATA_DIR_FOREIGN. */
export async function surveyLane(deps: SurveyDeps, directory: string, state: KnownState): Promise<LaneSurvey> {
  const bases = await laneBases(deps.files, directory);
  const kept = state.isResetting ? [] : bases.filter((base) => base >= state.logStart.start);
  const walk = new EntryWalk(state, deps.checksum);
  const fileEnd = await walkFiles(deps, walk, { directory, bases: kept });
  if (walk.end < state.provenEnd) {
    const place = fileEnd?.reason === undefined ? "" : ` (${fileEnd.reason})`;
    throw damaged(directory, `the log ends at ${walk.end}${place}, but was synced up to ${state.provenEnd}`);
  }
  return { directory, walk, garbage: bases.filter((base) => !kept.includes(base)), fileEnd };
}

/** Makes the disk hold what the survey found, and nothing else; everything of it is durable afterwards. */
export async function settleLane(deps: StorageDeps, survey: LaneSurvey): Promise<void> {
  const { directory, walk, garbage, fileEnd } = survey;
  for (const base of garbage) await unlinkIfThere(deps.files, laneFilePath(directory, base));
  const last = walk.files.at(-1);
  if (last !== undefined && fileEnd !== undefined) await settleLast(deps, { directory, walk, last, fileEnd });
  await syncDirectory(deps.files, directory);
}

async function walkFiles(
  deps: SurveyDeps,
  walk: EntryWalk,
  options: { readonly directory: string; readonly bases: readonly number[] },
): Promise<FileEnd | undefined> {
  const { directory, bases } = options;
  let fileEnd: FileEnd | undefined;
  for (const [place, base] of bases.entries()) {
    const path = laneFilePath(directory, base);
    if (base !== walk.end) throw damaged(path, `a file that begins at ${walk.end} should come first`);
    fileEnd = await walkFile(deps, walk, { path, base, isLast: place === bases.length - 1 });
    if (fileEnd.damage !== undefined)
      throw damaged(path, `${fileEnd.reason} at position ${fileEnd.position}: ${fileEnd.damage}`);
  }
  return fileEnd;
}

function foreign(
  path: string,
  index: number,
  directoryId: DirectoryId,
  { nodeId, directoryId: own }: RaftOwner,
): OttlaError {
  const text = `entry ${index} was written in directory ${directoryId}, this is directory ${own} of node ${nodeId}`;
  return new OttlaError("DATA_DIR_FOREIGN", `${path}: ${text}`);
}

const damaged = (path: string, reason: string): OttlaError => new OttlaError("DATA_DAMAGED", `${path}: ${reason}`);

/** Cuts the torn tail of the last file, and writes again what the page cache may show though a sync of it failed (D-13). */
async function settleLast(
  deps: StorageDeps,
  found: { readonly directory: string; readonly walk: EntryWalk; readonly last: LaneFile; readonly fileEnd: FileEnd },
): Promise<void> {
  const { walk, last, fileEnd } = found;
  const path = laneFilePath(found.directory, last.base);
  const { reason, position, sizeBytes } = fileEnd;
  if (reason !== undefined)
    deps.logger.warn("metadata_tail_cut", { file: path, position, bytes: sizeBytes - position, reason });
  const from = last.positions[Math.max(walk.lastSyncedEnd, last.base) - last.base] ?? last.sizeBytes;
  await withFile(deps.files, { path, mode: "write" }, async (handle) => {
    await handle.truncate(last.sizeBytes);
    for (let at = mutant("D-13q") ? last.sizeBytes : from; at < last.sizeBytes; at += REWRITE_BYTES) {
      const bytes = new Uint8Array(Math.min(REWRITE_BYTES, last.sizeBytes - at));
      await handle.read(at, bytes);
      await handle.write(at, [bytes]);
    }
    await datasync(handle);
  });
}
