// What a configuration key takes: kinds of values with their bounds and defaults, and how each is written.
// By hand: a schema library would take as long to load as all else that a node starts with.
import { type ConfigWords, SIZE_UNITS, TIME_UNITS, unitsValue, wordValue } from "./config-values.ts";

type Unit = "bytes" | "count" | "switch" | "duration" | "ratio" | "words";
/** What is so without a value: `required` is a fault, `optional` stays out of the configuration. */
type Absence = "default" | "required" | "optional";

export interface NumberKey<A extends Absence = Absence> {
  readonly kind: "number";
  readonly absence: A;
  readonly unit: Unit;
  readonly min: number;
  readonly max: number;
  readonly fallback: number | undefined;
  /** Of the unit `words` only: kept as a number, written as one of these. */
  readonly words: ConfigWords;
  readonly about: string;
}

export interface TextKey<A extends Absence = Absence> {
  readonly kind: "text";
  readonly absence: A;
  readonly pattern: RegExp;
  /** What the pattern lets through, for people. */
  readonly takes: string;
  readonly fallback: string | undefined;
  readonly about: string;
}

export type ConfigKey = NumberKey | TextKey;
export type ConfigKeys = Readonly<Record<string, ConfigKey>>;

type ValueOf<K> = K extends NumberKey ? number : string;
type NamesOf<K extends ConfigKeys, A extends Absence> = {
  [Name in keyof K]: K[Name]["absence"] extends A ? Name : never;
}[keyof K];
/** The configuration that these keys make, defaults filled in. */
export type ConfigOf<K extends ConfigKeys> = {
  readonly [Name in NamesOf<K, "default" | "required">]: ValueOf<K[Name]>;
} & { readonly [Name in NamesOf<K, "optional">]?: ValueOf<K[Name]> | undefined };

interface Range {
  readonly min: number;
  readonly max: number;
}

const numeric = <A extends Absence>(
  absence: A,
  unit: Unit,
  key: Range & { readonly about: string; readonly fallback?: number; readonly words?: ConfigWords },
): NumberKey<A> => ({ kind: "number", absence, unit, fallback: undefined, words: {}, ...key });

export const bytes = (fallback: number, min: number, max: number, about: string) =>
  numeric("default", "bytes", { fallback, min, max, about: `${about} Bytes.` });
export const duration = (fallback: number, min: number, max: number, about: string) =>
  numeric("default", "duration", { fallback, min, max, about: `${about} Milliseconds.` });
/** Also -1: no limit. */
export const limited = (of: "bytes" | "duration", fallback: number, max: number, about: string) =>
  (of === "bytes" ? bytes : duration)(fallback, -1, max, `${about} -1: no limit.`);
export const count = (fallback: number, min: number, max: number, about: string) =>
  numeric("default", "count", { fallback, min, max, about });
export const requiredCount = (min: number, max: number, about: string) =>
  numeric("required", "count", { min, max, about });
export const optionalCount = (min: number, max: number, about: string) =>
  numeric("optional", "count", { min, max, about });
/** Also true and false, as Kafka's users write it. */
export const onOff = (fallback: 0 | 1, about: string) =>
  numeric("default", "switch", { fallback, min: 0, max: 1, about: `${about} Also true and false.` });
export const ratio = (fallback: number, about: string) =>
  numeric("default", "ratio", { fallback, min: 0, max: 1, about });
export const words = (fallback: number, of: ConfigWords, about: string) => {
  const values = Object.values(of);
  const range = { min: Math.min(...values), max: Math.max(...values) };
  return numeric("default", "words", {
    ...range,
    fallback,
    words: of,
    about: `${about} ${Object.keys(of).join(", ")}.`,
  });
};

interface Pattern {
  readonly pattern: RegExp;
  readonly takes: string;
}
export const NOT_EMPTY: Pattern = { pattern: /./s, takes: "a text that is not empty" };
export const requiredText = (of: Pattern, about: string): TextKey<"required"> => ({
  kind: "text",
  absence: "required",
  fallback: undefined,
  ...of,
  about,
});
export const optionalText = (of: Pattern, about: string): TextKey<"optional"> => ({
  ...requiredText(of, about),
  absence: "optional",
});
export const text = (fallback: string, of: Pattern, about: string): TextKey<"default"> => ({
  ...requiredText(of, about),
  absence: "default",
  fallback,
});

/** The value as it is kept; undefined: it cannot be used. */
export function parsedValue(key: NumberKey, given: unknown): number | undefined;
export function parsedValue(key: ConfigKey, given: unknown): number | string | undefined;
export function parsedValue(key: ConfigKey, given: unknown): number | string | undefined {
  if (key.kind === "text") return typeof given === "string" && key.pattern.test(given) ? given : undefined;
  const value = numberOf(key, given);
  const isWhole = key.unit === "ratio" || Number.isSafeInteger(value);
  return value !== undefined && isWhole && value >= key.min && value <= key.max ? value : undefined;
}

function numberOf(key: NumberKey, given: unknown): number | undefined {
  if (typeof given === "number") return given;
  if (typeof given === "boolean") return key.unit === "switch" ? Number(given) : undefined;
  if (typeof given !== "string") return undefined;
  const trimmed = given.trim();
  switch (key.unit) {
    case "bytes":
      return trimmed === "-1" ? -1 : unitsValue(SIZE_UNITS, trimmed);
    case "duration":
      return trimmed === "-1" ? -1 : unitsValue(TIME_UNITS, trimmed);
    case "count":
      return /^\d{1,15}$/.test(trimmed) ? Number(trimmed) : undefined;
    case "switch":
      return wordValue({ true: 1, false: 0 }, trimmed);
    case "ratio":
      return /^\d*\.?\d+$/.test(trimmed) ? Number(trimmed) : undefined;
    case "words":
      return wordValue(key.words, trimmed);
  }
}

/** For people: after "takes". */
export function takenBy(key: ConfigKey): string {
  if (key.kind === "text") return key.takes;
  const range = `${key.min} to ${key.max}`;
  switch (key.unit) {
    case "bytes":
      return `${range} bytes (also 64MiB)`;
    case "duration":
      return `${range} ms (also 5s)`;
    case "count":
    case "ratio":
      return range;
    case "switch":
      return "1 or true, 0 or false";
    case "words":
      return Object.keys(key.words).join(" or ");
  }
}

export type CheckedConfig<K extends ConfigKeys> =
  | { readonly kind: "valid"; readonly config: ConfigOf<K> }
  /** The names of the keys that cannot be used: unknown, missing, or with a value that the key does not take. */
  | { readonly kind: "invalid"; readonly names: readonly string[] };

/** All keys of a configuration, those given and those that have a default. */
export function checkedConfig<K extends ConfigKeys>(
  keys: K,
  given: Readonly<Record<string, unknown>>,
): CheckedConfig<K> {
  const names = Object.keys(given).filter((name) => !Object.hasOwn(keys, name));
  const config: Record<string, number | string> = {};
  for (const [name, key] of Object.entries(keys)) {
    const isGiven = given[name] !== undefined;
    const value = isGiven ? parsedValue(key, given[name]) : key.fallback;
    if (value !== undefined) config[name] = value;
    else if (isGiven || key.absence === "required") names.push(name);
  }
  return names.length === 0 ? { kind: "valid", config: config as ConfigOf<K> } : { kind: "invalid", names };
}
