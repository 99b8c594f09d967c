// What the host asks of a leader: append a command, change the members, hand over, read.
import { mutant } from "../base/mutant.ts";
import { changeConfiguration, type ConfChange } from "./configuration.ts";
import { appendOwn, maybeHandOver } from "./leader.ts";
import type { LeaderRole, RaftState } from "./raft-state.ts";
import type { ProposeResult, ReplicaId, RequestResult, Term } from "./types.ts";

export interface Proposal {
  readonly bytes: Uint8Array;
  /** The term that the proposer decided in: refused when this node leads in another one by now. */
  readonly term?: Term;
}

export function propose(state: RaftState, { bytes, term = state.term }: Proposal): ProposeResult {
  const { role } = state;
  if (role.kind !== "leader" || term !== state.term) return { kind: "notLeader", leader: state.leader };
  const busy = reasonToWait(state, role, bytes.length);
  if (busy !== undefined) return { kind: "busy", reason: busy };
  const index = state.log.end;
  appendOwn(state, role, { kind: "command", index, term, bytes });
  return { kind: "accepted", index, term };
}

function reasonToWait({ log, settings }: RaftState, role: LeaderRole, sizeBytes: number): string | undefined {
  if (role.transfer !== null) return `leadership goes to ${role.transfer.target}`;
  const waiting = log.end - log.commitEnd;
  if (waiting >= settings.uncommittedEntriesMax) return `${waiting} entries wait for a majority`;
  // One proposal is always let in, however large: its size is the host's business.
  if (waiting > 0 && role.uncommittedBytes + sizeBytes > settings.uncommittedBytesMax)
    return `${role.uncommittedBytes} bytes wait for a majority`;
  return undefined;
}

export function proposeConfChange(state: RaftState, change: ConfChange): ProposeResult {
  const { role } = state;
  if (role.kind !== "leader") return { kind: "notLeader", leader: state.leader };
  const busy = reasonToWait(state, role, 0) ?? reasonNotToChange(state, role, change);
  if (busy !== undefined) return { kind: "busy", reason: busy };
  const outcome = changeConfiguration(state.configuration, change);
  if (outcome.kind === "refused") return outcome;
  const index = state.log.end;
  appendOwn(state, role, { kind: "configuration", index, term: state.term, configuration: outcome.configuration });
  return { kind: "accepted", index, term: state.term };
}

/** one at a time, only once something of this term is committed, and a learner only when it has caught up. */
function reasonNotToChange(state: RaftState, role: LeaderRole, change: ConfChange): string | undefined {
  const { log, configurations, settings } = state;
  if (log.commitEnd <= role.termStart) return `nothing of term ${state.term} is committed yet`;
  if (configurations.latestIndex >= log.commitEnd && !mutant("M18"))
    return `the change at ${configurations.latestIndex} is not committed yet`;
  if (change.kind !== "promote") return undefined;
  const progress = role.peers.get(change.replica);
  if (progress === undefined) return undefined;
  const { matchEnd } = progress;
  const lag = log.end - matchEnd;
  // However short the log: a voter without anything in its own would not vote (D-20), and be missed when another one dies.
  return matchEnd === 0 || lag > settings.promotionLagMax ? `${change.replica} lacks ${lag} entries` : undefined;
}

export function transferLeadership(state: RaftState, target: ReplicaId): RequestResult {
  const { role } = state;
  if (role.kind !== "leader") return { kind: "notLeader", leader: state.leader };
  if (target === state.self) return { kind: "refused", reason: `${target} leads already` };
  if (!state.configuration.voters.includes(target)) return { kind: "refused", reason: `${target} is no voter` };
  if (role.transfer !== null) return { kind: "busy", reason: `leadership goes to ${role.transfer.target}` };
  role.transfer = { target, deadlineTick: state.tick + state.settings.electionTicksMax };
  maybeHandOver(state, role);
  return { kind: "started" };
}

/** The answer comes in Ready.reads under this token. */
export function readIndex(state: RaftState, token: number): RequestResult {
  const { role } = state;
  if (role.kind !== "leader") return { kind: "notLeader", leader: state.leader };
  const waiting = role.waitingReads.length + role.confirmingReads.length;
  if (waiting >= state.settings.waitingReadsMax) return { kind: "busy", reason: `${waiting} reads wait` };
  // A new leader does not know what is committed before an entry of its own term is.
  if (state.log.commitEnd <= role.termStart) role.waitingReads.push(token);
  else role.confirmingReads.push({ token, end: state.log.commitEnd, round: role.round + 1 });
  return { kind: "started" };
}
