// Something that becomes true once, or never will.
import type { OttlaError } from "../../model/errors.ts";

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
