// A leader: copies its log to the others, counts, commits. Raft paper 5.3, 5.4.2, 6; thesis 3.10, 6.2, 6.4.
import { assert, present } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import { Progress } from "./progress.ts";
import { majorityValue } from "./quorum.ts";
import type { LeaderRole, RaftState } from "./raft-state.ts";
import { sendSnapshotChunk, startSnapshot } from "./snapshots.ts";
import {
  type AppendMatched,
  type AppendRefused,
  type Entry,
  entrySizeBytes,
  type HeartbeatResponse,
  type ReplicaId,
} from "./types.ts";

export function becomeLeader(state: RaftState): void {
  const role: LeaderRole = {
    kind: "leader",
    peers: new Map(),
    termStart: state.log.end,
    sinceTick: state.tick,
    transfer: null,
    uncommittedBytes: 0,
    waitingReads: [],
    confirmingReads: [],
    round: 0,
  };
  for (let index = state.log.commitEnd; index < state.log.end; index++)
    role.uncommittedBytes += entrySizeBytes(state.log.at(index));
  state.role = role;
  state.incoming = null;
  followConfiguration(state, role);
  appendOwn(state, role, { kind: "leaderStart", index: state.log.end, term: state.term });
  sendHeartbeats(state, role);
}

export function appendOwn(state: RaftState, role: LeaderRole, entry: Entry): void {
  state.appendEntry(entry);
  role.uncommittedBytes += entrySizeBytes(entry);
  if (entry.kind === "configuration") followConfiguration(state, role);
}

/** Peers = members of the newest configuration without this node. */
function followConfiguration(state: RaftState, role: LeaderRole): void {
  const { voters, learners } = state.configuration;
  const members = new Set([...voters, ...learners]);
  for (const id of role.peers.keys()) if (!members.has(id)) role.peers.delete(id);
  for (const id of members)
    if (id !== state.self && !role.peers.has(id))
      role.peers.set(id, new Progress({ nextIndex: state.log.end, tick: state.tick }));
  if (role.transfer !== null && !voters.includes(role.transfer.target)) role.transfer = null;
}

/** `writingSinceTick`: since when the oldest write under way is; undefined: there is none. */
export function tickLeader(state: RaftState, role: LeaderRole, writingSinceTick: number | undefined): void {
  const { heartbeatTicks, electionTicksMax } = state.settings;
  if (role.transfer !== null && state.tick >= role.transfer.deadlineTick) role.transfer = null;
  if (hasLostQuorum(state, role)) {
    state.becomeFollower(state.term, null);
    return;
  }
  if (writingSinceTick !== undefined && state.tick - writingSinceTick >= electionTicksMax) handOverSlowly(state, role);
  const isHeartbeatDue = (state.tick - role.sinceTick) % heartbeatTicks === 0;
  if (isHeartbeatDue) sendHeartbeats(state, role);
  for (const [to, progress] of role.peers) {
    // What was not answered is asked again: an append with the heartbeat, a chunk, which is longer, later.
    if (progress.state.kind === "probe" && isHeartbeatDue) progress.state.isWaiting = false;
    if (progress.state.kind === "snapshot" && state.tick - progress.state.sentTick >= electionTicksMax)
      sendSnapshotChunk(state, to, progress);
  }
}

/**
 * Its disk has not done one write in an election timeout: what is committed without it cannot be applied here, so nothing is decided. Another voter
 * had better lead, if there is one whose disk has what this one lacks: where all are slow, to move changes nothing.
 */
function handOverSlowly(state: RaftState, role: LeaderRole): void {
  if (role.transfer !== null) return;
  const { electionTicksMin } = state.settings;
  const isThere = (peer: Progress | undefined): boolean =>
    peer !== undefined && state.tick - peer.contactTick < electionTicksMin && peer.matchEnd > state.log.durableEnd;
  const fit = state.configuration.voters.filter((id) => isThere(role.peers.get(id)));
  const [best] = fit.toSorted(
    (one, other) => (role.peers.get(other)?.matchEnd ?? 0) - (role.peers.get(one)?.matchEnd ?? 0),
  );
  if (best === undefined) return;
  role.transfer = { target: best, deadlineTick: state.tick + state.settings.electionTicksMax };
  maybeHandOver(state, role);
}

/** Check-quorum: no word from a majority, this node counted, for a whole election timeout. Never with one voter. */
function hasLostQuorum(state: RaftState, role: LeaderRole): boolean {
  const contactTick = majorityValue(valuesOfVoters(state, role, { own: state.tick, of: (peer) => peer.contactTick }));
  return state.configuration.voters.length > 0 && state.tick - contactTick >= state.settings.electionTicksMax;
}

/** One value a voter; for this node `own`, if it votes. */
function valuesOfVoters(
  { self, configuration }: RaftState,
  role: LeaderRole,
  value: { readonly own: number; readonly of: (peer: Progress) => number },
): number[] {
  return configuration.voters.map((id) =>
    id === self ? value.own : value.of(present(role.peers.get(id), `peer ${id}`)),
  );
}

export function sendHeartbeats(state: RaftState, role: LeaderRole): void {
  const { commitEnd } = state.log;
  for (const [to, progress] of role.peers) {
    state.send({ kind: "heartbeat", to, commitEnd: Math.min(commitEnd, progress.matchEnd), round: role.round });
  }
}

/** Sends each peer what it lacks and may get now. Called once for all that happened since the last ready. */
export function sendEntries(state: RaftState, role: LeaderRole): void {
  for (const [to, progress] of role.peers) {
    while (progress.canSend(state.settings) && hasNews(state, progress)) {
      const before = progress.nextIndex;
      sendAppend(state, to, progress);
      if (progress.state.kind !== "replicate" || progress.nextIndex === before) break;
    }
  }
}

function hasNews(state: RaftState, progress: Progress): boolean {
  if (progress.state.kind === "probe") return true;
  return (
    progress.nextIndex < state.log.end || progress.sentCommitEnd < Math.min(state.log.commitEnd, progress.nextIndex)
  );
}

function sendAppend(state: RaftState, to: ReplicaId, progress: Progress): void {
  const start = progress.nextIndex;
  const prevTerm = state.log.termBefore(start);
  if (prevTerm === undefined) {
    startSnapshot(state, to, progress);
    return;
  }
  const { entriesPerMessageMax, bytesPerMessageMax: bytesMax, electionTicksMax } = state.settings;
  // To a peer that has been silent for long only the question goes, not the entries again and again.
  const isSilent = progress.state.kind === "probe" && state.tick - progress.contactTick > electionTicksMax;
  const entriesMax = isSilent ? 0 : entriesPerMessageMax;
  const entries = state.log.slice(start, { entriesMax, bytesMax });
  const end = start + entries.length;
  const { commitEnd } = state.log;
  state.send({ kind: "append", to, start, prevTerm, entries, commitEnd });
  progress.sentCommitEnd = Math.min(commitEnd, end);
  progress.sent({ end, sizeBytes: entries.reduce((sum, entry) => sum + entrySizeBytes(entry), 0) });
}

export function handleAppendMatched(state: RaftState, role: LeaderRole, { from, end }: AppendMatched): void {
  const progress = role.peers.get(from);
  if (progress === undefined) return;
  // More than this log holds: a peer that is not what it says. It is heard, not believed.
  if (end > state.log.end) return;
  progress.contactTick = state.tick;
  if (progress.matched(end)) maybeCommit(state, role);
  maybeHandOver(state, role);
}

export function handleAppendRefused(state: RaftState, role: LeaderRole, refusal: AppendRefused): void {
  const progress = role.peers.get(refusal.from);
  if (progress === undefined) return;
  progress.contactTick = state.tick;
  const isStale =
    progress.state.kind === "snapshot" ||
    (progress.state.kind === "probe" ? refusal.start !== progress.nextIndex : refusal.start <= progress.matchEnd);
  if (isStale) return;
  const { hintEnd: end, hintTerm: lastTerm } = refusal;
  progress.becomeProbe(Math.min(state.log.lastPossibleMatch({ end, lastTerm }), Math.max(refusal.start - 1, 0)));
}

export function handleHeartbeatResponse(state: RaftState, role: LeaderRole, response: HeartbeatResponse): void {
  const progress = role.peers.get(response.from);
  if (progress === undefined) return;
  progress.contactTick = state.tick;
  progress.answeredRound = Math.max(progress.answeredRound, response.round);
  if (progress.state.kind === "replicate" && progress.matchEnd < progress.nextIndex)
    askForGap(state, response.from, progress);
  confirmReads(state, role);
  maybeHandOver(state, role);
}

/** What was in flight may be lost: an empty append at the end of it is refused if so, and matched if only answers were lost. */
function askForGap(state: RaftState, to: ReplicaId, progress: Progress): void {
  const start = progress.nextIndex;
  const prevTerm = state.log.termBefore(start);
  // Cut off here meanwhile, by a snapshot: what the peer has acknowledged decides where to go on.
  if (prevTerm === undefined) progress.becomeProbe(progress.matchEnd);
  else state.send({ kind: "append", to, start, prevTerm, entries: [], commitEnd: state.log.commitEnd });
}

/** Commits what a majority holds durably, if its last entry is of this term: older ones come along with it (5.4.2). */
export function maybeCommit(state: RaftState, role: LeaderRole): void {
  const { log } = state;
  const end = majorityValue(valuesOfVoters(state, role, { own: log.durableEnd, of: (peer) => peer.matchEnd }));
  if (end <= log.commitEnd) return;
  const isOwnTerm = log.termBefore(end) === state.term;
  if (!isOwnTerm && !mutant("M17")) return;
  for (let index = log.commitEnd; index < end; index++) role.uncommittedBytes -= entrySizeBytes(log.at(index));
  log.commitTo(end);
  afterCommit(state, role);
}

function afterCommit(state: RaftState, role: LeaderRole): void {
  const { log, configurations } = state;
  if (!state.isVoter && configurations.latestIndex < log.commitEnd) {
    // Removed, and the others agreed (6): the one that is furthest goes first, so that nobody waits for a timeout.
    sendEntries(state, role);
    nudgeSuccessor(state, role);
    state.becomeFollower(state.term, null);
    return;
  }
  if (role.waitingReads.length > 0 && log.commitEnd > role.termStart) {
    const waiting = role.waitingReads;
    role.waitingReads = [];
    for (const token of waiting) role.confirmingReads.push({ token, end: log.commitEnd, round: role.round + 1 });
  }
}

/** Asks the voter with the longest log to campaign at once: when this leader cannot go on. */
export function nudgeSuccessor(state: RaftState, role: LeaderRole): void {
  let best: readonly [ReplicaId, Progress] | undefined;
  for (const pair of role.peers)
    if (state.configuration.voters.includes(pair[0]) && (best === undefined || pair[1].matchEnd > best[1].matchEnd))
      best = pair;
  if (best !== undefined) state.send({ kind: "timeoutNow", to: best[0] });
}

/** The target of a transfer campaigns as soon as it has everything. Asked again at each answer: the request may get lost. */
export function maybeHandOver(state: RaftState, role: LeaderRole): void {
  if (role.transfer === null || state.role !== role) return;
  const { target } = role.transfer;
  if (role.peers.get(target)?.matchEnd === state.log.end) state.send({ kind: "timeoutNow", to: target });
}

/** Starts a round of heartbeats if a read waits for one. */
export function askForReads(state: RaftState, role: LeaderRole): void {
  const last = role.confirmingReads.at(-1);
  if (last !== undefined && last.round > role.round) {
    role.round = last.round;
    sendHeartbeats(state, role);
  }
  confirmReads(state, role);
}

/** A majority answered after the read came in, so no other leader had begun before it did (thesis 6.4). */
function confirmReads(state: RaftState, role: LeaderRole): void {
  if (role.confirmingReads.length === 0) return;
  const round = majorityValue(
    valuesOfVoters(state, role, { own: role.round, of: ({ answeredRound }) => answeredRound }),
  );
  let count = 0;
  for (const { token, end, round: asked } of role.confirmingReads) {
    if (asked > round) break;
    assert(end <= state.log.commitEnd, `read at ${end}, committed ${state.log.commitEnd}`);
    state.reads.push({ kind: "readable", token, end });
    count++;
  }
  if (count > 0) role.confirmingReads = role.confirmingReads.slice(count);
}
