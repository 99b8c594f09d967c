// Stop signals of a long-running command. npm forwards the terminal's Ctrl-C once more, so signals within 500 ms count as one.

const SAME_SIGNAL_MS = 500;
const STOP_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
export type StopSignal = (typeof STOP_SIGNALS)[number];

export interface StopHandlers {
  /** Stop in order. */
  onFirst(signal: StopSignal): void;
  /** The person insists: stop at once. */
  onAgain(signal: StopSignal): void;
}

/** The rule by itself, for tests: feed it signals and the time. */
export function createSignalRule(handlers: StopHandlers): (signal: StopSignal, nowMs: number) => void {
  let firstMs: number | undefined;
  return (signal, nowMs) => {
    if (firstMs === undefined) {
      firstMs = nowMs;
      handlers.onFirst(signal);
    } else if (nowMs - firstMs >= SAME_SIGNAL_MS) handlers.onAgain(signal);
  };
}

/** Listens until the returned function is called. */
export function onStopSignals(handlers: StopHandlers): () => void {
  const rule = createSignalRule(handlers);
  const listener = (signal: StopSignal) => rule(signal, performance.now());
  for (const signal of STOP_SIGNALS) process.on(signal, listener);
  return () => {
    for (const signal of STOP_SIGNALS) process.off(signal, listener);
  };
}
