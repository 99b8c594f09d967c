// Invariant 43: no queue and no byte budget exceeds its bound.
import type { HistoryEvent } from "./history.ts";
import type { Checker, Violation } from "./checker.ts";

export class BoundedChecker implements Checker {
  readonly invariant = 43;
  readonly name = "bounded";

  observe(event: HistoryEvent): Violation | undefined {
    if (event.type !== "budget" || event.value <= event.bound) return undefined;
    return {
      invariant: this.invariant,
      message: `${event.node}: ${event.budget} is at ${event.value}, its bound is ${event.bound}`,
    };
  }
}
