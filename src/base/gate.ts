// Lets so many works run at once; the others wait in turn.
import { Ring } from "./ring.ts";

export class Gate {
  readonly #max: number;
  readonly #waiting = new Ring<() => void>();
  #running = 0;

  constructor(max: number) {
    this.#max = max;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#max) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running++;
    try {
      return await work();
    } finally {
      // Its place goes to the next one.
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }
}
