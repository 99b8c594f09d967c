// How configuration values are written: as numbers with units, or as words.

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;

type Units = Readonly<Record<string, number>>;
export const SIZE_UNITS: Units = { "": 1, B: 1, KiB, MiB, GiB, kB: 1e3, MB: 1e6, GB: 1e9 };
export const TIME_UNITS: Units = { "": 1, ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** "64MiB", "1.5 h"; without a unit bytes or milliseconds. Rounded; undefined: it is none of these. */
export function unitsValue(units: Units, text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(text.trim());
  const unit = match?.[2];
  const factor = unit !== undefined && Object.hasOwn(units, unit) ? units[unit] : undefined;
  return match === null || factor === undefined ? undefined : Math.round(Number(match[1]) * factor);
}

export type ConfigWords = Readonly<Record<string, number>>;

/** cleanup.policy is a set of these bits. */
export const CLEANUP = { DELETE: 1, COMPACT: 2 } as const;
export const TIMESTAMP_TYPE = { CREATE_TIME: 0, LOG_APPEND_TIME: 1 } as const;
/** Values of the keys that are written as words. */
export const CONFIG_WORDS = {
  "cleanup.policy": {
    delete: CLEANUP.DELETE,
    compact: CLEANUP.COMPACT,
    "compact,delete": CLEANUP.COMPACT | CLEANUP.DELETE,
  },
  "message.timestamp.type": {
    CreateTime: TIMESTAMP_TYPE.CREATE_TIME,
    LogAppendTime: TIMESTAMP_TYPE.LOG_APPEND_TIME,
  },
} as const satisfies Readonly<Record<string, ConfigWords>>;

/** In any case, spaced as one likes, a list in any order; the number itself, too. */
export function wordValue(of: ConfigWords, text: string): number | undefined {
  const wanted = text
    .toLowerCase()
    .split(",")
    .map((word) => word.trim())
    .sort()
    .join();
  for (const [word, value] of Object.entries(of))
    if (word.toLowerCase().split(",").sort().join() === wanted || String(value) === wanted) return value;
  return undefined;
}
