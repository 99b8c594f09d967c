// Tells when everything that was handed to a producer before a flush() is settled. Things are counted by generation: a flush
// closes the current one and waits until it and all before it are empty.
import type { OttlaError } from "../model/errors.ts";

interface Flush {
  readonly generation: number;
  resolve(): void;
  reject(error: AggregateError): void;
}

/** Errors kept for the next flush; of more, only the count is told. */
const ERRORS_KEPT = 100;

export class FlushTracker {
  readonly #open = new Map<number, number>();
  #flushes: Flush[] = [];
  #generation = 0;
  #errors: OttlaError[] = [];
  #failedRecordCount = 0;

  get current(): number {
    return this.#generation;
  }

  get isFlushing(): boolean {
    return this.#flushes.length > 0;
  }

  begin(generation = this.#generation): number {
    this.#open.set(generation, (this.#open.get(generation) ?? 0) + 1);
    return generation;
  }

  end(generation: number): void {
    const count = (this.#open.get(generation) ?? 0) - 1;
    if (count > 0) this.#open.set(generation, count);
    else {
      this.#open.delete(generation);
      this.#check();
    }
  }

  /** Enqueued records failed: the next flush tells. */
  fail(error: OttlaError, recordCount: number): void {
    if (this.#errors.length < ERRORS_KEPT) this.#errors.push(error);
    this.#failedRecordCount += recordCount;
  }

  flush(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#flushes.push({ generation: this.#generation++, resolve, reject });
      this.#check();
    });
  }

  #check(): void {
    let oldest = Number.POSITIVE_INFINITY;
    for (const generation of this.#open.keys()) oldest = Math.min(oldest, generation);
    while (this.#flushes[0] !== undefined && this.#flushes[0].generation < oldest)
      this.#finish(this.#flushes.shift() as Flush);
  }

  #finish(flush: Flush): void {
    if (this.#failedRecordCount === 0) return flush.resolve();
    const message = `${this.#failedRecordCount} enqueued records were not delivered`;
    const errors = this.#errors;
    this.#errors = [];
    this.#failedRecordCount = 0;
    flush.reject(new AggregateError(errors, message));
  }
}
