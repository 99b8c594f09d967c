// The requests and answers of the native protocol as TypeScript sees them; schemas.ts says how each is laid out in an envelope.
// Bodies (runs of whole record batches) travel beside them: entry i of a request or answer owns the body that it names.
import type { NodeId, TopicId, Uuid } from "../../model/ids.ts";
import type { ErrorName, Outcome } from "../../model/errors.ts";

export const API = {
  HELLO: 1,
  METADATA: 2,
  PRODUCE: 3,
  FETCH: 4,
  LIST_OFFSETS: 5,
  CREATE_TOPICS: 6,
  DELETE_TOPICS: 7,
} as const;
export type ApiKey = (typeof API)[keyof typeof API];

/** First request of every connection: each side learns what the other speaks (docs/protocol.md, "Versions"). */
export interface HelloRequest {
  readonly clientId: string;
  /** Name and version of the software, for logs. */
  readonly software: string;
}
export interface HelloResponse {
  readonly clusterId: Uuid;
  readonly nodeId: NodeId;
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
}
export interface PartitionMetadata {
  readonly index: number;
  readonly error: ErrorName;
  /** -1 = none. */
  readonly leader: number;
  readonly leaderEpoch: number;
  readonly replicas: readonly number[];
  readonly isr: readonly number[];
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
export interface MetadataResponse {
  readonly clusterId: Uuid;
  /** -1 = unknown. */
  readonly controllerId: number;
  readonly brokers: readonly { readonly nodeId: number; readonly address: string }[];
  /** Sorted by name. */
  readonly topics: readonly TopicMetadata[];
  /** Not null: more topics follow; ask again with `after`. */
  readonly next: string | null;
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
}
export interface CreateTopicsResponse {
  readonly topics: readonly {
    readonly name: string;
    readonly error: ErrorName;
    readonly message: string | null;
    /** null when not created. */
    readonly topicId: TopicId | null;
    readonly partitions: number;
  }[];
}

/** The answer comes when the topics are marked for deletion; a name is free again when Metadata no longer lists it. */
export interface DeleteTopicsRequest {
  readonly names: readonly string[];
}
export interface DeleteTopicsResponse {
  readonly topics: readonly { readonly name: string; readonly error: ErrorName; readonly message: string | null }[];
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
}
