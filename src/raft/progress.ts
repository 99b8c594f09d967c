// What a leader knows of one peer, and how much it may send it.
import { assert } from "../base/assert.ts";
import { Ring } from "../base/ring.ts";
import type { RaftSettings } from "./settings.ts";
import type { SnapshotMeta } from "./types.ts";

export type ProgressState =
  /** Where the logs part is not known: one append at a time, and none more until it is answered or a heartbeat is due. */
  | { readonly kind: "probe"; isWaiting: boolean }
  /** They are equal up to nextIndex as far as known: append after append without waiting, within the limits. */
  | { readonly kind: "replicate" }
  /** The peer needs entries that are gone here: chunks of a snapshot, one at a time. */
  | { readonly kind: "snapshot"; readonly snapshot: SnapshotMeta; position: number; sentTick: number };

interface InFlight {
  readonly end: number;
  readonly sizeBytes: number;
}

/**
 * Shape:     matchEnd <= nextIndex. [0, matchEnd) is durable there and equal to the leader's log; nextIndex is sent next.
 * Invariant: matchEnd never falls; in flight at most inFlightMessagesMax appends, and at most inFlightBytesMax bytes plus one append.
 * Example:   probe at 10 -> refused, hint 7 -> probe at 7 -> matched 9 -> replicate from 9 -> [9, 12) sent, [12, 13) sent -> matched 12.
 */
export class Progress {
  matchEnd = 0;
  nextIndex: number;
  state: ProgressState = { kind: "probe", isWaiting: false };
  /** The commit end that the peer was last told. */
  sentCommitEnd = 0;
  /** Tick of the last message from it in this term: what check-quorum counts. */
  contactTick: number;
  /** Highest round of heartbeats that it answered. */
  answeredRound = 0;
  readonly #inFlight = new Ring<InFlight>();
  #inFlightBytes = 0;

  constructor({ nextIndex, tick }: { readonly nextIndex: number; readonly tick: number }) {
    this.nextIndex = nextIndex;
    this.contactTick = tick;
  }

  get inFlightCount(): number {
    return this.#inFlight.length;
  }

  canSend(settings: RaftSettings): boolean {
    switch (this.state.kind) {
      case "probe":
        return !this.state.isWaiting;
      case "replicate":
        return this.#inFlight.length < settings.inFlightMessagesMax && this.#inFlightBytes < settings.inFlightBytesMax;
      case "snapshot":
        return false;
    }
  }

  /** Entries up to `end` are on their way. */
  sent({ end, sizeBytes }: InFlight): void {
    if (this.state.kind === "probe") {
      this.state.isWaiting = true;
      return;
    }
    if (end === this.nextIndex) return;
    this.nextIndex = end;
    this.#inFlight.push({ end, sizeBytes });
    this.#inFlightBytes += sizeBytes;
  }

  /** True when this is news. */
  matched(end: number): boolean {
    const isNews = end > this.matchEnd;
    if (isNews) this.matchEnd = end;
    this.nextIndex = Math.max(this.nextIndex, this.matchEnd);
    while (this.#inFlight.length > 0 && (this.#inFlight.peek()?.end ?? 0) <= end)
      this.#inFlightBytes -= this.#inFlight.shift()?.sizeBytes ?? 0;
    if (this.state.kind === "probe" || (this.state.kind === "snapshot" && end >= this.state.snapshot.end))
      this.becomeReplicate();
    return isNews;
  }

  becomeProbe(nextIndex: number): void {
    this.nextIndex = Math.max(nextIndex, this.matchEnd);
    this.#clear({ kind: "probe", isWaiting: false });
  }

  becomeReplicate(): void {
    this.nextIndex = this.matchEnd;
    this.#clear({ kind: "replicate" });
  }

  becomeSnapshot(snapshot: SnapshotMeta, tick: number): void {
    this.#clear({ kind: "snapshot", snapshot, position: 0, sentTick: tick });
  }

  #clear(state: ProgressState): void {
    this.state = state;
    this.#inFlight.clear();
    this.#inFlightBytes = 0;
  }

  checkInvariants({ inFlightMessagesMax }: RaftSettings): void {
    const { matchEnd, nextIndex } = this;
    if (matchEnd <= nextIndex && this.#inFlight.length <= inFlightMessagesMax) return;
    assert(
      false,
      `match end ${matchEnd}, next index ${nextIndex}, ${this.#inFlight.length} appends in flight of ${inFlightMessagesMax}`,
    );
  }
}
