// Tells when everything that was handed to a producer before a flush() is settled. Things are counted by generation: a flush
// closes the current one and waits until it and all before it are empty.
import type { OttlaError } from "../model/errors.ts";

/** What was handed over between two flushes. */
export interface Generation {
  /** Sends and batches of it that are not settled. */
  openCount: number;
}

interface Flush {
  readonly generation: Generation;
  isHeard(): boolean;
  resolve(): void;
  reject(error: AggregateError): void;
}

/** Errors kept for the next flush; of more, only the count is told. */
const ERRORS_KEPT = 100;

export class FlushTracker {
  /** Oldest first; each closed a generation. */
  readonly #flushes: Flush[] = [];
  #current: Generation = { openCount: 0 };
  #errors: OttlaError[] = [];
  #failedRecordCount = 0;

  get current(): Generation {
    return this.#current;
  }

  get isFlushing(): boolean {
    return this.#flushes.length > 0;
  }

  begin(generation: Generation = this.#current): Generation {
    generation.openCount++;
    return generation;
  }

  end(generation: Generation): void {
    if (--generation.openCount === 0 && this.#flushes.length > 0) this.#check();
  }

  /** Enqueued records failed: the next flush tells. */
  fail(error: OttlaError, recordCount: number): void {
    if (this.#errors.length < ERRORS_KEPT) this.#errors.push(error);
    this.#failedRecordCount += recordCount;
  }

  /** `isHeard`: somebody still waits for it. Else the next one tells of what failed. */
  flush(isHeard: () => boolean = () => true): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#flushes.push({ generation: this.#current, isHeard, resolve, reject });
      this.#current = { openCount: 0 };
      this.#check();
    });
  }

  #check(): void {
    while (this.#flushes[0]?.generation.openCount === 0) this.#finish(this.#flushes.shift() as Flush);
  }

  #finish(flush: Flush): void {
    if (this.#failedRecordCount === 0 || !flush.isHeard()) return flush.resolve();
    const message = `${this.#failedRecordCount} enqueued records were not delivered`;
    const errors = this.#errors;
    this.#errors = [];
    this.#failedRecordCount = 0;
    flush.reject(new AggregateError(errors, message));
  }
}
