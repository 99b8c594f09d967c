// The fault atlas (D-34): which loss the injected faults excuse. What it does not excuse is a violation.
//
// One replica (this build), of which the faults of its own node count alone: the disk loses and tears what no sync covered, never what one did.
//   acks=all   synced before it is acknowledged: never lost.
//   acks=1     written before it is acknowledged: survives a killed process; a power loss or a failed sync may take it (D-36).
//   acks=0     may be lost at any time.
// A partition whose node lost its disk (D11) or had bits of its metadata log turned over (D5) is lost whole: nothing is said of it
// any more.
import type { Acks } from "../client/types.ts";
import { type DiskLost, type FaultHappened, type HistoryEvent, type PartitionName, partitionName } from "./history.ts";

/** Name of the node that has the partition's only replica; undefined when it is not known: then the faults of any node excuse. */
export type HomeOf = (partition: PartitionName) => string | undefined;

export class FaultAtlas {
  /** Losses that were found and excused, acks=0 not counted. */
  excused = 0;
  readonly #homeOf: HomeOf;
  readonly #lastLossMs = new Map<string, number>();
  readonly #lost = new Set<PartitionName>();

  constructor(homeOf: HomeOf) {
    this.#homeOf = homeOf;
  }

  observe(fault: FaultHappened | DiskLost): void {
    if (fault.type === "disk lost") for (const name of fault.partitions) this.#lost.add(name);
    else if (fault.fault !== "process death") this.#lastLossMs.set(fault.node, fault.timeMs);
  }

  /** Is it of a partition that nothing is said of any more? */
  isVoid(event: HistoryEvent): boolean {
    return "topic" in event && "partition" in event && this.#lost.has(partitionName(event));
  }

  /**
   * May a record with this acknowledgement be gone now? `invokedMs` is when its send began: the fault may have come between the
   * broker's answer and the moment at which the client heard it.
   */
  excusesLoss(record: { readonly acks: Acks; readonly invokedMs: number; readonly partition: PartitionName }): boolean {
    switch (record.acks) {
      case "all":
        return false;
      case 1:
        if (this.#lastLossOf(record.partition) < record.invokedMs) return false;
        this.excused++;
        return true;
      case 0:
        return true;
    }
  }

  #lastLossOf(partition: PartitionName): number {
    const home = this.#homeOf(partition);
    if (home !== undefined) return this.#lastLossMs.get(home) ?? Number.NEGATIVE_INFINITY;
    return Math.max(Number.NEGATIVE_INFINITY, ...this.#lastLossMs.values());
  }
}
