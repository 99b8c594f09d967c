// What a node says of its quorum: for health, for DESCRIBE_QUORUM, for metrics.
import type { NodeId } from "../../model/ids.ts";
import type { RaftNode } from "../../raft/raft-node.ts";
import { TICK_MS } from "../../raft/settings.ts";
import { type Configuration, nodeIdOf, type ReplicaId } from "../../raft/types.ts";
import type { QuorumRole, VoterStatus } from "./types.ts";

export function roleOf(core: RaftNode | undefined, { isMember }: { readonly isMember: boolean }): QuorumRole {
  if (core === undefined) return "forming";
  switch (core.role) {
    case "leader":
      return "leader";
    case "preCandidate":
    case "candidate":
      return "candidate";
    case "follower":
      if (!isMember) return "observer";
      return core.configuration.voters.includes(core.self) ? "follower" : "learner";
  }
}

export function votersOf(
  { voters, learners }: Configuration,
  { core, refused }: { readonly core: RaftNode | undefined; readonly refused: ReadonlyMap<ReplicaId, string> },
): VoterStatus[] {
  const peers = core?.peers();
  return [...voters, ...learners].map((replicaId): VoterStatus => {
    const peer = peers?.get(replicaId);
    const isLeader = core?.role === "leader" && replicaId === core.self;
    return {
      replicaId,
      nodeId: nodeIdOf(replicaId),
      isLearner: learners.includes(replicaId),
      end: isLeader ? core.log.end : (peer?.matchEnd ?? -1),
      lagMs: isLeader ? 0 : peer === undefined ? -1 : peer.contactTicksAgo * TICK_MS,
      isRefused: refused.has(replicaId),
    };
  });
}

/** Majority of the voters within reach, this one counted, or what is missing. */
export function missingQuorum(voters: readonly NodeId[], isReachable: (nodeId: NodeId) => boolean): string {
  const reachable = voters.filter((nodeId) => isReachable(nodeId)).length;
  const isEnough = reachable > voters.length / 2;
  const what = isEnough ? "waiting for a leader" : "waiting for a quorum";
  return `${what}: ${reachable} of ${voters.length} voters reachable`;
}
