// An AbortSignal that tests can look into: who still listens.
export function createAbort() {
  const listeners = new Set<() => void>();
  const signal = {
    aborted: false,
    reason: undefined,
    addEventListener: (_type: "abort", listener: () => void) => void listeners.add(listener),
    removeEventListener: (_type: "abort", listener: () => void) => void listeners.delete(listener),
  };
  const abort = () => {
    signal.aborted = true;
    for (const listener of [...listeners]) listener();
  };
  return { signal: signal as unknown as AbortSignal, abort, listeners };
}
