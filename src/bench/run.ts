// One run: a fresh topic, load processes, what the brokers used meanwhile, and the figures of all that.
import { runFleet } from "./load/fleet.ts";
import type { LoadPlan } from "./load/types.ts";
import type { Outcome } from "./load/tally.ts";
import { type Loss, lossWords } from "./load/loss.ts";
import { fillTopic } from "./fill.ts";
import { growthOf } from "./growth.ts";
import type { Usage } from "./process-usage.ts";
import type { BenchRun, ProcessSample, TimelineEntry } from "./result.ts";
import type { RunSpec } from "./sweep.ts";
import { sampleBrokers, type Target, usageOfBrokers } from "./target.ts";

export interface RunOptions {
  readonly warmUpMs: number;
  readonly durationMs: number;
  /** Length of an entry of the timeline. */
  readonly windowMs: number;
  /** Load processes; never more than connections. */
  readonly clients: number;
  readonly inFlight: number;
  readonly lingerMs: number;
  readonly expectedIntervalMs: number;
  readonly replicationFactor: number;
  /** Made for the run and deleted after it; `consume` may have one that is there, which stays. */
  readonly topic: string;
  readonly isTopicThere: boolean;
  /** What `consume` writes first. */
  readonly fillBytes: number;
  /** Looks at the brokers' memory and descriptors once a window. */
  readonly isSampled: boolean;
  readonly signal: AbortSignal;
  readonly note: (text: string) => void;
}

/** Of a thousand partitions and more. */
const CREATE_MS = 60_000;
const DELETE_MS = 30_000;

export interface RunReport {
  readonly run: BenchRun;
  readonly loss: Loss | undefined;
}

/** Undefined: it was ended before anything was measured. */
export async function measureRun(target: Target, spec: RunSpec, options: RunOptions): Promise<RunReport | undefined> {
  const { topic, isTopicThere, replicationFactor } = options;
  const admin = target.client.admin();
  if (isTopicThere) return runOn(target, spec, options);
  await admin.createTopic(topic, { partitions: spec.partitions, replicationFactor, timeoutMs: CREATE_MS });
  try {
    if (spec.verb === "consume") {
      options.note(`writing ${Math.round(options.fillBytes / 1e6)} MB to read`);
      await fillTopic(target.client, { topic, ...spec, totalBytes: options.fillBytes, signal: options.signal });
    }
    return await runOn(target, spec, options);
  } finally {
    await admin.deleteTopic(topic, { wait: true, timeoutMs: DELETE_MS }).catch((thrown: Error) => {
      options.note(`topic ${topic} was not deleted: ${thrown.message}`);
    });
  }
}

/** Sequences of more lanes than these are not kept. */
const LANES_MAX = 20_000;

async function runOn(target: Target, spec: RunSpec, options: RunOptions): Promise<RunReport | undefined> {
  const { warmUpMs, durationMs, signal } = options;
  let before: Usage | undefined;
  let after: Usage | undefined;
  const watch = new BrokerWatch(target, options);
  const outcome = await runFleet({
    plans: plansOf(target, spec, options),
    warmUpMs,
    durationMs,
    signal,
    onStart: () => {
      options.note(`  measuring for ${durationMs / 1000} s`);
      before = usageOfBrokers(target);
      watch.start();
    },
    onEnd: () => {
      after = usageOfBrokers(target);
      watch.stop();
    },
    onEntry: progressTo(options),
  }).finally(() => watch.stop());
  if (outcome.seconds === 0) return undefined;
  const used = before === undefined || after === undefined ? undefined : difference(before, after);
  return { run: runFigures(spec, options, outcome, { used, processes: watch.samples }), loss: outcome.loss };
}

/** Runs that are shorter say nothing meanwhile. */
const PROGRESS_MS = 10_000;

/** What came since it was last said. */
function progressTo({ durationMs, windowMs, note }: RunOptions): (entry: TimelineEntry) => void {
  let sinceMs = 0;
  let records = 0;
  let maxMs = 0;
  return (entry) => {
    records += entry.records;
    maxMs = Math.max(maxMs, entry.maxMs ?? 0);
    const untilMs = entry.atMs + windowMs;
    if (untilMs < sinceMs + PROGRESS_MS || untilMs > durationMs) return;
    const rate = Math.round((records * 1000) / (untilMs - sinceMs));
    note(`  at ${Math.round(untilMs / 1000)} s: ${rate} records/s, at most ${maxMs.toFixed(1)} ms`);
    sinceMs = untilMs;
    records = 0;
    maxMs = 0;
  };
}

class BrokerWatch {
  readonly samples: ProcessSample[] = [];
  readonly #target: Target;
  readonly #options: RunOptions;
  #timer: NodeJS.Timeout | undefined;

  constructor(target: Target, options: RunOptions) {
    this.#target = target;
    this.#options = options;
  }

  start(): void {
    if (!this.#options.isSampled) return;
    const startedMs = performance.now();
    const look = () => this.samples.push(...sampleBrokers(this.#target, Math.round(performance.now() - startedMs)));
    look();
    this.#timer = setInterval(look, this.#options.windowMs);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

function plansOf(target: Target, spec: RunSpec, options: RunOptions): LoadPlan[] {
  const { clients, topic, inFlight, lingerMs, expectedIntervalMs, windowMs } = options;
  const { connections, partitions } = spec;
  const count = Math.min(clients, connections);
  const share = (of: number, index: number) =>
    Array.from({ length: of }, (_, number) => number).filter((number) => number % count === index);
  const isChecked = spec.verb === "e2e" && connections * partitions <= LANES_MAX;
  return Array.from({ length: count }, (_, index) => ({
    ...spec,
    brokers: target.brokers,
    topic,
    inFlight,
    lingerMs,
    expectedIntervalMs: spec.mode === "closed" ? expectedIntervalMs : 0,
    windowMs,
    own: share(connections, index),
    read: spec.verb === "e2e" ? share(partitions, index) : [],
    isChecked,
  }));
}

const difference = (before: Usage, after: Usage): Usage => ({
  cpuSeconds: after.cpuSeconds - before.cpuSeconds,
  writtenBytes: after.writtenBytes - before.writtenBytes,
});

interface Watched {
  readonly used: Usage | undefined;
  readonly processes: readonly ProcessSample[];
}

function runFigures(spec: RunSpec, options: RunOptions, outcome: Outcome, watched: Watched): BenchRun {
  const { records, bytes, seconds, latencies, late, timeline, errors } = outcome;
  const { used, processes } = watched;
  const perGB = (cpuSeconds: number | undefined) =>
    cpuSeconds === undefined || bytes === 0 ? null : cpuSeconds / (bytes / 1e9);
  const isWriting = spec.verb !== "consume";
  return {
    name: spec.name,
    labels: labelsOf(spec, options),
    records,
    bytes,
    seconds,
    recordsPerSecond: records / seconds,
    mbPerSecond: bytes / 1e6 / seconds,
    latencyOf: latencyOf(spec, options),
    latencyMs: latencies.summary() ?? null,
    percentiles: latencies.curve(),
    timeline,
    faults: [],
    errors,
    cpuSecondsPerGB: { client: perGB(outcome.clientCpuSeconds), brokers: perGB(used?.cpuSeconds) },
    diskBytesPerByte: used === undefined || bytes === 0 || !isWriting ? null : used.writtenBytes / bytes,
    ratio: { toRawDisk: null, toRawSocket: null },
    driverLateMs:
      late.count === 0 ? null : { p50: late.quantileMs(0.5), p99: late.quantileMs(0.99), max: late.maxMs() },
    processes,
    remarks: [...remarksOf(spec, outcome), ...(options.isSampled ? growthRemarks(processes) : [])],
  };
}

/** What was looked at must not pass for judged. */
function growthRemarks(processes: readonly ProcessSample[]): string[] {
  if (growthOf(processes).length > 0) return [];
  const reason = processes.length === 0 ? "brokers are no processes of this machine" : "the run has too few windows";
  return [`memory and descriptors of the brokers were not judged: ${reason}`];
}

function labelsOf(spec: RunSpec, { clients, inFlight, lingerMs, replicationFactor, expectedIntervalMs }: RunOptions) {
  const isReading = spec.verb === "consume";
  return {
    verb: spec.benchmark,
    mode: spec.mode,
    acks: isReading ? null : String(spec.acks),
    recordBytes: spec.recordBytes,
    batchBytes: spec.batchBytes,
    partitions: spec.partitions,
    connections: spec.connections,
    replicationFactor,
    clients: Math.min(clients, spec.connections),
    ratePerSecond: spec.mode === "open" ? spec.ratePerSecond : null,
    inFlight: isReading ? null : inFlight,
    lingerMs: isReading ? null : lingerMs,
    expectedIntervalMs: expectedIntervalMs > 0 && spec.mode === "closed" ? expectedIntervalMs : null,
  };
}

function latencyOf({ verb, mode, acks }: RunSpec, { expectedIntervalMs }: RunOptions): string {
  if (verb === "consume") return "from asking for the next batch of records to having it";
  const from = mode === "open" ? "from when a record was due" : "from handing a record to the producer";
  const acknowledged = acks === 0 ? "to its hand-over to the network" : "to its acknowledgement";
  const corrected =
    mode === "closed" && expectedIntervalMs > 0 ? `, corrected for one expected every ${expectedIntervalMs} ms` : "";
  return `${from} ${verb === "e2e" ? "to the consumer's having it" : acknowledged}${corrected}`;
}

function remarksOf(spec: RunSpec, { loss, isBehind }: Outcome): string[] {
  const remarks: string[] = [];
  if (spec.mode === "open" && isBehind)
    remarks.push(`${spec.ratePerSecond} records/s are more than it takes: latencies grow for as long as the run lasts`);
  if (spec.verb !== "e2e") return remarks;
  if (loss === undefined) return [...remarks, `not checked for loss: more than ${LANES_MAX} connections x partitions`];
  remarks.push(lossWords(loss), ...loss.examples.map((example) => `lost: ${example}`));
  return remarks;
}
