// All that one requester does later, on one timer: request deadlines, back-off, linger, delivery timeouts.
import { type Deadline, Deadlines } from "../base/deadlines.ts";
import { OttlaError } from "../model/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Timers } from "../ports/timers.ts";

export type Alarm = Deadline;

export class Alarms {
  readonly #clock: Clock;
  readonly #deadlines: Deadlines;

  constructor(options: { readonly clock: Clock; readonly timers: Timers }) {
    this.#clock = options.clock;
    this.#deadlines = new Deadlines(options);
  }

  /** Monotonic milliseconds. */
  nowMs(): number {
    return this.#clock.monoMs();
  }

  /** `onClosed`: in place of `run`, when the owner closes first, or has closed; else nobody is told. */
  after(delayMs: number, run: () => void, onClosed?: () => void): Alarm {
    return this.#deadlines.add(delayMs, run, onClosed);
  }

  /** Rejects with CLOSED when the owner closes first. */
  sleep(delayMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#deadlines.add(delayMs, resolve, () => reject(new OttlaError("CLOSED")));
    });
  }

  /** Settles as `promise` does, or rejects with what `onTimeout` makes when that takes too long. */
  within<T>(promise: Promise<T>, timeoutMs: number, onTimeout: () => OttlaError): Promise<T> {
    return new Promise((resolve, reject) => {
      const alarm = this.#deadlines.add(
        timeoutMs,
        () => reject(onTimeout()),
        () => reject(new OttlaError("CLOSED")),
      );
      promise.then(
        (value) => {
          alarm.cancel();
          resolve(value);
        },
        (error: unknown) => {
          alarm.cancel();
          reject(error as Error);
        },
      );
    });
  }

  /** Drops everything, for ever. */
  close(): void {
    this.#deadlines.stop();
  }
}
