// What a power loss does to each operation that no sync had covered.
import type { Rng } from "../../base/rng.ts";
import type { NameOperation, ResizeOperation, WriteOperation } from "./undo-files.ts";

/** Asked once per operation: first all names, then file by file, each the oldest first. */
export interface Choices {
  /** A function: some sectors of the write reached the platter, by their number in the file. */
  ofWrite(operation: WriteOperation): "kept" | "dropped" | ((sector: number) => boolean);
  /** Whether the new length of a write that made the file longer reached the platter: apart from its bytes. */
  ofExtension(operation: WriteOperation): boolean;
  ofTruncate(operation: ResizeOperation): boolean;
  ofName(operation: NameOperation): boolean;
}

export const KEEP_ALL: Choices = {
  ofWrite: () => "kept",
  ofExtension: () => true,
  ofTruncate: () => true,
  ofName: () => true,
};

export const DROP_ALL: Choices = {
  ofWrite: () => "dropped",
  ofExtension: () => false,
  ofTruncate: () => false,
  ofName: () => false,
};

/** Pages of 4 KiB, in sectors. */
const SECTORS_PER_PAGE = 8;

/** Fates drawn per power loss, so that some keep nearly all and some nearly nothing. */
export function randomChoices(rng: Rng): Choices {
  const keep = rng.pick([0, 0.1, 0.5, 0.5, 0.9, 1]);
  const tear = rng.pick([0, 0.1, 0.5]);
  const unitSectors = rng.chance(0.5) ? SECTORS_PER_PAGE : 1;
  return {
    ofWrite() {
      if (rng.chance(tear)) return tearing(rng, unitSectors);
      return rng.chance(keep) ? "kept" : "dropped";
    },
    ofExtension: () => rng.chance(keep),
    ofTruncate: () => rng.chance(keep),
    ofName: () => rng.chance(keep),
  };
}

function tearing(rng: Rng, unitSectors: number): (sector: number) => boolean {
  let [unit, isKept] = [-1, false];
  return (sector) => {
    const next = Math.floor(sector / unitSectors);
    if (next !== unit) [unit, isKept] = [next, rng.chance(0.5)];
    return isKept;
  };
}

/** Counts what became of the operations that no sync had covered. */
export class Tally {
  kept = 0;
  dropped = 0;
  torn = 0;
  readonly problems: string[] = [];

  /** True: kept. */
  count(fate: "kept" | "dropped" | "torn"): boolean {
    this[fate]++;
    return fate === "kept";
  }
}
