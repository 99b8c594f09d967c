// Time, from the host.
import type { Clock } from "../ports/clock.ts";
import { monoMs } from "./host-time.ts";

export function createClock(): Clock {
  return { monoMs, wallMs: () => Date.now() };
}
