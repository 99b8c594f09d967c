// How far behind a follower is in time: the leader remembers where its log was written to at some past moments.

const MARKS = 10;

/**
 * When the leader had written what: at most 10 (moment, writtenEnd) pairs that reach back a little more than the limit.
 *
 * Why:       a follower of a leader that appends without pause is never at its end, though it keeps pace. What counts is how old the
 *            first offset is that it lacks. Costs nothing per append, fetch or report: marks are set by ticks.
 * Example:   marks (0 ms, 100) (500 ms, 150) (1,000 ms, 220), now 1,200 ms with 250 written:
 *              durable end 250 -> has everything, undefined          durable end 230 -> behind since 1,200 ms (now: younger than any mark)
 *              durable end 180 -> behind since 1,000 ms at the latest    durable end 120 -> since 500 ms
 * Invariant: a follower behind since more than the limit lacks something that was written that long ago. Marks are set where the log grew,
 *            and so seldom that 10 of them span the limit.
 */
export class WrittenMarks {
  readonly #spacingMs: number;
  readonly #atMs: number[] = [];
  readonly #ends: number[] = [];

  constructor(lagMaxMs: number) {
    this.#spacingMs = lagMaxMs / (MARKS - 2);
  }

  restart(): void {
    this.#atMs.length = 0;
    this.#ends.length = 0;
  }

  /** That much time did not count. */
  shift(ms: number): void {
    for (let place = 0; place < this.#atMs.length; place++) this.#atMs[place] = (this.#atMs[place] as number) + ms;
  }

  mark(writtenEnd: number, nowMs: number): void {
    const last = this.#atMs.length - 1;
    if (last >= 0 && (this.#ends[last] as number) >= writtenEnd) return;
    if (last >= 0 && nowMs - (this.#atMs[last] as number) < this.#spacingMs) return;
    if (this.#atMs.length === MARKS) {
      this.#atMs.shift();
      this.#ends.shift();
    }
    this.#atMs.push(nowMs);
    this.#ends.push(writtenEnd);
  }

  /** The latest moment since which something above `durableEnd` was certainly written; undefined: nothing is. */
  behindSince(durableEnd: number, writtenEnd: number, nowMs: number): number | undefined {
    if (durableEnd >= writtenEnd) return undefined;
    for (let place = 0; place < this.#ends.length; place++)
      if ((this.#ends[place] as number) > durableEnd) return this.#atMs[place] as number;
    return nowMs;
  }
}
