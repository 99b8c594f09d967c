// One seed of the simulator of partition cores: a safety phase with all faults, then a phase in which all, or only a core, heals and must go on.
import { AssertionFailure } from "../../base/assert.ts";
import { createRng } from "../../base/rng.ts";
import { ReplicationBroken, type ReplicationViolation } from "./violation.ts";
import { liveness } from "./liveness.ts";
import { ReplicationNemesis } from "./nemesis.ts";
import { drawSwarm, type FaultKind, type ReplicationSwarm } from "./swarm.ts";
import { Workload } from "./workload.ts";
import { ReplicationWorld } from "./world.ts";

/** A seed with less committed before it heals has proved little. */
const COMMITTED_MIN = 50;

/** What a run of many seeds must have seen, or it has proved less than it says. */
export const NAMED_REPLICATION_STATES = [
  "producers carried",
  "producers expired",
  "producers outlived their batches",
  "records truncated",
  "epochs truncated",
  "divergence told",
  "late bytes",
  "old session refused",
  "append refused",
  "replica damaged",
  "replica refetched",
  "disk wiped",
  "old disk",
  "leaderless",
  "ELR in use",
  "elected from the ELR",
  "ISR grew",
  "ISR change proposed",
  "move of leadership proposed",
  "broker fenced",
  "stopped in order",
  "balanced",
  "crash at lead",
  "crash at truncate",
  "start: clean",
  "start: process-death",
  "start: power-loss",
  "unclean election: NONE",
  "unclean election lost something",
  "preferred election: NONE",
  "min ISR set",
  "answer NOT_ENOUGH_REPLICAS",
  "answer NOT_LEADER_OR_FOLLOWER",
  "answer REQUEST_TIMED_OUT",
  "duplicate answered",
  "duplicate waits",
  "answer OUT_OF_ORDER_SEQUENCE_NUMBER",
  "answer INVALID_PRODUCER_EPOCH",
  "answer UNKNOWN_PRODUCER_ID",
  "forged batch SEQUENCE_NUMBER_TAKEN",
  "first batch of a forgotten one",
  "log start raised",
  "log start followed",
  "log restarted",
  "restarted inside a batch",
  "gone everywhere",
  "producer epoch raised",
  "producer superseded",
  "producer fenced",
  "producers from an image",
  "all heal",
  "only a core heals",
] as const;

export interface ReplicationSeedResult {
  readonly seed: number;
  readonly swarm: ReplicationSwarm;
  readonly violation: ReplicationViolation | undefined;
  /** Why the seed does not count as proof; undefined when it does. */
  readonly notCounted: string | undefined;
  readonly events: number;
  readonly simulatedMs: number;
  /** Batches below some high watermark, and batches promised with acks=all. */
  readonly committed: number;
  readonly promised: number;
  readonly elections: number;
  readonly hash: string;
  readonly faults: ReadonlyMap<FaultKind, number>;
  readonly marks: ReadonlyMap<string, number>;
}

export interface ReplicationSeedOptions {
  readonly adjust?: (swarm: ReplicationSwarm) => ReplicationSwarm;
  readonly onTrace?: (line: string) => void;
}

export function runReplicationSeed(
  seed: number,
  { adjust = (swarm) => swarm, onTrace }: ReplicationSeedOptions = {},
): ReplicationSeedResult {
  const rng = createRng(seed).fork("run");
  const swarm = adjust(drawSwarm(rng.fork("swarm")));
  const world = new ReplicationWorld(seed, swarm);
  world.onTrace = onTrace;
  const nemesis = new ReplicationNemesis(world, rng.fork("nemesis"));
  let committed = 0;
  const violation = guarded(world, () => {
    for (const node of world.nodes) node.start();
    const workload = new Workload(world, rng.fork("workload"));
    world.runUntil(swarm.safetyMs);
    nemesis.stop();
    committed = world.checker.committedBatches;
    liveness(world, workload, rng.fork("liveness"));
  });
  const notCounted = committed < COMMITTED_MIN ? `only ${committed} batches were committed` : undefined;
  return {
    seed,
    swarm,
    violation,
    notCounted,
    events: world.events,
    simulatedMs: world.timeMs,
    committed: world.checker.committedBatches,
    promised: world.checker.promisedBatches,
    elections: world.checker.elections,
    hash: world.hash.value,
    faults: nemesis.faults,
    marks: world.marks,
  };
}

/** What breaks an invariant, in the checker or in the code's own assertions. */
export function guarded(world: ReplicationWorld, run: () => void): ReplicationViolation | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    if (error instanceof ReplicationBroken)
      return { invariant: error.invariant, message: `at ${world.timeMs.toFixed(3)} ms: ${error.message}` };
    if (error instanceof AssertionFailure)
      return { invariant: 0, message: `at ${world.timeMs.toFixed(3)} ms: assertion: ${error.message}` };
    throw error;
  }
}
