// The requests and answers of the native protocol as TypeScript sees them; schemas.ts says how each is laid out in an envelope.
// Bodies (runs of whole record batches) travel beside them: entry i of a request or answer owns the body that it names.
import type { NodeId, TopicId, Uuid } from "../../model/ids.ts";
import type { ErrorName, Outcome } from "../../model/errors.ts";
import type * as producer from "./producer-apis.ts";
import type * as quorum from "./quorum-apis.ts";
import type * as replication from "./replication-apis.ts";

export type { ChangeQuorumRequest, QuorumRole } from "./quorum-apis.ts";
export type { InitProducerIdRequest, InitProducerIdResponse } from "./producer-apis.ts";
export type { ElectLeadersRequest } from "./replication-apis.ts";

export const API = {
  HELLO: 1,
  METADATA: 2,
  PRODUCE: 3,
  FETCH: 4,
  LIST_OFFSETS: 5,
  CREATE_TOPICS: 6,
  DELETE_TOPICS: 7,
  ALTER_CONFIGS: 8,
  DESCRIBE_CONFIGS: 9,
  DELETE_RECORDS: 10,
  // From 32 on: what brokers say to each other, and what operators ask of the quorum (quorum-apis.ts).
  RAFT: 32,
  VOTER_HELLO: 33,
  ADOPT: 34,
  REGISTER_BROKER: 35,
  BROKER_HEARTBEAT: 36,
  FETCH_METADATA: 37,
  DESCRIBE_QUORUM: 38,
  CHANGE_QUORUM: 39,
  RAISE_METADATA_VERSION: 40,
  UNREGISTER_BROKER: 41,
  // What replicas say to each other, and what operators ask about them (replication-apis.ts).
  ALTER_PARTITION: 42,
  REPLICA_FETCH: 43,
  DURABLE_REPORT: 44,
  ELECT_LEADERS: 45,
  DESCRIBE_PARTITIONS: 46,
  // Who numbers batches (producer-apis.ts).
  INIT_PRODUCER_ID: 47,
  ALLOCATE_PRODUCER_IDS: 48,
} as const;
export type ApiKey = (typeof API)[keyof typeof API];

/** First request of every connection: each side learns what the other speaks (docs/protocol.md, "Versions"). */
export interface HelloRequest {
  readonly clientId: string;
  /** Name and version of the software, for logs. */
  readonly software: string;
}
export interface HelloResponse {
  /** All zero: the broker belongs to no cluster yet. */
  readonly clusterId: Uuid;
  readonly nodeId: NodeId;
  /** -1 = not registered yet. */
  readonly brokerEpoch: number;
  readonly software: string;
  readonly apis: readonly { readonly key: number; readonly minVersion: number; readonly maxVersion: number }[];
  /** Largest single message (envelope or body) that this broker accepts. */
  readonly messageBytesMax: number;
  readonly inFlightBytesMax: number;
}

export interface MetadataRequest {
  /** null = all topics. */
  readonly topics: readonly string[] | null;
  /** Topics after this name, for the next page; null = from the first. */
  readonly after: string | null;
  /** Since version 1. True: only the controller answers, after it made sure that it still is (a linearizable read). */
  readonly barrier: boolean;
}
export interface PartitionMetadata {
  readonly index: number;
  /** NO_INTACT_REPLICA, LEADER_NOT_AVAILABLE since version 2; older ones read NOT_LEADER_OR_FOLLOWER. */
  readonly error: ErrorName;
  /** -1 = none. */
  readonly leader: number;
  readonly leaderEpoch: number;
  readonly replicas: readonly number[];
  readonly isr: readonly number[];
  /** Since version 2, as all below. Out of the ISR, but with all that is committed: one of them may lead when the ISR is empty (KIP-966). */
  readonly elr: readonly number[];
  /** Raised by every change of leader, ISR or ELR. */
  readonly partitionEpoch: number;
  /** In-sync replicas that a write needs. */
  readonly minIsr: number;
  /** Leader epoch of the last unclean election; -1 = never. */
  readonly uncleanEpoch: number;
}
export interface TopicMetadata {
  readonly name: string;
  readonly error: ErrorName;
  readonly topicId: TopicId;
  readonly isDeleting: boolean;
  readonly maxMessageBytes: number;
  readonly configs: readonly { readonly key: string; readonly value: string }[];
  readonly partitions: readonly PartitionMetadata[];
}
export interface BrokerMetadata {
  readonly nodeId: number;
  readonly address: string;
  /** Since version 1; version 0 does not list fenced brokers. */
  readonly isFenced: boolean;
}
export interface MetadataResponse {
  readonly clusterId: Uuid;
  /** -1 = unknown. */
  readonly controllerId: number;
  readonly brokers: readonly BrokerMetadata[];
  /** Sorted by name. */
  readonly topics: readonly TopicMetadata[];
  /** Not null: more topics follow; ask again with `after`. */
  readonly next: string | null;
  /** Since version 1: end of the metadata log up to which this answer knows it; an answer of a lower end is older. -1 = unknown. */
  readonly metadataEnd: number;
}

/** Body i is exactly one record batch for entry i. With acks 0 there is no answer. */
export interface ProduceRequest {
  /** 0, 1, or -1 for all. */
  readonly acks: number;
  /** How long the broker may wait for the acks. */
  readonly timeoutMs: number;
  readonly entries: readonly {
    readonly topicId: TopicId;
    readonly partition: number;
    /** The leader epoch the client knows; -1 = not checked. */
    readonly leaderEpoch: number;
    /** The batch was sent before, and the client does not know what became of it. Only with a producer id. */
    readonly isResent: boolean;
  }[];
}
export interface ProduceResponse {
  readonly entries: readonly {
    readonly error: ErrorName;
    /** What became of the batch; "appended" when error is NONE. */
    readonly outcome: Outcome;
    /** -1 when not known. */
    readonly baseOffset: number;
    readonly logStartOffset: number;
    /** Details for people; null when there are none. */
    readonly message: string | null;
  }[];
}

export interface FetchRequest {
  readonly maxWaitMs: number;
  readonly minBytes: number;
  readonly maxBytes: number;
  readonly entries: readonly {
    readonly topicId: TopicId;
    readonly partition: number;
    /** -1 = not checked. */
    readonly leaderEpoch: number;
    readonly offset: number;
    readonly maxBytes: number;
  }[];
}
/** A long answer comes in parts of one correlation id (the `more` flag); each part has some of the entries. */
export interface FetchResponse {
  readonly entries: readonly {
    /** Position of the entry in the request. */
    readonly index: number;
    readonly error: ErrorName;
    readonly leaderEpoch: number;
    readonly logStartOffset: number;
    /** -1 with an error, and while a new leader gives what it knows to be committed but cannot say where that ends (S-25). */
    readonly highWatermark: number;
    /** Equal to highWatermark until transactions exist (D-33). */
    readonly lastStableOffset: number;
    /** Position among the part's bodies of this entry's batches; -1 = none. The first batch may start below the asked offset. */
    readonly body: number;
  }[];
}

export const LATEST_TIMESTAMP = -1;
export const EARLIEST_TIMESTAMP = -2;

export interface ListOffsetsRequest {
  readonly entries: readonly {
    readonly topicId: TopicId;
    readonly partition: number;
    /** LATEST_TIMESTAMP, EARLIEST_TIMESTAMP, or milliseconds: the first record at or after it. */
    readonly timestamp: number;
  }[];
}
export interface ListOffsetsResponse {
  readonly entries: readonly {
    readonly error: ErrorName;
    /** -1 = no record that late. */
    readonly offset: number;
    /** Timestamp of the record found; -1 for EARLIEST, LATEST and not found. */
    readonly timestamp: number;
    readonly leaderEpoch: number;
  }[];
}

export interface CreateTopicsRequest {
  readonly validateOnly: boolean;
  readonly topics: readonly {
    readonly name: string;
    /** -1 = the broker's num.partitions. */
    readonly partitions: number;
    /** -1 = the default. */
    readonly replicationFactor: number;
    readonly configs: readonly { readonly key: string; readonly value: string }[];
  }[];
  /**
   * Since version 1: drawn by the client, the same in each try of one change; only with a single topic. A change whose id was applied before
   * is answered as done and not done again (Raft paper, section 8).
   */
  readonly requestId: Uuid | null;
}
export interface CreateTopicsResponse {
  readonly topics: readonly {
    readonly name: string;
    readonly error: ErrorName;
    readonly message: string | null;
    /** null when not created. */
    readonly topicId: TopicId | null;
    /** -1: an earlier try with this request id created the topic, and it is gone again. */
    readonly partitions: number;
  }[];
}

/** The answer comes when the topics are marked for deletion; a name is free again when Metadata no longer lists it. */
export interface DeleteTopicsRequest {
  readonly names: readonly string[];
  /** Since version 1; as in CreateTopics. */
  readonly requestId: Uuid | null;
}
export interface DeleteTopicsResponse {
  readonly topics: readonly { readonly name: string; readonly error: ErrorName; readonly message: string | null }[];
}

export type ConfigResource = "topic" | "broker";

/** Sets and removes keys of one topic or broker: all of the changes or none. */
export interface AlterConfigsRequest {
  readonly resource: ConfigResource;
  /** Name of the topic, or node id of the broker; "" with "broker": the default of all brokers. */
  readonly name: string;
  /** null = take the key away: what stands below it applies again. */
  readonly changes: readonly { readonly key: string; readonly value: string | null }[];
  readonly validateOnly: boolean;
  /** As in CreateTopics. */
  readonly requestId: Uuid | null;
}
export interface AlterConfigsResponse {
  /** End of the metadata log that has the change. */
  readonly metadataEnd: number;
}

/** Where a value comes from, the strongest first; each applies where those before it say nothing. */
export type ConfigSource = "topic" | "broker" | "cluster" | "static" | "default";

/** A broker's own configuration is known to that broker only: another one refuses with INVALID_REQUEST. */
export interface DescribeConfigsRequest {
  readonly resource: ConfigResource;
  /** As in AlterConfigs. */
  readonly name: string;
  /** null = all. */
  readonly keys: readonly string[] | null;
  /** As in Metadata. */
  readonly barrier: boolean;
}
export interface DescribeConfigsResponse {
  readonly configs: readonly {
    readonly key: string;
    readonly value: string;
    readonly source: ConfigSource;
    /** AlterConfigs cannot change it: it is read at the start of a broker. */
    readonly isReadOnly: boolean;
  }[];
  readonly metadataEnd: number;
}

/** Request and answer type of each api. */
export interface ApiTypes {
  [API.HELLO]: { request: HelloRequest; response: HelloResponse };
  [API.METADATA]: { request: MetadataRequest; response: MetadataResponse };
  [API.PRODUCE]: { request: ProduceRequest; response: ProduceResponse };
  [API.FETCH]: { request: FetchRequest; response: FetchResponse };
  [API.LIST_OFFSETS]: { request: ListOffsetsRequest; response: ListOffsetsResponse };
  [API.CREATE_TOPICS]: { request: CreateTopicsRequest; response: CreateTopicsResponse };
  [API.DELETE_TOPICS]: { request: DeleteTopicsRequest; response: DeleteTopicsResponse };
  [API.ALTER_CONFIGS]: { request: AlterConfigsRequest; response: AlterConfigsResponse };
  [API.DESCRIBE_CONFIGS]: { request: DescribeConfigsRequest; response: DescribeConfigsResponse };
  [API.DELETE_RECORDS]: { request: replication.DeleteRecordsRequest; response: replication.DeleteRecordsResponse };
  [API.RAFT]: { request: quorum.RaftRequest; response: quorum.Done };
  [API.VOTER_HELLO]: { request: quorum.VoterHelloRequest; response: quorum.VoterHelloResponse };
  [API.ADOPT]: { request: quorum.AdoptRequest; response: quorum.Done };
  [API.REGISTER_BROKER]: { request: quorum.RegisterBrokerRequest; response: quorum.RegisterBrokerResponse };
  [API.BROKER_HEARTBEAT]: { request: quorum.BrokerHeartbeatRequest; response: quorum.BrokerHeartbeatResponse };
  [API.FETCH_METADATA]: { request: quorum.FetchMetadataRequest; response: quorum.FetchMetadataResponse };
  [API.DESCRIBE_QUORUM]: { request: quorum.DescribeQuorumRequest; response: quorum.DescribeQuorumResponse };
  [API.CHANGE_QUORUM]: { request: quorum.ChangeQuorumRequest; response: quorum.Done };
  [API.RAISE_METADATA_VERSION]: { request: quorum.RaiseMetadataVersionRequest; response: quorum.Done };
  [API.UNREGISTER_BROKER]: { request: quorum.UnregisterBrokerRequest; response: quorum.Done };
  [API.ALTER_PARTITION]: { request: replication.AlterPartitionRequest; response: replication.AlterPartitionResponse };
  [API.REPLICA_FETCH]: { request: replication.ReplicaFetchRequest; response: replication.ReplicaFetchResponse };
  [API.DURABLE_REPORT]: { request: replication.DurableReportRequest; response: quorum.Done };
  [API.ELECT_LEADERS]: { request: replication.ElectLeadersRequest; response: replication.ElectLeadersResponse };
  [API.DESCRIBE_PARTITIONS]: {
    request: replication.DescribePartitionsRequest;
    response: replication.DescribePartitionsResponse;
  };
  [API.INIT_PRODUCER_ID]: { request: producer.InitProducerIdRequest; response: producer.InitProducerIdResponse };
  [API.ALLOCATE_PRODUCER_IDS]: {
    request: producer.AllocateProducerIdsRequest;
    response: producer.AllocateProducerIdsResponse;
  };
}
