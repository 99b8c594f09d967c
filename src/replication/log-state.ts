// The local log as the core knows it: its ends, its epochs, and what is known to be committed. Shared by the leader and the follower half.
import { AssertionFailure, assert } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import type { Offset } from "../model/ids.ts";
import { ProducerTable } from "../model/producer-table.ts";
import { EpochHistory } from "./epoch-history.ts";
import type { EpochStart, FetchedBatch, LogEnds } from "./types.ts";

/**
 * Shape:     startOffset <= highWatermark <= durableEnd <= writtenEnd <= endOffset (I-1, D-34, D-35), on leaders and followers alike.
 * Invariant: the high watermark only rises, but where the log is cut below it or begins anew (D-9, R-7). `producers` is at every moment what the log
 *            [startOffset, endOffset) makes of it (invariant 25); while the log is cut, of what it had before: it is the log's own, and a cut that fails
 *            leaves the log as it was.
 * Example:   [0, 10) durable, high watermark 8
 *              accepted 10..14              -> endOffset 15
 *              written 15                   -> writtenEnd 15
 *              durable 15                   -> durableEnd 15
 *              cut at 12                    -> all ends 12, completions void until `cutDone`
 *              durable 15, count as before  -> void: it speaks of bytes that are gone (M35)
 */
export class LogState {
  readonly epochs = new EpochHistory();
  producers = new ProducerTable();
  startOffset = 0 as Offset;
  /** The log start that a power loss leaves. */
  durableStart = 0 as Offset;
  endOffset = 0 as Offset;
  writtenEnd = 0 as Offset;
  durableEnd = 0 as Offset;
  highWatermark = 0 as Offset;
  /** A truncation or a restart is under way: no completion counts, nothing is appended. */
  isCutting = false;
  isLoaded = false;
  #truncations = 0;

  load(found: {
    readonly ends: LogEnds;
    readonly startOffset: Offset;
    readonly epochs: readonly EpochStart[];
    readonly highWatermark: Offset;
    readonly producers: ProducerTable;
  }): void {
    this.isLoaded = true;
    this.startOffset = found.startOffset;
    this.durableStart = found.startOffset;
    this.producers = found.producers;
    this.cutDone(found.ends, found.epochs);
    // D-7: a stored mark above what is durable here proves nothing.
    const known = mutant("D-7") ? found.highWatermark : Math.min(found.highWatermark, found.ends.durableEnd);
    this.highWatermark = Math.max(found.startOffset, known) as Offset;
    this.#settleProducers();
  }

  /** What the log holds after `truncate`. */
  cutDone(ends: LogEnds, epochs: readonly EpochStart[]): void {
    this.isCutting = false;
    this.endOffset = ends.endOffset;
    this.writtenEnd = ends.writtenEnd;
    this.durableEnd = ends.durableEnd;
    this.#truncations = ends.truncations;
    this.epochs.reset(epochs);
    this.epochs.raiseStart(this.startOffset);
    // A batch that the cut went through is gone whole.
    this.producers.truncate(ends.endOffset);
    if (this.highWatermark > ends.durableEnd) this.highWatermark = ends.durableEnd;
  }

  /** Empty, from `startOffset` on: all below is held to be committed by whoever has deleted it. */
  restartDone(ends: LogEnds, startOffset: Offset, producers: ProducerTable): void {
    this.startOffset = startOffset;
    this.durableStart = startOffset;
    this.producers = producers;
    this.highWatermark = startOffset;
    this.cutDone(ends, []);
  }

  get isEmpty(): boolean {
    return this.startOffset === this.endOffset;
  }

  /** S-31, I-20: only what is committed goes. False: it begins there, or above, already. */
  raiseStart(to: Offset): boolean {
    if (to <= this.startOffset) return false;
    assert(to <= this.highWatermark, `log start ${to} above the high watermark ${this.highWatermark}`);
    this.startOffset = to;
    this.epochs.raiseStart(to);
    return true;
  }

  startDurable(startOffset: Offset): void {
    if (startOffset > this.durableStart && startOffset <= this.startOffset) this.durableStart = startOffset;
  }

  /** False: what its producers were there is not known any more. */
  canCut(toOffset: Offset): boolean {
    return toOffset >= this.producers.floor || toOffset >= this.endOffset;
  }

  /** Nothing from `toOffset` on counts any more. */
  beginCut(toOffset: Offset): void {
    this.isCutting = true;
    if (toOffset < this.endOffset) this.endOffset = toOffset;
    if (toOffset < this.writtenEnd) this.writtenEnd = toOffset;
    if (toOffset < this.durableEnd) this.durableEnd = toOffset;
    if (toOffset < this.highWatermark) this.highWatermark = toOffset;
    this.epochs.cut(toOffset);
  }

  /** Fetched, and found to be next. */
  took(batches: readonly FetchedBatch<unknown>[]): void {
    const { producers } = this;
    for (const { baseOffset, epoch, lastOffset, sequenced } of batches) {
      this.epochs.open(epoch, baseOffset);
      for (const batch of sequenced) producers.observe(batch);
      this.endOffset = (lastOffset + 1) as Offset;
    }
    producers.advance(this.endOffset);
  }

  /** False: the completion is void. */
  written(endOffset: Offset, truncations: number): boolean {
    if (!this.#isCurrent(truncations)) return false;
    assert(endOffset <= this.endOffset, "written above what was accepted");
    if (endOffset > this.writtenEnd) this.writtenEnd = endOffset;
    return true;
  }

  /** False: the completion is void. */
  durable(endOffset: Offset, truncations: number): boolean {
    if (!this.written(endOffset, truncations)) return false;
    if (endOffset > this.durableEnd) this.durableEnd = endOffset;
    return true;
  }

  /** False: nothing was taken back. */
  refused(fromOffset: Offset, truncations: number, epochs: readonly EpochStart[] | undefined): boolean {
    if (!this.#isCurrent(truncations)) return false;
    assert(fromOffset >= this.writtenEnd, "refused what was written");
    if (fromOffset >= this.endOffset) return false;
    this.endOffset = fromOffset;
    this.producers.truncate(fromOffset);
    if (epochs === undefined) this.epochs.takeBack(fromOffset);
    else this.epochs.reset(epochs);
    this.epochs.raiseStart(this.startOffset);
    return true;
  }

  raiseHighWatermark(to: Offset): boolean {
    if (to <= this.highWatermark) return false;
    this.highWatermark = to;
    this.#settleProducers();
    return true;
  }

  checkInvariants(): void {
    const { startOffset, highWatermark, durableEnd, writtenEnd, endOffset } = this;
    const isSound =
      (this.isCutting ? this.producers.endOffset >= endOffset : this.producers.endOffset === endOffset) &&
      startOffset <= highWatermark &&
      highWatermark <= durableEnd &&
      durableEnd <= writtenEnd &&
      writtenEnd <= endOffset;
    // A message is made only where it is needed: this runs at every event.
    if (!isSound && !mutant("D-7"))
      throw new AssertionFailure(
        `log start ${startOffset} <= high watermark ${highWatermark} <= durable ${durableEnd} <= written ${writtenEnd} <= accepted ${endOffset} = producers ${this.producers.endOffset} does not hold`,
      );
  }

  /** D-9. */
  #settleProducers(): void {
    if (!mutant("D-9")) this.producers.settle(this.highWatermark);
  }

  #isCurrent(truncations: number): boolean {
    if (this.isCutting || truncations < this.#truncations) return false;
    this.#truncations = truncations;
    return true;
  }
}
