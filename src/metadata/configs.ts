// Configuration that is changed while brokers run: which keys, for what, within which bounds, and which of several values counts.
// The bounds are those of the model's schema (a test holds them together), written out so that a broker in somebody's process need not load a
// schema library.
import type { TopicConfig, TopicConfigKey } from "../model/config.ts";
import type { NodeId } from "../model/ids.ts";
import type { MetadataImage, TopicImage } from "./image.ts";
import type { Configs } from "./records.ts";

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;
const UNITS: Readonly<Record<string, number>> = { "": 1, B: 1, KiB, MiB, GiB, kB: 1e3, MB: 1e6, GB: 1e9 };

export type RuntimeConfigKey = TopicConfigKey | "num.partitions";
/** `topic`: one topic. `node`: one broker. `cluster`: every broker that has no value of its own. */
export type ConfigScope = "topic" | "node" | "cluster";

export interface RuntimeConfig {
  readonly min: number;
  readonly max: number;
  readonly unit: "bytes" | "count" | "switch";
  readonly scopes: readonly ConfigScope[];
  readonly takesEffect: string;
}

/** Every key that `alter` takes. A key without the scope `node` would mean something else on each leader: it is of the whole cluster. */
export const RUNTIME_CONFIGS: Readonly<Record<RuntimeConfigKey, RuntimeConfig>> = {
  "num.partitions": {
    min: 1,
    max: 10_000,
    unit: "count",
    scopes: ["cluster"],
    takesEffect: "for topics created afterwards without a number of partitions",
  },
  "min.insync.replicas": {
    min: 1,
    max: 32_767,
    unit: "count",
    scopes: ["topic", "cluster"],
    takesEffect:
      "at once, for what is not committed yet; the cluster's is never more than a topic's replication factor",
  },
  "allow.acks.below.min.isr": {
    min: 0,
    max: 1,
    unit: "switch",
    scopes: ["topic"],
    takesEffect: "for batches that arrive afterwards",
  },
  "max.message.bytes": {
    min: 128,
    max: 64 * MiB,
    unit: "bytes",
    scopes: ["topic", "cluster"],
    takesEffect: "for batches that arrive afterwards",
  },
  "segment.bytes": {
    min: 1 * KiB,
    max: 2 * GiB - 1,
    unit: "bytes",
    scopes: ["topic", "node", "cluster"],
    takesEffect: "for batches written afterwards",
  },
  "index.interval.bytes": {
    min: 16,
    max: 16 * MiB,
    unit: "bytes",
    scopes: ["topic", "node", "cluster"],
    takesEffect: "for batches written afterwards",
  },
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
    const config = RUNTIME_CONFIGS[key as RuntimeConfigKey];
    const parsed = PARSERS[config.unit](value);
    if (parsed === undefined || parsed < config.min || parsed > config.max)
      return { kind: "invalid", message: `${key}: takes ${takenBy(config)}, not ${value}` };
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

function sizeOf(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(text.trim());
  const unit = match?.[2];
  const factor = unit !== undefined && Object.hasOwn(UNITS, unit) ? UNITS[unit] : undefined;
  return match === null || factor === undefined ? undefined : Math.round(Number(match[1]) * factor);
}

function countOf(text: string): number | undefined {
  return /^\d{1,15}$/.test(text.trim()) ? Number(text) : undefined;
}

/** As Kafka's users write them, and as they are kept. */
function switchOf(text: string): number | undefined {
  switch (text.trim().toLowerCase()) {
    case "1":
    case "true":
      return 1;
    case "0":
    case "false":
      return 0;
    default:
      return undefined;
  }
}

const PARSERS: Readonly<Record<RuntimeConfig["unit"], (text: string) => number | undefined>> = {
  bytes: sizeOf,
  count: countOf,
  switch: switchOf,
};

function takenBy({ min, max, unit }: RuntimeConfig): string {
  if (unit === "switch") return "1 or true, 0 or false";
  return `${min} to ${max}${unit === "bytes" ? " bytes" : ""}`;
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
