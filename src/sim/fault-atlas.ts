// The fault atlas (D-34): which loss the injected faults excuse. What it does not excuse is a violation.
//
// One replica (this build): the disk loses and tears what no sync covered, never what one did.
//   acks=all   synced before it is acknowledged: never lost.
//   acks=1     written before it is acknowledged: survives a killed process; a power loss or a failed sync may take it (D-36).
//   acks=0     may be lost at any time.
import type { Acks } from "../client/types.ts";
import type { FaultHappened } from "./history.ts";

export class FaultAtlas {
  /** Losses that were found and excused, acks=0 not counted. */
  excused = 0;
  #lastDiskLossMs = Number.NEGATIVE_INFINITY;

  observe(fault: FaultHappened): void {
    if (fault.fault !== "process death") this.#lastDiskLossMs = fault.timeMs;
  }

  /**
   * May a record with this acknowledgement be gone now? `invokedMs` is when its send began: the fault may have come between the
   * broker's answer and the moment at which the client heard it.
   */
  excusesLoss(record: { readonly acks: Acks; readonly invokedMs: number }): boolean {
    switch (record.acks) {
      case "all":
        return false;
      case 1:
        if (this.#lastDiskLossMs < record.invokedMs) return false;
        this.excused++;
        return true;
      case 0:
        return true;
    }
  }
}
