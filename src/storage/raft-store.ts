// Opening the metadata directory (D-19): what it is, whether all of it is there and fits together, and only then anything is changed.
import { OttlaError } from "../model/errors.ts";
import { openingFailure, syncDirectory } from "./faults.ts";
import { baseOffsetOf, join, RESERVE } from "./paths.ts";
import {
  checkOwner,
  decodeQuorumState,
  emptyQuorumState,
  encodeQuorumState,
  QUORUM_STATE,
  QUORUM_STATE_FORMAT,
  type QuorumState,
} from "./quorum-state.ts";
import { RaftLane } from "./raft-lane.ts";
import { settleLane, surveyLane } from "./raft-lane-recovery.ts";
import { RaftReserve } from "./raft-reserve.ts";
import { RaftSnapshots } from "./raft-snapshots.ts";
import { RaftStoreImpl } from "./raft-store-impl.ts";
import type { RaftStore, RaftStoreOptions, RestoredLog, StoredLogStart, StoredSnapshotMeta } from "./raft-types.ts";
import { SlotFile } from "./slot-file.ts";
import { isTemporary, snapshotOf } from "./snapshot-file.ts";
import type { StorageDeps } from "./types.ts";

const STATE_NEW = `${QUORUM_STATE}.new`;
/** What may be there when the first start was cut short. */
const FIRST_NAMES = new Set([STATE_NEW, RESERVE]);
/** Of a build from before the quorum. */
const OLD_LANE = "lane.metadata";

/** Rejects with OttlaError: DATA_DAMAGED, DATA_DIR_NEWER, DATA_DIR_FOREIGN, DATA_DIR_READ_ONLY, STORAGE_FULL, DISK_FAILED. A refusal changes nothing. */
export async function openRaftStore(deps: StorageDeps, options: RaftStoreOptions): Promise<RaftStore> {
  try {
    await makeFirst(deps, options);
    await syncNames(deps, options.directory);
    const path = join(options.directory, QUORUM_STATE);
    const { file, payload, passedOver } = await SlotFile.open(deps, path, QUORUM_STATE_FORMAT, (bytes) =>
      checkOwner(path, decodeQuorumState(bytes).owner, options.owner),
    );
    if (passedOver !== undefined) deps.logger.warn("quorum_state_slot_damaged", { file: path, ...passedOver });
    try {
      return await openWith(deps, { options, stateFile: file, found: decodeQuorumState(payload) });
    } catch (thrown) {
      await file.close().catch(() => undefined);
      throw thrown;
    }
  } catch (thrown) {
    throw openingFailure(thrown, options.directory);
  }
}

/** A new directory: its state appears whole. */
async function makeFirst(deps: StorageDeps, { directory, owner }: RaftStoreOptions): Promise<void> {
  const { files } = deps;
  await files.makeDirectory(directory);
  const names = (await files.list(directory)).map(({ name }) => name);
  if (names.includes(QUORUM_STATE)) return;
  const other = names.find((name) => !FIRST_NAMES.has(name));
  if (other !== undefined) throw lostState(directory, names, other);
  const fresh = join(directory, STATE_NEW);
  await SlotFile.write(deps, fresh, QUORUM_STATE_FORMAT, encodeQuorumState(emptyQuorumState(owner)));
  await files.rename(fresh, join(directory, QUORUM_STATE));
}

/** The first start may have died before its names were durable, and nothing shows that. */
async function syncNames(deps: StorageDeps, directory: string): Promise<void> {
  await syncDirectory(deps.files, directory);
  const slash = directory.lastIndexOf("/");
  if (slash > 0) await syncDirectory(deps.files, directory.slice(0, slash));
}

function lostState(directory: string, names: readonly string[], other: string): OttlaError {
  if (names.includes(OLD_LANE))
    return new OttlaError("DATA_DIR_FOREIGN", `${directory} was written by a build from before the metadata quorum`);
  const isOwn = baseOffsetOf(other) !== undefined || snapshotOf(other) !== undefined || isTemporary(other);
  return isOwn
    ? new OttlaError("DATA_DAMAGED", `${directory} has lost its ${QUORUM_STATE}: it holds ${other}`)
    : new OttlaError("DATA_DIR_FOREIGN", `${directory} has no ${QUORUM_STATE} but holds ${other}`);
}

interface Found {
  readonly options: RaftStoreOptions;
  readonly stateFile: SlotFile;
  readonly found: QuorumState;
}

async function openWith(deps: StorageDeps, { options, stateFile, found }: Found): Promise<RaftStore> {
  const { directory } = options;
  const snapshots = await RaftSnapshots.open(deps, options);
  const survey = await surveyLane(deps, directory, found);
  const { newest } = snapshots;
  checkStart(directory, found.logStart, newest);
  await settleLane(deps, survey);
  await snapshots.removeTemporary();
  const lane = new RaftLane(deps, options, found.logStart, survey.walk.files);
  const state = { ...found, boots: found.boots + 1, isResetting: false, provenEnd: lane.end };
  await stateFile.commit(encodeQuorumState(state));
  const reserve = new RaftReserve(deps, directory);
  await reserve.ensure();
  const begin = beginAtSnapshot(lane, newest);
  const log: RestoredLog =
    begin === undefined ? { ...lane.start, entries: survey.walk.entries } : { ...begin, entries: [] };
  const restored = { hardState: state.hardState, snapshot: newest, log };
  const store = new RaftStoreImpl(deps, { restored, state, stateFile, lane, snapshots, reserve });
  if (begin !== undefined)
    await store.write({ hardState: null, resetLogTo: begin, cutSuffixTo: null, entries: [], cutPrefixTo: null });
  return store;
}

/** a snapshot was installed, and the log does not reach it, or differs from it there. Undefined: the log goes on from it. */
function beginAtSnapshot(lane: RaftLane, newest: StoredSnapshotMeta | null): StoredLogStart | undefined {
  if (newest === null || lane.termBefore(newest.end) === newest.lastTerm) return undefined;
  return { start: newest.end, startTerm: newest.lastTerm };
}

/** what lies below the log's start is in a snapshot. */
function checkStart(directory: string, { start }: StoredLogStart, newest: StoredSnapshotMeta | null): void {
  if (start <= (newest?.end ?? 0)) return;
  const found = newest === null ? "no snapshot" : `no snapshot beyond ${newest.end}`;
  throw new OttlaError("DATA_DAMAGED", `${directory}: the log starts at ${start}, and there is ${found}`);
}
