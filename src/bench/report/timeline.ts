// The timeline of a run in as many windows as a chart can show. Where windows are put together the worst is kept, never an average of percentiles.
import type { BenchRun, TimelineEntry } from "../result.ts";

export interface Window {
  readonly fromMs: number;
  readonly untilMs: number;
  readonly records: number;
  /** undefined: nothing came. */
  readonly p50Ms: number | undefined;
  readonly p99Ms: number | undefined;
  readonly maxMs: number | undefined;
}

export interface Timeline {
  readonly windows: readonly Window[];
  readonly windowMs: number;
  readonly untilMs: number;
}

/** Of a single window whose run says no length. */
const FALLBACK_MS = 1_000;
const WINDOW_MIN_MS = 1;

/** undefined: there is nothing to draw. Windows that are missing in the run are there, empty: a pause is to be seen. */
export function timelineOf(run: BenchRun, windowsMax: number): Timeline | undefined {
  const entries = run.timeline.filter(({ atMs }) => Number.isFinite(atMs)).toSorted((a, b) => a.atMs - b.atMs);
  const first = entries[0];
  const last = entries.at(-1);
  if (first === undefined || last === undefined) return undefined;
  const ownMs = Math.max(
    commonStep(entries.map(({ atMs }) => atMs)) ?? (run.seconds * 1_000 || FALLBACK_MS),
    WINDOW_MIN_MS,
  );
  const fromMs = Math.min(first.atMs, 0);
  const untilMs = Math.max(last.atMs + ownMs, ...run.faults.map((fault) => fault.untilMs).filter(Number.isFinite));
  const windowMs = ownMs * Math.ceil((untilMs - fromMs) / ownMs / windowsMax);
  const count = Math.max(Math.ceil((untilMs - fromMs) / windowMs - 1e-6), 1);
  const gathered: TimelineEntry[][] = Array.from({ length: count }, () => []);
  for (const entry of entries) gathered[Math.min(Math.floor((entry.atMs - fromMs) / windowMs), count - 1)]?.push(entry);
  const windows = gathered.map((inside, index) => windowOf(inside, fromMs + index * windowMs, windowMs));
  return { windows, windowMs, untilMs: fromMs + count * windowMs };
}

function windowOf(inside: readonly TimelineEntry[], fromMs: number, windowMs: number): Window {
  return {
    fromMs,
    untilMs: fromMs + windowMs,
    records: inside.reduce((sum, { records }) => sum + records, 0),
    p50Ms: worst(inside.map(({ p50Ms }) => p50Ms)),
    p99Ms: worst(inside.map(({ p99Ms }) => p99Ms)),
    maxMs: worst(inside.map(({ maxMs }) => maxMs)),
  };
}

function worst(values: readonly (number | null)[]): number | undefined {
  const known = values.filter((value): value is number => value !== null && Number.isFinite(value));
  return known.length === 0 ? undefined : Math.max(...known);
}

/** The median time from one entry to the next. */
function commonStep(times: readonly number[]): number | undefined {
  const steps = times
    .slice(1)
    .map((time, index) => time - (times[index] ?? 0))
    .filter((step) => step > 0)
    .toSorted((a, b) => a - b);
  return steps[Math.floor(steps.length / 2)];
}
