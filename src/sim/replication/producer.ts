// A producer with an id, as a good client does it: five batches at most from the oldest one without an answer on, sent again under the same sequence until somebody answers.
import type { Rng } from "../../base/rng.ts";
import { PRODUCER_WINDOW, PRODUCERS_MAX } from "../../model/producer-table.ts";
import { type SimAnswer, SimBatch } from "./batch.ts";
import { CLIENTS } from "./place.ts";
import type { SimReplica } from "./replica.ts";
import type { ReplicationWorld } from "./world.ts";

const BACK_OFF_MS = 30;
/** A client notices that a connection is gone, and that an answer does not come. */
const PATIENCE_MS = 400;

/** One batch as its producer knows it, however often it is sent. */
export interface Sent {
  /** Of the batches of its producer. */
  readonly number: number;
}

/** Of a producer that waits for an answer. */
interface Message extends Sent {
  readonly recordCount: number;
  readonly baseSequence: number;
  readonly untilMs: number;
  isSettled: boolean;
  /** An attempt of it may be in the log, or may still get there. */
  isDoubtful: boolean;
  /** The attempt that it waits for. */
  attempt: SimBatch | undefined;
  sentAtMs: number;
  notBeforeMs: number;
}

/** One lane: one producer in one partition. `unsettled` in sequence order. */
export class SimProducer {
  readonly producerId: number;
  readonly partition: number;
  producerEpoch: number;
  /** Somebody has its id and a higher epoch. */
  isSuperseded = false;
  isDone = false;
  readonly unsettled: Message[] = [];
  /** Its last acknowledged ones of this epoch, as many as a partition remembers. */
  readonly #taken: Message[] = [];
  #nextSequence = 0;
  #sent = 0;
  readonly #world: ReplicationWorld;
  readonly #pick: () => SimReplica | undefined;

  constructor(
    world: ReplicationWorld,
    identity: { readonly producerId: number; readonly producerEpoch: number; readonly partition: number },
    pick: () => SimReplica | undefined,
  ) {
    this.#world = world;
    this.producerId = identity.producerId;
    this.producerEpoch = identity.producerEpoch;
    this.partition = identity.partition;
    this.#pick = pick;
    this.#pump();
  }

  /** Of all that it sent before, everything is acknowledged. */
  isHead(batch: SimBatch): boolean {
    const [head] = this.unsettled;
    return head !== undefined && batch.producerEpoch === this.producerEpoch && batch.message === head;
  }

  /** Since when its oldest batch has waited; undefined: nothing waits. */
  get waitsSinceMs(): number | undefined {
    const [head] = this.unsettled;
    return head === undefined ? undefined : head.untilMs - this.#world.swarm.deliveryMs;
  }

  send(rng: Rng): void {
    // What is acknowledged in between counts too: the broker remembers the last five, whether or not the first of them was answered.
    const number = this.#sent;
    if (this.isDone || number - (this.unsettled[0]?.number ?? number) >= PRODUCER_WINDOW) return;
    this.#sent++;
    const message: Message = {
      number,
      recordCount: rng.between(1, 4),
      baseSequence: this.#nextSequence,
      untilMs: this.#world.timeMs + this.#world.swarm.deliveryMs,
      isSettled: false,
      isDoubtful: false,
      attempt: undefined,
      sentAtMs: 0,
      notBeforeMs: 0,
    };
    this.#nextSequence += message.recordCount;
    this.unsettled.push(message);
    this.#sendDue();
  }

  /** Somebody else sends other records under numbers that are taken: whoever leads by right has the true ones. */
  forge(rng: Rng): void {
    const replica = this.#pick();
    if (replica === undefined || this.#taken.length === 0) return;
    const { recordCount, baseSequence } = rng.pick(this.#taken);
    const batch = new SimBatch(this.#world.nextBatch(), { recordCount, acks: -1 });
    batch.producerId = this.producerId;
    batch.producerEpoch = this.producerEpoch;
    batch.baseSequence = baseSequence;
    batch.isResent = rng.chance(0.5);
    // Unlike every other one, also where an earlier one was taken because the true records are lost (seed 3089).
    batch.message = { number: -1 - batch.number };
    batch.onAnswer = ({ error }) => this.#world.mark(`forged batch ${error}`);
    const { node, life } = replica;
    this.#world.control(CLIENTS, node.nodeId, () => {
      if (node.life === life) node.whenRunning(() => replica.produce(batch));
    });
  }

  /** What is on its way arrives all the same. */
  die(): void {
    this.isDone = true;
    this.#giveUp();
  }

  #pump(): void {
    if (this.isDone || this.#world.isQuiet) return;
    this.#sendDue();
    this.#world.at(BACK_OFF_MS, () => this.#pump());
  }

  /** In order: what comes later waits while an earlier one is to be sent again. */
  #sendDue(): void {
    const { timeMs } = this.#world;
    for (const message of this.unsettled) {
      if (message.untilMs <= timeMs) return this.#newEpoch();
      if (message.attempt !== undefined && message.sentAtMs + PATIENCE_MS <= timeMs) {
        message.attempt = undefined;
        message.isDoubtful = true;
      }
      if (message.attempt !== undefined) continue;
      if (message.notBeforeMs > timeMs) return;
      this.#attempt(message);
    }
  }

  /** Whether it was written nobody knows: what is in doubt is never sent under another sequence. */
  #newEpoch(): void {
    this.#world.mark("producer epoch raised");
    this.#giveUp();
    this.#taken.length = 0;
    this.producerEpoch++;
    this.#nextSequence = 0;
  }

  #giveUp(): void {
    for (const message of this.unsettled.splice(0)) message.isSettled = true;
  }

  #attempt(message: Message): void {
    const { timeMs } = this.#world;
    message.notBeforeMs = timeMs + BACK_OFF_MS;
    const replica = this.#pick();
    if (replica === undefined) return;
    const { recordCount, baseSequence } = message;
    const batch = new SimBatch(this.#world.nextBatch(), { recordCount, acks: -1 });
    batch.producerId = this.producerId;
    batch.producerEpoch = this.producerEpoch;
    batch.baseSequence = baseSequence;
    batch.isResent = message.isDoubtful;
    batch.message = message;
    batch.producer = this;
    batch.onAnswer = (answer, from) => this.#world.control(from, CLIENTS, () => this.#hear(message, batch, answer));
    message.attempt = batch;
    message.sentAtMs = timeMs;
    const { node, life } = replica;
    this.#world.control(CLIENTS, node.nodeId, () => {
      // A dead process reads nothing.
      if (node.life === life)
        node.whenRunning(() => {
          if (!this.#isTooLate(message, batch)) replica.produce(batch);
        });
    });
  }

  /** Where producers are forgotten soon: see `producersMax`. */
  #isTooLate(message: Message, batch: SimBatch): boolean {
    const { producersMax, producerExpirationMs } = this.#world.swarm;
    const isFirst = batch.baseSequence === 0 && !batch.isResent;
    const isForgotten = producersMax < PRODUCERS_MAX || producerExpirationMs < Number.POSITIVE_INFINITY;
    return isFirst && isForgotten && (message.isSettled || message.attempt !== batch);
  }

  #hear(message: Message, batch: SimBatch, { error, outcome }: SimAnswer): void {
    if (this.isDone || message.isSettled) return;
    if (error === "NONE") {
      message.isSettled = true;
      this.unsettled.splice(this.unsettled.indexOf(message), 1);
      this.#taken.push(message);
      if (this.#taken.length > PRODUCER_WINDOW) this.#taken.shift();
      return this.#sendDue();
    }
    if (error === "INVALID_PRODUCER_EPOCH") {
      this.#world.mark("producer fenced");
      return this.die();
    }
    if (error === "UNKNOWN_PRODUCER_ID" && batch.baseSequence === 0) this.#world.mark("first batch of a forgotten one");
    // Of an earlier attempt: the present one is still out.
    if (message.attempt !== batch) return;
    message.attempt = undefined;
    message.notBeforeMs = this.#world.timeMs + BACK_OFF_MS;
    if (outcome === "unknown") message.isDoubtful = true;
    // Nothing of this epoch is taken any more.
    if (error === "UNKNOWN_PRODUCER_ID" && message === this.unsettled[0] && !this.isSuperseded) this.#newEpoch();
  }
}
