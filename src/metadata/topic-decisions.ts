// Decisions about topics: creation with the placement of its partitions, deletion, removal, what removed ones still owe.
import type { NodeId, TopicId } from "../model/ids.ts";
import { topicNameFault } from "../model/topic-name.ts";
import { minIsrFault, parseTopicConfigs } from "./configs.ts";
import { type Decision, accepted, refused } from "./decision.ts";
import type { MetadataImage, TopicImage } from "./image.ts";
import { type Candidate, placement } from "./placement.ts";

/** As many as the protocol can list of one partition: a topic with more could not be described, nor any page of topics with it. */
export const REPLICAS_MAX = 64;

/** One metadata answer must hold a topic whole (D-38): partitions of this many replicas, each named twice, that fit. */
const partitionsOfOneAnswer = (replicationFactor: number): number =>
  Math.floor(1_000_000 / (40 + 10 * replicationFactor));

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
  /** The controller's own default.replication.factor; fewer when fewer brokers are registered. Default: 1. */
  readonly replicationFactorDefault?: number;
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
  const replicationFactor = replicationFactorOf(image, wish, context);
  const replicationFault = replicationFactorFault(image, replicationFactor);
  if (replicationFault !== undefined) return refused("INVALID_REPLICATION_FACTOR", replicationFault);
  const partitionsDefault = image.brokerConfigs(null)["num.partitions"] ?? context.partitionsDefault;
  const partitions = wish.partitions === -1 ? partitionsDefault : wish.partitions;
  const partitionFault = partitionCountFault(image, { partitions, replicationFactor }, context);
  if (partitionFault !== undefined) return refused("INVALID_PARTITIONS", partitionFault);
  const parsed = parseTopicConfigs(wish.configs);
  if (parsed.kind === "invalid") return refused("INVALID_CONFIG", parsed.message);
  const configFault = minIsrFault(parsed.configs, replicationFactor);
  if (configFault !== undefined) return refused("INVALID_CONFIG", configFault);
  if (image.active.size === 0)
    return refused("BROKER_NOT_AVAILABLE", "no broker is unfenced: none can take a partition");
  const candidates = candidatesFor(image, context);
  const spaceFault = spaceFaultOf(candidates, replicationFactor);
  if (spaceFault !== undefined) return refused("STORAGE_FULL", spaceFault);
  const replicas = placement(candidates, partitions, replicationFactor);
  const { topicId, nowMs } = context;
  const { configs } = parsed;
  const identity = { type: "topic", version: 1, topicId, name, configs } as const;
  return accepted({ ...identity, replicationFactor, replicas, timestampMs: nowMs });
}

function replicationFactorOf(image: MetadataImage, wish: TopicWish, context: TopicContext): number {
  if (wish.replicationFactor !== -1) return wish.replicationFactor;
  return Math.max(1, Math.min(context.replicationFactorDefault ?? 1, image.brokerCount, REPLICAS_MAX));
}

function replicationFactorFault(image: MetadataImage, replicationFactor: number): string | undefined {
  if (!Number.isSafeInteger(replicationFactor) || replicationFactor < 1)
    return `a topic has at least 1 replica, not ${replicationFactor}`;
  if (replicationFactor > REPLICAS_MAX) return `a topic has at most ${REPLICAS_MAX} replicas, not ${replicationFactor}`;
  if (replicationFactor <= Math.max(1, image.brokerCount)) return undefined;
  return `replication factor ${replicationFactor}: ${image.brokerCount} brokers are registered, and each takes one replica`;
}

const RANK = { HEARD: 0, QUIET: 1, FENCED: 2 } as const;

/**
 * All that have space. Those that are fenced, or not heard of, take a replica only where there are not enough others: the active ones among the
 * replicas are the first ISR, so one must be.
 */
function candidatesFor(image: MetadataImage, { isLowOnSpace, isQuiet }: TopicContext): readonly Candidate[] {
  return [...image.brokers]
    .filter(({ nodeId }) => isLowOnSpace?.(nodeId) !== true)
    .map(({ nodeId, isFenced }): Candidate => {
      const rank = isFenced ? RANK.FENCED : isQuiet?.(nodeId) === true ? RANK.QUIET : RANK.HEARD;
      return { nodeId, rank, held: image.heldCount(nodeId), first: image.firstCount(nodeId) };
    });
}

function spaceFaultOf(candidates: readonly Candidate[], replicationFactor: number): string | undefined {
  if (candidates.every(({ rank }) => rank === RANK.FENCED))
    return "every broker that could take a partition is low on disk space";
  return candidates.length < replicationFactor
    ? `${candidates.length} brokers have disk space for new partitions, not ${replicationFactor}`
    : undefined;
}

function existsMessage(image: MetadataImage, name: string): string {
  return image.topicByName(name)?.isDeleting === true ? `topic ${name} is being deleted` : `topic ${name} exists`;
}

function partitionCountFault(
  image: MetadataImage,
  { partitions, replicationFactor }: { readonly partitions: number; readonly replicationFactor: number },
  { partitionsPerTopicMax, partitionsMax }: TopicContext,
): string | undefined {
  const ofAnswer = partitionsOfOneAnswer(replicationFactor);
  if (!Number.isSafeInteger(partitions) || partitions < 1) return `a topic has at least 1 partition, not ${partitions}`;
  if (partitions > partitionsPerTopicMax)
    return `${partitions} partitions, but max.partitions.per.topic is ${partitionsPerTopicMax}`;
  if (partitions > ofAnswer)
    return `${partitions} partitions, but a topic of replication factor ${replicationFactor} has at most ${ofAnswer}`;
  const total = image.partitionCount + partitions;
  return total > partitionsMax
    ? `the cluster would have ${total} partitions, but max.partitions is ${partitionsMax}`
    : undefined;
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
