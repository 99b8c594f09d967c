// One seed of the simulator of partition cores: a safety phase with all faults, then a phase in which all, or only a core, heals and must go on.
import { AssertionFailure } from "../../base/assert.ts";
import { createRng, type Rng } from "../../base/rng.ts";
import { SimBatch } from "./batch.ts";
import { ReplicationBroken, type ReplicationViolation } from "./checker.ts";
import { liveness } from "./liveness.ts";
import { ReplicationNemesis } from "./nemesis.ts";
import type { SimReplica } from "./replica.ts";
import { drawSwarm, type FaultKind, type ReplicationSwarm } from "./swarm.ts";
import { ReplicationWorld } from "./world.ts";

/** A seed with less committed before it heals has proved little. */
const COMMITTED_MIN = 50;

/** What a run of many seeds must have seen, or it has proved less than it says. */
export const NAMED_REPLICATION_STATES = [
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
    startWorkload(world, rng.fork("workload"));
    world.runUntil(swarm.safetyMs);
    nemesis.stop();
    committed = world.checker.committedBatches;
    liveness(world, rng.fork("liveness"));
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

/** Producers and readers, at whoever believes to lead: mostly at the one that does. */
function startWorkload(world: ReplicationWorld, rng: Rng): void {
  const { swarm } = world;
  const run = (): void => {
    world.at(world.exponential(rng, swarm.produceMeanMs), run);
    if (world.isQuiet) return;
    const replica = pickLeader(world, rng, rng.below(swarm.partitions));
    if (replica === undefined) return;
    replica.listLatest();
    const acks = rng.chance(swarm.acksOneChance) ? (rng.chance(0.1) ? 0 : 1) : -1;
    const batch = new SimBatch(world.nextBatch(), { recordCount: rng.between(1, 4), acks });
    replica.node.whenRunning(() => replica.produce(batch));
  };
  run();
}

function pickLeader(world: ReplicationWorld, rng: Rng, partition: number): SimReplica | undefined {
  const leader = world.controller.partitions[partition]?.leader ?? null;
  const isZombieWanted = rng.chance(swarmChance(world));
  const believers: SimReplica[] = [];
  for (const node of world.nodes) {
    const replica = node.replica(partition);
    if (replica?.core.role !== "leader") continue;
    if (node.nodeId === leader && !isZombieWanted) return replica;
    believers.push(replica);
  }
  return believers.length === 0 ? undefined : rng.pick(believers);
}

const swarmChance = (world: ReplicationWorld): number => (world.isCalm ? 0 : world.swarm.zombieChance);
