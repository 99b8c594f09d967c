// What a leader believes of one follower, and why.
import { assert } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import type { NodeId } from "../model/ids.ts";
import type { CountedReplica } from "./high-watermark.ts";

const UNKNOWN = -1;

/**
 * One follower in one leader epoch, fenced by (broker epoch, session) (D-3, R-23).
 *
 * Shape:     `position`: its log equals ours below this, as a fetch of this session proved. `reported`: what it said is durable there since.
 *            durableEnd = min(reported, position), -1 until both are known.
 * Invariant: a newer session, a slot added anew, or a position that goes back below what was credited takes all of it back.
 * Example:   session 7
 *              fetch at 10, does not diverge -> position 10                     durableEnd -1
 *              reports 14                    -> reported 14                     durableEnd 10: [10, 14) may be what an older leader wrote
 *              fetch at 14                   -> position 14                     durableEnd 14
 *            session 8
 *              fetch at 14                   -> position 14, reported -1        durableEnd -1: it may have another disk
 *              late bytes of session 7       -> refused
 */
export class FollowerProgress implements CountedReplica {
  readonly nodeId: NodeId;
  brokerEpoch = UNKNOWN;
  sessionId = UNKNOWN;
  position = UNKNOWN;
  durableEnd = UNKNOWN;
  #reported = UNKNOWN;
  /** Where its log begins durably, as it said; below it nothing comes back. */
  startOffset = UNKNOWN;
  /** In the committed ISR. */
  isInSync = false;
  /** In the maximal ISR: the high watermark waits for it. */
  isCounted = false;
  /** While its durable end is not known: since when it may lag. */
  unknownSinceMs: number;
  /** It is not brought into the ISR before (D-8, R-32). */
  joinNotBeforeMs = 0;
  joinFailures = 0;
  /** Where the high watermark stood at this moment, for who is not in sync: how fast it follows. */
  chasedOffset = UNKNOWN;
  chasedMs = 0;

  constructor(nodeId: NodeId, unknownSinceMs: number) {
    this.nodeId = nodeId;
    this.unknownSinceMs = unknownSinceMs;
  }

  /** "stale": of an older incarnation or session, which must change nothing. */
  place(brokerEpoch: number, sessionId: number): "present" | "newer" | "stale-epoch" | "stale-session" {
    if (brokerEpoch !== this.brokerEpoch) return brokerEpoch > this.brokerEpoch ? "newer" : "stale-epoch";
    if (sessionId === this.sessionId) return "present";
    return sessionId > this.sessionId ? "newer" : "stale-session";
  }

  enter(brokerEpoch: number, sessionId: number, behindSinceMs: number): void {
    this.brokerEpoch = brokerEpoch;
    this.sessionId = sessionId;
    if (!mutant("D-3s")) this.forget(behindSinceMs);
  }

  /** Nothing is proven any more. `behindSinceMs`: of what was known until now. */
  forget(behindSinceMs: number): void {
    if (this.durableEnd !== UNKNOWN) this.unknownSinceMs = behindSinceMs;
    this.position = UNKNOWN;
    this.durableEnd = UNKNOWN;
    this.#reported = UNKNOWN;
    this.startOffset = UNKNOWN;
    this.chasedOffset = UNKNOWN;
  }

  /** Its log equals ours below `offset`. */
  validate(offset: number): void {
    if (offset < this.position && offset < this.#reported) this.#reported = offset;
    this.position = offset;
    this.#credit();
  }

  report(durableEnd: number, startOffset: number): void {
    // Comes from the wire: whatever it says, it breaks nothing here.
    if (durableEnd < 0) return;
    if (this.position === UNKNOWN && !mutant("D-3s") && !mutant("D-3")) return;
    this.#reported = durableEnd;
    this.startOffset = Math.max(UNKNOWN, startOffset);
    this.#credit();
  }

  #credit(): void {
    this.durableEnd = mutant("D-3p") ? this.#reported : Math.min(this.#reported, this.position);
    assert(this.durableEnd >= UNKNOWN, "a credit below nothing");
  }
}
