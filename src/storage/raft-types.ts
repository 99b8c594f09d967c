// What storage/ promises to the quorum: one store per node for the metadata log, its hard state, its snapshots and its marks of others
// (D-19, D-20). Positions are indices from 0; every `end` is exclusive.
import type { OttlaError } from "../model/errors.ts";
import type { DirectoryId, NodeId } from "../model/ids.ts";

/** One entry of the metadata log, as it lies on the disk; what its bytes mean is the host's business. */
export interface StoredEntry {
  readonly index: number;
  readonly term: number;
  readonly kind: "command" | "leaderStart" | "configuration";
  /** Empty for leaderStart. */
  readonly bytes: Uint8Array;
}

export interface StoredHardState {
  readonly term: number;
  readonly votedFor: string | null;
}

/** Names the state made of all entries below `end`. */
export interface StoredSnapshotMeta {
  readonly end: number;
  /** Term of the entry at end - 1. */
  readonly lastTerm: number;
  readonly sizeBytes: number;
  readonly configuration: Uint8Array;
}

/** Where a log begins, and the term of the entry before. */
export interface StoredLogStart {
  readonly start: number;
  readonly startTerm: number;
}

/** Carried out whole, in the order of the fields (D-19): each is durable before the next one begins. */
export interface RaftWrite {
  readonly hardState: StoredHardState | null;
  /** Nothing of the log before stays: it is empty and starts here. */
  readonly resetLogTo: StoredLogStart | null;
  /** Every entry at and above this index goes. At or above the end: nothing to do. */
  readonly cutSuffixTo: number | null;
  /** The first one's index is the end of the log. */
  readonly entries: readonly StoredEntry[];
  /** Entries below may go: whole files of them do. */
  readonly cutPrefixTo: number | null;
}

/** What this disk remembers of another voter (D-20). */
export interface PeerMark {
  readonly boots: number;
  readonly term: number;
  readonly end: number;
}

/** A snapshot being written to a temporary file. */
export interface SnapshotSink {
  /** In order: `position` is where the last write ended. Rejects STORAGE_FULL or STORAGE_ERROR (abandon it and begin again later) or DISK_FAILED. */
  write(position: number, bytes: Uint8Array): Promise<void>;
  /** Synced, renamed, directory synced: afterwards it is a snapshot of the store, and the newest one if its end is the highest. */
  finish(): Promise<void>;
  /** Leaves nothing behind. Never rejects. Also after a failed write or finish. */
  abandon(): Promise<void>;
}

export interface RestoredLog extends StoredLogStart {
  readonly entries: readonly StoredEntry[];
}

export interface RestoredRaft {
  readonly hardState: StoredHardState;
  /** The newest one; its bytes were checked. Never below the log's start. */
  readonly snapshot: StoredSnapshotMeta | null;
  readonly log: RestoredLog;
}

export interface RaftStore {
  /** What was found at the start. Its entries are let go when a write drops the log's beginning. */
  readonly restored: RestoredRaft;
  /** True: no entry, no snapshot and no log start was found; such a node knows of no cluster. */
  readonly isEmpty: boolean;
  /** Starts of this disk, this one included; durable before open resolves. */
  readonly boots: number;
  /** By replica id. */
  readonly marks: ReadonlyMap<string, PeerMark>;
  /**
   * Queued in order; resolves when durable; writes that wait share a sync. STORAGE_FULL or STORAGE_ERROR: of its entries nothing is left, nor
   * of any write queued behind it (all rejected alike); may be tried again later. DISK_FAILED is final.
   */
  write(batch: RaftWrite): Promise<void>;
  writeMarks(marks: ReadonlyMap<string, PeerMark>): Promise<void>;
  beginSnapshot(meta: StoredSnapshotMeta): Promise<SnapshotSink>;
  /** Up to `length` bytes, fewer only at the end of the snapshot; undefined: no such snapshot, any more, or its bytes are damaged. */
  readSnapshot(end: number, position: number, length: number): Promise<Uint8Array | undefined>;
  /** Deletes snapshots other than the newest and those of these ends. */
  retainSnapshots(ends: readonly number[]): Promise<void>;
  /** Told once, and at once if it has happened: the disk failed a write or a sync, be it of a note that nobody waits for. Stop the process (D-13). */
  onFailed(listener: (error: OttlaError) => void): void;
  /** Finishes what is queued. Always ends. */
  close(): Promise<void>;
}

/** The disk that a metadata directory is of. */
export interface RaftOwner {
  readonly nodeId: NodeId;
  readonly directoryId: DirectoryId;
}

export interface RaftStoreOptions {
  /** Stands in each file: those of another disk are refused. */
  readonly owner: RaftOwner;
  /** Its parent exists. */
  readonly directory: string;
  readonly segmentBytes: number;
}
