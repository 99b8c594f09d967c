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
  readonly unit: "bytes" | "count";
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
    takesEffect: "at once, for what is not committed yet; never more than the replication factor",
  },
  "allow.acks.below.min.isr": {
    min: 0,
    max: 1,
    unit: "count",
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
    const { min, max, unit } = RUNTIME_CONFIGS[key as RuntimeConfigKey];
    const size = unit === "bytes" ? sizeOf(value) : countOf(value);
    if (size === undefined || size < min || size > max) {
      const what = unit === "bytes" ? " bytes" : "";
      return { kind: "invalid", message: `${key}: takes ${min} to ${max}${what}, not ${value}` };
    }
    configs.set(key, size);
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
