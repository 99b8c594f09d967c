// What several kinds of fault share.
import type { HistoryEvent } from "../../checkers/history.ts";
import type { ChaosCluster, ChaosNode, NodeExit } from "../cluster-types.ts";
import { machineMs } from "../machine-clock.ts";

/** A node, as histories name it. */
export const nodeName = (nodeId: number): string => `node-${nodeId}`;

/** Of a fault that excuses loss. */
export function faultEvent(nodeId: number, fault: "process death" | "power loss" | "failed sync"): HistoryEvent {
  return { type: "fault", timeMs: machineMs(), node: nodeName(nodeId), fault };
}

export function targetsOf(cluster: ChaosCluster, target: readonly number[]): readonly ChaosNode[] {
  return target.map((nodeId) => cluster.node(nodeId));
}

export function listed(nodeIds: readonly number[]): string {
  return `${nodeIds.length === 1 ? "node" : "nodes"} ${nodeIds.join(", ")}`;
}

/** Its exits from now on. */
export function exitsSince(node: ChaosNode): () => readonly NodeExit[] {
  const before = node.exits.length;
  return () => node.exits.slice(before);
}

/** Nodes that are down are up again; rejects when one does not come. */
export async function startAll(nodes: readonly ChaosNode[]): Promise<void> {
  const results = await Promise.all(nodes.map(async (node) => ({ node, isReady: await node.start() })));
  const failed = results.filter(({ isReady }) => !isReady).map(({ node }) => node.nodeId);
  if (failed.length > 0) throw new Error(`${listed(failed)} did not start again`);
}

/** Evidence of each node, or nothing when one has none. */
export function allOf(evidence: readonly (string | undefined)[]): string | undefined {
  const there = evidence.filter((each) => each !== undefined);
  return there.length < evidence.length || there.length === 0 ? undefined : there.join("; ");
}
