// What a leader has to tell of its producers before its log may begin further up (D-15): whoever reads from there on must know what the others know.
import { mutant } from "../base/mutant.ts";
import { type ToldProducers, TOLD_PRODUCERS_MAX } from "./producer-records.ts";
import type { ProducerTable } from "./producer-table.ts";

export interface CarryQuestion {
  /** Where the log is to begin. */
  readonly startOffset: number;
  /** Wall clock: data only, as it is told (D-23). */
  readonly nowMs: number;
  /** producer.id.expiration.ms */
  readonly expirationMs: number;
  /** False after a jump of the clock: nobody is forgotten by a clock that is not trusted. */
  readonly mayExpire: boolean;
}

/**
 * The control batch to append next, at the end of the table's log; undefined: the log may begin there once all of them are committed. Ask again after each.
 *
 * P-8, D-15: a producer expires when it wrote nothing for `expirationMs` since a leader first had to carry it on, by that leader's clock: by then its last
 * batch is deleted. What its records say of their time does not count: a client may replay the records of last year.
 *
 * Example: producer 7 wrote its last batch at 10, the log ends at 40
 *            may the log begin at 5?              -> undefined: the batch stays
 *            may it begin at 20, now 1,000?       -> carried: 7, first carried at 1,000; goes to 40
 *            again                                -> undefined: 40 tells of it
 *            at 41, the log ends at 90, now 2,000 -> carried: 7, first carried at 1,000
 *            or, with an expiration of 500 ms     -> expired: 7
 */
export function nextToTell(table: ProducerTable, question: CarryQuestion): ToldProducers | undefined {
  if (mutant("M24")) return undefined;
  const { startOffset, nowMs, expirationMs, mayExpire } = question;
  const unreadable = table.unreadableFrom(startOffset);
  const isForgottenTold = table.forgottenMaxId < 0 || table.forgottenToldAt >= startOffset;
  if (unreadable.length === 0 && isForgottenTold) return undefined;
  const expired = unreadable.filter(({ carriedMs }) => mayExpire && carriedMs >= 0 && nowMs - carriedMs > expirationMs);
  if (expired.length > 0) {
    const producers = expired
      .slice(0, TOLD_PRODUCERS_MAX)
      .map(({ producerId, producerEpoch }) => ({ producerId, producerEpoch }));
    return { kind: "expired", producers };
  }
  const producers = unreadable.slice(0, TOLD_PRODUCERS_MAX).map((view) => ({
    ...view,
    carriedOffset: table.endOffset,
    carriedMs: view.carriedMs < 0 ? Math.max(0, nowMs) : view.carriedMs,
  }));
  const { forgottenMaxId, rememberedFrom } = table;
  return { kind: "carried", producers, forgottenMaxId, rememberedFrom };
}
