// One kind of failover as a run of a benchmark: its latencies over time, each time that a leader went as a fault.
import type { BenchRun } from "../result.ts";
import { type FailoverRun, kindReport } from "./judge.ts";
import { type Kind, KIND_WORDS, returnLimitMs } from "./kinds.ts";
import type { FailoverTimeline } from "./timeline.ts";

const LATENCY_OF =
  "a small record that a client of its own sends to each partition every 20 ms by a schedule, acks=all: from when it was due until it was acknowledged. Records and throughput are those of the load beside it";

export interface KindMeasured {
  readonly kind: Kind;
  readonly runs: readonly FailoverRun[];
  readonly timeline: FailoverTimeline;
  readonly seconds: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly recordBytes: number;
  readonly partitions: number;
}

export function benchRunOf(measured: KindMeasured): BenchRun {
  const { kind, runs, timeline, seconds, errors, recordBytes, partitions } = measured;
  const { records, latencies } = timeline;
  const perSecond = seconds > 0 ? records / seconds : 0;
  return {
    name: kind,
    labels: {
      verb: "failover",
      mode: "open",
      acks: "all",
      recordBytes,
      batchBytes: null,
      partitions,
      connections: null,
      fault: KIND_WORDS[kind],
    },
    records,
    bytes: records * recordBytes,
    seconds,
    recordsPerSecond: perSecond,
    mbPerSecond: (perSecond * recordBytes) / 1e6,
    latencyOf: LATENCY_OF,
    latencyMs: latencies.summary() ?? null,
    percentiles: latencies.curve(),
    timeline: timeline.entries(),
    faults: timeline.faults,
    errors,
    cpuSecondsPerGB: { client: null, brokers: null },
    diskBytesPerByte: null,
    ratio: { toRawDisk: null, toRawSocket: null },
    driverLateMs: null,
    processes: [],
    remarks: runs.length === 0 ? [] : [remarkOf(kind, runs)],
  };
}

function remarkOf(kind: Kind, runs: readonly FailoverRun[]): string {
  const { returnMaxMs, quietRuns } = kindReport(kind, runs);
  const restMs = runs.map(({ restGapMs }) => restGapMs).toSorted((left, right) => left - right);
  const rest = `clients waited at most ${restMs[0] ?? 0} to ${restMs.at(-1) ?? 0} ms when nothing happened`;
  if (quietRuns === 0)
    return `the machine was never quiet: ${rest}; what was waited for while the node came back does not count`;
  return `while the node came back at most ${returnMaxMs} ms, allowed ${returnLimitMs(kind)} (of the ${quietRuns} of ${runs.length} times that began on a quiet machine); ${rest}`;
}
