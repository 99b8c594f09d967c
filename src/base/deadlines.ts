// Every expiry of a broker or client on one timer: a heap of ticks, a bucket of deadlines at each. Setting and cancelling are constant-time, and a
// cancelled one is gone at once, since nearly all are cancelled (a produce answered in 2 ms had 30 s).
import { Heap } from "./heap.ts";

/** The ports Clock and Timers, as far as deadlines need them. */
export interface DeadlineDeps {
  readonly clock: { monoMs(): number };
  readonly timers: {
    after(delayMs: number, callback: () => void): { cancel(): void };
    defer(callback: () => void): void;
  };
}

/** Deadlines are met up to this late. */
const TICK_MS = 4;

export class Deadline {
  readonly atMs: number;
  readonly durationMs: number;
  readonly onExpire: () => void;
  /** Called in place of `onExpire` when everything stops first. */
  readonly onStop: (() => void) | undefined;
  /** Where it sits; undefined once it fired, was cancelled, or waits for its second look. */
  bucket: Deadline[] | undefined;
  position = 0;
  isOver = false;

  constructor(atMs: number, durationMs: number, calls: { onExpire: () => void; onStop: (() => void) | undefined }) {
    this.atMs = atMs;
    this.durationMs = durationMs;
    this.onExpire = calls.onExpire;
    this.onStop = calls.onStop;
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
  readonly #clock: DeadlineDeps["clock"];
  readonly #timers: DeadlineDeps["timers"];
  readonly #ticks = new Heap<number>((left, right) => left < right);
  readonly #buckets = new Map<number, Deadline[]>();
  #armedTick = Number.POSITIVE_INFINITY;
  #timer: { cancel(): void } | undefined;
  #isStopped = false;
  /** Expired late: fire after one more poll turn. */
  #waitingOnceMore: Deadline[] = [];

  constructor(deps: DeadlineDeps) {
    this.#clock = deps.clock;
    this.#timers = deps.timers;
  }

  /** Runs `onExpire` once, `durationMs` from now or up to a tick later, unless cancelled; after `stop`, `onStop` at once. */
  add(durationMs: number, onExpire: () => void, onStop?: () => void): Deadline {
    const deadline = new Deadline(this.#clock.monoMs() + durationMs, durationMs, { onExpire, onStop });
    if (this.#isStopped) {
      deadline.isOver = true;
      onStop?.();
      return deadline;
    }
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

  /** Nothing expires after this. */
  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    const stopped = [...this.#buckets.values()].flat();
    this.#buckets.clear();
    for (const deadline of [...stopped, ...this.#waitingOnceMore]) {
      if (deadline.isOver) continue;
      deadline.isOver = true;
      deadline.onStop?.();
    }
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
    for (let tick = this.#ticks.peek(); tick !== undefined && tick * TICK_MS <= nowMs; tick = this.#ticks.peek()) {
      this.#ticks.pop();
      const due = this.#buckets.get(tick) ?? [];
      this.#buckets.delete(tick);
      for (const deadline of due) deadline.bucket = undefined;
      for (const deadline of due) {
        if (nowMs - deadline.atMs > deadline.durationMs / 4) this.#waitingOnceMore.push(deadline);
        else this.#fire(deadline);
      }
    }
    if (this.#waitingOnceMore.length > 0) this.#timers.defer(() => this.#fireLate());
    this.#arm();
  }

  #fireLate(): void {
    const late = this.#waitingOnceMore;
    this.#waitingOnceMore = [];
    for (const deadline of late) this.#fire(deadline);
  }

  #fire(deadline: Deadline): void {
    if (deadline.isOver || this.#isStopped) return;
    deadline.isOver = true;
    deadline.onExpire();
  }
}
