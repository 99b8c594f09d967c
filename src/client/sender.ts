// Carries due batches to the brokers that lead their partitions: several batches to a request, several requests in flight, and
// decides what becomes of a batch that was refused.
//
// Order: the batches of one lane are sent in order, up to `maxInFlight` requests at once. One that is refused and sent again may
// thus come after a later one that was already under way; from then on later ones wait (Lane.next). Only idempotence can do more.
// With `maxInFlight` 1 a lane waits for its batch under way also when another broker leads by now: that one may yet be refused. It waits for
// SLOW_ANSWER_MS; a batch that is refused after that is not sent again.
// A batch whose outcome is unknown is never sent again: it could be there twice.
import { Ring } from "../base/ring.ts";
import { asOttlaError, OttlaError, type Outcome } from "../model/errors.ts";
import {
  API,
  type PartitionMetadata,
  type ProduceRequest,
  type ProduceResponse,
  type TopicMetadata,
} from "../wire/native/apis.ts";
import { LIMITS } from "../wire/native/protocol.ts";
import type { Accumulator } from "./accumulator.ts";
import { backoffMs } from "../link/backoff.ts";
import type { BrokerConnection } from "../link/broker-connection.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { ClientContext } from "./context.ts";
import { LeaderLook } from "./leader-look.ts";
import { partitionOf } from "./metadata-cache.ts";
import { answeredError, awaited, named, outcomeOfRefusal, withOutcome } from "./outcomes.ts";
import type { Lane, ProduceBatch } from "./produce-batch.ts";
import { isConfirmedGone, isStale, isTopicGone, MISSING_MAX, togetherMs } from "./stale.ts";
import { isLeaderless, isLost, noLeader } from "./unreadable.ts";
import { WaitNotes } from "./wait-notes.ts";

export interface SenderOptions {
  readonly requestTimeoutMs: number;
  readonly deliveryTimeoutMs: number;
  readonly maxInFlight: number;
}

export type BatchFate =
  | { readonly kind: "appended"; readonly baseOffset: number | undefined }
  | { readonly kind: "failed"; readonly error: OttlaError };

/** Batches per request: with their small bodies they fit one envelope. */
const ENTRIES_MAX = 512;
/** With `maxInFlight` 1: for how long the batch under way is waited for when another broker leads by now. */
const SLOW_ANSWER_MS = 2_000;
/** Looks again at a congested connection, should its drain not be told. */
const CONGESTION_RECHECK_MS = 20;
const ACKS_IN_TURN = [-1, 1, 0] as const;

interface Target {
  readonly nodeId: number;
  readonly link: BrokerLink;
  /** Lanes with something to send, by ACKS_IN_TURN. */
  readonly queues: readonly Ring<Lane>[];
  readonly unwatch: () => void;
  /** Requests in flight, the oldest first; bound: `maxInFlight`. */
  readonly inFlight: Set<Outgoing>;
  readonly look: LeaderLook;
  turn: number;
  isPumpDeferred: boolean;
  /** A connection is waited for since then. */
  connectingSinceMs: number | undefined;
  isCongested: boolean;
}

interface Outgoing {
  readonly batches: ProduceBatch[];
  readonly acks: number;
  readonly sentMs: number;
}

/** Why a batch was not acknowledged. */
interface Refusal {
  readonly error: OttlaError;
  readonly outcome: Outcome;
  readonly from: BrokerLink;
}

export class Sender {
  readonly #context: ClientContext;
  readonly #options: SenderOptions;
  readonly #accumulator: Accumulator;
  readonly #settle: (batch: ProduceBatch, fate: BatchFate) => void;
  readonly #targets = new Map<BrokerLink, Target>();
  readonly #notes: WaitNotes;
  #isClosed = false;

  constructor(
    context: ClientContext,
    options: SenderOptions,
    parts: { readonly accumulator: Accumulator; readonly settle: (batch: ProduceBatch, fate: BatchFate) => void },
  ) {
    this.#context = context;
    this.#options = options;
    this.#accumulator = parts.accumulator;
    this.#settle = parts.settle;
    this.#notes = new WaitNotes(context);
  }

  /** Starts the batch's delivery timeout. */
  watchDeadline(batch: ProduceBatch): void {
    batch.alarm = this.#context.alarms.after(this.#options.deliveryTimeoutMs, () => this.#expire(batch));
  }

  /** Queues the lane at its leader if it has something to send. */
  route(lane: Lane): void {
    if (this.#isClosed || lane.isQueued || lane.next() === undefined || this.#isHeld(lane)) return;
    const topic = this.#context.metadata.peek(lane.topic);
    const partition = partitionOf(topic, lane.partition);
    const link = partition === undefined ? undefined : this.#context.pool.linkOfNode(partition.leader);
    if (link === undefined || partition === undefined) return this.#block(lane, noLeader(lane.topic, partition));
    const target = this.#target(link, partition.leader);
    lane.isQueued = true;
    target.queues[ACKS_IN_TURN.indexOf(lane.acks as -1 | 0 | 1)]?.push(lane);
    this.#deferPump(target);
  }

  get #isOrdered(): boolean {
    return this.#options.maxInFlight === 1;
  }

  /** Until its batch under way has landed or is given up; it is routed again then. */
  #isHeld(lane: Lane): boolean {
    return this.#isOrdered && lane.inFlightCount > lane.givenUpCount;
  }

  close(): void {
    this.#isClosed = true;
    this.#notes.close();
    for (const target of this.#targets.values()) {
      target.unwatch();
      target.look.close();
    }
  }

  #target(link: BrokerLink, nodeId: number): Target {
    let target = this.#targets.get(link);
    if (target === undefined) {
      const created: Target = {
        nodeId,
        link,
        queues: ACKS_IN_TURN.map(() => new Ring<Lane>()),
        unwatch: link.watch({ onDrain: () => this.#pump(created), onOpen: () => this.#pump(created) }),
        inFlight: new Set(),
        look: new LeaderLook(this.#context, {
          link,
          owesSinceMs: () => oldestOf(created)?.sentMs ?? created.connectingSinceMs,
          topics: () => topicsOf(created),
          onLooked: (silentMs) => this.#reroute(created, silentMs),
        }),
        turn: 0,
        isPumpDeferred: false,
        connectingSinceMs: undefined,
        isCongested: false,
      };
      this.#targets.set(link, created);
      target = created;
    }
    return target;
  }

  /** After everything of this turn, so that batches that became due together travel together. */
  #deferPump(target: Target): void {
    if (target.isPumpDeferred) return;
    target.isPumpDeferred = true;
    this.#context.timers.defer(() => {
      target.isPumpDeferred = false;
      this.#pump(target);
    });
  }

  #pump(target: Target): void {
    while (!this.#isClosed && target.inFlight.size < this.#options.maxInFlight) {
      const connection = target.link.current;
      if (connection === undefined) return this.#connect(target);
      if (connection.isCongested) return this.#recheck(target);
      const outgoing = this.#gather(target);
      if (outgoing === undefined) return;
      this.#dispatch(target, connection, outgoing);
      for (const batch of outgoing.batches) this.route(batch.lane);
    }
  }

  #recheck(target: Target): void {
    if (target.isCongested) return;
    target.isCongested = true;
    this.#context.alarms.after(CONGESTION_RECHECK_MS, () => {
      target.isCongested = false;
      this.#pump(target);
    });
  }

  /** Makes a connection, or sends the lanes to where metadata then says. */
  #connect(target: Target): void {
    if (target.connectingSinceMs !== undefined || target.queues.every((queue) => queue.length === 0)) return;
    const sinceMs = this.#context.alarms.nowMs();
    target.connectingSinceMs = sinceMs;
    target.look.asked();
    target.link.get().then(
      () => {
        target.connectingSinceMs = undefined;
        target.look.heard();
        this.#pump(target);
      },
      (error: unknown) => {
        target.connectingSinceMs = undefined;
        target.look.unreachable(sinceMs);
        for (const lane of takeLanes(target)) this.#block(lane, asOttlaError(error), target.link);
      },
    );
  }

  /** The next request: one batch of each lane that has one, all of the same acks. */
  #gather(target: Target): Outgoing | undefined {
    for (let count = 0; count < ACKS_IN_TURN.length; count++) {
      const turn = (target.turn + count) % ACKS_IN_TURN.length;
      const batches = this.#gatherFrom(target, target.queues[turn] as Ring<Lane>);
      if (batches.length === 0) continue;
      target.turn = (turn + 1) % ACKS_IN_TURN.length;
      return { batches, acks: ACKS_IN_TURN[turn] as number, sentMs: this.#context.alarms.nowMs() };
    }
    return undefined;
  }

  #gatherFrom(target: Target, queue: Ring<Lane>): ProduceBatch[] {
    const batches: ProduceBatch[] = [];
    let totalBytes = 0;
    while (batches.length < ENTRIES_MAX) {
      const lane = queue.peek();
      if (lane === undefined) break;
      const ready = this.#readyBatch(target, lane);
      if (ready !== undefined) {
        if (batches.length > 0 && totalBytes + ready.bytes.length > LIMITS.LOGICAL_MESSAGE_BODY_BYTES) break;
        lane.take(ready.batch);
        batches.push(ready.batch);
        totalBytes += ready.bytes.length;
      }
      queue.shift();
      lane.isQueued = false;
      // Moved to another broker, or the batch could not be built: look at the lane again.
      if (ready === undefined) this.route(lane);
    }
    return batches;
  }

  #readyBatch(target: Target, lane: Lane): { batch: ProduceBatch; bytes: Uint8Array } | undefined {
    const batch = lane.next();
    const topic = this.#context.metadata.peek(lane.topic);
    const partition = partitionOf(topic, lane.partition);
    if (batch === undefined || topic === undefined || partition === undefined) return undefined;
    if (this.#isHeld(lane)) return undefined;
    if (this.#context.pool.linkOfNode(partition.leader) !== target.link) return undefined;
    try {
      return { batch, bytes: this.#accumulator.seal(batch, topic.maxMessageBytes) };
    } catch (error) {
      this.#fail(batch, asOttlaError(error), "not appended");
      return undefined;
    }
  }

  #dispatch(target: Target, connection: BrokerConnection, outgoing: Outgoing): void {
    const { batches, acks } = outgoing;
    const { requestTimeoutMs } = this.#options;
    const request = { acks, timeoutMs: requestTimeoutMs, entries: batches.map((batch) => this.#entry(batch)) };
    const bodies = batches.map((batch) => batch.bytes as Uint8Array);
    for (const batch of batches) {
      batch.state = "in-flight";
      batch.attempts++;
    }
    if (acks === 0) return this.#tell(target, connection, { request, batches, bodies });
    target.inFlight.add(outgoing);
    target.look.asked();
    for (const { lane, sequence } of batches) {
      this.#context.metadata.keepFresh(lane.topic, target.link);
      lane.inFlightCount++;
      lane.lastSentSequence = Math.max(lane.lastSentSequence, sequence);
    }
    connection.request(
      API.PRODUCE,
      { request, bodies, timeoutMs: requestTimeoutMs },
      {
        onAnswer: (response, _bodies, isLast) => {
          target.look.heard();
          this.#landed(target, outgoing);
          this.#onAnswer(target, batches, isLast ? response : undefined);
          this.#pump(target);
        },
        onFailure: (error, isFromBroker) => {
          this.#landed(target, outgoing);
          const outcome = isFromBroker ? outcomeOfRefusal(error.code) : "unknown";
          if (isFromBroker) target.look.heard();
          else target.look.lost();
          for (const batch of batches) this.#onError(batch, { error, outcome, from: target.link });
          this.#pump(target);
        },
      },
    );
  }

  #entry(batch: ProduceBatch): ProduceRequest["entries"][number] {
    const { lane } = batch;
    const topic = this.#context.metadata.peek(lane.topic) as TopicMetadata;
    const partition = partitionOf(topic, lane.partition) as PartitionMetadata;
    batch.topicId = topic.topicId;
    return { topicId: topic.topicId, partition: lane.partition, leaderEpoch: partition.leaderEpoch };
  }

  /** acks 0: handed over is all that will ever be known. */
  #tell(
    target: Target,
    connection: BrokerConnection,
    told: { request: ProduceRequest; batches: readonly ProduceBatch[]; bodies: readonly Uint8Array[] },
  ): void {
    const { request, batches, bodies } = told;
    const error = connection.tell(API.PRODUCE, request, bodies);
    for (const batch of batches) {
      if (error === undefined) {
        this.#heard(batch.lane);
        this.#finish(batch, { kind: "appended", baseOffset: undefined });
      } else this.#onError(batch, { error, outcome: "not appended", from: target.link });
    }
  }

  #landed(target: Target, outgoing: Outgoing): void {
    target.inFlight.delete(outgoing);
    for (const batch of outgoing.batches) batch.lane.landed(batch);
  }

  /** What waits there, or behind batches that are not answered, may have another leader by now. */
  #reroute(target: Target, silentMs: number): void {
    if (this.#isClosed) return;
    const stuck = [...target.inFlight].flatMap(({ batches }) => batches);
    if (silentMs >= SLOW_ANSWER_MS) for (const batch of stuck) batch.lane.giveUp(batch);
    for (const lane of takeLanes(target)) this.route(lane);
    for (const { lane } of stuck) this.route(lane);
  }

  #onAnswer({ link: from }: Target, batches: readonly ProduceBatch[], response: ProduceResponse | undefined): void {
    const isWhole = response?.entries.length === batches.length;
    for (const [index, batch] of batches.entries()) {
      const entry = isWhole ? response.entries[index] : undefined;
      if (entry === undefined) {
        const error = new OttlaError("PROTOCOL_ERROR", "a produce answer without an entry for each batch");
        this.#onError(batch, { error, outcome: "unknown", from });
      } else if (entry.error === "NONE") {
        this.#heard(batch.lane);
        this.#finish(batch, { kind: "appended", baseOffset: entry.baseOffset });
      } else {
        this.#onError(batch, { error: answeredError(entry), outcome: entry.outcome, from });
      }
    }
    for (const batch of batches) this.route(batch.lane);
  }

  /** Sends again what is known not to be there and may succeed later; tells the caller of everything else. */
  #onError(batch: ProduceBatch, { error, outcome, from }: Refusal): void {
    if (batch.state === "settled") return this.route(batch.lane);
    const isGone = isTopicGone(error.code) && batch.lane.missingCount >= MISSING_MAX;
    const isOutOfOrder = this.#isOrdered && batch.lane.isOvertaken(batch);
    if (outcome !== "not appended" || !error.retriable || isGone || isOutOfOrder || this.#isClosed) {
      this.#fail(batch, named(batch.lane, error), outcome);
      const { topic } = batch.lane;
      // The topic's limit may have changed: the next batches are made to the new one.
      if (error.code === "MESSAGE_TOO_LARGE") this.#context.metadata.refresh(topic).catch(() => {});
      // The next ones had better go to another leader, if there is one.
      else if (isStale(error.code)) this.#context.metadata.refreshElsewhere(topic, from).catch(() => {});
      return this.route(batch.lane);
    }
    batch.state = "sealed";
    batch.lane.retry(batch);
    this.#block(batch.lane, error, from);
  }

  #heard(lane: Lane): void {
    lane.missingCount = lane.failureCount = 0;
    lane.lastError = undefined;
    this.#notes.goesOn(lane.topic, lane.partition);
  }

  /** Keeps the lane back for a while, and asks for its metadata if that may be the cause. */
  #block(lane: Lane, why: OttlaError, from?: BrokerLink): void {
    lane.lastError = why;
    if (lane.isBlocked) return;
    lane.isBlocked = true;
    lane.failureCount++;
    this.#notes.waits(lane.topic, lane.partition, why.message);
    this.#accumulator.leave(lane);
    const { alarms, rng } = this.#context;
    const waitMs = backoffMs(lane.failureCount, rng);
    const unblock = () => {
      lane.isBlocked = false;
      this.route(lane);
    };
    if (!isStale(why.code)) {
      alarms.after(waitMs, unblock);
      return;
    }
    const unblockLater = () => alarms.after(togetherMs(waitMs, alarms.nowMs(), lane.failureCount), unblock);
    this.#context.metadata.refreshElsewhere(lane.topic, from).then(
      (topic) => {
        const partition = partitionOf(topic, lane.partition);
        if (partition === undefined) this.#missing(lane, undefined);
        else if (partition.leader < 0) this.#leaderless(lane, topic, partition);
        unblockLater();
      },
      (error: unknown) => {
        this.#missing(lane, asOttlaError(error));
        unblockLater();
      },
    );
  }

  /** Metadata of this moment says so. Records that belong there and nowhere else wait for a leader, unless there can be none. */
  #leaderless(lane: Lane, topic: TopicMetadata, partition: PartitionMetadata): void {
    this.#rehome(lane, topic);
    if (this.#isClosed || !isLost(partition)) return;
    const why = named(lane, noLeader(lane.topic, partition));
    for (const batch of lane.drain()) this.#fail(batch, why, "not appended");
    this.#notes.forget(lane.topic, lane.partition);
  }

  #rehome(lane: Lane, topic: TopicMetadata): void {
    if (this.#isClosed) return;
    for (const other of this.#accumulator.rehome(lane, topic)) this.route(other);
    if (lane.head() === undefined) this.#notes.forget(lane.topic, lane.partition);
  }

  #missing(lane: Lane, error: OttlaError | undefined): void {
    if (error !== undefined && !isConfirmedGone(error)) return;
    if (++lane.missingCount < MISSING_MAX) return;
    const gone =
      error ?? new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `${lane.topic}-${lane.partition} does not exist`);
    for (const batch of lane.drain()) this.#fail(batch, gone, "not appended");
  }

  #expire(batch: ProduceBatch): void {
    const isInFlight = batch.state === "in-flight";
    const { lane } = batch;
    const { deliveryTimeoutMs } = this.#options;
    const why = isInFlight ? undefined : lane.lastError;
    const waited = isInFlight
      ? awaited(lane, partitionOf(this.#context.metadata.peek(lane.topic), lane.partition))
      : why === undefined
        ? ""
        : `: ${why.message}`;
    const message = `not acknowledged within ${deliveryTimeoutMs} ms${waited}`;
    const isTelling = why !== undefined && (isLeaderless(why.code) || why.code === "NOT_ENOUGH_REPLICAS");
    const hint = isTelling ? { hint: why.hint } : {};
    const error = new OttlaError("DELIVERY_TIMED_OUT", message, { cause: why, ...hint });
    this.#fail(batch, named(lane, error), isInFlight ? "unknown" : "not appended");
    if (lane.head() === undefined) this.#notes.forget(lane.topic, lane.partition);
    this.route(lane);
  }

  #fail(batch: ProduceBatch, error: OttlaError, outcome: Outcome): void {
    this.#finish(batch, { kind: "failed", error: withOutcome(error, outcome) });
  }

  #finish(batch: ProduceBatch, fate: BatchFate): void {
    if (batch.state !== "settled") this.#settle(batch, fate);
  }
}

const oldestOf = ({ inFlight }: Target): Outgoing | undefined => inFlight.values().next().value;

function topicsOf({ inFlight, queues }: Target): Set<string> {
  const stuck = [...inFlight].flatMap(({ batches }) => batches.map(({ lane }) => lane.topic));
  return new Set([...stuck, ...queues.flatMap((queue) => [...queue].map(({ topic }) => topic))]);
}

/** Those that have something to send; none is queued there any more. */
function takeLanes({ queues }: Target): Lane[] {
  const lanes = queues.flatMap((queue) => [...queue]);
  for (const queue of queues) queue.clear();
  for (const lane of lanes) lane.isQueued = false;
  return lanes;
}
