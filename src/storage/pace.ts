// The pace of a loop that works in the background of a store: it rests, keeps to so many bytes a second, and ends soon when the store does.
import type { Timers } from "../ports/timers.ts";

/** What is owed for less is not waited for: a timer for each of a thousand small pieces costs more than their bytes. */
export const WAIT_MS_MIN = 10;

/** Thrown through the work under way. */
export class Stopped extends Error {}

export class Pace {
  readonly #timers: Timers;
  readonly #bytesPerSecond: number;
  #isStopped = false;
  #owedMs = 0;
  #wake: (() => void) | undefined;

  constructor(timers: Timers, bytesPerSecond: number) {
    this.#timers = timers;
    this.#bytesPerSecond = bytesPerSecond;
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Who sleeps wakes up. */
  stop(): void {
    this.#isStopped = true;
    this.#wake?.();
  }

  throwIfStopped(): void {
    if (this.#isStopped) throw new Stopped();
  }

  sleep(delayMs: number): Promise<void> {
    if (this.#isStopped) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = this.#timers.after(delayMs, () => this.#wake?.());
      this.#wake = () => {
        timer.cancel();
        this.#wake = undefined;
        resolve();
      };
    });
  }

  /** Others have their turn. Rejects with Stopped. */
  async breathe(): Promise<void> {
    await new Promise<void>((resolve) => this.#timers.defer(resolve));
    this.throwIfStopped();
  }

  /** Waits for what was read or written. Rejects with Stopped. */
  async spend(sizeBytes: number): Promise<void> {
    this.throwIfStopped();
    this.#owedMs += (sizeBytes * 1000) / this.#bytesPerSecond;
    if (this.#owedMs < WAIT_MS_MIN) return;
    const owedMs = this.#owedMs;
    this.#owedMs = 0;
    await this.sleep(owedMs);
    this.throwIfStopped();
  }
}
