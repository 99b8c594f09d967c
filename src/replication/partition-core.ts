// The leader's half of one partition, pure and synchronous: which offsets batches get, what is committed, who is answered when.
//
// The host's duties, in this order:
//   1. `step` with an event; carry out the returned effects strictly in their order (D-34).
//   2. Tell each completion of the log as an event, with the truncation count it came with.
//   3. Before `lead`, the log has made the epoch durable, and the epoch was received in this incarnation (D-1).
import { assert, assertNever } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import { Ring } from "../base/ring.ts";
import type { ErrorName, Outcome } from "../model/errors.ts";
import { NO_LEADER_EPOCH, type LeaderEpoch, type NodeId, type Offset } from "../model/ids.ts";
import { nextHighWatermark } from "./high-watermark.ts";
import type { LogEnds, PartitionEffect, PartitionEvent, WaitingProduce } from "./types.ts";

type Produce<Token> = Extract<PartitionEvent<Token>, { kind: "produce" }>;
type Lead<Token> = Extract<PartitionEvent<Token>, { kind: "lead" }>;

/**
 * One partition on its leader.
 *
 * Shape:     highWatermark <= durableEnd <= writtenEnd <= endOffset, all exclusive (D-34).
 * Invariant: highWatermark never falls; acks=1 is answered at or after writtenEnd >= the batch's end, acks=all at or after highWatermark >= it.
 * Example:   leader epoch 3, log [0, 10) durable, highWatermark 10
 *              produce 5 records, acks all -> append base 10, last 14, epoch 3        endOffset 15
 *              written 15                  -> nothing                                 writtenEnd 15
 *              durable 15                  -> highWatermark 15, answer base 10        durableEnd 15
 *            and where the disk had no room instead:
 *              refused from 10             -> answer STORAGE_FULL, "not appended"     endOffset 10
 * Source:    D-34, D-35, D-36; B-12, B-17 rows 4 and 5.
 */
export class PartitionCore<Token> {
  readonly #self: NodeId;
  #leaderEpoch: LeaderEpoch = NO_LEADER_EPOCH;
  #isLeader = false;
  #isr: readonly NodeId[] = [];
  #minIsr = 1;
  #endOffset = 0 as Offset;
  #writtenEnd = 0 as Offset;
  #durableEnd = 0 as Offset;
  #highWatermark = 0 as Offset;
  #truncations = 0;
  /** First offset of the present leader epoch: "latest" is only known once the high watermark is here (S-25). */
  #epochStart = 0 as Offset;
  /** acks=1 and acks=all, each in offset order. Two queues, so that a written batch never waits behind one that is not durable. */
  readonly #untilWritten = new Ring<WaitingProduce<Token>>();
  readonly #untilCommitted = new Ring<WaitingProduce<Token>>();

  constructor(self: NodeId) {
    this.#self = self;
  }

  get isLeader(): boolean {
    return this.#isLeader;
  }
  /** The epoch led in, or last led in. */
  get leaderEpoch(): LeaderEpoch {
    return this.#leaderEpoch;
  }
  /** Accepted: where the next batch goes. */
  get endOffset(): Offset {
    return this.#endOffset;
  }
  get writtenEnd(): Offset {
    return this.#writtenEnd;
  }
  get durableEnd(): Offset {
    return this.#durableEnd;
  }
  get highWatermark(): Offset {
    return this.#highWatermark;
  }
  /** False while a new leader cannot say where the partition ends: answer OFFSET_NOT_AVAILABLE (S-25). */
  get knowsLatest(): boolean {
    return this.#highWatermark >= this.#epochStart;
  }
  get waitingCount(): number {
    return this.#untilWritten.length + this.#untilCommitted.length;
  }

  /** Why a request that knows this leader epoch (-1: not checked) is not served here, or undefined when it is. */
  refusalOf(leaderEpoch: number): ErrorName | undefined {
    if (leaderEpoch >= 0 && leaderEpoch < this.#leaderEpoch) return "FENCED_LEADER_EPOCH";
    if (leaderEpoch > this.#leaderEpoch) return "UNKNOWN_LEADER_EPOCH";
    return this.#isLeader ? undefined : "NOT_LEADER_OR_FOLLOWER";
  }

  /** Why nothing may be appended now. Below min ISR every acks is refused, since a batch appended there would be acknowledged but invisible (D-29). */
  produceRefusalOf(leaderEpoch: number): ErrorName | undefined {
    const refusal = this.refusalOf(leaderEpoch);
    if (refusal !== undefined) return refusal;
    return this.#isr.length < this.#minIsr ? "NOT_ENOUGH_REPLICAS" : undefined;
  }

  step(event: PartitionEvent<Token>): PartitionEffect<Token>[] {
    const effects: PartitionEffect<Token>[] = [];
    this.#dispatch(event, effects);
    this.checkInvariants();
    return effects;
  }

  checkInvariants(): void {
    assert(this.#writtenEnd <= this.#endOffset, `written ${this.#writtenEnd} above accepted ${this.#endOffset}`);
    assert(this.#durableEnd <= this.#writtenEnd, `durable ${this.#durableEnd} above written ${this.#writtenEnd}`);
    assert(
      this.#highWatermark <= this.#durableEnd,
      `high watermark ${this.#highWatermark} above durable ${this.#durableEnd}`,
    );
  }

  #dispatch(event: PartitionEvent<Token>, effects: PartitionEffect<Token>[]): void {
    switch (event.kind) {
      case "produce":
        return this.#produce(event, effects);
      case "written":
        return this.#written(event.endOffset, event.truncations, effects);
      case "durable":
        return this.#durable(event.endOffset, event.truncations, effects);
      case "refused":
        return this.#refused(event.fromOffset, event.truncations, effects);
      case "deadline":
        return settle(event.waiting, { error: "REQUEST_TIMED_OUT", outcome: "unknown" }, effects);
      case "lead":
        return this.#lead(event, effects);
      case "resign":
        return this.#resign(event.error, effects);
      default:
        return assertNever(event);
    }
  }

  #produce(event: Produce<Token>, effects: PartitionEffect<Token>[]): void {
    const refusal = this.#refusalOfProduce(event);
    if (refusal !== undefined) {
      effects.push({
        kind: "answer",
        token: event.token,
        error: refusal,
        outcome: "not appended",
        baseOffset: undefined,
      });
      return;
    }
    assert(event.recordCount > 0, "a produced batch has records");
    const baseOffset = this.#endOffset;
    const endOffset = (baseOffset + event.recordCount) as Offset;
    this.#endOffset = endOffset;
    const waiting = event.acks === 0 ? undefined : { token: event.token, baseOffset, endOffset, isSettled: false };
    effects.push({
      kind: "append",
      token: event.token,
      baseOffset,
      lastOffset: (endOffset - 1) as Offset,
      leaderEpoch: this.#leaderEpoch,
      waiting,
    });
    if (waiting === undefined) return;
    const queue = event.acks === 1 || mutant("M1") ? this.#untilWritten : this.#untilCommitted;
    queue.push(waiting);
  }

  #refusalOfProduce(event: Produce<Token>): ErrorName | undefined {
    const refusal = this.produceRefusalOf(event.leaderEpoch);
    if (refusal !== undefined) return refusal;
    return Number.isSafeInteger(this.#endOffset + event.recordCount) ? undefined : "INVALID_RECORD";
  }

  #written(endOffset: Offset, truncations: number, effects: PartitionEffect<Token>[]): void {
    if (!this.#isCurrent(truncations)) return;
    assert(endOffset <= this.#endOffset, `written ${endOffset} but accepted ${this.#endOffset}`);
    if (endOffset > this.#writtenEnd) this.#writtenEnd = endOffset;
    answerBelow(this.#untilWritten, this.#writtenEnd, effects);
  }

  #durable(endOffset: Offset, truncations: number, effects: PartitionEffect<Token>[]): void {
    if (!this.#isCurrent(truncations)) return;
    this.#written(endOffset, truncations, effects);
    if (endOffset > this.#durableEnd) this.#durableEnd = endOffset;
    this.#moveHighWatermark(effects);
  }

  /** Linear in what waits; happens only on a full disk. */
  #refused(fromOffset: Offset, truncations: number, effects: PartitionEffect<Token>[]): void {
    if (!this.#isCurrent(truncations)) return;
    assert(fromOffset >= this.#writtenEnd, `refused from ${fromOffset} but written to ${this.#writtenEnd}`);
    if (fromOffset >= this.#endOffset) return;
    this.#endOffset = fromOffset;
    for (const queue of [this.#untilWritten, this.#untilCommitted]) {
      const kept: WaitingProduce<Token>[] = [];
      for (const waiting of queue) {
        if (waiting.endOffset <= fromOffset) kept.push(waiting);
        else settle(waiting, { error: "STORAGE_FULL", outcome: "not appended" }, effects);
      }
      queue.clear();
      for (const waiting of kept) queue.push(waiting);
    }
  }

  #lead(event: Lead<Token>, effects: PartitionEffect<Token>[]): void {
    assert(event.leaderEpoch > this.#leaderEpoch, `leader epoch ${event.leaderEpoch} after ${this.#leaderEpoch} (D-1)`);
    assert(event.isr.includes(this.#self), "a leader is in its own ISR");
    this.#resign("NOT_LEADER_OR_FOLLOWER", effects);
    this.#isLeader = true;
    this.#leaderEpoch = event.leaderEpoch;
    this.#isr = event.isr;
    this.#minIsr = event.minIsr;
    this.#takeEnds(event.ends);
    this.#epochStart = event.ends.endOffset;
    this.#moveHighWatermark(effects);
  }

  #takeEnds(ends: LogEnds): void {
    this.#endOffset = ends.endOffset;
    this.#writtenEnd = ends.writtenEnd;
    this.#durableEnd = ends.durableEnd;
    this.#truncations = ends.truncations;
  }

  #resign(error: ErrorName, effects: PartitionEffect<Token>[]): void {
    this.#isLeader = false;
    for (const queue of [this.#untilWritten, this.#untilCommitted]) {
      for (const waiting of queue) settle(waiting, { error, outcome: "unknown" }, effects);
      queue.clear();
    }
  }

  #isCurrent(truncations: number): boolean {
    if (truncations < this.#truncations) return false;
    this.#truncations = truncations;
    return true;
  }

  #moveHighWatermark(effects: PartitionEffect<Token>[]): void {
    if (!this.#isLeader) return;
    // A member other than the leader has no validated durable end yet (D-3), so it holds the mark where it is.
    const durableEnds = this.#isr.map((member) => (member === this.#self ? this.#durableEnd : 0));
    const next = nextHighWatermark(this.#highWatermark, { durableEnds, minIsr: this.#minIsr }) as Offset;
    if (next === this.#highWatermark) return;
    this.#highWatermark = next;
    effects.push({ kind: "high-watermark", highWatermark: next });
    answerBelow(this.#untilCommitted, next, effects);
  }
}

function answerBelow<Token>(queue: Ring<WaitingProduce<Token>>, end: Offset, effects: PartitionEffect<Token>[]): void {
  for (let head = queue.peek(); head !== undefined && head.endOffset <= end; head = queue.peek()) {
    queue.shift();
    settle(head, { error: "NONE", outcome: "appended" }, effects);
  }
}

function settle<Token>(
  waiting: WaitingProduce<Token>,
  answer: { readonly error: ErrorName; readonly outcome: Outcome },
  effects: PartitionEffect<Token>[],
): void {
  if (waiting.isSettled) return;
  waiting.isSettled = true;
  const baseOffset = answer.outcome === "appended" ? waiting.baseOffset : undefined;
  effects.push({ kind: "answer", token: waiting.token, error: answer.error, outcome: answer.outcome, baseOffset });
}
