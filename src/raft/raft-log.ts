// One node's log as the core sees it: what is accepted, handed out, written, durable, committed and applied.
import { assert, present } from "../base/assert.ts";
import {
  type Entry,
  entrySizeBytes,
  type LogStart,
  type RestoredState,
  type SnapshotMeta,
  type Term,
} from "./types.ts";

/** A write batch that the host has and has not finished. */
interface Pending {
  readonly id: number;
  /** End of what stays of the log once this batch is on disk; lowered when a later cut removes a part of it. */
  end: number;
  readonly isReset: boolean;
}

/** What of the log the host has to put on disk next. */
export interface LogWrite {
  readonly resetLogTo: LogStart | null;
  readonly cutSuffixTo: number | null;
  readonly entries: readonly Entry[];
  readonly cutPrefixTo: number | null;
}

/**
 * Entries [start, end) and the marks along them.
 *
 * Shape:     start <= appliedEnd <= handedToApplyEnd <= commitEnd <= end; durableEnd <= writtenEnd <= handedEnd <= end.
 * Invariant: 1. terms never fall along the log; 2. nothing below commitEnd is ever cut; 3. a completion credits only
 *            entries that are still in the log: a cut lowers the marks of what is under way, so the late completion of a
 *            batch whose tail was replaced does not speak for the replacement.
 * Example:   [0, 10) durable, batch 5 = entries [10, 15) under way, then a cut to 12 and batch 6 = [12, 13)
 *            5 durable -> durableEnd 12; 6 durable -> durableEnd 13.
 */
export class RaftLog {
  #entries: Entry[];
  #start: number;
  #startTerm: Term;
  #handedEnd: number;
  #writtenEnd: number;
  #durableEnd: number;
  #commitEnd: number;
  #handedToApplyEnd: number;
  #appliedEnd: number;
  #resetTo: LogStart | null = null;
  #cutSuffixTo: number | null = null;
  #cutPrefixTo: number | null = null;
  #pending: Pending[] = [];

  constructor({ snapshot, log }: Pick<RestoredState, "snapshot" | "log">) {
    this.#entries = [...log.entries];
    this.#start = log.start;
    this.#startTerm = log.startTerm;
    this.#handedEnd = this.#writtenEnd = this.#durableEnd = this.end;
    const snapshotEnd = snapshot?.end ?? 0;
    assert(log.start <= snapshotEnd, `the log starts at ${log.start}, the snapshot ends at ${snapshotEnd} (Q-14)`);
    this.#commitEnd = this.#handedToApplyEnd = this.#appliedEnd = snapshotEnd;
    if (snapshot !== null && !this.matches(snapshot)) this.#reset(snapshot, []);
    this.#checkEntries();
  }

  get start(): number {
    return this.#start;
  }
  get startTerm(): Term {
    return this.#startTerm;
  }
  /** Accepted: where the next entry goes. */
  get end(): number {
    return this.#start + this.#entries.length;
  }
  get handedEnd(): number {
    return this.#handedEnd;
  }
  get writtenEnd(): number {
    return this.#writtenEnd;
  }
  get durableEnd(): number {
    return this.#durableEnd;
  }
  get commitEnd(): number {
    return this.#commitEnd;
  }
  get handedToApplyEnd(): number {
    return this.#handedToApplyEnd;
  }
  get appliedEnd(): number {
    return this.#appliedEnd;
  }
  get lastTerm(): Term {
    return this.#entries.at(-1)?.term ?? this.#startTerm;
  }
  get hasPending(): boolean {
    return this.#pending.length > 0;
  }

  /** Term of the last entry of [0, end); undefined when the log does not know it. */
  termBefore(end: number): Term | undefined {
    return end === this.#start ? this.#startTerm : this.#entries[end - 1 - this.#start]?.term;
  }

  /** True when [0, end) is a prefix of this log (log matching). */
  matches(prefix: { readonly end: number; readonly lastTerm: Term }): boolean {
    return this.termBefore(prefix.end) === prefix.lastTerm;
  }

  /** True when a log (end, lastTerm) holds all that this one may have committed (5.4.1). */
  isUpToDate(other: { readonly end: number; readonly lastTerm: Term }): boolean {
    const { lastTerm } = this;
    return other.lastTerm > lastTerm || (other.lastTerm === lastTerm && other.end >= this.end);
  }

  /**
   * The longest prefix of this log, not longer than `end`, whose last term is at most `lastTerm`: all longer ones differ from
   * a log that has `lastTerm` there. One question skips a whole term.
   */
  lastPossibleMatch({ end, lastTerm }: { readonly end: number; readonly lastTerm: Term }): number {
    let at = Math.min(end, this.end);
    while (at > this.#start && (this.termBefore(at) ?? 0) > lastTerm) at--;
    return at;
  }

  at(index: number): Entry {
    return present(this.#entries[index - this.#start], `entry ${index} of [${this.#start}, ${this.end})`);
  }

  /** Entries from `from` on, at least one if there is any, then as many as both limits allow. */
  slice(from: number, limits: { readonly entriesMax: number; readonly bytesMax: number }): Entry[] {
    const entries: Entry[] = [];
    let sizeBytes = 0;
    for (let index = from; index < this.end && entries.length < limits.entriesMax; index++) {
      const entry = this.at(index);
      sizeBytes += entrySizeBytes(entry);
      if (entries.length > 0 && sizeBytes > limits.bytesMax) break;
      entries.push(entry);
    }
    return entries;
  }

  append(entry: Entry): void {
    assert(entry.index === this.end, `entry ${entry.index} appended to a log that ends at ${this.end}`);
    assert(entry.term >= this.lastTerm, `entry ${entry.index} of term ${entry.term} after term ${this.lastTerm}`);
    this.#entries.push(entry);
  }

  /** Removes a suffix that conflicts with the leader's log. */
  cutSuffix(end: number): void {
    assert(end >= this.#commitEnd, `cut to ${end}, below the committed ${this.#commitEnd} (Q-10)`);
    assert(end < this.end, `cut to ${end}, but the log ends at ${this.end}`);
    this.#entries.length = end - this.#start;
    if (this.#handedEnd > end) this.#cutSuffixTo = Math.min(this.#cutSuffixTo ?? end, end);
    this.#handedEnd = Math.min(this.#handedEnd, end);
    this.#writtenEnd = Math.min(this.#writtenEnd, end);
    this.#durableEnd = Math.min(this.#durableEnd, end);
    for (const pending of this.#pending) pending.end = Math.min(pending.end, end);
  }

  /** Forgets entries that a durable snapshot covers. */
  cutPrefix(start: number): void {
    if (start <= this.#start) return;
    assert(start <= this.#appliedEnd, `prefix cut to ${start}, above the applied ${this.#appliedEnd}`);
    this.#startTerm = present(this.termBefore(start), `term before ${start}`);
    this.#entries = this.#entries.slice(start - this.#start);
    this.#start = start;
    this.#cutPrefixTo = start;
  }

  /** An installed, durable snapshot takes the place of the log, or of its beginning where the log goes on from it. */
  install(snapshot: SnapshotMeta): void {
    assert(snapshot.end > this.#commitEnd, `snapshot to ${snapshot.end} at commit end ${this.#commitEnd}`);
    this.#commitEnd = this.#handedToApplyEnd = this.#appliedEnd = snapshot.end;
    const isContinued = this.matches(snapshot);
    if (isContinued && this.#durableEnd >= snapshot.end) this.cutPrefix(snapshot.end);
    else this.#reset(snapshot, isContinued ? this.#entries.slice(snapshot.end - this.#start) : []);
  }

  /** On disk the log begins anew at the snapshot's end; `entries`, if any, go on from there and are written again. */
  #reset({ end, lastTerm }: SnapshotMeta, entries: Entry[]): void {
    this.#entries = entries;
    this.#start = end;
    this.#startTerm = lastTerm;
    this.#handedEnd = this.#writtenEnd = this.#durableEnd = end;
    this.#resetTo = { start: end, startTerm: lastTerm };
    this.#cutSuffixTo = this.#cutPrefixTo = null;
    for (const pending of this.#pending) pending.end = 0;
  }

  commitTo(end: number): void {
    assert(end <= this.end, `committed to ${end}, but the log ends at ${this.end}`);
    assert(end >= this.#commitEnd, `committed to ${end} after ${this.#commitEnd}`);
    this.#commitEnd = end;
  }

  /** Entries to apply next: committed, and durable here, so that nothing applied can vanish from this disk. */
  takeCommitted(entriesMax: number): Entry[] {
    const end = Math.min(this.#commitEnd, this.#durableEnd, this.#handedToApplyEnd + entriesMax);
    if (end <= this.#handedToApplyEnd) return [];
    const entries = this.#entries.slice(this.#handedToApplyEnd - this.#start, end - this.#start);
    this.#handedToApplyEnd = end;
    return entries;
  }

  get hasToApply(): boolean {
    return Math.min(this.#commitEnd, this.#durableEnd) > this.#handedToApplyEnd;
  }

  applied(end: number): void {
    assert(end <= this.#handedToApplyEnd, `applied to ${end}, handed out to ${this.#handedToApplyEnd}`);
    // Less than before: entries that an installed snapshot has overtaken.
    this.#appliedEnd = Math.max(this.#appliedEnd, end);
  }

  get hasWrite(): boolean {
    return (
      this.#handedEnd < this.end || this.#resetTo !== null || this.#cutSuffixTo !== null || this.#cutPrefixTo !== null
    );
  }

  takeWrite(id: number): LogWrite {
    const write: LogWrite = {
      resetLogTo: this.#resetTo,
      cutSuffixTo: this.#cutSuffixTo,
      entries: this.#entries.slice(this.#handedEnd - this.#start),
      cutPrefixTo: this.#cutPrefixTo,
    };
    this.#resetTo = this.#cutSuffixTo = this.#cutPrefixTo = null;
    this.#handedEnd = this.end;
    this.#pending.push({ id, end: this.end, isReset: write.resetLogTo !== null });
    return write;
  }

  /** Batch `id` and all before it are in the file: they survive the process, not the power. */
  written(id: number): void {
    for (const pending of this.#pending)
      if (pending.id <= id) this.#writtenEnd = Math.max(this.#writtenEnd, pending.end);
  }

  durable(id: number): void {
    this.written(id);
    while (this.#pending.length > 0 && present(this.#pending[0], "batch").id <= id)
      this.#durableEnd = Math.max(this.#durableEnd, present(this.#pending.shift(), "batch").end);
  }

  /** The disk failed: of what was under way nothing is known. Once it writes again, everything above the durable end is written anew. */
  restartWrites(): void {
    if (this.#pending.some(({ isReset }) => isReset))
      this.#resetTo = { start: this.#start, startTerm: this.#startTerm };
    this.#pending = [];
    this.#handedEnd = this.#writtenEnd = this.#durableEnd;
    this.#cutSuffixTo = this.#durableEnd;
    this.#cutPrefixTo = this.#start > 0 ? this.#start : null;
  }

  checkInvariants(): void {
    const { end } = this;
    const isApplyOrdered =
      this.#start <= this.#appliedEnd &&
      this.#appliedEnd <= this.#handedToApplyEnd &&
      this.#handedToApplyEnd <= this.#commitEnd &&
      this.#commitEnd <= end;
    const isWriteOrdered =
      this.#durableEnd <= this.#writtenEnd && this.#writtenEnd <= this.#handedEnd && this.#handedEnd <= end;
    // The numbers only when they are wanted: this runs at each input.
    if (isApplyOrdered && isWriteOrdered) return;
    assert(
      false,
      `start ${this.#start}, applied ${this.#appliedEnd}, to apply ${this.#handedToApplyEnd}, commit ${this.#commitEnd}, ` +
        `durable ${this.#durableEnd}, written ${this.#writtenEnd}, handed ${this.#handedEnd}, end ${end}`,
    );
  }

  #checkEntries(): void {
    let term = this.#startTerm;
    for (const [at, entry] of this.#entries.entries()) {
      assert(entry.index === this.#start + at, `entry ${entry.index} stored at ${this.#start + at}`);
      assert(entry.term >= term, `entry ${entry.index} of term ${entry.term} stored after term ${term}`);
      term = entry.term;
    }
  }
}
