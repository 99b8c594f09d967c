// Who goes on in a later turn of the event loop: one after the other, a few milliseconds in each turn, so that what is cheap never waits for
// long behind what is dear, however many connections ask for it.
import { Ring } from "../base/ring.ts";

const TURN_MS = 6;

export class TurnQueue {
  readonly #waiting = new Ring<() => void>();
  readonly #defer: (work: () => void) => void;
  readonly #nowMs: () => number;
  #isPending = false;

  constructor(defer: (work: () => void) => void, nowMs: () => number) {
    this.#defer = defer;
    this.#nowMs = nowMs;
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  /** Work that wants to go on after that comes again, behind all others. */
  push(work: () => void): void {
    this.#waiting.push(work);
    this.#arm();
  }

  #arm(): void {
    if (this.#isPending) return;
    this.#isPending = true;
    this.#defer(() => this.#run());
  }

  #run(): void {
    this.#isPending = false;
    const endMs = this.#nowMs() + TURN_MS;
    try {
      // Not those that come meanwhile, should the clock stand still.
      for (let left = this.#waiting.length; left > 0; left--) {
        this.#waiting.shift()?.();
        if (this.#nowMs() >= endMs) break;
      }
    } finally {
      if (!this.isEmpty) this.#arm();
    }
  }
}
