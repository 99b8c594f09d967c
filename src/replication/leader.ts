// The leader's half of a partition: which offsets batches get, what followers may read, what is committed, who is answered when.
import { assert } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import type { ErrorName } from "../model/errors.ts";
import { nextToTell } from "../model/producer-carry.ts";
import type { SequenceVerdict } from "../model/producer-table.ts";
import type { Offset } from "../model/ids.ts";
import type { Effects } from "./effects.ts";
import type { FollowerProgress } from "./follower-progress.ts";
import { nextHighWatermark } from "./high-watermark.ts";
import { InSyncReplicas } from "./in-sync-replicas.ts";
import type { LogState } from "./log-state.ts";
import { ProduceQueues } from "./produce-queues.ts";
import type {
  CoreSettings,
  Eligible,
  LeaderEvent,
  LocalEvent,
  PartitionRecord,
  ReplicaView,
  Verdict,
  WaitingProduce,
} from "./types.ts";

const NOTHING_CARRIED: { readonly toOffset: number; readonly end: number } = Object.freeze({ toOffset: -1, end: 0 });

type Produce<Token> = Extract<LocalEvent<Token>, { kind: "produce" }>;
type CarryProducers = Extract<LocalEvent<unknown>, { kind: "carry-producers" }>;
type FollowerFetch = Extract<LeaderEvent, { kind: "follower-fetch" }>;
type DurableReport = Extract<LeaderEvent, { kind: "durable-report" }>;
type SessionEnded = Extract<LeaderEvent, { kind: "session-ended" }>;

/**
 * One partition on its leader.
 *
 * Invariant: the high watermark never falls; acks=1 is answered at or after writtenEnd >= the batch's end, acks=all at or after
 *            highWatermark >= it; only what is below writtenEnd is shipped, so what a full disk takes back nobody has.
 * Example:   leader epoch 3, ISR [1, 2], min ISR 2, log [0, 10) durable here and there, highWatermark 10
 *              produce 5 records, acks all     -> append base 10, last 14, epoch 3      endOffset 15
 *              written 15                      -> nothing                               writtenEnd 15: 2 may read it
 *              durable 15                      -> nothing                               durableEnd 15
 *              2 fetches at 15, reports 15     -> highWatermark 15, answer base 10
 *            and where the disk had no room instead:
 *              refused from 10                 -> answer STORAGE_FULL, "not appended"   endOffset 10
 * Source:    D-34, D-35, D-36; B-12, B-17 rows 4 and 5.
 */
export class Leader<Token, Body> {
  readonly #log: LogState;
  readonly #effects: Effects<Token, Body>;
  readonly #queues: ProduceQueues<Token, Body>;
  readonly #replicas: InSyncReplicas<Token, Body>;
  readonly #producerExpirationMs: number;
  /** Once all below `end` is committed, the log may begin at `toOffset`. */
  #carried = NOTHING_CARRIED;

  constructor(
    settings: CoreSettings,
    parts: { readonly log: LogState; readonly effects: Effects<Token, Body> },
    record: PartitionRecord,
  ) {
    this.#log = parts.log;
    this.#effects = parts.effects;
    this.#queues = new ProduceQueues(parts.effects);
    this.#replicas = new InSyncReplicas(settings, parts, record);
    this.#producerExpirationMs = settings.producerExpirationMs ?? Number.POSITIVE_INFINITY;
  }

  get record(): PartitionRecord {
    return this.#replicas.record;
  }
  get isBelowMinIsr(): boolean {
    return this.#replicas.spare < 0;
  }
  get isIsrChangePending(): boolean {
    return this.#replicas.isPending;
  }
  get waitingCount(): number {
    return this.#queues.length;
  }
  get followers(): readonly FollowerProgress[] {
    return this.#replicas.followers;
  }
  /** False while a new leader cannot say where the partition ends: answer OFFSET_NOT_AVAILABLE (S-25). */
  get knowsLatest(): boolean {
    return this.#log.highWatermark >= this.#replicas.epochStart || mutant("M30");
  }

  start(record: PartitionRecord, nowMs: number): void {
    this.#carried = NOTHING_CARRIED;
    this.#replicas.begin(record, nowMs);
    this.#moveHighWatermark();
  }

  stop(error: ErrorName): void {
    this.#queues.answerAll(error, "unknown");
  }

  /**
   * Another node leads, and this log ends at `endOffset` now: what is below the high watermark that was learnt there is committed, as if nothing had
   * happened. False: nobody waits any more.
   */
  handedOver(endOffset: Offset, highWatermark: Offset): boolean {
    this.#queues.endAt(endOffset);
    this.#queues.written(highWatermark);
    this.#queues.committed(highWatermark);
    return this.#queues.length > 0;
  }

  update(record: PartitionRecord, eligible: Eligible, nowMs: number): void {
    if (!this.#replicas.update(record, nowMs)) return;
    this.#moveHighWatermark();
    for (const follower of this.#replicas.followers)
      if (!follower.isInSync) this.#replicas.consider(follower, eligible, nowMs);
  }

  /** Below min ISR every acks is refused, since a batch appended there would be acknowledged but invisible; unless the topic allows it by name (D-29). */
  produceRefusal(needsMinIsr: boolean): ErrorName | undefined {
    return this.isBelowMinIsr && needsMinIsr && !mutant("M15") ? "NOT_ENOUGH_REPLICAS" : undefined;
  }

  produce(event: Produce<Token>): void {
    const { producers } = this.#log;
    const verdict = event.producerId < 0 ? undefined : producers.check(event);
    if (verdict?.kind === "duplicate") return this.#duplicate(event, verdict);
    const needsMinIsr = event.acks === -1 || !(event.allowsBelowMinIsr === true || mutant("D-29"));
    let error = this.produceRefusal(needsMinIsr);
    if (error === undefined && verdict?.kind === "refused") error = verdict.error;
    if (error === undefined && !Number.isSafeInteger(this.#log.endOffset + event.recordCount)) error = "INVALID_RECORD";
    if (error === undefined) this.#append(event);
    else this.#effects.refuse(event.token, error);
  }

  /**
   * P-2, P-15. Also below min ISR: its records are in the log, and "not appended" would be wrong.
   *
   * Example: our log ends at 30, high watermark 20
   *            the batch at [10, 14] again -> answered with base 10
   *            the batch at [20, 24] again -> answered when the high watermark is at 25 or above, whatever waits at [25, 29]
   */
  #duplicate({ token, acks }: Produce<Token>, original: Extract<SequenceVerdict, { kind: "duplicate" }>): void {
    const baseOffset = original.baseOffset as Offset;
    const endOffset = original.endOffset as Offset;
    const waiting: WaitingProduce<Token> = { token, acks, baseOffset, endOffset, isSettled: false };
    const isCommitted = endOffset <= this.#log.highWatermark;
    this.#effects.push({ kind: "duplicate", token, waiting: isCommitted ? undefined : waiting });
    if (isCommitted) this.#effects.settle(waiting, { error: "NONE", outcome: "appended" });
    else this.#queues.untilOriginalCommitted(waiting);
  }

  #append(event: Produce<Token>): void {
    assert(event.recordCount > 0, "a produced batch has records");
    const { token, acks, producerId, producerEpoch, baseSequence, crc } = event;
    const baseOffset = this.#log.endOffset;
    const endOffset = (baseOffset + event.recordCount) as Offset;
    this.#log.endOffset = endOffset;
    const { producers } = this.#log;
    if (producerId < 0) producers.advance(endOffset);
    else producers.observe({ producerId, producerEpoch, baseSequence, baseOffset, lastOffset: endOffset - 1, crc });
    const waiting: WaitingProduce<Token> | undefined =
      acks === 0 ? undefined : { token, acks, baseOffset, endOffset, isSettled: false };
    const { leaderEpoch } = this.#replicas.record;
    this.#effects.push({
      kind: "append",
      token,
      baseOffset,
      lastOffset: (endOffset - 1) as Offset,
      leaderEpoch,
      waiting,
    });
    if (waiting === undefined) return;
    if (acks === -1 && !mutant("M1")) this.#queues.untilCommitted(waiting);
    else if (mutant("D-36")) this.#effects.settle(waiting, { error: "NONE", outcome: "appended" });
    else this.#queues.untilWritten(waiting);
  }

  /** what was appended and is short of replicas is told so; it may be committed later all the same. */
  deadline(waiting: WaitingProduce<Token>): void {
    const isShort = waiting.acks === -1 && this.isBelowMinIsr;
    const error = isShort ? "NOT_ENOUGH_REPLICAS_AFTER_APPEND" : "REQUEST_TIMED_OUT";
    this.#effects.settle(waiting, { error, outcome: "unknown" });
    this.#queues.gaveUp();
  }

  written(): void {
    this.#queues.written(this.#log.writtenEnd);
  }

  durable(): void {
    this.written();
    this.#moveHighWatermark();
    // Planted: it trusts a lease that its own clock still holds, in place of the ISR (D-10).
    if (mutant("M32")) this.#queues.committed(this.#log.durableEnd);
  }

  refused(): void {
    this.#carried = NOTHING_CARRIED;
    this.#queues.takeBack(this.#log.endOffset);
  }

  fetch(event: FollowerFetch): Verdict {
    const { leaderEpoch } = this.#replicas.record;
    if (event.leaderEpoch !== leaderEpoch && !mutant("M14"))
      return refused(event.leaderEpoch < leaderEpoch ? "FENCED_LEADER_EPOCH" : "UNKNOWN_LEADER_EPOCH");
    // Metadata of a reassignment may be on its way.
    const follower = this.#replicas.find(event.follower);
    if (follower === undefined) return refused("UNKNOWN_LEADER_EPOCH");
    const refusal = this.#admit(follower, event);
    if (refusal !== undefined) return refused(refusal);
    if (event.isAdded) follower.forget(this.#replicas.behindSince(follower, event.nowMs));
    const objection = this.#objection(event.fetchOffset, event.lastFetchedEpoch);
    if (objection !== undefined) {
      // What it has is not ours, as far as we can tell: nothing that it reported counts any more, and nobody proposes it for the ISR.
      follower.forget(this.#replicas.behindSince(follower, event.nowMs));
      return objection;
    }
    return this.#accept(follower, event);
  }

  report(event: DurableReport): void {
    const follower = this.#replicas.find(event.follower);
    if (follower === undefined) return;
    if (event.leaderEpoch !== this.#replicas.record.leaderEpoch && !mutant("D-3e") && !mutant("M14")) return;
    if (follower.place(event.brokerEpoch, event.sessionId) !== "present" && !mutant("D-3s")) return;
    follower.report(event.durableEnd, event.startOffset);
    this.#progressed(follower, event);
  }

  sessionEnded(event: SessionEnded): void {
    const follower = this.#replicas.find(event.follower);
    if (follower === undefined || follower.sessionId !== event.sessionId || mutant("D-3s")) return;
    follower.forget(this.#replicas.behindSince(follower, event.nowMs));
  }

  /** D-15: what whoever begins there would not know of producers goes into the log first. */
  carryProducers({ toOffset, wallMs, mayExpire }: CarryProducers): void {
    const log = this.#log;
    // As in `raiseStart`: what is not committed stays.
    const startOffset = Math.min(toOffset, log.highWatermark);
    if (this.isBelowMinIsr || this.isCarried(startOffset)) return;
    const question = { startOffset, nowMs: wallMs, expirationMs: this.#producerExpirationMs, mayExpire };
    for (let told = nextToTell(log.producers, question); told; told = nextToTell(log.producers, question)) {
      const { endOffset: baseOffset } = log;
      const { leaderEpoch } = this.#replicas.record;
      const place = { baseOffset, lastOffset: baseOffset, producerId: -1, producerEpoch: -1, baseSequence: -1, crc: 0 };
      log.producers.observe({ ...place, told });
      log.endOffset = (baseOffset + 1) as Offset;
      this.#effects.push({ kind: "append-told", told, baseOffset, leaderEpoch, wallMs });
    }
    this.#carried = { toOffset: startOffset, end: log.producers.unsettledEnd };
  }

  /** `carry-producers` for this offset, or a higher one, has done what it can. */
  isCarried(toOffset: number): boolean {
    return toOffset <= this.#carried.toOffset;
  }

  /**
   * D-15: what is committed tells whoever begins there of all producers that are known here. Not only what was told must be: a window that has moved on
   * by what is not committed may come back.
   */
  mayBeginAt(startOffset: number): boolean {
    const isCommitted = this.#log.highWatermark >= this.#carried.end;
    return (this.isCarried(startOffset) && isCommitted) || mutant("D-15r");
  }

  /** S-30: in memory at once, so that whoever reads sees it; never above what is committed. */
  raiseStart(toOffset: Offset): void {
    const log = this.#log;
    const to = Math.min(toOffset, log.highWatermark) as Offset;
    if (this.mayBeginAt(to) && log.raiseStart(to)) this.#effects.push({ kind: "log-start", startOffset: to });
  }

  /** S-30: below this no replica that lives has anything, whatever is lost; -1: one of them has not said. */
  lowWatermark(eligible: Eligible): number {
    let low: number = mutant("S-30") ? this.#log.startOffset : this.#log.durableStart;
    for (const { nodeId, brokerEpoch, startOffset } of this.#replicas.followers) {
      const livesIn = eligible.get(nodeId);
      // What it said in an earlier life may be undone.
      if (livesIn !== undefined) low = Math.min(low, livesIn === brokerEpoch ? startOffset : -1);
    }
    return low;
  }

  isrChangeRefused(partitionEpoch: number, error: ErrorName): void {
    this.#replicas.refused(partitionEpoch, error);
    this.#moveHighWatermark();
  }

  tick(eligible: Eligible, nowMs: number): void {
    this.#replicas.tick(eligible, nowMs);
    this.#moveHighWatermark();
  }

  describe(nowMs: number): ReplicaView[] {
    return this.#replicas.followers.map((follower) => ({
      nodeId: follower.nodeId,
      endOffset: follower.position,
      durableEnd: follower.durableEnd,
      caughtUpMsAgo: this.#replicas.caughtUpMsAgo(follower, nowMs),
      isInSync: follower.isInSync,
    }));
  }

  /** what an older incarnation or session says changes nothing. */
  #admit(follower: FollowerProgress, event: FollowerFetch): ErrorName | undefined {
    const { brokerEpoch, sessionId } = event;
    // A follower whose incarnation the metadata has replaced; one that the metadata does not know yet may fetch, but not join.
    if (brokerEpoch < (event.eligible.get(event.follower) ?? -1)) return "STALE_BROKER_EPOCH";
    switch (follower.place(brokerEpoch, sessionId)) {
      case "present":
        return undefined;
      case "newer":
        follower.enter(brokerEpoch, sessionId, this.#replicas.behindSince(follower, event.nowMs));
        return undefined;
      case "stale-epoch":
        return "STALE_BROKER_EPOCH";
      case "stale-session":
        return mutant("D-3s") ? undefined : "FETCH_SESSION_ID_NOT_FOUND";
    }
  }

  /**
   * why its log does not continue ours, or undefined when it is equal to ours up to `fetchOffset`.
   *
   * Example: our epochs [(0, 0), (2, 5)], end 8
   *            fetch at 8, last epoch 2 -> undefined, equal
   *            fetch at 7, last epoch 1 -> diverging (0, 5): it has 5 and 6 of a leader that we never followed
   *            fetch at 4, last epoch 0 -> undefined, behind
   *          our epochs [(2, 5)], start 5, end 8
   *            fetch at 0, last epoch -1 -> undefined: an empty log is given what is left, from the batch that holds 5 on (S-32)
   *            fetch at 5, last epoch 0 -> out of range: whether its 4 is ours nobody knows any more, and it is gone
   */
  #objection(fetchOffset: Offset, lastFetchedEpoch: number): Verdict | undefined {
    const { epochs, endOffset, startOffset } = this.#log;
    if (fetchOffset < startOffset) {
      const isNew = lastFetchedEpoch < 0 && startOffset < endOffset;
      return isNew ? undefined : refused("OFFSET_OUT_OF_RANGE");
    }
    if (mutant("M6")) return undefined;
    const isBeforeOurs = lastFetchedEpoch >= 0 && lastFetchedEpoch < epochs.oldest;
    if (isBeforeOurs && fetchOffset === startOffset && startOffset > 0 && !mutant("S-31"))
      return refused("OFFSET_OUT_OF_RANGE");
    if (lastFetchedEpoch === epochs.latest && fetchOffset <= endOffset) return undefined;
    // An empty log has nothing that could differ.
    if (lastFetchedEpoch < 0) return fetchOffset > endOffset ? refused("OFFSET_OUT_OF_RANGE") : undefined;
    const ours = epochs.endOffsetFor(lastFetchedEpoch, endOffset);
    if (ours === undefined) return refused("OFFSET_OUT_OF_RANGE");
    if (ours.epoch === lastFetchedEpoch && ours.endOffset >= fetchOffset) return undefined;
    return { kind: "diverging", epoch: ours.epoch, endOffset: ours.endOffset };
  }

  #accept(follower: FollowerProgress, event: FollowerFetch): Verdict {
    const { fetchOffset } = event;
    const isFirst = follower.position < 0;
    follower.validate(fetchOffset);
    const { writtenEnd } = this.#log;
    if (mutant("M4") && writtenEnd > follower.durableEnd) follower.durableEnd = writtenEnd;
    this.#progressed(follower, event);
    const { startOffset } = this.#log;
    const fromOffset = startOffset > fetchOffset ? startOffset : fetchOffset;
    const limitOffset = writtenEnd > fromOffset ? writtenEnd : fromOffset;
    return { kind: "read", fromOffset, limitOffset, isFirst };
  }

  #progressed(follower: FollowerProgress, event: FollowerFetch | DurableReport): void {
    if (follower.isCounted) this.#moveHighWatermark();
    if (!follower.isInSync) {
      this.#replicas.consider(follower, event.eligible, event.nowMs);
      this.#moveHighWatermark();
    }
  }

  #moveHighWatermark(): void {
    const log = this.#log;
    const { followers, spare } = this.#replicas;
    const next = nextHighWatermark(log.highWatermark, log.durableEnd, followers, spare) as Offset;
    if (!log.raiseHighWatermark(next)) return;
    this.#effects.push({ kind: "high-watermark", highWatermark: next });
    this.#queues.committed(next);
  }
}

const refused = (error: ErrorName): Verdict => ({ kind: "refused", error });
