// What a node tells people about its state: one line for each concern, "ok" or what is wrong and what helps.
import type { OttlaError } from "../model/errors.ts";
import type { LogStore } from "../storage/types.ts";
import type { ClusterMember } from "./cluster-member.ts";
import type { Replica } from "./replica.ts";
import type { ReplicaManager } from "./replica-manager.ts";
import { summaryOf } from "./replica-ticker.ts";
import type { BrokerState, Health } from "./types.ts";

export interface HealthView {
  readonly state: BrokerState;
  readonly failure: OttlaError | undefined;
  readonly store: LogStore | undefined;
  readonly member: ClusterMember | undefined;
  readonly replicas: ReplicaManager | undefined;
}

const OPENING = "waiting: the data directory is being opened";

export function healthOf({ state, failure, store, member, replicas }: HealthView): Health {
  const checks: Record<string, string> = {
    state,
    disk: store?.isLowOnSpace === true ? "low on space: produce is refused until space is freed" : "ok",
    logs: logsOf(replicas, member),
    replicas: replicasOf(replicas),
    quorum: quorumOf(member),
    controller: controllerOf(member),
    registration: member?.membership.describe() ?? OPENING,
  };
  if (failure !== undefined) checks["failure"] = failure.message;
  // A broker without a quorum goes on serving what it leads; a fenced one leads nothing.
  const isReady = state === "running" && member?.membership.isUnfenced === true;
  return { live: state !== "failed", ready: isReady, checks };
}

/** What a start waits for, or what is wrong with the node's place in its cluster; null = nothing. */
export function waitingFor(member: ClusterMember | undefined): string | null {
  if (member === undefined) return OPENING;
  const quorum = quorumOf(member);
  if (quorum !== "ok") return quorum;
  const registration = member.membership.describe();
  return registration === "ok" ? null : registration;
}

function logsOf(replicas: ReplicaManager | undefined, member: ClusterMember | undefined): string {
  const damaged = [...(replicas?.damaged ?? [])];
  if (damaged.length === 0) return "ok";
  const isLone = ({ log }: Replica): boolean =>
    member?.quorum.image.topic(log.topicId)?.partitions[log.partition]?.replicas.length === 1;
  const lone = damaged.filter(isLone).length;
  const others = lone < damaged.length ? "; one is fetched anew as soon as another broker leads its partition" : "";
  const alone =
    lone > 0
      ? `; ${lone} of them ${lone === 1 ? "is" : "are"} the only replica: what it has from the damaged segment on cannot be served. Bring back a disk with a good copy, or delete the topic; with the node stopped, ottla log dump shows what can still be read`
      : "";
  return `${damaged.length} damaged: ottla log verify shows where${others}${alone}`;
}

/** A broker whose followers lag is ready all the same. */
function replicasOf(replicas: ReplicaManager | undefined): string {
  const { underReplicated, belowMinIsr } = summaryOf(replicas?.led ?? []);
  if (underReplicated === 0) return "ok";
  const refusing =
    belowMinIsr === 0 ? "" : `, ${belowMinIsr} of them with fewer than min.insync.replicas: produce is refused there`;
  return `${underReplicated} partitions led here have replicas that are not in sync${refusing}`;
}

function quorumOf(member: ClusterMember | undefined): string {
  if (member === undefined) return OPENING;
  const { trouble, voters } = member.quorum.status;
  if (trouble !== null) return trouble;
  const refused = voters.filter(({ isRefused }) => isRefused).map(({ nodeId }) => nodeId);
  if (refused.length === 0) return "ok";
  return `the disk of node ${refused.join(", ")} remembers less than it once promised: replace that voter (ottla quorum replace)`;
}

function controllerOf(member: ClusterMember | undefined): string {
  const { controllerId } = member?.quorum ?? { controllerId: null };
  if (controllerId !== null) return `node ${controllerId}`;
  return "none known: no topic can be created or changed, and no broker comes back, until a majority of the voters is up";
}
