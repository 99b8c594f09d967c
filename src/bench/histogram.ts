// Latencies in an HDR histogram. All have the same bounds and precision, so that adding one to another loses nothing.
import { build, decodeFromCompressedBase64, encodeIntoCompressedBase64, type Histogram } from "hdr-histogram-js";
import type { Latency } from "./result.ts";

/** Values are microseconds. */
const PER_MS = 1000;
/** What takes longer counts as an hour. */
const HIGHEST = 3600 * 1000 * PER_MS;
const DIGITS = 3;
/** Counts are doubles: exact up to 2^53. */
const WORD_BITS = 64;
/** Points of the curve per halving of what is above: enough for a smooth line. */
const TICKS_PER_HALF = 5;

export class LatencyHistogram {
  readonly #counts: Histogram;

  private constructor(counts: Histogram) {
    this.#counts = counts;
  }

  static empty(): LatencyHistogram {
    const range = { lowestDiscernibleValue: 1, highestTrackableValue: HIGHEST };
    const precision = { numberOfSignificantValueDigits: DIGITS, bitBucketSize: WORD_BITS } as const;
    return new LatencyHistogram(build({ ...range, ...precision, autoResize: false }));
  }

  static decode(text: string): LatencyHistogram {
    return new LatencyHistogram(decodeFromCompressedBase64(text, WORD_BITS));
  }

  get count(): number {
    return this.#counts.totalCount;
  }

  record(latencyMs: number, count = 1): void {
    this.#counts.recordValueWithCount(toUnit(latencyMs), count);
  }

  /** Adds what would have been measured every `intervalMs` while this one was waited for. */
  recordCorrected(latencyMs: number, count: number, intervalMs: number): void {
    this.record(latencyMs, count);
    for (let missedMs = latencyMs - intervalMs; missedMs >= intervalMs; missedMs -= intervalMs)
      this.record(missedMs, count);
  }

  add(other: LatencyHistogram): void {
    this.#counts.add(other.#counts);
  }

  reset(): void {
    this.#counts.reset();
  }

  encode(): string {
    return encodeIntoCompressedBase64(this.#counts);
  }

  /** Of an empty one: 0. */
  quantileMs(quantile: number): number {
    return this.#counts.totalCount === 0 ? 0 : this.#counts.getValueAtPercentile(quantile * 100) / PER_MS;
  }

  /** As every quantile within a thousandth, the same before and after it was encoded. */
  maxMs(): number {
    return this.quantileMs(1);
  }

  /** Undefined when nothing was recorded. */
  summary(): Latency | undefined {
    if (this.count === 0) return undefined;
    const [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map((quantile) => this.quantileMs(quantile)) as Four;
    return { p50, p90, p99, p999, max: this.maxMs(), histogram: this.encode() };
  }

  /** Quantiles that come closer to 1 as far as there are records to tell, the last one 1 itself. */
  curve(): [quantile: number, ms: number][] {
    if (this.count === 0) return [];
    const points: [number, number][] = [];
    for (let above = 1; above > 1 / this.count; above /= 2) {
      for (let tick = 0; tick < TICKS_PER_HALF; tick++) {
        const quantile = 1 - above + (above / 2) * (tick / TICKS_PER_HALF);
        points.push([round(quantile), this.quantileMs(quantile)]);
      }
    }
    points.push([1, this.maxMs()]);
    return points;
  }
}

type Four = [number, number, number, number];

const toUnit = (ms: number) => Math.min(HIGHEST, Math.max(0, Math.round(ms * PER_MS)));
const round = (quantile: number) => Math.round(quantile * 1e9) / 1e9;
