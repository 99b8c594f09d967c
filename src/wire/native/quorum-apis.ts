// What brokers say to each other to be one cluster (Raft, founding, registration, heartbeats, metadata), and what operators ask of the
// quorum. Replica ids are `<node id>:<directory id>` as in raft/types.ts, whose messages these mirror field by field.
import type { BrokerEpoch, ClusterId, DirectoryId, IncarnationId, NodeId, TopicId } from "../../model/ids.ts";

/** An answer that says no more than that it is done. */
export type Done = Readonly<Record<never, never>>;

export interface QuorumConfiguration {
  readonly voters: readonly string[];
  readonly learners: readonly string[];
}

/** Its bytes are the body at its position; empty for "leaderStart". Its index is the request's `start` and its position. */
export interface WireEntry {
  readonly term: number;
  readonly kind: "command" | "leaderStart" | "configuration";
}

export interface SnapshotName {
  readonly end: number;
  readonly lastTerm: number;
  readonly sizeBytes: number;
  readonly configuration: QuorumConfiguration;
}

export type RaftMessage =
  | {
      readonly kind: "voteRequest";
      readonly term: number;
      readonly isPreVote: boolean;
      readonly isTransfer: boolean;
      readonly end: number;
      readonly lastTerm: number;
    }
  | { readonly kind: "voteResponse"; readonly term: number; readonly isPreVote: boolean; readonly isGranted: boolean }
  /** As many bodies as entries. */
  | {
      readonly kind: "append";
      readonly term: number;
      readonly start: number;
      readonly prevTerm: number;
      readonly entries: readonly WireEntry[];
      readonly commitEnd: number;
    }
  | { readonly kind: "appendMatched"; readonly term: number; readonly end: number }
  | {
      readonly kind: "appendRefused";
      readonly term: number;
      readonly start: number;
      readonly hintEnd: number;
      readonly hintTerm: number;
    }
  | { readonly kind: "heartbeat"; readonly term: number; readonly commitEnd: number; readonly round: number }
  | { readonly kind: "heartbeatResponse"; readonly term: number; readonly round: number }
  /** One body: the bytes from `position` on. */
  | {
      readonly kind: "snapshotChunk";
      readonly term: number;
      readonly snapshot: SnapshotName;
      readonly position: number;
    }
  | {
      readonly kind: "snapshotResponse";
      readonly term: number;
      readonly snapshotEnd: number;
      readonly position: number;
    }
  | { readonly kind: "timeoutNow"; readonly term: number };

/** One-way: never answered, and dropped without a word by whom it is not for. */
export interface RaftRequest {
  readonly clusterId: ClusterId;
  readonly from: string;
  readonly to: string;
  /** Starts of the sender's disk: one that goes back is a restored old disk (D-20). */
  readonly boots: number;
  readonly message: RaftMessage;
}

/** Before there is a cluster, or to find it (D-20). */
export interface VoterHelloRequest {
  readonly nodeId: NodeId;
  readonly directoryId: DirectoryId;
  /** The configured address list in its normal form: all founders must have the same. */
  readonly voters: string;
  /** Where the sender is found; empty = it does not know yet. */
  readonly address: string;
  /** Starts of the sender's disk: another number than before is another process, and connections to the old one are dead. */
  readonly boots: number;
  /** The sender does not believe the receiver's disk: it remembers less than it once confirmed (D-20). */
  readonly isRefused: boolean;
}
export interface VoterHelloResponse {
  /** "starting": not known yet, ask again. */
  readonly state: "empty" | "formed" | "starting";
  readonly nodeId: NodeId;
  readonly directoryId: DirectoryId;
  readonly voters: string;
  readonly clusterId: ClusterId | null;
  /** The configuration is still the founding one: a voter that it names and that is empty may adopt it. */
  readonly founding: boolean;
  readonly configuration: QuorumConfiguration | null;
  /** How far its disk is; all 0 while it is not "formed". Starts of it, this one included. */
  readonly boots: number;
  readonly term: number;
  /** Durable end of its log. */
  readonly end: number;
  /** What of that it knows to be committed. */
  readonly commitEnd: number;
}

/** From the founder to the other founding voters; answered when it is durable. */
export interface AdoptRequest {
  readonly clusterId: ClusterId;
  readonly voters: readonly string[];
}

export interface RegisterBrokerRequest {
  readonly clusterId: ClusterId;
  readonly nodeId: NodeId;
  readonly directoryId: DirectoryId;
  readonly incarnationId: IncarnationId;
  /** What the disk may have lost (D-6). */
  readonly restart: "first" | "clean" | "process-death" | "power-loss";
  readonly address: string;
  /** Metadata versions that this build reads and writes (D-31). */
  readonly versionsMin: number;
  readonly versionsMax: number;
  /** The broker epoch on the disk; -1 = none. */
  readonly lastBrokerEpoch: number;
}
export interface RegisterBrokerResponse {
  readonly brokerEpoch: BrokerEpoch;
}

export interface BrokerHeartbeatRequest {
  readonly nodeId: NodeId;
  readonly brokerEpoch: number;
  readonly incarnationId: IncarnationId;
  readonly appliedEnd: number;
  /** The broker epoch is durable at the broker (D-6). */
  readonly epochStored: boolean;
  readonly wantsShutdown: boolean;
  /** It refuses produce, and is given no new partitions. */
  readonly isLowOnSpace: boolean;
  /** Topics that are going or gone of which the broker has no log any more. */
  readonly droppedTopics: readonly TopicId[];
  /** Its logs that may not lead (D-17); few are listed at once. */
  readonly damaged: readonly { readonly topicId: TopicId; readonly partitions: readonly number[] }[];
}
export interface BrokerHeartbeatResponse {
  readonly isFenced: boolean;
  readonly mayShutDown: boolean;
}

/** An observer pulls what is committed (D-21): entries, or a piece of a snapshot when the log begins above `start`. */
export interface FetchMetadataRequest {
  readonly clusterId: ClusterId;
  readonly nodeId: NodeId;
  readonly start: number;
  /** Term of the entry before `start`; 0 when there is none. Where the quorum has another one there, the two have parted for good. */
  readonly startTerm: number;
  readonly maxWaitMs: number;
  readonly maxBytes: number;
  /** End of the snapshot that is being loaded; -1 = none. */
  readonly snapshotEnd: number;
  /** Where its next piece begins. */
  readonly snapshotPosition: number;
}
export interface FetchMetadataResponse {
  /** -1 = unknown. */
  readonly leaderId: number;
  readonly commitEnd: number;
  /** Index of the first entry. */
  readonly start: number;
  /** As many bodies as entries; none beside a snapshot. */
  readonly entries: readonly WireEntry[];
  /** One body: its bytes from `position` on. */
  readonly snapshot: (SnapshotName & { readonly position: number }) | null;
}

export type DescribeQuorumRequest = Readonly<Record<never, never>>;
/**
 * "starting": no quorum found yet. "observer": not in the configuration. "learner": in it, but no voter yet. "leader": elected, and not
 * through with what was committed before; then it is the "controller".
 */
export type QuorumRole = "starting" | "observer" | "learner" | "follower" | "candidate" | "leader" | "controller";
/** What the broker that answers knows; only the leader knows how far the others are. */
export interface DescribeQuorumResponse {
  readonly clusterId: ClusterId | null;
  readonly nodeId: NodeId;
  readonly role: QuorumRole;
  /** -1 = none known. */
  readonly leaderId: number;
  readonly term: number;
  readonly commitEnd: number;
  readonly appliedEnd: number;
  /** The finalised one; 0 = none yet. */
  readonly metadataVersion: number;
  /** What the build of this broker supports. */
  readonly versionsMin: number;
  readonly versionsMax: number;
  readonly voters: readonly {
    readonly replicaId: string;
    readonly isLearner: boolean;
    /** -1 = not known here. */
    readonly end: number;
    /** Since the leader last heard from it; -1 = not known here. */
    readonly lagMs: number;
    /** Its disk went back in time: its messages are dropped until it is replaced (D-20). */
    readonly isRefused: boolean;
  }[];
  /** Nodes that this one has a connection to. */
  readonly reachable: readonly number[];
  /** For people: what the broker waits for; null = nothing. */
  readonly waitingFor: string | null;
}

export interface ChangeQuorumRequest {
  /** "replace": the voter of this node id on an old disk by the one on its present disk. "transfer": make it the leader. */
  readonly op: "add" | "remove" | "replace" | "transfer";
  readonly nodeId: NodeId;
  /** null: the disk that the node is registered with; of "remove": the one that is a voter. */
  readonly directoryId: DirectoryId | null;
}

export interface RaiseMetadataVersionRequest {
  readonly version: number;
}

/** Takes a fenced broker that is no member of the quorum off the list. */
export interface UnregisterBrokerRequest {
  readonly nodeId: NodeId;
  /** Also when it holds partitions: what only it has is given up. */
  readonly isForced: boolean;
}
