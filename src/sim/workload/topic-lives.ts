// How long the records of a topic live: drawn for each topic, so short and small that segments are rolled, deleted and compacted within seconds.
import type { Rng } from "../../base/rng.ts";

export interface TopicLife {
  readonly configs: Readonly<Record<string, string>>;
  readonly isCompacted: boolean;
}

const KiB = 1024;
const NO_LIFE: TopicLife = { configs: {}, isCompacted: false };

/** `chance`: of anything but the defaults, with which nothing goes in the time of a run. */
export function drawTopicLife(rng: Rng, chance: number): TopicLife {
  if (!rng.chance(chance)) return NO_LIFE;
  const policy = rng.pick(["delete", "delete", "compact", "compact", "compact,delete"]);
  const [isDeleted, isCompacted] = [policy.includes("delete"), policy.includes("compact")];
  return {
    configs: {
      "cleanup.policy": policy,
      ...rollConfigs(rng),
      // Of no consequence where the policy is not to delete.
      ...(isDeleted || rng.chance(0.5) ? retentionConfigs(rng) : {}),
      ...(isCompacted ? compactionConfigs(rng) : {}),
    },
    isCompacted,
  };
}

/** Those that are drawn, without the others. */
function drawn(values: Readonly<Record<string, number | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).flatMap(([key, value]) => (value === undefined ? [] : [[key, String(value)]])),
  );
}

function rollConfigs(rng: Rng): Record<string, string> {
  return drawn({
    "segment.bytes": rng.pick([undefined, 1 * KiB, 4 * KiB]),
    "segment.ms": rng.pick([undefined, 500, 3000]),
    "segment.jitter.ms": rng.pick([undefined, 200]),
    "segment.index.bytes": rng.pick([undefined, undefined, 64]),
  });
}

function retentionConfigs(rng: Rng): Record<string, string> {
  const byTime = rng.pick([1000, 3000, 8000]);
  const bySize = rng.pick([2 * KiB, 8 * KiB, 32 * KiB]);
  return rng.pick([
    drawn({ "retention.ms": byTime }),
    drawn({ "retention.bytes": bySize }),
    drawn({ "retention.ms": byTime, "retention.bytes": bySize }),
  ]);
}

function compactionConfigs(rng: Rng): Record<string, string> {
  return drawn({
    "min.cleanable.dirty.ratio": rng.pick([0, 0.1, 0.5]),
    "delete.retention.ms": rng.pick([0, 1000, 5000, undefined]),
    "min.compaction.lag.ms": rng.pick([undefined, undefined, 1000]),
    "max.compaction.lag.ms": rng.pick([undefined, undefined, 2000]),
  });
}
