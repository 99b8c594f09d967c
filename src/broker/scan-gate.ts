// Searches for a timestamp read and decode a batch each: few at once, and one connection at a time each, or one request of a thousand entries
// would hold the loop and the disk for seconds.
import { Ring } from "../base/ring.ts";

const SCANS_MAX = 2;

export class ScanGate {
  readonly #waiting = new Ring<() => void>();
  /** The last search of each connection that has one under way. */
  readonly #lastOf = new Map<object, Promise<void>>();
  #running = 0;

  /** Runs the work after what the same owner has under way: one of its requests at a time. */
  async inTurn<T>(owner: object, work: () => Promise<T>): Promise<T> {
    const before = this.#lastOf.get(owner);
    let end = (): void => {};
    const over = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#lastOf.set(owner, over);
    try {
      await before;
      return await work();
    } finally {
      end();
      if (this.#lastOf.get(owner) === over) this.#lastOf.delete(owner);
    }
  }

  /** Runs one search when fewer than two run. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running < SCANS_MAX) this.#running++;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve)); // and takes the place of the one that ended
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }
}
