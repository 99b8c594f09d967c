// Every expiry of the broker on one timer: a heap of ticks, a bucket of deadlines at each. Setting and cancelling are constant-time, and a
// cancelled one is gone at once, since nearly all are cancelled (a produce answered in 2 ms had 30 s).
import { Heap } from "../base/heap.ts";
import type { Clock } from "../ports/clock.ts";
import type { TimerHandle, Timers } from "../ports/timers.ts";

/** Deadlines are met up to this late. */
const TICK_MS = 4;

export class Deadline {
  readonly atMs: number;
  readonly durationMs: number;
  readonly onExpire: () => void;
  /** Where it sits; undefined once it fired, was cancelled, or waits for its second look. */
  bucket: Deadline[] | undefined;
  position = 0;
  isOver = false;

  constructor(atMs: number, durationMs: number, onExpire: () => void) {
    this.atMs = atMs;
    this.durationMs = durationMs;
    this.onExpire = onExpire;
  }

  /** Harmless when over. */
  cancel(): void {
    this.isOver = true;
    const bucket = this.bucket;
    if (bucket === undefined) return;
    this.bucket = undefined;
    const last = bucket.pop();
    if (last === undefined || last === this) return;
    bucket[this.position] = last;
    last.position = this.position;
  }
}

/**
 * D-22: an expiry that comes late because the loop itself was late (by more than a quarter of its duration) is given one full poll turn more:
 * the event it waits for may have been ready all the time.
 */
export class Deadlines {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #ticks = new Heap<number>((left, right) => left < right);
  readonly #buckets = new Map<number, Deadline[]>();
  #armedTick = Number.POSITIVE_INFINITY;
  #timer: TimerHandle | undefined;
  #isStopped = false;

  constructor(deps: { readonly clock: Clock; readonly timers: Timers }) {
    this.#clock = deps.clock;
    this.#timers = deps.timers;
  }

  /** Runs `onExpire` once, `durationMs` from now or up to a tick later, unless cancelled. */
  add(durationMs: number, onExpire: () => void): Deadline {
    const deadline = new Deadline(this.#clock.monoMs() + durationMs, durationMs, onExpire);
    const tick = Math.ceil(deadline.atMs / TICK_MS);
    let bucket = this.#buckets.get(tick);
    if (bucket === undefined) {
      bucket = [];
      this.#buckets.set(tick, bucket);
      this.#ticks.push(tick);
    }
    deadline.bucket = bucket;
    deadline.position = bucket.length;
    bucket.push(deadline);
    this.#arm();
    return deadline;
  }

  /** Nothing fires after this. */
  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    this.#buckets.clear();
  }

  #arm(): void {
    const tick = this.#ticks.peek();
    if (tick === undefined || tick >= this.#armedTick || this.#isStopped) return;
    this.#timer?.cancel();
    this.#armedTick = tick;
    const delayMs = Math.max(0, tick * TICK_MS - this.#clock.monoMs());
    this.#timer = this.#timers.after(Math.ceil(delayMs), () => this.#expire());
  }

  #expire(): void {
    this.#armedTick = Number.POSITIVE_INFINITY;
    this.#timer = undefined;
    const nowMs = this.#clock.monoMs();
    const late: Deadline[] = [];
    for (let tick = this.#ticks.peek(); tick !== undefined && tick * TICK_MS <= nowMs; tick = this.#ticks.peek()) {
      this.#ticks.pop();
      const due = this.#buckets.get(tick) ?? [];
      this.#buckets.delete(tick);
      for (const deadline of due) deadline.bucket = undefined;
      for (const deadline of due) {
        if (nowMs - deadline.atMs > deadline.durationMs / 4) late.push(deadline);
        else this.#fire(deadline);
      }
    }
    if (late.length > 0) this.#timers.defer(() => late.forEach((deadline) => this.#fire(deadline)));
    this.#arm();
  }

  #fire(deadline: Deadline): void {
    if (deadline.isOver || this.#isStopped) return;
    deadline.isOver = true;
    deadline.onExpire();
  }
}
