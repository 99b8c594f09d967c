// What a benchmark found out, as `--out FILE.json` keeps it and the report draws it. null: not known, or does not apply.

/** Raised when a field is taken away or means something else. */
export const RESULT_VERSION = 1;

export interface BenchResult {
  readonly version: typeof RESULT_VERSION;
  readonly machine: Machine;
  /** Of Ottla; "unknown" outside a working copy. */
  readonly commit: string;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** The command line to run it again. */
  readonly command: string;
  /** False: it was ended early, by a signal or a failure, and holds what was measured so far. */
  readonly isComplete: boolean;
  readonly cluster: ClusterFacts;
  readonly limits: Limits;
  readonly runs: readonly BenchRun[];
}

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly kernel: string;
  readonly node: string;
  readonly ottla: string;
}

export interface ClusterFacts {
  readonly brokers: number;
  /** Started by the benchmark itself, with empty directories, on this machine. */
  readonly isOwn: boolean;
}

/** What the machine does without Ottla, measured in the same run; MB = 10^6 bytes. */
export interface Limits {
  /** write() of 64 KiB to a new file, nothing synced. */
  readonly rawDiskMBs: number | null;
  /** One TCP connection over the loopback between two processes, writes of 64 KiB. */
  readonly rawSocketMBs: number | null;
}

export type LoadMode = "open" | "closed";

/** What tells this run from the others of a sweep. Further labels are shown as they are. */
export interface RunLabels {
  readonly verb: string;
  /** "open": by a schedule; "closed": the next when the ones before made room. */
  readonly mode: LoadMode;
  /** "0", "1" or "all". */
  readonly acks: string | null;
  readonly recordBytes: number | null;
  readonly batchBytes: number | null;
  readonly partitions: number | null;
  readonly connections: number | null;
  readonly [label: string]: string | number | null;
}

export interface BenchRun {
  /** Unique among the runs of a result. */
  readonly name: string;
  readonly labels: RunLabels;
  /** Acknowledged (produce) or received (consume, e2e) in the measured time, without the warm-up. */
  readonly records: number;
  /** Of their values. */
  readonly bytes: number;
  readonly seconds: number;
  readonly recordsPerSecond: number;
  readonly mbPerSecond: number;
  /** In words: from when to when a latency counts. */
  readonly latencyOf: string;
  /** null: nothing was timed. */
  readonly latencyMs: Latency | null;
  /** Quantile (0 to 1) and its latency in ms, ascending: the curve of the histogram. */
  readonly percentiles: readonly (readonly [quantile: number, ms: number])[];
  readonly timeline: readonly TimelineEntry[];
  readonly faults: readonly FaultSpan[];
  /** Records that failed, by error code. */
  readonly errors: Readonly<Record<string, number>>;
  /** Processor seconds per 10^9 acknowledged bytes of values, on all processes together. */
  readonly cpuSecondsPerGB: { readonly client: number | null; readonly brokers: number | null };
  /** Bytes that the brokers gave to their disks per acknowledged byte of values, all replicas together. */
  readonly diskBytesPerByte: number | null;
  /** The run's MB/s over `limits`. */
  readonly ratio: { readonly toRawDisk: number | null; readonly toRawSocket: number | null };
  /** How late the load itself was against its schedule (open loop): part of the latencies. */
  readonly driverLateMs: { readonly p50: number; readonly p99: number; readonly max: number } | null;
  /** Memory and descriptors of processes over time; empty unless it was asked for. */
  readonly processes: readonly ProcessSample[];
  /** What is to be said of this run beside its figures. */
  readonly remarks: readonly string[];
}

export interface Latency {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
  /** HdrHistogram V2 compressed, base64; values in microseconds, three significant digits. */
  readonly histogram: string;
}

/** One window of time, by when a record was acknowledged or received. */
export interface TimelineEntry {
  /** Its start, from the start of the measured time. */
  readonly atMs: number;
  readonly records: number;
  /** null: nothing came in this window. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  readonly maxMs: number | null;
}

/** Time that a fault was on, from the start of the measured time. */
export interface FaultSpan {
  readonly atMs: number;
  readonly untilMs: number;
  readonly label: string;
  /** The longest time between two acknowledgements of the partition that waited longest, within the fault. null: not measured. */
  readonly gapMs: number | null;
  readonly allowedGapMs: number | null;
}

export interface ProcessSample {
  readonly atMs: number;
  /** Such as "node 1". */
  readonly process: string;
  readonly rssBytes: number;
  readonly openFiles: number;
}
