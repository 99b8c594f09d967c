// The fault atlas (D-34): which loss the injected faults excuse. What it does not excuse is a violation.
//
//   acks=all   never, while one replica of those that the metadata counts on (ISR and ELR) is left with its disk: only when every one of them lost its
//              disk (D11) or is damaged (D5, D8; D-17), or when an operator had a replica lead that was not among them. From then on the partition is
//              void: nothing is said of it any more.
//   acks=1     as acks=all, and when somebody began or ceased to lead the partition after the send had begun: by a change of the leader, or because the
//              leader's process ended (D-36); also of one that leads in an old epoch and has not heard of it. Of a partition with one replica: only by a power loss or a failed sync of its node, for what was
//              written survives a killed process.
//   acks=0     at any time.
import type { Acks } from "../client/types.ts";
import {
  type FaultHappened,
  type HistoryEvent,
  type LeadershipChanged,
  type PartitionLost,
  type PartitionName,
  partitionName,
} from "./history.ts";

/** What HomeOf says of a partition with more than one replica: no node has that name. */
export const SEVERAL = "several";
/** The node of a partition with one replica, or SEVERAL; undefined when it is not known: then the faults of any node excuse. */
export type HomeOf = (partition: PartitionName) => string | undefined;

export class FaultAtlas {
  /** Losses that were found and excused, acks=0 not counted. */
  excused = 0;
  readonly #homeOf: HomeOf;
  readonly #lastLossMs = new Map<string, number>();
  readonly #lastLeadershipMs = new Map<PartitionName, number>();
  /** Led by two or more at once. */
  readonly #contested = new Set<PartitionName>();
  readonly #lost = new Set<PartitionName>();

  constructor(homeOf: HomeOf) {
    this.#homeOf = homeOf;
  }

  observe(event: FaultHappened | PartitionLost | LeadershipChanged): void {
    if (event.type === "partition lost") this.#lost.add(partitionName(event));
    else if (event.type === "leadership") this.#leadership(event);
    else if (event.fault !== "process death") this.#lastLossMs.set(event.node, event.timeMs);
  }

  /** Is it of a partition that nothing is said of any more? */
  isVoid(event: HistoryEvent): boolean {
    if (!("topic" in event && "partition" in event)) return false;
    const { topic, partition } = event;
    return topic !== undefined && partition !== undefined && this.#lost.has(partitionName({ topic, partition }));
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

  #leadership(event: LeadershipChanged): void {
    const name = partitionName(event);
    this.#lastLeadershipMs.set(name, event.timeMs);
    if (event.leaders > 1) this.#contested.add(name);
    else this.#contested.delete(name);
  }

  #lastLossOf(partition: PartitionName): number {
    const home = this.#homeOf(partition);
    if (home === SEVERAL && this.#contested.has(partition)) return Number.POSITIVE_INFINITY;
    if (home === SEVERAL) return this.#lastLeadershipMs.get(partition) ?? Number.NEGATIVE_INFINITY;
    if (home !== undefined) return this.#lastLossMs.get(home) ?? Number.NEGATIVE_INFINITY;
    return Math.max(Number.NEGATIVE_INFINITY, ...this.#lastLossMs.values());
  }
}
