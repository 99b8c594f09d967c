// The words of the Raft core: what a log holds, what nodes tell each other, what the host is asked to do.
//
// Positions are offsets from 0 and every `end` is exclusive: a prefix of the log is named by (end, term of its last entry).
import type { Brand } from "../base/brand.ts";
import type { DirectoryId, NodeId } from "../model/ids.ts";

/** Raised at each election; 0 before the first. */
export type Term = Brand<number, "Term">;
export const NO_TERM = 0 as Term;
export const nextTerm = (term: Term): Term => (term + 1) as Term;

/** A node on one disk: `<node id>:<directory id>`. The same node with another disk is somebody else (D-20). */
export type ReplicaId = Brand<string, "ReplicaId">;
export const toReplicaId = (nodeId: NodeId, directoryId: DirectoryId): ReplicaId =>
  `${nodeId}:${directoryId}` as ReplicaId;
export const nodeIdOf = (replica: ReplicaId): NodeId => Number(replica.slice(0, replica.indexOf(":"))) as NodeId;
export const directoryIdOf = (replica: ReplicaId): DirectoryId =>
  replica.slice(replica.indexOf(":") + 1) as DirectoryId;

/** Who decides (voters) and who only follows until it is promoted (learners). Both sorted, without duplicates, disjoint. */
export interface Configuration {
  readonly voters: readonly ReplicaId[];
  readonly learners: readonly ReplicaId[];
}

/** Must be durable before anything that depends on it leaves the node. */
export interface HardState {
  readonly term: Term;
  readonly votedFor: ReplicaId | null;
}

/** Names the state made of all entries below `end`. */
export interface SnapshotMeta {
  readonly end: number;
  /** Term of the entry at end - 1. */
  readonly lastTerm: Term;
  /** The configuration in force at `end`. */
  readonly configuration: Configuration;
  readonly sizeBytes: number;
}

interface EntryBase {
  readonly index: number;
  readonly term: Term;
}
export type Entry =
  | (EntryBase & { readonly kind: "command"; readonly bytes: Uint8Array })
  /** What a new leader appends first: earlier entries commit only through it. */
  | (EntryBase & { readonly kind: "leaderStart" })
  /** In force as soon as it is in a log, committed or not. */
  | (EntryBase & { readonly kind: "configuration"; readonly configuration: Configuration });

const ENTRY_OVERHEAD_BYTES = 32;
export const entrySizeBytes = (entry: Entry): number =>
  ENTRY_OVERHEAD_BYTES + (entry.kind === "command" ? entry.bytes.length : 0);

interface Envelope {
  readonly from: ReplicaId;
  readonly to: ReplicaId;
  /** The sender's term; of a pre-vote request and of its granting answer: the term that the candidate would campaign in. */
  readonly term: Term;
}
export interface VoteRequest extends Envelope {
  readonly kind: "voteRequest";
  readonly isPreVote: boolean;
  /** Campaigning because the leader asked for it: a live leader is no reason to refuse. */
  readonly isTransfer: boolean;
  /** The candidate's log: (end, term of its last entry). */
  readonly end: number;
  readonly lastTerm: Term;
}
export interface VoteResponse extends Envelope {
  readonly kind: "voteResponse";
  readonly isPreVote: boolean;
  readonly isGranted: boolean;
}
export interface Append extends Envelope {
  readonly kind: "append";
  /** Index of the first entry carried; the receiver's log must end there, or reach it, with `prevTerm` before it. */
  readonly start: number;
  readonly prevTerm: Term;
  readonly entries: readonly Entry[];
  readonly commitEnd: number;
}
/** The sender's log is durable up to `end` and equal to the leader's up to there. */
export interface AppendMatched extends Envelope {
  readonly kind: "appendMatched";
  readonly end: number;
}
export interface AppendRefused extends Envelope {
  readonly kind: "appendRefused";
  /** `start` of the append that did not fit. */
  readonly start: number;
  /** The longest prefix of the sender's log that may still be the leader's: its end and last term. */
  readonly hintEnd: number;
  readonly hintTerm: Term;
}
export interface Heartbeat extends Envelope {
  readonly kind: "heartbeat";
  /** Never above what the receiver has acknowledged. */
  readonly commitEnd: number;
  /** Which round of questions "am I still the leader?" this belongs to. */
  readonly round: number;
}
export interface HeartbeatResponse extends Envelope {
  readonly kind: "heartbeatResponse";
  readonly round: number;
}
export interface SnapshotChunk extends Envelope {
  readonly kind: "snapshotChunk";
  readonly snapshot: SnapshotMeta;
  readonly position: number;
  /** How many bytes the host attaches before it sends. */
  readonly sizeBytes: number;
  /** Empty when handed out. */
  readonly bytes: Uint8Array;
}
export interface SnapshotResponse extends Envelope {
  readonly kind: "snapshotResponse";
  readonly snapshotEnd: number;
  /** The position wanted next. */
  readonly position: number;
}
export interface TimeoutNow extends Envelope {
  readonly kind: "timeoutNow";
}
export type Message =
  | VoteRequest
  | VoteResponse
  | Append
  | AppendMatched
  | AppendRefused
  | Heartbeat
  | HeartbeatResponse
  | SnapshotChunk
  | SnapshotResponse
  | TimeoutNow;

/** Where a log begins, and the term of the entry before. */
export interface LogStart {
  readonly start: number;
  readonly startTerm: Term;
}

/** One step of the log's own lane: carried out whole, in the order of the fields, batches in the order of their ids. */
export interface WriteBatch {
  readonly id: number;
  readonly hardState: HardState | null;
  /** The installed snapshot is durable and the log does not reach it: the log becomes empty and starts here. */
  readonly resetLogTo: LogStart | null;
  /** Remove every entry at and above this index, durably, before anything is appended. */
  readonly cutSuffixTo: number | null;
  readonly entries: readonly Entry[];
  /** Entries below are in a durable snapshot: their space may be taken back, now or later. */
  readonly cutPrefixTo: number | null;
  /** May leave only when this batch and all before it are durable. */
  readonly messagesAfterSync: readonly Message[];
}

/** A piece of a snapshot that arrives: append it to its temporary file at `position` (0 begins a new file). */
export interface SnapshotWrite {
  readonly snapshot: SnapshotMeta;
  readonly position: number;
  readonly bytes: Uint8Array;
  /** Sync the file, rename it, sync its directory, and only then call `snapshotDurable`. */
  readonly isLast: boolean;
}

export type ReadResult =
  /** The answer is linearizable once everything below `end` is applied. */
  | { readonly kind: "readable"; readonly token: number; readonly end: number }
  | { readonly kind: "failed"; readonly token: number };

export interface Ready {
  readonly write: WriteBatch | null;
  /** Free to go now. A snapshotChunk leaves with `sizeBytes` bytes of the named snapshot attached. */
  readonly messages: readonly Message[];
  readonly snapshotWrites: readonly SnapshotWrite[];
  /** Replace the whole state machine by this durable snapshot before applying anything more. */
  readonly loadSnapshot: SnapshotMeta | null;
  readonly committed: readonly Entry[];
  readonly reads: readonly ReadResult[];
}

/** What a node finds on its disk. */
export interface RestoredState {
  readonly hardState: HardState;
  readonly snapshot: SnapshotMeta | null;
  readonly log: LogStart & { readonly entries: readonly Entry[] };
}

export type ProposeResult =
  | { readonly kind: "accepted"; readonly index: number; readonly term: Term }
  | { readonly kind: "notLeader"; readonly leader: ReplicaId | null }
  | { readonly kind: "busy"; readonly reason: string }
  /** A membership change that the rules of Q-16 do not allow now, or ever. */
  | { readonly kind: "refused"; readonly reason: string };

export type RequestResult = Exclude<ProposeResult, { kind: "accepted" }> | { readonly kind: "started" };
