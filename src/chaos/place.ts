// Where the nodes of a cluster stand: all on loopback, or in places that fault kinds bring along.
import { drawFreePorts } from "../cli/free-ports.ts";
import type { NodePlace, Place } from "./cluster-types.ts";

export async function openLoopback(nodeIds: readonly number[]): Promise<Place> {
  const ports = await drawFreePorts(nodeIds.length);
  const nodes = new Map<number, NodePlace>();
  nodeIds.forEach((nodeId, index) => {
    const address = `127.0.0.1:${ports[index] ?? 0}`;
    nodes.set(nodeId, { prefix: [], listeners: address, advertised: address });
  });
  return { nodes, clientPrefix: [], close: () => Promise.resolve() };
}
