// How long to wait before the next try: doubling, with jitter, so that many clients of one broker do not come back in step.
import type { Rng } from "../base/rng.ts";

const FIRST_MS = 50;
const LONGEST_MS = 1_000;

/** `attempt` counts from 1. */
export function backoffMs(attempt: number, rng: Rng): number {
  const fullMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt - 1, 10));
  return Math.round(fullMs / 2 + rng.below(fullMs / 2 + 1));
}
