// Which followers count: the committed ISR, and what the leader asks the controller to make of it.
import { assert } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import type { ErrorName } from "../model/errors.ts";
import type { NodeId } from "../model/ids.ts";
import type { Effects } from "./effects.ts";
import { FollowerProgress } from "./follower-progress.ts";
import type { LogState } from "./log-state.ts";
import type { CoreSettings, Eligible, IsrMember, PartitionRecord } from "./types.ts";
import { WrittenMarks } from "./written-marks.ts";

/** How often the host ticks. */
const TICK_MS = 500;
/** Longest that the high watermark waits for a follower that is about to join (D-8). */
export const JOINING_MAX_MS = 500;
/** Who reaches within this time where the high watermark stood is fast enough to try. */
const CHASE_MAX_MS = 250;
const JOIN_BACKOFF_MS = 1_000;
const JOIN_BACKOFF_DOUBLINGS = 4;

/**
 * The ISR as its leader sees it.
 *
 * Shape:     `isInSync`: the committed ISR, out of the record. `isCounted`: the maximal ISR = committed + proposed newcomers + the joining one.
 *            One proposal under way at a time; nothing of it is believed before a record says so.
 * Example:   ISR [1, 2], min ISR 2, leader 1 at 20, high watermark 18
 *              3 reports 18, at or above mark and epoch start -> propose [1, 2, 3]; the mark waits for 3 from now on, min ISR is of [1, 2] still
 *              record with ISR [1, 2, 3]                      -> 3 is in
 *              INELIGIBLE_REPLICA instead                     -> it was not applied: [1, 2] again, 3 is tried later
 *            ISR [1, 2, 3], and 3 lacks for over 3 s what was written
 *              tick                                           -> propose [1, 2]; the mark waits for 3 until the record says it is out
 *            ISR [1, 2], 3 keeps pace but the mark is always a little ahead of it
 *              3 reaches where the mark stood 40 ms ago       -> joining: the mark waits for 3, until the next tick, so 500 ms at most (D-8)
 *              3 reaches the mark                             -> propose [1, 2, 3]
 * Source:   , D-5, D-8.
 */
export class InSyncReplicas<Token, Body> {
  readonly #settings: CoreSettings;
  readonly #log: LogState;
  readonly #effects: Effects<Token, Body>;
  readonly #marks: WrittenMarks;
  #record: PartitionRecord;
  #followers: FollowerProgress[] = [];
  #epochStart = 0;
  #nowMs = 0;
  #tickMs = 0;
  /** True while the controller is asked for another ISR in the present partition epoch. */
  #isPending = false;
  #joining: FollowerProgress | undefined;
  #joiningSinceMs = 0;
  /** Where this leader's own log ended at this moment: the durable end passes it, or the disk is slow. */
  #ownEnd = 0;
  #ownMs = 0;

  constructor(
    settings: CoreSettings,
    parts: { readonly log: LogState; readonly effects: Effects<Token, Body> },
    record: PartitionRecord,
  ) {
    this.#settings = settings;
    this.#log = parts.log;
    this.#effects = parts.effects;
    this.#record = record;
    this.#marks = new WrittenMarks(settings.lagMaxMs);
  }

  get record(): PartitionRecord {
    return this.#record;
  }
  /** First offset of the present leader epoch. */
  get epochStart(): number {
    return this.#epochStart;
  }
  get followers(): readonly FollowerProgress[] {
    return this.#followers;
  }
  get isPending(): boolean {
    return this.#isPending;
  }
  /** Members of the committed ISR less min ISR: below 0 nothing is committed. */
  get spare(): number {
    return this.#record.isr.length - this.#record.minIsr;
  }

  /** A new leader epoch: nothing that was known of followers counts in it (D-3, R-36). */
  begin(record: PartitionRecord, nowMs: number): void {
    this.#nowMs = nowMs;
    this.#tickMs = nowMs;
    this.#epochStart = this.#log.endOffset;
    this.#followers = [];
    this.#marks.restart();
    this.#marks.mark(this.#log.writtenEnd, nowMs);
    this.#ownEnd = this.#log.endOffset;
    this.#ownMs = nowMs;
    this.#take(record);
  }

  /** False: not newer than what is known. */
  update(record: PartitionRecord, nowMs: number): boolean {
    if (record.leaderEpoch !== this.#record.leaderEpoch) return false;
    if (record.partitionEpoch <= this.#record.partitionEpoch && !mutant("M12")) return false;
    this.#nowMs = nowMs;
    this.#take(record);
    return true;
  }

  find(nodeId: NodeId): FollowerProgress | undefined {
    for (const follower of this.#followers) if (follower.nodeId === nodeId) return follower;
    return undefined;
  }

  /** Of what is known now; for when it is about to be forgotten. */
  behindSince(follower: FollowerProgress, nowMs: number): number {
    return this.#marks.behindSince(follower.durableEnd, this.#log.writtenEnd, nowMs) ?? nowMs;
  }

  /** Its durable end or its position changed: may it join? */
  consider(follower: FollowerProgress, eligible: Eligible, nowMs: number): void {
    this.#nowMs = nowMs;
    if (this.#joining !== undefined && nowMs - this.#joiningSinceMs >= JOINING_MAX_MS) this.#giveUpJoining(nowMs);
    if (follower.isInSync || this.#isPending || !this.#mayJoin(follower, eligible, nowMs)) return;
    const target = this.#joinTarget();
    if (follower.durableEnd >= target || mutant("M10")) this.#propose(this.#members(follower, undefined), eligible);
    else this.#chase(follower, target);
  }

  /** */
  refused(partitionEpoch: number, error: ErrorName): void {
    if (!this.#isPending || partitionEpoch !== this.#record.partitionEpoch) return;
    // Everything else waits for metadata, or is asked again by who sent it.
    if (error !== "INELIGIBLE_REPLICA") return;
    this.#isPending = false;
    for (const follower of this.#followers) {
      if (follower.isCounted && !follower.isInSync) this.#postpone(follower, this.#nowMs);
      follower.isCounted = follower.isInSync;
    }
  }

  tick(eligible: Eligible, nowMs: number): void {
    this.#nowMs = nowMs;
    const lateMs = nowMs - this.#tickMs - TICK_MS;
    this.#tickMs = nowMs;
    if (lateMs > TICK_MS) this.#sleptFor(lateMs);
    this.#marks.mark(this.#log.writtenEnd, nowMs);
    // The next tick would come too late.
    if (this.#joining !== undefined && nowMs > this.#joiningSinceMs) this.#giveUpJoining(nowMs);
    this.#watchOwnDisk(eligible, nowMs);
    if (!this.#isPending) this.#shrink(eligible, nowMs);
    if (this.#isPending) return;
    for (const follower of this.#followers) if (!follower.isInSync) this.consider(follower, eligible, nowMs);
  }

  isLagging(follower: FollowerProgress, nowMs: number): boolean {
    const { lagMaxMs } = this.#settings;
    if (follower.durableEnd < 0) return nowMs - follower.unknownSinceMs > lagMaxMs;
    const since = this.#marks.behindSince(follower.durableEnd, this.#log.writtenEnd, nowMs);
    return since !== undefined && nowMs - since > lagMaxMs;
  }

  /** Whole milliseconds; -1: not known. */
  caughtUpMsAgo(follower: FollowerProgress, nowMs: number): number {
    if (follower.durableEnd < 0) return -1;
    const since = this.#marks.behindSince(follower.durableEnd, this.#log.writtenEnd, nowMs);
    return since === undefined ? 0 : Math.max(0, Math.round(nowMs - since));
  }

  #take(record: PartitionRecord): void {
    const { self } = this.#settings;
    assert(record.isr.includes(self), "a leader is in its own ISR");
    const before = this.#followers;
    this.#record = record;
    this.#isPending = false;
    this.#joining = undefined;
    this.#followers = [];
    for (const nodeId of record.replicas) {
      if (nodeId === self) continue;
      const isInSync = record.isr.includes(nodeId);
      const known = before.find((follower) => follower.nodeId === nodeId);
      // Who is in sync is given its time from now on; who is not has to show first that it keeps pace.
      const follower = known ?? new FollowerProgress(nodeId, isInSync ? this.#nowMs : Number.NEGATIVE_INFINITY);
      if (isInSync && !follower.isInSync) follower.joinFailures = 0;
      follower.isInSync = isInSync;
      follower.isCounted = isInSync;
      this.#followers.push(follower);
    }
  }

  /** What a newcomer must have durably: everything committed here, and everything that may be committed from before this epoch (R-29, invariant 13). */
  #joinTarget(): number {
    const { highWatermark } = this.#log;
    return this.#epochStart > highWatermark && !mutant("M11") ? this.#epochStart : highWatermark;
  }

  /** unfenced, in the incarnation that fetches; and not so far behind that it would be out again at once. */
  #mayJoin(follower: FollowerProgress, eligible: Eligible, nowMs: number): boolean {
    if (follower.position < 0 || nowMs < follower.joinNotBeforeMs) return false;
    if (eligible.get(follower.nodeId) !== follower.brokerEpoch) return false;
    return mutant("M10") || (follower.durableEnd >= 0 && !this.isLagging(follower, nowMs));
  }

  #chase(follower: FollowerProgress, target: number): void {
    if (this.#joining === follower) return;
    if (follower.chasedOffset >= 0) {
      if (follower.durableEnd < follower.chasedOffset) return;
      if (this.#joining === undefined && this.#nowMs - follower.chasedMs <= CHASE_MAX_MS) {
        this.#joining = follower;
        this.#joiningSinceMs = this.#nowMs;
        follower.isCounted = true;
      }
    }
    follower.chasedOffset = target;
    follower.chasedMs = this.#nowMs;
  }

  #giveUpJoining(nowMs: number): void {
    const follower = this.#joining;
    if (follower === undefined || mutant("D-8w")) return;
    this.#joining = undefined;
    follower.isCounted = false;
    this.#postpone(follower, nowMs);
  }

  #postpone(follower: FollowerProgress, nowMs: number): void {
    follower.joinNotBeforeMs = nowMs + JOIN_BACKOFF_MS * 2 ** Math.min(follower.joinFailures, JOIN_BACKOFF_DOUBLINGS);
    follower.joinFailures++;
    follower.chasedOffset = -1;
  }

  #shrink(eligible: Eligible, nowMs: number): void {
    let lagging: FollowerProgress[] | undefined;
    for (const follower of this.#followers) {
      if (!follower.isInSync || !this.isLagging(follower, nowMs)) continue;
      lagging ??= [];
      lagging.push(follower);
    }
    if (lagging === undefined) return;
    const members = this.#members(undefined, lagging);
    this.#propose(members, eligible);
    if (mutant("M9")) {
      this.#record = { ...this.#record, isr: members };
      for (const follower of lagging) {
        follower.isInSync = false;
        follower.isCounted = false;
      }
    }
  }

  /** D-8: a leader whose own disk lags holds everybody up. Not a change of the ISR, so nothing is pending. */
  #watchOwnDisk(eligible: Eligible, nowMs: number): void {
    const { durableEnd, endOffset } = this.#log;
    // What a full disk took back is not waited for.
    if (durableEnd >= this.#ownEnd || durableEnd >= endOffset) {
      this.#ownEnd = endOffset;
      this.#ownMs = nowMs;
      return;
    }
    if (nowMs - this.#ownMs <= this.#settings.lagMaxMs || this.#isPending || this.#record.isr.length < 2) return;
    this.#ownMs = nowMs;
    this.#pushProposal(this.#record.isr, { eligible, wantsMove: true });
  }

  /** D-22: while this process was paused it heard nobody, so nobody has lagged in that time. */
  #sleptFor(ms: number): void {
    this.#marks.shift(ms);
    this.#ownMs += ms;
    for (const follower of this.#followers) follower.unknownSinceMs += ms;
  }

  /** In the order of the assignment. */
  #members(newcomer: FollowerProgress | undefined, leaving: readonly FollowerProgress[] | undefined): NodeId[] {
    const { self } = this.#settings;
    return this.#record.replicas.filter((nodeId) => {
      if (nodeId === self || nodeId === newcomer?.nodeId) return true;
      const follower = this.find(nodeId);
      return follower?.isInSync === true && leaving?.includes(follower) !== true;
    });
  }

  #propose(members: readonly NodeId[], eligible: Eligible): void {
    this.#isPending = true;
    this.#joining = undefined;
    for (const follower of this.#followers) {
      const isNew = !follower.isInSync && members.includes(follower.nodeId);
      follower.isCounted = follower.isInSync || (isNew && !mutant("D-8"));
    }
    this.#pushProposal(members, { eligible, wantsMove: false });
  }

  #pushProposal(
    members: readonly NodeId[],
    options: { readonly eligible: Eligible; readonly wantsMove: boolean },
  ): void {
    const { eligible, wantsMove } = options;
    const isr = members.map((nodeId): IsrMember => ({ nodeId, brokerEpoch: eligible.get(nodeId) ?? -1 }));
    const { leaderEpoch, partitionEpoch } = this.#record;
    this.#effects.push({ kind: "propose-isr", leaderEpoch, partitionEpoch, isr, wantsMove });
  }
}
