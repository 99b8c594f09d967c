// Files that take the place of segments. A checkpoint decides it: what is handed in waits for one, the image names it, and only behind that
// superblock are the files renamed (S-41). A start ends the renames of the image that it finds, before it looks at any segment.
//
// Invariant: between the image that names a file and the one behind it nobody makes another `.cleaned` file of that name.
import { failpoint } from "../base/failpoint.ts";
import { mutant } from "../base/mutant.ts";
import type { Files } from "../ports/files.ts";
import { isNotFound, type RetryDeps, untilItPasses } from "./faults.ts";
import { unlinkIfThere } from "./file-work.ts";
import { CLEANED_SUFFIX, join, LOG_SUFFIX, offsetName, SIDECAR_SUFFIXES } from "./paths.ts";
import type { SegmentState } from "./segment.ts";
import type { Segments } from "./segments.ts";
import type { Damage } from "./types.ts";

/** One file for whole adjacent closed segments, with all their offsets. */
export interface Replacement {
  readonly fromBase: number;
  /** Exclusive; the end of a segment. */
  readonly endOffset: number;
  /** Of the new file. */
  readonly state: SegmentState;
  /** The damage of the log that this ends. */
  readonly repairs?: Damage | undefined;
}

interface Waiting extends Replacement {
  /** The last checkpoint that was begun names it. */
  isNamed: boolean;
  readonly settle: (isDone: boolean) => void;
}

export interface SwapDeps extends RetryDeps {
  readonly files: Files;
}

/** The replacements of one log that wait. Bound: the segments of the log, since they do not overlap. */
export class Replacements {
  readonly #segments: Segments;
  #waiting: Waiting[] = [];
  /** Resolves when no named replacement is left; for cuts. */
  #named: { readonly promise: Promise<void>; readonly done: () => void } | undefined;

  constructor(segments: Segments) {
    this.#segments = segments;
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  /** Ends when the files are renamed or it was given up. */
  add(replacement: Replacement): Promise<boolean> {
    return new Promise((settle) => {
      this.#waiting.push({ ...replacement, isNamed: false, settle });
    });
  }

  overlaps({ fromBase, endOffset }: Replacement): boolean {
    return this.#waiting.some((each) => each.fromBase < endOffset && fromBase < each.endOffset);
  }

  /** What an image says of these segments: all that wait are named in it. */
  name(layout: readonly SegmentState[]): SegmentState[] {
    if (this.#named === undefined && this.#waiting.length > 0) {
      let done: () => void = () => undefined;
      const promise = new Promise<void>((resolve) => {
        done = resolve;
      });
      this.#named = { promise, done };
    }
    for (const each of this.#waiting) each.isNamed = true;
    return layout.flatMap((state) => {
      const found = this.#waiting.find(({ fromBase, endOffset }) => state.base >= fromBase && state.base < endOffset);
      if (found === undefined) return [state];
      return state.base === found.fromBase ? [{ ...found.state, isSwapped: true }] : [];
    });
  }

  /** The damage that the checkpoint under way ends. */
  get repaired(): Damage | undefined {
    return this.#waiting.find(({ isNamed, repairs }) => isNamed && repairs !== undefined)?.repairs;
  }

  /** A cut to here has to wait for this; also one to the very end of what is replaced, which is written on there. */
  namedFor(cutTo: number): Promise<void> | undefined {
    return this.#waiting.some(({ isNamed, endOffset }) => isNamed && endOffset >= cutTo)
      ? this.#named?.promise
      : undefined;
  }

  /** Those that no checkpoint names are given up where the log is cut: what ended there is written on. */
  giveUpFor(cutTo: number): void {
    this.#settle(({ isNamed, endOffset }) => !isNamed && endOffset >= cutTo, false);
  }

  /** The log is gone, or nothing is written any more. */
  giveUpAll(): void {
    this.#settle(() => true, false);
    this.#release();
  }

  /** The checkpoint was put off before its superblock: nothing names them. */
  unname(): void {
    for (const each of this.#waiting) each.isNamed = false;
    this.#release();
  }

  #release(): void {
    this.#named?.done();
    this.#named = undefined;
  }

  #settle(isIt: (waiting: Waiting) => boolean, isDone: boolean): void {
    const settled = this.#waiting.filter(isIt);
    this.#waiting = this.#waiting.filter((each) => !settled.includes(each));
    for (const each of settled) each.settle(isDone);
  }

  /**
   * The superblock that names them is durable. True: files were renamed. Rejects with the disk's failure; what passes is tried again while the store
   * runs. Their order is no matter: the image tells which they are.
   */
  async commit(deps: SwapDeps, onSwapped: (replacement: Replacement) => void): Promise<boolean> {
    const named = this.#waiting.filter(({ isNamed }) => isNamed);
    for (const each of named) {
      if (!(await this.#swap(each, deps))) return true;
      onSwapped(each);
      this.#settle((waiting) => waiting === each, true);
    }
    this.#release();
    return named.length > 0;
  }

  /** False: something passing was in the way, and the store ends; the next start does it. */
  async #swap(replacement: Replacement, deps: SwapDeps): Promise<boolean> {
    const swap = async (): Promise<true> => {
      await this.#segments.swap(replacement, (path) => renameCleaned(deps.files, path));
      return true;
    };
    return (await untilItPasses(swap, deps)) === true;
  }
}

/** Gives the `.cleaned` files of a segment their names; those that have them already are passed over. `path` is without a suffix. */
async function renameCleaned(files: Files, path: string): Promise<void> {
  for (const suffix of [...SIDECAR_SUFFIXES, LOG_SUFFIX]) {
    failpoint("segment-renaming");
    try {
      await files.rename(path + suffix + CLEANED_SUFFIX, path + suffix);
    } catch (thrown) {
      if (!isNotFound(thrown)) throw thrown;
    }
  }
}

/** A start: the renames that the image decided. Its directory must be synced before the next image, also when all are done: perhaps only in memory. */
export async function endSwaps(
  files: Files,
  { directory, segments }: { readonly directory: string; readonly segments: readonly SegmentState[] },
): Promise<void> {
  if (mutant("S-41r")) return;
  for (const { base, isSwapped } of segments)
    if (isSwapped) await renameCleaned(files, join(directory, offsetName(base)));
}

export async function removeCleaned(files: Files, path: string): Promise<void> {
  for (const suffix of [LOG_SUFFIX, ...SIDECAR_SUFFIXES]) await unlinkIfThere(files, path + suffix + CLEANED_SUFFIX);
}

/** The files of a replacement that will not be: they go, and their names are free. What cannot be removed is, by the next start. */
export async function giveUpCleaned(files: Files, segments: Segments, base: number): Promise<void> {
  await removeCleaned(files, segments.pathOf(base)).catch(() => undefined);
  segments.cleanedNames.free(base);
}
