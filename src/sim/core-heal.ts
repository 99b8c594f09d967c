// The second phase (45): some nodes that are enough to decide heal, as few as the seed likes; the rest stays broken for ever: dead, cut off,
// unable to be heard, or unable to hear.
import type { Rng } from "../base/rng.ts";
import { nodeIdOf } from "../raft/types.ts";
import type { SimCluster } from "./cluster.ts";
import type { SimNetwork } from "./network.ts";
import type { SimNode } from "./node.ts";

export type Fate = "down" | "cut" | "mute" | "deaf";

export interface Core {
  readonly nodes: readonly SimNode[];
  readonly rest: ReadonlyMap<SimNode, Fate>;
}

/** Undefined: too much is lost for any of them to decide anything. */
export function chooseCore(cluster: SimCluster, rng: Rng): Core | undefined {
  const isEnough = (nodes: readonly SimNode[]): boolean =>
    cluster.wouldLive((replica) => nodes.some(({ id }) => id === nodeIdOf(replica)));
  const usable = cluster.nodes.filter(({ isSpoilt }) => !isSpoilt);
  if (!isEnough(usable)) return undefined;
  let nodes: readonly SimNode[] = usable;
  for (const node of usable) {
    const fewer = nodes.filter((one) => one !== node);
    if (rng.chance(0.7) && fewer.length > 0 && isEnough(fewer)) nodes = fewer;
  }
  const rest = cluster.nodes.filter((node) => !nodes.includes(node));
  return { nodes, rest: new Map(rest.map((node) => [node, rng.pick<Fate>(["down", "cut", "mute", "deaf", "deaf"])])) };
}

/** Among the nodes of the core, and between them and clients, all is well. Clients reach the rest too: it must not mislead them. */
export function cutOffTheRest(network: SimNetwork, { nodes, rest }: Core): void {
  for (const [node, fate] of rest) {
    for (const other of nodes) {
      if (fate !== "deaf") network.cut(node.name, other.name);
      if (fate !== "mute") network.cut(other.name, node.name);
    }
  }
}
