// Carries due batches to the brokers that lead their partitions: several batches to a request, several requests in flight, and
// decides what becomes of a batch that was refused.
//
// A numbered lane (acks all of an idempotent producer) has at most five batches under way, all at one broker; what is refused or not answered is sent
// again under its numbers, in order, until it is acknowledged or its time is up (sequences.ts). A broker that owes answers while another one leads by
// now is waited for no longer: what it was sent is in doubt, and is sent to the new leader.
//
// The batches of other lanes are sent in order, up to `maxInFlight` requests at once. One that is refused and sent again may come after a later one
// that was already under way; from then on later ones wait (Lane.next). With `maxInFlight` 1 such a lane waits for its batch under way also when
// another broker leads by now: that one may yet be refused. It waits for SLOW_ANSWER_MS; a batch that is refused after that is not sent again. A
// batch whose outcome is unknown is never sent again there: it could be there twice.
import type { Ring } from "../base/ring.ts";
import { asOttlaError, type ErrorName, OttlaError, type Outcome } from "../model/errors.ts";
import {
  API,
  type PartitionMetadata,
  type ProduceRequest,
  type ProduceResponse,
  type TopicMetadata,
} from "../wire/native/apis.ts";
import { LIMITS } from "../wire/native/protocol.ts";
import type { Accumulator } from "./accumulator.ts";
import type { BrokerConnection } from "../link/broker-connection.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { ClientContext } from "./context.ts";
import type { Lane } from "./lane.ts";
import { LaneWaits } from "./lane-waits.ts";
import { partitionOf } from "./metadata-cache.ts";
import { Numbering } from "./numbering.ts";
import { wireMs } from "./options.ts";
import { answeredError, awaited, lost, named, outcomeOfRefusal, withOutcome } from "./outcomes.ts";
import type { ProduceBatch } from "./produce-batch.ts";
import { ACKS_IN_TURN, isIdle, newTarget, type Outgoing, queueOf, takeLanes, type Target } from "./send-target.ts";
import { isStale, isTopicGone, MISSING_MAX } from "./stale.ts";
import { isLeaderless, noLeader } from "./unreadable.ts";

export interface SenderOptions {
  readonly requestTimeoutMs: number;
  readonly deliveryTimeoutMs: number;
  readonly maxInFlight: number;
  readonly name?: string | undefined;
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
  readonly #waits: LaneWaits;
  readonly #numbering: Numbering;
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
    this.#waits = new LaneWaits(context, {
      accumulator: this.#accumulator,
      route: (lane) => this.route(lane),
      failAll: (lane, error) => this.#failAll(lane, error),
    });
    this.#numbering = new Numbering(context, options.name, {
      onReady: (lane) => this.route(lane),
      onHopeless: (lane, error) => this.#failAll(lane, error),
      onLost: (batch, error) => this.#fail(batch, named(batch.lane, error)),
      onWait: (lane, error) => this.#waits.note(lane, error, `no producer id: ${error.message}`),
    });
  }

  /** Batches with numbers will come. */
  prepare(): void {
    this.#numbering.prepare();
  }

  /** Starts the batch's delivery timeout. */
  watchDeadline(batch: ProduceBatch): void {
    batch.alarm = this.#context.alarms.after(this.#options.deliveryTimeoutMs, () => this.#expire(batch));
  }

  /** Queues the lane at its leader if it has something to send. */
  route(lane: Lane): void {
    if (this.#isClosed || lane.isQueued || this.#nextOf(lane) === undefined) return;
    const topic = this.#context.metadata.peek(lane.topic);
    const partition = partitionOf(topic, lane.partition);
    const link = partition === undefined ? undefined : this.#context.pool.linkOfNode(partition.leader);
    if (link === undefined || partition === undefined) return this.#waits.block(lane, noLeader(lane.topic, partition));
    if (isAway(lane, link)) return;
    const target = this.#target(link, partition.leader);
    lane.isQueued = true;
    queueOf(target, lane).push(lane);
    this.#deferPump(target);
  }

  #nextOf(lane: Lane): ProduceBatch | undefined {
    const { sequences } = lane;
    if (sequences !== undefined) return this.#numbering.next(lane, sequences);
    return this.#isHeld(lane) ? undefined : lane.next();
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
    this.#waits.close();
    this.#numbering.close();
    for (const target of this.#targets.values()) {
      target.unwatch();
      target.look.close();
    }
  }

  #target(link: BrokerLink, nodeId: number): Target {
    let target = this.#targets.get(link);
    if (target === undefined) {
      target = newTarget(this.#context, link, nodeId, {
        pump: (created) => this.#pump(created),
        onLooked: (created, silentMs) => this.#reroute(created, silentMs),
      });
      this.#targets.set(link, target);
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
    if (target.connectingSinceMs !== undefined || isIdle(target)) return;
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
        for (const lane of takeLanes(target)) this.#waits.block(lane, asOttlaError(error), target.link);
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
        this.#numbering.sent(ready.batch);
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
    const topic = this.#context.metadata.peek(lane.topic);
    const partition = partitionOf(topic, lane.partition);
    if (topic === undefined || partition === undefined) return undefined;
    if (this.#context.pool.linkOfNode(partition.leader) !== target.link || isAway(lane, target.link)) return undefined;
    const batch = this.#nextOf(lane);
    if (batch === undefined) return undefined;
    try {
      return { batch, bytes: this.#accumulator.seal(batch, topic.maxMessageBytes, this.#numbering.stampOf(batch)) };
    } catch (error) {
      this.#fail(batch, asOttlaError(error));
      return undefined;
    }
  }

  #dispatch(target: Target, connection: BrokerConnection, outgoing: Outgoing): void {
    const { batches, acks } = outgoing;
    const { requestTimeoutMs } = this.#options;
    const entries = batches.map((batch) => this.#entry(batch));
    const request = { acks, timeoutMs: wireMs(requestTimeoutMs), entries };
    const bodies = batches.map((batch) => batch.bytes as Uint8Array);
    for (const batch of batches) {
      batch.state = "in-flight";
      batch.attempts++;
    }
    if (acks === 0) return this.#tell(target, connection, { request, batches, bodies });
    target.inFlight.add(outgoing);
    target.look.asked();
    for (const batch of batches) {
      const { lane } = batch;
      this.#context.metadata.keepFresh(lane.topic, target.link);
      batch.request = outgoing;
      lane.link = target.link;
      lane.inFlightCount++;
      lane.lastSentOrder = Math.max(lane.lastSentOrder, batch.order);
    }
    connection.request(
      API.PRODUCE,
      { request, bodies, timeoutMs: requestTimeoutMs },
      {
        onAnswer: (response, _bodies, isLast) => {
          target.look.heard();
          target.inFlight.delete(outgoing);
          this.#onAnswer(target, outgoing, isLast ? response : undefined);
          this.#pump(target);
        },
        onFailure: (error, isFromBroker) => {
          target.inFlight.delete(outgoing);
          const outcome = isFromBroker ? outcomeOfRefusal(error.code) : "unknown";
          if (isFromBroker) target.look.heard();
          else target.look.lost();
          for (const batch of batches) {
            if (landed(batch, outgoing)) this.#onError(batch, { error, outcome, from: target.link });
          }
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
    const isResent = batch.slot?.isDoubtful === true;
    return { topicId: topic.topicId, partition: lane.partition, leaderEpoch: partition.leaderEpoch, isResent };
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
        this.#context.metadata.keepFresh(batch.lane.topic, target.link, false);
        this.#waits.heard(batch.lane);
        this.#finish(batch, { kind: "appended", baseOffset: undefined });
      } else {
        batch.state = "sealed";
        this.#onError(batch, { error, outcome: "not appended", from: target.link });
      }
    }
  }

  /** What waits there, or behind batches that are not answered, may have another leader by now. */
  #reroute(target: Target, silentMs: number): void {
    if (this.#isClosed) return;
    const lanes = new Set(takeLanes(target));
    for (const outgoing of target.inFlight) {
      for (const batch of outgoing.batches) {
        const { lane } = batch;
        if (lane.sequences !== undefined) this.#leave(batch, outgoing, target.link);
        else if (silentMs >= SLOW_ANSWER_MS) lane.giveUp(batch);
        lanes.add(lane);
      }
    }
    // A network that was cut and is whole again takes seconds to bring an old connection back.
    const isLeft = target.inFlight.size > 0 && [...target.inFlight].every(isAllLeft);
    if (isLeft) target.link.renew("silent, while another broker leads");
    for (const lane of lanes) this.route(lane);
  }

  /** Another broker leads: the batch under way is in doubt, and is sent there. */
  #leave(batch: ProduceBatch, outgoing: Outgoing, from: BrokerLink): void {
    const { lane } = batch;
    const partition = partitionOf(this.#context.metadata.peek(lane.topic), lane.partition);
    const link = partition === undefined ? undefined : this.#context.pool.linkOfNode(partition.leader);
    if (link === undefined || link === from || !landed(batch, outgoing) || batch.state === "settled") return;
    this.#numbering.refused(batch, true);
    lane.retry(batch);
  }

  #onAnswer({ link: from }: Target, outgoing: Outgoing, response: ProduceResponse | undefined): void {
    const { batches } = outgoing;
    const isWhole = response?.entries.length === batches.length;
    for (const [index, batch] of batches.entries()) {
      const isCurrent = landed(batch, outgoing);
      const entry = isWhole ? response.entries[index] : undefined;
      // Of an attempt that was left, this alone is news.
      if (entry?.error === "NONE") {
        this.#waits.heard(batch.lane);
        this.#numbering.appended(batch);
        if (batch.order > (batch.lane.gap?.order ?? batch.order)) batch.lane.gap = undefined;
        this.#finish(batch, { kind: "appended", baseOffset: entry.baseOffset });
      } else if (isCurrent) this.#onError(batch, refusalOf(entry, from));
    }
    for (const batch of batches) this.route(batch.lane);
  }

  /** Sends again what may be sent again, and may succeed later; tells the caller of everything else. */
  #onError(batch: ProduceBatch, refusal: Refusal): void {
    const { error, outcome, from } = refusal;
    const { lane } = batch;
    if (batch.state === "settled") return this.route(lane);
    if (lane.sequences !== undefined && isOfNumbers(error.code)) return this.#onNumbers(batch, error);
    const isGone = isTopicGone(error.code) && lane.missingCount >= MISSING_MAX;
    this.#numbering.refused(batch, outcome !== "not appended");
    if (!this.#mayBeSentAgain(batch, outcome) || !error.retriable || isGone || this.#isClosed) {
      this.#fail(batch, named(lane, error), outcome);
      const { topic } = lane;
      // The topic's limit may have changed: the next batches are made to the new one.
      if (error.code === "MESSAGE_TOO_LARGE") this.#context.metadata.refresh(topic).catch(() => {});
      // The next ones had better go to another leader, if there is one.
      else if (isStale(error.code)) this.#context.metadata.refreshElsewhere(topic, from).catch(() => {});
      return this.route(lane);
    }
    lane.retry(batch);
    this.#waits.block(lane, error, from);
  }

  #mayBeSentAgain(batch: ProduceBatch, outcome: Outcome): boolean {
    if (batch.lane.sequences !== undefined) return true;
    return outcome === "not appended" && !(this.#isOrdered && batch.lane.isOvertaken(batch));
  }

  /** Refused for its numbers: nothing was appended by this attempt. */
  #onNumbers(batch: ProduceBatch, error: OttlaError): void {
    const { lane } = batch;
    const fenced = isFencing(error.code) ? this.#numbering.fence(error) : undefined;
    const isLost = fenced === undefined && this.#numbering.outOfOrder(batch) === "lost";
    if (fenced !== undefined || isLost) {
      this.#fail(batch, named(lane, fenced ?? lost(error, lane.gap?.error)));
      return this.route(lane);
    }
    lane.retry(batch);
    // Mostly the answer to one that was sent behind a refused one: that one's reason is the lane's.
    if (!lane.isBlocked) this.#waits.block(lane, error);
  }

  /** All that waits there. */
  #failAll(lane: Lane, why: OttlaError): void {
    for (const batch of lane.drain()) this.#fail(batch, why);
    this.#waits.forgetIdle(lane);
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
    const error = named(lane, new OttlaError("DELIVERY_TIMED_OUT", message, { cause: why, ...hint }));
    if (batch.slot !== undefined) lane.gap = { order: batch.order, error };
    this.#fail(batch, error);
    this.#waits.forgetIdle(lane);
    this.route(lane);
  }

  /** `outcome`: of its last attempt; one before that may be there all the same. */
  #fail(batch: ProduceBatch, error: OttlaError, outcome: Outcome = "not appended"): void {
    if (batch.state === "settled") return;
    const worst = outcome === "not appended" && batch.isDoubtful ? "unknown" : outcome;
    this.#numbering.failed(batch);
    this.#finish(batch, { kind: "failed", error: withOutcome(error, worst) });
  }

  #finish(batch: ProduceBatch, fate: BatchFate): void {
    if (batch.state !== "settled") this.#settle(batch, fate);
  }
}

/** What is under way was sent to another broker: later ones would arrive before it. */
const isAway = ({ sequences, link }: Lane, leader: BrokerLink): boolean =>
  link !== leader && sequences?.isUnderWay === true;

const isAllLeft = (outgoing: Outgoing): boolean => outgoing.batches.every(({ request }) => request !== outgoing);

/** False: the batch was taken from that request before. */
function landed(batch: ProduceBatch, outgoing: Outgoing): boolean {
  if (batch.request !== outgoing) return false;
  batch.request = undefined;
  batch.lane.landed(batch);
  if (batch.state === "in-flight") batch.state = "sealed";
  return true;
}

function refusalOf(entry: ProduceResponse["entries"][number] | undefined, from: BrokerLink): Refusal {
  if (entry !== undefined) return { error: answeredError(entry), outcome: entry.outcome, from };
  const error = new OttlaError("PROTOCOL_ERROR", "a produce answer without an entry for each batch");
  return { error, outcome: "unknown", from };
}

const isFencing = (code: ErrorName): boolean => code === "INVALID_PRODUCER_EPOCH" || code === "PRODUCER_FENCED";

const isOfNumbers = (code: ErrorName): boolean =>
  code === "OUT_OF_ORDER_SEQUENCE_NUMBER" ||
  code === "SEQUENCE_NUMBER_TAKEN" ||
  code === "UNKNOWN_PRODUCER_ID" ||
  isFencing(code);
