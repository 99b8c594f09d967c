// Looks at the metadata directory of a stopped node from outside: hard state, log, snapshots, marks of others. Reads only.
import { asOttlaError } from "../model/errors.ts";
import { baseOffsetAt } from "../model/record-batch.ts";
import { scanBatches } from "./batch-scan.ts";
import { readWhole, withFile } from "./file-work.ts";
import type { PassedOver } from "./format.ts";
import type { Fault, InspectDeps, LogReport, MetadataReport, Remark, SnapshotReport } from "./inspect-types.ts";
import { join } from "./paths.ts";
import { checkOwner, QUORUM_STATE, type QuorumState, readQuorumState } from "./quorum-state.ts";
import { decodeEntry } from "./raft-entries.ts";
import { laneFilePath } from "./raft-lane.ts";
import { EntryWalk, type FileEnd, laneBases, walkFile } from "./raft-lane-recovery.ts";
import type { RaftOwner, StoredEntry, StoredSnapshotMeta } from "./raft-types.ts";
import { snapshotOf, verifySnapshot } from "./snapshot-file.ts";

export interface MetadataFindings {
  readonly logs: readonly LogReport[];
  readonly metadata: MetadataReport;
  readonly faults: readonly Fault[];
  readonly remarks: readonly Remark[];
}

/** What may be there before anything was ever written. */
const FIRST_NAMES: ReadonlySet<string> = new Set(["reserve", `${QUORUM_STATE}.new`]);

const faultIn = (file: string, reason: string, place: Partial<Pick<Fault, "position" | "offset">> = {}): Fault => ({
  file,
  position: place.position,
  offset: place.offset,
  reason,
});

/** Everything that a start checks, and the older snapshots too; does not stop at the first fault. */
export async function verifyMetadata(deps: InspectDeps, directory: string, own?: RaftOwner): Promise<MetadataFindings> {
  const faults: Fault[] = [];
  const remarks: Remark[] = [];
  const state = await readState(deps, directory, { own, faults, remarks });
  const snapshots = await verifySnapshots(deps, directory, own ?? state?.owner);
  const logs = state === undefined ? [] : await verifyLogs(deps, { directory, state, faults });
  const reached = snapshots.at(-1)?.meta?.end ?? 0;
  const areWhole = snapshots.every((each) => each.faults.length === 0);
  if (state !== undefined && areWhole && state.logStart.start > reached) {
    const { start } = state.logStart;
    faults.push(faultIn(directory, `the log starts at ${start}, and no snapshot reaches it`, { offset: 0 }));
  }
  return { logs, metadata: { state, snapshots }, faults, remarks };
}

async function readState(
  deps: InspectDeps,
  directory: string,
  known: { readonly own: RaftOwner | undefined; readonly faults: Fault[]; readonly remarks: Remark[] },
): Promise<QuorumState | undefined> {
  const { own, faults, remarks } = known;
  const path = join(directory, QUORUM_STATE);
  const names = (await deps.files.list(directory)).map(({ name }) => name);
  if (!names.includes(QUORUM_STATE)) {
    if (names.some((name) => !FIRST_NAMES.has(name))) faults.push(faultIn(path, "the file is missing"));
    return undefined;
  }
  try {
    const bytes = await withFile(deps.files, { path, mode: "read" }, readWhole);
    const { state, passedOver } = readQuorumState(bytes, path, deps.checksum);
    if (passedOver !== undefined) remarks.push(slotRemark(path, passedOver));
    if (own !== undefined) checkOwner(path, state.owner, own);
    return state;
  } catch (thrown) {
    faults.push(faultIn(path, asOttlaError(thrown).message));
    return undefined;
  }
}

/** A slot is written again by the next start. */
export const slotRemark = (file: string, { position, reason }: PassedOver): Remark => ({
  file,
  position,
  reason: `${reason}: this slot is passed over, the other one counts (a write that a crash cut short, or rot)`,
});

async function verifySnapshots(
  deps: InspectDeps,
  directory: string,
  own: RaftOwner | undefined,
): Promise<SnapshotReport[]> {
  const reports: SnapshotReport[] = [];
  for (const { name } of await deps.files.list(directory)) {
    const named = snapshotOf(name);
    if (named === undefined) continue;
    const file = join(directory, name);
    reports.push(await verifyOne(deps, { file, named, own }));
  }
  return reports;
}

async function verifyOne(
  deps: InspectDeps,
  expected: {
    readonly file: string;
    readonly named: Pick<StoredSnapshotMeta, "end" | "lastTerm">;
    readonly own: RaftOwner | undefined;
  },
): Promise<SnapshotReport> {
  const { file, named, own } = expected;
  try {
    const { meta, owner } = await withFile(deps.files, { path: file, mode: "read" }, (handle) =>
      verifySnapshot(handle, deps.checksum),
    );
    if (own !== undefined) checkOwner(file, owner, own);
    const isNamed = meta.end === named.end && meta.lastTerm === named.lastTerm;
    const faults = isNamed ? [] : [faultIn(file, `it says that it ends at ${meta.end} in term ${meta.lastTerm}`)];
    return { file, meta, faults };
  } catch (thrown) {
    return { file, meta: undefined, faults: [faultIn(file, asOttlaError(thrown).message)] };
  }
}

async function verifyLogs(
  deps: InspectDeps,
  known: { readonly directory: string; readonly state: QuorumState; readonly faults: Fault[] },
): Promise<LogReport[]> {
  const { directory, state, faults } = known;
  // Files below the start were dropped, those of a log that is being replaced hold nothing any more.
  const bases = state.isResetting
    ? []
    : (await laneBases(deps.files, directory)).filter((base) => base >= state.logStart.start);
  const walk = new EntryWalk(state, deps.checksum);
  const logs: LogReport[] = [];
  for (const [place, base] of bases.entries()) {
    const path = laneFilePath(directory, base);
    if (base !== walk.end) {
      faults.push(faultIn(path, `a file that begins at ${walk.end} should come first`, { offset: walk.end }));
      return logs;
    }
    const report = await verifyLogFile(deps, walk, { path, base, isLast: place === bases.length - 1 });
    logs.push(report);
    // Behind a fault nothing can be said of what should come next.
    if (report.faults.length > 0) return logs;
  }
  if (walk.end < state.provenEnd) {
    const reason = `the log ends at ${walk.end}, but was synced up to ${state.provenEnd}`;
    faults.push(faultIn(directory, reason, { offset: walk.end }));
  }
  return logs;
}

async function verifyLogFile(
  deps: InspectDeps,
  walk: EntryWalk,
  options: { readonly path: string; readonly base: number; readonly isLast: boolean },
): Promise<LogReport> {
  const { path, base } = options;
  const faults: Fault[] = [];
  let end: FileEnd | undefined;
  try {
    end = await walkFile(deps, walk, options);
    const { damage, position, reason } = end;
    if (damage !== undefined) faults.push(faultIn(path, `${reason}; ${damage}`, { position, offset: walk.end }));
  } catch (thrown) {
    faults.push(faultIn(path, asOttlaError(thrown).message, { offset: walk.end }));
  }
  const sizeBytes = walk.files.at(-1)?.sizeBytes ?? 0;
  const count = walk.end - base;
  return {
    file: path,
    baseOffset: base,
    endOffset: walk.end,
    batchCount: count,
    recordCount: count,
    sizeBytes,
    tailBytes: (end?.sizeBytes ?? sizeBytes) - sizeBytes,
    faults,
  };
}

export interface EntrySummary {
  readonly position: number;
  readonly sizeBytes: number;
  readonly timestamp: number;
  /** How far the log had been synced when the entry was written. */
  readonly syncedEnd: number;
}

/** Visits the entries of a file of the metadata log up to the first that is not whole and intact, which is the fault returned. */
export async function dumpEntries(
  deps: InspectDeps,
  path: string,
  visit: (entry: StoredEntry, summary: EntrySummary) => void,
): Promise<Fault | undefined> {
  let next: number | undefined;
  let reason: string | undefined;
  const end = await withFile(deps.files, { path, mode: "read" }, async (handle) =>
    scanBatches(handle, {
      from: 0,
      end: await handle.size(),
      checksum: deps.checksum,
      visit: ({ bytes, at, position, sizeBytes }) => {
        const decoded = decodeEntry(bytes.slice(at, at + sizeBytes), path, deps.checksum);
        next = baseOffsetAt(bytes, at);
        if (typeof decoded === "string") {
          reason = decoded;
          return false;
        }
        const { entry, timestamp, syncedEnd } = decoded;
        next++;
        visit(entry, { position, sizeBytes, timestamp, syncedEnd });
        return true;
      },
    }),
  );
  const fault = reason ?? (end.kind === "end" ? undefined : end.reason);
  return fault === undefined ? undefined : faultIn(path, fault, { position: end.position, offset: next });
}
