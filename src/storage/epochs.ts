// The leader-epoch history of a log: oldest first, both columns strictly increasing.
import type { LeaderEpoch, Offset } from "../model/ids.ts";
import type { EpochEntry } from "./types.ts";

/** Opens `epoch` at `start`; an entry that would start there or later held no record and goes. */
export function openEpoch(epochs: EpochEntry[], epoch: number, start: number): void {
  truncateEpochs(epochs, start);
  epochs.push({ epoch: epoch as LeaderEpoch, startOffset: start as Offset });
}

/** Drops the epochs that start at or behind `end`: the log now ends there. */
export function truncateEpochs(epochs: EpochEntry[], end: number): void {
  while (epochs.length > 0 && (epochs.at(-1) as EpochEntry).startOffset >= end) epochs.pop();
}

/** The log now starts at `start`: the epoch that holds it starts there (S-31). */
export function raiseEpochsStart(epochs: EpochEntry[], start: number): void {
  let dropped: EpochEntry | undefined;
  while (epochs.length > 0 && (epochs[0] as EpochEntry).startOffset < start) dropped = epochs.shift();
  if (dropped === undefined || epochs[0]?.startOffset === start) return;
  epochs.unshift({ epoch: dropped.epoch, startOffset: start as Offset });
}

/** The epoch of the record before `end`; -1 when there is none. */
export function epochBefore(epochs: readonly EpochEntry[], end: number): number {
  let low = 0;
  let high = epochs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((epochs[middle] as EpochEntry).startOffset < end) low = middle + 1;
    else high = middle;
  }
  return epochs[low - 1]?.epoch ?? -1;
}

export const lastEpoch = (epochs: readonly EpochEntry[]): number => epochs.at(-1)?.epoch ?? -1;
