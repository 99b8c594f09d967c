// The one formula that says what is committed.
import { mutant } from "../base/mutant.ts";

/** A follower in the maximal ISR. */
export interface CountedReplica {
  readonly isCounted: boolean;
  /** As credited by the leader, -1 not known. */
  readonly durableEnd: number;
}

/**
 * Where the high watermark may stand: the smallest durable end over the maximal ISR (D-35: never what was only sent or written).
 *
 * Shape:     `own`: the leader's durable end. `followers`: those that count are the members of the maximal ISR, which holds whoever may be in the
 *            ISR for the controller: the committed one, a proposed newcomer, a joining one (R-30, D-8). `spare`: members of the committed ISR
 *            less min ISR.
 * Invariant: the result is >= `current` and, where it moved, <= every durable end that counts. It stands still while fewer than min ISR
 *            replicas are in the committed ISR (R-3, strict).
 * Example:   current 5, own 10, followers [7 counted, 3 not], spare 0 -> 7
 *            current 5, own 10, no followers,                 spare -1 -> 5: below min ISR
 *            current 5, own 10, followers [4 counted],        spare 0 -> 5: a member behind the mark never takes it back
 */
export function nextHighWatermark(
  current: number,
  own: number,
  followers: readonly CountedReplica[],
  spare: number,
): number {
  if (spare < 0 && !mutant("M15")) return current;
  let end = own;
  for (const follower of followers) {
    if (!follower.isCounted) continue;
    if (mutant("M5") ? follower.durableEnd > end : follower.durableEnd < end) end = follower.durableEnd;
  }
  return end > current ? end : current;
}
