// Unpredictable bytes, from the operating system.
import { randomFillSync } from "node:crypto";
import type { Entropy } from "../ports/entropy.ts";

export function createEntropy(): Entropy {
  return {
    fill(target: Uint8Array): void {
      randomFillSync(target);
    },
  };
}
