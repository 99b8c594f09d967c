// Invariant 42: after a failed sync the process stops within 100 ms; when the sync was of a journal, it acknowledges nothing more.
import type { FaultHappened, HistoryEvent } from "./history.ts";
import type { Checker, Violation } from "./checker.ts";

const STOP_WITHIN_MS = 100;
/** `shutdown.timeout.ms` of simulated nodes, and a little more. */
const GIVE_UP_WITHIN_MS = 5100;
/** An answer decided before the failure may still be waiting for its turn's end. */
const ANSWER_WITHIN_MS = 1;

export class FailStopChecker implements Checker {
  readonly invariant = 42;
  readonly name = "fail-stop";
  readonly #failed = new Map<string, FaultHappened>();
  readonly #pausedUntilMs = new Map<string, number>();

  observe(event: HistoryEvent): Violation | undefined {
    if (event.type === "paused") this.#pausedUntilMs.set(event.node, event.untilMs);
    if (event.type === "fault" && event.fault === "failed sync") {
      if (!this.#failed.has(event.node)) this.#failed.set(event.node, event);
      return undefined;
    }
    if (event.type === "stopped" || event.type === "fault") return this.#ended(event.node, event.timeMs);
    if (event.type === "acknowledged") {
      const failed = this.#failed.get(event.node);
      if (failed?.holdsPromises === true && event.timeMs - failed.timeMs > ANSWER_WITHIN_MS) {
        return {
          invariant: this.invariant,
          message: `${event.node} acknowledged a batch ${Math.round(event.timeMs - failed.timeMs)} ms after a failed sync`,
        };
      }
    }
    return this.#overdue(event.timeMs);
  }

  #ended(node: string, timeMs: number): Violation | undefined {
    const overdue = this.#overdue(timeMs);
    this.#failed.delete(node);
    return overdue;
  }

  #overdue(timeMs: number): Violation | undefined {
    for (const [node, failed] of this.#failed) {
      const sinceMs = Math.max(failed.timeMs, this.#pausedUntilMs.get(node) ?? 0);
      if (timeMs - sinceMs <= (failed.isServing === false ? GIVE_UP_WITHIN_MS : STOP_WITHIN_MS)) continue;
      this.#failed.delete(node);
      return {
        invariant: this.invariant,
        message: `${node} still runs ${Math.round(timeMs - failed.timeMs)} ms after a failed sync`,
      };
    }
    return undefined;
  }
}
