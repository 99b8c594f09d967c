// Waiting: for something that becomes true once or never will, and for work that may take too long.
import type { OttlaError } from "../../model/errors.ts";
import type { Timers } from "../../ports/timers.ts";

/** Settles as the work does, or resolves when the time is up. */
export function atMost(timers: Timers, timeoutMs: number, work: Promise<void>): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = timers.after(timeoutMs, resolve);
    work.then(resolve, reject).finally(() => timer.cancel());
  });
}

export class Waiting {
  readonly promise: Promise<void>;
  #resolve: () => void = () => undefined;
  #reject: (error: OttlaError) => void = () => undefined;
  #isSettled = false;

  constructor() {
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.promise.catch(() => undefined); // heard only by whoever waits
  }

  get isSettled(): boolean {
    return this.#isSettled;
  }

  done(): void {
    this.#isSettled = true;
    this.#resolve();
  }

  fail(error: OttlaError): void {
    this.#isSettled = true;
    this.#reject(error);
  }
}
