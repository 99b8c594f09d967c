// What replicas of partitions say to each other and to the controller, and what operators ask about them.
// REPLICA_FETCH and DURABLE_REPORT are hot: their rows are flat lists of integers, WIDTH of them for each partition, one after another, so
// that nothing is allocated for a row. The constants below say what stands where; errors in rows are native codes.
import type { NodeId, TopicId } from "../../model/ids.ts";
import type { ErrorName } from "../../model/errors.ts";

/** From the leader of the partitions to the controller. The changes themselves come to all as applied metadata. */
export interface AlterPartitionRequest {
  readonly nodeId: NodeId;
  readonly brokerEpoch: number;
  /** At most FIELD_LIMITS.ALTERED_PARTITIONS. */
  readonly entries: readonly {
    readonly topicId: TopicId;
    readonly partition: number;
    readonly leaderEpoch: number;
    /** Of the record that the wish was made from: another one there now, and it is not done. */
    readonly partitionEpoch: number;
    /** The whole ISR wished for; each member under the broker epoch in which it was seen to be in sync. */
    readonly isr: readonly { readonly nodeId: number; readonly brokerEpoch: number }[];
    /** The leader's own disk is behind: another member of the ISR is to lead (D-8). */
    readonly wantsMove: boolean;
  }[];
}
/** In the order of the request. */
export interface AlterPartitionResponse {
  readonly entries: readonly { readonly error: ErrorName }[];
}

/** A row of `positions`: from where the partition is wanted next. */
export const POSITION_ROW = { SLOT: 0, LEADER_EPOCH: 1, FETCH_OFFSET: 2, LAST_FETCHED_EPOCH: 3, WIDTH: 4 } as const;

/** From a follower to a leader, on a connection of its own for bulk. A newer one of the session ends the wait of the one before. */
export interface ReplicaFetchRequest {
  readonly nodeId: NodeId;
  readonly brokerEpoch: number;
  /** A new one empties the session: no slot means anything any more. (brokerEpoch, sessionId) only rises. */
  readonly sessionId: number;
  readonly maxWaitMs: number;
  /** Of all bodies of the answer. */
  readonly maxBytes: number;
  /** Numbers that the follower gives to the partitions of this session. `added`, `positions` and `removed` together: at most FIELD_LIMITS.REPLICA_ROWS each. */
  readonly added: readonly { readonly slot: number; readonly topicId: TopicId; readonly partition: number }[];
  /** Rows of POSITION_ROW; lastFetchedEpoch -1 = the log is empty. */
  readonly positions: readonly number[];
  readonly removed: readonly number[];
}

/**
 * A row of an answer. ERROR: native code. DIVERGING_EPOCH and DIVERGING_END: -1 = not diverging. BODY: position among the part's bodies of this
 * partition's batches; -1 = none. Rows of one slot that follow each other bring batches that do.
 */
export const REPLICA_ROW = {
  SLOT: 0,
  ERROR: 1,
  LEADER_EPOCH: 2,
  HIGH_WATERMARK: 3,
  LOG_START_OFFSET: 4,
  DIVERGING_EPOCH: 5,
  DIVERGING_END: 6,
  BODY: 7,
  WIDTH: 8,
} as const;

/**
 * Only what there is to say, in parts of one correlation id (the `more` flag). A slot answered with data, a divergence or an error stays
 * silent until its next position; a row that has none of these brings a high watermark, and the slot stays active.
 */
export interface ReplicaFetchResponse {
  /** Rows of REPLICA_ROW. */
  readonly rows: readonly number[];
}

/** A row of a durable report. */
export const DURABLE_ROW = { SLOT: 0, LEADER_EPOCH: 1, DURABLE_END: 2, LOG_START_OFFSET: 3, WIDTH: 4 } as const;

/** One-way (D-3): from a follower to a leader, on the connection of its fetch session, when an fsync has ended. */
export interface DurableReportRequest {
  readonly nodeId: NodeId;
  readonly brokerEpoch: number;
  readonly sessionId: number;
  /** Rows of DURABLE_ROW; at most FIELD_LIMITS.REPLICA_ROWS. LOG_START_OFFSET: durable, too; since version 1, -1 = it does not say. */
  readonly rows: readonly number[];
}

/** From a client to the leader of the partitions. */
export interface DeleteRecordsRequest {
  /** How long the broker may wait for the replicas. */
  readonly timeoutMs: number;
  /** At most FIELD_LIMITS.TRIMMED. */
  readonly entries: readonly {
    readonly topicId: TopicId;
    readonly partition: number;
    /** Everything below goes; -1 = everything that is committed. */
    readonly offset: number;
  }[];
}
/** In the order of the request. Answered when no living replica has anything below any more, whatever is lost. */
export interface DeleteRecordsResponse {
  readonly entries: readonly {
    readonly error: ErrorName;
    readonly message: string | null;
    /** Where the log starts on every living replica, durably; -1 = not known. */
    readonly lowWatermark: number;
  }[];
}

/** From a client to the controller. */
export interface ElectLeadersRequest {
  /** "preferred": the first replica, or the one in sync that is named. "unclean": committed records may be lost. */
  readonly kind: "preferred" | "unclean";
  /** null = every topic. */
  readonly topic: string | null;
  /** null = every partition; always null without a topic. */
  readonly partitions: readonly number[] | null;
  /** Who is to lead; -1 = the first replica, of an unclean election the one that has most, which the controller finds out. */
  readonly nodeId: number;
  /** Of an unclean election: also where a replica that has everything is only down. */
  readonly isForced: boolean;
}
/**
 * Where partitions were named, one entry for each in their order; else those that were not already as wished, at most FIELD_LIMITS.ELECTED of
 * them: `omitted` others were dealt with and are not listed.
 */
export interface ElectLeadersResponse {
  readonly entries: readonly {
    readonly topic: string;
    readonly partition: number;
    readonly error: ErrorName;
    /** For people; of an unclean election also where it was done: what each replica that could lead has. */
    readonly message: string | null;
    /** Who leads now; -1 = nobody. */
    readonly leader: number;
    /** Of an unclean election that was done: where the log of the new leader ends; -1 = not known. */
    readonly endOffset: number;
  }[];
  readonly omitted: number;
  /** End of the metadata log that has the changes. */
  readonly metadataEnd: number;
}

/** From a client to the leader of the partitions; from anybody to any of their brokers, about its own replicas. */
export interface DescribePartitionsRequest {
  /** At most FIELD_LIMITS.DESCRIBED_PARTITIONS. */
  readonly entries: readonly { readonly topicId: TopicId; readonly partition: number }[];
}
/** In the order of the request; every number -1 where it is not known. */
export interface DescribePartitionsResponse {
  readonly entries: readonly {
    /** NOT_LEADER_OR_FOLLOWER from a broker that does not lead it: then the rest is of its own log, `replicas` is empty, and a missing replica is all -1. */
    readonly error: ErrorName;
    /** The one led in; of a replica that does not lead, that of its last batch, -1 = it has none. */
    readonly leaderEpoch: number;
    readonly partitionEpoch: number;
    readonly logStartOffset: number;
    readonly highWatermark: number;
    /** Of what the leader has appended; above `durableEnd` it may be on no disk yet. */
    readonly endOffset: number;
    readonly durableEnd: number;
    /** As the leader sees them, itself included, in the order of the assignment. */
    readonly replicas: readonly {
      readonly nodeId: number;
      readonly endOffset: number;
      readonly durableEnd: number;
      /** Since it last had all that the leader had; 0 of the leader itself. */
      readonly caughtUpMsAgo: number;
      readonly isInSync: boolean;
    }[];
  }[];
}
