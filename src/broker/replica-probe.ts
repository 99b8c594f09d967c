// What tests and the simulator may watch of a broker's replicas. Production gives none; a probe looks and never acts.
import type { PartitionEffect, PartitionEvent } from "../replication/types.ts";
import type { ProduceEntry, Replica } from "./replica.ts";

/** Each call comes in the turn in which the thing happens. */
export interface ReplicaProbe {
  /** The log of a replica was found on the disk, made, or made anew; its core has had no event yet. */
  onOpened(replica: Replica): void;
  /** The core took `event` and asks for `effects`; none of them is carried out yet. */
  onStepped(
    replica: Replica,
    event: PartitionEvent<ProduceEntry>,
    effects: readonly PartitionEffect<ProduceEntry>[],
  ): void;
  /** Its log was found to be damaged, perhaps while the core had no role and hears nothing of it. */
  onDamaged(replica: Replica): void;
  /** One whole batch with its final offsets and epoch is handed to the log, whether it came from a producer or from the leader. */
  onAppended(replica: Replica, batch: Uint8Array): void;
  /** The replica is not hosted here any more, or its log is dropped. */
  onClosed(replica: Replica): void;
}
