// One partition on one broker, pure and synchronous: leader, follower or neither.
//
// The host's duties, in this order:
//   1. `step` with an event; carry out the returned effects strictly in their order (D-34).
//   2. Tell each completion of the log as an event, with the truncation count it came with.
//   3. Before `lead`, the log has made the epoch durable and told so by `epoch-opened`, and the epoch was received in this incarnation (D-1).
//   4. One role at a time, in the order of the metadata.
import { assert, assertNever } from "../base/assert.ts";
import type { ErrorName } from "../model/errors.ts";
import { NO_LEADER_EPOCH, type LeaderEpoch, type NodeId, type Offset } from "../model/ids.ts";
import { ProducerTable } from "../model/producer-table.ts";
import { Effects } from "./effects.ts";
import { Follower } from "./follower.ts";
import type { FollowerProgress } from "./follower-progress.ts";
import { Leader } from "./leader.ts";
import { LogState } from "./log-state.ts";
import type {
  CoreSettings,
  Eligible,
  EpochStart,
  LeaderEvent,
  LocalEvent,
  PartitionEffect,
  PartitionEvent,
  PartitionRecord,
  PartitionView,
} from "./types.ts";

type EventOf<Token, Body, Kind extends PartitionEvent<Token, Body>["kind"]> = Extract<
  PartitionEvent<Token, Body>,
  { kind: Kind }
>;

/** "stand-by": neither leads nor follows now. */
export type PartitionRole = "leader" | "follower" | "stand-by";

/**
 * One partition.
 *
 * Shape:     `LogState` holds the ends, the epochs and the high watermark; `Leader` and `Follower` are the two halves, at most one of them at work,
 *            each made when it is first needed: a partition that is only led, or only followed, costs one.
 * Invariant: leader epochs led in only rise (D-1, I-6). What waited in one role is answered before the next begins.
 * Example:   follower in epoch 3, log [0, 20)
 *              stand-by                          -> nothing is fetched any more
 *              epoch-opened 4                    history (..., (4, 20))
 *              lead in 4                         leader, appends at 20 in epoch 4
 *              follow node 2 in 5                -> producers NOT_LEADER_OR_FOLLOWER, "unknown"; fetch at 23, last epoch 4
 */
export class PartitionCore<Token, Body = Uint8Array> {
  readonly #settings: CoreSettings;
  readonly #log = new LogState();
  readonly #effects = new Effects<Token, Body>();
  #leader: Leader<Token, Body> | undefined;
  #follower: Follower<Token, Body> | undefined;
  #role: PartitionRole = "stand-by";
  #record: PartitionRecord | undefined;
  #leaderEpoch: LeaderEpoch = NO_LEADER_EPOCH;
  #ledEpoch: LeaderEpoch = NO_LEADER_EPOCH;
  /** The next leader is followed, and producers of before wait for what it commits. */
  #isHandingOver = false;

  constructor(settings: CoreSettings) {
    this.#settings = settings;
  }

  get role(): PartitionRole {
    return this.#role;
  }
  get isLeader(): boolean {
    return this.#role === "leader";
  }
  get isFollower(): boolean {
    return this.#role === "follower";
  }
  /** Of the present role, or of the last one. */
  get leaderEpoch(): LeaderEpoch {
    return this.#leaderEpoch;
  }
  /** As last told. */
  get record(): PartitionRecord | undefined {
    return this.#role === "leader" ? this.#leader?.record : this.#record;
  }
  /** -1 before any record was told. */
  get partitionEpoch(): number {
    return this.record?.partitionEpoch ?? -1;
  }
  /** The committed ISR as last told. */
  get isr(): readonly NodeId[] {
    return this.record?.isr ?? [];
  }
  get startOffset(): Offset {
    return this.#log.startOffset;
  }
  /** S-30: below this no replica that lives has anything, whatever is lost; -1: one has not said, or this is not the leader. */
  lowWatermark(eligible: Eligible): number {
    return this.#ledBy()?.lowWatermark(eligible) ?? -1;
  }
  /** Accepted: where the next batch goes. */
  get endOffset(): Offset {
    return this.#log.endOffset;
  }
  get writtenEnd(): Offset {
    return this.#log.writtenEnd;
  }
  get durableEnd(): Offset {
    return this.#log.durableEnd;
  }
  get highWatermark(): Offset {
    return this.#log.highWatermark;
  }
  get epochs(): readonly EpochStart[] {
    return this.#log.epochs.entries;
  }
  /** To be read only. */
  get producers(): ProducerTable {
    return this.#log.producers;
  }
  /** A truncation or a restart of the log is under way. */
  get isCutting(): boolean {
    return this.#log.isCutting;
  }
  /** False while a new leader cannot say where the partition ends: answer OFFSET_NOT_AVAILABLE (S-25). */
  get knowsLatest(): boolean {
    return this.#role === "leader" && this.#leader?.knowsLatest === true;
  }
  get waitingCount(): number {
    return this.#leader?.waitingCount ?? 0;
  }
  /** The leader has asked the controller for another ISR and knows no answer. */
  get isIsrChangePending(): boolean {
    return this.#role === "leader" && this.#leader?.isIsrChangePending === true;
  }
  /** What the leader knows of its followers; empty elsewhere. */
  get followers(): readonly FollowerProgress[] {
    return this.#role === "leader" ? (this.#leader?.followers ?? []) : [];
  }
  /** When a `tick` gives a follower's position again; undefined: it is not backing off. */
  get retryAtMs(): number | undefined {
    return this.#role === "follower" ? this.#follower?.retryAtMs : undefined;
  }

  /** Nothing is left to do of a `carry-producers` for this offset but to wait; a leader below min ISR could not do it, or a full disk has undone it. */
  isCarried(toOffset: number): boolean {
    return this.#ledBy()?.isCarried(toOffset) === true;
  }

  /** A leader's log may begin there, after a `carry-producers`: whoever reads it from there on will know of producers what is known here (D-15). */
  mayBeginAt(startOffset: number): boolean {
    return this.#ledBy()?.mayBeginAt(startOffset) === true;
  }

  /** Why a request that knows this leader epoch (-1: not checked) is not served here, or undefined when it is. */
  refusalOf(leaderEpoch: number): ErrorName | undefined {
    if (leaderEpoch >= 0 && leaderEpoch < this.#leaderEpoch) return "FENCED_LEADER_EPOCH";
    if (leaderEpoch > this.#leaderEpoch) return "UNKNOWN_LEADER_EPOCH";
    return this.#role === "leader" ? undefined : "NOT_LEADER_OR_FOLLOWER";
  }

  /** Why nothing may be appended now. `needsMinIsr`: false for acks 0 and 1 where the topic allows them below min ISR (D-29). */
  produceRefusalOf(leaderEpoch: number, needsMinIsr = true): ErrorName | undefined {
    return this.refusalOf(leaderEpoch) ?? this.#leader?.produceRefusal(needsMinIsr);
  }

  /** Of other replicas only a leader knows anything. */
  describe(nowMs: number): PartitionView {
    const { startOffset, highWatermark, endOffset, durableEnd } = this.#log;
    const { self } = this.#settings;
    const isInSync = this.isr.includes(self);
    const own = { nodeId: self, endOffset, durableEnd, caughtUpMsAgo: this.isLeader ? 0 : -1, isInSync };
    return {
      leaderEpoch: this.#leaderEpoch,
      partitionEpoch: this.partitionEpoch,
      startOffset,
      highWatermark,
      endOffset,
      durableEnd,
      replicas: [own, ...(this.#ledBy()?.describe(nowMs) ?? [])],
    };
  }

  step(event: PartitionEvent<Token, Body>): readonly PartitionEffect<Token, Body>[] {
    this.#dispatch(event);
    if (this.#isHandingOver) this.#lookAtHandedOver();
    this.#log.checkInvariants();
    return this.#effects.take();
  }

  checkInvariants(): void {
    this.#log.checkInvariants();
  }

  #dispatch(event: PartitionEvent<Token, Body>): void {
    switch (event.kind) {
      case "produce":
        return this.#produce(event);
      case "written":
        if (this.#log.written(event.endOffset, event.truncations)) this.#ledBy()?.written();
        return;
      case "durable":
        return this.#durable(event);
      case "follower-fetch":
        return this.#followerFetch(event);
      case "durable-report":
        return this.#ledBy()?.report(event);
      case "fetched":
        return this.#fetched(event);
      case "tick":
        this.#ledBy()?.tick(event.eligible, event.nowMs);
        this.#followedBy()?.tick(event.nowMs);
        return;
      default:
        return this.#dispatchRare(event);
    }
  }

  #dispatchRare(
    event: Exclude<
      PartitionEvent<Token, Body>,
      { kind: "produce" | "written" | "durable" | "follower-fetch" | "durable-report" | "fetched" | "tick" }
    >,
  ): void {
    switch (event.kind) {
      case "deadline":
        return this.#leader?.deadline(event.waiting);
      case "refused":
        return this.#refused(event);
      case "session-ended":
        return this.#ledBy()?.sessionEnded(event);
      case "session-started":
        return this.#followedBy()?.sessionStarted(event.nowMs);
      case "isr-change-refused":
        return this.#ledBy()?.isrChangeRefused(event.partitionEpoch, event.error);
      case "carry-producers":
        return this.#ledBy()?.carryProducers(event);
      case "raise-start":
        return this.#ledBy()?.raiseStart(event.toOffset);
      case "start-durable":
        this.#log.startDurable(event.startOffset);
        return this.#followedBy()?.startDurable();
      case "truncated":
      case "restarted":
        return this.#cutDone(event);
      default:
        return this.#dispatchRole(event);
    }
  }

  #dispatchRole(
    event: EventOf<Token, Body, "load" | "epoch-opened" | "lead" | "follow" | "record" | "stand-by">,
  ): void {
    switch (event.kind) {
      case "load":
        this.#standBy("NOT_LEADER_OR_FOLLOWER");
        return this.#log.load(event);
      case "epoch-opened":
        assert(
          this.#role === "stand-by" && !this.#log.isCutting,
          "an epoch is opened while nothing else happens to the log",
        );
        assert(event.leaderEpoch >= this.#log.epochs.latest, `epoch ${event.leaderEpoch} is older than the log's`);
        return this.#log.epochs.open(event.leaderEpoch, this.#log.endOffset);
      case "lead":
        return this.#lead(event);
      case "follow":
        return this.#follow(event);
      case "record":
        return this.#update(event);
      case "stand-by":
        return this.#standBy(event.error);
      default:
        return assertNever(event);
    }
  }

  #ledBy(): Leader<Token, Body> | undefined {
    return this.#role === "leader" ? this.#leader : undefined;
  }

  #followedBy(): Follower<Token, Body> | undefined {
    return this.#role === "follower" ? this.#follower : undefined;
  }

  #produce(event: EventOf<Token, Body, "produce">): void {
    // D-28: a lost one would leave a gap that refuses all later ones.
    const isUnsafe = event.producerId >= 0 && event.acks !== -1;
    const error = this.refusalOf(event.leaderEpoch) ?? (isUnsafe ? "INVALID_REQUEST" : undefined);
    if (error === undefined) this.#leader?.produce(event);
    else this.#effects.refuse(event.token, error);
  }

  #durable(event: EventOf<Token, Body, "durable">): void {
    if (!this.#log.durable(event.endOffset, event.truncations)) return;
    this.#ledBy()?.durable();
    this.#followedBy()?.durable();
  }

  #refused(event: EventOf<Token, Body, "refused">): void {
    const isKnown = this.#log.canCut(event.fromOffset);
    if (!this.#log.refused(event.fromOffset, event.truncations, event.epochs)) return;
    if (this.#isHandingOver) this.#leader?.refused();
    this.#ledBy()?.refused();
    this.#followedBy()?.refused(event.nowMs);
    if (!isKnown) this.#producersLost(event.fromOffset);
  }

  /** More batches of producers were taken back than the table can (PRODUCER_UNDO_MAX). */
  #producersLost(endOffset: Offset): void {
    this.#standBy("STORAGE_ERROR");
    this.#log.producers = new ProducerTable(endOffset);
    this.#effects.push({ kind: "damaged", reason: `what its producers were at ${endOffset} is not known any more` });
  }

  #followerFetch(event: Extract<LeaderEvent, { kind: "follower-fetch" }>): void {
    const leader = this.#ledBy();
    if (leader !== undefined) {
      this.#effects.push({ kind: "fetch-verdict", verdict: leader.fetch(event) });
      return;
    }
    const error = this.refusalOf(event.leaderEpoch) ?? "NOT_LEADER_OR_FOLLOWER";
    this.#effects.push({ kind: "fetch-verdict", verdict: { kind: "refused", error } });
  }

  #fetched(event: EventOf<Token, Body, "fetched">): void {
    const follower = this.#followedBy();
    if (follower === undefined) return;
    follower.fetched(event);
    // It found the log to be damaged.
    if (!follower.isFollowing) this.#role = "stand-by";
  }

  #cutDone(event: EventOf<Token, Body, "truncated" | "restarted">): void {
    if (!this.#log.isCutting) return;
    // The log begins above what was appended: nothing was compared.
    if (event.kind === "restarted") this.#endHandingOver("NOT_LEADER_OR_FOLLOWER");
    if (event.kind === "truncated") this.#log.cutDone(event.ends, event.epochs);
    else this.#log.restartDone(event.ends, event.startOffset, event.producers);
    this.#followedBy()?.cutDone();
  }

  #lead({ record, eligible, nowMs }: Extract<LocalEvent<Token>, { kind: "lead" }>): void {
    const { leaderEpoch } = record;
    assert(this.#log.isLoaded && !this.#log.isCutting, "leads a log that is open and whole");
    assert(leaderEpoch > this.#ledEpoch, `leader epoch ${leaderEpoch} after ${this.#ledEpoch} (D-1)`);
    assert(this.#log.epochs.latest === leaderEpoch, `leader epoch ${leaderEpoch} is not open in the log (R-9)`);
    this.#standBy("NOT_LEADER_OR_FOLLOWER");
    this.#leader ??= new Leader(this.#settings, { log: this.#log, effects: this.#effects }, record);
    this.#role = "leader";
    this.#leaderEpoch = leaderEpoch;
    this.#ledEpoch = leaderEpoch;
    this.#leader.start(record, nowMs);
    this.#leader.tick(eligible, nowMs);
  }

  #follow({ record, nowMs }: Extract<LocalEvent<Token>, { kind: "follow" }>): void {
    const { leader, leaderEpoch } = record;
    assert(this.#log.isLoaded, "follows with a log that is open");
    assert(leader !== null && leader !== this.#settings.self, "follows another node");
    if (this.#isHandOver(record)) this.#isHandingOver = true;
    else this.#standBy("NOT_LEADER_OR_FOLLOWER");
    this.#follower ??= new Follower(this.#settings, { log: this.#log, effects: this.#effects });
    this.#role = "follower";
    this.#record = record;
    this.#leaderEpoch = leaderEpoch;
    this.#follower.start(record, leader, nowMs);
    if (!this.#follower.isFollowing) this.#role = "stand-by";
  }

  #update({ record, eligible, nowMs }: Extract<LocalEvent<Token>, { kind: "record" }>): void {
    const leader = this.#ledBy();
    if (leader !== undefined) leader.update(record, eligible, nowMs);
    else if (this.#record?.leaderEpoch === record.leaderEpoch && record.partitionEpoch > this.#record.partitionEpoch) {
      this.#record = record;
      this.#followedBy()?.update(record);
    }
  }

  /** The role ends before its producers hear of it, so that none of them can see the old one. */
  #standBy(error: ErrorName): void {
    const leader = this.#ledBy();
    this.#followedBy()?.stop();
    this.#record = this.record;
    this.#role = "stand-by";
    leader?.stop(error);
    this.#endHandingOver(error);
  }

  /**
   * R-42 has producers told at once that nobody knows. But the very next leader has nearly always what was appended here, and what this log shares with
   * it and it has committed is committed: whoever waits is told so, unless it is cut here, its deadline comes, or roles change once more.
   */
  #isHandOver({ leaderEpoch, replicas }: PartitionRecord): boolean {
    const isNext = leaderEpoch === this.#ledEpoch + 1 && replicas.includes(this.#settings.self);
    return this.#role === "leader" && isNext && this.waitingCount > 0;
  }

  #lookAtHandedOver(): void {
    const { endOffset, highWatermark } = this.#log;
    if (this.#role !== "follower") this.#endHandingOver("NOT_LEADER_OR_FOLLOWER");
    else this.#isHandingOver = this.#leader?.handedOver(endOffset, highWatermark) === true;
  }

  #endHandingOver(error: ErrorName): void {
    if (!this.#isHandingOver) return;
    this.#isHandingOver = false;
    this.#leader?.stop(error);
  }
}
