// Time, from the host.
import type { Clock } from "../ports/clock.ts";

export function createClock(): Clock {
  return { monoMs: () => performance.now(), wallMs: () => Date.now() };
}
