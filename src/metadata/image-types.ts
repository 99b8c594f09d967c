// What the metadata image holds: each an object that is replaced as a whole when it changes, never changed in place.
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
import type { Configs, FenceReason, RestartKind, VersionRange } from "./records.ts";

export interface ClusterImage {
  readonly clusterId: ClusterId;
  readonly metadataVersion: number;
  readonly createdMs: number;
}

export interface BrokerImage {
  readonly nodeId: NodeId;
  readonly directoryId: DirectoryId;
  readonly incarnationId: IncarnationId;
  /** Index of the record that registered this incarnation. */
  readonly brokerEpoch: BrokerEpoch;
  /** The last epoch that a broker on this disk has confirmed to hold durably: a lower one on the disk means an older copy of it (D-6). */
  readonly confirmedEpoch: BrokerEpoch | null;
  readonly restart: RestartKind;
  readonly address: string;
  readonly metadataVersions: VersionRange;
  readonly registeredMs: number;
  /** A fenced broker leads nothing and is in no ISR. */
  readonly isFenced: boolean;
  /** Why; null when it is not fenced, has just registered, or nothing was said (before metadata.version 2). */
  readonly fencedFor: FenceReason | null;
}

/** Leader, ISR, ELR and min ISR of one moment belong together: replaced as a whole, never changed (D-5). */
export interface PartitionImage {
  readonly index: number;
  readonly replicas: readonly NodeId[];
  /** In sync, all of them active; none without a leader. */
  readonly isr: readonly NodeId[];
  /** Eligible: not in sync, dead or alive, and yet with all that is committed. With nobody in sync and nobody eligible, no one can lead. */
  readonly elr: readonly NodeId[];
  /** Effective (D-5). */
  readonly minIsr: number;
  readonly leader: NodeId | null;
  readonly leaderEpoch: LeaderEpoch;
  /** Raised by every change of this object. */
  readonly partitionEpoch: number;
  /** Leader epoch since which committed records may be missing: of the last unclean election, or unsafe recovery of the quorum. -1: never (D-9). */
  readonly uncleanEpoch: number;
}

export interface TopicImage {
  readonly topicId: TopicId;
  readonly name: string;
  readonly configs: Configs;
  readonly replicationFactor: number;
  readonly createdMs: number;
  readonly isDeleting: boolean;
  readonly partitions: readonly PartitionImage[];
}

/** A removed topic of which some brokers may still have logs. */
export interface TombstoneImage {
  readonly topicId: TopicId;
  readonly name: string;
  /** Those brokers, ascending, never none. */
  readonly owed: readonly NodeId[];
}

/** A change that a client asked for, as it was made. */
export interface RequestImage {
  readonly requestId: Uuid;
  /** The topic that it created. */
  readonly topicId: TopicId | null;
}

/** A topic with one of its partitions. */
export interface PartitionPlace {
  readonly topic: TopicImage;
  readonly partition: PartitionImage;
}

/** A producer that keeps its identity over restarts. */
export interface NamedProducerImage {
  readonly name: string;
  readonly producerId: number;
  /** The only one that anything is taken of. */
  readonly producerEpoch: number;
  /** What it went on from, when it got its epoch; -1: it began. Asked for again from there, the answer was lost. */
  readonly fromId: number;
  readonly fromEpoch: number;
  /** When it last got an epoch. */
  readonly usedMs: number;
}
