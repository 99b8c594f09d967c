// Lanes that wait: for a back-off after a refusal, for a leader, for a topic that may be there again. Records that may go anywhere go elsewhere.
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { PartitionMetadata, TopicMetadata } from "../wire/native/apis.ts";
import { backoffMs } from "../link/backoff.ts";
import type { Accumulator } from "./accumulator.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { ClientContext } from "./context.ts";
import type { Lane } from "./lane.ts";
import { isLedElsewhere, partitionOf } from "./metadata-cache.ts";
import { named } from "./outcomes.ts";
import { DOUBTED_FROM, isConfirmedGone, isStale, MISSING_MAX, togetherMs } from "./stale.ts";
import { isLost, noLeader } from "./unreadable.ts";
import { WaitNotes } from "./wait-notes.ts";

export interface LaneWorld {
  readonly accumulator: Accumulator;
  /** The lane may have something to send. */
  route(lane: Lane): void;
  /** What waits there can never be sent. */
  failAll(lane: Lane, why: OttlaError): void;
}

export class LaneWaits {
  readonly #context: ClientContext;
  readonly #world: LaneWorld;
  readonly #notes: WaitNotes;
  #isClosed = false;

  constructor(context: ClientContext, world: LaneWorld) {
    this.#context = context;
    this.#world = world;
    this.#notes = new WaitNotes(context);
  }

  close(): void {
    this.#isClosed = true;
    this.#notes.close();
  }

  /** It has been answered. */
  heard(lane: Lane): void {
    lane.missingCount = lane.failureCount = 0;
    lane.lastError = undefined;
    this.#notes.goesOn(lane.topic, lane.partition);
  }

  /** Keeps the lane back for a while, and asks for its metadata if that may be the cause. */
  block(lane: Lane, why: OttlaError, from?: BrokerLink): void {
    lane.lastError = why;
    if (lane.isBlocked) return;
    lane.isBlocked = true;
    lane.failureCount++;
    this.#notes.waits(lane.topic, lane.partition, why.message);
    this.#world.accumulator.leave(lane);
    const { alarms, rng } = this.#context;
    const waitMs = backoffMs(lane.failureCount, rng);
    const unblock = () => {
      lane.isBlocked = false;
      this.#world.route(lane);
    };
    const isLeaderInDoubt = isStale(why.code);
    if (!isLeaderInDoubt && lane.failureCount < DOUBTED_FROM) {
      alarms.after(waitMs, unblock);
      return;
    }
    const unblockLater = () =>
      alarms.after(isLeaderInDoubt ? togetherMs(waitMs, alarms.nowMs(), lane.failureCount) : waitMs, unblock);
    this.#context.metadata.refreshElsewhere(lane.topic, from).then(
      (topic) => {
        const partition = partitionOf(topic, lane.partition);
        if (partition === undefined) {
          this.#rehome(lane, topic);
          this.#missing(lane, undefined);
        } else if (partition.leader < 0) this.#leaderless(lane, topic, partition);
        if (isLedElsewhere(this.#context.pool, lane, partition, from)) unblock();
        else unblockLater();
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
    this.#world.failAll(lane, why);
  }

  #rehome(lane: Lane, topic: TopicMetadata): void {
    if (this.#isClosed) return;
    for (const other of this.#world.accumulator.rehome(lane, topic)) this.#world.route(other);
    this.forgetIdle(lane);
  }

  #missing(lane: Lane, error: OttlaError | undefined): void {
    if (error !== undefined && !isConfirmedGone(error)) return;
    if (++lane.missingCount < MISSING_MAX) return;
    const gone =
      error ?? new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `${lane.topic}-${lane.partition} does not exist`);
    this.#world.failAll(lane, gone);
  }

  /** It waits for something else than a broker's answer. */
  note(lane: Lane, why: OttlaError, message: string): void {
    lane.lastError = why;
    this.#notes.waits(lane.topic, lane.partition, message);
  }

  /** Nobody waits any more, if so. */
  forgetIdle(lane: Lane): void {
    if (lane.head() === undefined) this.#notes.forget(lane.topic, lane.partition);
  }
}
