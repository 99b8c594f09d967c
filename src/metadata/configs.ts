// Configuration that is changed while brokers run: which keys, for what, and which of several values counts.
import {
  brokerConfigKeys,
  runtimeTopicConfigKeys,
  type TopicConfig,
  type TopicConfigKey,
  topicConfigKeys,
} from "../model/config.ts";
import { type NumberKey, parsedValue, takenBy } from "../model/config-keys.ts";
import type { NodeId } from "../model/ids.ts";
import type { MetadataImage, TopicImage } from "./image.ts";
import type { Configs } from "./records.ts";

export type RuntimeConfigKey = TopicConfigKey | "num.partitions";
/** `topic`: one topic. `node`: one broker. `cluster`: every broker that has no value of its own. */
export type ConfigScope = "topic" | "node" | "cluster";

export interface RuntimeConfig {
  readonly scopes: readonly ConfigScope[];
  readonly takesEffect: string;
}

const ofTopic = (takesEffect: string): RuntimeConfig => ({ scopes: ["topic", "cluster"], takesEffect });
const ofSegments = (takesEffect: string): RuntimeConfig => ({ scopes: ["topic", "node", "cluster"], takesEffect });
const AT_NEXT_LOOK = ofTopic("when segments are looked at next");
const FOR_BATCHES_THAT_ARRIVE = "for batches that arrive afterwards";
const FOR_BATCHES_WRITTEN = "for batches written afterwards";

/** Every key that `alter` takes. A key without the scope `node` would mean something else on each leader: it is of the whole cluster. */
export const RUNTIME_CONFIGS: Readonly<Record<RuntimeConfigKey, RuntimeConfig>> = {
  "num.partitions": {
    scopes: ["cluster"],
    takesEffect: "for topics created afterwards without a number of partitions",
  },
  "min.insync.replicas": ofTopic(
    "at once, for what is not committed yet; the cluster's is never more than a topic's replication factor",
  ),
  "allow.acks.below.min.isr": { scopes: ["topic"], takesEffect: FOR_BATCHES_THAT_ARRIVE },
  "max.message.bytes": ofTopic(FOR_BATCHES_THAT_ARRIVE),
  "segment.bytes": ofSegments(FOR_BATCHES_WRITTEN),
  "index.interval.bytes": ofSegments(FOR_BATCHES_WRITTEN),
  "segment.ms": ofTopic(FOR_BATCHES_WRITTEN),
  "segment.jitter.ms": ofTopic("for segments begun afterwards"),
  "segment.index.bytes": ofSegments(FOR_BATCHES_WRITTEN),
  "cleanup.policy": AT_NEXT_LOOK,
  "retention.ms": AT_NEXT_LOOK,
  "retention.bytes": AT_NEXT_LOOK,
  "delete.retention.ms": AT_NEXT_LOOK,
  "min.cleanable.dirty.ratio": AT_NEXT_LOOK,
  "min.compaction.lag.ms": AT_NEXT_LOOK,
  "max.compaction.lag.ms": AT_NEXT_LOOK,
  "message.timestamp.type": ofTopic(FOR_BATCHES_THAT_ARRIVE),
};

const KEYS: Readonly<Record<RuntimeConfigKey, NumberKey>> = {
  "num.partitions": brokerConfigKeys["num.partitions"],
  ...runtimeTopicConfigKeys,
  ...topicConfigKeys,
};

/** Keys that may be set for this. */
export function keysOf(scope: ConfigScope): readonly RuntimeConfigKey[] {
  return (Object.keys(RUNTIME_CONFIGS) as RuntimeConfigKey[]).filter((key) =>
    RUNTIME_CONFIGS[key].scopes.includes(scope),
  );
}

export interface ConfigChange {
  readonly key: string;
  /** null: not set any more. */
  readonly value: string | null;
}

export type ConfigOutcome<T> =
  | { readonly kind: "valid"; readonly configs: T }
  | { readonly kind: "invalid"; readonly message: string };

const SCOPE_NAMES: Readonly<Record<ConfigScope, string>> = {
  topic: "a topic",
  node: "one broker",
  cluster: "the cluster",
};

/** What is set after the changes. The message of an invalid one names the key and what it takes. */
export function alteredConfigs(
  before: Configs,
  changes: readonly ConfigChange[],
  scope: ConfigScope,
): ConfigOutcome<Configs> {
  const configs = new Map(Object.entries(before));
  const seen = new Set<string>();
  for (const { key, value } of changes) {
    const fault = keyFault(key, scope) ?? (seen.has(key) ? "given twice" : undefined);
    if (fault !== undefined) return { kind: "invalid", message: `${key}: ${fault}` };
    seen.add(key);
    if (value === null) {
      configs.delete(key);
      continue;
    }
    const takes = KEYS[key as RuntimeConfigKey];
    const parsed = parsedValue(takes, value);
    if (parsed === undefined) return { kind: "invalid", message: `${key}: takes ${takenBy(takes)}, not ${value}` };
    configs.set(key, parsed);
  }
  return {
    kind: "valid",
    configs: Object.fromEntries([...configs].sort(([left], [right]) => (left < right ? -1 : 1))),
  };
}

function keyFault(key: string, scope: ConfigScope): string | undefined {
  const keys: readonly string[] = keysOf(scope);
  if (keys.includes(key)) return undefined;
  const scopes = Object.hasOwn(RUNTIME_CONFIGS, key) ? RUNTIME_CONFIGS[key as RuntimeConfigKey].scopes : [];
  const known = `${SCOPE_NAMES[scope]} takes ${keys.join(", ")}`;
  if (scopes.length > 0) return `is set for ${scopes.map((each) => SCOPE_NAMES[each]).join(" or ")}; ${known}`;
  return scope === "topic" ? `no such topic configuration; ${known}` : `cannot be changed while brokers run; ${known}`;
}

/** As a person writes it. */
export function configText(key: string, value: number): string {
  const words = Object.hasOwn(KEYS, key) ? KEYS[key as RuntimeConfigKey].words : {};
  return Object.entries(words).find(([, each]) => each === value)?.[0] ?? String(value);
}

/** A topic may not ask for more than it has; what the cluster asks for is only capped. undefined: nothing is wrong, or it was so before. */
export function minIsrFault(configs: Configs, replicationFactor: number, before: Configs = {}): string | undefined {
  const key = "min.insync.replicas";
  const wanted = configs[key];
  if (wanted === undefined || wanted === before[key] || wanted <= replicationFactor) return undefined;
  return `${key}: takes 1 to ${replicationFactor}, the replication factor of the topic, not ${wanted}`;
}

/** Configuration of a new topic: "segment.bytes" "64MiB" -> 67108864. */
export function parseTopicConfigs(
  given: readonly { readonly key: string; readonly value: string }[],
): ConfigOutcome<TopicConfig & Configs> {
  return alteredConfigs({}, given, "topic") as ConfigOutcome<TopicConfig & Configs>;
}

export type ConfigSource = "topic" | "node" | "cluster" | "file";

export interface EffectiveConfig {
  readonly value: number;
  /** `file`: the node's configuration file or flags, or the default. */
  readonly source: ConfigSource;
}

/** The value that counts: the topic's own, else this broker's, else the cluster's, else `fileValue`. */
export function effectiveConfig(
  image: MetadataImage,
  key: RuntimeConfigKey,
  at: { readonly topic?: Pick<TopicImage, "configs"> | undefined; readonly nodeId: NodeId; readonly fileValue: number },
): EffectiveConfig {
  const layers: readonly (readonly [ConfigSource, number | undefined])[] = [
    ["topic", at.topic?.configs[key]],
    ["node", image.brokerConfigs(at.nodeId)[key]],
    ["cluster", image.brokerConfigs(null)[key]],
  ];
  for (const [source, value] of layers) if (value !== undefined) return { value, source };
  return { value: at.fileValue, source: "file" };
}
