// The cluster and its quorum: who is in it, who leads it, and changes of both.
import type { DirectoryId, NodeId } from "../model/ids.ts";
import { asOttlaError, type ErrorName, OttlaError } from "../model/errors.ts";
import { API, type ApiTypes, type ChangeQuorumRequest } from "../wire/native/apis.ts";
import type {
  BrokerInfo,
  CallOptions,
  ClusterInfo,
  QuorumInfo,
  UnregisterOptions,
  VoterInfo,
  VoterOptions,
} from "./admin-types.ts";
import { CALL_TIMEOUT_MS, callAny } from "./calls.ts";
import type { ClientContext } from "./context.ts";
import { changeAtController, connectToNode, refreshCluster } from "./controller.ts";
import { aBoolean, aDuration, anInteger, aText, type Checks, checkOptions, invalid } from "./options.ts";

type Described = ApiTypes[typeof API.DESCRIBE_QUORUM]["response"];

const CALL_CHECKS: Checks<CallOptions> = { timeoutMs: aDuration() };
const VOTER_CHECKS: Checks<VoterOptions> = { timeoutMs: aDuration(), directoryId: aText };
const UNREGISTER_CHECKS: Checks<UnregisterOptions> = { timeoutMs: aDuration(), force: aBoolean };
/** A new voter has to catch up first. */
const CHANGE_TIMEOUT_MS = 60_000;
const CHANGE_TRY_MS = 20_000;
/** For one node to say what it knows; then what others know has to do. */
const NODE_TIMEOUT_MS = 2_000;

export async function describeCluster(context: ClientContext, options: CallOptions): Promise<ClusterInfo> {
  checkOptions("describeCluster", options, CALL_CHECKS);
  const { timeoutMs = CALL_TIMEOUT_MS } = options;
  const { clusterId, controllerId, brokers } = await refreshCluster(context, timeoutMs);
  const quorum = await describeQuorum(context, options).catch((thrown: unknown) => {
    if (asOttlaError(thrown).code === "UNSUPPORTED_VERSION") return null;
    throw thrown;
  });
  const described = brokers.map((broker) => ({ ...broker, role: roleOf(broker.nodeId, controllerId, quorum) }));
  return { clusterId, controllerId, brokers: described, metadataVersion: quorum?.metadataVersion ?? 0, quorum };
}

function roleOf(nodeId: number, controllerId: number, quorum: QuorumInfo | null): BrokerInfo["role"] {
  if (nodeId === controllerId) return "controller";
  const member = quorum?.voters.find((voter) => voter.nodeId === nodeId);
  if (member === undefined) return "observer";
  return member.isLearner ? "learner" : "voter";
}

export async function describeQuorum(context: ClientContext, options: CallOptions): Promise<QuorumInfo> {
  checkOptions("describeQuorum", options, CALL_CHECKS);
  const { timeoutMs = CALL_TIMEOUT_MS } = options;
  const answer = await callAny(context, API.DESCRIBE_QUORUM, {}, { timeoutMs });
  if (answer.leaderId === answer.nodeId) return quorumInfoOf(answer);
  return quorumInfoOf((await askOthers(context, answer)) ?? answer);
}

/** What the leader says; where none is known, what the node says that knows most. undefined: nobody knows more. */
async function askOthers(context: ClientContext, first: Described): Promise<Described | undefined> {
  if (first.leaderId >= 0) {
    const answer = await askNode(context, first.leaderId);
    if (answer?.leaderId === first.leaderId) return answer;
  }
  if (context.pool.nodeIds.length === 0) await refreshCluster(context, NODE_TIMEOUT_MS).catch(() => undefined);
  const nodeIds = context.pool.nodeIds.filter((nodeId) => nodeId !== first.nodeId);
  const answers = await Promise.all(nodeIds.map((nodeId) => askNode(context, nodeId)));
  const better = answers
    .filter((answer) => answer !== undefined)
    .toSorted((left, right) => rankOf(right) - rankOf(left));
  return better.find((answer) => rankOf(answer) > rankOf(first));
}

/** A leader's word counts most, then that of who knows one; of two leaders that of the later term. */
const rankOf = ({ leaderId, nodeId, term }: Described): number =>
  leaderId < 0 ? -1 : leaderId === nodeId ? 2 ** 50 + term : term;

/** undefined: it cannot be reached. */
async function askNode(context: ClientContext, nodeId: number): Promise<Described | undefined> {
  const late = () => new OttlaError("CONNECTION_FAILED");
  const asking = connectToNode(context, nodeId, NODE_TIMEOUT_MS).then((connection) =>
    connection.call(API.DESCRIBE_QUORUM, {}, NODE_TIMEOUT_MS, { isPatient: true }),
  );
  return await context.alarms.within(asking, NODE_TIMEOUT_MS, late).catch(() => undefined);
}

function quorumInfoOf(answer: Described): QuorumInfo {
  const { clusterId, nodeId, role, leaderId, term, commitEnd, metadataVersion, waitingFor } = answer;
  return {
    clusterId,
    nodeId,
    role,
    leaderId,
    term,
    commitEnd,
    metadataVersion,
    supportedVersions: { min: answer.versionsMin, max: answer.versionsMax },
    voters: answer.voters.map((voter) => voterInfoOf(voter, commitEnd)),
    waitingFor,
  };
}

function voterInfoOf({ replicaId, end, ...rest }: Described["voters"][number], commitEnd: number): VoterInfo {
  const at = replicaId.indexOf(":");
  return {
    ...rest,
    nodeId: Number(replicaId.slice(0, at)),
    directoryId: replicaId.slice(at + 1),
    endOffset: end,
    lagEntries: end < 0 ? -1 : Math.max(0, commitEnd - end),
  };
}

/** Said when the quorum is as it should be already: after a try that was not answered, that is what was wanted. */
const ALREADY: Readonly<Record<ChangeQuorumRequest["op"], ErrorName | undefined>> = {
  add: "DUPLICATE_VOTER",
  replace: "DUPLICATE_VOTER",
  remove: "VOTER_NOT_FOUND",
  transfer: undefined,
};

export async function changeQuorum(
  context: ClientContext,
  op: ChangeQuorumRequest["op"],
  nodeId: number,
  options: VoterOptions,
): Promise<void> {
  checkNodeId(nodeId);
  checkOptions("quorum change", options, VOTER_CHECKS);
  const { timeoutMs = CHANGE_TIMEOUT_MS } = options;
  const directoryId = (options.directoryId ?? null) as DirectoryId | null;
  const call = { timeoutMs, tryTimeoutMs: CHANGE_TRY_MS, isRepeatable: () => true };
  try {
    await changeAtController(context, API.CHANGE_QUORUM, { op, nodeId: nodeId as NodeId, directoryId }, call);
  } catch (thrown) {
    const error = asOttlaError(thrown);
    if (error.outcome !== "unknown" || error.code !== ALREADY[op]) throw error;
  }
}

export async function unregisterBroker(
  context: ClientContext,
  nodeId: number,
  options: UnregisterOptions,
): Promise<void> {
  checkNodeId(nodeId);
  checkOptions("unregisterBroker", options, UNREGISTER_CHECKS);
  const { timeoutMs = CALL_TIMEOUT_MS, force = false } = options;
  const request = { nodeId: nodeId as NodeId, isForced: force };
  try {
    await changeAtController(context, API.UNREGISTER_BROKER, request, { timeoutMs, isRepeatable: () => true });
  } catch (thrown) {
    const error = asOttlaError(thrown);
    if (error.outcome !== "unknown" || error.code !== "BROKER_ID_NOT_REGISTERED") throw error;
  }
}

export async function raiseMetadataVersion(
  context: ClientContext,
  version: number,
  options: CallOptions,
): Promise<void> {
  const takes = anInteger(1, 2 ** 31 - 1)(version);
  if (takes !== undefined) throw invalid("version", takes, version);
  checkOptions("raiseMetadataVersion", options, CALL_CHECKS);
  const { timeoutMs = CALL_TIMEOUT_MS } = options;
  try {
    await changeAtController(context, API.RAISE_METADATA_VERSION, { version }, { timeoutMs, isRepeatable: () => true });
  } catch (thrown) {
    const error = asOttlaError(thrown);
    if (error.outcome !== "unknown" || error.code !== "INVALID_UPDATE_VERSION") throw error;
    if ((await describeQuorum(context, options)).metadataVersion !== version) throw error;
  }
}

function checkNodeId(nodeId: number): void {
  const takes = anInteger(0, 2 ** 31 - 1)(nodeId);
  if (takes !== undefined) throw invalid("nodeId", takes, nodeId);
}
