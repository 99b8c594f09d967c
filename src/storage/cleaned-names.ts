// Which `.cleaned` names of a log are in use: from the moment that one is written until it was given up, or until the checkpoint behind its swap.
// The one before still says that it is to be renamed, so nobody may make another of that name.

/** Bound: the segments of the log. */
export class CleanedNames {
  readonly #taken = new Set<number>();
  readonly #swapped = new Set<number>();
  #waiting: (() => void)[] = [];

  get areFree(): boolean {
    return this.#taken.size === 0;
  }

  isFree(base: number): boolean {
    return !this.#taken.has(base);
  }

  /** Resolves when the name is the caller's. */
  async take(base: number): Promise<void> {
    while (this.#taken.has(base)) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#taken.add(base);
  }

  /** There is no file of this name, nor does a checkpoint speak of one. */
  free(base: number): void {
    this.#taken.delete(base);
    this.#wake();
  }

  /** A checkpoint speaks of it until the next one counts. */
  onSwapped(base: number): void {
    this.#swapped.add(base);
  }

  /** A checkpoint counts that was begun after the last swaps. */
  onCheckpoint(): void {
    if (this.#swapped.size === 0) return;
    for (const base of this.#swapped) this.#taken.delete(base);
    this.#swapped.clear();
    this.#wake();
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
