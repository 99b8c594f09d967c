// What the launcher's machine knows of a cluster that its nodes' answers do not say. Pure but for the look at the processes.
import { isAlive, isPaused } from "../process-identity.ts";
import { liveState } from "../state-file.ts";
import type { ClusterObservation, NodeObservation } from "./observation.ts";

export interface LocalFacts {
  readonly nodeIds: readonly number[];
  /** Held by SIGSTOP. */
  readonly pausedIds: readonly number[];
  /** Their process was ended on purpose: killed, or stopped in order. */
  readonly endedIds: readonly number[];
}

interface LocalProcess {
  readonly state: { readonly nodeId: number; readonly state: string };
  readonly isAlive: boolean;
  readonly isPaused: boolean;
}

export function factsOf(nodes: readonly LocalProcess[]): LocalFacts {
  const idsOf = (some: readonly LocalProcess[]) => some.map(({ state }) => state.nodeId);
  return {
    nodeIds: idsOf(nodes),
    pausedIds: idsOf(nodes.filter((node) => node.isAlive && node.isPaused)),
    endedIds: idsOf(nodes.filter((node) => !node.isAlive && node.state.state !== "failed")),
  };
}

/** Of the cluster that runs from this directory; undefined: none does. */
export function localFacts(dataDir: string): LocalFacts | undefined {
  const state = liveState(dataDir);
  return state && factsOf(state.nodes.map(processOf));
}

const processOf = (state: NonNullable<ReturnType<typeof liveState>>["nodes"][number]): LocalProcess => ({
  state,
  isAlive: isAlive(state.process),
  isPaused: isPaused(state.process),
});

/** Taken off the list of brokers, no voter, and ended on purpose: nobody waits for it. */
export function isForgotten(
  { nodeId, isFenced, readiness, quorum }: NodeObservation,
  { nodes }: ClusterObservation,
  voterIds: readonly number[],
  local: LocalFacts | undefined,
): boolean {
  if (readiness !== null || quorum !== null || isFenced !== null || voterIds.includes(nodeId)) return false;
  const areBrokersKnown = nodes.some((node) => node.isFenced !== null);
  return areBrokersKnown && local?.endedIds.includes(nodeId) === true;
}
