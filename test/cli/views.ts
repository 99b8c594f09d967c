// Clusters as an observer would have seen them, for tests of what is told of them.
import type { ClusterObservation, NodeObservation } from "../../src/cli/cluster/observation.ts";
import type { LocalNode } from "../../src/cli/cluster/view.ts";
import { toNodeId } from "../../src/model/ids.ts";
import type { DescribeQuorumResponse, QuorumRole } from "../../src/wire/native/quorum-apis.ts";

export const CLUSTER_ID = "FFen5K0ShV7f6EZvTDmnlQ" as NonNullable<DescribeQuorumResponse["clusterId"]>;

type Voter = DescribeQuorumResponse["voters"][number];

export const voter = (nodeId: number, more: Partial<Voter> = {}): Voter => ({
  replicaId: `${nodeId}:disk${nodeId}`,
  isLearner: false,
  end: 10,
  lagMs: 0,
  isRefused: false,
  ...more,
});

export function quorum(
  nodeId: number,
  role: QuorumRole,
  more: Partial<DescribeQuorumResponse> = {},
): DescribeQuorumResponse {
  return {
    clusterId: CLUSTER_ID,
    nodeId: toNodeId(nodeId),
    role,
    leaderId: 1,
    term: 3,
    commitEnd: 10,
    appliedEnd: 10,
    metadataVersion: 1,
    versionsMin: 1,
    versionsMax: 2,
    voters: [1, 2, 3].map((id) => voter(id)),
    reachable: [1, 2, 3],
    waitingFor: null,
    ...more,
  };
}

export const OK_CHECKS = { state: "running", disk: "ok", quorum: "ok", controller: "node 1", registration: "ok" };

export const up = (nodeId: number, role: QuorumRole, more: Partial<DescribeQuorumResponse> = {}): NodeObservation => ({
  nodeId,
  address: `127.0.0.1:${7069 + nodeId}`,
  readiness: { ready: true, checks: OK_CHECKS },
  quorum: quorum(nodeId, role, more),
  isFenced: false,
});

export const gone = (nodeId: number): NodeObservation => ({
  nodeId,
  address: `127.0.0.1:${7069 + nodeId}`,
  readiness: null,
  quorum: null,
  isFenced: null,
});

const NO_TROUBLE = { count: 0, examples: [] };

export function seen(nodes: readonly NodeObservation[], more: Partial<ClusterObservation> = {}): ClusterObservation {
  const shares = new Map(nodes.map(({ nodeId }) => [nodeId, { leaders: 4, replicas: 12, inSync: 12 }]));
  const topics = {
    topics: 2,
    partitions: 12,
    offline: NO_TROUBLE,
    lost: NO_TROUBLE,
    belowMinIsr: NO_TROUBLE,
    underReplicated: NO_TROUBLE,
    faulty: NO_TROUBLE,
    shares,
  };
  return { clusterId: CLUSTER_ID, controllerId: 1, nodes, topics, ...more };
}

export const WELL = seen([up(1, "controller"), up(2, "follower"), up(3, "follower")]);

export function local(nodeId: number, more: Partial<LocalNode["state"]> = {}): LocalNode {
  const isGone = more.state === "killed" || more.state === "failed" || more.state === "stopped";
  return {
    state: {
      nodeId,
      process: { pid: 100 + nodeId, startTicks: 1, bootId: "b" },
      state: "running",
      since: "2026-01-01T00:00:00.000Z",
      reason: null,
      address: `ws://127.0.0.1:${7069 + nodeId}`,
      dataDir: "/d",
      logFile: "/l",
      ...more,
    },
    isAlive: !isGone,
    isPaused: false,
  };
}
