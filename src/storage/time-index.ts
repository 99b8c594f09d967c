// The time index of one segment (S-13): int64 timestamp and int32 offset, relative to the segment's base, both strictly increasing. An
// entry says that no batch up to this offset is newer than this timestamp, and that the batch which ends there is the first that new.
// A cache like the offset index: entries are made with its entries, and a last one when the segment is sealed.
import { readI32, readI64, writeI64, writeU32 } from "../base/bytes.ts";
import { type IndexCheck, NO_ENTRIES, SavedEntries } from "./saved-entries.ts";

export const TIME_INDEX_ENTRY_BYTES = 12;

const NO_TIMES = new Float64Array(0);
const NO_OFFSETS = new Int32Array(0);
const FIRST_CAPACITY = 16;

export interface TimeEntry {
  readonly timestamp: number;
  /** Last offset of the first batch that has it. */
  readonly relativeLast: number;
}

export class TimeIndex extends SavedEntries {
  #times = NO_TIMES;
  #offsets = NO_OFFSETS;
  #count = 0;

  override get count(): number {
    return this.#count;
  }

  at(entry: number): TimeEntry {
    return { timestamp: this.#times[entry] as number, relativeLast: this.#offsets[entry] as number };
  }

  get last(): TimeEntry | undefined {
    return this.#count === 0 ? undefined : this.at(this.#count - 1);
  }

  /** Nothing when the segment has become no newer since the last entry, or has no timestamps. */
  add({ timestamp, relativeLast }: TimeEntry): void {
    if (timestamp < 0 || timestamp <= (this.last?.timestamp ?? -1)) return;
    if (this.#count === this.#times.length) this.#grow();
    this.#times[this.#count] = timestamp;
    this.#offsets[this.#count] = relativeLast;
    this.#count++;
  }

  #grow(): void {
    const capacity = Math.max(FIRST_CAPACITY, this.#count * 2);
    const times = new Float64Array(capacity);
    const offsets = new Int32Array(capacity);
    times.set(this.#times);
    offsets.set(this.#offsets);
    this.#times = times;
    this.#offsets = offsets;
  }

  /** Number of entries that are older than `timestamp`. */
  countBefore(timestamp: number): number {
    let low = 0;
    let high = this.#count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#times[middle] as number) < timestamp) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Drops the entries behind this offset. */
  truncateBehind(relative: number): void {
    while (this.#count > 0 && (this.#offsets[this.#count - 1] as number) > relative) this.#count--;
    this.noteDropped();
  }

  clear(): void {
    this.#count = 0;
    this.noteDropped();
  }

  /** The entries from this one on. */
  override encode(from = 0): Uint8Array {
    const bytes = new Uint8Array((this.#count - from) * TIME_INDEX_ENTRY_BYTES);
    for (let entry = from; entry < this.#count; entry++) {
      const position = (entry - from) * TIME_INDEX_ENTRY_BYTES;
      writeI64(bytes, position, this.#times[entry] as number);
      writeU32(bytes, position + 8, this.#offsets[entry] as number);
    }
    return bytes;
  }

  /** As OffsetIndex.decode. */
  static decode(
    bytes: Uint8Array,
    from: { readonly check: IndexCheck; readonly isWholeFile: boolean } = { check: NO_ENTRIES, isWholeFile: false },
  ): TimeIndex | undefined {
    if (bytes.length % TIME_INDEX_ENTRY_BYTES !== 0) return undefined;
    const index = new TimeIndex();
    let before: TimeEntry = { timestamp: -1, relativeLast: -1 };
    for (let at = 0; at < bytes.length; at += TIME_INDEX_ENTRY_BYTES) {
      const entry = { timestamp: readI64(bytes, at), relativeLast: readI32(bytes, at + 8) };
      const isSafe = Number.isSafeInteger(entry.timestamp);
      if (!isSafe || entry.timestamp <= before.timestamp || entry.relativeLast <= before.relativeLast) return undefined;
      index.add(entry);
      before = entry;
    }
    index.noteLoaded(from.check, from.isWholeFile);
    return index;
  }
}
