// Work of many sources that waits its turn: the sources take turns, and whoever asks for more than the others waits, or is put off, by itself.
import { Ring } from "../../base/ring.ts";

/** A source may have this share of the room: even alone it leaves room for others. */
const SHARE = 1 / 8;

/** `refused`: no room, and the source has its share. `put off`: it waits, in place of the youngest of the source that had most. */
export type Entered<T> = { readonly kind: "waits" | "refused" } | { readonly kind: "put off"; readonly item: T };

/**
 * Bound:     `max` items.
 * Invariant: each source that has anything waiting is in `turns` once.
 */
export class FairQueue<T> {
  readonly #max: number;
  readonly #ofSourceMax: number;
  readonly #waiting = new Map<unknown, Ring<T>>();
  readonly #turns = new Ring<unknown>();
  #length = 0;

  constructor(max: number) {
    this.#max = max;
    this.#ofSourceMax = Math.max(1, Math.floor(max * SHARE));
  }

  get length(): number {
    return this.#length;
  }

  push(source: unknown, item: T): Entered<T> {
    const count = this.#waiting.get(source)?.length ?? 0;
    if (count >= this.#ofSourceMax) return { kind: "refused" };
    if (this.#length < this.#max) {
      this.#add(source, item);
      return { kind: "waits" };
    }
    const longest = this.#longest();
    // One that has as many does not win by it.
    if (longest === undefined || longest.length <= count + 1) return { kind: "refused" };
    const last = longest.pop() as T;
    this.#length--;
    this.#add(source, item);
    return { kind: "put off", item: last };
  }

  shift(): T | undefined {
    const source = this.#turns.shift();
    const waiting = this.#waiting.get(source);
    const item = waiting?.shift();
    if (waiting === undefined || item === undefined) return undefined;
    this.#length--;
    if (waiting.length > 0) this.#turns.push(source);
    else this.#waiting.delete(source);
    return item;
  }

  #add(source: unknown, item: T): void {
    let waiting = this.#waiting.get(source);
    if (waiting === undefined) {
      waiting = new Ring();
      this.#waiting.set(source, waiting);
      this.#turns.push(source);
    }
    waiting.push(item);
    this.#length++;
  }

  /** Looked for only when there is no room. */
  #longest(): Ring<T> | undefined {
    let longest: Ring<T> | undefined;
    for (const waiting of this.#waiting.values())
      if (longest === undefined || waiting.length > longest.length) longest = waiting;
    return longest;
  }
}
