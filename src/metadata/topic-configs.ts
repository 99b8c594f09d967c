// The configuration keys that a topic may set: the same keys and bounds as topicConfigShape of the model (a test holds them together),
// written out here so that a broker in somebody's process need not load a schema library.
import type { TopicConfig, TopicConfigKey } from "../model/config.ts";

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;
const UNITS: Readonly<Record<string, number>> = { "": 1, B: 1, KiB, MiB, GiB, kB: 1e3, MB: 1e6, GB: 1e9 };

export const TOPIC_CONFIG_BOUNDS: Readonly<Record<TopicConfigKey, { readonly min: number; readonly max: number }>> = {
  "max.message.bytes": { min: 128, max: 64 * MiB },
  "segment.bytes": { min: 1 * KiB, max: 2 * GiB - 1 },
  "index.interval.bytes": { min: 16, max: 16 * MiB },
};

export type TopicConfigOutcome =
  | { readonly kind: "valid"; readonly configs: TopicConfig }
  | { readonly kind: "invalid"; readonly message: string };

function invalid(message: string): TopicConfigOutcome {
  return { kind: "invalid", message };
}

function sizeOf(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(text.trim());
  const unit = match?.[2];
  const factor = unit !== undefined && Object.hasOwn(UNITS, unit) ? UNITS[unit] : undefined;
  return match === null || factor === undefined ? undefined : Math.round(Number(match[1]) * factor);
}

/** "segment.bytes" "64MiB" -> 67108864. The message of an invalid one names the key and what it takes. */
export function parseTopicConfigs(
  given: readonly { readonly key: string; readonly value: string }[],
): TopicConfigOutcome {
  const configs: Partial<Record<TopicConfigKey, number>> = {};
  for (const { key, value } of given) {
    if (!Object.hasOwn(TOPIC_CONFIG_BOUNDS, key)) {
      return invalid(`${key}: no such topic configuration; known are ${Object.keys(TOPIC_CONFIG_BOUNDS).join(", ")}`);
    }
    const known = key as TopicConfigKey;
    const { min, max } = TOPIC_CONFIG_BOUNDS[known];
    const size = sizeOf(value);
    if (size === undefined || size < min || size > max)
      return invalid(`${key}: takes ${min} to ${max} bytes, not ${value}`);
    if (configs[known] !== undefined) return invalid(`${key}: given twice`);
    configs[known] = size;
  }
  return { kind: "valid", configs };
}
