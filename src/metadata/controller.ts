// The controller's decisions, pure: from an image and a wish to the records that fulfil it, or to an error. Nothing is changed here.
import type { ErrorName } from "../model/errors.ts";
import type { ClusterId, DirectoryId, IncarnationId, NodeId, TopicId } from "../model/ids.ts";
import { topicNameFault } from "../model/topic-name.ts";
import type { MetadataImage } from "./image.ts";
import { METADATA_VERSION, type MetadataRecord, type PartitionChangeRecord, type RestartKind } from "./records.ts";
import { parseTopicConfigs } from "./topic-configs.ts";

export type Decision =
  | { readonly kind: "records"; readonly records: readonly MetadataRecord[] }
  | { readonly kind: "refused"; readonly error: ErrorName; readonly message: string };

const refused = (error: ErrorName, message: string): Decision => ({ kind: "refused", error, message });

/** Record 0 of a new cluster of one voter (D-20). */
export function decideCluster(wish: {
  readonly clusterId: ClusterId;
  readonly nodeId: NodeId;
  readonly directoryId: DirectoryId;
  readonly nowMs: number;
}): Decision {
  const voters = [{ nodeId: wish.nodeId, directoryId: wish.directoryId }];
  const { clusterId, nowMs } = wish;
  return {
    kind: "records",
    records: [
      { type: "cluster", version: 1, clusterId, voters, metadataVersion: METADATA_VERSION, timestampMs: nowMs },
    ],
  };
}

export interface RegistrationWish {
  readonly nodeId: NodeId;
  readonly directoryId: DirectoryId;
  readonly incarnationId: IncarnationId;
  readonly restart: RestartKind;
  readonly address: string;
  readonly nowMs: number;
}

/** D-1: only the same directory, whose lock proves the old process dead, replaces an incarnation at once. */
export function decideRegistration(image: MetadataImage, wish: RegistrationWish): Decision {
  const known = image.broker(wish.nodeId);
  if (known !== undefined && known.directoryId !== wish.directoryId) {
    return refused(
      "DATA_DIR_FOREIGN",
      `node ${wish.nodeId} is registered with directory ${known.directoryId}, not ${wish.directoryId}`,
    );
  }
  const { nowMs, ...rest } = wish;
  return { kind: "records", records: [{ type: "register-broker", version: 1, ...rest, timestampMs: nowMs }] };
}

const CHANGES_PER_RECORD = 1_000;

/** One metadata answer must hold a topic whole (D-38). */
const PARTITIONS_OF_ONE_ANSWER = 20_000;

/**
 * Unfences the broker in its present epoch and makes it leader, in new epochs, of every leaderless partition whose ISR holds it and whose
 * log here is whole (D-17).
 */
export function decideElections(
  image: MetadataImage,
  wish: { readonly nodeId: NodeId; readonly isWhole: (topicId: TopicId, partition: number) => boolean },
): Decision {
  const { nodeId } = wish;
  const broker = image.broker(nodeId);
  if (broker === undefined) return refused("BROKER_NOT_AVAILABLE", `node ${nodeId} is not registered`);
  const records: MetadataRecord[] = [{ type: "unfence-broker", version: 1, nodeId, brokerEpoch: broker.brokerEpoch }];
  for (const topic of image.topics) {
    if (topic.isDeleting) continue;
    const changes: PartitionChangeRecord["changes"][number][] = [];
    for (const { index, leader, isr, partitionEpoch } of topic.partitions) {
      if (leader !== null || !isr.includes(nodeId) || !wish.isWhole(topic.topicId, index)) continue;
      changes.push({ partition: index, leader: nodeId, isr, partitionEpoch });
    }
    for (let at = 0; at < changes.length; at += CHANGES_PER_RECORD) {
      const part = changes.slice(at, at + CHANGES_PER_RECORD);
      records.push({ type: "partition-change", version: 1, topicId: topic.topicId, changes: part });
    }
  }
  return { kind: "records", records };
}

export interface TopicWish {
  readonly name: string;
  /** -1 = the default. */
  readonly partitions: number;
  /** -1 = the default. */
  readonly replicationFactor: number;
  readonly configs: readonly { readonly key: string; readonly value: string }[];
}

export interface TopicContext {
  /** A fresh id, drawn by the proposer. */
  readonly topicId: TopicId;
  readonly nowMs: number;
  readonly nodeId: NodeId;
  readonly partitionsDefault: number;
  readonly partitionsPerTopicMax: number;
  readonly partitionsMax: number;
}

export function decideTopic(image: MetadataImage, wish: TopicWish, context: TopicContext): Decision {
  const { name } = wish;
  const fault = topicNameFault(name);
  if (fault !== undefined) return refused("INVALID_TOPIC_EXCEPTION", fault);
  if (image.topicByName(name) !== undefined) return refused("TOPIC_ALREADY_EXISTS", existsMessage(image, name));
  const collision = image.topicColliding(name);
  if (collision !== undefined) {
    return refused(
      "INVALID_TOPIC_EXCEPTION",
      `${name} and ${collision.name} are the same in metric names, where . and _ are one`,
    );
  }
  const partitions = wish.partitions === -1 ? context.partitionsDefault : wish.partitions;
  const partitionFault = partitionCountFault(image, partitions, context);
  if (partitionFault !== undefined) return refused("INVALID_PARTITIONS", partitionFault);
  const replicationFactor = wish.replicationFactor === -1 ? 1 : wish.replicationFactor;
  if (replicationFactor !== 1) {
    return refused("INVALID_REPLICATION_FACTOR", `replication factor ${replicationFactor}, but there is 1 broker`);
  }
  const parsed = parseTopicConfigs(wish.configs);
  if (parsed.kind === "invalid") return refused("INVALID_CONFIG", parsed.message);
  const record: MetadataRecord = {
    type: "topic",
    version: 1,
    topicId: context.topicId,
    name,
    configs: parsed.configs,
    replicationFactor,
    minIsr: minIsrOf(replicationFactor),
    replicas: Array.from({ length: partitions }, () => [context.nodeId]),
    timestampMs: context.nowMs,
  };
  return { kind: "records", records: [record] };
}

function existsMessage(image: MetadataImage, name: string): string {
  return image.topicByName(name)?.isDeleting === true ? `topic ${name} is being deleted` : `topic ${name} exists`;
}

function partitionCountFault(image: MetadataImage, partitions: number, context: TopicContext): string | undefined {
  const { partitionsMax } = context;
  const partitionsPerTopicMax = Math.min(context.partitionsPerTopicMax, PARTITIONS_OF_ONE_ANSWER);
  if (!Number.isSafeInteger(partitions) || partitions < 1) return `a topic has at least 1 partition, not ${partitions}`;
  if (partitions > partitionsPerTopicMax)
    return `${partitions} partitions, but max.partitions.per.topic is ${partitionsPerTopicMax}`;
  const total = image.partitionCount + partitions;
  return total > partitionsMax
    ? `the cluster would have ${total} partitions, but max.partitions is ${partitionsMax}`
    : undefined;
}

/** D-5: the majority of the declared replication factor. 1 -> 1, 2 -> 2, 3 -> 2, 5 -> 3. */
export function minIsrOf(replicationFactor: number): number {
  return Math.floor(replicationFactor / 2) + 1;
}

/** Deleting a topic that is being deleted already is no error and needs no record. */
export function decideDeletion(image: MetadataImage, name: string): Decision {
  const topic = image.topicByName(name);
  if (topic === undefined) return refused("UNKNOWN_TOPIC_OR_PARTITION", `no topic ${name}`);
  if (topic.isDeleting) return { kind: "records", records: [] };
  return { kind: "records", records: [{ type: "delete-topic", version: 1, topicId: topic.topicId }] };
}

export function decideRemoval(image: MetadataImage, topicId: TopicId): Decision {
  const topic = image.topic(topicId);
  if (topic === undefined || !topic.isDeleting) return { kind: "records", records: [] };
  return { kind: "records", records: [{ type: "topic-removed", version: 1, topicId }] };
}
