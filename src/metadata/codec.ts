// Metadata records as bytes: JSON in UTF-8, with a strict decode. What this build does not know stops the state machine (D-31).
import { utf8Decode, utf8Encode } from "../base/bytes.ts";
import { OttlaError } from "../model/errors.ts";
import { uuidToBytes } from "../model/ids.ts";
import type { MetadataRecord, MetadataRecordType } from "./records.ts";

export function encodeMetadataRecord(record: MetadataRecord): Uint8Array {
  return utf8Encode(JSON.stringify(record));
}

type Check = (value: unknown) => boolean;
type Fields = Readonly<Record<string, Check>>;

const isNumber: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isTimestamp: Check = (value) => Number.isSafeInteger(value);
const isText: Check = (value) => typeof value === "string";
const isUuid: Check = (value) => typeof value === "string" && uuidToBytes(value) !== undefined;
const isNullOr =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const isListOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const isOneOf =
  (...allowed: readonly string[]): Check =>
  (value) =>
    allowed.includes(value as string);
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isObjectOf =
  (fields: Fields): Check =>
  (value) =>
    isObject(value) && faultyField(value, fields) === undefined;
const isNumberMap: Check = (value) => isObject(value) && Object.values(value).every(isNumber);

/** Fields beside `type` and `version`, for each type at its newest version. */
const SHAPES: Readonly<Record<MetadataRecordType, Fields>> = {
  cluster: {
    clusterId: isUuid,
    voters: isListOf(isObjectOf({ nodeId: isNumber, directoryId: isUuid })),
    metadataVersion: isNumber,
    timestampMs: isTimestamp,
  },
  "register-broker": {
    nodeId: isNumber,
    directoryId: isUuid,
    incarnationId: isUuid,
    restart: isOneOf("first", "clean", "process-death", "power-loss"),
    address: isText,
    timestampMs: isTimestamp,
  },
  "unfence-broker": { nodeId: isNumber, brokerEpoch: isNumber },
  "partition-change": {
    topicId: isUuid,
    changes: isListOf(
      isObjectOf({
        partition: isNumber,
        leader: isNullOr(isNumber),
        isr: isListOf(isNumber),
        partitionEpoch: isNumber,
      }),
    ),
  },
  topic: {
    topicId: isUuid,
    name: isText,
    configs: isNumberMap,
    replicationFactor: isNumber,
    minIsr: isNumber,
    replicas: isListOf(isListOf(isNumber)),
    timestampMs: isTimestamp,
  },
  "delete-topic": { topicId: isUuid },
  "topic-removed": { topicId: isUuid },
};

function faultyField(value: Readonly<Record<string, unknown>>, fields: Fields): string | undefined {
  for (const [name, check] of Object.entries(fields)) if (!check(value[name])) return name;
  return Object.keys(value).find((name) => !Object.hasOwn(fields, name));
}

function damaged(offset: number, reason: string): OttlaError {
  return new OttlaError("DATA_DAMAGED", `metadata record ${offset}: ${reason}`);
}

/** Throws DATA_DAMAGED for what is no record, DATA_DIR_NEWER for a type or version that this build does not know. */
export function decodeMetadataRecord(bytes: Uint8Array, offset: number): MetadataRecord {
  let value: unknown;
  try {
    value = JSON.parse(utf8Decode(bytes));
  } catch (cause) {
    throw new OttlaError("DATA_DAMAGED", `metadata record ${offset} is not JSON`, { cause });
  }
  if (!isObject(value)) throw damaged(offset, "not an object");
  const { type, version, ...rest } = value;
  if (typeof type !== "string" || !isNumber(version)) throw damaged(offset, "no type or version");
  const fields = Object.hasOwn(SHAPES, type) ? SHAPES[type as MetadataRecordType] : undefined;
  if (fields === undefined || version !== 1) {
    const what = `type ${type}, version ${String(version)}`;
    throw new OttlaError("DATA_DIR_NEWER", `metadata record ${offset} (${what}) was written by a newer build`);
  }
  const fault = faultyField(rest, fields);
  if (fault !== undefined) throw damaged(offset, `field ${fault} of ${type} is missing, unknown or wrong`);
  return value as unknown as MetadataRecord;
}
