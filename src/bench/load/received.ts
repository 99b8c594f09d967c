// Which sequences of each lane were read: gaps, repetitions, and what came after a later one.
import { RANGES_MAX } from "./lanes.ts";
import type { ReceivedLane } from "./types.ts";

class ReceivedSequences {
  #next = 0;
  readonly #gaps: [from: number, to: number][] = [];
  #duplicates = 0;
  #outOfOrder = 0;

  take(sequence: number): void {
    if (sequence === this.#next) this.#next++;
    else if (sequence > this.#next) {
      if (this.#gaps.length >= RANGES_MAX) throw new RangeError(`more than ${RANGES_MAX} gaps in one partition`);
      this.#gaps.push([this.#next, sequence - 1]);
      this.#next = sequence + 1;
    } else this.#late(sequence);
  }

  #late(sequence: number): void {
    const at = this.#gaps.findIndex(([from, to]) => from <= sequence && sequence <= to);
    const gap = this.#gaps[at];
    if (gap === undefined) {
      this.#duplicates++;
      return;
    }
    this.#outOfOrder++;
    const rest: [number, number][] = [
      [gap[0], sequence - 1],
      [sequence + 1, gap[1]],
    ];
    this.#gaps.splice(at, 1, ...rest.filter(([from, to]) => from <= to));
  }

  summary(connection: number, partition: number): ReceivedLane {
    return {
      connection,
      partition,
      next: this.#next,
      gaps: this.#gaps,
      duplicates: this.#duplicates,
      outOfOrder: this.#outOfOrder,
    };
  }
}

export class Received {
  readonly #lanes = new Map<number, ReceivedSequences>();
  readonly #connections: number;

  constructor(connections: number) {
    this.#connections = connections;
  }

  take(partition: number, connection: number, sequence: number): void {
    const key = partition * this.#connections + connection;
    let lane = this.#lanes.get(key);
    if (lane === undefined) this.#lanes.set(key, (lane = new ReceivedSequences()));
    lane.take(sequence);
  }

  summary(): ReceivedLane[] {
    return [...this.#lanes].map(([key, lane]) =>
      lane.summary(key % this.#connections, Math.floor(key / this.#connections)),
    );
  }
}
