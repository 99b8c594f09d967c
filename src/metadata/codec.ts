// Metadata commands as bytes: JSON in UTF-8, with a strict decode. What this build does not know stops the state machine (D-31).
import { assert } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import { bytesEqual, utf8Decode, utf8Encode } from "../base/bytes.ts";
import { OttlaError } from "../model/errors.ts";
import { SUPPORTED_METADATA_VERSIONS, metadataVersionOf } from "./records.ts";
import type { MetadataRecord, MetadataRecordType, VersionRange } from "./records.ts";
import { type Fields, faultyField, isConfigs, isFlag, isListOf, isNullOr, isNumber, isObject } from "./shapes.ts";
import { isNumberOrMinusOne, isObjectOf, isOneOf, isText, isTimestamp, isUuid } from "./shapes.ts";

const COMMAND_VERSION = 1;

const FENCE_V1: Fields = { nodeId: isNumber, brokerEpoch: isNumber };

const CHANGE: Fields = {
  partition: isNumber,
  leader: isNullOr(isNumber),
  isr: isListOf(isNumber),
  elr: isListOf(isNumber),
  isUnclean: isFlag,
  isNewEpoch: isFlag,
  partitionEpoch: isNumber,
};

/** Fields beside `type` and `version`: entry v - 1 of a type is its version v. A version stays here for as long as a log may hold it. */
const SHAPES: Readonly<Record<MetadataRecordType, readonly Fields[]>> = {
  cluster: [{ clusterId: isUuid, metadataVersion: isNumber, timestampMs: isTimestamp }],
  "metadata-version": [{ metadataVersion: isNumber }],
  "register-broker": [
    {
      nodeId: isNumber,
      directoryId: isUuid,
      incarnationId: isUuid,
      restart: isOneOf("first", "clean", "process-death", "power-loss", "changed-disk"),
      address: isText,
      metadataVersions: isObjectOf({ min: isNumber, max: isNumber }),
      timestampMs: isTimestamp,
    },
  ],
  "fence-broker": [FENCE_V1, { ...FENCE_V1, reason: isOneOf("session", "refused", "shutdown", "replaced") }],
  "unfence-broker": [{ nodeId: isNumber, brokerEpoch: isNumber }],
  "unregister-broker": [{ nodeId: isNumber, brokerEpoch: isNumber }],
  "partition-change": [{ topicId: isUuid, changes: isListOf(isObjectOf(CHANGE)) }],
  topic: [
    {
      topicId: isUuid,
      name: isText,
      configs: isConfigs,
      replicationFactor: isNumber,
      replicas: isListOf(isListOf(isNumber)),
      timestampMs: isTimestamp,
    },
  ],
  "topic-config": [{ topicId: isUuid, configs: isConfigs }],
  "broker-config": [{ nodeId: isNullOr(isNumber), configs: isConfigs }],
  "delete-topic": [{ topicId: isUuid }],
  "topic-removed": [{ topicId: isUuid, owed: isListOf(isNumber) }],
  "tombstone-settled": [{ nodeId: isNumber, topicIds: isListOf(isUuid) }],
  request: [{ requestId: isUuid, topicId: isNullOr(isUuid) }],
  "producer-ids": [{ nodeId: isNumber, brokerEpoch: isNumber, firstId: isNumber, count: isNumber }],
  "named-producer": [
    {
      name: isText,
      producerId: isNumber,
      producerEpoch: isNumber,
      fromId: isNumberOrMinusOne,
      fromEpoch: isNumberOrMinusOne,
      forgets: isNullOr(isText),
      timestampMs: isTimestamp,
    },
  ],
  "unsafe-recovery": [{ epochsRaisedBy: isNumber, timestampMs: isTimestamp }],
};

/**
 * One command. Records of a newer kind than the finalised version are a bug of whoever decided on them. Throws UNKNOWN_SERVER_ERROR for a record that
 * decodeCommand would not take: committed it would end every node that applies it, and again at each start, so it must never get into the log.
 */
export function encodeCommand(records: readonly MetadataRecord[], metadataVersion: number): Uint8Array {
  assert(records.length > 0, "a metadata command has records");
  for (const record of records) {
    const needed = metadataVersionOf(record);
    assert(needed <= metadataVersion, `${record.type} ${record.version} at metadata.version ${metadataVersion}`);
    if (!mutant("I39p")) assertReadable(record);
  }
  return utf8Encode(JSON.stringify({ version: COMMAND_VERSION, records }));
}

function assertReadable({ type, version, ...rest }: MetadataRecord): void {
  const fields = SHAPES[type][version - 1];
  const fault = fields === undefined ? "version" : faultyField(rest, fields);
  if (fault === undefined) return;
  throw new OttlaError(
    "UNKNOWN_SERVER_ERROR",
    `a ${type} record with a "${fault.slice(0, 64)}" that nobody could read`,
  );
}

/**
 * Throws DATA_DAMAGED for what is no command, DATA_DIR_NEWER for a version, a record or a metadata.version that `supported` (this build) does
 * not know, and nothing else.
 */
export function decodeCommand(
  bytes: Uint8Array,
  index: number,
  supported: VersionRange = SUPPORTED_METADATA_VERSIONS,
): readonly MetadataRecord[] {
  const value = parsed(bytes, index);
  const { version, records, ...rest } = value;
  if (!isNumber(version)) throw damaged(index, "a command has a version");
  if (version !== COMMAND_VERSION) throw newer(index, `a command of version ${String(version)}`);
  if (!Array.isArray(records) || records.length === 0 || Object.keys(rest).length > 0)
    throw damaged(index, "a command is a list of records");
  return records.map((record: unknown) => checkedRecord(record, index, supported));
}

/** In every record that finalises a version, and in no other, whatever texts it carries: JSON escapes a quotation mark. */
const FINALISES = '"metadataVersion":';

/** Throws as decodeCommand does, when the command finalises a metadata.version beyond `supported`. Cheap: other commands are not decoded. */
export function assertVersionKnown(bytes: Uint8Array, index: number, supported: VersionRange): void {
  if (utf8Decode(bytes).includes(FINALISES)) decodeCommand(bytes, index, supported);
}

function parsed(bytes: Uint8Array, index: number): Readonly<Record<string, unknown>> {
  const text = utf8Decode(bytes);
  if (!bytesEqual(utf8Encode(text), bytes)) throw damaged(index, "not UTF-8");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new OttlaError("DATA_DAMAGED", `metadata entry ${index} is not JSON`, { cause });
  }
  if (!isObject(value)) throw damaged(index, "not an object");
  return value;
}

function checkedRecord(value: unknown, index: number, supported: VersionRange): MetadataRecord {
  if (!isObject(value)) throw damaged(index, "a record is an object");
  const { type, version, ...rest } = value;
  if (typeof type !== "string" || !isNumber(version)) throw damaged(index, "a record has a type and a version");
  const versions = Object.hasOwn(SHAPES, type) ? SHAPES[type as MetadataRecordType] : [];
  const fields = versions[(version as number) - 1];
  const record = value as unknown as MetadataRecord;
  if (fields === undefined || metadataVersionOf(record) > supported.max)
    throw newer(index, `record ${JSON.stringify(type.slice(0, 64))}, version ${String(version)}`);
  const fault = faultyField(rest, fields);
  if (fault !== undefined)
    throw damaged(index, `field ${JSON.stringify(fault.slice(0, 64))} of ${type} is missing, unknown or wrong`);
  const finalised = "metadataVersion" in record ? record.metadataVersion : 0;
  if (finalised > supported.max) throw newer(index, `metadata.version ${finalised}, known up to ${supported.max}`);
  return record;
}

function damaged(index: number, reason: string): OttlaError {
  return new OttlaError("DATA_DAMAGED", `metadata entry ${index}: ${reason}`);
}

function newer(index: number, what: string): OttlaError {
  return new OttlaError("DATA_DIR_NEWER", `metadata entry ${index} (${what}) was written by a newer build`);
}
