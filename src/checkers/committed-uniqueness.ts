// Invariant 2: an offset that was once read with a value is never read with another one.
import { type HistoryEvent, type PartitionName, partitionName } from "./history.ts";
import type { Checker, Violation } from "./checker.ts";

export class CommittedUniquenessChecker implements Checker {
  readonly invariant = 2;
  readonly name = "committed uniqueness";
  readonly #seen = new Map<PartitionName, Map<number, string>>();

  observe(event: HistoryEvent): Violation | undefined {
    if (event.type !== "read") return undefined;
    const name = partitionName(event);
    let seen = this.#seen.get(name);
    if (seen === undefined) {
      seen = new Map();
      this.#seen.set(name, seen);
    }
    const before = seen.get(event.offset);
    if (before === undefined) seen.set(event.offset, event.value);
    else if (before !== event.value) {
      return {
        invariant: this.invariant,
        message: `${name} offset ${event.offset} was read as ${before}, now as ${event.value}`,
      };
    }
    return undefined;
  }
}
