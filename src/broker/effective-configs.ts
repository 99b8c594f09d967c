// What holds for a topic's partitions on this broker, of all the places where it may be set.
import { effectiveConfig } from "../metadata/configs.ts";
import type { MetadataImage, TopicImage } from "../metadata/image.ts";
import type { Configs } from "../metadata/records.ts";
import type { LocalTopicConfigKey } from "../model/config.ts";
import { TIMESTAMP_TYPE } from "../model/config-values.ts";
import type { NodeId, PartitionIndex } from "../model/ids.ts";
import type { LogSettings, LogSpec } from "../storage/types.ts";

/** The broker whose view it is, and what its configuration says where nothing else does. */
export interface TopicDefaults {
  readonly nodeId: NodeId;
  readonly config: Readonly<Record<LocalTopicConfigKey, number>>;
}

export interface TopicLimits extends LogSettings {
  readonly maxMessageBytes: number;
  readonly retentionMs: number;
  readonly retentionBytes: number;
  /** Batches get the leader's time. */
  readonly isLogAppendTime: boolean;
  /** D-29: acks 0 and 1 are taken though too few replicas are in sync. */
  readonly allowsBelowMinIsr: boolean;
}

/** Alone what every metadata answer tells. */
export function maxMessageBytesOf(image: MetadataImage, topic: TopicImage, { nodeId, config }: TopicDefaults): number {
  const key = "max.message.bytes";
  return effectiveConfig(image, key, { topic, nodeId, fileValue: config[key] }).value;
}

interface KnownLimits {
  readonly ofNode: Configs;
  readonly ofCluster: Configs;
  readonly limits: TopicLimits;
}

/** Limits of topics, the same object for all partitions until a setting changes: a broker that is fenced moves thousands at once. */
export class TopicLimitsTable {
  readonly #defaults: TopicDefaults;
  readonly #known = new WeakMap<Configs, KnownLimits>();

  constructor(defaults: TopicDefaults) {
    this.#defaults = defaults;
  }

  of(image: MetadataImage, topic: TopicImage): TopicLimits {
    const ofNode = image.brokerConfigs(this.#defaults.nodeId);
    const ofCluster = image.brokerConfigs(null);
    const known = this.#known.get(topic.configs);
    if (known?.ofNode === ofNode && known.ofCluster === ofCluster) return known.limits;
    const limits = topicLimitsOf(image, topic, this.#defaults);
    this.#known.set(topic.configs, { ofNode, ofCluster, limits });
    return limits;
  }
}

function topicLimitsOf(image: MetadataImage, topic: TopicImage, { nodeId, config }: TopicDefaults): TopicLimits {
  const valueOf = (key: LocalTopicConfigKey) =>
    effectiveConfig(image, key, { topic, nodeId, fileValue: config[key] }).value;
  return {
    maxMessageBytes: valueOf("max.message.bytes"),
    segmentBytes: valueOf("segment.bytes"),
    indexIntervalBytes: valueOf("index.interval.bytes"),
    segmentMs: valueOf("segment.ms"),
    segmentJitterMs: valueOf("segment.jitter.ms"),
    segmentIndexBytes: valueOf("segment.index.bytes"),
    cleanupPolicy: valueOf("cleanup.policy"),
    deleteRetentionMs: valueOf("delete.retention.ms"),
    minCleanableDirtyRatio: valueOf("min.cleanable.dirty.ratio"),
    minCompactionLagMs: valueOf("min.compaction.lag.ms"),
    maxCompactionLagMs: valueOf("max.compaction.lag.ms"),
    retentionMs: valueOf("retention.ms"),
    retentionBytes: valueOf("retention.bytes"),
    isLogAppendTime: valueOf("message.timestamp.type") === TIMESTAMP_TYPE.LOG_APPEND_TIME,
    allowsBelowMinIsr: effectiveConfig(image, "allow.acks.below.min.isr", { topic, nodeId, fileValue: 0 }).value === 1,
  };
}

/** What a log of the topic is made with. */
export function logSpecOf(topic: TopicImage, partition: PartitionIndex): LogSpec {
  const segmentBytes = topic.configs["segment.bytes"];
  const indexIntervalBytes = topic.configs["index.interval.bytes"];
  return {
    topicId: topic.topicId,
    topic: topic.name,
    partition,
    ...(segmentBytes === undefined ? {} : { segmentBytes }),
    ...(indexIntervalBytes === undefined ? {} : { indexIntervalBytes }),
  };
}
