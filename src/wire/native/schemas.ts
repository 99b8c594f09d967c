// How each request and answer of apis.ts is laid out: fixed arrays of the interface's fields in their order, with their limits.
// docs/protocol.md says the same in words. Ranges are wide on purpose where the broker has an error code of its own for what
// is out of range: a bad partition or acks is answered, only what no sane peer can send closes the connection.
import type { NodeId } from "../../model/ids.ts";
import { API } from "./apis.ts";
import type * as apis from "./apis.ts";
import { LIMITS } from "./protocol.ts";
import {
  COUNT64,
  INT16,
  INT32,
  INT64,
  UINT32,
  array,
  bool,
  errorName,
  int,
  note,
  nullable,
  outcome,
  struct,
  text,
  uuid,
} from "./schema.ts";
import type { Schema } from "./schema.ts";

/** One request or answer layout of one version. */
export interface MessageSchema<T> {
  readonly payload: Schema<T>;
  /** Longest envelope. */
  readonly bytesMax: number;
  /** Most array elements of the whole envelope. */
  readonly elementsMax: number;
  /** What is wrong with this many bodies for this payload; undefined when nothing is. */
  readonly bodiesFault: (payload: T, bodies: number) => string | undefined;
}

/** One api: versions[i] is the layout of version minVersion + i. */
export interface ApiSchema<Request, Response> {
  readonly minVersion: number;
  readonly versions: readonly {
    readonly request: MessageSchema<Request>;
    readonly response: MessageSchema<Response>;
  }[];
}

export type ApiSchemas = {
  readonly [K in apis.ApiKey]: ApiSchema<apis.ApiTypes[K]["request"], apis.ApiTypes[K]["response"]>;
};

/** The limits of the fields; docs/protocol.md lists them. */
export const FIELD_LIMITS = {
  TEXT: 1024,
  CONFIG_VALUE: 8 * 1024,
  ENTRIES: LIMITS.BODIES,
  TOPICS: 1024,
  CONFIGS: 64,
  PARTITIONS: 100_000,
  REPLICAS: 64,
  BROKERS: 1024,
  APIS: 64,
  METADATA_ANSWER_ELEMENTS: 300_000,
} as const;

/** Fields of the response envelope, of the longer of the two. */
const ENVELOPE_FIELDS = 8;

const noBodies = (_payload: unknown, bodies: number): string | undefined =>
  bodies === 0 ? undefined : "this message has no bodies";

function message<T>(payload: Schema<T>, limits: Partial<Omit<MessageSchema<T>, "payload">> = {}): MessageSchema<T> {
  const bodiesFault = limits.bodiesFault ?? noBodies;
  const bodiesMax = limits.bodiesFault === undefined ? 0 : LIMITS.BODIES;
  const elementsMax = limits.elementsMax ?? payload.elementsMax + ENVELOPE_FIELDS + bodiesMax;
  return { payload, bytesMax: limits.bytesMax ?? LIMITS.ENVELOPE_BYTES, elementsMax, bodiesFault };
}

const name = text(FIELD_LIMITS.TEXT);
const note1k = note(FIELD_LIMITS.TEXT);
const int32 = int(INT32);
const int64 = int(INT64);
const configs = array(
  struct<{ key: string; value: string }>({ key: name, value: text(FIELD_LIMITS.CONFIG_VALUE) }),
  FIELD_LIMITS.CONFIGS,
);
const entries = <T>(entry: Schema<T>) => array(entry, FIELD_LIMITS.ENTRIES);

const helloRequest = struct<apis.HelloRequest>({ clientId: note1k, software: note1k });
const helloResponse = struct<apis.HelloResponse>({
  clusterId: uuid,
  nodeId: int<NodeId>({ min: 0, max: INT32.max }),
  brokerEpoch: int64,
  software: note1k,
  apis: array(
    struct<apis.HelloResponse["apis"][number]>({ key: int(UINT32), minVersion: int(UINT32), maxVersion: int(UINT32) }),
    FIELD_LIMITS.APIS,
  ),
  messageBytesMax: int(COUNT64),
  inFlightBytesMax: int(COUNT64),
});

const metadataRequest = struct<apis.MetadataRequest>({
  topics: nullable(array(name, FIELD_LIMITS.TOPICS)),
  after: nullable(name),
});
const partitionMetadata = struct<apis.PartitionMetadata>({
  index: int32,
  error: errorName,
  leader: int32,
  leaderEpoch: int32,
  replicas: array(int32, FIELD_LIMITS.REPLICAS),
  isr: array(int32, FIELD_LIMITS.REPLICAS),
});
export const topicMetadata = struct<apis.TopicMetadata>({
  name,
  error: errorName,
  topicId: uuid,
  isDeleting: bool,
  maxMessageBytes: int(COUNT64),
  configs,
  partitions: array(partitionMetadata, FIELD_LIMITS.PARTITIONS),
});
const metadataResponse = struct<apis.MetadataResponse>({
  clusterId: uuid,
  controllerId: int32,
  brokers: array(
    struct<apis.MetadataResponse["brokers"][number]>({ nodeId: int32, address: name }),
    FIELD_LIMITS.BROKERS,
  ),
  topics: array(topicMetadata, FIELD_LIMITS.PARTITIONS),
  next: nullable(name),
});

const produceRequest = struct<apis.ProduceRequest>({
  acks: int(INT16),
  timeoutMs: int32,
  entries: entries(
    struct<apis.ProduceRequest["entries"][number]>({ topicId: uuid, partition: int32, leaderEpoch: int32 }),
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

const createTopicsRequest = struct<apis.CreateTopicsRequest>({
  validateOnly: bool,
  topics: array(
    struct<apis.CreateTopicsRequest["topics"][number]>({ name, partitions: int32, replicationFactor: int32, configs }),
    FIELD_LIMITS.TOPICS,
  ),
});
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

const deleteTopicsRequest = struct<apis.DeleteTopicsRequest>({ names: array(name, FIELD_LIMITS.TOPICS) });
const deleteTopicsResponse = struct<apis.DeleteTopicsResponse>({
  topics: array(
    struct<apis.DeleteTopicsResponse["topics"][number]>({ name, error: errorName, message: nullable(note1k) }),
    FIELD_LIMITS.TOPICS,
  ),
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

const METADATA_ANSWER = {
  bytesMax: LIMITS.METADATA_ANSWER_BYTES,
  elementsMax: FIELD_LIMITS.METADATA_ANSWER_ELEMENTS,
} as const;

export const SCHEMAS: ApiSchemas = {
  [API.HELLO]: { minVersion: 0, versions: [{ request: message(helloRequest), response: message(helloResponse) }] },
  [API.METADATA]: {
    minVersion: 0,
    versions: [{ request: message(metadataRequest), response: message(metadataResponse, METADATA_ANSWER) }],
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
    versions: [{ request: message(createTopicsRequest), response: message(createTopicsResponse) }],
  },
  [API.DELETE_TOPICS]: {
    minVersion: 0,
    versions: [{ request: message(deleteTopicsRequest), response: message(deleteTopicsResponse) }],
  },
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
