// Cuts in the network, in silence: of a node from everybody, from the other nodes only, or in one direction.
import type { ChaosCluster, NodeNetwork } from "../cluster-types.ts";
import { allOf, listed } from "./parts.ts";
import type { FaultKind } from "./types.ts";

interface CutShape {
  readonly name: string;
  readonly says: string;
  readonly cut: (target: NodeNetwork, peers: readonly NodeNetwork[]) => Promise<void>;
  /** Whose count must rise: what they send is dropped. */
  readonly droppers: (target: NodeNetwork, peers: readonly NodeNetwork[]) => readonly NodeNetwork[];
}

const ipsOf = (networks: readonly NodeNetwork[]): string[] => networks.map(({ ip }) => ip);

const SHAPES: readonly CutShape[] = [
  {
    name: "cut",
    says: "cut off from everybody, clients too, in silence",
    cut: async (target) => target.isolate(),
    droppers: (target) => [target],
  },
  {
    name: "cut-peers",
    says: "cut off from the other nodes in silence; clients still reach it",
    cut: async (target, peers) => {
      await target.dropTo(ipsOf(peers));
      for (const peer of peers) await peer.dropTo([target.ip]);
    },
    droppers: (target) => [target],
  },
  {
    name: "cut-out",
    says: "what it sends to other nodes goes nowhere; it hears them (one way)",
    cut: async (target, peers) => target.dropTo(ipsOf(peers)),
    droppers: (target) => [target],
  },
  {
    name: "cut-in",
    says: "what other nodes send to it goes nowhere; they hear it (one way)",
    cut: async (target, peers) => {
      for (const peer of peers) await peer.dropTo([target.ip]);
    },
    droppers: (_target, peers) => peers,
  },
];

function networkOf(cluster: ChaosCluster, nodeId: number): NodeNetwork {
  const { network } = cluster.node(nodeId);
  if (network === undefined) throw new Error(`node ${nodeId} is in no network of its own`);
  return network;
}

async function droppedBy(networks: readonly NodeNetwork[]): Promise<number> {
  let frames = 0;
  for (const network of networks) frames += (await network.dropped()) ?? 0;
  return frames;
}

function kindOf({ name, says, cut, droppers }: CutShape): FaultKind {
  return {
    name,
    says,
    needs: ["network namespaces"],
    cluster: { place: "namespaces" },
    tolerates: "writes",
    inject: async (cluster, target) => {
      const peerIds = cluster.nodes.map(({ nodeId }) => nodeId).filter((nodeId) => !target.includes(nodeId));
      const peers = peerIds.map((nodeId) => networkOf(cluster, nodeId));
      const struck = await Promise.all(
        target.map(async (nodeId) => {
          const network = networkOf(cluster, nodeId);
          const counted = droppers(network, peers);
          return { nodeId, network, counted, before: await droppedBy(counted) };
        }),
      );
      for (const { network } of struck) await cut(network, peers);
      return {
        description: `${listed(target)}: ${says}`,
        observed: async () => {
          const evidence = struck.map(async ({ nodeId, counted, before }) => {
            const frames = (await droppedBy(counted)) - before;
            return frames > 0 ? `${frames} frames from or for node ${nodeId} went nowhere` : undefined;
          });
          return allOf(await Promise.all(evidence));
        },
        heal: async () => {
          for (const network of [...struck.map((each) => each.network), ...peers]) await network.heal();
        },
      };
    },
  };
}

export const NETWORK_KINDS: readonly FaultKind[] = SHAPES.map(kindOf);
