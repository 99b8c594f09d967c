// What a load process measures: latencies and records of the measured time, handed over window by window.
import { LatencyHistogram } from "../histogram.ts";
import type { LoadMode } from "../result.ts";
import type { Span, WindowMessage } from "./types.ts";

export interface RecorderOptions {
  readonly mode: LoadMode;
  readonly windowMs: number;
  readonly expectedIntervalMs: number;
  readonly nowMs: () => number;
  readonly emit: (window: WindowMessage) => void;
}

/**
 * Open loop: the records whose time it was in the measured time, however late they came. Closed loop: those that came in it. Entries of the timeline
 * are by when they came.
 */
export class Recorder {
  readonly #options: RecorderOptions;
  readonly #latencies = LatencyHistogram.empty();
  readonly #errors = new Map<string, number>();
  #span: Span | undefined;
  #untilMs = Number.POSITIVE_INFINITY;
  #index = 0;
  #records = 0;
  #bytes = 0;

  constructor(options: RecorderOptions) {
    this.#options = options;
  }

  begin(span: Span): void {
    this.#span = span;
    this.#untilMs = span.untilMs;
  }

  /** The measured time ends at `untilMs` instead, if that is earlier. */
  end(untilMs: number): void {
    this.#untilMs = Math.min(this.#untilMs, untilMs);
  }

  get untilMs(): number {
    return this.#untilMs;
  }

  /** Does a record count that was due then and came now? */
  isMeasured(dueMs: number, nowMs: number): boolean {
    if (this.#span === undefined) return false;
    const whenMs = this.#options.mode === "open" ? dueMs : nowMs;
    return whenMs >= this.#span.startMs && whenMs < this.#untilMs;
  }

  /** `count` records that were due at the same time. */
  took(dueMs: number, nowMs: number, count: number, bytes: number): void {
    if (!this.isMeasured(dueMs, nowMs)) return;
    this.timed(nowMs - dueMs, nowMs, count);
    this.counted(nowMs, count, bytes);
  }

  timed(latencyMs: number, nowMs: number, count: number): void {
    this.flush(nowMs);
    const { expectedIntervalMs } = this.#options;
    if (expectedIntervalMs > 0) this.#latencies.recordCorrected(latencyMs, count, expectedIntervalMs);
    else this.#latencies.record(latencyMs, count);
  }

  counted(nowMs: number, count: number, bytes: number): void {
    this.flush(nowMs);
    this.#records += count;
    this.#bytes += bytes;
  }

  /** Closed loop: also what was sent before the end of the measured time and is given up after it, as all that brokers which are gone never answer. */
  failed(code: string, dueMs: number, nowMs: number, count: number): void {
    const isLate = this.#options.mode === "closed" && nowMs >= this.#untilMs && dueMs < this.#untilMs;
    if (isLate || this.isMeasured(dueMs, nowMs)) this.missed(code, count);
  }

  missed(code: string, count: number): void {
    if (count > 0) this.#errors.set(code, (this.#errors.get(code) ?? 0) + count);
  }

  get errors(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#errors);
  }

  /** Hands over every window that has ended by then. */
  flush(nowMs: number): void {
    if (this.#span === undefined) return;
    const index = Math.floor((nowMs - this.#span.startMs) / this.#options.windowMs);
    while (this.#index < index) this.#emit();
  }

  /** Hands the last window over, which may be shorter. */
  finish(): void {
    if (this.#span === undefined) return;
    this.flush(this.#options.nowMs());
    this.#emit();
  }

  #emit(): void {
    const histogram = this.#latencies.count === 0 ? "" : this.#latencies.encode();
    this.#options.emit({
      kind: "window",
      index: this.#index++,
      records: this.#records,
      bytes: this.#bytes,
      histogram,
    });
    this.#records = 0;
    this.#bytes = 0;
    if (histogram !== "") this.#latencies.reset();
  }
}
