// Where the replicas of a new topic's partitions go: distinct brokers, level, their leaders spread, and those who follow them spread too.
import type { NodeId } from "../model/ids.ts";

export interface Candidate {
  readonly nodeId: NodeId;
  /** Partitions that it has a replica of already. */
  readonly held: number;
  /** Partitions of which it is the first replica, which is to lead. */
  readonly first: number;
  /** One of a higher rank is taken only where there are not enough below, and first only when there is none below. */
  readonly rank: number;
}

interface Load {
  readonly nodeId: NodeId;
  readonly rank: number;
  held: number;
  first: number;
  /** How often it is the second replica behind each first one: who leads in its place. */
  readonly second: Map<Load, number>;
}

/**
 * Entry i: the replicas of partition i; its first one is to lead. At least `replicationFactor` candidates. Costs the number of candidates
 * for each replica.
 */
export function placement(
  candidates: readonly Candidate[],
  partitions: number,
  replicationFactor: number,
): readonly (readonly NodeId[])[] {
  const loads = candidates
    .map(({ nodeId, held, first, rank }): Load => ({ nodeId, held, first, rank, second: new Map() }))
    .sort((left, right) => left.nodeId - right.nodeId);
  return Array.from({ length: partitions }, () => placed(loads, replicationFactor).map(({ nodeId }) => nodeId));
}

function placed(loads: readonly Load[], replicationFactor: number): readonly Load[] {
  const leader = least(loads, [({ rank }) => rank, ({ first }) => first, ({ held }) => held], []);
  const chosen = [leader];
  // After the leader in a ring, so that equal ones take turns.
  const at = loads.indexOf(leader);
  const ring = [...loads.slice(at + 1), ...loads.slice(0, at)];
  const seconds = ({ second }: Load) => second.get(leader) ?? 0;
  while (chosen.length < replicationFactor) {
    const keys = chosen.length === 1 ? [rankOf, heldOf, seconds] : [rankOf, heldOf];
    chosen.push(least(ring, keys, chosen));
  }
  leader.first++;
  for (const load of chosen) load.held++;
  return withSecond(leader, chosen.slice(1));
}

const rankOf = ({ rank }: Load): number => rank;
const heldOf = ({ held }: Load): number => held;

/** Of those who follow, the one that came second behind this leader least often does so now. */
function withSecond(leader: Load, followers: readonly Load[]): readonly Load[] {
  if (followers.length === 0) return [leader];
  const second = least(followers, [rankOf, (load) => load.second.get(leader) ?? 0], []);
  second.second.set(leader, (second.second.get(leader) ?? 0) + 1);
  return [leader, second, ...followers.filter((load) => load !== second)];
}

/** The first of the smallest by these keys, the earlier ones counting more, but for those taken. */
function least(loads: readonly Load[], keys: readonly ((load: Load) => number)[], taken: readonly Load[]): Load {
  let best: Load | undefined;
  for (const load of loads) {
    if (taken.includes(load)) continue;
    if (best === undefined || isLess(load, best, keys)) best = load;
  }
  if (best === undefined) throw new RangeError("fewer candidates than replicas");
  return best;
}

function isLess(left: Load, right: Load, keys: readonly ((load: Load) => number)[]): boolean {
  for (const key of keys) {
    const difference = key(left) - key(right);
    if (difference !== 0) return difference < 0;
  }
  return false;
}
