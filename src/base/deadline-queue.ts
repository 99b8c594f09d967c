// Things that are due at a time, earliest first, ties in the order they were added. Pure: its owner asks what is due and keeps
// one timer for the earliest. Cancelling is constant-time; cancelled entries are swept out when they outnumber the live ones.
import { Heap } from "./heap.ts";

export interface Deadline<T> {
  readonly timeMs: number;
  /** Undefined once taken or cancelled. */
  readonly item: T | undefined;
}

interface Entry<T> extends Deadline<T> {
  item: T | undefined;
  readonly sequence: number;
}

/** Dead entries that are not worth a sweep. */
const SWEEP_SLACK = 256;

function isBefore<T>(left: Entry<T>, right: Entry<T>): boolean {
  return left.timeMs < right.timeMs || (left.timeMs === right.timeMs && left.sequence < right.sequence);
}

export class DeadlineQueue<T> {
  #heap = new Heap<Entry<T>>(isBefore);
  #sequence = 0;
  #liveCount = 0;

  /** Entries neither taken nor cancelled. */
  get length(): number {
    return this.#liveCount;
  }

  /** Time of the earliest entry. */
  get nextMs(): number | undefined {
    return this.#top()?.timeMs;
  }

  add(timeMs: number, item: T): Deadline<T> {
    const entry: Entry<T> = { timeMs, item, sequence: this.#sequence++ };
    this.#heap.push(entry);
    this.#liveCount++;
    return entry;
  }

  /** Harmless when it was taken or cancelled before. */
  cancel(deadline: Deadline<T>): void {
    if (deadline.item === undefined) return;
    (deadline as Entry<T>).item = undefined;
    this.#liveCount--;
    if (this.#heap.length > 2 * this.#liveCount + SWEEP_SLACK) this.#sweep();
  }

  /** Removes and returns the earliest item that is due at `nowMs`. */
  takeDue(nowMs: number): T | undefined {
    const top = this.#top();
    if (top === undefined || top.timeMs > nowMs) return undefined;
    const item = top.item;
    top.item = undefined;
    this.#heap.pop();
    this.#liveCount--;
    return item;
  }

  #top(): Entry<T> | undefined {
    for (;;) {
      const top = this.#heap.peek();
      if (top === undefined || top.item !== undefined) return top;
      this.#heap.pop();
    }
  }

  #sweep(): void {
    const live = new Heap<Entry<T>>(isBefore);
    for (let entry = this.#heap.pop(); entry !== undefined; entry = this.#heap.pop()) {
      if (entry.item !== undefined) live.push(entry);
    }
    this.#heap = live;
  }
}
