// Metadata: brokers, topics, partitions.
// Versions: 0 to 2.
// Behaviour: topics null = all. Sorted by name; a page holds what one answer can (D-38), and `next` names its last topic when more follow.
// An unknown name is answered in its place with UNKNOWN_TOPIC_OR_PARTITION. Topics are never created by asking for them. Answers come from what
// this broker has applied, and may be late; with `barrier` (version 1) only the controller answers, and not before it made sure that it still is.
// Version 0 lists no fenced brokers.
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
import { LIMITS } from "../../wire/native/protocol.ts";
import { SMALL_ANSWER_BYTES } from "../accountant.ts";
import { configText } from "../../metadata/configs.ts";
import { maxMessageBytesOf } from "../effective-configs.ts";
import type { Request } from "../request.ts";
import { type Services, ZERO_UUID } from "../services.ts";

/** Topics and partitions described before the page is cut: describing all of them for every page would be quadratic. */
const TOPICS_LOOKED_AT = 256;
const PARTITIONS_LOOKED_AT = 40_000;
/** As the protocol has it, with room for the rest of the message. */
const PAGE_BYTES_MAX = LIMITS.METADATA_ANSWER_BYTES - 64 * 1024;

export function handleMetadata(services: Services, request: Request<typeof API.METADATA>): void | Promise<void> {
  if (request.body.barrier) return afterBarrier(services, request);
  return answer(services, request);
}

async function afterBarrier(services: Services, request: Request<typeof API.METADATA>): Promise<void> {
  const refusal = await services.controller.barrier();
  if (request.isDone) return;
  if (refusal === null) await answer(services, request);
  else request.fail(refusal.code, refusal.message);
}

function answer(services: Services, request: Request<typeof API.METADATA>): void | Promise<void> {
  const payload = payloadFor(services, request, PAGE_BYTES_MAX);
  if (answerIfRoom(request, payload)) return undefined;
  // While others take none, whoever holds none is given a short page, if there is one: it asks for the next ones.
  const isShort = payload.length > SMALL_ANSWER_BYTES && request.connection.answers.isIdle;
  if (isShort && answerIfRoom(request, payloadFor(services, request, SMALL_ANSWER_BYTES / 2))) return undefined;
  return answerLater(services, request, payload.length);
}

function answerIfRoom(request: Request<typeof API.METADATA>, payload: Uint8Array): boolean {
  const { answers } = request.connection;
  const granted = answers.tryAcquire(payload.length, payload.length <= SMALL_ANSWER_BYTES);
  if (granted === undefined) return false;
  request.respondEncoded(payload);
  answers.release(granted);
  return true;
}

/** D-26: for a peer that takes no answers none is kept; it is made again, as it is then, when there is room. */
async function answerLater(
  services: Services,
  request: Request<typeof API.METADATA>,
  sizeBytes: number,
): Promise<void> {
  if (!services.accountant.tryDelay()) return request.fail("BUSY", "too many requests wait");
  const { answers } = request.connection;
  const granted = await answers.acquire(sizeBytes);
  services.accountant.endDelay();
  if (granted === 0) return request.drop();
  try {
    if (!request.isDone) request.respondEncoded(payloadFor(services, request, PAGE_BYTES_MAX));
  } finally {
    answers.release(granted);
  }
}

function payloadFor(services: Services, { header, body }: Request<typeof API.METADATA>, pageBytes: number): Uint8Array {
  const { quorum, metadataAnswers } = services;
  const { version } = header;
  const { topics, after } = body;
  const asked = { version, topics, after, controllerId: quorum.controllerId, pageBytes };
  const make = () => encodePayload(header, answerTo(services, body, { version, pageBytes }));
  return metadataAnswers.get(asked, quorum.image.endOffset, make);
}

function answerTo(
  services: Services,
  { topics, after }: MetadataRequest,
  { version, pageBytes }: { readonly version: number; readonly pageBytes: number },
): MetadataResponse {
  const { image, controllerId, clusterId } = services.quorum;
  const names = topics === null ? image.topicNames : [...new Set(topics)].sort();
  const start = after === null ? 0 : firstAfter(names, after);
  const brokers = [...image.brokers]
    .filter((broker) => version > 0 || !broker.isFenced)
    .sort((left, right) => left.nodeId - right.nodeId)
    .map(({ nodeId, address, isFenced }) => ({ nodeId, address, isFenced }));
  const candidates = candidatesFrom(services, names, start);
  const page = candidates.slice(0, topicsOfOnePage(candidates, brokers, pageBytes));
  const hasMore = start + page.length < names.length;
  return {
    clusterId: clusterId ?? ZERO_UUID,
    controllerId: controllerId ?? -1,
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
  const { image } = services.quorum;
  const topic = image.topicByName(name);
  if (topic === undefined) return unknownTopic(name);
  return {
    name,
    error: "NONE",
    topicId: topic.topicId,
    isDeleting: topic.isDeleting,
    maxMessageBytes: maxMessageBytesOf(image, topic, services),
    configs: Object.entries(topic.configs).map(([key, value]) => ({ key, value: configText(key, value) })),
    partitions: topic.partitions.map((partition) => describePartition(services, topic, partition)),
  };
}

function unknownTopic(name: string): TopicMetadata {
  const error = "UNKNOWN_TOPIC_OR_PARTITION";
  return { name, error, topicId: ZERO_UUID, isDeleting: false, maxMessageBytes: 0, configs: [], partitions: [] };
}

function describePartition(services: Services, topic: TopicImage, partition: PartitionImage): PartitionMetadata {
  const { index, leader, leaderEpoch, replicas, isr, elr, partitionEpoch, minIsr, uncleanEpoch } = partition;
  const error = errorOf(services, topic, partition);
  const replicated = { elr, partitionEpoch, minIsr, uncleanEpoch };
  return { index, error, leader: leader ?? -1, leaderEpoch, replicas, isr, ...replicated };
}

function errorOf(services: Services, topic: TopicImage, partition: PartitionImage): ErrorName {
  const { leader, isr, elr } = partition;
  if (leader === null) return isr.length + elr.length === 0 ? "NO_INTACT_REPLICA" : "LEADER_NOT_AVAILABLE";
  if (leader !== services.nodeId) return "NONE";
  // Until the controller has heard of it and another one leads, if there is one.
  return services.replicas.find(topic.topicId, partition.index)?.damage === undefined ? "NONE" : "STORAGE_ERROR";
}
