// Which batch of a numbered lane is sent next, and what answers mean for the numbers of those that follow. Sequences decides for one lane;
// here are the ids that all lanes of a producer have in common, and the topic that may have been made anew.
import { OttlaError } from "../model/errors.ts";
import type { ClientContext } from "./context.ts";
import type { Lane } from "./lane.ts";
import { ProducerIds } from "./producer-ids.ts";
import type { ProduceBatch } from "./produce-batch.ts";
import type { Sequences, Stamp } from "./sequences.ts";

export interface NumberingEvents {
  /** The lane may have something to send by now. */
  onReady(lane: Lane): void;
  /** What waits there can never be sent. */
  onHopeless(lane: Lane, error: OttlaError): void;
  /** It is in doubt, and can be sent again no more. */
  onLost(batch: ProduceBatch, error: OttlaError): void;
  /** An id is asked for in vain, so far. */
  onWait(lane: Lane, error: OttlaError): void;
}

export class Numbering {
  readonly #context: ClientContext;
  readonly #events: NumberingEvents;
  readonly #ids: ProducerIds;
  /** Lanes that wait for an id or an epoch. */
  readonly #waiting = new Set<Lane>();
  /** Of a named producer: lanes with something under way or in doubt. */
  readonly #open = new Set<Lane>();

  constructor(context: ClientContext, name: string | undefined, events: NumberingEvents) {
    this.#context = context;
    this.#events = events;
    this.#ids = new ProducerIds(context, {
      name,
      isWanted: () => [...this.#waiting].some((lane) => lane.head() !== undefined),
      isOpen: () => this.#open.size > 0,
      onReady: () => this.#ready(),
      onFailure: (error, isFinal) => this.#failed(error, isFinal),
    });
  }

  /** An id will be needed soon. */
  prepare(): void {
    this.#ids.want();
  }

  close(): void {
    this.#ids.close();
  }

  /** The batch to send next, if one may be sent now. */
  next(lane: Lane, sequences: Sequences<ProduceBatch>): ProduceBatch | undefined {
    if (lane.isBlocked || !this.#isOfThisTopic(lane, sequences)) return undefined;
    const { fenced } = this.#ids;
    if (fenced !== undefined) {
      this.#events.onHopeless(lane, fenced);
      return undefined;
    }
    const step = sequences.next();
    const { identity, isOpen } = sequences;
    const isOld = identity !== undefined && this.#ids.isOld(identity) && !isOpen;
    // What was refused for certain keeps its numbers only as long as nobody else of this producer asks for a higher epoch.
    const keepsNumbers = isOpen || (!isOld && !this.#ids.isRaising);
    if (step.kind === "again" && keepsNumbers) return step.slot.item;
    const batch = lane.due();
    if (batch === undefined || step.kind === "hold") return undefined;
    if (step.kind === "restart" || isOld) return this.#restart(lane, sequences) ? batch : undefined;
    if (!this.#ids.isRaising) return batch;
    this.#wait(lane);
    return undefined;
  }

  /** The numbers that it will have when it is sent now. */
  stampOf(batch: ProduceBatch): Stamp | undefined {
    return batch.slot?.stamp ?? batch.lane.sequences?.nextStamp;
  }

  sent(batch: ProduceBatch): void {
    const { lane, slot } = batch;
    const { sequences } = lane;
    if (sequences === undefined) return;
    if (slot === undefined) batch.slot = sequences.begin(batch, batch.recordCount);
    else sequences.again(slot);
    if (this.#ids.isNamed) this.#open.add(lane);
  }

  appended({ lane, slot }: ProduceBatch): void {
    if (slot !== undefined) this.#change(lane, (sequences) => sequences.appended(slot));
  }

  /** It is to be sent again. */
  refused({ lane, slot }: ProduceBatch, isDoubtful: boolean): void {
    if (slot !== undefined) this.#change(lane, (sequences) => sequences.refused(slot, isDoubtful));
  }

  /** Refused for its numbers. "lost": it is in doubt, and can be sent again no more. */
  outOfOrder({ lane, slot }: ProduceBatch): "again" | "lost" {
    let kind: "again" | "lost" = "again";
    if (slot === undefined) return kind;
    this.#change(lane, (sequences) => {
      const verdict = sequences.outOfOrder(slot);
      kind = verdict.kind;
      return verdict.freed;
    });
    return kind;
  }

  /** Its sender is told that it failed. */
  failed({ lane, slot }: ProduceBatch): void {
    if (slot !== undefined) this.#change(lane, (sequences) => sequences.failed(slot));
  }

  /** The broker knows a higher epoch of the name. undefined: there is no name, and a new epoch of its own helps. */
  fence(error: OttlaError): OttlaError | undefined {
    return this.#ids.isNamed ? this.#ids.fence(error) : undefined;
  }

  #change(lane: Lane, change: (sequences: Sequences<ProduceBatch>) => readonly ProduceBatch[]): void {
    const { sequences } = lane;
    if (sequences === undefined) return;
    for (const batch of change(sequences)) batch.slot = undefined;
    if (!this.#ids.isNamed || sequences.isOpen) return;
    this.#open.delete(lane);
    this.#ids.raise();
  }

  /** False: it has to wait. */
  #restart(lane: Lane, sequences: Sequences<ProduceBatch>): boolean {
    const { identity } = sequences;
    const next = identity === undefined ? this.#ids.first() : this.#ids.after(identity);
    if (next === undefined) {
      this.#wait(lane);
      return false;
    }
    this.#waiting.delete(lane);
    for (const batch of sequences.restart(next)) batch.slot = undefined;
    return true;
  }

  #wait(lane: Lane): void {
    this.#waiting.add(lane);
    this.#ids.raise();
  }

  /** A topic that was made anew knows nothing of what its predecessor was sent: numbers begin anew with it. */
  #isOfThisTopic(lane: Lane, sequences: Sequences<ProduceBatch>): boolean {
    const topicId = this.#context.metadata.peek(lane.topic)?.topicId;
    if (topicId === undefined || topicId === lane.topicId) return true;
    if (sequences.isUnderWay) return false;
    const gone = new OttlaError(
      "UNKNOWN_TOPIC_ID",
      "the topic was deleted and created again before it was acknowledged",
    );
    for (const batch of lane.doubtful()) this.#events.onLost(batch, gone);
    lane.topicId = topicId;
    for (const batch of sequences.restart(undefined)) batch.slot = undefined;
    return true;
  }

  #ready(): void {
    const lanes = [...this.#waiting];
    this.#waiting.clear();
    for (const lane of lanes) this.#events.onReady(lane);
  }

  #failed(error: OttlaError, isFinal: boolean): void {
    for (const lane of [...this.#waiting]) {
      if (!isFinal) this.#events.onWait(lane, error);
      else {
        this.#waiting.delete(lane);
        this.#events.onHopeless(lane, error);
      }
    }
  }
}
