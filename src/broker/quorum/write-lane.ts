// The lane of the Raft log: batches in order, what may be said only after a sync, and a disk that is full for a while (D-19).
import { mutant } from "../../base/mutant.ts";
import { asOttlaError, type OttlaError } from "../../model/errors.ts";
import type { Timers } from "../../ports/timers.ts";
import type { Message, WriteBatch } from "../../raft/types.ts";
import type { RaftWrite } from "../../storage/raft-types.ts";

const RETRY_FIRST_MS = 100;
const RETRY_LONGEST_MS = 2_000;

export interface WriteLaneHost {
  write(batch: WriteBatch): Promise<void>;
  send(message: Message): void;
  /** All up to this batch is durable. */
  onDurable(id: number): void;
  /** Nothing that was under way counts any more. */
  onStalled(error: OttlaError): void;
  /** It may be tried again: nothing is under way. */
  onRetry(): void;
  /** Final. */
  onFailed(error: OttlaError): void;
}

/**
 * Invariant: after a failure no completion of before is told; onRetry comes only when every write of before has settled.
 * Bound: the core hands out a batch per ready(), each waiting for its sync; its own limits on uncommitted entries bound their bytes.
 */
export class WriteLane {
  readonly #host: WriteLaneHost;
  readonly #timers: Timers;
  #inFlight = 0;
  /** Raised by a failure. */
  #life = 0;
  #retryMs = RETRY_FIRST_MS;
  #trouble: OttlaError | null = null;
  #isClosed = false;

  constructor(timers: Timers, host: WriteLaneHost) {
    this.#timers = timers;
    this.#host = host;
  }

  /** Why it does not write now. */
  get trouble(): OttlaError | null {
    return this.#trouble;
  }

  push(batch: WriteBatch): void {
    const life = this.#life;
    this.#inFlight++;
    // D-19: an answer that leaves before its sync promises what a power loss takes back.
    if (mutant("D19s")) for (const message of batch.messagesAfterSync) this.#host.send(message);
    this.#host.write(batch).then(
      () => this.#settled(life, () => this.#durable(batch)),
      (thrown: unknown) => this.#settled(life, () => this.#refused(asOttlaError(thrown))),
    );
  }

  close(): void {
    this.#isClosed = true;
  }

  #settled(life: number, act: () => void): void {
    this.#inFlight--;
    if (this.#isClosed) return;
    if (life === this.#life) act();
    else if (this.#inFlight === 0) this.#retryLater();
  }

  #durable(batch: WriteBatch): void {
    this.#trouble = null;
    this.#retryMs = RETRY_FIRST_MS;
    if (!mutant("D19s")) for (const message of batch.messagesAfterSync) this.#host.send(message);
    this.#host.onDurable(batch.id);
  }

  #refused(error: OttlaError): void {
    if (!isPassing(error)) {
      this.#isClosed = true;
      this.#host.onFailed(error);
      return;
    }
    this.#life++;
    this.#trouble = error;
    this.#host.onStalled(error);
    if (this.#inFlight === 0) this.#retryLater();
  }

  #retryLater(): void {
    this.#timers.after(this.#retryMs, () => {
      if (!this.#isClosed) this.#host.onRetry();
    });
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_LONGEST_MS);
  }
}

/** A full disk, or too many open files: writes may go through later. */
export const isPassing = ({ code }: OttlaError): boolean => code === "STORAGE_FULL" || code === "STORAGE_ERROR";

/** One write that stands for nothing but these fields. */
export const writeOf = (fields: Partial<RaftWrite>): RaftWrite => ({
  hardState: null,
  resetLogTo: null,
  cutSuffixTo: null,
  entries: [],
  cutPrefixTo: null,
  ...fields,
});
