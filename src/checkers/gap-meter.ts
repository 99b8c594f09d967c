// The longest time without an acknowledgement, in a run and in parts of it.
import type { TallyWindow } from "./tally.ts";

export class GapMeter {
  longestMs = 0;
  readonly #windows: readonly TallyWindow[];
  readonly #longestIn = new Map<string, number>();
  #lastMs: number | undefined;

  constructor(windows: readonly TallyWindow[]) {
    this.#windows = windows;
  }

  /** From the first of these on an acknowledgement is waited for. */
  begin(timeMs: number): void {
    this.#lastMs ??= timeMs;
  }

  acknowledged(timeMs: number): void {
    if (this.#lastMs !== undefined) this.#take(this.#lastMs, timeMs);
    this.#lastMs = timeMs;
  }

  /** Nothing was sent after it. */
  end(timeMs: number): void {
    if (this.#lastMs !== undefined) this.#take(this.#lastMs, timeMs);
  }

  /** All of a gap that reaches into the window, also what lies outside. */
  longestIn(window: string): number {
    return this.#longestIn.get(window) ?? 0;
  }

  #take(fromMs: number, untilMs: number): void {
    const gapMs = untilMs - fromMs;
    this.longestMs = Math.max(this.longestMs, gapMs);
    for (const window of this.#windows)
      if (fromMs < window.untilMs && untilMs > window.fromMs)
        this.#longestIn.set(window.name, Math.max(this.longestIn(window.name), gapMs));
  }
}
