// The lane that batches travel in: all of one (topic, partition, acks), in order.
import { mutant } from "../base/mutant.ts";
import { Ring } from "../base/ring.ts";
import type { OttlaError } from "../model/errors.ts";
import type { TopicId } from "../model/ids.ts";
import { PRODUCER_WINDOW } from "../model/producer-table.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { ProduceBatch } from "./produce-batch.ts";
import { Sequences } from "./sequences.ts";

export class Lane {
  readonly topic: string;
  readonly partition: number;
  /** 0, 1, or -1 for all. */
  readonly acks: number;
  /** undefined: its batches carry no numbers. */
  readonly sequences: Sequences<ProduceBatch> | undefined;
  /** Which topic of that name the numbers are of. */
  topicId: TopicId | undefined;
  /** Where what is under way was sent, if it has numbers: what comes behind it goes there, too. */
  link: BrokerLink | undefined;
  /** The one that takes records: the last of `#batches`. */
  open: ProduceBatch | undefined;
  /** Requests that carry a batch of this lane. */
  inFlightCount = 0;
  /** Those of them that are given up. */
  givenUpCount = 0;
  /** The highest batch order that was ever sent. */
  lastSentOrder = -1;
  /** In a broker's queue. */
  isQueued = false;
  /** Waits for a back-off or for metadata. */
  isBlocked = false;
  /** The last numbered batch that was given up, unless a later one is known to be there. */
  gap: { readonly order: number; readonly error: OttlaError } | undefined;
  /** Answers in a row that said the topic does not exist. */
  missingCount = 0;
  /** Failures in a row. */
  failureCount = 0;
  /** The leader epoch in which a new leader was asked without a pause. */
  promptEpoch = -1;
  /** The last one, in words that do not name the partition. */
  lastError: OttlaError | undefined;
  readonly #batches = new Ring<ProduceBatch>();
  /** Batches to be sent again, by order. */
  #retries: ProduceBatch[] = [];
  /** The one of them that is under way. */
  #sentAgain: ProduceBatch | undefined;

  constructor(topic: string, partition: number, options: { readonly acks: number; readonly idempotent: boolean }) {
    this.topic = topic;
    this.partition = partition;
    this.acks = options.acks;
    // With other acks a lost batch would leave a gap that refuses all later ones (D-28).
    const isNumbered = options.idempotent && (options.acks === -1 || (mutant("D-28") && options.acks === 1));
    this.sequences = isNumbered ? new Sequences() : undefined;
  }

  /** Batches that wait or are under way. */
  get backlog(): number {
    return this.#batches.length + this.#retries.length + this.inFlightCount;
  }

  /** As many batches as may be under way are, and more wait. */
  get isSaturated(): boolean {
    return this.sequences !== undefined && this.backlog > PRODUCER_WINDOW;
  }

  push(batch: ProduceBatch): void {
    this.#batches.push(batch);
  }

  retry(batch: ProduceBatch): void {
    const at = this.#retries.findIndex((other) => other.order > batch.order);
    this.#retries.splice(at < 0 ? this.#retries.length : at, 0, batch);
  }

  /**
   * The batch to send next, if it may be sent now, in a lane without numbers. While a batch waits to be sent again, later ones stay behind it, and
   * until the refused ones are through only one request of the lane is under way.
   */
  next(): ProduceBatch | undefined {
    const batch = this.due();
    if (batch === undefined) return undefined;
    const isOneAtATime = this.#retries.length > 0 || this.#sentAgain !== undefined;
    return isOneAtATime && this.inFlightCount > 0 ? undefined : batch;
  }

  /** The first batch that waits, if it has become due. */
  due(): ProduceBatch | undefined {
    if (this.isBlocked) return undefined;
    const batch = this.head();
    return batch === undefined || (batch.state === "open" && !batch.isDue) ? undefined : batch;
  }

  /** It is sent: it waits no more. */
  take(batch: ProduceBatch): void {
    const at = this.#retries.indexOf(batch);
    if (at < 0) this.#batches.shift();
    else {
      this.#retries.splice(at, 1);
      this.#sentAgain = batch;
    }
  }

  /** A batch under way is not waited for any more. */
  giveUp(batch: ProduceBatch): void {
    if (batch.isGivenUp) return;
    batch.isGivenUp = true;
    this.givenUpCount++;
  }

  /** A later one was sent while it was under way: sent again it would stand behind that one. */
  isOvertaken(batch: ProduceBatch): boolean {
    return this.lastSentOrder > batch.order;
  }

  /** The request that carried the batch has ended. */
  landed(batch: ProduceBatch): void {
    this.inFlightCount--;
    if (batch.isGivenUp) this.givenUpCount--;
    batch.isGivenUp = false;
    if (this.#sentAgain === batch) this.#sentAgain = undefined;
  }

  /** First unsettled batch that is not in flight. */
  head(): ProduceBatch | undefined {
    while (this.#retries[0]?.state === "settled") this.#retries.shift();
    if (this.#retries[0] !== undefined) return this.#retries[0];
    while (this.#batches.peek()?.state === "settled") this.#batches.shift();
    return this.#batches.peek();
  }

  /** Those of what is to be sent again that may be there already. */
  doubtful(): ProduceBatch[] {
    return this.#retries.filter((batch) => batch.state !== "settled" && batch.isDoubtful);
  }

  /** Removes and returns what waits and may go to any other partition as well: nothing that has its place here. */
  takeUnbound(): ProduceBatch[] {
    const waiting = [...this.#retries, ...this.#batches].filter((batch) => batch.state !== "settled");
    const isKept = (batch: ProduceBatch) => batch.isBound || batch.slot !== undefined;
    const kept = waiting.filter(isKept);
    if (kept.length === waiting.length) return [];
    const retries = new Set(this.#retries);
    this.#retries = kept.filter((batch) => retries.has(batch));
    this.#batches.clear();
    for (const batch of kept) if (!retries.has(batch)) this.#batches.push(batch);
    if (this.open?.isBound === false) this.open = undefined;
    return waiting.filter((batch) => !isKept(batch));
  }

  /** Removes and returns all that is not in flight. */
  drain(): ProduceBatch[] {
    const left = [...this.#retries, ...this.#batches].filter((batch) => batch.state !== "settled");
    this.#retries = [];
    this.#batches.clear();
    this.open = undefined;
    return left;
  }
}
