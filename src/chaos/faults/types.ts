// What a fault is to the harness: it is injected into nodes, shows that it really struck, and is healed.
import type { Rng } from "../../base/rng.ts";
import type { HistoryEvent } from "../../checkers/history.ts";
import type { CapabilityName } from "../capabilities.ts";
import type { ChaosCluster, ClusterPlace } from "../cluster-types.ts";

export type { CapabilityName } from "../capabilities.ts";

/** Is told what excuses loss: process death, power loss, partition lost. */
export type Historian = (event: HistoryEvent) => void;

export interface FaultKind {
  /** As plans name it: `kill`, `cut-one-way`. */
  readonly name: string;
  /** One line for people. */
  readonly says: string;
  readonly needs: readonly CapabilityName[];
  /** What kind of cluster it strikes; cells of the same kind share one. */
  readonly cluster?: ClusterNeeds;
  /** What has to go on while it strikes a minority of the nodes. */
  readonly tolerates: "writes" | "reads" | "nothing";
  /** How many of the targets are away at a time; default: all. */
  readonly atOnce?: number;
  inject(cluster: ChaosCluster, target: readonly number[], rng: Rng, history: Historian): Promise<ActiveFault>;
}

export interface ClusterNeeds {
  readonly place?: ClusterPlace;
  readonly shim?: boolean;
  readonly mounts?: "tmpfs" | "loop";
  /** Bytes of each mount. */
  readonly mountBytes?: number;
  /** Configuration keys of every node, over those of the plan. */
  readonly settings?: Readonly<Record<string, string | number>>;
}

export interface ActiveFault {
  readonly description: string;
  /** The evidence that it really struck, from logs, /proc or counters; undefined: there is none (yet). Asked before and after heal(). */
  observed(): Promise<string | undefined>;
  /** Ends it; nodes that it brought down are started again. */
  heal(): Promise<void>;
}
