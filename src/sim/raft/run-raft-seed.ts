// One seed of the Raft simulator: a safety phase with all faults, then a phase in which only a core heals and must make progress.
import { AssertionFailure } from "../../base/assert.ts";
import { createRng, type Rng } from "../../base/rng.ts";
import { majorityOf } from "../../raft/quorum.ts";
import { nodeIdOf, type ReplicaId } from "../../raft/types.ts";
import { RaftBroken, type RaftViolation } from "./checker.ts";
import { RaftNemesis } from "./nemesis.ts";
import type { RaftReplica } from "./replica.ts";
import { drawSwarm, type FaultKind, type RaftSwarm } from "./swarm.ts";
import { RaftWorld } from "./world.ts";

/** A seed with less committed before the core heals has proved little. */
const COMMITTED_MIN = 100;
const SETTLE_MS = 8000;
const STEADY_MS = 5000;

/** What a run of many seeds must have seen, or it has proved less than it says. */
export const NAMED_RAFT_STATES = [
  "leader elected",
  "suffix cut",
  "snapshot durable",
  "log replaced by a snapshot",
  "read answered",
  "addLearner accepted",
  "promote accepted",
  "remove accepted",
  "remove busy",
  "transfer started",
  "disk wiped",
  "crash at vote",
  "crash at lead",
  "crash at install",
  "only a core heals",
  "left deaf",
  "left mute",
] as const;

export interface RaftSeedResult {
  readonly seed: number;
  readonly swarm: RaftSwarm;
  readonly violation: RaftViolation | undefined;
  /** Why the seed does not count as proof; undefined when it does. */
  readonly notCounted: string | undefined;
  readonly events: number;
  readonly simulatedMs: number;
  readonly committed: number;
  readonly elections: number;
  readonly hash: string;
  readonly faults: ReadonlyMap<FaultKind, number>;
  readonly marks: ReadonlyMap<string, number>;
}

export interface RaftSeedOptions {
  readonly adjust?: (swarm: RaftSwarm) => RaftSwarm;
  readonly onTrace?: (line: string) => void;
}

export function runRaftSeed(
  seed: number,
  { adjust = (swarm) => swarm, onTrace }: RaftSeedOptions = {},
): RaftSeedResult {
  const rng = createRng(seed).fork("run");
  const swarm = adjust(drawSwarm(rng.fork("swarm")));
  const world = new RaftWorld(seed, swarm);
  world.onTrace = onTrace;
  const nemesis = new RaftNemesis(world, rng.fork("nemesis"));
  const violation = guarded(world, () => {
    for (const replica of world.replicas.values()) replica.start();
    startWorkload(world, rng.fork("workload"));
    world.runUntil(swarm.safetyMs);
    nemesis.stop();
    liveness(world, rng.fork("liveness"));
  });
  const committed = world.checker.committedEnd;
  const notCounted = committed < COMMITTED_MIN ? `only ${committed} entries were committed` : undefined;
  return {
    seed,
    swarm,
    violation,
    notCounted,
    events: world.events,
    simulatedMs: world.timeMs,
    committed,
    elections: world.checker.elections,
    hash: world.hash.value,
    faults: nemesis.faults,
    marks: world.marks,
  };
}

/** What breaks an invariant, in the checker or in the core's own assertions (37: it is Raft that is broken). */
export function guarded(world: RaftWorld, run: () => void): RaftViolation | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    if (error instanceof RaftBroken)
      return { invariant: error.invariant, message: `at ${world.timeMs.toFixed(3)} ms: ${error.message}` };
    if (error instanceof AssertionFailure)
      return { invariant: 37, message: `at ${world.timeMs.toFixed(3)} ms: assertion: ${error.message}` };
    throw error;
  }
}

const alive = (world: RaftWorld): RaftReplica[] => [...world.replicas.values()].filter(({ isUp }) => isUp);

/** Proposals to whoever believes to lead, stale leaders too, and reads likewise. */
function startWorkload(world: RaftWorld, rng: Rng): void {
  const again = (): void => world.at(world.exponential(rng, world.swarm.proposalMeanMs), run);
  let number = 0;
  const run = (): void => {
    const leaders = alive(world).filter(({ core }) => core?.role === "leader");
    if (leaders.length > 0) {
      const leader = rng.pick(leaders);
      const bytes = new Uint8Array(4 + rng.below(40));
      new DataView(bytes.buffer).setUint32(0, ++number);
      leader.input((core) => core.propose({ bytes }));
      if (rng.chance(0.3)) rng.pick(leaders).read();
    }
    again();
  };
  again();
}

// --- liveness (45)

function liveness(world: RaftWorld, rng: Rng): void {
  world.isCalm = true;
  const core = chooseCore(world, rng);
  if (core === undefined) {
    world.mark("no core left");
    return;
  }
  world.mark(core.length < world.replicas.size ? "only a core heals" : "all heal");
  breakTheRest(world, rng, core);
  for (const replica of core) {
    replica.syncFactor = 1;
    replica.pausedUntilMs = 0;
    replica.repairDisk();
    if (!replica.isUp) replica.start();
  }
  world.runUntil(world.timeMs + SETTLE_MS);
  const before = stateOf(world, core);
  world.runUntil(world.timeMs + STEADY_MS);
  const after = stateOf(world, core);
  const names = core.map(({ id }) => id).join(" ");
  if (before.leader === undefined) throw new RaftBroken(45, `the healed ${names} have no leader after ${SETTLE_MS} ms`);
  if (before.leader !== after.leader || before.term !== after.term)
    throw new RaftBroken(
      45,
      `the healed ${names} do not keep their leader: ${before.leader} in term ${before.term}, then ${after.leader} in term ${after.term}`,
    );
  for (const replica of core)
    if (isMember(world, replica.id) && replica.appliedEnd < before.committed)
      throw new RaftBroken(45, `${replica.id} applied ${replica.appliedEnd} of ${before.committed}`);
  if (after.committed <= before.committed) throw new RaftBroken(45, `the healed ${names} commit nothing`);
}

function stateOf(
  world: RaftWorld,
  core: readonly RaftReplica[],
): { readonly leader: ReplicaId | undefined; readonly term: number; readonly committed: number } {
  const leaders = core.filter(({ core: node }) => node?.role === "leader");
  const leader = leaders.toSorted((left, right) => (right.core?.term ?? 0) - (left.core?.term ?? 0))[0];
  return { leader: leader?.id, term: leader?.core?.term ?? 0, committed: world.checker.committedEnd };
}

function isMember(world: RaftWorld, id: ReplicaId): boolean {
  const configuration = world.checker.configuration;
  return configuration !== undefined && [...configuration.voters, ...configuration.learners].includes(id);
}

/** Some nodes that are a majority by every configuration that any disk holds; as few as the seed likes. */
function chooseCore(world: RaftWorld, rng: Rng): RaftReplica[] | undefined {
  const usable = [...world.replicas.values()].filter(({ isWiped }) => !isWiped);
  const configurations = usable.flatMap((replica) => votersOnDisk(replica));
  const isEnough = (core: readonly RaftReplica[]): boolean =>
    configurations.every(
      (voters) => voters.filter((id) => core.some((one) => one.id === id)).length >= majorityOf(voters.length),
    );
  if (!isEnough(usable)) return undefined;
  let core = usable;
  for (const replica of usable) {
    const fewer = core.filter((one) => one !== replica);
    if (rng.chance(0.7) && isEnough(fewer)) core = fewer;
  }
  return core;
}

function votersOnDisk({ core, disk }: RaftReplica): (readonly ReplicaId[])[] {
  const found = disk.entries.flatMap((entry) => (entry.kind === "configuration" ? [entry.configuration.voters] : []));
  const last = found.at(-1) ?? disk.snapshot?.meta.configuration.voters;
  return [last ?? [], core?.configuration.voters ?? []].filter((voters) => voters.length > 0);
}

/** For ever: down, cut off, able to send only, or able to hear only. */
function breakTheRest(world: RaftWorld, rng: Rng, core: readonly RaftReplica[]): void {
  world.heal();
  const inside = core.map(({ id }) => nodeIdOf(id));
  for (const replica of world.replicas.values()) {
    const node = nodeIdOf(replica.id);
    if (replica.isWiped || inside.includes(node)) continue;
    replica.pausedUntilMs = 0;
    const fate = rng.pick(["down", "cut", "mute", "deaf", "deaf"] as const);
    world.mark(`left ${fate}`);
    if (fate === "down") replica.crash();
    else if (!replica.isUp) replica.start();
    for (const other of inside) {
      if (fate !== "deaf") world.cut(node, other);
      if (fate !== "mute") world.cut(other, node);
    }
  }
}
