// What one connection has sent to each partition and awaits an answer for: when each record was due, and which ones failed.
import { Ring } from "../../base/ring.ts";
import type { SentLane, SequenceRange } from "./types.ts";

/** Records that were due at the same time, one after another in one partition. */
interface Awaited {
  readonly dueMs: number;
  count: number;
}

/** Beyond so many separate failures of one lane only their number is kept; what is checked then is refused. */
export const RANGES_MAX = 10_000;

export class Lane {
  readonly partition: number;
  readonly #awaited = new Ring<Awaited>();
  readonly #failed: [from: number, to: number][] = [];
  #last: Awaited | undefined;
  #sent = 0;
  #answered = 0;
  #failedCount = 0;

  constructor(partition: number) {
    this.partition = partition;
  }

  /** Sequence of the next record. */
  get next(): number {
    return this.#sent;
  }

  sent(dueMs: number): void {
    this.#sent++;
    if (this.#last !== undefined && this.#last.dueMs === dueMs && this.#last.count > 0) {
      this.#last.count++;
      return;
    }
    this.#last = { dueMs, count: 1 };
    this.#awaited.push(this.#last);
  }

  /**
   * The oldest `count` records have their answer. Batches of one partition are answered in order, except where one was sent again without a
   * producer's number (acks 0 and 1): then latencies are told of the right number of records, though not each of its own.
   */
  answered(count: number, isFailed: boolean, each: (dueMs: number, count: number) => void): void {
    const from = this.#answered;
    this.#answered += count;
    if (isFailed) this.#fail(from, this.#answered - 1);
    for (let left = count; left > 0; ) {
      const oldest = this.#awaited.peek();
      if (oldest === undefined) return;
      const taken = Math.min(left, oldest.count);
      oldest.count -= taken;
      left -= taken;
      if (oldest.count === 0) this.#awaited.shift();
      each(oldest.dueMs, taken);
    }
  }

  get acknowledged(): number {
    return this.#answered - this.#failedCount;
  }

  #fail(from: number, to: number): void {
    this.#failedCount += to - from + 1;
    const last = this.#failed.at(-1);
    if (last?.[1] === from - 1) last[1] = to;
    else if (this.#failed.length < RANGES_MAX) this.#failed.push([from, to]);
    else throw new RangeError(`more than ${RANGES_MAX} separate failures in one partition`);
  }

  /** What has no answer counts as failed. */
  summary(connection: number): SentLane {
    const unanswered: SequenceRange[] = this.#answered < this.#sent ? [[this.#answered, this.#sent - 1]] : [];
    return { connection, partition: this.partition, count: this.#sent, failed: [...this.#failed, ...unanswered] };
  }
}
