// The machine's monotonic clock: the same in all of its processes, so what they write down can be put in order.

/** Milliseconds with a fraction, since some moment of this boot. */
export function machineMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000 + nanoseconds / 1e6;
}
