// Places between two durable steps at which a test brings the process to its end. `failpoint("journal-synced")` does nothing unless somebody has asked to be
// told of them; the published build has none (scripts/strip-mutants.ts), so nothing can be asked for there.
import type { FailpointName } from "./failpoint-names.ts";

let hook: ((name: FailpointName) => void) | null = null;

/** This process is between two durable steps. Costs one comparison when nobody asks. */
export function failpoint(name: FailpointName): void {
  hook?.(name);
}

/** From now on `reached` is called at each of them; null: nothing is. For tests, and for what breaks real processes. */
export function onFailpoint(reached: ((name: FailpointName) => void) | null): void {
  hook = reached;
}
