// Things to do later. A timer never fires inside the call that set it.
export interface TimerHandle {
  /** Harmless after the timer fired. */
  cancel(): void;
}

export interface Timers {
  /** Runs the callback once, `delayMs` from now or later. Does not keep a process alive by itself. */
  after(delayMs: number, callback: () => void): TimerHandle;
  /** Runs the callback after everything that is ready now, I/O events included, has been handled. */
  defer(callback: () => void): void;
}
