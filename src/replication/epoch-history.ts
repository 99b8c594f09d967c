// The leader-epoch history of a log: which leader wrote which offsets. The only thing that decides truncation.
import type { LeaderEpoch, Offset } from "../model/ids.ts";
import type { Divergence, EpochStart } from "./types.ts";

/**
 * Shape:     (epoch, first offset), oldest first, both columns strictly increasing.
 * Example:   [(0, 0), (2, 5)] with the log's end at 8 says: offsets 0..4 were written in epoch 0, 5..7 in epoch 2, none in epoch 1.
 *              endOffsetFor(0, 8) -> (0, 5)     endOffsetFor(1, 8) -> (0, 5)     endOffsetFor(2, 8) -> (2, 8)     endOffsetFor(3, 8) -> undefined
 *              open(3, 8)         -> [(0, 0), (2, 5), (3, 8)]: back-to-back elections without data stay visible
 *              cut(8)             -> [(0, 0), (2, 5)]: an epoch without records goes although no record does
 */
export class EpochHistory {
  #entries: EpochStart[] = [];

  get entries(): readonly EpochStart[] {
    return this.#entries;
  }

  /** -1: none. */
  get oldest(): number {
    return this.#entries[0]?.epoch ?? -1;
  }
  /** -1: none. */
  get latest(): number {
    return this.#entries.at(-1)?.epoch ?? -1;
  }

  reset(entries: readonly EpochStart[]): void {
    this.#entries = entries.map(({ epoch, startOffset }) => ({ epoch, startOffset }));
  }

  /** the first offset of `epoch` is `startOffset`; what would start there or later, or be no older, held no record and goes. */
  open(epoch: LeaderEpoch, startOffset: Offset): void {
    const last = this.#entries.at(-1);
    if (last !== undefined && last.epoch === epoch && startOffset >= last.startOffset) return;
    this.#dropWhile((entry) => entry.epoch >= epoch || entry.startOffset >= startOffset);
    this.#entries.push({ epoch, startOffset });
  }

  /** the log ends at `end`, also where it did before. */
  cut(end: Offset): void {
    this.#dropWhile((entry) => entry.startOffset >= end);
  }

  /** S-31: the log begins at `start`: the epoch that holds it begins there. */
  raiseStart(start: Offset): void {
    let dropped: EpochStart | undefined;
    while ((this.#entries[0]?.startOffset ?? start) < start) dropped = this.#entries.shift();
    if (dropped === undefined || this.#entries[0]?.startOffset === start) return;
    this.#entries.unshift({ epoch: dropped.epoch, startOffset: start });
  }

  /** Appends from `end` on were taken back: only an epoch that was opened at `end` itself may have been there before. */
  takeBack(end: Offset): void {
    this.#dropWhile((entry) => entry.startOffset > end);
  }

  /** R-11, the largest epoch here at or below `epoch`, and where it ends. Undefined: an epoch that this history has not reached, or none (-1). */
  endOffsetFor(epoch: number, logEnd: Offset): Divergence | undefined {
    const entries = this.#entries;
    const first = entries[0];
    if (epoch < 0 || first === undefined || epoch > this.latest) return undefined;
    if (epoch < first.epoch) return { epoch, endOffset: first.startOffset };
    let place = entries.length - 1;
    while ((entries[place] as EpochStart).epoch > epoch) place--;
    const endOffset = entries[place + 1]?.startOffset ?? logEnd;
    return { epoch: (entries[place] as EpochStart).epoch, endOffset };
  }

  #dropWhile(goes: (entry: EpochStart) => boolean): void {
    for (let last = this.#entries.at(-1); last !== undefined && goes(last); last = this.#entries.at(-1))
      this.#entries.pop();
  }
}
