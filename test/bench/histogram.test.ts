// Histograms of several processes, put together, are the histogram of all: nothing is averaged.
import { describe, expect, it } from "vitest";
import { createRng } from "../../src/base/rng.ts";
import { LatencyHistogram } from "../../src/bench/histogram.ts";

function samples(seed: number, count: number): number[] {
  const rng = createRng(seed);
  return Array.from({ length: count }, () => (rng.below(1_000_000) / 1_000_000) ** 8 * 5000 + 0.05);
}

function histogramOf(latencies: readonly number[]): LatencyHistogram {
  const histogram = LatencyHistogram.empty();
  for (const latencyMs of latencies) histogram.record(latencyMs);
  return histogram;
}

describe("a latency histogram", () => {
  it("of parts that went over the wire is that of the whole, to the last count", () => {
    const parts = [1, 2, 3].map((seed) => samples(seed, 5000));
    const merged = LatencyHistogram.empty();
    for (const part of parts) merged.add(LatencyHistogram.decode(histogramOf(part).encode()));
    expect(merged.encode()).toBe(histogramOf(parts.flat()).encode());
    expect(merged.curve()).toEqual(histogramOf(parts.flat()).curve());
  });

  it("tells quantiles within a thousandth", () => {
    const all = samples(7, 20_000).sort((left, right) => left - right);
    const histogram = histogramOf(all);
    for (const quantile of [0.5, 0.9, 0.99, 0.999]) {
      const exact = all[Math.ceil(quantile * all.length) - 1] ?? 0;
      expect(Math.abs(histogram.quantileMs(quantile) - exact)).toBeLessThanOrEqual(exact * 0.001 + 0.001);
    }
    expect(histogram.maxMs()).toBeGreaterThanOrEqual((all.at(-1) ?? 0) * 0.999);
  });

  it("is empty when nothing was recorded, and after a reset", () => {
    const histogram = LatencyHistogram.empty();
    expect(histogram.summary()).toBeUndefined();
    expect(histogram.curve()).toEqual([]);
    histogram.record(3, 5);
    expect(histogram.count).toBe(5);
    histogram.reset();
    expect(histogram.summary()).toBeUndefined();
  });

  it("takes what is longer than its range as its end, and what is below 0 as 0", () => {
    const histogram = histogramOf([1e9, -5]);
    expect(histogram.maxMs()).toBeGreaterThan(3_500_000);
    expect(histogram.quantileMs(0.1)).toBeLessThanOrEqual(0.001);
  });

  it("has a curve that rises to its maximum", () => {
    const curve = histogramOf(samples(3, 10_000)).curve();
    for (const [at, [quantile, ms]] of curve.entries()) {
      const [before, msBefore] = curve[at - 1] ?? [-1, 0];
      expect(quantile).toBeGreaterThan(before);
      expect(ms).toBeGreaterThanOrEqual(msBefore);
    }
    expect(curve.at(-1)?.[0]).toBe(1);
    expect(curve.length).toBeGreaterThan(40);
  });
});
