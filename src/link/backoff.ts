// How long to wait before the next try: doubling, with jitter, so that many clients of one broker do not come back in step.
import { mutant } from "../base/mutant.ts";
import type { Rng } from "../base/rng.ts";

export interface BackoffRange {
  readonly firstMs: number;
  readonly longestMs: number;
}

const DEFAULT_RANGE: BackoffRange = { firstMs: 50, longestMs: 1_000 };

/** `attempt` counts from 1. */
export function backoffMs(attempt: number, rng: Rng, { firstMs, longestMs } = DEFAULT_RANGE): number {
  if (mutant("M33b")) return 0;
  const fullMs = Math.min(longestMs, firstMs * 2 ** Math.min(attempt - 1, 10));
  return Math.round(fullMs / 2 + rng.below(fullMs / 2 + 1));
}
