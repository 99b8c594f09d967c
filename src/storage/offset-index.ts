// The sparse offset index of one segment (S-12): int32 last offset of a batch, relative to the segment's base, and int32 position
// of that batch's start. A cache of the log: verified when loaded, rebuilt from the log when missing or wrong (S-15).
import { readI32, writeU32 } from "../base/bytes.ts";
import { type IndexCheck, NO_ENTRIES, SavedEntries } from "./saved-entries.ts";

export const INDEX_ENTRY_BYTES = 8;
/** Kafka's default of segment.index.bytes: a full index rolls the segment (S-7 c). */
export const INDEX_BYTES_MAX = 10 * 1024 * 1024;

const NOTHING = new Int32Array(0);
const FIRST_CAPACITY = 16;

export interface OffsetEntry {
  readonly relativeLast: number;
  readonly position: number;
}

export class OffsetIndex extends SavedEntries {
  #entries = NOTHING;
  #count = 0;

  override get count(): number {
    return this.#count;
  }

  at(entry: number): OffsetEntry {
    return { relativeLast: this.relativeAt(entry), position: this.positionAt(entry) };
  }

  get last(): OffsetEntry | undefined {
    return this.#count === 0 ? undefined : this.at(this.#count - 1);
  }

  relativeAt(entry: number): number {
    return this.#entries[entry * 2] as number;
  }

  positionAt(entry: number): number {
    return this.#entries[entry * 2 + 1] as number;
  }

  add(entry: OffsetEntry): void {
    if (this.#count * 2 === this.#entries.length) {
      const grown = new Int32Array(Math.max(FIRST_CAPACITY, this.#count * 2) * 2);
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

  /** The last offset of the entries below `relative`; 0 when there is none. */
  lastBefore(relative: number): number {
    const count = this.#countUpTo(relative - 1);
    return count === 0 ? 0 : this.relativeAt(count - 1);
  }

  /** Drops the entries of batches that reach to `relative` or beyond (S-14). */
  truncateTo(relative: number): void {
    this.#count = this.#countUpTo(relative - 1);
    this.noteDropped();
  }

  override encode(from = 0): Uint8Array {
    const bytes = new Uint8Array((this.#count - from) * INDEX_ENTRY_BYTES);
    for (let at = 0; at < bytes.length; at += 4) writeU32(bytes, at, this.#entries[from * 2 + at / 4] as number);
    return bytes;
  }

  /** Undefined when the size is no multiple of an entry or the entries do not increase. `isWholeFile`: the bytes are all that the file has. */
  static decode(
    bytes: Uint8Array,
    from: { readonly check: IndexCheck; readonly isWholeFile: boolean } = { check: NO_ENTRIES, isWholeFile: false },
  ): OffsetIndex | undefined {
    if (bytes.length % INDEX_ENTRY_BYTES !== 0) return undefined;
    const index = new OffsetIndex();
    let previous = { relativeLast: -1, position: -1 };
    for (let at = 0; at < bytes.length; at += INDEX_ENTRY_BYTES) {
      const entry = { relativeLast: readI32(bytes, at), position: readI32(bytes, at + 4) };
      if (entry.relativeLast <= previous.relativeLast || entry.position <= previous.position) return undefined;
      index.add(entry);
      previous = entry;
    }
    index.noteLoaded(from.check, from.isWholeFile);
    return index;
  }
}
