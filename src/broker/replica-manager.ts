// The replicas of this broker: carries their cores' effects out strictly in order (D-34), and turns storage's completions into events.
import { assert, assertNever } from "../base/assert.ts";
import { Ring } from "../base/ring.ts";
import type { ErrorName, OttlaError } from "../model/errors.ts";
import type { LeaderEpoch, NodeId, Offset, TopicId } from "../model/ids.ts";
import { assignOffsets } from "../model/record-batch.ts";
import type { Timers } from "../ports/timers.ts";
import type { PartitionEvent } from "../replication/types.ts";
import type { ReplicaLog, StoreListener } from "../storage/types.ts";
import type { TopicLimits } from "./effective-configs.ts";
import { type ProduceEntry, Replica } from "./replica.ts";

export interface ReplicaManagerEvents {
  onRoomChanged(): void;
  onDiskFailed(error: OttlaError): void;
  /** The present turn's work ends in a defect: the process must stop. */
  guard(work: () => void): void;
}

type Event = PartitionEvent<ProduceEntry>;

export class ReplicaManager implements StoreListener {
  readonly #timers: Timers;
  readonly #self: NodeId;
  readonly #events: ReplicaManagerEvents;
  readonly #byLog = new Map<ReplicaLog, Replica>();
  readonly #byTopic = new Map<TopicId, Map<number, Replica>>();
  readonly #moved = new Ring<Replica>();
  #messageBytesMax = 0;
  #leaderCount = 0;
  #isRoomPending = false;

  constructor(deps: { readonly timers: Timers; readonly events: ReplicaManagerEvents }, self: NodeId) {
    this.#timers = deps.timers;
    this.#events = deps.events;
    this.#self = self;
  }

  /** Partitions led here now. */
  get leaderCount(): number {
    return this.#leaderCount;
  }

  get topicIds(): Iterable<TopicId> {
    return this.#byTopic.keys();
  }

  /** Longest batch that any partition served since the start takes. */
  get messageBytesMax(): number {
    return this.#messageBytesMax;
  }

  find(topicId: TopicId, partition: number): Replica | undefined {
    return this.#byTopic.get(topicId)?.get(partition);
  }

  /** Led here now, or once in this incarnation. */
  ofTopic(topicId: TopicId): Iterable<Replica> {
    return this.#byTopic.get(topicId)?.values() ?? [];
  }

  /** New limits for what comes from now on. */
  configure(replica: Replica, limits: TopicLimits): void {
    this.#messageBytesMax = Math.max(this.#messageBytesMax, limits.maxMessageBytes);
    replica.limits = limits;
  }

  /** The log has opened `leaderEpoch` durably, and it was given to this incarnation (D-1): lead it. */
  lead(
    log: ReplicaLog,
    role: {
      readonly leaderEpoch: LeaderEpoch;
      readonly isr: readonly NodeId[];
      readonly minIsr: number;
      readonly limits: TopicLimits;
    },
  ): void {
    let replica = this.#byLog.get(log);
    if (replica === undefined) {
      replica = new Replica({ self: this.#self, topicName: log.topic, log, limits: role.limits });
      this.#byLog.set(log, replica);
      const partitions = this.#byTopic.get(log.topicId) ?? new Map<number, Replica>();
      this.#byTopic.set(log.topicId, partitions);
      partitions.set(log.partition, replica);
    }
    this.configure(replica, role.limits);
    if (!replica.core.isLeader) this.#leaderCount++;
    const { leaderEpoch, isr, minIsr } = role;
    const { endOffset, writtenEnd, durableEnd, truncations } = log;
    this.step(replica, {
      kind: "lead",
      leaderEpoch,
      isr,
      minIsr,
      ends: { endOffset, writtenEnd, durableEnd, truncations },
    });
    this.#wake(replica);
  }

  /** Leads no more: its producers are answered with `error`, outcome unknown; its readers look again and are told. */
  resign(replica: Replica, error: ErrorName): void {
    if (!replica.core.isLeader) return;
    this.#leaderCount--;
    this.step(replica, { kind: "resign", error });
    this.#wake(replica);
  }

  /** Serves the topic no more: its producers are answered with `error`, its readers look again and find nothing. */
  drop(topicId: TopicId, error: ErrorName): ReplicaLog[] {
    const replicas = [...(this.#byTopic.get(topicId)?.values() ?? [])];
    this.#byTopic.delete(topicId);
    for (const replica of replicas) {
      this.#byLog.delete(replica.log);
      this.resign(replica, error);
    }
    return replicas.map((replica) => replica.log);
  }

  step(replica: Replica, event: Event): void {
    for (const effect of replica.core.step(event)) {
      switch (effect.kind) {
        case "append": {
          const entry = effect.token;
          entry.waiting = effect.waiting;
          const batch = entry.releaseBatch();
          const { endOffset } = replica.log;
          assert(effect.baseOffset === endOffset, `append at ${effect.baseOffset}, but the log ends at ${endOffset}`);
          assignOffsets(batch, effect.baseOffset, effect.leaderEpoch);
          replica.acceptedBytes += batch.length;
          // A log that throws here leaves core and log at different ends: nothing may be served any more.
          this.#events.guard(() => replica.log.append(batch, effect.lastOffset, effect.leaderEpoch));
          break;
        }
        case "answer":
          effect.token.onAnswer(effect.token, { ...effect, message: null });
          break;
        case "high-watermark":
          if (replica.waiters.size > 0) this.#wake(replica);
          break;
        default:
          assertNever(effect);
      }
    }
  }

  onWritten(log: ReplicaLog, endOffset: Offset, truncations: number): void {
    this.#tell(log, { kind: "written", endOffset, truncations });
  }

  onDurable(log: ReplicaLog, endOffset: Offset, truncations: number): void {
    this.#tell(log, { kind: "durable", endOffset, truncations });
  }

  onRefused(log: ReplicaLog, fromOffset: Offset, truncations: number): void {
    this.#tell(log, { kind: "refused", fromOffset, truncations });
  }

  onDamaged(_log: ReplicaLog): void {
    // Reads and appends of the log are refused from now on.
  }

  /** Never inside storage's call: it may be in the middle of taking batches back. */
  onRoomChanged(): void {
    if (this.#isRoomPending) return;
    this.#isRoomPending = true;
    this.#timers.defer(() => {
      this.#isRoomPending = false;
      this.#events.guard(() => this.#events.onRoomChanged());
    });
  }

  onDiskFailed(error: OttlaError): void {
    this.#events.onDiskFailed(error);
  }

  #tell(log: ReplicaLog, event: Event): void {
    const replica = this.#byLog.get(log);
    if (replica !== undefined) this.#events.guard(() => this.step(replica, event));
  }

  /** Readers are woken once per turn and partition, however often its mark moved in it. */
  #wake(replica: Replica): void {
    if (replica.isWakePending) return;
    replica.isWakePending = true;
    if (this.#moved.length === 0) this.#timers.defer(() => this.#events.guard(() => this.#wakeMoved()));
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
