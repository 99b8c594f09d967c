// A whole benchmark: what the machine does by itself before and after, and every run in between. What was measured is kept whatever ends it.
import { driftOf, meanLimits, measureLimits } from "./limits.ts";
import type { Loss } from "./load/loss.ts";
import { commit, machine } from "./machine.ts";
import { type BenchResult, type BenchRun, type Limits, RESULT_VERSION } from "./result.ts";
import { measureRun, type RunOptions } from "./run.ts";
import type { RunSpec } from "./sweep.ts";
import type { Target } from "./target.ts";

export interface SessionOptions extends RunOptions {
  readonly specs: readonly RunSpec[];
  /** For raw disk and raw socket; 0: they are not measured. */
  readonly limitBytes: number;
  /** Where raw disk is measured. */
  readonly directory: string;
  readonly command: string;
  /** Each run as it ends. */
  readonly onRun: (run: BenchRun, index: number) => void;
}

export interface Session {
  readonly result: BenchResult;
  /** Of each run. */
  readonly losses: readonly (Loss | undefined)[];
  /** What ended it early; undefined also after a stop that was asked for. */
  readonly failure: Error | undefined;
}

const UNKNOWN: Limits = { rawDiskMBs: null, rawSocketMBs: null };
/** A machine that changed by more than this between before and after makes the ratios doubtful. */
const DRIFT_MAX = 0.2;

export async function runSession(target: Target, options: SessionOptions): Promise<Session> {
  const { specs, signal } = options;
  const startedAt = new Date().toISOString();
  const runs: BenchRun[] = [];
  const losses: (Loss | undefined)[] = [];
  let before = UNKNOWN;
  let after = UNKNOWN;
  let failure: Error | undefined;
  try {
    before = await limitsOf(target, options);
    for (const [index, spec] of specs.entries()) {
      if (signal.aborted) break;
      options.note(`run ${index + 1}/${specs.length}: ${spec.name}`);
      const report = await measureRun(target, spec, options);
      if (report === undefined) break;
      runs.push(report.run);
      losses.push(report.loss);
      options.onRun(report.run, index);
    }
    after = signal.aborted ? before : await limitsOf(target, options);
  } catch (thrown) {
    failure = thrown instanceof Error ? thrown : new Error(String(thrown));
    after = before;
  }
  const limits = meanLimits(before, after);
  const isComplete = failure === undefined && !signal.aborted && runs.length === specs.length;
  const result: BenchResult = {
    version: RESULT_VERSION,
    machine: machine(),
    commit: commit(),
    startedAt,
    command: options.command,
    isComplete,
    cluster: target.facts,
    limits,
    runs: runs.map((run) => withRatios(run, limits, driftOf(before, after))),
  };
  return { result, losses, failure };
}

/** Only of a machine that the brokers are on. */
async function limitsOf(target: Target, { limitBytes, directory, note }: SessionOptions): Promise<Limits> {
  if (limitBytes === 0 || target.processes === undefined) return UNKNOWN;
  const limits = await measureLimits(directory, limitBytes);
  note(`raw disk ${limits.rawDiskMBs?.toFixed(0)} MB/s, raw socket ${limits.rawSocketMBs?.toFixed(0)} MB/s`);
  return limits;
}

function withRatios(run: BenchRun, { rawDiskMBs, rawSocketMBs }: Limits, drift: number): BenchRun {
  const over = (limit: number | null) => (limit === null ? null : run.mbPerSecond / limit);
  const remark = `raw disk or socket differed by ${Math.round(drift * 100)} % before and after: the ratios are doubtful`;
  return {
    ...run,
    ratio: { toRawDisk: over(rawDiskMBs), toRawSocket: over(rawSocketMBs) },
    remarks: drift > DRIFT_MAX ? [...run.remarks, remark] : run.remarks,
  };
}
