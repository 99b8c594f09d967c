// The records of the metadata log: plain JSON objects, each with its type and version (D-31). Whoever proposes one stamps the time
// into it (D-23); applying it asks no clock. A field is never given another meaning: a new one comes with a new version. The records of
// one command are applied together or not at all (Q-18), in their order; the command's index in the log is its records' index.
import type {
  BrokerEpoch,
  ClusterId,
  DirectoryId,
  IncarnationId,
  LeaderEpoch,
  NodeId,
  TopicId,
  Uuid,
} from "../model/ids.ts";

/** What a broker knows of its own restart. */
export type RestartClaim = "first" | "clean" | "process-death" | "power-loss";

/** How a broker came back (D-6): what its disk may have lost. Only the controller can tell that the disk is another one, or an older copy. */
export type RestartKind = RestartClaim | "changed-disk";

export interface VersionRange {
  readonly min: number;
  readonly max: number;
}

/** The values of metadata.version that this build reads and writes. */
export const SUPPORTED_METADATA_VERSIONS: VersionRange = { min: 1, max: 2 };

/** The first of all records (D-20), and no later one is one. */
export interface ClusterRecord {
  readonly type: "cluster";
  readonly version: 1;
  readonly clusterId: ClusterId;
  /** The finalised version: records of a newer kind may be written only once it was raised. */
  readonly metadataVersion: number;
  readonly timestampMs: number;
}

/** metadata.version, raised: it never goes down. */
export interface MetadataVersionRecord {
  readonly type: "metadata-version";
  readonly version: 1;
  readonly metadataVersion: number;
}

/**
 * A broker's new incarnation. In one record (D-1) it fences the incarnation before: that leaves every ISR, and what it led others lead or nobody, in new
 * leader epochs. It stays eligible where it was or now is, but after a changed disk (D-6). Its broker epoch is the index of this record.
 * Of the incarnation that is registered already, it amends address and versions only.
 */
export interface RegisterBrokerRecord {
  readonly type: "register-broker";
  readonly version: 1;
  readonly nodeId: NodeId;
  readonly directoryId: DirectoryId;
  readonly incarnationId: IncarnationId;
  readonly restart: RestartKind;
  readonly address: string;
  /** What the broker's build reads and writes. */
  readonly metadataVersions: VersionRange;
  readonly timestampMs: number;
}

export type FenceReason = "session" | "refused" | "shutdown" | "replaced";

/** The broker is in no ISR and leads nothing from here on; what it led others lead, in new leader epochs (partition-rules.ts). */
export interface FenceBrokerRecordV1 {
  readonly type: "fence-broker";
  readonly version: 1;
  readonly nodeId: NodeId;
  readonly brokerEpoch: BrokerEpoch;
}

/** The same, and says why. From metadata.version 2 on. */
export interface FenceBrokerRecordV2 {
  readonly type: "fence-broker";
  readonly version: 2;
  readonly nodeId: NodeId;
  readonly brokerEpoch: BrokerEpoch;
  readonly reason: FenceReason;
}

/**
 * The broker may lead again: it has stored its broker epoch and said so (D-6), which makes the epoch a confirmed one. It is elected where nobody is in
 * the ISR and it is eligible.
 */
export interface UnfenceBrokerRecord {
  readonly type: "unfence-broker";
  readonly version: 1;
  readonly nodeId: NodeId;
  readonly brokerEpoch: BrokerEpoch;
}

/**
 * The broker, a fenced one, is off the list: it is eligible nowhere, owes nothing any more, and nothing is set for it. Partitions name it as a replica for
 * as long as they exist; registered again, it has not got their records (as after a changed disk, D-6).
 */
export interface UnregisterBrokerRecord {
  readonly type: "unregister-broker";
  readonly version: 1;
  readonly nodeId: NodeId;
  readonly brokerEpoch: BrokerEpoch;
}

/** What was decided about partitions of one topic. A leader other than the one before, or none, opens a new leader epoch. */
export interface PartitionChangeRecord {
  readonly type: "partition-change";
  readonly version: 1;
  readonly topicId: TopicId;
  readonly changes: readonly PartitionChange[];
}

export interface PartitionChange {
  readonly partition: number;
  /** null: nobody leads, and nobody is in the ISR. */
  readonly leader: NodeId | null;
  readonly isr: readonly NodeId[];
  readonly elr: readonly NodeId[];
  /** An operator's choice: the leader may lack what was committed. */
  readonly isUnclean: boolean;
  /** The leader epoch rises although the leader stays: nothing that was said in the one before counts any more. */
  readonly isNewEpoch: boolean;
  /** The partition epoch that the change was decided on: compare and set. */
  readonly partitionEpoch: number;
}

/**
 * A topic with all its partitions: entry i of `replicas` is partition i. Those of them that are active are its ISR, the first of these leads in
 * epoch 0; min ISR follows from the configuration (D-5).
 */
export interface TopicRecord {
  readonly type: "topic";
  readonly version: 1;
  readonly topicId: TopicId;
  readonly name: string;
  readonly configs: Configs;
  /** As declared: what min ISR is derived from. */
  readonly replicationFactor: number;
  readonly replicas: readonly (readonly NodeId[])[];
  readonly timestampMs: number;
}

/** Configuration keys in the order of their names, so that equal ones are equal bytes. */
export type Configs = Readonly<Record<string, number>>;

/** All that the topic sets for itself from here on; its partitions' min ISR follows (D-5). */
export interface TopicConfigRecord {
  readonly type: "topic-config";
  readonly version: 1;
  readonly topicId: TopicId;
  readonly configs: Configs;
}

/** All that is set at run time for one broker, or for every broker (null), from here on; of the latter the partitions' min ISR follows (D-5). */
export interface BrokerConfigRecord {
  readonly type: "broker-config";
  readonly version: 1;
  readonly nodeId: NodeId | null;
  readonly configs: Configs;
}

/** The topic is going: nothing may be produced or fetched, its logs may be dropped. The name is still taken. */
export interface DeleteTopicRecord {
  readonly type: "delete-topic";
  readonly version: 1;
  readonly topicId: TopicId;
}

/** The name is free again. `owed`: brokers that have not dropped their logs yet, ascending; they are remembered in a tombstone. */
export interface TopicRemovedRecord {
  readonly type: "topic-removed";
  readonly version: 1;
  readonly topicId: TopicId;
  readonly owed: readonly NodeId[];
}

/** The broker has no logs of these removed topics any more. */
export interface TombstoneSettledRecord {
  readonly type: "tombstone-settled";
  readonly version: 1;
  readonly nodeId: NodeId;
  readonly topicIds: readonly TopicId[];
}

/**
 * First in the command of a change that a client asked for: asked for again under this id (an answer was lost), it is known to be done
 * (Raft paper, section 8).
 */
export interface RequestRecord {
  readonly type: "request";
  readonly version: 1;
  readonly requestId: Uuid;
  /** The topic that the command creates: what a repeated creation is answered with, whatever became of the topic. */
  readonly topicId: TopicId | null;
}

/** A block of producer ids, the broker's alone to hand out: `count` of them from `firstId` on. None is ever given again (P-17). */
export interface ProducerIdsRecord {
  readonly type: "producer-ids";
  readonly version: 1;
  readonly nodeId: NodeId;
  readonly brokerEpoch: BrokerEpoch;
  /** The image's next one: compare and set. */
  readonly firstId: number;
  readonly count: number;
}

/**
 * From here on nothing of an older epoch of this name is appended anywhere: whoever had the name is fenced. The id is the one that the name has, in a
 * higher epoch, or the next one of those that only names have, in epoch 0.
 */
export interface NamedProducerRecord {
  readonly type: "named-producer";
  readonly version: 1;
  readonly name: string;
  readonly producerId: number;
  readonly producerEpoch: number;
  /** What whoever asked went on from; -1: it began. */
  readonly fromId: number;
  readonly fromEpoch: number;
  /** A name that was not used for long, and that is forgotten to make room; null: there is room. */
  readonly forgets: string | null;
  readonly timestampMs: number;
}

/**
 * An operator gave up what the lost voters had committed beyond this log. Epochs of that may be in use on disks: every leader epoch and partition
 * epoch rises by `epochsRaisedBy`, beyond any of them, and every broker is fenced until it is heard of again: all that were in sync are eligible. Before
 * the cluster record it says nothing.
 */
export interface UnsafeRecoveryRecord {
  readonly type: "unsafe-recovery";
  readonly version: 1;
  readonly epochsRaisedBy: number;
  readonly timestampMs: number;
}

export type MetadataRecord =
  | ClusterRecord
  | MetadataVersionRecord
  | RegisterBrokerRecord
  | FenceBrokerRecordV1
  | FenceBrokerRecordV2
  | UnfenceBrokerRecord
  | UnregisterBrokerRecord
  | PartitionChangeRecord
  | TopicRecord
  | TopicConfigRecord
  | BrokerConfigRecord
  | DeleteTopicRecord
  | TopicRemovedRecord
  | TombstoneSettledRecord
  | RequestRecord
  | ProducerIdsRecord
  | NamedProducerRecord
  | UnsafeRecoveryRecord;

export type MetadataRecordType = MetadataRecord["type"];

/** The lowest metadata.version at which the record may be written. */
export function metadataVersionOf({ type, version }: MetadataRecord): number {
  return type === "fence-broker" && version === 2 ? 2 : 1;
}

/**
 * What an unsafe recovery raises epochs by. In a command a partition's epoch rises at most once for each of its replicas, and twice besides: with five
 * replicas this is beyond 140,000 lost commands; 2,000 recoveries fit below 2^31.
 */
export const EPOCHS_RAISED_BY_RECOVERY = 1_000_000;

/** Producer ids given together to a broker. */
export const PRODUCER_IDS_BLOCK = 1_000;

/**
 * Ids from here on only named producers have, those below only others: of one that no name has any more a leader can tell that it was fenced. There is
 * room for 10^12 of either kind.
 */
export const NAMED_PRODUCER_IDS_START = 2 ** 40;

/** A leader epoch never seen: the first leader leads in epoch 0. */
export const FIRST_LEADER_EPOCH = 0 as LeaderEpoch;
