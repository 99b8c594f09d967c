// size: the host of one core, whose duties belong together.
// One replica of one partition in one process: its core, its log, and the host's duties around them.
import type { PartitionImage } from "../../metadata/image.ts";
import type { LeaderEpoch, NodeId, Offset } from "../../model/ids.ts";
import type { ErrorName } from "../../model/errors.ts";
import { PartitionCore } from "../../replication/partition-core.ts";
import type {
  Eligible,
  EpochStart,
  FetchedBatch,
  PartitionEffect,
  PartitionEvent,
  Verdict,
  WaitingProduce,
} from "../../replication/types.ts";
import { assertNever } from "../../base/assert.ts";
import { SimBatch } from "./batch.ts";
import type { WatchedReplica } from "./checker.ts";
import type { LogOp, PlatterLog } from "./disk.ts";
import type { Pending } from "./journal.ts";
import { SimLog } from "./log.ts";
import { ProducerCapture } from "./producer-capture.ts";
import { Serving } from "./serving.ts";
import { Trimming } from "./trimming.ts";
import type { SimNode } from "./node.ts";
import type { BulkConnection, DurableReport } from "./streams.ts";
import type { ReplicationWorld } from "./world.ts";

type Effect = PartitionEffect<SimBatch, SimBatch>;
type Event = PartitionEvent<SimBatch, SimBatch>;
export type IsrProposal = Extract<Effect, { kind: "propose-isr" }>;

/** Steps between two readings of the whole log by the checker. */
const CHECK_EVERY = 64;

interface Waiting {
  readonly waiting: WaitingProduce<SimBatch>;
  readonly untilMs: number;
}

export class SimReplica implements WatchedReplica {
  readonly node: SimNode;
  readonly partition: number;
  readonly name: string;
  readonly life: number;
  readonly core: PartitionCore<SimBatch, SimBatch>;
  log: SimLog;
  /** The record that the core was given last. */
  record: PartitionImage | undefined;
  isDamaged: boolean;
  /** A change of the log is under way: no other role begins before it is done. */
  #isBusy = false;
  #wanted: PartitionImage | undefined;
  #isGiven = false;
  /** Of the metadata as applied here. */
  eligible: Eligible = new Map();
  #verdict: Verdict | undefined;
  #seenHighWatermark = 0;
  /** What it knew to be committed before this role has been looked at. */
  #isCompared = false;
  /** Whatever the core does to it. */
  #highestMark = 0;
  /** A follower that the high watermark waits for and that is not proposed yet (D-8), and since when. */
  #joining: { readonly nodeId: NodeId; readonly sinceMs: number } | undefined;
  readonly serving: Serving;
  readonly #trimming: Trimming;
  #waiting: Waiting[] = [];
  #steps = 0;
  readonly #images = new ProducerCapture();
  readonly #world: ReplicationWorld;

  constructor(world: ReplicationWorld, node: SimNode, partition: number) {
    this.#world = world;
    this.node = node;
    this.partition = partition;
    this.life = node.life;
    this.name = `node ${node.nodeId} p${partition}`;
    const { lagMaxMs, backoffMs, producerExpirationMs } = world.swarm;
    const settings = { self: node.nodeId, lagMaxMs, backoffMs, producerExpirationMs };
    this.core = new PartitionCore<SimBatch, SimBatch>(settings);
    this.serving = new Serving(world, this);
    this.#trimming = new Trimming(world, this);
    this.log = new SimLog(this.#platter.state, world.swarm.producersMax);
    this.isDamaged = this.#platter.isDamaged;
    if (this.isDamaged) world.trace(() => `${this.name} is found to be damaged`);
    this.#load();
  }

  get nodeId(): NodeId {
    return this.node.nodeId;
  }
  get batches(): readonly SimBatch[] {
    return this.log.state.batches;
  }
  get epochs(): readonly EpochStart[] {
    return this.log.state.epochs;
  }
  /** As readers see it: the log may be told of it in this very step. */
  get startOffset(): number {
    return this.core.startOffset;
  }
  get writtenEnd(): number {
    return this.log.writtenEnd;
  }
  get #platter(): PlatterLog {
    return this.node.disk.logs[this.partition] as PlatterLog;
  }
  /** As the node's metadata says. */
  get wanted(): PartitionImage | undefined {
    return this.#wanted;
  }
  get isFollower(): boolean {
    return this.core.role === "follower";
  }

  // --- steps

  step(event: Event): void {
    const effects = this.core.step(event);
    this.#watch();
    for (const effect of effects) this.#carryOut(effect);
    this.serving.notify();
    this.#trimming.look();
    // A truncation that waits has cut the log already, and a full disk's refusal is told after it.
    if (++this.#steps % CHECK_EVERY === 0 && this.core.endOffset === this.log.endOffset) this.#checkProducers();
  }

  /** Of a follower's position there is always a verdict. */
  ask(event: Event): Verdict {
    this.#verdict = undefined;
    this.step(event);
    const verdict = this.#verdict as Verdict | undefined;
    if (verdict === undefined) throw new RangeError(`${this.name} has no verdict about a fetch`);
    return verdict;
  }

  #load(): void {
    const { state } = this.log;
    const highWatermark = this.#platter.loadedHighWatermark as Offset;
    const image = this.#platter.usableImage;
    this.#seenHighWatermark = highWatermark;
    this.#highestMark = highWatermark;
    this.step({
      kind: "load",
      ends: this.log.ends,
      startOffset: state.startOffset as Offset,
      epochs: this.epochs,
      highWatermark,
      producers: this.log.replayProducers(image),
    });
    if (image !== undefined) this.#world.mark("producers from an image");
    this.#checkProducers();
  }

  /** 25. While the log is cut the table is that of before: a cut that fails leaves both. */
  #checkProducers(): void {
    const { isCutting, producers } = this.core;
    if (this.#world.swarm.checksTables && !isCutting) this.#world.checker.hasProducers(this, producers);
  }

  #watch(): void {
    const { core } = this;
    if (core.role !== "stand-by") this.#world.checker.believes(this, core);
    const { highWatermark } = core;
    const from = this.#seenHighWatermark;
    if (highWatermark > from && core.role !== "stand-by") {
      const { checker } = this.#world;
      if (core.role === "leader") checker.leaderHighWatermark(this, { from, to: highWatermark });
      else checker.followerHighWatermark(this, { from, to: highWatermark });
    }
    this.#seenHighWatermark = highWatermark;
    this.#highestMark = Math.max(this.#highestMark, highWatermark);
  }

  #carryOut(effect: Effect): void {
    switch (effect.kind) {
      case "append":
        return this.#append(effect);
      case "duplicate":
        return this.#duplicate(effect);
      case "answer":
        return this.#answer(effect);
      case "high-watermark":
        return undefined;
      case "append-fetched":
        return this.#appendFetched(effect.batches);
      case "append-told":
        return this.#appendTold(effect);
      case "log-start":
        return this.#raiseStart(effect.startOffset);
      case "truncate":
        return this.#truncate(effect.toOffset);
      case "restart-log":
        return this.#restart(effect.fromOffset);
      case "fetch":
        return this.node.streams.fetch(this.partition, effect);
      case "report":
        return this.#report(effect);
      case "propose-isr":
        return this.node.proposals.propose(this.partition, effect);
      case "fetch-verdict":
        this.#verdict = effect.verdict;
        return undefined;
      case "damaged":
        return this.damage(effect.reason);
      default:
        return assertNever(effect);
    }
  }

  // --- the log

  #journal(op: LogOp, onDurable?: () => void): void {
    const { partition, log } = this;
    this.node.journal.add({ log: partition, op, replica: this, truncations: log.truncations, onDurable });
  }

  #append({ token, baseOffset, lastOffset, leaderEpoch, waiting }: Extract<Effect, { kind: "append" }>): void {
    token.baseOffset = baseOffset;
    token.endOffset = lastOffset + 1;
    token.epoch = leaderEpoch;
    this.#world.checker.leaderAppends(this, token);
    this.#put(token);
    if (waiting !== undefined) this.#waiting.push({ waiting, untilMs: this.node.nowMs + this.#world.swarm.deadlineMs });
  }

  #appendTold({ told, baseOffset, leaderEpoch }: Extract<Effect, { kind: "append-told" }>): void {
    this.#world.mark(`producers ${told.kind}`);
    this.#world.trace(
      () =>
        `${this.name} tells at ${baseOffset} of ${told.kind} producers ${told.producers.map(({ producerId }) => producerId).join(" ")}`,
    );
    const batch = new SimBatch(this.#world.nextBatch(), { recordCount: 1, acks: 0 });
    batch.told = told;
    batch.baseOffset = baseOffset;
    batch.endOffset = baseOffset + 1;
    batch.epoch = leaderEpoch;
    this.#world.checker.leaderAppends(this, batch);
    this.#put(batch);
  }

  #put(batch: SimBatch): void {
    this.#world.checker.appends(this, batch);
    this.#world.hash.u32(batch.number);
    const op = { kind: "append", batch, before: this.batches.at(-1) } as const;
    this.log.state.apply(op);
    this.#journal(op);
  }

  #raiseStart(startOffset: Offset): void {
    this.#world.mark(this.core.role === "leader" ? "log start raised" : "log start followed");
    this.#world.trace(() => `${this.name} begins at ${startOffset}`);
    this.#world.checker.starts.letsGo(this, startOffset);
    const op = { kind: "start", toOffset: startOffset } as const;
    this.log.state.apply(op);
    this.#journal(op, () => this.step({ kind: "start-durable", startOffset }));
    if (this.core.role === "leader") this.serving.startRaised();
  }

  #appendFetched(batches: readonly FetchedBatch<SimBatch>[]): void {
    for (const { body } of batches) this.#put(body);
  }

  #truncate(toOffset: number): void {
    this.#world.trace(() => `${this.name} truncates ${this.log.endOffset} to ${toOffset}`);
    this.#world.mark(toOffset < this.log.endOffset ? "records truncated" : "epochs truncated");
    this.#world.checker.truncates(this, { toOffset, highWatermark: this.#highestMark });
    this.log.cut(toOffset);
    this.#images.cut(toOffset);
    // Only a leader that was elected uncleanly asks for it: the batch that holds the log start would go.
    if (this.log.endOffset < this.log.state.startOffset) return this.damage("cut through the batch of its log start");
    this.#whileBusy({ kind: "truncate", toOffset }, () => {
      this.step({ kind: "truncated", ends: this.log.ends, epochs: this.epochs });
      this.#checkProducers();
    });
    this.#world.onDelicate?.(this, "truncate");
  }

  #restart(fromOffset: number): void {
    this.#world.mark(fromOffset < this.log.state.startOffset ? "restarted inside a batch" : "log restarted");
    this.#world.checker.starts.restarts(this, fromOffset);
    this.log.reset(fromOffset);
    this.#images.cut(0);
    this.#whileBusy({ kind: "reset", fromOffset }, () => {
      const producers = this.log.replayProducers();
      this.step({ kind: "restarted", ends: this.log.ends, startOffset: fromOffset as Offset, producers });
    });
  }

  #whileBusy(op: LogOp, done: () => void): void {
    this.#isBusy = true;
    this.#journal(op, () => {
      this.#isBusy = false;
      done();
      this.#settle();
    });
  }

  wrote(): void {
    const { writtenEnd, truncations } = this.log;
    if (this.isDamaged) return;
    this.step({ kind: "written", endOffset: writtenEnd as Offset, truncations });
  }

  synced(): void {
    const { durableEnd, truncations } = this.log;
    if (this.isDamaged) return;
    this.step({ kind: "durable", endOffset: durableEnd as Offset, truncations });
  }

  /** `queued`: what is behind the refused records. Epochs are opened all the same (D-18). */
  refused(queued: readonly Pending[]): void {
    this.#world.mark("append refused");
    const { log } = this;
    log.state = this.node.disk.written(this.partition);
    for (const { replica, op } of queued) if (replica === this && op.kind !== "append") log.state.apply(op);
    if (this.isDamaged) return;
    this.step({
      kind: "refused",
      fromOffset: log.endOffset as Offset,
      truncations: log.truncations,
      epochs: this.epochs,
      nowMs: this.node.nowMs,
    });
  }

  /** The log gives and takes nothing from here on (D-17). */
  damage(reason: string): void {
    this.#world.trace(() => `${this.name} is damaged: ${reason}`);
    this.#world.mark("replica damaged");
    this.isDamaged = true;
    this.#platter.isDamaged = true;
    this.#settle();
    this.node.heartbeatSoon();
  }

  // --- roles

  onRecord(
    record: PartitionImage,
    { isGiven, eligible }: { readonly isGiven: boolean; readonly eligible: Eligible },
  ): void {
    this.#wanted = record;
    this.#isGiven = isGiven;
    this.eligible = eligible;
    this.#settle();
  }

  /** Makes the core what the metadata says, as far as the log allows now. */
  #settle(): void {
    const wanted = this.#wanted;
    if (wanted === undefined) return;
    if (this.isDamaged) return this.#leaveDamaged(wanted);
    const isLeader = wanted.leader === this.nodeId;
    if (wanted.leader === null || (isLeader && !this.#isGiven)) return this.#standBy("LEADER_NOT_AVAILABLE");
    const isSameRole = this.core.role === (isLeader ? "leader" : "follower");
    if (isSameRole && this.record?.leaderEpoch === wanted.leaderEpoch) return this.#sameEpoch(wanted);
    if (this.#isBusy || this.core.role === "leader") this.#standBy("NOT_LEADER_OR_FOLLOWER");
    if (this.#isBusy) return;
    if (isLeader) this.#openEpoch(wanted.leaderEpoch);
    else this.#follow(wanted);
  }

  #standBy(error: ErrorName): void {
    if (this.core.role === "stand-by") return;
    this.step({ kind: "stand-by", error });
    this.serving.roleChanged();
  }

  #sameEpoch(wanted: PartitionImage): void {
    if (this.record === wanted) return;
    const before = this.record;
    this.record = wanted;
    this.step({ kind: "record", record: wanted, eligible: this.eligible, nowMs: this.node.nowMs });
    if (before !== undefined && this.#world.network.chance(this.#world.swarm.staleRecordChance))
      this.#giveAgain(before);
  }

  /** a turn that was queued before. */
  #giveAgain(record: PartitionImage): void {
    const { node } = this;
    const { life } = node;
    this.#world.at(this.#world.network.below(200), () => {
      if (node.life !== life) return;
      node.whenRunning(() => {
        if (this.core.role === "stand-by" || this.record?.leaderEpoch !== record.leaderEpoch) return;
        this.step({ kind: "record", record, eligible: this.eligible, nowMs: node.nowMs });
      });
    });
  }

  #follow(record: PartitionImage): void {
    this.record = record;
    this.#isCompared = false;
    this.step({ kind: "follow", record, nowMs: this.node.nowMs });
    this.serving.roleChanged();
  }

  /** durable before anything is appended in it. */
  #openEpoch(epoch: LeaderEpoch): void {
    this.#standBy("NOT_LEADER_OR_FOLLOWER");
    this.log.state.apply({ kind: "epoch", epoch });
    this.#whileBusy({ kind: "epoch", epoch }, () => {
      this.step({ kind: "epoch-opened", leaderEpoch: epoch });
      const wanted = this.#wanted;
      if (this.isDamaged || wanted?.leaderEpoch !== epoch || wanted.leader !== this.nodeId || !this.#isGiven) return;
      this.#lead(wanted);
    });
  }

  #lead(record: PartitionImage): void {
    this.record = record;
    this.#world.trace(
      () => `${this.name} leads epoch ${record.leaderEpoch}, ISR [${record.isr.join(" ")}], end ${this.log.endOffset}`,
    );
    this.#world.checker.leads(this, this.core.highWatermark);
    this.#checkProducers();
    this.step({ kind: "lead", record, eligible: this.eligible, nowMs: this.node.nowMs });
    this.serving.roleChanged();
    this.#world.onDelicate?.(this, "lead");
  }

  /** D-17: dropped and fetched whole, once it counts nowhere and somebody else leads. */
  #leaveDamaged({ isr, elr, leader, leaderEpoch }: PartitionImage): void {
    if (this.core.role !== "stand-by") this.#standBy("NOT_LEADER_OR_FOLLOWER");
    const counts = isr.includes(this.nodeId) || elr.includes(this.nodeId);
    if (counts || leader === null || leader === this.nodeId || this.#isBusy) return;
    if (!this.node.isDamageKnown(this.partition, leaderEpoch)) return;
    this.log.reset(0);
    this.#images.cut(0);
    this.#world.mark("replica refetched");
    this.#world.trace(() => `${this.name} is begun anew`);
    this.#whileBusy({ kind: "reset", fromOffset: 0 }, () => {
      this.isDamaged = false;
      this.node.damageEnded(this.partition);
      this.#load();
    });
  }

  /** What the controller knows of the damage may be news. */
  lookAgain(): void {
    this.#settle();
  }

  // --- as a leader

  produce(batch: SimBatch): void {
    const { recordCount, acks, producerId, producerEpoch, baseSequence, crc, isResent } = batch;
    const sequence = { producerId, producerEpoch, baseSequence, crc, isResent };
    this.step({ kind: "produce", token: batch, recordCount, acks, leaderEpoch: -1, ...sequence });
  }

  /** S-30, as retention or whoever deletes records. */
  trim(toOffset: number): void {
    this.#trimming.wish(toOffset);
  }

  #checkLowWatermark(): void {
    const { core, eligible } = this;
    if (core.role === "leader")
      this.#world.checker.starts.hasGone(this, { low: core.lowWatermark(eligible), eligible });
  }

  #duplicate({ waiting }: Extract<Effect, { kind: "duplicate" }>): void {
    this.#world.mark(waiting === undefined ? "duplicate answered" : "duplicate waits");
    if (waiting !== undefined) this.#waiting.push({ waiting, untilMs: this.node.nowMs + this.#world.swarm.deadlineMs });
  }

  #answer({ token: batch, error, outcome, baseOffset }: Extract<Effect, { kind: "answer" }>): void {
    this.#world.hash.text(error);
    this.#world.mark(`answer ${error}`);
    this.#world.trace(() => `${this.name} answers batch ${batch.number} at ${baseOffset ?? -1}: ${error}`);
    this.#world.checker.answers(this, batch, { error, baseOffset: baseOffset ?? -1 });
    batch.onAnswer?.({ error, outcome }, this.nodeId);
  }

  /** A consumer asks for the end of the partition. */
  listLatest(): void {
    if (this.core.role === "leader" && this.core.knowsLatest)
      this.#world.checker.tellsEnd(this, this.core.highWatermark);
  }

  tick(): void {
    const { nowMs } = this.node;
    if (this.isDamaged) return;
    this.step({ kind: "tick", eligible: this.eligible, nowMs });
    this.#watchJoining(nowMs);
    const due = this.#waiting.filter(({ waiting, untilMs }) => !waiting.isSettled && untilMs <= nowMs);
    this.#waiting = this.#waiting.filter(({ waiting, untilMs }) => !waiting.isSettled && untilMs > nowMs);
    for (const { waiting } of due) this.step({ kind: "deadline", waiting });
  }

  /** D-8: at most 500 ms, and a tick until that is seen. */
  #watchJoining(nowMs: number): void {
    const { followers, isIsrChangePending } = this.core;
    const joining = isIsrChangePending ? undefined : followers.find((one) => one.isCounted && !one.isInSync);
    if (joining === undefined) this.#joining = undefined;
    else if (this.#joining?.nodeId !== joining.nodeId) this.#joining = { nodeId: joining.nodeId, sinceMs: nowMs };
    else this.#world.checker.waitsForNewcomer(this, joining.nodeId, nowMs - this.#joining.sinceMs);
  }

  isrChangeRefused(partitionEpoch: number, error: ErrorName): void {
    this.step({ kind: "isr-change-refused", partitionEpoch, error });
  }

  sessionEnded(connection: BulkConnection): void {
    this.serving.ended(connection);
    const follower = connection.follower.nodeId;
    this.step({ kind: "session-ended", follower, sessionId: connection.sessionId, nowMs: this.node.nowMs });
  }

  reported(connection: BulkConnection, { leaderEpoch, durableEnd, startOffset }: Omit<DurableReport, "kind">): void {
    const { follower, brokerEpoch, sessionId } = connection;
    const { nowMs } = this.node;
    const { eligible } = this;
    this.step({
      kind: "durable-report",
      follower: follower.nodeId,
      brokerEpoch,
      sessionId,
      leaderEpoch,
      durableEnd,
      startOffset,
      eligible,
      nowMs,
    });
    this.#checkLowWatermark();
  }

  // --- as a follower

  #report(report: DurableReport): void {
    const { durableEnd } = report;
    if (!this.#isCompared) this.#world.checker.followerHighWatermark(this, { from: 0, to: this.core.highWatermark });
    this.#isCompared = true;
    this.#world.checker.reports(this, { durableEnd, platterEnd: this.#platter.state.endOffset });
    this.node.streams.report(this.partition, this.record?.leader ?? null, report);
    this.#world.onDelicate?.(this, "report");
  }

  sessionStarted(): void {
    this.step({ kind: "session-started", nowMs: this.node.nowMs });
  }

  checkpoint(): void {
    if (this.isDamaged) return;
    this.#platter.noteHighWatermark(this.core.highWatermark);
    const { durableEnd, highWatermark, isCutting, producers } = this.core;
    const last = isCutting ? undefined : this.batches.at(-1);
    this.#images.checkpoint(this.#platter, Math.min(highWatermark, durableEnd), { producers, last });
  }
}
