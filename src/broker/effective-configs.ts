// What holds for a topic's partitions on this broker, of all the places where it may be set.
import { effectiveConfig } from "../metadata/configs.ts";
import type { MetadataImage, TopicImage } from "../metadata/image.ts";
import type { LocalTopicConfigKey } from "../model/config.ts";
import type { NodeId, PartitionIndex } from "../model/ids.ts";
import type { LogSpec } from "../storage/types.ts";

/** The broker whose view it is, and what its configuration says where nothing else does. */
export interface TopicDefaults {
  readonly nodeId: NodeId;
  readonly config: Readonly<Record<LocalTopicConfigKey, number>>;
}

export interface TopicLimits {
  readonly maxMessageBytes: number;
  readonly segmentBytes: number;
  readonly indexIntervalBytes: number;
  /** D-29: acks 0 and 1 are taken though too few replicas are in sync. */
  readonly allowsBelowMinIsr: boolean;
}

export function topicLimitsOf(image: MetadataImage, topic: TopicImage, { nodeId, config }: TopicDefaults): TopicLimits {
  const valueOf = (key: LocalTopicConfigKey) =>
    effectiveConfig(image, key, { topic, nodeId, fileValue: config[key] }).value;
  return {
    maxMessageBytes: valueOf("max.message.bytes"),
    segmentBytes: valueOf("segment.bytes"),
    indexIntervalBytes: valueOf("index.interval.bytes"),
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
