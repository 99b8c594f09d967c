// One look at a local cluster from its state file, for commands of another shell.
import type { NodeState } from "../state-file.ts";
import { isAlive, isPaused } from "../process-identity.ts";
import type { ClusterObservation } from "./observation.ts";
import { ClusterObserver, type Target } from "./observer.ts";
import { type ClusterView, clusterView, type LocalNode } from "./view.ts";

const ANSWER_MS = 1500;

export interface LocalCluster {
  readonly cluster: string;
  readonly nodes: readonly NodeState[];
  readonly phase: "starting" | "up" | "stopping";
}

export const localNode = (state: NodeState): LocalNode => ({
  state,
  isAlive: isAlive(state.process),
  isPaused: isPaused(state.process),
});

/** A node without a running process is not asked: its port may be somebody else's by now. */
export function targetOf({ state, isAlive: isThere, isPaused: isHeld }: LocalNode): Target {
  return { nodeId: state.nodeId, address: state.address.replace(/^ws:\/\//, ""), isSilent: !isThere || isHeld };
}

export async function observeOnce(targets: readonly Target[], timeoutMs = ANSWER_MS): Promise<ClusterObservation> {
  const observer = new ClusterObserver();
  try {
    return await observer.look(targets, { timeoutMs, withTopics: true });
  } finally {
    await observer.close();
  }
}

export async function lookOnce({ cluster, nodes, phase }: LocalCluster): Promise<ClusterView> {
  const local = nodes.map(localNode);
  return clusterView({ cluster, nodes: local, seen: await observeOnce(local.map(targetOf)), phase });
}
