// Judges what was seen of a cluster: what is wrong, what that means for its users, what to do. Pure.
import type { DescribeQuorumResponse } from "../../wire/native/quorum-apis.ts";
import { counted } from "../values.ts";
import { isForgotten, type LocalFacts } from "./local-facts.ts";
import type { ClusterObservation, NodeObservation, PartitionTrouble } from "./observation.ts";

export const CONDITIONS = [
  "healthy",
  /** It works, with something missing. */
  "degraded",
  /** No leader of the metadata: what is there is served, nothing can be changed. */
  "no-quorum",
  /** The first start: the nodes have not all found each other yet. */
  "forming",
  /** No node answers. */
  "down",
] as const;
export type Condition = (typeof CONDITIONS)[number];

export const FINDING_CODES = [
  "NO_QUORUM",
  "NO_CONTROLLER",
  "FORMING",
  "NODE_DOWN",
  "NODE_NOT_READY",
  "NODE_FENCED",
  "NODE_TROUBLED",
  "VOTER_REFUSED",
  "VOTER_DISK_REPLACED",
  "PARTITIONS_OFFLINE",
  "PARTITIONS_LEADER_SILENT",
  "PARTITIONS_FULL",
  "PARTITIONS_LOST",
  "PARTITIONS_BELOW_MIN_ISR",
  "PARTITIONS_FAULTY",
  "PARTITIONS_UNDER_REPLICATED",
] as const;
export type FindingCode = (typeof FINDING_CODES)[number];

export interface Finding {
  readonly code: FindingCode;
  /** Null: of the whole cluster. */
  readonly nodeId: number | null;
  readonly message: string;
  /** What it means for users; empty when the message says it. */
  readonly means: string;
  readonly hint: string;
}

export interface Diagnosis {
  readonly condition: Condition;
  readonly findings: readonly Finding[];
  /** Nothing wrong, but worth knowing. */
  readonly remarks: readonly string[];
  readonly voters: { readonly total: number; readonly up: number };
  /** Without those that were taken off the list. */
  readonly nodes: number;
}

/** Checks whose trouble is told once for the whole cluster, when that is what is wrong. */
const OF_THE_CLUSTER: readonly string[] = ["state", "quorum", "controller", "registration"];

export function isWell(check: string, how: string): boolean {
  return how === "ok" || how === "running" || (check === "controller" && /^node \d+$/.test(how));
}

/** `local`: where the nodes are a launcher's of this machine. */
export function diagnose(all: ClusterObservation, local?: LocalFacts): Diagnosis {
  const quorum = quorumOf(all);
  const forgotten = all.nodes.filter((node) => isForgotten(node, all, quorum.voterIds, local));
  const seen = { ...all, nodes: all.nodes.filter((node) => !forgotten.includes(node)) };
  const condition = conditionOf(seen, quorum);
  const ofCluster = clusterFindings(seen, quorum, condition, local);
  const toldOfCluster = ofCluster.length > 0 ? OF_THE_CLUSTER : quorum.refusedIds.length > 0 ? ["quorum"] : [];
  // Which partitions lack replicas is told once, by their names.
  const told = seen.topics === null ? toldOfCluster : [...toldOfCluster, "replicas"];
  const findings = [
    ...ofCluster,
    ...quorum.refusedIds.map(refused),
    ...doubled(seen, quorum).map(halfReplaced),
    ...seen.nodes.flatMap((node) => nodeFindings(node, { quorum, told, local })),
    ...leaderFindings(seen, condition),
    ...topicFindings(seen),
  ];
  return {
    condition: condition === "healthy" && findings.length > 0 ? "degraded" : condition,
    findings,
    remarks: [
      ...forgotten.map(({ nodeId }) => `node ${nodeId} does not run, and is no broker of the cluster any more`),
      ...remarksOn(seen, quorum),
    ],
    nodes: seen.nodes.length,
    voters: { total: quorum.voterIds.length, up: quorum.upIds.length },
  };
}

interface Quorum {
  /** Of the node that knows most; undefined: no node says anything of a quorum. */
  readonly view: DescribeQuorumResponse | undefined;
  /** A node is there twice while a new disk of it votes beside the one before: all of them make the majority. */
  readonly voterIds: readonly number[];
  readonly upIds: readonly number[];
  readonly missingIds: readonly number[];
  /** D-20: any node that refuses a voter says so. */
  readonly refusedIds: readonly number[];
}

const nodeIdOf = (replicaId: string) => Number.parseInt(replicaId, 10);
const votes = ({ role }: DescribeQuorumResponse) => role !== "observer" && role !== "starting" && role !== "learner";

function quorumOf(seen: ClusterObservation): Quorum {
  const views = seen.nodes.flatMap(({ quorum }) => quorum ?? []);
  const rank = (view: DescribeQuorumResponse) => (view.role === "controller" ? 1 : 0);
  const [view] = [...views].sort(
    (one, other) => rank(other) - rank(one) || other.term - one.term || other.commitEnd - one.commitEnd,
  );
  const voterIds = (view?.voters ?? []).filter(({ isLearner }) => !isLearner).map((voter) => nodeIdOf(voter.replicaId));
  const refusedVoters = views.flatMap(({ voters }) => voters.filter(({ isRefused }) => isRefused));
  const refusedIds = [...new Set(refusedVoters.map(({ replicaId }) => nodeIdOf(replicaId)))];
  const isUp = (nodeId: number) => {
    if (refusedIds.includes(nodeId)) return false;
    const node = seen.nodes.find((one) => one.nodeId === nodeId);
    // One whose address nobody here knows is there when the others have a connection to it.
    if (node === undefined) return views.some(({ reachable }) => reachable.includes(nodeId));
    return node.quorum !== null && votes(node.quorum);
  };
  // A node runs on one disk only.
  const isOneUp = (nodeId: number, place: number) => voterIds.indexOf(nodeId) === place && isUp(nodeId);
  return {
    view,
    voterIds,
    upIds: voterIds.filter(isOneUp),
    missingIds: [...new Set(voterIds.filter((nodeId) => !isUp(nodeId)))],
    refusedIds: refusedIds.sort((one, other) => one - other),
  };
}

function conditionOf(seen: ClusterObservation, { view, voterIds, upIds }: Quorum): Condition {
  if (seen.nodes.every(({ readiness, quorum }) => readiness === null && quorum === null)) return "down";
  if (view === undefined) return "healthy";
  if (view.clusterId === null) return "forming";
  if (upIds.length * 2 <= voterIds.length) return "no-quorum";
  return "healthy";
}

const listed = (nodeIds: readonly number[]) => nodeIds.join(", ");
const plural = (nodeIds: readonly number[]) => (nodeIds.length === 1 ? "node" : "nodes");

function clusterFindings(
  seen: ClusterObservation,
  quorum: Quorum,
  condition: Condition,
  local: LocalFacts | undefined,
): Finding[] {
  const { view, voterIds, upIds, missingIds } = quorum;
  if (condition === "forming") {
    const waiting = seen.nodes.flatMap((node) => node.quorum?.waitingFor ?? [])[0];
    const message = `the cluster is not founded yet, or its nodes begin to start${waiting === undefined ? "" : `: ${waiting}`}`;
    const hint = "start the nodes that do not run; all need the same controller.quorum.voters";
    return [{ code: "FORMING", nodeId: null, message, means: "nothing can be written or read yet", hint }];
  }
  if (condition === "no-quorum") {
    return [
      {
        code: "NO_QUORUM",
        nodeId: null,
        message: `no quorum: ${upIds.length} of ${counted(voterIds.length, "voter")} up, missing ${plural(missingIds)} ${listed(missingIds)}`,
        means:
          "partitions whose leader is up are read as before; acks=all waits there in vain for replicas that are down and cannot leave the ISR, and what acks=1 writes is not read before they are back; topics cannot be created, changed or deleted, no leader is replaced, a node that restarts does not get ready",
        hint: `${startHint(missingIds, local)}; only when their disks are lost for good: ottla quorum unsafe-recover --help`,
      },
    ];
  }
  if (view === undefined || condition === "down" || seen.controllerId >= 0) return [];
  const message = `no controller now, ${upIds.length} of ${counted(voterIds.length, "voter")} up: an election is under way`;
  const hint = "wait: ottla cluster health --wait";
  return [{ code: "NO_CONTROLLER", nodeId: null, message, means: "changes of topics wait for it", hint }];
}

/** The launcher can start only what it was told of. */
function startHint(missingIds: readonly number[], local: LocalFacts | undefined): string {
  const what = `start ${plural(missingIds)} ${listed(missingIds)}`;
  const strangers = missingIds.filter((nodeId) => local?.nodeIds.includes(nodeId) === false);
  if (strangers.length === 0) return `${what} (ottla cluster start ${missingIds.join(" ")})`;
  return `${what}: the running launcher does not have ${plural(strangers)} ${listed(strangers)}, so ottla cluster down, then ottla cluster up with all of them`;
}

interface NodeContext {
  readonly quorum: Quorum;
  /** Checks that need not be told of each node. */
  readonly told: readonly string[];
  readonly local: LocalFacts | undefined;
}

function silentHint(nodeId: number, local: LocalFacts | undefined): string {
  if (nodeId < 0) return "is it started, and is the address right? ottla broker ls shows the addresses of the brokers";
  if (local?.pausedIds.includes(nodeId) === true) return `it is paused: ottla cluster resume ${nodeId}`;
  if (local?.nodeIds.includes(nodeId) === false) return startHint([nodeId], local);
  return `ottla cluster start ${nodeId} where it is a local one; its log says why it ended`;
}

function refused(nodeId: number): Finding {
  return {
    code: "VOTER_REFUSED",
    nodeId,
    message: `node ${nodeId} is refused as a voter: its disk is older than what it has promised (a restored copy?)`,
    means: "it counts as missing in the quorum, so that nothing that was agreed on is lost",
    hint: `stop it, ottla cluster wipe ${nodeId} --yes, start it, then ottla quorum replace ${nodeId}`,
  };
}

function nodeFindings(node: NodeObservation, { quorum, told, local }: NodeContext): Finding[] {
  const { nodeId, address, readiness } = node;
  const name = nodeId < 0 ? `the node at ${address}` : `node ${nodeId} (${address})`;
  const about = { nodeId: nodeId < 0 ? null : nodeId };
  if (readiness === null && node.quorum === null) {
    const isVoter = quorum.voterIds.includes(nodeId);
    const left = quorum.upIds.length - Math.floor(quorum.voterIds.length / 2) - 1;
    const means =
      isVoter && left >= 0 ? `a voter: ${counted(left, "more loss", "more losses")} of voters can be borne` : "";
    const hint = silentHint(nodeId, local);
    return [{ code: "NODE_DOWN", ...about, message: `${name} does not answer`, means, hint }];
  }
  if (hasOtherDisk(node, quorum)) return [otherDisk(nodeId)];
  if (quorum.refusedIds.includes(nodeId)) return [];
  const isTold = (check: string) => told.includes(check);
  const failed = Object.entries(readiness?.checks ?? {})
    .filter(([check, how]) => !isWell(check, how) && !isTold(check))
    .map(([check, how]) => `${check} ${how}`);
  if (fenced(node) && !isTold("registration")) {
    const means = "it leads no partition until the controller hears from it";
    const hint = "wait some seconds; then look whether it reaches the controller: ottla quorum status";
    return [{ code: "NODE_FENCED", ...about, message: `${name} is fenced`, means, hint }];
  }
  if (readiness?.ready === false) {
    if (isTold("state") && failed.length === 0) return [];
    const why = failed.length > 0 ? failed.join(", ") : (node.quorum?.waitingFor ?? "starting");
    const hint = `wait, or look at its log: ottla cluster logs ${nodeId}`;
    return [{ code: "NODE_NOT_READY", ...about, message: `${name} is not ready: ${why}`, means: "", hint }];
  }
  if (failed.length === 0) return [];
  const hint = `ottla cluster logs ${nodeId}`;
  return [{ code: "NODE_TROUBLED", ...about, message: `${name}: ${failed.join(", ")}`, means: "", hint }];
}

/** By the metadata, or by its own word when nobody has the metadata. */
export function fenced({ isFenced, readiness }: NodeObservation): boolean {
  return isFenced === true || readiness?.checks["registration"]?.startsWith("fenced") === true;
}

/** Its node id votes, but it does not: the vote belongs to the disk that it had before. */
function hasOtherDisk({ nodeId, quorum }: NodeObservation, { view, voterIds }: Quorum): boolean {
  const isOutside = quorum?.role === "observer" || quorum?.role === "learner";
  return isOutside && view?.clusterId === quorum?.clusterId && voterIds.includes(nodeId);
}

/** Nodes that vote with several disks, and are not told of as one that votes with none of them. */
function doubled({ nodes }: ClusterObservation, quorum: Quorum): number[] {
  const isTold = (nodeId: number) => nodes.some((node) => node.nodeId === nodeId && hasOtherDisk(node, quorum));
  return quorum.voterIds.filter((nodeId, place, all) => all.indexOf(nodeId) < place && !isTold(nodeId));
}

function halfReplaced(nodeId: number): Finding {
  return {
    code: "VOTER_DISK_REPLACED",
    nodeId,
    message: `node ${nodeId} votes on its new disk, and the one before still is a voter: its replacement was interrupted`,
    means: "a voter that can never be there counts, so that one loss less can be borne",
    hint: `ottla quorum replace ${nodeId} once more: it goes on where it stopped`,
  };
}

function otherDisk(nodeId: number): Finding {
  return {
    code: "VOTER_DISK_REPLACED",
    nodeId,
    message: `node ${nodeId} runs on another disk than the one that is a voter`,
    means: "it serves, but does not vote: the quorum has one voter less",
    hint: `ottla quorum replace ${nodeId}`,
  };
}

/** Partitions that their leader keeps from being used. */
function leaderFindings({ nodes, topics }: ClusterObservation, condition: Condition): Finding[] {
  if (topics === null) return [];
  const shareOf = (isConcerned: (node: NodeObservation) => boolean) => {
    const led = nodes
      .filter(isConcerned)
      .map(({ nodeId }) => ({ nodeId, count: topics.shares.get(nodeId)?.leaders ?? 0 }))
      .filter(({ count }) => count > 0);
    const count = led.reduce((sum, one) => sum + one.count, 0);
    return { count, where: led.map((one) => `node ${one.nodeId} leads ${one.count}`).join(", ") };
  };
  const silent = shareOf(({ readiness, quorum }) => readiness === null && quorum === null);
  const full = shareOf(({ readiness }) => readiness?.checks["disk"]?.startsWith("low on space") === true);
  const findings: Finding[] = [];
  // With a quorum others lead them in a moment.
  if (silent.count > 0 && condition === "no-quorum") {
    const message = `${counted(silent.count, "partition")} led by a node that does not answer: ${silent.where}`;
    const means = "nobody can write or read them: without a quorum nobody takes its place";
    findings.push({ code: "PARTITIONS_LEADER_SILENT", nodeId: null, message, means, hint: "start it" });
  }
  if (full.count > 0) {
    const message = `${counted(full.count, "partition")} led by a node whose disk is full: ${full.where}`;
    const means = "they take no records (STORAGE_FULL): no other replica in sync has room";
    const hint = "free space there; what waits goes on by itself";
    findings.push({ code: "PARTITIONS_FULL", nodeId: null, message, means, hint });
  }
  return findings;
}

type TopicFinding =
  | "PARTITIONS_OFFLINE"
  | "PARTITIONS_LOST"
  | "PARTITIONS_BELOW_MIN_ISR"
  | "PARTITIONS_FAULTY"
  | "PARTITIONS_UNDER_REPLICATED";
const MEANS: Readonly<Record<TopicFinding, string>> = {
  PARTITIONS_OFFLINE: "nobody can write or read them until they have one",
  PARTITIONS_LOST: "nobody can write or read them until somebody decides",
  PARTITIONS_BELOW_MIN_ISR:
    "they take no records until enough replicas are in sync; what was acknowledged is there, and read as far as their leader knows it to be",
  PARTITIONS_FAULTY: "",
  PARTITIONS_UNDER_REPLICATED: "they are written and read as ever, with fewer copies",
};

function topicFindings({ topics }: ClusterObservation): Finding[] {
  if (topics === null) return [];
  const finding = (
    code: TopicFinding,
    { count, examples }: PartitionTrouble,
    what: string,
    hint: string,
  ): Finding[] => {
    if (count === 0) return [];
    const more = count > examples.length ? ` and ${count - examples.length} more` : "";
    const message = `${counted(count, "partition")} ${what}: ${examples.join(", ")}${more}`;
    return [{ code, nodeId: null, message, means: MEANS[code], hint }];
  };
  return [
    ...finding(
      "PARTITIONS_OFFLINE",
      topics.offline,
      "without a leader",
      "start the nodes that hold them: ottla topic describe <topic> shows which (ISR and ELR)",
    ),
    ...finding(
      "PARTITIONS_LOST",
      topics.lost,
      "without a leader and without a replica that has everything",
      "bring back a node with an intact disk; else ottla partition elect <topic> <partition> --unclean --yes takes the fullest of the replicas that are up and not damaged; where all are damaged, delete the topic",
    ),
    ...finding(
      "PARTITIONS_BELOW_MIN_ISR",
      topics.belowMinIsr,
      "below min.insync.replicas",
      "start the nodes of the missing replicas: ottla topic describe <topic> shows them",
    ),
    ...finding("PARTITIONS_FAULTY", topics.faulty, "with a fault", "the leader's log says more; ottla log verify"),
    ...finding(
      "PARTITIONS_UNDER_REPLICATED",
      topics.underReplicated,
      "under-replicated",
      "ottla topic describe <topic> shows the missing replicas",
    ),
  ];
}

/** A cluster that grew: its new nodes only observe until somebody lets them vote. */
function remarksOn(seen: ClusterObservation, { view, voterIds }: Quorum): string[] {
  if (view === undefined || view.clusterId === null || voterIds.length === 0 || voterIds.length >= 3) return [];
  const observers = seen.nodes.filter(({ quorum }) => quorum?.role === "observer").map(({ nodeId }) => nodeId);
  const wanted = observers.filter((nodeId) => !voterIds.includes(nodeId)).slice(0, 3 - voterIds.length);
  if (voterIds.length + wanted.length < 3) return [];
  const commands = wanted.map((nodeId) => `ottla quorum add ${nodeId}`).join(", ");
  return [`the metadata is held by ${counted(voterIds.length, "voter")}; to bear the loss of one node: ${commands}`];
}
