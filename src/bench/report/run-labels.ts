// What tells runs apart, in words: what all have in common is said once, what differs is the title of a run.
import type { BenchRun } from "../result.ts";
import { duration, grouped, size } from "./units.ts";

type Value = string | number | null;

/** What people look for first comes first; labels that are not listed follow in the order of their names. */
const ORDER = ["verb", "acks", "recordBytes", "batchBytes", "partitions", "connections", "mode"];

const several = (count: Value, one: string): string =>
  `${typeof count === "number" ? grouped(count) : String(count)} ${one}${count === 1 ? "" : "s"}`;

const WORDS: Readonly<Record<string, (value: Value) => string>> = {
  verb: String,
  fault: String,
  acks: (value) => `acks=${value}`,
  recordBytes: (value) => `${sizeOf(value)} records`,
  batchBytes: (value) => `${sizeOf(value)} batches`,
  partitions: (value) => several(value, "partition"),
  connections: (value) => several(value, "connection"),
  mode: (value) => `${value} loop`,
};

const sizeOf = (value: Value): string => (typeof value === "number" ? size(value) : String(value));

/** maxInFlight -> max in flight. */
export const spelled = (name: string): string =>
  name.replace(/([a-z0-9])([A-Z])/g, (_, before: string, after: string) => `${before} ${after.toLowerCase()}`);

const HEADS: Readonly<Record<string, string>> = { recordBytes: "record size", batchBytes: "batch size", mode: "loop" };

export const labelHead = (name: string): string => HEADS[name] ?? spelled(name);

/** Of a cell of a table, where its head says what it is. */
export function labelCell(name: string, value: Value | undefined): string {
  if (value === null || value === undefined) return "–";
  if (name === "recordBytes" || name === "batchBytes") return sizeOf(value);
  return typeof value === "number" ? grouped(value) : value;
}

export function labelWords(name: string, value: Value): string {
  const own = WORDS[name];
  if (own !== undefined) return own(value);
  const unit = UNITS.find(({ suffix }) => name.endsWith(suffix) && name.length > suffix.length);
  if (unit !== undefined && typeof value === "number")
    return `${spelled(name.slice(0, -unit.suffix.length))} ${unit.of(value)}`;
  return `${spelled(name)} ${typeof value === "number" ? grouped(value) : value}`;
}

/** Units are last in the names of labels. */
const UNITS = [
  { suffix: "Ms", of: duration },
  { suffix: "Bytes", of: size },
] as const;

export interface LabelSplit {
  /** Of every run, in words. */
  readonly common: readonly string[];
  /** Names of those that differ, or that only some have. */
  readonly varying: readonly string[];
}

export function splitLabels(runs: readonly BenchRun[]): LabelSplit {
  const names = orderedNames(runs);
  const isCommon = (name: string): boolean => runs.every(({ labels }) => labels[name] === runs[0]?.labels[name]);
  const common = names.filter(isCommon).flatMap((name) => {
    const value = runs[0]?.labels[name];
    return value === undefined || value === null ? [] : [labelWords(name, value)];
  });
  return { common, varying: names.filter((name) => !isCommon(name)) };
}

export function orderedNames(runs: readonly BenchRun[]): string[] {
  const names = [...new Set(runs.flatMap(({ labels }) => Object.keys(labels)))];
  const rank = (name: string): number => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
  return names.toSorted((left, right) => rank(left) - rank(right) || (left < right ? -1 : 1));
}

/** In the order of the runs, all different. */
export function titlesOf(runs: readonly BenchRun[], varying: readonly string[]): string[] {
  const titles = runs.map(({ labels, name }) => {
    const parts = varying.flatMap((label) => {
      const value = labels[label];
      return value === undefined || value === null ? [] : [labelWords(label, value)];
    });
    return parts.length === 0 ? name : parts.join(" · ");
  });
  if (new Set(titles).size === titles.length) return titles;
  return numbered(runs.map(({ name }) => name));
}

function numbered(names: readonly string[]): string[] {
  const seen = new Map<string, number>();
  return names.map((name) => {
    const count = (seen.get(name) ?? 0) + 1;
    seen.set(name, count);
    return count === 1 ? name : `${name} (${count})`;
  });
}

/** Labels of a run but these, as one key. */
export function keyWithout(run: BenchRun, left: readonly string[]): string {
  const kept = Object.entries(run.labels).filter(([name]) => !left.includes(name));
  return JSON.stringify(kept.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
