// The records of the metadata log: plain JSON objects, each with its type and version (D-31). Whoever proposes one stamps the time
// into it (D-23); applying it asks no clock. A field is never given another meaning: a new one comes with a new version.
import type { BrokerEpoch, ClusterId, DirectoryId, IncarnationId, LeaderEpoch, NodeId, TopicId } from "../model/ids.ts";

/** How a broker came back (D-6): what its disk may have lost. */
export type RestartKind = "first" | "clean" | "process-death" | "power-loss";

/** Record 0 of every cluster (D-20), and only that. */
export interface ClusterRecord {
  readonly type: "cluster";
  readonly version: 1;
  readonly clusterId: ClusterId;
  readonly voters: readonly { readonly nodeId: NodeId; readonly directoryId: DirectoryId }[];
  /** The finalised version: records of a newer kind may be written only once it was raised. */
  readonly metadataVersion: number;
  readonly timestampMs: number;
}

/**
 * A broker's new incarnation. In one record (D-1) it fences the incarnation before, takes every leadership from it and raises the leader
 * epoch of every partition it led. Its broker epoch is the offset of this record.
 */
export interface RegisterBrokerRecord {
  readonly type: "register-broker";
  readonly version: 1;
  readonly nodeId: NodeId;
  readonly directoryId: DirectoryId;
  readonly incarnationId: IncarnationId;
  readonly restart: RestartKind;
  readonly address: string;
  readonly timestampMs: number;
}

/** The broker may lead again: it holds its broker epoch. */
export interface UnfenceBrokerRecord {
  readonly type: "unfence-broker";
  readonly version: 1;
  readonly nodeId: NodeId;
  readonly brokerEpoch: BrokerEpoch;
}

/** New leader and ISR of partitions of one topic. Naming a leader raises the leader epoch, also when it is the same node again. */
export interface PartitionChangeRecord {
  readonly type: "partition-change";
  readonly version: 1;
  readonly topicId: TopicId;
  readonly changes: readonly {
    readonly partition: number;
    /** null: nobody leads. */
    readonly leader: NodeId | null;
    readonly isr: readonly NodeId[];
    /** The partition epoch that the change was decided on: compare and set. */
    readonly partitionEpoch: number;
  }[];
}

/** A topic with all its partitions: entry i of `replicas` is partition i; its first replica leads in epoch 0. */
export interface TopicRecord {
  readonly type: "topic";
  readonly version: 1;
  readonly topicId: TopicId;
  readonly name: string;
  readonly configs: Readonly<Record<string, number>>;
  readonly replicationFactor: number;
  /** Effective min ISR of each partition (D-5). */
  readonly minIsr: number;
  readonly replicas: readonly (readonly NodeId[])[];
  readonly timestampMs: number;
}

/** The topic is going: nothing may be produced or fetched, its logs may be dropped. The name is still taken. */
export interface DeleteTopicRecord {
  readonly type: "delete-topic";
  readonly version: 1;
  readonly topicId: TopicId;
}

/** Every log of the topic is dropped: its name is free again. */
export interface TopicRemovedRecord {
  readonly type: "topic-removed";
  readonly version: 1;
  readonly topicId: TopicId;
}

export type MetadataRecord =
  | ClusterRecord
  | RegisterBrokerRecord
  | UnfenceBrokerRecord
  | PartitionChangeRecord
  | TopicRecord
  | DeleteTopicRecord
  | TopicRemovedRecord;

export type MetadataRecordType = MetadataRecord["type"];

/** Finalised at first start by this build. */
export const METADATA_VERSION = 1;

/** A leader epoch never seen: the first leader leads in epoch 0. */
export const FIRST_LEADER_EPOCH = 0 as LeaderEpoch;
