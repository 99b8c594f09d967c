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

interface Load extends Candidate {
  /** Of the new topic. */
  ownHeld: number;
  ownFirst: number;
  /** How often it is the second replica behind each first one: who leads in its place. */
  readonly second: Map<Load, number>;
}

/**
 * Entry i: the replicas of partition i; its first one is to lead. Each of: being a replica, being the first one, being the second one behind another,
 * is level within the topic; where that leaves a choice, over all topics. At least `replicationFactor` candidates; each replica costs their number.
 */
export function placement(
  candidates: readonly Candidate[],
  partitions: number,
  replicationFactor: number,
): readonly (readonly NodeId[])[] {
  const loads = candidates
    .map((candidate): Load => ({ ...candidate, ownHeld: 0, ownFirst: 0, second: new Map() }))
    .sort((left, right) => left.nodeId - right.nodeId);
  return Array.from({ length: partitions }, () => placed(loads, replicationFactor).map(({ nodeId }) => nodeId));
}

type Key = (load: Load) => number;
const rankOf: Key = ({ rank }) => rank;
const LEADER_KEYS: readonly Key[] = [rankOf, ({ ownFirst }) => ownFirst, ({ first }) => first, ({ held }) => held];
const FOLLOWER_KEYS: readonly Key[] = [rankOf, ({ ownHeld }) => ownHeld, ({ held }) => held];

function placed(loads: readonly Load[], replicationFactor: number): readonly Load[] {
  const leader = least(loads, LEADER_KEYS, []);
  // After the leader in a ring, so that equal ones take turns.
  const at = loads.indexOf(leader);
  const ring = [...loads.slice(at + 1), ...loads.slice(0, at)];
  const keys = [...FOLLOWER_KEYS, (load: Load) => load.second.get(leader) ?? 0];
  const followers: Load[] = [];
  while (followers.length < replicationFactor - 1) followers.push(least(ring, keys, followers));
  leader.ownFirst++;
  for (const load of [leader, ...followers]) load.ownHeld++;
  return [leader, ...withSecond(leader, followers)];
}

/** Of those who follow, the one that came second behind this leader least often does so now. */
function withSecond(leader: Load, followers: readonly Load[]): readonly Load[] {
  if (followers.length === 0) return followers;
  const second = least(followers, [rankOf, (load) => load.second.get(leader) ?? 0], []);
  second.second.set(leader, (second.second.get(leader) ?? 0) + 1);
  return [second, ...followers.filter((load) => load !== second)];
}

/** The first of the smallest by these keys, the earlier ones counting more, but for those taken. */
function least(loads: readonly Load[], keys: readonly Key[], taken: readonly Load[]): Load {
  let best: Load | undefined;
  for (const load of loads) {
    if (taken.includes(load)) continue;
    if (best === undefined || isLess(load, best, keys)) best = load;
  }
  if (best === undefined) throw new RangeError("fewer candidates than replicas");
  return best;
}

function isLess(left: Load, right: Load, keys: readonly Key[]): boolean {
  for (const key of keys) {
    const difference = key(left) - key(right);
    if (difference !== 0) return difference < 0;
  }
  return false;
}
