// Reading of flag values: integers, sizes (64MiB), durations (5s), addresses, key=value pairs; and the nearest known word to a wrong one.

import { SIZE_UNITS, TIME_UNITS, unitsValue } from "../model/config-values.ts";

/** A flag, argument or value that cannot be used: exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly hint: string;

  constructor(message: string, hint = "") {
    super(message);
    this.hint = hint;
  }
}

export function parseInteger(
  text: string,
  what: string,
  range: { readonly min: number; readonly max?: number },
): number {
  const max = range.max ?? Number.MAX_SAFE_INTEGER;
  const value = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(value) && value >= range.min && value <= max) return value;
  const upTo = range.max === undefined ? `${range.min} or more` : `${range.min} to ${range.max}`;
  throw new UsageError(`${what} takes an integer, ${upTo}, not "${text}"`);
}

export function parseSize(text: string, what: string): number {
  const value = unitsValue(SIZE_UNITS, text);
  if (value === undefined || value > Number.MAX_SAFE_INTEGER)
    throw new UsageError(`${what} takes a size such as 65536, 64KiB or 1MB, not "${text}"`);
  return value;
}

/** Milliseconds; a bare number is in `bareUnit`. */
export function parseDuration(text: string, what: string, bareUnit: "ms" | "s" = "ms"): number {
  const value = unitsValue({ ...TIME_UNITS, "": TIME_UNITS[bareUnit] ?? 1 }, text);
  if (value === undefined) throw new UsageError(`${what} takes a duration such as 500ms, 10s or 1h, not "${text}"`);
  return value;
}

/** The longest that Node waits, 24 days; it takes a longer time for 1 ms. */
const WAIT_MS_MAX = 2 ** 31 - 1;

/** How long something is waited for, as milliseconds, a millisecond at least; a bare number is seconds. */
export function parseWait(text: string, what: string): number {
  const value = parseDuration(text, what, "s");
  if (value < 1) throw new UsageError(`${what} takes a duration of 1ms or more, not "${text}"`);
  return Math.min(value, WAIT_MS_MAX);
}

const DEFAULT_PORT = 7070;

/** "a:1,ws://b:2,c" as host:port texts. */
export function parseBootstrap(text: string): string[] {
  const addresses = text
    .split(",")
    .map((part) => part.trim().replace(/^ws:\/\//, ""))
    .filter((part) => part !== "")
    .map((part) => (/^(\[[^\]]*\]|[^\s/:[\]]+)$/.test(part) ? `${part}:${DEFAULT_PORT}` : part));
  for (const address of addresses) checkAddress(address, text);
  if (addresses.length === 0) throw new UsageError("--bootstrap takes host[:port][,host[:port]...], not an empty text");
  return addresses;
}

function checkAddress(address: string, whole: string): void {
  const match = /^(?:\[[0-9A-Fa-f:.]+\]|[^\s/:[\]]+):(\d{1,5})$/.exec(address);
  const port = Number(match?.[1] ?? -1);
  if (port < 1 || port > 65_535) throw new UsageError(`--bootstrap takes host[:port][,host[:port]...], not "${whole}"`);
}

/** "key=value"; the value may hold further "=". */
export function parsePair(text: string, what: string): readonly [key: string, value: string] {
  const at = text.indexOf("=");
  if (at <= 0) throw new UsageError(`${what} takes key=value, not "${text}"`);
  return [text.slice(0, at), text.slice(at + 1)];
}

/** "0,2,5-7" as numbers, sorted, each once. */
export function parsePartitions(text: string, what = "-P"): number[] {
  const found = new Set<number>();
  for (const part of text.split(",")) {
    const match = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part.trim());
    const first = Number(match?.[1] ?? Number.NaN);
    const last = Number(match?.[2] ?? match?.[1] ?? Number.NaN);
    if (!(first <= last) || last - first > 100_000) {
      throw new UsageError(`${what} takes partitions such as 0,2 or 0-3, not "${text}"`);
    }
    for (let partition = first; partition <= last; partition++) found.add(partition);
  }
  return [...found].sort((left, right) => left - right);
}

export function humanBytes(count: number): string {
  if (count < 1000) return `${count} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let value = count / 1000;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${units[unit]}`;
}

/** "1 record", "2 records", "2 batches". */
export const counted = (count: number, what: string, plural = `${what}s`) => `${count} ${count === 1 ? what : plural}`;
