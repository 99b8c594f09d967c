// Decisions about configuration that is changed while brokers run: of a topic, of one broker, of the cluster.
import type { NodeId } from "../model/ids.ts";
import { alteredConfigs, type ConfigChange, minIsrFault } from "./configs.ts";
import { type Decision, accepted, refused } from "./decision.ts";
import type { MetadataImage } from "./image.ts";
import type { Configs } from "./records.ts";

/** All changes or none. Setting what is set already needs no record. */
export function decideTopicConfigs(
  image: MetadataImage,
  wish: { readonly name: string; readonly changes: readonly ConfigChange[] },
): Decision {
  const topic = image.topicByName(wish.name);
  if (topic === undefined || topic.isDeleting) return refused("UNKNOWN_TOPIC_OR_PARTITION", `no topic ${wish.name}`);
  const altered = alteredConfigs(topic.configs, wish.changes, "topic");
  if (altered.kind === "invalid") return refused("INVALID_CONFIG", altered.message);
  const fault = minIsrFault(altered.configs, topic.replicationFactor, topic.configs);
  if (fault !== undefined) return refused("INVALID_CONFIG", fault);
  if (isSame(topic.configs, altered.configs)) return accepted();
  return accepted({ type: "topic-config", version: 1, topicId: topic.topicId, configs: altered.configs });
}

/** For one registered broker, or for every broker that has no value of its own (null). */
export function decideBrokerConfigs(
  image: MetadataImage,
  wish: { readonly nodeId: NodeId | null; readonly changes: readonly ConfigChange[] },
): Decision {
  const { nodeId, changes } = wish;
  if (image.cluster === undefined) return refused("BROKER_NOT_AVAILABLE", "there is no cluster yet");
  if (nodeId !== null && image.broker(nodeId) === undefined)
    return refused("INVALID_REQUEST", `no broker ${nodeId} is registered`);
  const before = image.brokerConfigs(nodeId);
  const altered = alteredConfigs(before, changes, nodeId === null ? "cluster" : "node");
  if (altered.kind === "invalid") return refused("INVALID_CONFIG", altered.message);
  if (isSame(before, altered.configs)) return accepted();
  return accepted({ type: "broker-config", version: 1, nodeId, configs: altered.configs });
}

function isSame(left: Configs, right: Configs): boolean {
  const keys = Object.keys(left);
  return keys.length === Object.keys(right).length && keys.every((key) => left[key] === right[key]);
}
