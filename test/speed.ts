// How fast this machine computes now, for tests of what a second of computing is worth: shared and throttled ones are several times slower than others.
import { cpuUsage } from "node:process";

/** Of the work below, on an idle machine of the kind that limits were set on. */
const ORDINARY_MS = 40;
const ROUNDS = 20;
const KEYS = 20_000;

/** Milliseconds of the processor, its own and the kernel's. */
export function processorMs(work: () => void): number {
  const before = cpuUsage();
  work();
  const { user, system } = cpuUsage(before);
  return (user + system) / 1_000;
}

/** Objects, strings and a map, as in what it stands for. */
function ordinaryWork(): void {
  const map = new Map<string, { readonly round: number }>();
  for (let round = 0; round < ROUNDS; round++)
    for (let index = 0; index < KEYS; index++) map.set(`k${(index * 7919) % KEYS}`, { round });
}

/** How many times as long as on an ordinary machine computing takes here and now; 1 on a faster one. */
export function slowness(): number {
  return Math.max(1, Math.min(processorMs(ordinaryWork), processorMs(ordinaryWork)) / ORDINARY_MS);
}

/** Simulated seconds in a second of computing: the best of the given runs, as an ordinary machine would do it. */
export function simulatedPerSecond(
  simulatedMs: (seed: number) => number,
  firstSeeds: readonly number[],
  count: number,
): number {
  const speeds = firstSeeds.map((first) => {
    let sumMs = 0;
    const tookMs = processorMs(() => {
      for (let seed = first; seed < first + count; seed++) sumMs += simulatedMs(seed);
    });
    return (sumMs / tookMs) * slowness();
  });
  return Math.max(...speeds);
}
