// Latencies and records of one kind of failover over time, in windows by when a record was acknowledged, and the faults as spans of that time.
import { LatencyHistogram } from "../histogram.ts";
import type { FaultSpan, TimelineEntry } from "../result.ts";

const WINDOW_MS = 250;

interface Window {
  /** Milliseconds; as many as probes send in a window. */
  readonly latencies: number[];
  records: number;
}

export class FailoverTimeline {
  readonly fromMs: number;
  readonly latencies = LatencyHistogram.empty();
  readonly faults: FaultSpan[] = [];
  readonly #windows: Window[] = [];
  records = 0;

  constructor(fromMs: number) {
    this.fromMs = fromMs;
  }

  timed(dueMs: number, atMs: number): void {
    const window = this.#at(atMs);
    if (window === undefined) return;
    window.latencies.push(atMs - dueMs);
    this.latencies.record(atMs - dueMs);
  }

  counted(atMs: number, records: number): void {
    const window = this.#at(atMs);
    if (window === undefined) return;
    window.records += records;
    this.records += records;
  }

  /** Undefined: it was before the start. */
  #at(atMs: number): Window | undefined {
    const index = Math.floor((atMs - this.fromMs) / WINDOW_MS);
    if (index < 0) return undefined;
    while (this.#windows.length <= index) this.#windows.push({ latencies: [], records: 0 });
    return this.#windows[index];
  }

  entries(): TimelineEntry[] {
    return this.#windows.map(({ latencies, records }, index) => {
      const sorted = latencies.toSorted((left, right) => left - right);
      const at = (quantile: number): number | null => rounded(sorted[Math.ceil(sorted.length * quantile) - 1]);
      return { atMs: index * WINDOW_MS, records, p50Ms: at(0.5), p99Ms: at(0.99), maxMs: at(1) };
    });
  }
}

const rounded = (ms: number | undefined): number | null => (ms === undefined ? null : Math.round(ms * 1_000) / 1_000);
