// Results to draw, made up.
import type { BenchResult, BenchRun, FaultSpan, RunLabels, TimelineEntry } from "../../../src/bench/result.ts";

export const labelsOf = (labels: Partial<RunLabels> = {}): RunLabels => ({
  verb: "produce",
  mode: "open",
  acks: "all",
  recordBytes: 1024,
  batchBytes: 65_536,
  partitions: 6,
  connections: 4,
  ...labels,
});

const curve = (p50: number): [number, number][] =>
  Array.from({ length: 40 }, (_, index): [number, number] => [1 - 10 ** (-index / 8), p50 * (0.6 + index / 8)]);

const timelineOf = (p50: number): TimelineEntry[] =>
  Array.from({ length: 30 }, (_, second) => ({
    atMs: second * 1_000,
    records: 20_000 + (second % 7) * 300,
    p50Ms: p50,
    p99Ms: p50 * (2 + (second % 3)),
    maxMs: p50 * (5 + (second % 5)),
  }));

export const fault = (label: string, atMs: number, untilMs: number, gapMs: number | null = null): FaultSpan => ({
  label,
  atMs,
  untilMs,
  gapMs,
  allowedGapMs: gapMs === null ? null : 2_500,
});

export function runOf(over: Partial<BenchRun> = {}, p50 = 4): BenchRun {
  const records = 600_000;
  return {
    name: "a run",
    labels: labelsOf(),
    records,
    bytes: records * 1024,
    seconds: 30,
    recordsPerSecond: records / 30,
    mbPerSecond: 20.5,
    latencyOf: "from when a record was due until its acknowledgement",
    latencyMs: { p50, p90: p50 * 1.5, p99: p50 * 2, p999: p50 * 4, max: p50 * 9, histogram: "" },
    percentiles: curve(p50),
    timeline: timelineOf(p50),
    faults: [],
    errors: {},
    cpuSecondsPerGB: { client: 4.25, brokers: 11.5 },
    diskBytesPerByte: 6.2,
    ratio: { toRawDisk: 0.11, toRawSocket: 0.014 },
    driverLateMs: { p50: 0.1, p99: 0.9, max: 4 },
    processes: [],
    remarks: [],
    ...over,
  };
}

export function resultOf(runs: readonly BenchRun[], over: Partial<BenchResult> = {}): BenchResult {
  return {
    version: 1,
    machine: { cpu: "A processor", cores: 2, memoryBytes: 2 ** 34, kernel: "6.1.0", node: "v20.19.0", ottla: "0.1.0" },
    commit: "0123456789ab",
    startedAt: "2026-03-01T10:00:00.000Z",
    command: "ottla bench produce",
    isComplete: true,
    cluster: { brokers: 3, isOwn: true },
    limits: { rawDiskMBs: 190, rawSocketMBs: 1_450 },
    runs,
    ...over,
  };
}

export const acksRuns = (recordBytes = 1024): BenchRun[] =>
  ["0", "1", "all"].map((acks, index) =>
    runOf(
      { name: `acks=${acks} ${recordBytes}`, labels: labelsOf({ acks, recordBytes }), mbPerSecond: 60 - index * 15 },
      1 + index * 2,
    ),
  );

export const sweepRuns = (): BenchRun[] =>
  [1, 10, 100, 1_000].flatMap((partitions) =>
    ["1", "all"].map((acks) =>
      runOf({ name: `${acks} ${partitions}`, labels: labelsOf({ acks, partitions }) }, 2 + partitions / 100),
    ),
  );

export const failoverRuns = (times = 3): BenchRun[] =>
  ["leader killed", "leader paused"].map((words, index) =>
    runOf({
      name: words,
      labels: labelsOf({ verb: "failover", fault: words }),
      faults: Array.from({ length: times }, (_, time) =>
        fault(`${words} ${time}`, time * 1_000, time * 1_000 + 400, 300 + index * 500 + time),
      ),
    }),
  );

export const soakRun = (): BenchRun =>
  runOf({
    name: "soak",
    labels: labelsOf({ verb: "soak" }),
    processes: Array.from({ length: 30 }, (_, index) => ({
      atMs: Math.floor(index / 3) * 60_000,
      process: `node ${(index % 3) + 1}`,
      rssBytes: (200 + index) * 2 ** 20,
      openFiles: 60 + index,
    })),
  });

/** Nothing but what a run must have. */
export const bareRun = (): BenchRun =>
  runOf({
    name: "bare",
    labels: labelsOf({ acks: null, recordBytes: null, batchBytes: null, partitions: null, connections: null }),
    records: 0,
    bytes: 0,
    seconds: 0,
    recordsPerSecond: 0,
    mbPerSecond: 0,
    latencyMs: null,
    percentiles: [],
    timeline: [],
    cpuSecondsPerGB: { client: null, brokers: null },
    diskBytesPerByte: null,
    ratio: { toRawDisk: null, toRawSocket: null },
    driverLateMs: null,
  });

export const SAMPLES: Readonly<Record<string, readonly BenchResult[]>> = {
  "no result": [],
  "no runs": [resultOf([])],
  "a bare run": [resultOf([bareRun()], { limits: { rawDiskMBs: null, rawSocketMBs: null } })],
  "one run": [
    resultOf([runOf({ faults: [fault("leader killed", 5_000, 9_000, 812)], errors: { REQUEST_TIMED_OUT: 3 } })]),
  ],
  "acks levels": [resultOf([...acksRuns(100), ...acksRuns(1_024)])],
  "a sweep": [resultOf(sweepRuns())],
  failover: [resultOf(failoverRuns())],
  "many faults": [resultOf(failoverRuns(60))],
  soak: [resultOf([soakRun()])],
  "two commits": [resultOf(acksRuns()), resultOf(acksRuns(), { commit: "ba9876543210", isComplete: false })],
};
