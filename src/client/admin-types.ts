// The public types of an admin: topics, configuration, the cluster and its quorum.
import type { ErrorName, OttlaError } from "../model/errors.ts";
import type { TopicConfigKey } from "../model/config.ts";
import type { StartPosition } from "./types.ts";
import type { ConfigSource, QuorumRole } from "../wire/native/apis.ts";

export interface TopicInfo {
  readonly name: string;
  readonly topicId: string;
  readonly isDeleting: boolean;
  /** Largest record batch that the topic takes. */
  readonly maxMessageBytes: number;
  /** What is set for the topic itself. */
  readonly configs: Readonly<Record<string, string>>;
  readonly partitions: readonly PartitionInfo[];
}

export interface PartitionInfo {
  readonly index: number;
  /** NONE, or what is wrong with it. LEADER_NOT_AVAILABLE: no replica that may lead is up. NO_INTACT_REPLICA: none is left that has everything. */
  readonly error: ErrorName;
  /** -1 = none. */
  readonly leader: number;
  readonly leaderEpoch: number;
  /** The first one is preferred as leader. */
  readonly replicas: readonly number[];
  /** Replicas in sync: what is acknowledged with acks "all" is on the disk of each. */
  readonly isr: readonly number[];
  /** Not in sync any more, but with all that was acknowledged: may lead when no replica in sync is left (KIP-966). */
  readonly elr: readonly number[];
  /** Raised by every change of leader, ISR or ELR; -1 = not known. */
  readonly partitionEpoch: number;
  /** In-sync replicas that a write needs; -1 = not known. */
  readonly minIsr: number;
  /** Leader epoch of the last unclean election, in which acknowledged records may have been lost; -1 = never. */
  readonly uncleanEpoch: number;
}

/** How far a replica is, as the leader sees it. */
export interface ReplicaProgress {
  readonly nodeId: number;
  readonly isInSync: boolean;
  /** Exclusive; null = not known. */
  readonly endOffset: number | null;
  readonly durableEnd: number | null;
  /** Records of the leader that are not on its disk; null = not known. */
  readonly lag: number | null;
  /** Since it last had on its disk all that the leader had; null = not known. */
  readonly caughtUpMsAgo: number | null;
  /** Where nobody leads: the leader epoch of its last batch, as it says itself. Of two replicas the one with the higher has more, then the one with the greater end. */
  readonly lastEpoch: number | null;
}

/** A partition with what only its leader knows; null where that is not known. */
export interface PartitionState extends PartitionInfo {
  readonly startOffset: number | null;
  /** Exclusive: what is below can be read. */
  readonly highWatermark: number | null;
  /** Exclusive, of the leader's log. */
  readonly endOffset: number | null;
  readonly durableEnd: number | null;
  /** In the order of `replicas`. */
  readonly progress: readonly ReplicaProgress[];
  /** Why the leader's part is not known; not there: it is. */
  readonly unknown?: OttlaError;
}

export interface DescribePartitionsOptions extends CallOptions {
  /** Default: all. */
  readonly partitions?: readonly number[];
}

export interface ElectOptions extends CallOptions {
  /** Default: every topic; an unclean election takes one, and so does one with `nodeId`. */
  readonly topic?: string;
  /** Default: all of the topic. */
  readonly partitions?: readonly number[];
  /** Who is to lead. Default: the first replica; of an unclean election whoever has most, as far as replicas tell the controller. */
  readonly nodeId?: number;
  /** Of an unclean election: also where a replica that has everything is only down. Default: false. */
  readonly force?: boolean;
}

export interface Election {
  readonly topic: string;
  readonly partition: number;
  /** Who leads now; -1 = nobody. */
  readonly leader: number;
  /** Why it was not elected as asked; not there: it was. ELECTION_NOT_NEEDED: it was so already. */
  readonly error?: OttlaError;
  /** Of an unclean election that was done: where the new leader's log ends; null = not known. */
  readonly endOffset: number | null;
  /** Of an unclean election: what each replica that could lead has, for people. */
  readonly note: string | null;
}

export interface Elections {
  /** The partitions that were named, or else those that were not already as asked. */
  readonly elections: readonly Election[];
  /** More of them that are not listed. */
  readonly omitted: number;
}

export interface PartitionOffsets {
  readonly partition: number;
  readonly startOffset: number;
  /** Exclusive: one past the last record that can be read. */
  readonly endOffset: number;
  /** With `partial`: why both are -1. Not there: they are known. */
  readonly error?: OttlaError;
}

export interface OffsetsOptions extends CallOptions {
  /**
   * True: a partition without a leader is told with -1 and its `error`, at once; so is one whose leader does not answer until `timeoutMs`.
   * Default false: all are waited for, and the call rejects, naming the ones that are missing.
   */
  readonly partial?: boolean;
}

export interface DeleteRecordsOptions extends CallOptions {
  /** Default: all. */
  readonly partitions?: readonly number[];
}

export interface DeletedRecords {
  readonly partition: number;
  /** Where the partition starts now, on every replica that lives; null with an error. */
  readonly startOffset: number | null;
  /** Not there: nothing below `startOffset` is left. REQUEST_TIMED_OUT: it may be done later all the same. */
  readonly error?: OttlaError;
}

export interface BrokerInfo {
  readonly nodeId: number;
  /** host:port */
  readonly address: string;
  /** Leads nothing for now: it is away, stopping or starting. */
  readonly isFenced: boolean;
  readonly role: "controller" | "voter" | "learner" | "observer";
}

export interface ClusterInfo {
  readonly clusterId: string;
  /** -1 = none known. */
  readonly controllerId: number;
  readonly brokers: readonly BrokerInfo[];
  /** 0 = not known. */
  readonly metadataVersion: number;
  /** Null: the broker is of a release that does not tell. */
  readonly quorum: QuorumInfo | null;
}

export interface VoterInfo {
  readonly nodeId: number;
  readonly directoryId: string;
  /** In the configuration, but without a vote yet. */
  readonly isLearner: boolean;
  /** How far its metadata log is durable, exclusive; -1 = not known. */
  readonly endOffset: number;
  /** Entries behind the commit end; -1 = not known. */
  readonly lagEntries: number;
  /** Since the leader heard from it; -1 = not known. */
  readonly lagMs: number;
  /** It came back on an old image of its disk: it is not listened to until it is replaced. */
  readonly isRefused: boolean;
}

export interface QuorumInfo {
  /** Null: there is no cluster yet. */
  readonly clusterId: string | null;
  /** The node that answered, and what it is. Only the leader knows how far the voters are. */
  readonly nodeId: number;
  readonly role: QuorumRole;
  /** -1 = none known. */
  readonly leaderId: number;
  readonly term: number;
  /** How far the node knows the metadata log to be committed, exclusive. */
  readonly commitEnd: number;
  /** 0 = there is no cluster yet. */
  readonly metadataVersion: number;
  /** Metadata versions that the build of the node supports. */
  readonly supportedVersions: { readonly min: number; readonly max: number };
  readonly voters: readonly VoterInfo[];
  /** For people: what the node waits for. */
  readonly waitingFor: string | null;
}

export interface MetadataQuery extends CallOptions {
  /** Default: all. */
  readonly topics?: readonly string[];
  /** A node id: that broker and no other, whatever it knows. "controller" (default): a linearizable read. */
  readonly from?: "controller" | number;
}

/** What one broker knows of the cluster. */
export interface MetadataView {
  readonly clusterId: string;
  /** How far the broker has applied the metadata log: of two answers the one of the lower end is older. */
  readonly metadataEnd: number;
  /** -1 = none known. */
  readonly controllerId: number;
  readonly brokers: readonly Omit<BrokerInfo, "role">[];
  /** Those asked for that there are. */
  readonly topics: readonly TopicInfo[];
}

export interface ConfigInfo {
  readonly key: string;
  readonly value: string;
  readonly source: ConfigSource;
  /** Read at the start of a broker: it cannot be altered. */
  readonly isReadOnly: boolean;
}

/** The deadline of the call, retries included. */
export interface CallOptions {
  /** Default 30,000. */
  readonly timeoutMs?: number;
}

export interface ReadOptions extends CallOptions {
  /** True: what is answered was so at some moment during the call; needs a controller. Default false: may be a little old. */
  readonly linearizable?: boolean;
}

export interface CreateTopicOptions extends CallOptions {
  /** Default: the broker's num.partitions. */
  readonly partitions?: number;
  /** Copies of each partition, each on a node of its own. Default: the cluster's default.replication.factor (3), or what brokers there are. */
  readonly replicationFactor?: number;
  readonly configs?: Readonly<Partial<Record<TopicConfigKey, string | number>>>;
  /** A topic of this name is taken as it is, whatever its partitions and settings. */
  readonly ifNotExists?: boolean;
  /** The controller decides as if it were to be done, and changes nothing. */
  readonly validateOnly?: boolean;
}

export interface DeleteTopicOptions extends CallOptions {
  /** Wait until it is gone from the list; without `timeoutMs`, as long as that takes. */
  readonly wait?: boolean;
  readonly signal?: AbortSignal;
}

export interface AlterOptions extends CallOptions {
  /** The controller decides as if it were to be done, and changes nothing. */
  readonly validateOnly?: boolean;
}

/** null takes the key away: what stands below it applies again. */
export type ConfigChanges = Readonly<Record<string, string | number | null>>;

/** A node id, or "default": what applies to all brokers that have nothing of their own. */
export type BrokerName = number | "default";
export type ConfigOwner = { readonly topic: string } | { readonly broker: BrokerName };

export interface UnregisterOptions extends CallOptions {
  /** Default: false. */
  readonly force?: boolean;
}

export interface VoterOptions extends CallOptions {
  /** Default: the disk that the node is registered with; for `removeVoter` the one that votes. */
  readonly directoryId?: string;
}

/**
 * Changes go to the controller, which is found by itself, also while it changes: the calls are tried again until `timeoutMs`. A rejected
 * change has an `outcome`: "unknown" = a try was not answered, and it may have been carried out, or may still be; "appended" = it was
 * carried out, and what was waited for afterwards did not come; not set = nothing was changed, for sure. While the cluster has no controller they
 * end with NOT_CONTROLLER when the time is up. Refusals: the message says why, the code is one of docs/errors.md.
 */
export interface Admin {
  /** Resolves when the topic can be used: each partition has a leader. Rejects with TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_CONFIG and the like. */
  createTopic(name: string, options?: CreateTopicOptions): Promise<TopicInfo>;
  /** Marked for deletion when it resolves; brokers stop serving it as they hear of it. With `wait`, gone from the list. */
  deleteTopic(name: string, options?: DeleteTopicOptions): Promise<void>;
  listTopics(options?: ReadOptions): Promise<TopicInfo[]>;
  /** Rejects with UNKNOWN_TOPIC_OR_PARTITION. */
  describeTopic(name: string, options?: ReadOptions): Promise<TopicInfo>;
  /** As one broker knows it. Rejects at once when that one does not answer. */
  describeMetadata(query?: MetadataQuery): Promise<MetadataView>;
  /** Asks the leaders of all partitions; rejects when one stays without a leader. */
  offsets(topic: string, options?: OffsetsOptions): Promise<PartitionOffsets[]>;
  /**
   * Asks the leaders, all at once, how far the replicas are; where there is none, each replica for itself. What nobody says within `timeoutMs` (default 3,000) is null; rejects
   * only with UNKNOWN_TOPIC_OR_PARTITION and when no broker answers at all.
   */
  describePartitions(topic: string, options?: DescribePartitionsOptions): Promise<PartitionState[]>;
  /**
   * Deletes the records below a position of each partition, for good: "end" is all of them, { offset } the first that stays, { fromEnd } how many stay,
   * { timestamp } keeps what is from the first record of that time on. Done when no replica that lives has anything of them, whatever is lost then; a
   * replica that is away deletes them when it is back. Only of topics whose cleanup.policy has "delete" (POLICY_VIOLATION). Each partition has an error of its own.
   */
  deleteRecords(topic: string, before: StartPosition, options?: DeleteRecordsOptions): Promise<DeletedRecords[]>;
  /**
   * "preferred": the first replica leads, or the one on the node that is named, where it is in sync; in the latter case the first one leads again some
   * seconds later, as after every change of leader (`auto.leader.rebalance.enable`). "unclean": a partition that nobody can lead is given to a replica that may
   * lack acknowledged records: those are lost for good. Rejects when the whole was refused; each partition has an error of its own.
   */
  electLeaders(kind: "preferred" | "unclean", options?: ElectOptions): Promise<Elections>;

  /** All of the changes or none. */
  alterTopicConfigs(topic: string, changes: ConfigChanges, options?: AlterOptions): Promise<void>;
  alterBrokerConfigs(broker: BrokerName, changes: ConfigChanges, options?: AlterOptions): Promise<void>;
  /** Every key with its value and where it comes from. A broker's are asked of that broker. */
  describeConfigs(owner: ConfigOwner, options?: ReadOptions): Promise<ConfigInfo[]>;

  describeCluster(options?: CallOptions): Promise<ClusterInfo>;
  /** As the leader sees it, or, when it cannot be reached, any broker. */
  describeQuorum(options?: CallOptions): Promise<QuorumInfo>;
  /** One change at a time; each resolves when it is done. Their default `timeoutMs` is 60,000. */
  addVoter(nodeId: number, options?: VoterOptions): Promise<void>;
  removeVoter(nodeId: number, options?: VoterOptions): Promise<void>;
  /** The voter of this node id on its old disk by the one on its present disk. */
  replaceVoter(nodeId: number, options?: VoterOptions): Promise<void>;
  transferLeadership(nodeId: number, options?: CallOptions): Promise<void>;
  /**
   * Takes a dead broker off the list: one that is fenced, not heard of, and no member of the quorum. One that holds partitions only with
   * `force`: what only it has is given up.
   */
  unregisterBroker(nodeId: number, options?: UnregisterOptions): Promise<void>;
  /** Never lowered; all registered brokers must support it. */
  raiseMetadataVersion(version: number, options?: CallOptions): Promise<void>;
}
