// The sparse offset index of one segment (S-12): int32 last offset of a batch, relative to the segment's base, and int32 position
// of that batch's start. A cache of the log: verified when loaded, rebuilt from the log when missing or wrong (S-15).
import { readI32, writeU32 } from "../base/bytes.ts";

export const INDEX_ENTRY_BYTES = 8;
/** Kafka's segment.index.bytes: a full index rolls the segment (S-7 c). */
export const INDEX_ENTRIES_MAX = (10 * 1024 * 1024) / INDEX_ENTRY_BYTES;

export class OffsetIndex {
  #entries = new Int32Array(16);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  get isFull(): boolean {
    return this.#count >= INDEX_ENTRIES_MAX;
  }

  relativeAt(entry: number): number {
    return this.#entries[entry * 2] as number;
  }

  positionAt(entry: number): number {
    return this.#entries[entry * 2 + 1] as number;
  }

  add(entry: { readonly relativeLast: number; readonly position: number }): void {
    if (this.#count * 2 === this.#entries.length) {
      const grown = new Int32Array(this.#entries.length * 2);
      grown.set(this.#entries);
      this.#entries = grown;
    }
    this.#entries[this.#count * 2] = entry.relativeLast;
    this.#entries[this.#count * 2 + 1] = entry.position;
    this.#count++;
  }

  /** Number of entries whose last offset is <= `relative`. */
  #countUpTo(relative: number): number {
    let low = 0;
    let high = this.#count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.relativeAt(middle) <= relative) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Where to start looking for the batch that holds this relative offset. */
  lookup(relative: number): number {
    const count = this.#countUpTo(relative);
    return count === 0 ? 0 : this.positionAt(count - 1);
  }

  /** Drops the entries of batches that reach to `relative` or beyond (S-14). */
  truncateTo(relative: number): void {
    this.#count = this.#countUpTo(relative - 1);
  }

  /** Drops the entries at or behind a position. */
  truncateToPosition(position: number): void {
    while (this.#count > 0 && this.positionAt(this.#count - 1) >= position) this.#count--;
  }

  encode(): Uint8Array {
    const bytes = new Uint8Array(this.#count * INDEX_ENTRY_BYTES);
    for (let at = 0; at < this.#count * 2; at++) writeU32(bytes, at * 4, this.#entries[at] as number);
    return bytes;
  }

  /** Undefined when the size is no multiple of an entry or the entries do not increase. */
  static decode(bytes: Uint8Array): OffsetIndex | undefined {
    if (bytes.length % INDEX_ENTRY_BYTES !== 0) return undefined;
    const index = new OffsetIndex();
    let previous = { relativeLast: -1, position: -1 };
    for (let at = 0; at < bytes.length; at += INDEX_ENTRY_BYTES) {
      const entry = { relativeLast: readI32(bytes, at), position: readI32(bytes, at + 4) };
      if (entry.relativeLast <= previous.relativeLast || entry.position <= previous.position) return undefined;
      index.add(entry);
      previous = entry;
    }
    return index;
  }
}
