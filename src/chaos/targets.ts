// Which nodes a fault strikes.
import type { Rng } from "../base/rng.ts";
import type { ChaosCluster } from "./cluster-types.ts";

export const TARGETS = ["leader", "follower", "controller", "one", "minority", "majority", "all"] as const;
export type TargetName = (typeof TARGETS)[number];

/** Whose leader "leader" means. */
export interface TargetPlace {
  readonly topic: string;
  readonly partition: number;
}

/** The most nodes that may be away while the rest is a majority. */
export const minorityOf = (nodes: number): number => Math.floor((nodes - 1) / 2);

/** Node ids; empty: there is no such node now. */
export async function resolveTarget(
  cluster: ChaosCluster,
  target: TargetName,
  at: { readonly place: TargetPlace; readonly rng: Rng },
): Promise<readonly number[]> {
  const all = cluster.nodes.map(({ nodeId }) => nodeId);
  const { topic, partition } = at.place;
  const few = minorityOf(all.length);
  switch (target) {
    case "leader":
      return listOf(await cluster.leaderOf(topic, partition));
    case "controller":
      return listOf(await cluster.controller());
    case "follower": {
      const leader = await cluster.leaderOf(topic, partition);
      return drawn(
        all.filter((nodeId) => nodeId !== leader),
        1,
        at.rng,
      );
    }
    case "one":
      return drawn(all, 1, at.rng);
    case "minority":
      return drawn(all, few, at.rng);
    case "majority":
      return drawn(all, few + 1, at.rng);
    case "all":
      return all;
  }
}

const listOf = (nodeId: number | undefined): readonly number[] => (nodeId === undefined ? [] : [nodeId]);

function drawn(nodeIds: readonly number[], count: number, rng: Rng): readonly number[] {
  const left = [...nodeIds];
  const taken: number[] = [];
  while (taken.length < count && left.length > 0) taken.push(...left.splice(rng.below(left.length), 1));
  return taken.sort((one, other) => one - other);
}
