// Which registered brokers the controller still hears of. Memory of one controller, never written: the next one begins anew.
import { mutant } from "../base/mutant.ts";
import type { NodeId } from "../model/ids.ts";

export interface SessionTiming {
  /** A broker that was not heard of for this long has lost its session. */
  readonly sessionMs: number;
  /** The host calls `tick` this often. */
  readonly tickMs: number;
}

interface Session {
  heardMs: number;
  /** It was given its second look already (D-22). */
  isRearmed: boolean;
}

/**
 * Shape:     one session for each registered broker that is, or just was, heard of; times are of a monotonic clock.
 * Rule:      (D-22) A tick that comes late by more than a quarter of the session says that this process stood still: what its brokers sent meanwhile
 *            may wait unread. What is due then is looked at again by the next tick, at least a poll turn later, once.
 * Bound:     the number of registered brokers.
 */
export class Sessions {
  readonly #timing: SessionTiming;
  readonly #sessions = new Map<NodeId, Session>();
  #lastTickMs: number | undefined;

  constructor(timing: SessionTiming) {
    this.#timing = timing;
  }

  /** A new controller: each registered broker has a fresh session, whatever was known before. */
  begin(nodeIds: Iterable<NodeId>, nowMs: number): void {
    this.#sessions.clear();
    this.#lastTickMs = nowMs;
    for (const nodeId of nodeIds) this.heard(nodeId, nowMs);
  }

  /** A request of the broker's registered incarnation arrived. Call it when it arrives, however busy the controller is. */
  heard(nodeId: NodeId, nowMs: number): void {
    const session = this.#sessions.get(nodeId);
    if (session === undefined) {
      this.#sessions.set(nodeId, { heardMs: nowMs, isRearmed: false });
      return;
    }
    session.heardMs = Math.max(session.heardMs, nowMs);
    session.isRearmed = false;
  }

  /** The broker is known to be gone: it stopped, or its port refuses. */
  end(nodeId: NodeId): void {
    this.#sessions.delete(nodeId);
  }

  /** When it was heard of last; undefined without a session. */
  heardMs(nodeId: NodeId): number | undefined {
    return this.#sessions.get(nodeId)?.heardMs;
  }

  /** Its session has not ended, as far as the last tick could tell. */
  isLive(nodeId: NodeId): boolean {
    return this.#sessions.has(nodeId);
  }

  /** Ends the sessions that are due and names their brokers, ascending, each once. Calls are at least a poll turn apart. */
  tick(nowMs: number): readonly NodeId[] {
    const isLate = this.#isLate(nowMs);
    this.#lastTickMs = nowMs;
    const expired: NodeId[] = [];
    for (const [nodeId, session] of this.#sessions) {
      if (nowMs - session.heardMs < this.#timing.sessionMs) continue;
      if (isLate && !session.isRearmed) session.isRearmed = true;
      else expired.push(nodeId);
    }
    for (const nodeId of expired) this.#sessions.delete(nodeId);
    return expired.sort((left, right) => left - right);
  }

  #isLate(nowMs: number): boolean {
    if (this.#lastTickMs === undefined || mutant("D-22")) return false;
    return nowMs - (this.#lastTickMs + this.#timing.tickMs) > this.#timing.sessionMs / 4;
  }
}
