// The faults of the reliability benchmark: what strikes, and whom. Each is struck under acks 0, 1 and all at once, each level in a topic of its own whose
// leader is on the same node.
import type { Acks } from "../../client/types.ts";

export const ACKS_LEVELS = [0, 1, "all"] as const satisfies readonly Acks[];

/** Of the topics of a run: "leader" leads all of them. */
export type Victim = "leader" | "follower" | "all";

export interface ReliabilityFault {
  readonly id: string;
  /** As the table has it. */
  readonly says: string;
  /** Of those that `ottla chaos run` knows. */
  readonly kind: string;
  readonly victim: Victim;
}

export const RELIABILITY_FAULTS: readonly ReliabilityFault[] = [
  { id: "leader-killed", says: "leader killed (`kill -9`)", kind: "kill", victim: "leader" },
  { id: "all-killed", says: "all nodes killed", kind: "kill", victim: "all" },
  { id: "leader-power-loss", says: "leader's machine loses power", kind: "power-loss", victim: "leader" },
  { id: "all-power-loss", says: "all machines lose power", kind: "power-loss", victim: "all" },
  { id: "partition", says: "leader cut off from the other nodes", kind: "cut-peers", victim: "leader" },
  { id: "leader-paused", says: "leader paused (SIGSTOP)", kind: "pause", victim: "leader" },
  { id: "slow-follower", says: "a follower's disk is slow", kind: "slow-sync", victim: "follower" },
  { id: "disk-full", says: "leader's disk full", kind: "disk-full", victim: "leader" },
];

export function faultById(id: string): ReliabilityFault | undefined {
  return RELIABILITY_FAULTS.find((fault) => fault.id === id);
}
