// The layouts of replication-apis.ts.
import { API } from "./apis.ts";
import type { ApiTypes } from "./apis.ts";
import { FIELD_LIMITS, count64, int32, int64, message, name, nodeId, note1k } from "./layout.ts";
import type { ApiSchema } from "./layout.ts";
import { LIMITS } from "./protocol.ts";
import { REPLICA_ROW } from "./replication-apis.ts";
import type * as apis from "./replication-apis.ts";
import { INT32, INT64, array, bool, choice, errorName, intRows, nullable, struct, uuid } from "./schema.ts";
import type { Range } from "./schema.ts";

type ReplicationKey = 42 | 43 | 44 | 45 | 46;
type ReplicationSchemas = {
  readonly [K in ReplicationKey]: ApiSchema<ApiTypes[K]["request"], ApiTypes[K]["response"]>;
};

const SLOT: Range = { min: 0, max: INT32.max };
const EPOCH = INT32;
const OFFSET = INT64;
const ERROR_CODE: Range = { min: 0, max: 0xffff };

const alterPartitionRequest = struct<apis.AlterPartitionRequest>({
  nodeId,
  brokerEpoch: int64,
  entries: array(
    struct<apis.AlterPartitionRequest["entries"][number]>({
      topicId: uuid,
      partition: int32,
      leaderEpoch: int32,
      partitionEpoch: int32,
      isr: array(
        struct<{ nodeId: number; brokerEpoch: number }>({ nodeId: int32, brokerEpoch: int64 }),
        FIELD_LIMITS.REPLICAS,
      ),
      wantsMove: bool,
    }),
    FIELD_LIMITS.ALTERED_PARTITIONS,
  ),
});
const alterPartitionResponse = struct<apis.AlterPartitionResponse>({
  entries: array(
    struct<apis.AlterPartitionResponse["entries"][number]>({ error: errorName }),
    FIELD_LIMITS.ALTERED_PARTITIONS,
  ),
});

const slot = int32;
const replicaFetchRequest = struct<apis.ReplicaFetchRequest>({
  nodeId,
  brokerEpoch: int64,
  sessionId: count64,
  maxWaitMs: int32,
  maxBytes: int32,
  added: array(
    struct<apis.ReplicaFetchRequest["added"][number]>({ slot, topicId: uuid, partition: int32 }),
    FIELD_LIMITS.REPLICA_ROWS,
  ),
  positions: intRows([SLOT, EPOCH, OFFSET, EPOCH], FIELD_LIMITS.REPLICA_ROWS),
  removed: intRows([SLOT], FIELD_LIMITS.REPLICA_ROWS),
});
const BODY: Range = { min: -1, max: LIMITS.BODIES - 1 };
const replicaFetchResponse = struct<apis.ReplicaFetchResponse>({
  rows: intRows([SLOT, ERROR_CODE, EPOCH, OFFSET, OFFSET, EPOCH, OFFSET, BODY], FIELD_LIMITS.REPLICA_ROWS),
});
const durableReport = struct<apis.DurableReportRequest>({
  nodeId,
  brokerEpoch: int64,
  sessionId: count64,
  rows: intRows([SLOT, EPOCH, OFFSET], FIELD_LIMITS.REPLICA_ROWS),
});

const electLeadersRequest = struct<apis.ElectLeadersRequest>({
  kind: choice<apis.ElectLeadersRequest["kind"]>("preferred", "unclean"),
  topic: nullable(name),
  partitions: nullable(intRows([INT32], FIELD_LIMITS.ELECTED)),
  nodeId: int32,
  isForced: bool,
});
const electLeadersResponse = struct<apis.ElectLeadersResponse>({
  entries: array(
    struct<apis.ElectLeadersResponse["entries"][number]>({
      topic: name,
      partition: int32,
      error: errorName,
      message: nullable(note1k),
      leader: int32,
      endOffset: int64,
    }),
    FIELD_LIMITS.ELECTED,
  ),
  omitted: int32,
  metadataEnd: int64,
});

type Described = apis.DescribePartitionsResponse["entries"][number];
const describePartitionsRequest = struct<apis.DescribePartitionsRequest>({
  entries: array(
    struct<apis.DescribePartitionsRequest["entries"][number]>({ topicId: uuid, partition: int32 }),
    FIELD_LIMITS.DESCRIBED_PARTITIONS,
  ),
});
const describePartitionsResponse = struct<apis.DescribePartitionsResponse>({
  entries: array(
    struct<Described>({
      error: errorName,
      leaderEpoch: int32,
      partitionEpoch: int32,
      logStartOffset: int64,
      highWatermark: int64,
      endOffset: int64,
      durableEnd: int64,
      replicas: array(
        struct<Described["replicas"][number]>({
          nodeId: int32,
          endOffset: int64,
          durableEnd: int64,
          caughtUpMsAgo: int64,
          isInSync: bool,
        }),
        FIELD_LIMITS.REPLICAS,
      ),
    }),
    FIELD_LIMITS.DESCRIBED_PARTITIONS,
  ),
});

function replicaBodiesFault({ rows }: apis.ReplicaFetchResponse, bodies: number): string | undefined {
  for (let at = REPLICA_ROW.BODY; at < rows.length; at += REPLICA_ROW.WIDTH) {
    const body = rows[at] as number;
    if (body >= bodies) return `a row names body ${body} of ${bodies}`;
  }
  return undefined;
}

const done = struct<Readonly<Record<never, never>>>({});
const long = { bytesMax: LIMITS.REPLICA_ENVELOPE_BYTES } as const;
/** Three replicas of each at the longest; with more of them fewer partitions fit. */
const ALTERED_ELEMENTS = { ...long, elementsMax: FIELD_LIMITS.ALTERED_PARTITIONS * (7 + 3 * 16) } as const;

export const REPLICATION_SCHEMAS: ReplicationSchemas = {
  [API.ALTER_PARTITION]: {
    minVersion: 0,
    versions: [
      { request: message(alterPartitionRequest, ALTERED_ELEMENTS), response: message(alterPartitionResponse) },
    ],
  },
  [API.REPLICA_FETCH]: {
    minVersion: 0,
    versions: [
      {
        request: message(replicaFetchRequest, long),
        response: message(replicaFetchResponse, { ...long, bodiesFault: replicaBodiesFault }),
      },
    ],
  },
  [API.DURABLE_REPORT]: {
    minVersion: 0,
    isOneWay: true,
    versions: [{ request: message(durableReport), response: message(done) }],
  },
  [API.ELECT_LEADERS]: {
    minVersion: 0,
    versions: [
      {
        request: message(electLeadersRequest),
        response: message(electLeadersResponse, { bytesMax: LIMITS.METADATA_ANSWER_BYTES }),
      },
    ],
  },
  [API.DESCRIBE_PARTITIONS]: {
    minVersion: 0,
    versions: [
      {
        request: message(describePartitionsRequest),
        response: message(describePartitionsResponse, { bytesMax: LIMITS.METADATA_ANSWER_BYTES }),
      },
    ],
  },
};
