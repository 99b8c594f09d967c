// Keys and the offset of the last record of each, in few large arrays. Whole keys: two keys are never taken for one (S-35).
import { bytesEqual } from "../../base/bytes.ts";

/** Hash, place and length of the key, and its offset. */
const ENTRY_BYTES = 4 + 4 + 4 + 8;
const SLOT_BYTES = 4;
const FIRST_ENTRIES = 1024;
const FIRST_ARENA_BYTES = 16 * 1024;
/** Slots for each entry: at most half of them are taken. */
const SLOTS_PER_ENTRY = 2;

/**
 * Bound:   `maxBytes`, what grows counted with its next size; a first key is taken whatever its size.
 * Order:   offsets only rise, so the last one put counts.
 */
export class KeyMap {
  readonly #maxBytes: number;
  readonly #seed: number;
  #arena = new Uint8Array(FIRST_ARENA_BYTES);
  #arenaUsed = 0;
  #hashes = new Uint32Array(FIRST_ENTRIES);
  #starts = new Uint32Array(FIRST_ENTRIES);
  #lengths = new Uint32Array(FIRST_ENTRIES);
  #offsets = new Float64Array(FIRST_ENTRIES);
  /** Number of an entry and one; 0: free. */
  #slots = new Uint32Array(FIRST_ENTRIES * SLOTS_PER_ENTRY);
  #count = 0;

  /** `seed`: drawn anew for each map, so that nobody can choose keys that meet. */
  constructor({ maxBytes, seed }: { readonly maxBytes: number; readonly seed: number }) {
    this.#maxBytes = maxBytes;
    this.#seed = seed;
  }

  get size(): number {
    return this.#count;
  }

  /** -1: not there. */
  get(key: Uint8Array): number {
    const slot = this.#find(key, this.#hash(key));
    const entry = (this.#slots[slot] as number) - 1;
    return entry < 0 ? -1 : (this.#offsets[entry] as number);
  }

  /** False: there is no room, and nothing has changed. */
  put(key: Uint8Array, offset: number): boolean {
    const hash = this.#hash(key);
    let slot = this.#find(key, hash);
    const known = (this.#slots[slot] as number) - 1;
    if (known >= 0) {
      this.#offsets[known] = offset;
      return true;
    }
    if (!this.#makeRoom(key.length)) return false;
    slot = this.#find(key, hash);
    const entry = this.#count++;
    this.#arena.set(key, this.#arenaUsed);
    this.#hashes[entry] = hash;
    this.#starts[entry] = this.#arenaUsed;
    this.#lengths[entry] = key.length;
    this.#offsets[entry] = offset;
    this.#slots[slot] = entry + 1;
    this.#arenaUsed += key.length;
    return true;
  }

  /** FNV-1a, with the mixing at the end that spreads it over all bits. */
  #hash(key: Uint8Array): number {
    let hash = this.#seed ^ 0x811c9dc5;
    for (const byte of key) hash = Math.imul(hash ^ byte, 0x01000193);
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    return (hash ^ (hash >>> 16)) >>> 0;
  }

  /** The slot of the key, or the free one where it belongs. */
  #find(key: Uint8Array, hash: number): number {
    const mask = this.#slots.length - 1;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const entry = (this.#slots[slot] as number) - 1;
      if (entry < 0 || (this.#hashes[entry] === hash && this.#isKey(entry, key))) return slot;
    }
  }

  #isKey(entry: number, key: Uint8Array): boolean {
    const start = this.#starts[entry] as number;
    return this.#lengths[entry] === key.length && bytesEqual(this.#arena.subarray(start, start + key.length), key);
  }

  #makeRoom(keyBytes: number): boolean {
    const entries = this.#count < this.#offsets.length ? this.#offsets.length : this.#offsets.length * 2;
    let arenaBytes = this.#arena.length;
    while (this.#arenaUsed + keyBytes > arenaBytes) arenaBytes *= 2;
    const bytes = entries * (ENTRY_BYTES + SLOT_BYTES * SLOTS_PER_ENTRY) + arenaBytes;
    if (
      this.#count > 0 &&
      bytes > this.#maxBytes &&
      (entries > this.#offsets.length || arenaBytes > this.#arena.length)
    )
      return false;
    if (arenaBytes > this.#arena.length) this.#arena = grown(this.#arena, new Uint8Array(arenaBytes));
    if (entries > this.#offsets.length) this.#growEntries(entries);
    return true;
  }

  #growEntries(entries: number): void {
    this.#hashes = grown(this.#hashes, new Uint32Array(entries));
    this.#starts = grown(this.#starts, new Uint32Array(entries));
    this.#lengths = grown(this.#lengths, new Uint32Array(entries));
    const offsets = new Float64Array(entries);
    offsets.set(this.#offsets);
    this.#offsets = offsets;
    this.#slots = new Uint32Array(entries * SLOTS_PER_ENTRY);
    const mask = this.#slots.length - 1;
    for (let entry = 0; entry < this.#count; entry++) {
      let slot = (this.#hashes[entry] as number) & mask;
      while (this.#slots[slot] !== 0) slot = (slot + 1) & mask;
      this.#slots[slot] = entry + 1;
    }
  }
}

function grown<Bytes extends Uint8Array<ArrayBuffer> | Uint32Array<ArrayBuffer>>(from: Bytes, to: Bytes): Bytes {
  to.set(from);
  return to;
}
