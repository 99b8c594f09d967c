// How each request and answer of apis.ts is laid out: fixed arrays of the interface's fields in their order, with their limits.
// docs/protocol.md says the same in words. Ranges are wide on purpose where the broker has an error code of its own for what
// is out of range: a bad partition or acks is answered, only what no sane peer can send closes the connection.
import type { ErrorName } from "../../model/errors.ts";
import { API } from "./apis.ts";
import type * as apis from "./apis.ts";
import { FIELD_LIMITS, configs, configValue, count64, int32, int64, message, name, nodeId, note1k } from "./layout.ts";
import type { ApiSchema } from "./layout.ts";
import { LIMITS } from "./protocol.ts";
import { PRODUCER_SCHEMAS } from "./producer-schemas.ts";
import { QUORUM_SCHEMAS } from "./quorum-schemas.ts";
import { REPLICATION_SCHEMAS } from "./replication-schemas.ts";
import {
  INT16,
  UINT32,
  array,
  bool,
  choice,
  errorName,
  int,
  nullable,
  older,
  outcome,
  struct,
  uuid,
} from "./schema.ts";
import type { Schema } from "./schema.ts";

export { FIELD_LIMITS } from "./layout.ts";
export type { MessageSchema } from "./layout.ts";

export type ApiSchemas = {
  readonly [K in apis.ApiKey]: ApiSchema<apis.ApiTypes[K]["request"], apis.ApiTypes[K]["response"]>;
};

const entries = <T>(entry: Schema<T>) => array(entry, FIELD_LIMITS.ENTRIES);

const helloRequest = struct<apis.HelloRequest>({ clientId: note1k, software: note1k });
const helloResponse = struct<apis.HelloResponse>({
  clusterId: uuid,
  nodeId: nodeId,
  brokerEpoch: int64,
  software: note1k,
  apis: array(
    struct<apis.HelloResponse["apis"][number]>({ key: int(UINT32), minVersion: int(UINT32), maxVersion: int(UINT32) }),
    FIELD_LIMITS.APIS,
  ),
  messageBytesMax: count64,
  inFlightBytesMax: count64,
});

const metadataFields = { topics: nullable(array(name, FIELD_LIMITS.TOPICS)), after: nullable(name) };
const metadataRequest0 = older<apis.MetadataRequest, "barrier">(metadataFields, { barrier: false });
const metadataRequest = struct<apis.MetadataRequest>({ ...metadataFields, barrier: bool });
type Replicated = "elr" | "partitionEpoch" | "minIsr" | "uncleanEpoch";
const replicas = array(int32, FIELD_LIMITS.REPLICAS);
/** Before version 2 there was one word for a partition that nobody leads. */
const leaderlessError: Schema<ErrorName> = {
  ...errorName,
  encode: (value, trail) => errorName.encode(isLeaderless(value) ? "NOT_LEADER_OR_FOLLOWER" : value, trail),
};
const isLeaderless = (error: ErrorName): boolean => error === "NO_INTACT_REPLICA" || error === "LEADER_NOT_AVAILABLE";
const partitionMetadata1 = older<apis.PartitionMetadata, Replicated>(
  { index: int32, error: leaderlessError, leader: int32, leaderEpoch: int32, replicas, isr: replicas },
  { elr: [], partitionEpoch: -1, minIsr: -1, uncleanEpoch: -1 },
);
const partitionMetadata = struct<apis.PartitionMetadata>({
  index: int32,
  error: errorName,
  leader: int32,
  leaderEpoch: int32,
  replicas,
  isr: replicas,
  elr: replicas,
  partitionEpoch: int32,
  minIsr: int32,
  uncleanEpoch: int32,
});
const topicMetadataOf = (partition: Schema<apis.PartitionMetadata>): Schema<apis.TopicMetadata> =>
  struct<apis.TopicMetadata>({
    name,
    error: errorName,
    topicId: uuid,
    isDeleting: bool,
    maxMessageBytes: count64,
    configs,
    partitions: array(partition, FIELD_LIMITS.PARTITIONS),
  });
export const topicMetadata = topicMetadataOf(partitionMetadata);
const metadataTopics1 = array(topicMetadataOf(partitionMetadata1), FIELD_LIMITS.PARTITIONS);
const metadataResponse0 = older<apis.MetadataResponse, "metadataEnd">(
  {
    clusterId: uuid,
    controllerId: int32,
    brokers: array(
      older<apis.BrokerMetadata, "isFenced">({ nodeId: int32, address: name }, { isFenced: false }),
      FIELD_LIMITS.BROKERS,
    ),
    topics: metadataTopics1,
    next: nullable(name),
  },
  { metadataEnd: -1 },
);
const metadataResponseOf = (topics: Schema<readonly apis.TopicMetadata[]>): Schema<apis.MetadataResponse> =>
  struct<apis.MetadataResponse>({
    clusterId: uuid,
    controllerId: int32,
    brokers: array(struct<apis.BrokerMetadata>({ nodeId: int32, address: name, isFenced: bool }), FIELD_LIMITS.BROKERS),
    topics,
    next: nullable(name),
    metadataEnd: int64,
  });
const metadataResponse1 = metadataResponseOf(metadataTopics1);
const metadataResponse = metadataResponseOf(array(topicMetadata, FIELD_LIMITS.PARTITIONS));

const produceRequest = struct<apis.ProduceRequest>({
  acks: int(INT16),
  timeoutMs: int32,
  entries: entries(
    struct<apis.ProduceRequest["entries"][number]>({
      topicId: uuid,
      partition: int32,
      leaderEpoch: int32,
      isResent: bool,
    }),
  ),
});
const produceResponse = struct<apis.ProduceResponse>({
  entries: entries(
    struct<apis.ProduceResponse["entries"][number]>({
      error: errorName,
      outcome,
      baseOffset: int64,
      logStartOffset: int64,
      message: nullable(note1k),
    }),
  ),
});

const fetchRequest = struct<apis.FetchRequest>({
  maxWaitMs: int32,
  minBytes: int32,
  maxBytes: int32,
  entries: entries(
    struct<apis.FetchRequest["entries"][number]>({
      topicId: uuid,
      partition: int32,
      leaderEpoch: int32,
      offset: int64,
      maxBytes: int32,
    }),
  ),
});
const fetchResponse = struct<apis.FetchResponse>({
  entries: entries(
    struct<apis.FetchResponse["entries"][number]>({
      index: int({ min: 0, max: FIELD_LIMITS.ENTRIES - 1 }),
      error: errorName,
      leaderEpoch: int32,
      logStartOffset: int64,
      highWatermark: int64,
      lastStableOffset: int64,
      body: int({ min: -1, max: LIMITS.BODIES - 1 }),
    }),
  ),
});

const listOffsetsRequest = struct<apis.ListOffsetsRequest>({
  entries: entries(
    struct<apis.ListOffsetsRequest["entries"][number]>({ topicId: uuid, partition: int32, timestamp: int64 }),
  ),
});
const listOffsetsResponse = struct<apis.ListOffsetsResponse>({
  entries: entries(
    struct<apis.ListOffsetsResponse["entries"][number]>({
      error: errorName,
      offset: int64,
      timestamp: int64,
      leaderEpoch: int32,
    }),
  ),
});

const createTopicsFields = {
  validateOnly: bool,
  topics: array(
    struct<apis.CreateTopicsRequest["topics"][number]>({ name, partitions: int32, replicationFactor: int32, configs }),
    FIELD_LIMITS.TOPICS,
  ),
};
const createTopicsRequest0 = older<apis.CreateTopicsRequest, "requestId">(createTopicsFields, { requestId: null });
const createTopicsRequest = struct<apis.CreateTopicsRequest>({ ...createTopicsFields, requestId: nullable(uuid) });
const createTopicsResponse = struct<apis.CreateTopicsResponse>({
  topics: array(
    struct<apis.CreateTopicsResponse["topics"][number]>({
      name,
      error: errorName,
      message: nullable(note1k),
      topicId: nullable(uuid),
      partitions: int32,
    }),
    FIELD_LIMITS.TOPICS,
  ),
});

const deleteTopicsFields = { names: array(name, FIELD_LIMITS.TOPICS) };
const deleteTopicsRequest0 = older<apis.DeleteTopicsRequest, "requestId">(deleteTopicsFields, { requestId: null });
const deleteTopicsRequest = struct<apis.DeleteTopicsRequest>({ ...deleteTopicsFields, requestId: nullable(uuid) });
const deleteTopicsResponse = struct<apis.DeleteTopicsResponse>({
  topics: array(
    struct<apis.DeleteTopicsResponse["topics"][number]>({ name, error: errorName, message: nullable(note1k) }),
    FIELD_LIMITS.TOPICS,
  ),
});

const resource = choice<apis.ConfigResource>("topic", "broker");
const alterConfigsRequest = struct<apis.AlterConfigsRequest>({
  resource,
  name,
  changes: array(
    struct<apis.AlterConfigsRequest["changes"][number]>({ key: name, value: nullable(configValue) }),
    FIELD_LIMITS.CONFIGS,
  ),
  validateOnly: bool,
  requestId: nullable(uuid),
});
const alterConfigsResponse = struct<apis.AlterConfigsResponse>({ metadataEnd: int64 });

const describeConfigsRequest = struct<apis.DescribeConfigsRequest>({
  resource,
  name,
  keys: nullable(array(name, FIELD_LIMITS.CONFIGS)),
  barrier: bool,
});
const describeConfigsResponse = struct<apis.DescribeConfigsResponse>({
  configs: array(
    struct<apis.DescribeConfigsResponse["configs"][number]>({
      key: name,
      value: configValue,
      source: choice<apis.ConfigSource>("topic", "broker", "cluster", "static", "default"),
      isReadOnly: bool,
    }),
    FIELD_LIMITS.CONFIG_ROWS,
  ),
  metadataEnd: int64,
});

function produceBodiesFault(request: apis.ProduceRequest, bodies: number): string | undefined {
  const { length } = request.entries;
  return length === bodies ? undefined : `${length} entries come with ${bodies} bodies`;
}

function fetchBodiesFault(response: apis.FetchResponse, bodies: number): string | undefined {
  for (const entry of response.entries)
    if (entry.body >= bodies) return `an entry names body ${entry.body} of ${bodies}`;
  return undefined;
}

function barrierFault({ barrier }: apis.MetadataRequest): string | undefined {
  return barrier ? "a linearizable read needs version 1 of metadata" : undefined;
}

const METADATA_ANSWER = {
  bytesMax: LIMITS.METADATA_ANSWER_BYTES,
  elementsMax: FIELD_LIMITS.METADATA_ANSWER_ELEMENTS,
} as const;

/** Repeats the names of its request, and says more of each. */
const NAMES_ANSWER = { bytesMax: LIMITS.METADATA_ANSWER_BYTES } as const;

export const SCHEMAS: ApiSchemas = {
  [API.HELLO]: { minVersion: 0, versions: [{ request: message(helloRequest), response: message(helloResponse) }] },
  [API.METADATA]: {
    minVersion: 0,
    versions: [
      {
        request: message(metadataRequest0, { versionFault: barrierFault }),
        response: message(metadataResponse0, METADATA_ANSWER),
      },
      { request: message(metadataRequest), response: message(metadataResponse1, METADATA_ANSWER) },
      { request: message(metadataRequest), response: message(metadataResponse, METADATA_ANSWER) },
    ],
  },
  [API.PRODUCE]: {
    minVersion: 0,
    versions: [
      { request: message(produceRequest, { bodiesFault: produceBodiesFault }), response: message(produceResponse) },
    ],
  },
  [API.FETCH]: {
    minVersion: 0,
    versions: [{ request: message(fetchRequest), response: message(fetchResponse, { bodiesFault: fetchBodiesFault }) }],
  },
  [API.LIST_OFFSETS]: {
    minVersion: 0,
    versions: [{ request: message(listOffsetsRequest), response: message(listOffsetsResponse) }],
  },
  [API.CREATE_TOPICS]: {
    minVersion: 0,
    versions: [
      { request: message(createTopicsRequest0), response: message(createTopicsResponse, NAMES_ANSWER) },
      { request: message(createTopicsRequest), response: message(createTopicsResponse, NAMES_ANSWER) },
    ],
  },
  [API.DELETE_TOPICS]: {
    minVersion: 0,
    versions: [
      { request: message(deleteTopicsRequest0), response: message(deleteTopicsResponse, NAMES_ANSWER) },
      { request: message(deleteTopicsRequest), response: message(deleteTopicsResponse, NAMES_ANSWER) },
    ],
  },
  [API.ALTER_CONFIGS]: {
    minVersion: 0,
    versions: [{ request: message(alterConfigsRequest), response: message(alterConfigsResponse) }],
  },
  [API.DESCRIBE_CONFIGS]: {
    minVersion: 0,
    versions: [
      {
        request: message(describeConfigsRequest),
        response: message(describeConfigsResponse, { bytesMax: LIMITS.METADATA_ANSWER_BYTES }),
      },
    ],
  },
  ...QUORUM_SCHEMAS,
  ...REPLICATION_SCHEMAS,
  ...PRODUCER_SCHEMAS,
};

export interface VersionRange {
  readonly key: apis.ApiKey;
  readonly minVersion: number;
  readonly maxVersion: number;
}

/** What this build speaks, for the Hello answer. */
export const SUPPORTED_VERSIONS: readonly VersionRange[] = Object.values(API).map((key) => {
  const { minVersion, versions } = SCHEMAS[key];
  return { key, minVersion, maxVersion: minVersion + versions.length - 1 };
});
