// The follower's half of a partition: from where it asks, what it takes, where it cuts, what it says is durable.
import { mutant } from "../base/mutant.ts";
import type { ErrorName } from "../model/errors.ts";
import { NO_LEADER_EPOCH, type LeaderEpoch, type NodeId, type Offset } from "../model/ids.ts";
import type { Effects } from "./effects.ts";
import type { LogState } from "./log-state.ts";
import type { CoreSettings, Divergence, FetchedBatch, FollowerEvent, PartitionRecord } from "./types.ts";

type Fetched<Body> = Extract<FollowerEvent<Body>, { kind: "fetched" }>;

/** While the leader's metadata may only be a little behind. Doubled up to replica.fetch.backoff.ms. */
const QUICK_RETRY_MS = 50;
/** About 5 s: as long as metadata may take to come. */
const COUNTED_TRIES = 8;
const NEVER = Number.POSITIVE_INFINITY;

/**
 * One partition on a follower.
 *
 * Shape:     it asks with (leader epoch, fetch offset = accepted end, latest epoch of its history); what does not answer exactly that is dropped.
 * Invariant: nothing is reported before an answer of this session and leader epoch proved that the log is the leader's (D-3), and then only what
 *            is durable. Nothing is cut but by comparing epochs, and never below the high watermark that was validated here (D-9).
 * Example:   log [0, 20), epochs [(0, 0), (1, 12)], highWatermark 10, durable 20; node 2 leads in epoch 3, where epoch 1 was never written
 *              follow                                     -> fetch at 20, last epoch 1
 *              diverging (0, 15)                          -> truncate to 12: our epoch 0 ends there, theirs at 15
 *              truncated                                  -> fetch at 12, last epoch 0
 *              batch [12, 14] of epoch 0, leader's mark 9 -> append-fetched; report 12; fetch at 15     validated: 12 of it is durable
 *              durable 15                                 -> report 15
 *            and had the high watermark been 14:
 *              diverging (0, 15)                          -> damaged: an unclean leader never had what was committed here
 * Source:   ; B-18, B-19; D-3, D-9.
 */
export class Follower<Token, Body> {
  readonly #settings: CoreSettings;
  readonly #log: LogState;
  readonly #effects: Effects<Token, Body>;
  #leaderId = -1 as NodeId;
  #leaderEpoch: LeaderEpoch = NO_LEADER_EPOCH;
  /** Of the record followed. */
  #uncleanEpoch = -1;
  /** In the ISR or the ELR, as far as is known here: it may be elected. */
  #isCounted = false;
  #isFollowing = false;
  /** Infinity: not before another epoch. 0: its position is out. */
  #retryAtMs = 0;
  #failures = 0;
  #nowMs = 0;
  /** In this session and leader epoch the leader has found our log to be a part of its own. */
  #isValidated = false;
  /** The next position is the first of its slot. */
  #isNewSlot = true;
  #reportedEnd = -1;
  #reportedStart = -1;
  /** As last heard in this leader epoch; ours stops at what is durable here. */
  #leaderMark = -1;
  /** As last heard in this leader epoch; ours stops at our high watermark. */
  #leaderStart = -1;

  constructor(settings: CoreSettings, parts: { readonly log: LogState; readonly effects: Effects<Token, Body> }) {
    this.#settings = settings;
    this.#log = parts.log;
    this.#effects = parts.effects;
  }

  get isFollowing(): boolean {
    return this.#isFollowing;
  }
  get isValidated(): boolean {
    return this.#isValidated;
  }
  /** When a tick gives the position again; undefined: it is out, or nothing is to be asked. */
  get retryAtMs(): number | undefined {
    return this.#isFollowing && this.#retryAtMs > 0 && this.#retryAtMs < NEVER ? this.#retryAtMs : undefined;
  }

  /** each time from the start, also where the leader is the same node. */
  start(record: PartitionRecord, leaderId: NodeId, nowMs: number): void {
    this.#isFollowing = true;
    this.#leaderId = leaderId;
    this.#leaderEpoch = record.leaderEpoch;
    this.#uncleanEpoch = record.uncleanEpoch;
    this.update(record);
    this.#nowMs = nowMs;
    this.#leaderMark = -1;
    this.#leaderStart = -1;
    this.#failures = 0;
    this.#restart();
    if (this.#log.isCutting) return;
    if (mutant("M7") && this.#log.highWatermark < this.#log.endOffset) this.#cut(this.#log.highWatermark);
    else this.#ask();
  }

  /** Of the leader epoch that is followed. */
  update({ isr, elr }: PartitionRecord): void {
    const { self } = this.#settings;
    this.#isCounted = isr.includes(self) || elr.includes(self);
  }

  stop(): void {
    this.#isFollowing = false;
  }

  sessionStarted(nowMs: number): void {
    if (!this.#isFollowing || this.#retryAtMs === NEVER) return;
    this.#nowMs = nowMs;
    this.#restart();
    if (!this.#log.isCutting) this.#ask();
  }

  fetched(event: Fetched<Body>): void {
    this.#nowMs = event.nowMs;
    if (!this.#isExpected(event)) return;
    if (event.error !== undefined) this.#failed(event.error, event.logStartOffset);
    else if (event.diverging !== undefined) this.#diverged(event.diverging);
    else this.#take(event);
  }

  durable(): void {
    if (!this.#isFollowing) return;
    this.#learnMark();
    this.#report();
  }

  startDurable(): void {
    if (this.#isFollowing) this.#report();
  }

  /** The disk had no room: the leader's answer to the present position would not fit any more. */
  refused(nowMs: number | undefined): void {
    this.#nowMs = nowMs ?? this.#nowMs;
    if (this.#isFollowing) this.#backOff(this.#settings.backoffMs);
  }

  /** The log was cut, or begins anew. */
  cutDone(): void {
    if (this.#isFollowing && this.#retryAtMs !== NEVER) this.#ask();
  }

  tick(nowMs: number): void {
    this.#nowMs = nowMs;
    const retryAtMs = this.retryAtMs;
    if (retryAtMs !== undefined && nowMs >= retryAtMs && !this.#log.isCutting) this.#ask();
  }

  #restart(): void {
    this.#isValidated = false;
    this.#isNewSlot = true;
    this.#forgetReports();
    this.#retryAtMs = 0;
  }

  #ask(): void {
    this.#retryAtMs = 0;
    this.#effects.push({
      kind: "fetch",
      leaderId: this.#leaderId,
      leaderEpoch: this.#leaderEpoch,
      fetchOffset: this.#log.endOffset,
      lastFetchedEpoch: this.#log.epochs.latest,
      isFirst: this.#isNewSlot,
    });
    this.#isNewSlot = false;
  }

  /** */
  #isExpected(event: Fetched<Body>): boolean {
    const isOurEpoch = event.leaderEpoch === this.#leaderEpoch || mutant("M14");
    const isWaiting = this.#isFollowing && this.#retryAtMs === 0 && !this.#log.isCutting;
    return isWaiting && isOurEpoch && event.fetchOffset === this.#log.endOffset;
  }

  #take(event: Fetched<Body>): void {
    const taken = this.#usable(event.batches);
    const base = this.#restartAt(event);
    if (base !== undefined) return this.#beginAnew(base);
    // What does not even begin where it was asked for is no answer to it, and proves nothing.
    if (taken.length === 0 && event.batches.length > 0) return this.#backOff(this.#settings.backoffMs);
    this.#failures = 0;
    if (taken.length > 0) {
      this.#log.took(taken);
      this.#effects.push({ kind: "append-fetched", batches: taken });
    }
    this.#isValidated = true;
    this.#leaderMark = event.highWatermark;
    this.#leaderStart = event.logStartOffset;
    this.#learnMark();
    this.#report();
    if (taken.length < event.batches.length) this.#backOff(this.#settings.backoffMs);
    else if (taken.length > 0) this.#ask();
  }

  /**
   * S-32: the leader's log may begin inside a batch, and its batches only come whole. An empty log has nothing to lose, and begins where they do.
   *
   * Example: ours is empty at 5, a batch [3, 7] comes -> begin anew at 3, empty, and ask from there; the leader gives the same batch again
   *          ours is empty at 0, a batch [98, 103] comes, and the leader's log starts at 100 -> begin anew at 98
   */
  #restartAt({ batches: [first], logStartOffset }: Fetched<Body>): Offset | undefined {
    const { isEmpty, endOffset } = this.#log;
    if (!isEmpty || first === undefined || first.baseOffset === endOffset || mutant("S-32")) return undefined;
    const { baseOffset, lastOffset } = first;
    const wanted = baseOffset < endOffset ? endOffset : logStartOffset;
    return baseOffset <= wanted && wanted <= lastOffset ? baseOffset : undefined;
  }

  /** B-18, B-19: each begins where the one before ended, and none is of an epoch that the leader could not know when it was asked. */
  #usable(batches: readonly FetchedBatch<Body>[]): readonly FetchedBatch<Body>[] {
    let end = this.#log.endOffset as number;
    let latest = this.#log.epochs.latest;
    for (let place = 0; place < batches.length; place++) {
      const { baseOffset, lastOffset, epoch } = batches[place] as FetchedBatch<Body>;
      const isNext = baseOffset === end && lastOffset >= baseOffset && epoch >= latest;
      if (!isNext || (epoch > this.#leaderEpoch && !mutant("M14"))) return batches.slice(0, place);
      end = lastOffset + 1;
      latest = epoch;
    }
    return batches;
  }

  /** at most what is durable here, so that a restart never knows more than it has (D-7). */
  #learnMark(): void {
    const known = Math.min(this.#leaderMark, this.#log.durableEnd) as Offset;
    if (this.#log.raiseHighWatermark(known))
      this.#effects.push({ kind: "high-watermark", highWatermark: this.#log.highWatermark });
    this.#learnStart();
  }

  /** I-20: what the leader has let go, as far as it is known here to be committed. */
  #learnStart(): void {
    const { highWatermark } = this.#log;
    const startOffset = (this.#leaderStart < highWatermark ? this.#leaderStart : highWatermark) as Offset;
    if (this.#log.raiseStart(startOffset)) this.#effects.push({ kind: "log-start", startOffset });
  }

  #report(): void {
    if (!this.#isValidated && !mutant("D-3")) return;
    const durableEnd = mutant("M3") ? this.#log.endOffset : this.#log.durableEnd;
    const startOffset = mutant("S-30") ? this.#log.startOffset : this.#log.durableStart;
    if (durableEnd <= this.#reportedEnd && startOffset <= this.#reportedStart) return;
    this.#reportedEnd = durableEnd;
    this.#reportedStart = startOffset;
    this.#effects.push({ kind: "report", leaderEpoch: this.#leaderEpoch, durableEnd, startOffset });
  }

  #forgetReports(): void {
    this.#reportedEnd = -1;
    this.#reportedStart = -1;
  }

  /** R-14, KIP-279: back to where both histories agree; may take several rounds. */
  #diverged(theirs: Divergence): void {
    const { epochs, endOffset } = this.#log;
    this.#isValidated = false;
    if (!mutant("D-3")) this.#forgetReports();
    const ours = epochs.endOffsetFor(theirs.epoch, endOffset);
    let to = endOffset as number;
    if (ours !== undefined) to = Math.min(to, ours.endOffset);
    // An epoch that we do not have: ask again with the older one, whose end may be another there.
    if (ours === undefined || ours.epoch === theirs.epoch) to = Math.min(to, theirs.endOffset);
    const cutsNothing = to >= endOffset && (epochs.entries.at(-1)?.startOffset ?? -1) < to;
    if (cutsNothing) this.#backOff(this.#settings.backoffMs);
    else this.#cut(to as Offset);
  }

  /** D-9. */
  #cut(to: Offset): void {
    const { highWatermark, endOffset } = this.#log;
    const asks = `leader epoch ${this.#leaderEpoch} asks to cut at ${to}`;
    if (to < highWatermark && !mutant("D-9")) {
      const cause =
        this.#uncleanEpoch < 0 ? "no unclean election is known" : `unclean election in ${this.#uncleanEpoch}`;
      return this.#damaged(`${asks}, below the high watermark ${highWatermark} (log end ${endOffset}; ${cause})`);
    }
    // The batch that holds the log start may go, and nothing be left. Whoever is counted on goes on with an empty log (I-13), or is found to be damaged by that.
    const { startOffset } = this.#log;
    if (to <= startOffset && startOffset > 0 && endOffset > startOffset && !this.#isCounted)
      return this.#beginAnew(startOffset);
    if (!this.#log.canCut(to))
      return this.#damaged(`${asks}, what its producers were is known from ${this.#log.producers.floor} on`);
    this.#log.beginCut(to);
    this.#effects.push({ kind: "truncate", toOffset: to });
  }

  #damaged(reason: string): void {
    this.#isFollowing = false;
    this.#effects.push({ kind: "damaged", reason });
  }

  #failed(error: ErrorName, logStartOffset: number): void {
    switch (error) {
      case "OFFSET_OUT_OF_RANGE":
        return this.#outOfRange(logStartOffset as Offset);
      case "FENCED_LEADER_EPOCH":
        // ours is old; metadata is on its way.
        this.#retryAtMs = NEVER;
        return;
      case "FETCH_SESSION_ID_NOT_FOUND":
        // The leader keeps nothing of this replica: everything is said anew, also what is durable (D-3).
        this.#restart();
        return this.#retrySoon();
      case "UNKNOWN_LEADER_EPOCH":
      case "NOT_LEADER_OR_FOLLOWER":
        return this.#retrySoon();
      default:
        return this.#backOff(this.#settings.backoffMs);
    }
  }

  /**
   * everything here was deleted there, also where this log ends just where the leader's starts, and the leader cannot say whether it is its own (S-31).
   * Then it goes in two steps, its records and then their epochs, and the log ends at the same offset at every moment (I-13).
   *
   * Example: log [2, 6), epochs [(1, 2)], high watermark 6; the leader's log starts at 6, with epoch 3
   *            fetch at 6, last epoch 1 -> out of range: log start 6
   *            fetch at 6, last epoch 1 -> out of range: cut at 6, which leaves no epoch
   *            fetch at 6, last epoch -1
   */
  #outOfRange(leaderStart: Offset): void {
    const { endOffset, epochs, highWatermark, isEmpty } = this.#log;
    const endsThere = leaderStart === endOffset && epochs.latest >= 0;
    if (leaderStart > endOffset || (endsThere && (highWatermark < endOffset || mutant("R-17i"))))
      return this.#beginAnew(leaderStart);
    if (!endsThere) return this.#backOff(this.#settings.backoffMs);
    this.#isValidated = false;
    this.#forgetReports();
    if (isEmpty) return this.#cut(endOffset);
    this.#leaderStart = leaderStart;
    this.#learnStart();
    this.#retrySoon();
  }

  /**
   * I-13: a crash between the old log and the new one leaves none, which is made anew at 0. So not while others count on this replica, as far as is known here:
   * mostly that is news of long ago. For good it would be worse than a replica that begins anew, since it may be the only one that the leader could have back.
   */
  #beginAnew(fromOffset: Offset): void {
    if (this.#isCounted && this.#failures < COUNTED_TRIES && !mutant("R-17i")) return this.#retrySoon();
    this.#isValidated = false;
    this.#forgetReports();
    this.#log.isCutting = true;
    this.#effects.push({ kind: "restart-log", fromOffset });
  }

  #retrySoon(): void {
    const { backoffMs } = this.#settings;
    const delayMs = Math.min(backoffMs, QUICK_RETRY_MS * 2 ** Math.min(this.#failures, 10));
    this.#failures++;
    this.#backOff(delayMs);
  }

  #backOff(delayMs: number): void {
    if (this.#retryAtMs !== NEVER) this.#retryAtMs = this.#nowMs + Math.max(1, delayMs);
  }
}
