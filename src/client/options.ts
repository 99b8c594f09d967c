// What callers pass, checked before it is used: plain JavaScript knows no types, and a misspelt option must not be a silent default.
import { nearest } from "../base/nearest.ts";
import { OttlaError } from "../model/errors.ts";

/** What is wrong with a value: what the field takes. Undefined: nothing. */
export type Check = (value: unknown) => string | undefined;

export type Checks<Options> = { readonly [Key in keyof Required<Options>]: Check };

/** `Array.isArray` that leaves the type of a typed list alone. */
export function isList(value: unknown): boolean {
  return Array.isArray(value);
}

/** For messages: short, and never a whole record. */
export function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}...` : value);
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return "a function";
  if (typeof value !== "object" || value === null) return String(value);
  return Array.isArray(value) ? "a list" : "an object";
}

export function invalid(field: string, takes: string, value: unknown): OttlaError {
  return new OttlaError("INVALID_REQUEST", `${field} takes ${takes}, not ${shown(value)}`);
}

export const anInteger =
  (min: number, max = Number.MAX_SAFE_INTEGER): Check =>
  (value) => {
    if (Number.isInteger(value) && (value as number) >= min && (value as number) <= max) return undefined;
    return max === Number.MAX_SAFE_INTEGER ? `an integer from ${min} on` : `an integer from ${min} to ${max}`;
  };

/** Milliseconds; Infinity is a wait without end. */
export const aDuration =
  (from: "zero" | "positive" = "positive"): Check =>
  (value) => {
    if (typeof value === "number" && (from === "zero" ? value >= 0 : value > 0)) return undefined;
    return from === "zero" ? "milliseconds from 0 on" : "a positive number of milliseconds";
  };

/** Such a duration as a request carries it: whole milliseconds, at most what an int32 holds (24 days). */
export const wireMs = (durationMs: number): number => Math.min(Math.ceil(durationMs), 2 ** 31 - 1);

export const oneOf =
  (...allowed: readonly unknown[]): Check =>
  (value) =>
    allowed.includes(value) ? undefined : allowed.map(shown).join(" or ");

export const aBoolean: Check = (value) => (typeof value === "boolean" ? undefined : "true or false");
export const aFunction: Check = (value) => (typeof value === "function" ? undefined : "a function");
export const aText: Check = (value) => (typeof value === "string" && value !== "" ? undefined : "a text");
export const anObject: Check = (value) =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? undefined : "an object";

export const aSignal: Check = (value) => {
  const isSignal = typeof value === "object" && value !== null && "aborted" in value && "addEventListener" in value;
  return isSignal ? undefined : "an AbortSignal";
};

export const aListOf =
  (check: Check, what: string): Check =>
  (value) => {
    const isFine = Array.isArray(value) && value.length > 0 && value.every((item) => check(item) === undefined);
    return isFine ? undefined : `a list of ${what} that is not empty`;
  };

/** Throws INVALID_REQUEST naming the field: for what is no object, for an unknown key, for a value that a key does not take. */
export function checkOptions<Options>(owner: string, options: Options, checks: Checks<Options>): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw invalid(owner, "an object of options", options);
  }
  for (const [key, value] of Object.entries(options)) {
    const check = Object.hasOwn(checks, key) ? checks[key as keyof Options] : undefined;
    if (check === undefined) throw unknownKey(owner, key, Object.keys(checks));
    // Given as undefined is as good as not given.
    const takes = value === undefined ? undefined : check(value);
    if (takes !== undefined) throw invalid(`${owner}: ${key}`, takes, value);
  }
}

function unknownKey(owner: string, key: string, known: readonly string[]): OttlaError {
  const meant = nearest(key, known);
  const hint = meant === undefined ? `it takes ${known.join(", ")}` : `did you mean ${meant}?`;
  return new OttlaError("INVALID_REQUEST", `${owner}: there is no option ${shown(key)}: ${hint}`);
}

/** The options over the defaults; what is given as undefined is as good as not given. */
export function withDefaults<Defaults extends object, Options extends object>(
  defaults: Defaults,
  options: Options,
): Options & Defaults {
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  return { ...defaults, ...given } as Options & Defaults;
}
