// Timers, from the event loop.
import { clearTimeout, setImmediate, setTimeout } from "./host-time.ts";
import type { TimerHandle, Timers } from "../ports/timers.ts";

/** Node turns a longer delay into 1 ms. */
const DELAY_MS_MAX = 2 ** 31 - 1;

export function createTimers(): Timers {
  return {
    after(delayMs: number, callback: () => void): TimerHandle {
      const timer = setTimeout(callback, Math.min(Math.ceil(delayMs), DELAY_MS_MAX));
      timer.unref();
      return { cancel: () => clearTimeout(timer) };
    },
    defer(callback: () => void): void {
      setImmediate(callback);
    },
  };
}
