// What the load processes of a run have measured, put together: histograms are added window by window, which loses nothing.
import { LatencyHistogram } from "../histogram.ts";
import type { TimelineEntry } from "../result.ts";
import { type Loss, lossOf } from "./loss.ts";
import { type DoneMessage, NOT_SENT, type WindowMessage } from "./types.ts";

export interface Outcome {
  readonly records: number;
  readonly bytes: number;
  /** The measured time; in an open loop that fell behind until the last record of the schedule came. */
  readonly seconds: number;
  /** Some of the schedule came long after its end, or never. */
  readonly isBehind: boolean;
  readonly latencies: LatencyHistogram;
  readonly late: LatencyHistogram;
  readonly timeline: readonly TimelineEntry[];
  readonly errors: Readonly<Record<string, number>>;
  readonly clientCpuSeconds: number;
  /** Undefined where sequences were not kept. */
  readonly loss: Loss | undefined;
}

interface Window {
  records: number;
  bytes: number;
  histogram: LatencyHistogram | undefined;
}

export interface TallyOptions {
  readonly windowMs: number;
  readonly processes: number;
  /** Each window once it is whole, in order. */
  readonly onEntry: (entry: TimelineEntry) => void;
}

const LAST_ANSWERS_MS = 1000;

export class Tally {
  readonly #windowMs: number;
  readonly #onEntry: (entry: TimelineEntry) => void;
  /** Windows that each process has handed over. */
  readonly #reached: number[];
  /** Those that not every process has handed over. */
  readonly #open = new Map<number, Window>();
  readonly #timeline: TimelineEntry[] = [];
  readonly #latencies = LatencyHistogram.empty();
  readonly #dones: DoneMessage[] = [];
  #records = 0;
  #bytes = 0;
  #lastRecordsAt = -1;

  constructor(options: TallyOptions) {
    this.#windowMs = options.windowMs;
    this.#onEntry = options.onEntry;
    this.#reached = new Array<number>(options.processes).fill(-1);
  }

  window(process: number, { index, records, bytes, histogram }: WindowMessage): void {
    const window = this.#open.get(index) ?? { records: 0, bytes: 0, histogram: undefined };
    this.#open.set(index, window);
    window.records += records;
    window.bytes += bytes;
    if (histogram !== "") {
      const decoded = LatencyHistogram.decode(histogram);
      if (window.histogram === undefined) window.histogram = decoded;
      else window.histogram.add(decoded);
    }
    this.#reached[process] = index;
    this.#close(Math.min(...this.#reached));
  }

  /** Windows up to this one are whole. */
  #close(upTo: number): void {
    for (let index = this.#timeline.length; index <= upTo; index++) {
      const window = this.#open.get(index);
      this.#open.delete(index);
      this.#records += window?.records ?? 0;
      this.#bytes += window?.bytes ?? 0;
      if (window !== undefined && window.records > 0) this.#lastRecordsAt = index;
      if (window?.histogram !== undefined) this.#latencies.add(window.histogram);
      const entry = entryOf(index * this.#windowMs, window);
      this.#timeline.push(entry);
      this.#onEntry(entry);
    }
  }

  done(message: DoneMessage): void {
    this.#dones.push(message);
  }

  /** `plannedMs`: how long the measured time was. */
  outcome(plannedMs: number): Outcome {
    this.#close(Math.max(-1, ...this.#reached));
    const timeline = this.#timeline.slice(0, Math.max(this.#lastRecordsAt + 1, Math.ceil(plannedMs / this.#windowMs)));
    const late = LatencyHistogram.empty();
    const errors: Record<string, number> = {};
    for (const done of this.#dones) {
      if (done.late !== "") late.add(LatencyHistogram.decode(done.late));
      for (const [code, count] of Object.entries(done.errors)) errors[code] = (errors[code] ?? 0) + count;
    }
    const isChecked = this.#dones.some(({ sent, received }) => sent.length > 0 || received.length > 0);
    return {
      records: this.#records,
      bytes: this.#bytes,
      seconds: this.#measuredMs(plannedMs) / 1000,
      isBehind: this.#measuredMs(plannedMs) > plannedMs || (errors[NOT_SENT] ?? 0) > 0,
      latencies: this.#latencies,
      late,
      timeline,
      errors,
      clientCpuSeconds: this.#dones.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0),
      loss: isChecked ? lossOf(this.#dones) : undefined,
    };
  }

  /** What came a little after the schedule's end is the last answers; what came much later is a backlog, which took its time. */
  #measuredMs(plannedMs: number): number {
    const lastMs = (this.#lastRecordsAt + 1) * this.#windowMs;
    return lastMs > plannedMs + LAST_ANSWERS_MS + this.#windowMs ? lastMs : plannedMs;
  }
}

function entryOf(atMs: number, window: Window | undefined): TimelineEntry {
  const { records = 0, histogram } = window ?? {};
  return {
    atMs,
    records,
    p50Ms: histogram?.quantileMs(0.5) ?? null,
    p99Ms: histogram?.quantileMs(0.99) ?? null,
    maxMs: histogram?.maxMs() ?? null,
  };
}
