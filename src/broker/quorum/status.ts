// What a node says of its quorum: for health, for DESCRIBE_QUORUM, for metrics.
import type { OttlaError } from "../../model/errors.ts";
import type { NodeId } from "../../model/ids.ts";
import type { RaftNode } from "../../raft/raft-node.ts";
import { TICK_MS } from "../../raft/settings.ts";
import { type Configuration, nodeIdOf, type ReplicaId } from "../../raft/types.ts";
import type { QuorumRole, VoterStatus } from "./types.ts";

export function roleOf(core: RaftNode | undefined, { isMember }: { readonly isMember: boolean }): QuorumRole {
  if (core === undefined) return "forming";
  // One that is out may have been in the middle of a campaign: nobody votes for it.
  if (!isMember && core.role !== "leader") return "observer";
  switch (core.role) {
    case "leader":
      return "leader";
    case "preCandidate":
    case "candidate":
      return "candidate";
    case "follower":
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

export interface TroubleParts {
  readonly failure: OttlaError | undefined;
  /** What a node without a cluster waits for. */
  readonly forming: string | null;
  readonly refusedBy: readonly NodeId[];
  readonly diskTrouble: OttlaError | null;
  readonly hasLeader: boolean;
  /** Listed nodes of another cluster. */
  readonly strangers: readonly NodeId[];
  readonly voters: readonly NodeId[];
  isReachable(nodeId: NodeId): boolean;
}

/** For people: the worst thing; null = nothing. */
export function troubleOf(parts: TroubleParts): string | null {
  const { failure, forming, refusedBy, diskTrouble, hasLeader, strangers, voters, isReachable } = parts;
  if (failure !== undefined) return failure.message;
  if (forming !== null) return forming;
  if (refusedBy.length > 0)
    return `refused: ${said(refusedBy, "remembers", "remember")} more than this disk holds: it is an older copy (replace it)`;
  if (diskTrouble !== null) return `the metadata log cannot be written: ${diskTrouble.message}`;
  if (hasLeader) return strangers.length === 0 ? null : strangersOf(strangers);
  // One that votes with two disks runs on one of them.
  const reachable = new Set(voters.filter((nodeId) => isReachable(nodeId))).size;
  const what = reachable > voters.length / 2 ? "waiting for a leader" : "waiting for a quorum";
  return `${what}: ${reachable} of ${voters.length} voters reachable`;
}

const said = (nodeIds: readonly NodeId[], one: string, several: string): string =>
  `node${nodeIds.length === 1 ? "" : "s"} ${nodeIds.join(", ")} ${nodeIds.length === 1 ? one : several}`;

const strangersOf = (nodeIds: readonly NodeId[]): string =>
  `${said(nodeIds, "belongs", "belong")} to another cluster, though listed in controller.quorum.voters (was it, or this one, started without the list once?): correct the list, or wipe whichever is the stray`;
