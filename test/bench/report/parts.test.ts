// The parts of the report that work on figures: windows of time put together, labels that tell runs apart, sweeps found, numbers in words.
import { describe, expect, it } from "vitest";
import { planBands } from "../../../src/bench/report/fault-bands.ts";
import { labelWords, splitLabels, titlesOf } from "../../../src/bench/report/run-labels.ts";
import { linearScale } from "../../../src/bench/report/scale.ts";
import { sweepsOf } from "../../../src/bench/report/sweeps.ts";
import { timelineOf } from "../../../src/bench/report/timeline.ts";
import { digits, duration, percentileName, rate, short, size } from "../../../src/bench/report/units.ts";
import { acksRuns, fault, labelsOf, runOf, sweepRuns } from "./samples.ts";

const entry = (atMs: number, ms: number | null, records = 10) => ({ atMs, records, p50Ms: ms, p99Ms: ms, maxMs: ms });

describe("windows of time", () => {
  it("are put together where there are too many, the worst of them kept and all records counted", () => {
    const run = runOf({ timeline: [0, 1, 2, 3].map((index) => entry(index * 1_000, [5, 9, 2, 4][index] ?? 0)) });
    const windows = timelineOf(run, 2)?.windows ?? [];
    expect(windows.map(({ fromMs, untilMs, records, p99Ms }) => [fromMs, untilMs, records, p99Ms])).toEqual([
      [0, 2_000, 20, 9],
      [2_000, 4_000, 20, 4],
    ]);
  });

  it("are there, empty, where the run has none or knows of nothing: a pause is seen", () => {
    const run = runOf({ timeline: [entry(0, 5), entry(1_000, 5), entry(4_000, 6), entry(5_000, null, 0)] });
    const windows = timelineOf(run, 100)?.windows ?? [];
    expect(windows.map(({ records }) => records)).toEqual([10, 10, 0, 0, 10, 0]);
    expect(windows.map(({ p50Ms }) => p50Ms)).toEqual([5, 5, undefined, undefined, 6, undefined]);
  });

  it("reach as far as the last fault", () => {
    const run = runOf({ timeline: [entry(0, 5), entry(1_000, 5)], faults: [fault("killed", 500, 9_500)] });
    expect(timelineOf(run, 100)?.untilMs).toBe(10_000);
    expect(timelineOf(runOf({ timeline: [] }), 100)).toBeUndefined();
  });
});

describe("labels of faults", () => {
  const scale = linearScale({ min: 0, max: 10_000 }, { fromAt: 0, toAt: 900, stepsMax: 10, isRounded: false });
  const faults = (count: number, label: string) =>
    Array.from({ length: count }, (_, index) =>
      fault(`${label} ${index}`, (index * 10_000) / count, (index * 10_000) / count + 50),
    );

  it("stand in rows that do not touch, as words where all of them fit, else as numbers", () => {
    const few = planBands(faults(8, "leader killed, node"), scale, true);
    expect(few.labels.map((label) => label?.text)).toEqual(faults(8, "leader killed, node").map(({ label }) => label));
    expect(few.rows).toBeGreaterThan(1);
    const many = planBands(faults(60, "leader killed, node"), scale, true);
    expect(many.labels.map((label) => label?.text)).toEqual(
      Array.from({ length: 60 }, (_, index) => String(index + 1)),
    );
    for (const { labels } of [few, many])
      for (const [index, label] of labels.entries())
        for (const other of labels.slice(index + 1))
          if (label !== undefined && other !== undefined && label.row === other.row)
            expect(other.x - label.x).toBeGreaterThan(((label.text.length + other.text.length) / 2) * 6);
  });
});

describe("labels of runs", () => {
  it("are said once where they are common, and make titles where they differ", () => {
    const runs = acksRuns();
    const { common, varying } = splitLabels(runs);
    expect(common).toEqual([
      "produce",
      "1 KiB records",
      "64 KiB batches",
      "6 partitions",
      "4 connections",
      "open loop",
    ]);
    expect(varying).toEqual(["acks"]);
    expect(titlesOf(runs, varying)).toEqual(["acks=0", "acks=1", "acks=all"]);
  });

  it("give way to names where they tell nothing, and twins are numbered", () => {
    const twins = [runOf({ name: "a" }), runOf({ name: "a" }), runOf({ name: "b" })];
    expect(titlesOf(twins, splitLabels(twins).varying)).toEqual(["a", "a (2)", "b"]);
  });

  it.each([
    ["partitions", 1, "1 partition"],
    ["partitions", 1_000, "1\u202f000 partitions"],
    ["recordBytes", 100, "100 B records"],
    ["lingerMs", 5, "linger 5 ms"],
    ["fillBytes", 2 ** 20, "fill 1 MiB"],
    ["maxInFlight", 5, "max in flight 5"],
    ["fault", "leader killed", "leader killed"],
  ])("%s %s: %s", (name, value, words) => {
    expect(labelWords(name, value)).toBe(words);
  });
});

describe("sweeps", () => {
  it("are runs that differ in one number at three values or more, a series for each acks level", () => {
    const [sweep, ...more] = sweepsOf(sweepRuns());
    expect(more).toEqual([]);
    expect(sweep).toMatchObject({ label: "partitions", title: "by partitions" });
    expect(sweep?.series.map(({ title, points }) => [title, points.map(({ value }) => value)])).toEqual([
      ["acks=1", [1, 10, 100, 1_000]],
      ["acks=all", [1, 10, 100, 1_000]],
    ]);
    expect(sweepsOf(sweepRuns().slice(0, 4))).toEqual([]);
  });

  it("say what else differs, and take the median of a value that was measured more than once", () => {
    const grid = [100, 1_000].flatMap((recordBytes) =>
      [1, 2, 3].flatMap((partitions) =>
        [5, 9, 7].map((mbPerSecond) => runOf({ labels: labelsOf({ recordBytes, partitions }), mbPerSecond })),
      ),
    );
    const sweeps = sweepsOf(grid);
    expect(sweeps.map(({ title }) => title)).toEqual([
      "by partitions · 100 B records",
      "by partitions · 1\u202f000 B records",
    ]);
    expect(sweeps[0]?.series[0]?.points.map(({ run }) => run.mbPerSecond)).toEqual([7, 7, 7]);
  });
});

it("numbers have three digits that count, and the unit that fits", () => {
  expect([0, 0.01234, 1, 1.005, 12.34, 999.6, 12_345].map(digits)).toEqual([
    "0",
    "0.0123",
    "1",
    "1",
    "12.3",
    "1\u202f000",
    "12\u202f345",
  ]);
  expect([0, 0.0004, 0.5, 12.345, 1_234, 60_000, 300_000, Number.NaN].map(duration)).toEqual([
    ...["0 ms", "0.4 µs", "500 µs", "12.3 ms", "1.23 s", "60 s", "5 min", "–"],
  ]);
  expect([100, 1_024, 65_536, 2 ** 30].map(size)).toEqual(["100 B", "1 KiB", "64 KiB", "1 GiB"]);
  expect([9_999, 12_300, 1.5e6].map(short)).toEqual(["9\u202f999", "12.3 k", "1.5 M"]);
  expect(rate(20_000)).toBe("20 k/s");
  expect([0.5, 0.999, 0.99999, 1].map(percentileName)).toEqual(["50 %", "99.9 %", "99.999 %", "max"]);
});
