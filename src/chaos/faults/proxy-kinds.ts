// What a TCP proxy in front of a node does to the bytes of all its connections: those of clients, of other nodes, and its own answers.
import type { Rng } from "../../base/rng.ts";
import type { ChaosCluster, NodeProxy, ProxyFault } from "../cluster-types.ts";
import { allOf, listed } from "./parts.ts";
import type { ProxyCount } from "./proxy-counts.ts";
import type { FaultKind } from "./types.ts";

interface ProxyShape {
  readonly name: string;
  readonly says: string;
  readonly draw: (rng: Rng) => ProxyFault;
  readonly counted: ProxyCount;
  /** Fewer of these show nothing. */
  readonly least: number;
}

const SHAPES: readonly ProxyShape[] = [
  {
    name: "delay",
    says: "every byte of its connections 20 to 200 ms late",
    draw: (rng) => ({ kind: "delay", delayMs: rng.between(20, 200), direction: "both" }),
    counted: "delayed",
    least: 10,
  },
  {
    name: "stall",
    says: "its connections stay open, and nothing passes",
    draw: () => ({ kind: "stall", direction: "both" }),
    counted: "stalled",
    least: 1,
  },
  {
    name: "stall-out",
    says: "its connections stay open; what it sends stays on its way (one way)",
    draw: () => ({ kind: "stall", direction: "from node" }),
    counted: "stalled",
    least: 1,
  },
  {
    name: "chunk",
    says: "its bytes in pieces of 1 to 200",
    draw: (rng) => ({ kind: "chunk", bytesMax: rng.between(1, 200), direction: "both" }),
    counted: "chunks",
    least: 1_000,
  },
  {
    name: "reset",
    says: "each of its connections is reset after 1 to 100,000 bytes of a direction",
    draw: (rng) => ({ kind: "reset", afterBytes: Math.ceil(10 ** (rng.below(5_000) / 1_000)), direction: "both" }),
    counted: "resets",
    least: 3,
  },
  {
    name: "half-close",
    says: "one direction of each of its connections ends after 1 to 100,000 bytes",
    draw: (rng) => ({
      kind: "half-close",
      afterBytes: Math.ceil(10 ** (rng.below(5_000) / 1_000)),
      direction: rng.pick(["to node", "from node"] as const),
    }),
    counted: "halfCloses",
    least: 3,
  },
];

/** Of the protocol only record batches are under a checksum; in an envelope a flipped bit may change what is meant: see the limits in docs/chaos.md. */
const FLIPS: readonly ProxyShape[] = [
  {
    name: "flip-records",
    says: "one bit in about 50,000 to 500,000 bytes of its record batches is turned over (in messages over 8 KiB)",
    draw: (rng) => ({ kind: "flip", everyBytes: rng.between(50_000, 500_000), only: "records", direction: "both" }),
    counted: "flipped",
    least: 3,
  },
  {
    name: "flip",
    says: "one bit in about 5,000 to 100,000 of all its bytes is turned over; what was meant may change unnoticed",
    draw: (rng) => ({ kind: "flip", everyBytes: rng.between(5_000, 100_000), direction: "both" }),
    counted: "flipped",
    least: 3,
  },
];

function proxyOf(cluster: ChaosCluster, nodeId: number): NodeProxy {
  const { proxy } = cluster.node(nodeId);
  if (proxy === undefined) throw new Error(`node ${nodeId} is behind no proxy`);
  return proxy;
}

function kindOf({ name, says, draw, counted, least }: ProxyShape): FaultKind {
  return {
    name,
    says,
    needs: [],
    cluster: { place: "proxied" },
    tolerates: "writes",
    inject: async (cluster, target, rng) => {
      const fault = draw(rng);
      const struck = target.map((nodeId) => {
        const proxy = proxyOf(cluster, nodeId);
        return { nodeId, proxy, before: proxy.counts[counted] };
      });
      await Promise.all(struck.map(async ({ proxy }) => proxy.set(fault)));
      return {
        description: `${listed(target)}: ${JSON.stringify(fault)}`,
        observed: () => {
          const evidence = struck.map(({ nodeId, proxy, before }) => {
            const count = proxy.counts[counted] - before;
            return count >= least ? `${counted} before node ${nodeId}: ${count}` : undefined;
          });
          return Promise.resolve(allOf(evidence));
        },
        heal: async () => void (await Promise.all(struck.map(async ({ proxy }) => proxy.set(undefined)))),
      };
    },
  };
}

export const PROXY_KINDS: readonly FaultKind[] = [...SHAPES, ...FLIPS].map(kindOf);
