// The layouts of replication-apis.ts.
import { API } from "./apis.ts";
import type { ApiTypes } from "./apis.ts";
import { FIELD_LIMITS, count64, int32, int64, message, name, nodeId, note1k } from "./layout.ts";
import type { ApiSchema } from "./layout.ts";
import { LIMITS } from "./protocol.ts";
import { DURABLE_ROW, REPLICA_ROW } from "./replication-apis.ts";
import type * as apis from "./replication-apis.ts";
import {
  COUNT64,
  FAULT,
  INT32,
  INT64,
  array,
  bool,
  choice,
  errorName,
  int,
  intRows,
  nullable,
  struct,
  uuid,
} from "./schema.ts";
import type { Range, Schema } from "./schema.ts";

type ReplicationKey = 10 | 42 | 43 | 44 | 45 | 46;
type ReplicationSchemas = {
  readonly [K in ReplicationKey]: ApiSchema<ApiTypes[K]["request"], ApiTypes[K]["response"]>;
};

const COUNT32: Range = { min: 0, max: INT32.max };
const SLOT = COUNT32;
/** -1: none. */
const EPOCH: Range = { min: -1, max: INT32.max };
const OFFSET = COUNT64;
/** -1: none, or not said. */
const OFFSET_OR_NONE: Range = { min: -1, max: INT64.max };
const ERROR_CODE: Range = { min: 0, max: 0xffff };
const count32 = int(COUNT32);

const alterPartitionRequest = struct<apis.AlterPartitionRequest>({
  nodeId,
  brokerEpoch: count64,
  entries: array(
    struct<apis.AlterPartitionRequest["entries"][number]>({
      topicId: uuid,
      partition: count32,
      leaderEpoch: count32,
      partitionEpoch: count32,
      isr: array(
        struct<{ nodeId: number; brokerEpoch: number }>({ nodeId: count32, brokerEpoch: int(OFFSET_OR_NONE) }),
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

const replicaFetchRequest = struct<apis.ReplicaFetchRequest>({
  nodeId,
  brokerEpoch: count64,
  sessionId: count64,
  maxWaitMs: count32,
  maxBytes: count32,
  added: array(
    struct<apis.ReplicaFetchRequest["added"][number]>({ slot: count32, topicId: uuid, partition: count32 }),
    FIELD_LIMITS.REPLICA_ROWS,
  ),
  positions: intRows([SLOT, EPOCH, OFFSET, EPOCH], FIELD_LIMITS.REPLICA_ROWS),
  removed: intRows([SLOT], FIELD_LIMITS.REPLICA_ROWS),
});
const BODY: Range = { min: -1, max: LIMITS.BODIES - 1 };
const replicaFetchResponse = struct<apis.ReplicaFetchResponse>({
  rows: intRows(
    [SLOT, ERROR_CODE, EPOCH, OFFSET_OR_NONE, OFFSET_OR_NONE, EPOCH, OFFSET_OR_NONE, BODY],
    FIELD_LIMITS.REPLICA_ROWS,
  ),
});
const durableReportOf = (rows: Schema<readonly number[]>): Schema<apis.DurableReportRequest> =>
  struct<apis.DurableReportRequest>({ nodeId, brokerEpoch: count64, sessionId: count64, rows });
const durableReport0 = durableReportOf(
  withoutLast(intRows([SLOT, EPOCH, OFFSET], FIELD_LIMITS.REPLICA_ROWS), DURABLE_ROW.WIDTH),
);
const durableReport = durableReportOf(intRows([SLOT, EPOCH, OFFSET, OFFSET_OR_NONE], FIELD_LIMITS.REPLICA_ROWS));

type Trimmed = apis.DeleteRecordsRequest["entries"][number];
const deleteRecordsRequest = struct<apis.DeleteRecordsRequest>({
  timeoutMs: int32,
  entries: array(struct<Trimmed>({ topicId: uuid, partition: int32, offset: int64 }), FIELD_LIMITS.TRIMMED),
});
const deleteRecordsResponse = struct<apis.DeleteRecordsResponse>({
  entries: array(
    struct<apis.DeleteRecordsResponse["entries"][number]>({
      error: errorName,
      message: nullable(note1k),
      lowWatermark: int64,
    }),
    FIELD_LIMITS.TRIMMED,
  ),
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

/** Rows of `width` columns, as an older version has them: without the last one, which reads as -1. */
function withoutLast(older: Schema<readonly number[]>, width: number): Schema<readonly number[]> {
  return {
    elementsMax: older.elementsMax,
    depth: older.depth,
    encode: (values, trail) =>
      older.encode(
        values.filter((_, at) => at % width !== width - 1),
        trail,
      ),
    decode(plain, trail) {
      const values = older.decode(plain, trail);
      return values === FAULT
        ? FAULT
        : values.flatMap((value, at) => (at % (width - 1) === width - 2 ? [value, -1] : [value]));
    },
  };
}

/** A row says one thing: an error, where the logs part, or batches (with a high watermark, which may also come alone). */
function replicaRowsFault({ rows }: apis.ReplicaFetchResponse, bodies: number): string | undefined {
  for (let at = 0; at < rows.length; at += REPLICA_ROW.WIDTH) {
    const body = rows[at + REPLICA_ROW.BODY] as number;
    if (body >= bodies) return `a row names body ${body} of ${bodies}`;
    const isDiverging = (rows[at + REPLICA_ROW.DIVERGING_EPOCH] as number) >= 0;
    if (isDiverging !== (rows[at + REPLICA_ROW.DIVERGING_END] as number) >= 0) return "a row has half a divergence";
    const isError = rows[at + REPLICA_ROW.ERROR] !== 0;
    if (Number(isError) + Number(isDiverging) + Number(body >= 0) > 1) return "a row says more than one thing";
    const isMarked = (rows[at + REPLICA_ROW.HIGH_WATERMARK] as number) >= 0;
    if (isMarked === (isError || isDiverging)) return "a row has no high watermark, or one that it must not have";
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
        response: message(replicaFetchResponse, { ...long, bodiesFault: replicaRowsFault }),
      },
    ],
  },
  [API.DURABLE_REPORT]: {
    minVersion: 0,
    isOneWay: true,
    versions: [
      { request: message(durableReport0), response: message(done) },
      { request: message(durableReport), response: message(done) },
    ],
  },
  [API.DELETE_RECORDS]: {
    minVersion: 0,
    versions: [
      {
        request: message(deleteRecordsRequest),
        response: message(deleteRecordsResponse, { bytesMax: LIMITS.METADATA_ANSWER_BYTES }),
      },
    ],
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
