// Stop signals of a long-running command. npm forwards the terminal's Ctrl-C once more, so signals within 500 ms count as one.
import { closeSync, openSync } from "node:fs";
import { isatty } from "node:tty";
import { EXIT } from "../model/exit-codes.ts";

const SAME_SIGNAL_MS = 500;
const STOP_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
export type StopSignal = (typeof STOP_SIGNALS)[number];

export interface StopHandlers {
  /** Stop in order. */
  onFirst(signal: StopSignal): void;
  /** The person insists: stop at once. */
  onAgain(signal: StopSignal): void;
}

/** 128 and the signal's number, as a shell has it. */
export const exitCodeOfSignal = (signal: StopSignal): number => EXIT[signal];

/**
 * Ends this process at once by the signal itself. `process.exit` waits for file operations under way, which is for ever when a disk hangs.
 */
export function endBySignal(signal: StopSignal): void {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
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
  const terminals = [0, 1, 2].filter((fd) => isatty(fd));
  const listener = (signal: StopSignal) => {
    if (signal === "SIGHUP") leaveTerminals(terminals.splice(0));
    rule(signal, performance.now());
  };
  for (const signal of STOP_SIGNALS) process.on(signal, listener);
  return () => {
    for (const signal of STOP_SIGNALS) process.off(signal, listener);
  };
}

/**
 * After a hang-up: Node restores the settings of its terminals when it ends, and aborts when one is gone. It skips descriptors that
 * are another file by then.
 */
function leaveTerminals(descriptors: readonly number[]): void {
  for (const fd of descriptors) {
    closeSync(fd);
    // Takes the lowest free number, the one just closed.
    openSync("/dev/null", "r+");
  }
}
