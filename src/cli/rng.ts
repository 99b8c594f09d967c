// The seed of a real process: the operating system's randomness.
import { createRng, type Rng } from "../base/rng.ts";
import type { Entropy } from "../ports/entropy.ts";

/** 128 bits of the operating system's randomness as a seed. */
export function rngFromSystem(entropy: Entropy): Rng {
  const words = new Uint32Array(4);
  entropy.fill(new Uint8Array(words.buffer));
  const [a = 0, b = 0, c = 0, d = 0] = words;
  return createRng([a, b, c, d]);
}
