// How `cluster up` tells what goes on, to somebody who cannot or does not want to see a live table: JSON lines for programs, plain lines for
// people. The schema of the JSON lines is in docs/operations.md.
import type { Finding } from "../cluster/diagnosis.ts";
import { changeOf, type ClusterView, type NodeRow, viewTable } from "../cluster/view.ts";
import type { NodeFault } from "../ipc.ts";
import { alignedTable, type Output } from "../output.ts";
import { nodeAsJson, type NodeState } from "../state-file.ts";

export interface StartedCluster {
  readonly cluster: string;
  readonly dataDir: string;
  readonly nodes: readonly NodeState[];
}

export interface Presenter {
  started(cluster: StartedCluster): void;
  /** Every view, also one that is like the last. */
  update(view: ClusterView): void;
  ready(seconds: number, failed: readonly number[]): void;
  /** A node that did not start or ended by itself. */
  fault(fault: NodeFault): void;
  /** Progress, for people. */
  note(text: string): void;
  stopping(): void;
  /** Last; whatever it holds of the terminal is given back. */
  end(): void;
}

const COMMAND = "cluster.up";

export function jsonPresenter(output: Output): Presenter {
  let last: ClusterView | undefined;
  const event = (name: string, fields: Readonly<Record<string, unknown>> = {}) =>
    output.json(COMMAND, { event: name, time: new Date().toISOString(), ...fields });
  return {
    started: ({ cluster, dataDir, nodes }) =>
      event("started", { cluster, dataDir, launcherPid: process.pid, nodes: nodes.map(nodeAsJson) }),
    update: (view) => {
      const change = changeOf(last, view);
      for (const node of change.nodes) event("node", rowAsJson(node));
      if (change.isClusterChanged) event("cluster", clusterAsJson(view));
      last = view;
    },
    ready: (seconds, failed) => event("ready", { seconds: round(seconds), failedNodes: failed }),
    fault: (fault) => faultTo(output, fault),
    note: (text) => output.note(text),
    stopping: () => event("stopping"),
    end: () => event("stopped"),
  };
}

const round = (seconds: number) => Math.round(seconds * 1000) / 1000;

export function rowAsJson({ nodeId, state, role, leaders, inSync, replicas, address, pid, reason }: NodeRow) {
  return { nodeId, state, role, leaders, inSync, replicas, address, pid, reason };
}

export function findingAsJson({ code, nodeId, message, means, hint }: Finding) {
  return { code, nodeId, message, means, hint };
}

export function clusterAsJson({ clusterId, condition, controllerId, diagnosis }: ClusterView) {
  const { voters, findings } = diagnosis;
  return { clusterId, condition, controllerId, voters, findings: findings.map(findingAsJson) };
}

export function faultTo(output: Output, { failure, details }: NodeFault): void {
  for (const line of details) output.note(`  | ${line}`);
  output.failure(failure);
}

/** For a terminal that cannot be drawn on (TERM=dumb), or is another job's. */
export function plainPresenter(output: Output): Presenter {
  let last: ClusterView | undefined;
  let isReady = false;
  /** The remarks on the progress of the stop tell each node. */
  let isStopping = false;
  return {
    started: () => undefined,
    update: (view) => {
      const { nodes } = changeOf(last, view);
      if (isReady && !isStopping) for (const node of nodes) if (isNews(last, node)) output.line(plainLine(node));
      last = view;
    },
    ready: () => {
      isReady = true;
      if (last !== undefined) output.line(alignedTable(viewTable(last)).trimEnd());
    },
    fault: (fault) => faultTo(output, fault),
    note: (text) => output.note(text),
    stopping: () => {
      isStopping = true;
    },
    end: () => undefined,
  };
}

/** Counts of partitions change all the time, states and roles do not. */
function isNews(before: ClusterView | undefined, { nodeId, state, role, reason }: NodeRow): boolean {
  const old = before?.nodes.find((node) => node.nodeId === nodeId);
  return old === undefined || old.state !== state || old.role !== role || old.reason !== reason;
}

function plainLine({ nodeId, state, role, reason }: NodeRow): string {
  const time = new Date().toTimeString().slice(0, 8);
  const details = [role, reason].filter((text) => text !== null).join(", ");
  return `${time} node ${nodeId} ${state}${details === "" ? "" : ` (${details})`}`;
}
