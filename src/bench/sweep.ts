// Which runs a benchmark has: the product of the lists that it was given.
import type { LoadAcks, LoadVerb } from "./load/types.ts";
import type { LoadMode } from "./result.ts";

export interface Sweep {
  readonly acks: readonly LoadAcks[];
  readonly recordBytes: readonly number[];
  readonly batchBytes: readonly number[];
  readonly partitions: readonly number[];
  readonly connections: readonly number[];
  /** Records per second of all connections together; "max": as fast as acknowledgements make room. */
  readonly rates: readonly (number | "max")[];
}

export interface RunSpec {
  readonly verb: LoadVerb;
  /** What the run is called after. */
  readonly benchmark: string;
  readonly name: string;
  readonly mode: LoadMode;
  readonly acks: LoadAcks;
  readonly recordBytes: number;
  readonly batchBytes: number;
  readonly partitions: number;
  readonly connections: number;
  /** Closed loop: 0. */
  readonly ratePerSecond: number;
}

/** Bound of one command. */
export const RUNS_MAX = 500;

/** In an order that takes the acks levels in turn, so that what the machine does meanwhile hits all of them. */
export function specsOf(benchmark: LoadVerb | "soak", sweep: Sweep): RunSpec[] {
  const verb = benchmark === "soak" ? "e2e" : benchmark;
  const specs: RunSpec[] = [];
  for (const partitions of sweep.partitions)
    for (const connections of sweep.connections)
      for (const recordBytes of sweep.recordBytes)
        for (const batchBytes of sweep.batchBytes)
          for (const rate of sweep.rates)
            for (const acks of sweep.acks) {
              const mode = rate === "max" ? ("closed" as const) : ("open" as const);
              const ratePerSecond = rate === "max" ? 0 : rate;
              const sizes = { recordBytes, batchBytes, partitions, connections };
              const name = nameOf(benchmark, sweep, { acks, rate, ...sizes });
              specs.push({ verb, benchmark, name, mode, acks, ...sizes, ratePerSecond });
            }
  return specs;
}

interface Choice {
  readonly acks: LoadAcks;
  readonly rate: number | "max";
  readonly recordBytes: number;
  readonly batchBytes: number;
  readonly partitions: number;
  readonly connections: number;
}

/** What varies in this sweep, and acks. */
function nameOf(benchmark: string, sweep: Sweep, choice: Choice): string {
  const parts = [benchmark];
  if (benchmark !== "consume") parts.push(`acks=${choice.acks}`);
  if (sweep.recordBytes.length > 1) parts.push(`record=${choice.recordBytes}`);
  if (sweep.batchBytes.length > 1) parts.push(`batch=${choice.batchBytes}`);
  if (sweep.partitions.length > 1) parts.push(`partitions=${choice.partitions}`);
  if (sweep.connections.length > 1) parts.push(`connections=${choice.connections}`);
  if (sweep.rates.length > 1) parts.push(`rate=${choice.rate}`);
  return parts.join(" ");
}
