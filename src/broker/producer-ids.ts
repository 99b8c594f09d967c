// Producer ids that this broker hands out (P-17): from blocks that the controller gave to it alone, the next one asked for before the present one
// is used up. What is left of a block when the process ends nobody ever has.
import { Ring } from "../base/ring.ts";
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { NodeId } from "../model/ids.ts";
import type { Logger } from "../ports/logger.ts";
import type { TimerHandle, Timers } from "../ports/timers.ts";
import type { AllocateProducerIdsRequest, AllocateProducerIdsResponse } from "../wire/native/producer-apis.ts";

export interface ProducerIdsDeps {
  readonly nodeId: NodeId;
  /** null: this incarnation is not registered. */
  readonly brokerEpoch: () => number | null;
  readonly allocate: (request: AllocateProducerIdsRequest) => Promise<AllocateProducerIdsResponse>;
  readonly timers: Timers;
  readonly logger: Logger;
  readonly onDefect: (defect: unknown) => void;
}

/** Bound: requests that wait for a block. */
const WAITING_MAX = 10_000;
/** Share of a block that is left when the next one is asked for. */
const LOW_SHARE = 0.2;
const RETRY_MS = 50;
const RETRY_LONGEST_MS = 500;

interface Block {
  nextId: number;
  readonly end: number;
  readonly lowAt: number;
}

interface Waiting {
  readonly resolve: (producerId: number) => void;
  readonly reject: (error: OttlaError) => void;
  timer: TimerHandle | undefined;
}

/**
 * Shape:     at most two blocks: the one that ids are taken of, and the next.
 * Invariant: at most one call to the controller, or one pause before the next, is under way.
 */
export class ProducerIdSource {
  readonly #deps: ProducerIdsDeps;
  readonly #blocks = new Ring<Block>();
  readonly #waiting = new Set<Waiting>();
  /** There must be a block, whether anybody waits or not. */
  #isWarming = false;
  #isAsking = false;
  #failures = 0;
  #lastError: OttlaError | undefined;
  #pause: TimerHandle | undefined;
  #isStopped = false;

  constructor(deps: ProducerIdsDeps) {
    this.#deps = deps;
  }

  /** An id that nobody had before. Rejects with OttlaError, after `timeoutMs` at the latest. */
  next(timeoutMs: number): Promise<number> {
    const producerId = this.#take();
    if (producerId !== undefined) return Promise.resolve(producerId);
    if (this.#isStopped) return Promise.reject(stopped());
    if (this.#waiting.size >= WAITING_MAX)
      return Promise.reject(new OttlaError("BUSY", `${this.#waiting.size} requests wait for producer ids`));
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { resolve, reject, timer: undefined };
      waiting.timer = this.#deps.timers.after(timeoutMs, () => {
        this.#waiting.delete(waiting);
        const why = this.#lastError === undefined ? "the controller has not answered" : this.#lastError.message;
        reject(new OttlaError("REQUEST_TIMED_OUT", `it waited for producer ids: ${why}`));
      });
      this.#waiting.add(waiting);
      this.#ask();
    });
  }

  /** this broker has ids before anybody asks for one, since it goes on serving when there is no controller to ask. */
  warm(): void {
    this.#isWarming = true;
    this.#ask();
  }

  stop(): void {
    this.#isStopped = true;
    this.#pause?.cancel();
    for (const { timer, reject } of this.#waiting) {
      timer?.cancel();
      reject(stopped());
    }
    this.#waiting.clear();
  }

  #take(): number | undefined {
    const block = this.#blocks.peek();
    if (block === undefined) return undefined;
    const producerId = block.nextId++;
    if (block.nextId >= block.end) this.#blocks.shift();
    if (block.nextId >= block.lowAt && this.#blocks.length < 2) this.#ask();
    return producerId;
  }

  #ask(): void {
    if (this.#isAsking || this.#pause !== undefined || this.#isStopped) return;
    this.#isAsking = true;
    void this.#askOnce().catch((thrown: unknown) => this.#deps.onDefect(thrown));
  }

  async #askOnce(): Promise<void> {
    const { nodeId, brokerEpoch, allocate, logger } = this.#deps;
    try {
      const epoch = brokerEpoch();
      if (epoch === null) throw new OttlaError("BROKER_NOT_AVAILABLE", "this broker is not registered");
      const { firstId, count } = await allocate({ nodeId, brokerEpoch: epoch });
      this.#failures = 0;
      this.#lastError = undefined;
      this.#isAsking = false;
      this.#isWarming = false;
      const end = firstId + count;
      this.#blocks.push({ nextId: firstId, end, lowAt: end - Math.floor(count * LOW_SHARE) });
    } catch (thrown) {
      this.#isAsking = false;
      this.#lastError = asOttlaError(thrown);
      logger.debug("producer_ids_not_given", { code: this.#lastError.code, message: this.#lastError.message });
      // Asked for early, nobody waits: the next one that takes an id asks again.
      if (this.#isWanted) this.#retryLater();
      return;
    }
    this.#serve();
  }

  get #isWanted(): boolean {
    return this.#waiting.size > 0 || this.#isWarming;
  }

  #retryLater(): void {
    if (this.#isStopped) return;
    const waitMs = Math.min(RETRY_MS * 2 ** this.#failures++, RETRY_LONGEST_MS);
    this.#pause = this.#deps.timers.after(waitMs, () => {
      this.#pause = undefined;
      if (this.#isWanted) this.#ask();
    });
  }

  #serve(): void {
    for (const waiting of this.#waiting) {
      const producerId = this.#take();
      if (producerId === undefined) return this.#ask();
      this.#waiting.delete(waiting);
      waiting.timer?.cancel();
      waiting.resolve(producerId);
    }
  }
}

const stopped = (): OttlaError => new OttlaError("BROKER_NOT_AVAILABLE", "the broker is stopping");
