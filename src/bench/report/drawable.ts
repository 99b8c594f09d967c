// A run whose figures can be drawn. What no measurement makes - not a number, below zero, beyond any clock or counter - is left out, or is the bound.
import type { BenchRun, Latency } from "../result.ts";

/** Thirty years of milliseconds; more than any counter here holds. */
const FIGURE_MAX = 1e12;

const isFigure = (value: number | null): boolean => value === null || (value >= 0 && value <= FIGURE_MAX);
const bounded = (value: number): number => (value > 0 ? Math.min(value, FIGURE_MAX) : 0);
const knownOnly = (value: number | null): number | null => (value !== null && isFigure(value) ? value : null);

export function drawable(run: BenchRun): BenchRun {
  return {
    ...run,
    records: bounded(run.records),
    bytes: Math.max(run.bytes, 0) || 0,
    seconds: bounded(run.seconds),
    recordsPerSecond: bounded(run.recordsPerSecond),
    mbPerSecond: bounded(run.mbPerSecond),
    latencyMs: run.latencyMs !== null && isWhole(run.latencyMs) ? run.latencyMs : null,
    percentiles: run.percentiles.filter(([quantile, ms]) => quantile >= 0 && quantile <= 1 && isFigure(ms)),
    timeline: run.timeline
      .filter(({ atMs, records }) => Math.abs(atMs) <= FIGURE_MAX && isFigure(records))
      .map((entry) => ({
        ...entry,
        p50Ms: knownOnly(entry.p50Ms),
        p99Ms: knownOnly(entry.p99Ms),
        maxMs: knownOnly(entry.maxMs),
      })),
    faults: run.faults
      .filter(({ atMs, untilMs }) => Math.abs(atMs) <= FIGURE_MAX && Math.abs(untilMs) <= FIGURE_MAX)
      .map((span) => ({
        ...span,
        untilMs: Math.max(span.untilMs, span.atMs),
        gapMs: knownOnly(span.gapMs),
        allowedGapMs: knownOnly(span.allowedGapMs),
      })),
    processes: run.processes.filter(
      ({ atMs, rssBytes, openFiles }) => isFigure(atMs) && rssBytes >= 0 && rssBytes < 1e18 && isFigure(openFiles),
    ),
  };
}

const isWhole = ({ p50, p90, p99, p999, max }: Latency): boolean => [p50, p90, p99, p999, max].every(isFigure);
