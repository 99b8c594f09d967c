// The nodes of a local cluster as a person or a script is told of them: what the launcher knows of each process and what each node
// answers, in one word each. Pure.
import { type NodeState, PROCESS_STATES } from "../state-file.ts";
import type { Table } from "../output.ts";
import { type Condition, type Diagnosis, diagnose, fenced, isWell } from "./diagnosis.ts";
import { factsOf } from "./local-facts.ts";
import type { ClusterObservation, NodeObservation } from "./observation.ts";

export const NODE_WORDS = [
  ...PROCESS_STATES,
  /** Held by SIGSTOP. */
  "paused",
  /** Started, and waiting for enough voters to be up. */
  "waiting",
  /** Serves, but the controller has taken its leaderships away. */
  "fenced",
  /** Served before, and says now that it does not. */
  "not-ready",
  /** Its process runs, but nothing is answered. */
  "silent",
] as const;
export type NodeWord = (typeof NODE_WORDS)[number];

export const ROLE_WORDS = ["controller", "voter", "learner", "observer"] as const;
export type RoleWord = (typeof ROLE_WORDS)[number];

export interface NodeRow {
  readonly nodeId: number;
  readonly state: NodeWord;
  /** Null: not known, or none yet. */
  readonly role: RoleWord | null;
  /** Partitions that it leads; null: not known. */
  readonly leaders: number | null;
  /** Its replicas that are in sync, of all its replicas; null: not known. */
  readonly inSync: number | null;
  readonly replicas: number | null;
  /** ws://host:port. */
  readonly address: string;
  /** Null: no process. */
  readonly pid: number | null;
  /** Why it is not running; null: nothing to say. */
  readonly reason: string | null;
}

export interface ClusterView {
  readonly cluster: string;
  /** Null: not known, or not founded. */
  readonly clusterId: string | null;
  readonly condition: Condition | "starting" | "stopping";
  readonly controllerId: number | null;
  readonly nodes: readonly NodeRow[];
  readonly diagnosis: Diagnosis;
}

/** A node of the launcher, with what only its machine can say. */
export interface LocalNode {
  readonly state: NodeState;
  readonly isAlive: boolean;
  readonly isPaused: boolean;
}

export interface ViewSources {
  readonly cluster: string;
  readonly nodes: readonly LocalNode[];
  readonly seen: ClusterObservation;
  readonly phase: "starting" | "up" | "stopping";
}

const ON_THE_WAY: readonly NodeWord[] = ["starting", "waiting", "stopping"];

export function clusterView({ cluster, nodes, seen, phase }: ViewSources): ClusterView {
  const diagnosis = diagnose(seen, factsOf(nodes));
  const voterIds = voterIdsOf(seen);
  const rows = nodes.map((node) => rowOf(node, seen, voterIds));
  // What a node that starts has answered is not known yet: all is not well before it has.
  const isOnTheWay = rows.some(({ state }) => ON_THE_WAY.includes(state));
  const condition = diagnosis.condition === "healthy" && isOnTheWay ? "degraded" : diagnosis.condition;
  return {
    cluster,
    clusterId: seen.clusterId,
    condition: phase === "up" ? condition : phase,
    controllerId: seen.controllerId >= 0 ? seen.controllerId : null,
    nodes: rows,
    diagnosis,
  };
}

/** By the newest view that any node has. */
function voterIdsOf({ nodes }: ClusterObservation): ReadonlySet<number> {
  const views = nodes.flatMap(({ quorum }) => quorum ?? []);
  const [newest] = views.sort((one, other) => other.term - one.term || other.commitEnd - one.commitEnd);
  const voters = (newest?.voters ?? []).filter(({ isLearner }) => !isLearner);
  return new Set(voters.map(({ replicaId }) => Number.parseInt(replicaId, 10)));
}

function rowOf(local: LocalNode, seen: ClusterObservation, voterIds: ReadonlySet<number>): NodeRow {
  const { nodeId, address, reason, process: identity } = local.state;
  const node = seen.nodes.find((one) => one.nodeId === nodeId);
  const share = seen.topics?.shares.get(nodeId) ?? { leaders: 0, replicas: 0, inSync: 0 };
  const isKnown = seen.topics !== null;
  const state = wordOf(local, node);
  return {
    nodeId,
    state,
    role: roleOf(nodeId, node, seen, voterIds),
    leaders: isKnown ? share.leaders : null,
    inSync: isKnown ? share.inSync : null,
    replicas: isKnown ? share.replicas : null,
    address,
    pid: local.isAlive ? identity.pid : null,
    reason: reason ?? reasonOf(state, node),
  };
}

function wordOf({ state: { state }, isAlive, isPaused }: LocalNode, node: NodeObservation | undefined): NodeWord {
  // A launcher that was killed could not write down how its nodes ended: they stop in order when it is gone.
  if (!isAlive) return state === "starting" || state === "running" || state === "stopping" ? "stopped" : state;
  if (isPaused) return "paused";
  if (state === "stopping") return state;
  const { readiness } = node ?? {};
  if (state === "starting") return isWaiting(node) ? "waiting" : "starting";
  if (node === undefined) return state;
  if (readiness === null || readiness === undefined) return "silent";
  if (fenced(node)) return "fenced";
  if (readiness.ready) return "running";
  return isWaiting(node) ? "waiting" : "not-ready";
}

/** For the quorum or the controller; opening the files of a large node is work, not waiting. */
function isWaiting(node: NodeObservation | undefined): boolean {
  const waitingFor = node?.quorum?.waitingFor ?? null;
  return waitingFor !== null && !waitingFor.includes("data directory");
}

function reasonOf(state: NodeWord, node: NodeObservation | undefined): string | null {
  if (state === "waiting") return node?.quorum?.waitingFor ?? null;
  if (state !== "not-ready") return null;
  const failed = Object.entries(node?.readiness?.checks ?? {}).filter(([check, how]) => !isWell(check, how));
  return failed.map(([check, how]) => `${check} ${how}`).join(", ") || null;
}

function roleOf(
  nodeId: number,
  node: NodeObservation | undefined,
  seen: ClusterObservation,
  voterIds: ReadonlySet<number>,
): RoleWord | null {
  // One that is gone keeps its vote, and its absence counts.
  const fromLog = voterIds.has(nodeId) ? "voter" : null;
  switch (node?.quorum?.role) {
    case "controller":
      return seen.controllerId === nodeId ? "controller" : "voter";
    case "leader":
    case "candidate":
    case "follower":
      return "voter";
    case "learner":
    case "observer":
      return node.quorum.role;
    case "starting":
    case undefined:
      // A broker of before the quorum is its own controller.
      return node?.readiness?.ready === true && node.quorum === null && seen.controllerId === nodeId
        ? "controller"
        : fromLog;
  }
}

const dash = (value: string | number | null) => (value === null ? "-" : String(value));

/** `withReasons`: a last column that may be long. */
export function viewTable({ nodes }: ClusterView, withReasons = true): Table {
  const hasReasons = withReasons && nodes.some(({ reason }) => reason !== null);
  const headers = ["NODE", "STATE", "ROLE", "LEADERS", "IN SYNC", "ADDRESS", "PID", ...(hasReasons ? ["WHY"] : [])];
  const rows = nodes.map((node) => [
    String(node.nodeId),
    node.state,
    dash(node.role),
    dash(node.leaders),
    node.replicas === null ? "-" : `${node.inSync}/${node.replicas}`,
    node.address,
    dash(node.pid),
    ...(hasReasons ? [node.reason ?? ""] : []),
  ]);
  return { headers, rows, right: [0, 3, 4, 6] };
}

/** What is new since `before`: the nodes whose row is another, and whether the cluster's condition or controller is. */
export interface ViewChange {
  readonly nodes: readonly NodeRow[];
  readonly isClusterChanged: boolean;
}

export function changeOf(before: ClusterView | undefined, now: ClusterView): ViewChange {
  const same = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);
  const nodes = now.nodes.filter((node) => {
    return !same(
      before?.nodes.find(({ nodeId }) => nodeId === node.nodeId),
      node,
    );
  });
  const clusterPart = (view: ClusterView | undefined) =>
    view && [view.clusterId, view.condition, view.controllerId, view.diagnosis.findings];
  return { nodes, isClusterChanged: !same(clusterPart(before), clusterPart(now)) };
}
