// Seeded randomness: sfc32 (C. Doty-Humphrey, PractRand). Every core that needs chance is handed one of these.

/** A stream of reproducible random numbers. Draws of one stream never shift those of another. */
export interface Rng {
  /** Uniform in [0, 2^32). */
  u32(): number;
  /** Uniform in [0, bound), bound a positive integer up to 2^53. */
  below(bound: number): number;
  /** Uniform in [low, high], both inclusive integers. */
  between(low: number, high: number): number;
  /** True with this probability, 0..1. */
  chance(probability: number): boolean;
  /** One element of a non-empty list. */
  pick<T>(items: readonly T[]): T;
  fill(target: Uint8Array): void;
  /** A child stream named `label`: the same parent seed and label always give the same stream, however much the parent drew. */
  fork(label: string): Rng;
}

type Seed = readonly [number, number, number, number];

/** A stream from a seed: an unsigned integer up to 2^53, or four 32-bit words (for 128 bits of entropy). `onDraw` sees every u32. */
export function createRng(seed: number | Seed, onDraw?: (value: number) => void): Rng {
  const words: Seed =
    typeof seed === "number" ? [seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0, 0x9e3779b9, 0x243f6a88] : seed;
  return new Sfc32(words, onDraw);
}

class Sfc32 implements Rng {
  readonly #seed: Seed;
  readonly #onDraw: ((value: number) => void) | undefined;
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: Seed, onDraw?: (value: number) => void) {
    this.#seed = seed;
    this.#onDraw = onDraw;
    this.#a = seed[0] ^ seed[3];
    this.#b = seed[1];
    this.#c = seed[2];
    for (let round = 0; round < 15; round++) this.#next();
  }

  #next(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    this.#c |= 0;
    return sum >>> 0;
  }

  u32(): number {
    const value = this.#next();
    this.#onDraw?.(value);
    return value;
  }

  #unit(): number {
    return ((this.u32() >>> 5) * 67108864 + (this.u32() >>> 6)) / 9007199254740992;
  }

  below(bound: number): number {
    return bound <= 0x100000000 ? Math.floor((this.u32() / 0x100000000) * bound) : Math.floor(this.#unit() * bound);
  }

  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  chance(probability: number): boolean {
    return this.#unit() < probability;
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (items.length === 0) throw new RangeError("pick from an empty list");
    return item as T;
  }

  fill(target: Uint8Array): void {
    for (let position = 0; position < target.length; position += 4) {
      const word = this.u32();
      for (let byte = 0; byte < 4 && position + byte < target.length; byte++)
        target[position + byte] = word >>> (byte * 8);
    }
  }

  fork(label: string): Rng {
    return new Sfc32(
      [this.#mix(label, 1), this.#mix(label, 2), this.#mix(label, 3), this.#mix(label, 4)],
      this.#onDraw,
    );
  }

  /** A word of seed, label and `salt`. The seed goes in word after word: a.fork("x").fork("y") is neither "y" then "x" nor a itself. */
  #mix(label: string, salt: number): number {
    let hash = Math.imul(salt, 0x9e3779b1);
    for (const word of this.#seed) hash = scramble(hash ^ word);
    for (let at = 0; at < label.length; at++) hash = Math.imul(hash ^ label.charCodeAt(at), 0x01000193);
    return scramble(hash ^ label.length) >>> 0;
  }
}

/** The finaliser of MurmurHash3 (A. Appleby), plus an odd constant so that 0 does not map to itself. */
function scramble(word: number): number {
  let mixed = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return ((mixed ^ (mixed >>> 16)) + 0x6d2b79f5) | 0;
}
