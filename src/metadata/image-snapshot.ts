// The metadata image as bytes and back: JSON in UTF-8 with every key and list in a fixed order, so that equal images are equal bytes.
// Format version 2 (from metadata.version 2 on) says why a broker is fenced; until then a build that knows only version 1 can read it (D-31).
import { bytesEqual, utf8Decode, utf8Encode } from "../base/bytes.ts";
import { OttlaError } from "../model/errors.ts";
import type { LeaderEpoch, NodeId } from "../model/ids.ts";
import type { BrokerImage, ClusterImage, PartitionImage, RequestImage } from "./image-types.ts";
import type { TombstoneImage, TopicImage } from "./image-types.ts";
import { type ProducerIdsParts, producerIdsFault, producerIdsText } from "./producer-ids.ts";
import { partitionFault } from "./partition-rules.ts";
import type { Configs, VersionRange } from "./records.ts";
import {
  type Fields,
  faultyField,
  isConfigs,
  isFlag,
  isListOf,
  isNullOr,
  isNumber,
  isNumberOrMinusOne,
} from "./shapes.ts";
import { isObject, isObjectOf, isOneOf, isText, isTimestamp, isTuple, isUuid } from "./shapes.ts";

export interface SnapshotParts {
  readonly endOffset: number;
  readonly cluster: ClusterImage | null;
  /** Ascending by node id. */
  readonly brokers: readonly BrokerImage[];
  /** Ascending by name. */
  readonly topics: readonly TopicImage[];
  /** Ascending by topic id. */
  readonly tombstones: readonly TombstoneImage[];
  /** For every broker (null) first, then ascending by node id; none without a key. */
  readonly brokerConfigs: readonly { readonly nodeId: NodeId | null; readonly configs: Configs }[];
  /** In the order of the log. */
  readonly requests: readonly RequestImage[];
  readonly producerIds: ProducerIdsParts;
}

type PartitionTuple = readonly [
  replicas: readonly NodeId[],
  isr: readonly NodeId[],
  elr: readonly NodeId[],
  minIsr: number,
  leader: NodeId | null,
  leaderEpoch: LeaderEpoch,
  partitionEpoch: number,
  uncleanEpoch: number,
];

/** Bound: requests remembered, the newest. A client has given up on an older one long ago. */
export const REQUESTS_MAX = 1024;

const TYPE = "metadata-image";
const formatVersionOf = (metadataVersion: number): number => (metadataVersion >= 2 ? 2 : 1);

export function snapshotText(parts: SnapshotParts): string {
  const { endOffset, cluster } = parts;
  const version = formatVersionOf(cluster?.metadataVersion ?? 1);
  const fields: readonly (readonly [string, string])[] = [
    ["type", JSON.stringify(TYPE)],
    ["version", String(version)],
    ["endOffset", String(endOffset)],
    ["cluster", cluster === null ? "null" : clusterText(cluster)],
    ["brokers", listText(parts.brokers, (broker) => brokerText(broker, version))],
    ["topics", listText(parts.topics, topicText)],
    ["tombstones", listText(parts.tombstones, tombstoneText)],
    ["brokerConfigs", listText(parts.brokerConfigs, brokerConfigText)],
    ["requests", listText(parts.requests, requestText)],
    ["producerIds", producerIdsText(parts.producerIds)],
  ];
  return `{${fields.map(([name, text]) => `"${name}":${text}`).join(",")}}`;
}

export const encodeSnapshot = (parts: SnapshotParts): Uint8Array => utf8Encode(snapshotText(parts));

const listText = <T>(items: readonly T[], text: (item: T) => string): string => `[${items.map(text).join(",")}]`;

const clusterText = ({ clusterId, metadataVersion, createdMs }: ClusterImage): string =>
  JSON.stringify({ clusterId, metadataVersion, createdMs });

function brokerText(broker: BrokerImage, version: number): string {
  const { nodeId, directoryId, incarnationId, brokerEpoch, confirmedEpoch, restart, address } = broker;
  const { registeredMs, isFenced, fencedFor } = broker;
  const { min, max } = broker.metadataVersions;
  const identity = { nodeId, directoryId, incarnationId, brokerEpoch, confirmedEpoch, restart, address };
  const first = { ...identity, metadataVersions: { min, max }, registeredMs, isFenced };
  return JSON.stringify(version === 1 ? first : { ...first, fencedFor });
}

export function topicText(topic: TopicImage): string {
  const { topicId, name, configs, replicationFactor, createdMs, isDeleting } = topic;
  const partitions = topic.partitions.map((partition): PartitionTuple => {
    const { replicas, isr, elr, minIsr, leader, leaderEpoch, partitionEpoch, uncleanEpoch } = partition;
    return [replicas, isr, elr, minIsr, leader, leaderEpoch, partitionEpoch, uncleanEpoch];
  });
  return JSON.stringify({
    topicId,
    name,
    configs: sortedConfigs(configs),
    replicationFactor,
    createdMs,
    isDeleting,
    partitions,
  });
}

const tombstoneText = ({ topicId, name, owed }: TombstoneImage): string => JSON.stringify({ topicId, name, owed });

const brokerConfigText = ({ nodeId, configs }: SnapshotParts["brokerConfigs"][number]): string =>
  JSON.stringify({ nodeId, configs: sortedConfigs(configs) });

const requestText = ({ requestId, topicId }: RequestImage): string => JSON.stringify({ requestId, topicId });

/** Keys in code-unit order, whatever order they were set in. */
export function sortedConfigs(configs: Configs): Configs {
  return Object.fromEntries(Object.entries(configs).sort(([left], [right]) => (left < right ? -1 : 1)));
}

const BROKER_V1: Fields = {
  nodeId: isNumber,
  directoryId: isUuid,
  incarnationId: isUuid,
  brokerEpoch: isNumber,
  confirmedEpoch: isNullOr(isNumber),
  restart: isOneOf("first", "clean", "process-death", "power-loss", "changed-disk"),
  address: isText,
  metadataVersions: isObjectOf({ min: isNumber, max: isNumber }),
  registeredMs: isTimestamp,
  isFenced: isFlag,
};
const FENCED_FOR = isNullOr(isOneOf("session", "refused", "shutdown", "replaced"));

const NODES = isListOf(isNumber);
const PARTITION = isTuple(NODES, NODES, NODES, isNumber, isNullOr(isNumber), isNumber, isNumber, isNumberOrMinusOne);

const NAMED_PRODUCER = isTuple(isText, isNumber, isNumber, isNumberOrMinusOne, isNumberOrMinusOne, isTimestamp);

function fieldsOf(broker: Fields): Fields {
  return {
    endOffset: isNumber,
    cluster: isNullOr(isObjectOf({ clusterId: isUuid, metadataVersion: isNumber, createdMs: isTimestamp })),
    brokers: isListOf(isObjectOf(broker)),
    topics: isListOf(
      isObjectOf({
        topicId: isUuid,
        name: isText,
        configs: isConfigs,
        replicationFactor: isNumber,
        createdMs: isTimestamp,
        isDeleting: isFlag,
        partitions: isListOf(PARTITION),
      }),
    ),
    tombstones: isListOf(isObjectOf({ topicId: isUuid, name: isText, owed: isListOf(isNumber) })),
    brokerConfigs: isListOf(isObjectOf({ nodeId: isNullOr(isNumber), configs: isConfigs })),
    requests: isListOf(isObjectOf({ requestId: isUuid, topicId: isNullOr(isUuid) })),
    producerIds: isObjectOf({ nextId: isNumber, nextNamedId: isNumber, named: isListOf(NAMED_PRODUCER) }),
  };
}

/** Fields of the snapshot beside `type` and `version`: entry v - 1 is format version v. */
const FORMATS: readonly Fields[] = [fieldsOf(BROKER_V1), fieldsOf({ ...BROKER_V1, fencedFor: FENCED_FOR })];

type StoredTopic = Omit<TopicImage, "partitions"> & { readonly partitions: readonly PartitionTuple[] };
type StoredBroker = Omit<BrokerImage, "fencedFor"> & { readonly fencedFor?: BrokerImage["fencedFor"] };
type StoredProducer = readonly [
  name: string,
  producerId: number,
  producerEpoch: number,
  fromId: number,
  fromEpoch: number,
  usedMs: number,
];
type Stored = Omit<SnapshotParts, "topics" | "brokers" | "producerIds"> & {
  readonly producerIds: Omit<ProducerIdsParts, "named"> & { readonly named: readonly StoredProducer[] };
  readonly topics: readonly StoredTopic[];
  readonly brokers: readonly StoredBroker[];
};

/** Throws DATA_DAMAGED for what is no snapshot, DATA_DIR_NEWER for a version that `supported` does not reach, and nothing else. */
export function decodeSnapshot(bytes: Uint8Array, supported: VersionRange): SnapshotParts {
  const stored = checkedSnapshot(parsed(utf8Decode(bytes)), supported);
  const topics = stored.topics.map((topic) => ({ ...topic, partitions: topic.partitions.map(partitionOfTuple) }));
  const brokers = stored.brokers.map((broker) => ({ ...broker, fencedFor: broker.fencedFor ?? null }));
  const named = stored.producerIds.named.map(([name, producerId, producerEpoch, fromId, fromEpoch, usedMs]) => ({
    name,
    producerId,
    producerEpoch,
    fromId,
    fromEpoch,
    usedMs,
  }));
  const parts: SnapshotParts = { ...stored, topics, brokers, producerIds: { ...stored.producerIds, named } };
  const fault = inconsistency(parts);
  if (fault !== undefined) throw damaged(fault);
  // Other bytes of the same image (another order, another spelling of a number, bad UTF-8) were never written by `encodeSnapshot`.
  if (!bytesEqual(encodeSnapshot(parts), bytes)) throw damaged("not in the one form that is written");
  return parts;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new OttlaError("DATA_DAMAGED", "the metadata snapshot is not JSON", { cause });
  }
}

function checkedSnapshot(value: unknown, supported: VersionRange): Stored {
  if (!isObject(value)) throw damaged("not an object");
  const { type, version, ...rest } = value;
  if (type !== TYPE || !isNumber(version)) throw damaged("no type or version");
  const fields = FORMATS[(version as number) - 1];
  if (fields === undefined || (version as number) > formatVersionOf(supported.max))
    throw newer(`format version ${String(version)}`);
  const fault = faultyField(rest, fields);
  if (fault !== undefined) throw damaged(`field ${JSON.stringify(fault.slice(0, 64))} is missing, unknown or wrong`);
  const stored = rest as unknown as Stored;
  const finalised = stored.cluster?.metadataVersion ?? 0;
  if (finalised > supported.max) throw newer(`metadata.version ${finalised}, known up to ${supported.max}`);
  return stored;
}

function partitionOfTuple(tuple: PartitionTuple, index: number): PartitionImage {
  const [replicas, isr, elr, minIsr, leader, leaderEpoch, partitionEpoch, uncleanEpoch] = tuple;
  return { index, replicas, isr, elr, minIsr, leader, leaderEpoch, partitionEpoch, uncleanEpoch };
}

/** What breaks a guarantee of the image. */
function inconsistency(parts: SnapshotParts): string | undefined {
  const { cluster, brokers, topics, tombstones, brokerConfigs, requests } = parts;
  const ofProducers = producerIdsFault(parts.producerIds);
  if (ofProducers !== undefined) return ofProducers;
  const isEmpty = [brokers, topics, tombstones, brokerConfigs, requests].every((list) => list.length === 0);
  if (cluster === null && !isEmpty) return "no cluster record, but more";
  const known = new Map(brokers.map((broker) => [broker.nodeId, broker]));
  const isKnown = (nodeId: NodeId): boolean => known.has(nodeId);
  if (!isAscending(brokers.map(({ nodeId }) => nodeId))) return "brokers out of order";
  if (new Set(brokers.map(({ directoryId }) => directoryId)).size < brokers.length) return "a directory of two nodes";
  if (!isAscending(topics.map(({ name }) => name))) return "topics out of order";
  if (!isAscending(tombstones.map(({ topicId }) => topicId))) return "tombstones out of order";
  const ids = new Set([...topics, ...tombstones].map(({ topicId }) => topicId));
  if (ids.size < topics.length + tombstones.length) return "a topic id of two topics";
  if (tombstones.some(({ owed }) => owed.length === 0 || !isAscending(owed) || !owed.every(isKnown)))
    return "a tombstone that is owed by nobody or out of order";
  if (!isAscending(brokerConfigs.map(({ nodeId }) => nodeId ?? -1))) return "broker configurations out of order";
  if (brokerConfigs.some(({ configs }) => Object.keys(configs).length === 0))
    return "a broker configuration of nothing";
  const requestIds = new Set(requests.map(({ requestId }) => requestId));
  if (requestIds.size < requests.length || requests.length > REQUESTS_MAX) return "requests too many or twice";
  const isActive = (nodeId: NodeId): boolean => known.get(nodeId)?.isFenced === false;
  for (const { name, partitions } of topics) {
    for (const partition of partitions) {
      const fault = partitionFault(partition, isKnown, isActive);
      if (fault !== undefined) return `${name}-${partition.index}: ${fault}`;
    }
  }
  return undefined;
}

function isAscending<T extends number | string>(values: readonly T[]): boolean {
  return values.every((value, at) => at === 0 || (values[at - 1] as T) < value);
}

function damaged(reason: string): OttlaError {
  return new OttlaError("DATA_DAMAGED", `the metadata snapshot is damaged: ${reason}`);
}

function newer(what: string): OttlaError {
  return new OttlaError("DATA_DIR_NEWER", `the metadata snapshot (${what}) was written by a newer build`);
}
