// What a failover measurement is judged by: the limits of each kind, the load that it was to be taken under, and what clients were told.
import type { BenchRun } from "../result.ts";
import { FAILOVER_LIMITS, type Kind, returnLimitMs } from "./kinds.ts";

export interface FailoverRun {
  readonly node: number;
  readonly isController: boolean;
  /** Of the partition that waited longest, while its leader was away. */
  readonly gapMs: number;
  /** The same while the node came back, until it led again. */
  readonly returnGapMs: number;
  /** By partition. */
  readonly gaps: readonly number[];
  /** The longest gap just before, when nothing happened: what the load and the machine do by themselves. */
  readonly restGapMs: number;
  /** Records a second of the load, before. */
  readonly load: number;
}

export interface KindReport {
  readonly kind: Kind;
  readonly runs: readonly FailoverRun[];
  /** Of the runs: how many began on a machine that did not stand still by itself. */
  readonly quietRuns: number;
  readonly maxMs: number;
  readonly p90Ms: number;
  readonly medianMs: number;
  /** Of the quiet runs; null: there was none, so it is not known. */
  readonly returnMaxMs: number | null;
  readonly isWithin: boolean;
}

export interface FailoverReport {
  readonly kinds: readonly KindReport[];
  /** Kinds that could not be measured here, and why. */
  readonly notRun: Readonly<Record<string, string>>;
  readonly load: { readonly recordsPerSecond: number; readonly recordBytes: number; readonly wanted: number };
  readonly acknowledged: number;
  /** What clients were told besides acknowledgements. */
  readonly clientErrors: Readonly<Record<string, number>>;
  /** Latency over time and the like, for each kind that was measured. */
  readonly timelines: readonly BenchRun[];
}

/**
 * Where clients wait longer than this when nothing happens, the machine has other work: what takes a quarter of a second is not measured there. A stop in
 * order is then tried again, up to as often as it was to be done.
 */
export const REST_MAX_MS = 100;
export const isQuiet = ({ restGapMs }: FailoverRun): boolean => restGapMs <= REST_MAX_MS;

/** The load had this share of what it was to have. */
const LOAD_SHARE = 0.9;

export function kindReport(kind: Kind, runs: readonly FailoverRun[]): KindReport {
  const quiet = runs.filter(isQuiet);
  const counted = kind === "stop" && quiet.length > 0 ? quiet : runs;
  const sorted = counted.map(({ gapMs }) => gapMs).sort((left, right) => left - right);
  const maxMs = sorted.at(-1) ?? Infinity;
  const p90Ms = sorted[Math.ceil(sorted.length * 0.9) - 1] ?? Infinity;
  const medianMs = sorted[Math.ceil(sorted.length / 2) - 1] ?? Infinity;
  const returnMaxMs = quiet.length === 0 ? null : Math.max(...quiet.map(({ returnGapMs }) => returnGapMs));
  const limit = FAILOVER_LIMITS[kind];
  const isProven = kind !== "stop" || quiet.length > 0;
  const isWithin =
    !isProven ||
    (maxMs <= limit.maxMs && p90Ms <= (limit.p90Ms ?? Infinity) && (returnMaxMs ?? 0) <= returnLimitMs(kind));
  return { kind, runs, quietRuns: quiet.length, maxMs, p90Ms, medianMs, returnMaxMs, isWithin };
}

/** What is wrong with a report, in words. */
export function faultsOf({ kinds, load, clientErrors }: FailoverReport): string[] {
  const late = kinds
    .filter(({ isWithin, runs }) => !isWithin || runs.length === 0)
    .map(({ kind, maxMs, p90Ms, returnMaxMs }) => {
      const limit = FAILOVER_LIMITS[kind];
      const p90 = limit.p90Ms === undefined ? "" : `, p90 ${limit.p90Ms}`;
      return `${kind}: max ${maxMs} ms, p90 ${p90Ms} ms, coming back ${returnMaxMs === null ? "not known" : `${returnMaxMs} ms`}; allowed: ${limit.maxMs}${p90}, ${returnLimitMs(kind)}`;
    });
  const isLow = load.recordsPerSecond < load.wanted * LOAD_SHARE;
  const low = isLow ? [`the load was ${load.recordsPerSecond} records/s in place of ${load.wanted}`] : [];
  const told = Object.entries(clientErrors).map(([what, count]) => `clients were told ${what}, ${count} times`);
  return [...late, ...low, ...told];
}

/** What a busy machine, or one that lacks something, has kept from being measured, in words. */
export function unprovenOf({ kinds, notRun }: Pick<FailoverReport, "kinds" | "notRun">): string[] {
  if (kinds.length === 0) return [`nothing was measured: ${Object.keys(notRun).join(", ") || "no kind"} not run`];
  return kinds
    .filter(({ kind, quietRuns, runs }) => kind === "stop" && quietRuns === 0 && runs.length > 0)
    .map(({ kind, runs }) => {
      const restMs = Math.min(...runs.map(({ restGapMs }) => restGapMs));
      return `${kind}: not measured: clients waited ${restMs} ms and more when nothing happened, at most ${REST_MAX_MS} ms prove anything`;
    });
}

/** Of the kinds of two clusters. */
export function merged(reports: readonly FailoverReport[]): FailoverReport {
  const clientErrors: Record<string, number> = {};
  for (const report of reports)
    for (const [what, count] of Object.entries(report.clientErrors))
      clientErrors[what] = (clientErrors[what] ?? 0) + count;
  const measured = reports.filter(({ kinds }) => kinds.length > 0);
  const load = measured.toSorted((left, right) => left.load.recordsPerSecond - right.load.recordsPerSecond)[0]?.load;
  return {
    kinds: reports.flatMap(({ kinds }) => kinds),
    notRun: Object.assign({}, ...reports.map((report) => report.notRun)) as Record<string, string>,
    load: load ?? { recordsPerSecond: 0, recordBytes: 0, wanted: 0 },
    acknowledged: reports.reduce((sum, { acknowledged }) => sum + acknowledged, 0),
    clientErrors,
    timelines: reports.flatMap(({ timelines }) => timelines),
  };
}
