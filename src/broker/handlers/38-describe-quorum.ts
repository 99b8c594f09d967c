// DescribeQuorum: what this node knows of the quorum.
// Versions: 0.
// Behaviour: answered from the moment the port listens, by every node, of itself; only the leader knows how far the others are.
import type { API } from "../../wire/native/apis.ts";
import type { DescribeQuorumResponse, QuorumRole } from "../../wire/native/quorum-apis.ts";
import type { HostedQuorum } from "../quorum/types.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

export function handleDescribeQuorum(node: NodeServices, request: Request<typeof API.DESCRIBE_QUORUM>): void {
  const { nodeId, metadataVersions, quorum } = node;
  const own = {
    nodeId,
    versionsMin: metadataVersions.min,
    versionsMax: metadataVersions.max,
    waitingFor: node.waitingFor(),
  };
  request.respond({ ...own, ...(quorum === undefined ? NOTHING : viewOf(quorum)) });
}

type View = Omit<DescribeQuorumResponse, "nodeId" | "versionsMin" | "versionsMax" | "waitingFor">;

const NOTHING: View = {
  clusterId: null,
  role: "starting",
  leaderId: -1,
  term: 0,
  commitEnd: 0,
  appliedEnd: 0,
  metadataVersion: 0,
  voters: [],
  reachable: [],
};

function viewOf(quorum: HostedQuorum): View {
  const { clusterId, leaderId, term, commitEnd, appliedEnd, voters, reachable } = quorum.status;
  return {
    clusterId,
    role: roleOf(quorum),
    leaderId: leaderId ?? -1,
    term,
    commitEnd,
    appliedEnd,
    metadataVersion: quorum.image.metadataVersion,
    voters: voters.map(({ replicaId, isLearner, end, lagMs, isRefused }) => ({
      replicaId,
      isLearner,
      end,
      lagMs: Math.round(lagMs),
      isRefused,
    })),
    reachable,
  };
}

function roleOf(quorum: HostedQuorum): QuorumRole {
  const { role } = quorum.status;
  if (role === "forming") return "starting";
  return quorum.isController ? "controller" : role;
}
