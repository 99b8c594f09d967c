// All that a client does later, on one timer: request deadlines, back-off, linger, delivery timeouts. A deadline costs an entry
// of a heap, not a timer of the host.
import { DeadlineQueue, type Deadline } from "../base/deadline-queue.ts";
import { OttlaError } from "../model/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { TimerHandle, Timers } from "../ports/timers.ts";

interface Task {
  run(): void;
  /** Called in place of `run` when the client closes first. */
  drop?(): void;
}

/** A timer that fires this much later than it was set for is a sign of a busy process. */
const LATE_MS = 200;

export type Alarm = Deadline<Task>;

export class Alarms {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #queue = new DeadlineQueue<Task>();
  #timer: TimerHandle | undefined;
  /** What the timer is set for; Infinity when none is. */
  #armedForMs = Number.POSITIVE_INFINITY;
  #isClosed = false;

  constructor(options: { readonly clock: Clock; readonly timers: Timers }) {
    this.#clock = options.clock;
    this.#timers = options.timers;
  }

  /** Monotonic milliseconds. */
  nowMs(): number {
    return this.#clock.monoMs();
  }

  after(delayMs: number, run: () => void): Alarm {
    return this.#add(this.nowMs() + delayMs, { run });
  }

  cancel(alarm: Alarm | undefined): void {
    if (alarm !== undefined) this.#queue.cancel(alarm);
  }

  /** Rejects with CLOSED when the client closes first. */
  sleep(delayMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#add(this.nowMs() + delayMs, { run: resolve, drop: () => reject(new OttlaError("CLOSED")) });
    });
  }

  /** Settles as `promise` does, or rejects with what `onTimeout` makes when that takes too long. */
  within<T>(promise: Promise<T>, timeoutMs: number, onTimeout: () => OttlaError): Promise<T> {
    return new Promise((resolve, reject) => {
      const task: Task = { run: () => reject(onTimeout()), drop: () => reject(new OttlaError("CLOSED")) };
      const alarm = this.#add(this.nowMs() + timeoutMs, task);
      promise.then(
        (value) => {
          this.cancel(alarm);
          resolve(value);
        },
        (error: unknown) => {
          this.cancel(alarm);
          reject(error as Error);
        },
      );
    });
  }

  /** Drops everything, for ever. */
  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    for (;;) {
      const task = this.#queue.takeDue(Number.POSITIVE_INFINITY);
      if (task === undefined) return;
      task.drop?.();
    }
  }

  #add(timeMs: number, task: Task): Alarm {
    const alarm = this.#queue.add(timeMs, task);
    if (this.#isClosed) {
      this.#queue.cancel(alarm);
      task.drop?.();
    } else if (timeMs < this.#armedForMs) this.#arm(timeMs);
    return alarm;
  }

  #arm(timeMs: number): void {
    this.#timer?.cancel();
    this.#armedForMs = timeMs;
    this.#timer = this.#timers.after(Math.max(0, timeMs - this.nowMs()), () => this.#wake());
  }

  /**
   * A timer that is late because the process was busy first lets pass what is ready: the answer that a deadline waits for may lie
   * unread in the socket (D-22).
   */
  #wake(): void {
    if (this.nowMs() - this.#armedForMs <= LATE_MS) return this.#fire();
    this.#timers.defer(() => {
      if (!this.#isClosed) this.#fire();
    });
  }

  #fire(): void {
    this.#armedForMs = Number.POSITIVE_INFINITY;
    this.#timer = undefined;
    const nowMs = this.nowMs();
    for (let task = this.#queue.takeDue(nowMs); task !== undefined; task = this.#queue.takeDue(nowMs)) task.run();
    const nextMs = this.#queue.nextMs;
    if (nextMs !== undefined && nextMs < this.#armedForMs && !this.#isClosed) this.#arm(nextMs);
  }
}
