// Decisions about topics: creation with the placement of its partitions, deletion, removal, what removed ones still owe.
import type { NodeId, TopicId } from "../model/ids.ts";
import { topicNameFault } from "../model/topic-name.ts";
import { byNodeId } from "./broker-decisions.ts";
import { parseTopicConfigs } from "./configs.ts";
import { type Decision, accepted, refused } from "./decision.ts";
import type { MetadataImage, TopicImage } from "./image.ts";

/** One metadata answer must hold a topic whole (D-38). */
const PARTITIONS_OF_ONE_ANSWER = 20_000;

/** Bound: removed topics that some fenced broker still has logs of. At it, deleted topics keep their names until one is settled. */
export const TOMBSTONES_MAX = 20_000;

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
  /** The controller's own num.partitions: used when none was set for the cluster at run time. */
  readonly partitionsDefault: number;
  readonly partitionsPerTopicMax: number;
  readonly partitionsMax: number;
  /** Such a broker is given no new partition. Default: none is. */
  readonly isLowOnSpace?: (nodeId: NodeId) => boolean;
  /** Such a broker may be dead, and is given a new partition only when there is no other. Default: none is. */
  readonly isQuiet?: (nodeId: NodeId) => boolean;
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
  const partitionsDefault = image.brokerConfigs(null)["num.partitions"] ?? context.partitionsDefault;
  const partitions = wish.partitions === -1 ? partitionsDefault : wish.partitions;
  const partitionFault = partitionCountFault(image, partitions, context);
  if (partitionFault !== undefined) return refused("INVALID_PARTITIONS", partitionFault);
  const replicationFactor = wish.replicationFactor === -1 ? 1 : wish.replicationFactor;
  if (replicationFactor !== 1) return refused("INVALID_REPLICATION_FACTOR", replicationMessage(replicationFactor));
  const parsed = parseTopicConfigs(wish.configs);
  if (parsed.kind === "invalid") return refused("INVALID_CONFIG", parsed.message);
  const unfenced = byNodeId(image.brokers).filter(({ isFenced }) => !isFenced);
  if (unfenced.length === 0) return refused("BROKER_NOT_AVAILABLE", "no broker is unfenced: none can take a partition");
  const candidates = unfenced.map(({ nodeId }) => nodeId).filter((nodeId) => !context.isLowOnSpace?.(nodeId));
  if (candidates.length === 0)
    return refused("STORAGE_FULL", "every broker that could take a partition is low on disk space");
  const heard = candidates.filter((nodeId) => !context.isQuiet?.(nodeId));
  const replicas = placement(image, heard.length > 0 ? heard : candidates, partitions);
  const { topicId, nowMs } = context;
  const { configs } = parsed;
  const minIsr = minIsrOf(replicationFactor);
  const identity = { type: "topic", version: 1, topicId, name, configs } as const;
  return accepted({ ...identity, replicationFactor, minIsr, replicas, timestampMs: nowMs });
}

function existsMessage(image: MetadataImage, name: string): string {
  return image.topicByName(name)?.isDeleting === true ? `topic ${name} is being deleted` : `topic ${name} exists`;
}

function replicationMessage(replicationFactor: number): string {
  return replicationFactor > 1 && Number.isSafeInteger(replicationFactor)
    ? `replication factor ${replicationFactor}: this version keeps one copy of a partition, use 1`
    : `a topic has at least 1 replica, not ${replicationFactor}`;
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

/**
 * Replicas of each new partition: the candidates (ascending, at least one) in turn, those first that hold fewest partitions, then by node id. So
 * one topic's partitions are spread evenly, and brokers that are level stay level within one partition.
 */
function placement(
  image: MetadataImage,
  nodeIds: readonly NodeId[],
  partitions: number,
): readonly (readonly NodeId[])[] {
  const candidates = nodeIds
    .map((nodeId) => ({ nodeId, held: image.heldCount(nodeId) }))
    .sort((left, right) => left.held - right.held);
  return Array.from({ length: partitions }, (_, index) =>
    candidates
      .slice(index % candidates.length)
      .slice(0, 1)
      .map(({ nodeId }) => nodeId),
  );
}

/** D-5: the majority of the declared replication factor. 1 -> 1, 2 -> 2, 3 -> 2, 5 -> 3. */
export function minIsrOf(replicationFactor: number): number {
  return Math.floor(replicationFactor / 2) + 1;
}

/** Deleting a topic that is being deleted already is no error and needs no record. */
export function decideDeletion(image: MetadataImage, name: string): Decision {
  const topic = image.topicByName(name);
  if (topic === undefined) return refused("UNKNOWN_TOPIC_OR_PARTITION", `no topic ${name}`);
  return topic.isDeleting ? accepted() : accepted({ type: "delete-topic", version: 1, topicId: topic.topicId });
}

/**
 * Frees the name of a topic being deleted, once every unfenced broker with a replica of it is among those that `dropped` their logs. The
 * others, all of them fenced, owe it: they are not waited for. Those that are not registered any more owe nothing. No records: not yet, or done
 * already.
 */
export function decideRemoval(image: MetadataImage, topicId: TopicId, dropped: Iterable<NodeId>): Decision {
  const topic = image.topic(topicId);
  if (topic === undefined || !topic.isDeleting) return accepted();
  const done = new Set(dropped);
  const owed = replicaNodes(topic).filter((nodeId) => !done.has(nodeId) && image.broker(nodeId) !== undefined);
  if (owed.some((nodeId) => image.broker(nodeId)?.isFenced === false)) return accepted();
  if (owed.length > 0 && image.tombstoneCount >= TOMBSTONES_MAX) return accepted();
  return accepted({ type: "topic-removed", version: 1, topicId, owed });
}

function replicaNodes({ partitions }: TopicImage): NodeId[] {
  return [...new Set(partitions.flatMap(({ replicas }) => replicas))].sort((left, right) => left - right);
}

/** The broker has no log of these topics: what it owed of them is settled. Topics that it owes nothing for are left out. */
export function decideSettled(
  image: MetadataImage,
  wish: { readonly nodeId: NodeId; readonly topicIds: Iterable<TopicId> },
): Decision {
  const { nodeId } = wish;
  const topicIds = [...new Set(wish.topicIds)].filter((topicId) => image.tombstone(topicId)?.owed.includes(nodeId));
  return topicIds.length === 0 ? accepted() : accepted({ type: "tombstone-settled", version: 1, nodeId, topicIds });
}
