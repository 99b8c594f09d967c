// The layout of one message: its payload's schema, its limits, the fields that many messages share.
import type { NodeId } from "../../model/ids.ts";
import { LIMITS } from "./protocol.ts";
import { COUNT64, INT32, INT64, array, int, note, struct, text } from "./schema.ts";
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
  /** What this payload asks for that the version does not have; undefined when nothing. Only of older versions of requests. */
  readonly versionFault: (payload: T) => string | undefined;
}

/** One api: versions[i] is the layout of version minVersion + i. */
export interface ApiSchema<Request, Response> {
  readonly minVersion: number;
  /** Never answered, not even with an error. */
  readonly isOneWay?: boolean;
  readonly versions: readonly {
    readonly request: MessageSchema<Request>;
    readonly response: MessageSchema<Response>;
  }[];
}

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
  CONFIG_ROWS: 512,
  /** `<node id>:<directory id>`. */
  REPLICA_ID: 64,
  VOTERS: 64,
  LOG_ENTRIES: LIMITS.BODIES,
  DROPPED_TOPICS: 1024,
  DAMAGED_LOGS: 1024,
  /** Of one heartbeat: every dropped topic, and every damaged log in a topic of its own. */
  HEARTBEAT_ELEMENTS: 8 * 1024,
  /** Partitions of one session spoken of in one message. */
  REPLICA_ROWS: 2_000,
  ALTERED_PARTITIONS: 1_000,
  ELECTED: 1_024,
  DESCRIBED_PARTITIONS: 1_000,
  TRIMMED: 1_000,
} as const;

/** Fields of the response envelope, of the longer of the two. */
const ENVELOPE_FIELDS = 8;

const noBodies = (_payload: unknown, bodies: number): string | undefined =>
  bodies === 0 ? undefined : "this message has no bodies";

export function message<T>(
  payload: Schema<T>,
  limits: Partial<Omit<MessageSchema<T>, "payload">> = {},
): MessageSchema<T> {
  const bodiesFault = limits.bodiesFault ?? noBodies;
  const bodiesMax = limits.bodiesFault === undefined ? 0 : LIMITS.BODIES;
  const elementsMax = limits.elementsMax ?? payload.elementsMax + ENVELOPE_FIELDS + bodiesMax;
  const versionFault = limits.versionFault ?? (() => undefined);
  return { payload, bytesMax: limits.bytesMax ?? LIMITS.ENVELOPE_BYTES, elementsMax, bodiesFault, versionFault };
}

export const name = text(FIELD_LIMITS.TEXT);
export const note1k = note(FIELD_LIMITS.TEXT);
export const int32 = int(INT32);
export const int64 = int(INT64);
export const count64 = int(COUNT64);
export const nodeId = int<NodeId>({ min: 0, max: INT32.max });
export const configValue = text(FIELD_LIMITS.CONFIG_VALUE);
export const configs = array(
  struct<{ key: string; value: string }>({ key: name, value: configValue }),
  FIELD_LIMITS.CONFIGS,
);
