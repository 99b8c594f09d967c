// Metadata: brokers, topics, partitions.
// Versions: 0 to 1.
// Behaviour: topics null = all. Sorted by name; a page holds what one answer can (D-38), and `next` names its last topic when more follow.
// An unknown name is answered in its place with UNKNOWN_TOPIC_OR_PARTITION. Topics are never created by asking for them.
import { present } from "../../base/assert.ts";
import { toPartitionIndex } from "../../model/ids.ts";
import type { ErrorName } from "../../model/errors.ts";
import type { PartitionImage, TopicImage } from "../../metadata/image.ts";
import type {
  API,
  MetadataRequest,
  MetadataResponse,
  PartitionMetadata,
  TopicMetadata,
} from "../../wire/native/apis.ts";
import { encodePayload, topicsOfOnePage } from "../../wire/native/codec.ts";
import type { Request } from "../request.ts";
import { type Services, ZERO_UUID } from "../services.ts";

/** Topics and partitions described before the page is cut: describing all of them for every page would be quadratic. */
const TOPICS_LOOKED_AT = 256;
const PARTITIONS_LOOKED_AT = 40_000;

export function handleMetadata(services: Services, request: Request<typeof API.METADATA>): void {
  const { metadata, metadataAnswers } = services;
  const make = () => encodePayload(request.header, answerTo(services, request.body));
  const { topics, after } = request.body;
  const asked = { version: request.header.version, topics, after };
  request.respondEncoded(metadataAnswers.get(asked, metadata.image.endOffset, make));
}

function answerTo(services: Services, { topics, after }: MetadataRequest): MetadataResponse {
  const { image } = services.metadata;
  const names = topics === null ? image.topicNames : [...new Set(topics)].sort();
  const start = after === null ? 0 : firstAfter(names, after);
  const brokers = [...image.brokers]
    .filter((broker) => !broker.isFenced)
    .map(({ nodeId, address }) => ({ nodeId, address, isFenced: false }));
  const candidates = candidatesFrom(services, names, start);
  const page = candidates.slice(0, topicsOfOnePage(candidates, brokers));
  const hasMore = start + page.length < names.length;
  return {
    clusterId: present(services.store.identity.clusterId, "cluster id"),
    controllerId: services.config["node.id"],
    brokers,
    topics: page,
    next: hasMore ? (page.at(-1)?.name ?? null) : null,
    metadataEnd: image.endOffset,
  };
}

function candidatesFrom(services: Services, names: readonly string[], start: number): TopicMetadata[] {
  const candidates: TopicMetadata[] = [];
  let partitionCount = 0;
  for (const name of names.slice(start, start + TOPICS_LOOKED_AT)) {
    const topic = describe(services, name);
    candidates.push(topic);
    partitionCount += topic.partitions.length;
    if (partitionCount >= PARTITIONS_LOOKED_AT) break;
  }
  return candidates;
}

/** Position of the first of the sorted names that is greater. */
function firstAfter(names: readonly string[], after: string): number {
  let low = 0;
  let high = names.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((names[middle] as string) <= after) low = middle + 1;
    else high = middle;
  }
  return low;
}

function describe(services: Services, name: string): TopicMetadata {
  const topic = services.metadata.image.topicByName(name);
  if (topic === undefined) return unknownTopic(name);
  return {
    name,
    error: "NONE",
    topicId: topic.topicId,
    isDeleting: topic.isDeleting,
    maxMessageBytes: topic.configs["max.message.bytes"] ?? services.config["max.message.bytes"],
    configs: Object.entries(topic.configs).map(([key, value]) => ({ key, value: String(value) })),
    partitions: topic.partitions.map((partition) => describePartition(services, topic, partition)),
  };
}

function unknownTopic(name: string): TopicMetadata {
  const error = "UNKNOWN_TOPIC_OR_PARTITION";
  return { name, error, topicId: ZERO_UUID, isDeleting: false, maxMessageBytes: 0, configs: [], partitions: [] };
}

function describePartition(services: Services, topic: TopicImage, partition: PartitionImage): PartitionMetadata {
  const { index, leader, leaderEpoch, replicas, isr } = partition;
  return { index, error: errorOf(services, topic, partition), leader: leader ?? -1, leaderEpoch, replicas, isr };
}

function errorOf(services: Services, topic: TopicImage, partition: PartitionImage): ErrorName {
  const log = services.store.find(topic.topicId, toPartitionIndex(partition.index));
  if ((log?.damage ?? log?.readDamage) !== undefined) return "STORAGE_ERROR";
  return partition.leader === null ? "NOT_LEADER_OR_FOLLOWER" : "NONE";
}
