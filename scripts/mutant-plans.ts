// The planted bugs that random seeds must catch; those of rules (D-2, D-11, D-13, D-14) have directed schedules in test/storage.
import { NO_OPERATOR, type SwarmConfig } from "../src/sim/swarm.ts";

export interface MutantPlan {
  readonly id: string;
  readonly about: string;
  /** Any of these must be the first to fire. */
  readonly invariants: readonly number[];
  /** Seeds to try before it counts as not caught. */
  readonly budget: number;
  readonly knownSeed: number;
}

export const MUTANTS: readonly MutantPlan[] = [
  { id: "M1", about: "acks=all answered when only written", invariants: [1, 16], budget: 500, knownSeed: 7002 },
  { id: "M2", about: "reported durable before its sync", invariants: [1, 2, 16], budget: 500, knownSeed: 7001 },
  {
    id: "M19c",
    about: "journal dropped before images and superblock are durable",
    invariants: [1, 2, 16],
    budget: 500,
    knownSeed: 7002,
  },
  {
    id: "M20",
    about: "a failed sync is tried again and the process goes on",
    invariants: [16, 42],
    budget: 500,
    knownSeed: 7000,
  },
];

/** Seeds tried from the known one on: a change of the code moves what a seed does. */
export const KNOWN_BUDGET = 25;

/** What the stored seeds run as: one node that loses its power about once a second, so that each takes a second. Fresh seeds run as they are drawn. */
export function knownScene(swarm: SwarmConfig): SwarmConfig {
  const quiet = { controllerDeathMs: 0, correlatedLossMs: 0, rotMs: 0, wipeMs: 0, oldDiskMs: 0 };
  const failedSyncMs = swarm.faults.failedSyncMs === 0 ? 3000 : swarm.faults.failedSyncMs;
  return {
    ...swarm,
    cluster: { voters: 1, observers: 0 },
    operator: NO_OPERATOR,
    replicasMax: 1,
    faults: { ...swarm.faults, ...quiet, powerLossMs: 1000, failedSyncMs },
    clients: swarm.clients.map((client) => ({ ...client, acks: ["all"] as const })),
  };
}
