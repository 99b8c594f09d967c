// The replicas of this broker: carries their cores' effects out strictly in order (D-34), and turns storage's completions into events.
import { assert, assertNever } from "../base/assert.ts";
import { Ring } from "../base/ring.ts";

import { asOttlaError, type ErrorName, OttlaError } from "../model/errors.ts";
import type { LeaderEpoch, Offset, TopicId } from "../model/ids.ts";
import { buildToldProducers } from "../model/producer-records.ts";
import { assignOffsets, stampAppendTime } from "../model/record-batch.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Clock } from "../ports/clock.ts";
import type { Logger } from "../ports/logger.ts";
import type { Timers } from "../ports/timers.ts";
import type {
  CoreSettings,
  Eligible,
  FetchedBatch,
  LogEnds,
  PartitionEffect,
  PartitionEvent,
  PartitionRecord,
} from "../replication/types.ts";
import type { LogStore, ReplicaLog, StoreListener } from "../storage/types.ts";
import type { TopicLimits } from "./effective-configs.ts";
import { type ProduceEntry, Replica } from "./replica.ts";
import type { ReplicaProbe } from "./replica-probe.ts";
import type { FetchVerdict, PartitionRole, ReplicationCalls } from "./replication/types.ts";

export interface ReplicaManagerEvents {
  onRoomChanged(): void;
  onDiskFailed(error: OttlaError): void;
  /** It may neither lead nor follow from here on (D-17); or its log could not be changed as its core wished: begin again. */
  onUnusable(replica: Replica, error: OttlaError | undefined): void;
  /** The ISR of a partition led here has other members: by so many fewer, or more. */
  onIsrChanged(change: number): void;
  /** The present turn's work ends in a defect: the process must stop. */
  guard(work: () => void): void;
}

export interface ReplicaManagerDeps {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly checksum: Checksum;
  readonly store: Pick<LogStore, "resetLog">;
  readonly events: ReplicaManagerEvents;
  readonly probe?: ReplicaProbe | undefined;
  readonly logger?: Logger;
}

type Event = PartitionEvent<ProduceEntry>;
type Effect = PartitionEffect<ProduceEntry>;

export class ReplicaManager implements StoreListener {
  readonly #deps: ReplicaManagerDeps;
  readonly #settings: CoreSettings;
  readonly #byLog = new Map<ReplicaLog, Replica>();
  readonly #byTopic = new Map<TopicId, Map<number, Replica>>();
  readonly #led = new Set<Replica>();
  readonly #damaged = new Set<Replica>();
  readonly #moved = new Ring<Replica>();
  #streams: ReplicationCalls | undefined;
  #eligible: Eligible = new Map();
  #messageBytesMax = 0;
  #isRoomPending = false;

  constructor(deps: ReplicaManagerDeps, settings: CoreSettings) {
    this.#deps = deps;
    this.#settings = settings;
  }

  /** Once, before any replica has a role. */
  set streams(streams: ReplicationCalls) {
    this.#streams = streams;
  }

  /** Partitions led here now. */
  get led(): ReadonlySet<Replica> {
    return this.#led;
  }

  get all(): Iterable<Replica> {
    return this.#byLog.values();
  }

  get count(): number {
    return this.#byLog.size;
  }

  get topicIds(): Iterable<TopicId> {
    return this.#byTopic.keys();
  }

  /** Longest batch that any partition served since the start takes. */
  get messageBytesMax(): number {
    return this.#messageBytesMax;
  }

  /** Unfenced brokers as applied: another map after each change. */
  get eligible(): Eligible {
    return this.#eligible;
  }
  set eligible(eligible: Eligible) {
    this.#eligible = eligible;
  }

  /** D-17: those that may neither lead nor follow. */
  get damaged(): ReadonlySet<Replica> {
    return this.#damaged;
  }

  find(topicId: TopicId, partition: number): Replica | undefined {
    return this.#byTopic.get(topicId)?.get(partition);
  }

  ofTopic(topicId: TopicId): Iterable<Replica> {
    return this.#byTopic.get(topicId)?.values() ?? [];
  }

  /** New limits for what comes from now on. */
  configure(replica: Replica, limits: TopicLimits): void {
    if (sameLimits(replica.limits, limits)) return;
    this.#messageBytesMax = Math.max(this.#messageBytesMax, limits.maxMessageBytes);
    replica.limits = limits;
    replica.log.configure(limits);
  }

  /** A log is here: hosts it, in stand-by. */
  open(log: ReplicaLog, limits: TopicLimits): Replica {
    const known = this.#byLog.get(log);
    if (known !== undefined) return known;
    const replica = new Replica({ settings: this.#settings, topicName: log.topic, log, limits });
    const partitions = this.#byTopic.get(log.topicId) ?? new Map<number, Replica>();
    this.#byTopic.set(log.topicId, partitions);
    partitions.set(log.partition, replica);
    this.#messageBytesMax = Math.max(this.#messageBytesMax, limits.maxMessageBytes);
    log.configure(limits);
    this.#byLog.set(log, replica);
    this.#deps.probe?.onOpened(replica);
    if (log.damage !== undefined) this.#damaged.add(replica);
    this.load(replica);
    return replica;
  }

  /** In stand-by: the core takes what the log has. */
  load(replica: Replica): void {
    const { log } = replica;
    const { startOffset, epochs, highWatermark, producers } = log;
    this.step(replica, { kind: "load", ends: endsOf(log), startOffset, epochs: [...epochs], highWatermark, producers });
  }

  /** The log has opened the epoch durably, whoever leads in it now. Only in stand-by. */
  epochOpened(replica: Replica, leaderEpoch: LeaderEpoch): void {
    this.step(replica, { kind: "epoch-opened", leaderEpoch });
  }

  /** In an epoch that the log has opened durably, and that was given to this incarnation (D-1). */
  lead(replica: Replica, record: PartitionRecord): void {
    replica.record = record;
    this.#led.add(replica);
    this.step(replica, { kind: "lead", record, eligible: this.#eligible, nowMs: this.#nowMs });
    this.#roleChanged(replica, "leader");
  }

  follow(replica: Replica, record: PartitionRecord): void {
    this.#led.delete(replica);
    replica.record = record;
    this.step(replica, { kind: "follow", record, nowMs: this.#nowMs });
    this.#roleChanged(replica, "follower");
  }

  /** The same leader epoch, other members or another min ISR. */
  record(replica: Replica, record: PartitionRecord): void {
    const before = replica.record;
    replica.record = record;
    this.step(replica, { kind: "record", record, eligible: this.#eligible, nowMs: this.#nowMs });
    if (before !== undefined && this.#led.has(replica) && before.isr.length !== record.isr.length)
      this.#deps.events.onIsrChanged(record.isr.length - before.isr.length);
  }

  /** Neither leads nor follows: its producers are answered with `error`, outcome unknown; its readers look again and are told. */
  standBy(replica: Replica, error: ErrorName): void {
    if (replica.record === undefined) return;
    replica.record = undefined;
    this.#led.delete(replica);
    this.step(replica, { kind: "stand-by", error });
    this.#roleChanged(replica, "none");
  }

  #roleChanged(replica: Replica, role: PartitionRole): void {
    this.#streams?.onRole(replica, role);
    this.#wake(replica);
  }

  /** Serves the topic no more: its producers are answered with `error`, its readers look again and find nothing. */
  drop(topicId: TopicId, error: ErrorName): void {
    for (const replica of [...this.ofTopic(topicId)]) this.close(replica, error);
  }

  /** Hosts it no more; its log stays. */
  close(replica: Replica, error: ErrorName): void {
    if (replica.isDropped) return;
    const { topicId, partition } = replica.log;
    const partitions = this.#byTopic.get(topicId);
    partitions?.delete(partition);
    if (partitions?.size === 0) this.#byTopic.delete(topicId);
    this.standBy(replica, error);
    replica.isDropped = true;
    this.#byLog.delete(replica.log);
    this.#damaged.delete(replica);
    this.#streams?.forget(replica);
    this.#deps.probe?.onClosed(replica);
  }

  /** D-17: drops a damaged log whole and begins it anew. Rejects as `resetLog`: it is damaged still then, or has no log. */
  async fetchAnew(replica: Replica): Promise<void> {
    await replica.busy;
    await this.#resetLog(replica, 0 as Offset);
    if (replica.isDropped) return;
    replica.coreDamage = undefined;
    if (replica.damage === undefined) this.#damaged.delete(replica);
    this.load(replica);
  }

  /** D-17: its log is whole again, with all that it had. */
  repaired(replica: Replica): void {
    if (replica.damage !== undefined) return;
    this.#damaged.delete(replica);
    this.load(replica);
  }

  get #nowMs(): number {
    return this.#deps.clock.monoMs();
  }

  /** D-15: before the log of a replica that is led here begins there. `mayExpire`: false when the clock is not to be trusted. */
  carryProducers(replica: Replica, toOffset: Offset, mayExpire: boolean): void {
    this.step(replica, { kind: "carry-producers", toOffset, wallMs: this.#deps.clock.wallMs(), mayExpire });
  }

  /** Carries out what the core asks for; the verdict of a follower's fetch is given back. */
  step(replica: Replica, event: Event): FetchVerdict | undefined {
    assert(!replica.isStepping, `${event.kind} came while the effects of another event were carried out (D-34)`);
    replica.isStepping = true;
    let verdict: FetchVerdict | undefined;
    try {
      verdict = this.#stepOnce(replica, event);
    } finally {
      replica.isStepping = false;
    }
    if (replica.startWaiters.size > 0) this.#tellStepped(replica);
    return verdict;
  }

  /** A copy: who is told may leave, and step. In that step another one of the copy may be told, and have left: it is not told once more. */
  #tellStepped(replica: Replica): void {
    for (const waiter of [...replica.startWaiters]) if (replica.startWaiters.has(waiter)) waiter.onStepped(replica);
  }

  #stepOnce(replica: Replica, event: Event): FetchVerdict | undefined {
    let verdict: FetchVerdict | undefined;
    const effects = replica.core.step(event);
    this.#deps.probe?.onStepped(replica, event, effects);
    for (const effect of effects) {
      if (effect.kind === "fetch-verdict") verdict = effect;
      else this.#carryOut(replica, effect);
    }
    return verdict;
  }

  #carryOut(replica: Replica, effect: Exclude<Effect, FetchVerdict>): void {
    switch (effect.kind) {
      case "append":
        return this.#append(replica, effect);
      case "append-fetched":
        return this.#appendFetched(replica, effect.batches);
      case "duplicate":
        effect.token.waiting = effect.waiting;
        effect.token.isDuplicate = true;
        effect.token.releaseBatch();
        return undefined;
      case "answer":
        return effect.token.onAnswer(effect.token, { ...effect, message: null });
      case "high-watermark":
        replica.log.noteHighWatermark(effect.highWatermark);
        if (this.#led.has(replica)) this.#streams?.onHighWatermark(replica);
        if (replica.waiters.size > 0) this.#wake(replica);
        return undefined;
      case "append-told":
        return this.#appendTold(replica, effect);
      case "log-start":
        return this.#advanceStart(replica, effect.startOffset);
      case "truncate":
        return this.#changeLog(replica, () => this.#truncate(replica, effect.toOffset));
      case "restart-log":
        return this.#changeLog(replica, () => this.#restart(replica, effect.fromOffset));
      case "fetch":
      case "report":
      case "propose-isr":
        return this.#streams?.onEffect(replica, effect);
      case "damaged":
        replica.coreDamage = effect.reason;
        this.#damaged.add(replica);
        return this.#damagedLater(replica);
      default:
        return assertNever(effect);
    }
  }

  #append(replica: Replica, effect: Extract<Effect, { kind: "append" }>): void {
    const entry = effect.token;
    entry.waiting = effect.waiting;
    const batch = entry.releaseBatch();
    const { endOffset } = replica.log;
    assert(effect.baseOffset === endOffset, `append at ${effect.baseOffset}, but the log ends at ${endOffset}`);
    const { checksum, clock } = this.#deps;
    if (replica.limits.isLogAppendTime) stampAppendTime(batch, clock.wallMs(), checksum);
    assignOffsets(batch, effect.baseOffset, effect.leaderEpoch);
    replica.acceptedBytes += batch.length;
    // A log that throws here leaves core and log at different ends: nothing may be served any more.
    this.#deps.events.guard(() => replica.log.append(batch, effect.lastOffset, effect.leaderEpoch));
    this.#deps.probe?.onAppended(replica, batch);
  }

  /** Also where produced batches find no room: what it lets go makes some. */
  #appendTold(replica: Replica, effect: Extract<Effect, { kind: "append-told" }>): void {
    const { told, baseOffset, leaderEpoch, wallMs } = effect;
    assert(baseOffset === replica.log.endOffset, `append at ${baseOffset}, but the log ends elsewhere`);
    const batch = buildToldProducers(told, wallMs, this.#deps.checksum);
    assignOffsets(batch, baseOffset, leaderEpoch);
    replica.acceptedBytes += batch.length;
    this.#deps.events.guard(() => replica.log.append(batch, baseOffset, leaderEpoch));
    this.#deps.probe?.onAppended(replica, batch);
  }

  /** Readers and followers are told at once; the core when it is durable (S-30). */
  #advanceStart(replica: Replica, startOffset: Offset): void {
    const { log } = replica;
    const advanced = log.advanceStart(startOffset);
    if (this.#led.has(replica)) this.#streams?.onLogStart(replica);
    if (replica.waiters.size > 0) this.#wake(replica);
    const isIts = (): boolean => !replica.isDropped && replica.log === log;
    advanced.then(
      () => {
        if (isIts()) this.#guardedStep(replica, { kind: "start-durable", startOffset });
      },
      (thrown: unknown) => {
        // A log that is damaged, gone or on a failed disk is told of elsewhere.
        if (!(thrown instanceof OttlaError))
          this.#deps.events.guard(() => {
            throw thrown;
          });
      },
    );
  }

  #appendFetched(replica: Replica, batches: readonly FetchedBatch<Uint8Array>[]): void {
    for (const { baseOffset, lastOffset, epoch, body } of batches) {
      const { endOffset } = replica.log;
      assert(baseOffset === endOffset, `fetched from ${baseOffset}, but the log ends at ${endOffset}`);
      replica.acceptedBytes += body.length;
      this.#deps.events.guard(() => replica.log.append(body, lastOffset, epoch));
      this.#deps.probe?.onAppended(replica, body);
    }
  }

  /** In a turn of its own: these effects come first. */
  #damagedLater(replica: Replica): void {
    const { guard, onUnusable } = this.#deps.events;
    this.#deps.timers.defer(() => {
      if (!replica.isDropped) guard(() => onUnusable(replica, undefined));
    });
  }

  /** One after another. A change that fails leaves core and log at different ends: the replica begins again from what the log has. */
  #changeLog(replica: Replica, change: () => Promise<void>): void {
    const { guard, onUnusable } = this.#deps.events;
    const changed = (replica.busy ?? Promise.resolve()).then(change).catch((thrown: unknown) => {
      if (!replica.isDropped) guard(() => onUnusable(replica, asOttlaError(thrown)));
    });
    const busy = changed.then(() => {
      if (replica.busy === busy) replica.busy = undefined;
    });
    replica.busy = busy;
  }

  async #truncate(replica: Replica, toOffset: Offset): Promise<void> {
    const { log, topicName: topic } = replica;
    const { endOffset: end } = log;
    await log.truncate(toOffset);
    if (replica.isDropped || replica.log !== log) return;
    // The tail is not the leader's. It was never committed, but for an unclean election, which is told as such.
    const level = log.endOffset < end ? "warn" : "debug";
    this.#deps.logger?.[level]("replica_truncated", { topic, partition: log.partition, offset: log.endOffset, end });
    this.#guardedStep(replica, { kind: "truncated", ends: endsOf(log), epochs: [...log.epochs] });
  }

  /** */
  async #restart(replica: Replica, fromOffset: Offset): Promise<void> {
    await this.#resetLog(replica, fromOffset);
    const { log, isDropped } = replica;
    if (isDropped) return;
    const { startOffset, producers } = log;
    this.#guardedStep(replica, { kind: "restarted", ends: endsOf(log), startOffset, producers });
  }

  /** While it goes on completions of the old log are nobody's. */
  async #resetLog(replica: Replica, fromOffset: Offset): Promise<void> {
    this.#byLog.delete(replica.log);
    const log = await this.#deps.store.resetLog(replica.log, fromOffset);
    replica.log = log;
    if (replica.isDropped) return;
    log.configure(replica.limits);
    this.#byLog.set(log, replica);
    this.#deps.probe?.onOpened(replica);
  }

  onWritten(log: ReplicaLog, endOffset: Offset, truncations: number): void {
    const replica = this.#byLog.get(log);
    if (replica === undefined) return;
    this.#guardedStep(replica, { kind: "written", endOffset, truncations });
    if (this.#led.has(replica)) this.#streams?.onReadable(replica);
  }

  onDurable(log: ReplicaLog, endOffset: Offset, truncations: number): void {
    const replica = this.#byLog.get(log);
    if (replica !== undefined) this.#guardedStep(replica, { kind: "durable", endOffset, truncations });
  }

  onRefused(log: ReplicaLog, fromOffset: Offset, truncations: number): void {
    const replica = this.#byLog.get(log);
    if (replica !== undefined)
      this.#guardedStep(replica, { kind: "refused", fromOffset, truncations, epochs: [...log.epochs] });
  }

  onDamaged(log: ReplicaLog): void {
    const replica = this.#byLog.get(log);
    if (replica === undefined) return;
    this.#damaged.add(replica);
    this.#deps.probe?.onDamaged(replica);
    const { guard, onUnusable } = this.#deps.events;
    guard(() => onUnusable(replica, undefined));
  }

  /** Never inside storage's call: it may be in the middle of taking batches back. */
  onRoomChanged(): void {
    if (this.#isRoomPending) return;
    this.#isRoomPending = true;
    this.#deps.timers.defer(() => {
      this.#isRoomPending = false;
      this.#deps.events.guard(() => {
        this.#deps.events.onRoomChanged();
        this.#streams?.onRoomChanged();
      });
    });
  }

  onDiskFailed(error: OttlaError): void {
    this.#deps.events.onDiskFailed(error);
  }

  #guardedStep(replica: Replica, event: Event): void {
    this.#deps.events.guard(() => void this.step(replica, event));
  }

  /** Readers are woken once per turn and partition, however often its mark moved in it. */
  #wake(replica: Replica): void {
    if (replica.isWakePending) return;
    replica.isWakePending = true;
    if (this.#moved.length === 0) this.#deps.timers.defer(() => this.#deps.events.guard(() => this.#wakeMoved()));
    this.#moved.push(replica);
  }

  #wakeMoved(): void {
    for (let replica = this.#moved.shift(); replica !== undefined; replica = this.#moved.shift()) {
      replica.isWakePending = false;
      // A copy: who is told may leave, or come again.
      for (const waiter of [...replica.waiters]) waiter.onMoved(replica);
    }
  }
}

function sameLimits(left: TopicLimits, right: TopicLimits): boolean {
  if (left === right) return true;
  return (Object.keys(left) as (keyof TopicLimits)[]).every((key) => left[key] === right[key]);
}

const endsOf = ({ endOffset, writtenEnd, durableEnd, truncations }: ReplicaLog): LogEnds => ({
  endOffset,
  writtenEnd,
  durableEnd,
  truncations,
});
