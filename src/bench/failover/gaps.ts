// The longest time without an acknowledgement.

export interface Gap {
  readonly gapMs: number;
  readonly beganMs: number;
}

/** `times` ascends. A pause that still goes on at `toMs` counts as far as it has come. */
export function longestGap(times: readonly number[], fromMs: number, toMs: number): Gap {
  let longest = { gapMs: 0, beganMs: fromMs };
  let beforeMs: number | undefined;
  for (const atMs of [...times.filter((time) => time <= toMs), toMs]) {
    const gapMs = atMs - (beforeMs ?? fromMs);
    if (atMs > fromMs && gapMs > longest.gapMs) longest = { gapMs, beganMs: beforeMs ?? fromMs };
    beforeMs = atMs;
  }
  return longest;
}
