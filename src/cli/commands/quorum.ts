// ottla quorum status|add|remove|replace|transfer|upgrade: who votes on the metadata of the cluster, and who leads them.
import type { Admin, BrokerInfo, Client, QuorumInfo, VoterInfo, VoterOptions } from "../../client/types.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { timeoutOf, withClient } from "../client.ts";
import type { Invocation } from "../invocation.ts";
import type { GlobalFlags, Output } from "../output.ts";
import { parseInteger, UsageError } from "../values.ts";

/** The brokers are nice to have; with too few voters nobody tells them. */
const BROKERS_TIMEOUT_MS = 1_000;
/** Without a sign for so long a voter counts as away. */
const SILENT_MS = 3_000;

export async function quorumStatus({ flags, output }: Invocation): Promise<number> {
  return withClient(flags, async (client) => {
    const admin = client.admin();
    const quorum = await admin.describeQuorum({ timeoutMs: timeoutOf(flags) });
    const brokers = await brokersOf(client);
    const observers = brokers.filter((broker) => quorum.voters.every((voter) => voter.nodeId !== broker.nodeId));
    if (output.isJson) {
      output.json("quorum.status", { ...quorum, leaderId: quorum.leaderId < 0 ? null : quorum.leaderId, observers });
    } else {
      output.note(headline(quorum));
      const rows = [...quorum.voters.map((voter) => voterRow(voter, quorum, brokers)), ...observers.map(observerRow)];
      output.table({ headers: COLUMNS, rows, right: [0, 4, 5, 6] });
    }
    return quorum.leaderId < 0 ? EXIT.UNHEALTHY : EXIT.OK;
  });
}

async function brokersOf(client: Client): Promise<readonly BrokerInfo[]> {
  const asked = client.admin().describeCluster({ timeoutMs: BROKERS_TIMEOUT_MS });
  return await asked.then(
    ({ brokers }) => brokers,
    () => [],
  );
}

export function headline(quorum: QuorumInfo): string {
  const { clusterId, leaderId, term, commitEnd, metadataVersion, supportedVersions, waitingFor } = quorum;
  if (clusterId === null) {
    return waitingFor === null ? "no cluster yet" : `no cluster yet: node ${quorum.nodeId} says: ${waitingFor}`;
  }
  const { min, max } = supportedVersions;
  const isFromLeader = quorum.nodeId === leaderId;
  const parts = [
    `cluster ${clusterId}`,
    leaderId < 0 ? "no leader" : `leader ${leaderId}`,
    `term ${term}`,
    `committed ${commitEnd}`,
    `metadata.version ${metadataVersion} (node ${quorum.nodeId} supports ${min} to ${max})`,
  ];
  if (!isFromLeader) parts.push(`as node ${quorum.nodeId} knows it`);
  if (waitingFor !== null) parts.push(`node ${quorum.nodeId} says: ${waitingFor}`);
  return parts.join("  ");
}

const COLUMNS = ["NODE", "ROLE", "STATE", "ADDRESS", "END", "LAG", "HEARD", "DIRECTORY"];

const known = (value: number, unit = "") => (value < 0 ? "-" : `${value}${unit}`);

function voterRow(voter: VoterInfo, quorum: QuorumInfo, brokers: readonly BrokerInfo[]): string[] {
  const isLeader = voter.nodeId === quorum.leaderId;
  const address = brokers.find((broker) => broker.nodeId === voter.nodeId)?.address ?? "-";
  return [
    String(voter.nodeId),
    isLeader ? "leader" : voter.isLearner ? "learner" : "voter",
    stateOf(voter, isLeader),
    address,
    known(voter.endOffset),
    known(voter.lagEntries),
    isLeader ? "-" : known(voter.lagMs, "ms"),
    voter.directoryId,
  ];
}

function stateOf({ isRefused, lagMs }: VoterInfo, isLeader: boolean): string {
  if (isRefused) return "refused";
  if (isLeader) return "ok";
  if (lagMs < 0) return "unknown";
  return lagMs > SILENT_MS ? "silent" : "ok";
}

function observerRow(broker: BrokerInfo): string[] {
  return [String(broker.nodeId), "observer", broker.isFenced ? "fenced" : "ok", broker.address, "-", "-", "-", "-"];
}

export interface VoterFlags {
  readonly directoryId?: string;
}

type Change = (admin: Admin, nodeId: number, options: VoterOptions) => Promise<void>;

export const quorumAdd = (invocation: Invocation<VoterFlags>) =>
  change(invocation, "add", { done: "votes", act: (admin, nodeId, options) => admin.addVoter(nodeId, options) });
export const quorumRemove = (invocation: Invocation<VoterFlags>) =>
  change(invocation, "remove", {
    done: "votes no more",
    act: (admin, nodeId, options) => admin.removeVoter(nodeId, options),
  });
export const quorumReplace = (invocation: Invocation<VoterFlags>) =>
  change(invocation, "replace", {
    done: "votes on its new disk",
    act: (admin, nodeId, options) => admin.replaceVoter(nodeId, options),
  });
export const quorumTransfer = (invocation: Invocation<VoterFlags>) =>
  change(invocation, "transfer", {
    done: "leads",
    act: (admin, nodeId, options) => admin.transferLeadership(nodeId, options),
  });

async function change(
  { args, flags, output }: Invocation<VoterFlags>,
  verb: string,
  { act, done }: { readonly act: Change; readonly done: string },
): Promise<number> {
  const nodeId = parseInteger(args[0] ?? "", "a node", { min: 0, max: 2 ** 31 - 1 });
  return withClient(flags, async (client) => {
    const admin = client.admin();
    const { directoryId } = flags;
    const wish = directoryId === undefined ? timeLimitOf(flags) : { ...timeLimitOf(flags), directoryId };
    await act(admin, nodeId, wish);
    if (output.isJson) output.json(`quorum.${verb}`, { nodeId });
    else output.line(`${nodeId}\t${done}`);
    return EXIT.OK;
  });
}

/** A voter that has to catch up may take its time, unless the caller says otherwise. */
const timeLimitOf = (flags: GlobalFlags) => (flags.timeout === undefined ? {} : { timeoutMs: timeoutOf(flags) });

export interface UpgradeFlags {
  readonly to?: string;
}

export async function quorumUpgrade({ flags, output }: Invocation<UpgradeFlags>): Promise<number> {
  const wanted = flags.to === undefined ? undefined : parseInteger(flags.to, "--to", { min: 1, max: 2 ** 31 - 1 });
  return withClient(flags, async (client) => {
    const admin = client.admin();
    const timeoutMs = timeoutOf(flags);
    const { metadataVersion: from, supportedVersions } = await admin.describeQuorum({ timeoutMs });
    const to = wanted ?? supportedVersions.max;
    if (to < from) throw new UsageError(`metadata.version is ${from}: it is never lowered`);
    if (to > from) await admin.raiseMetadataVersion(to, { timeoutMs });
    tellUpgrade(output, from, to);
    return EXIT.OK;
  });
}

function tellUpgrade(output: Output, from: number, to: number): void {
  if (output.isJson) output.json("quorum.upgrade", { from, to });
  else output.line(from === to ? `metadata.version is ${to} already` : `metadata.version ${from} -> ${to}`);
}
