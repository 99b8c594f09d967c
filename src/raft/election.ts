// Elections: waiting, asking beforehand (pre-vote), campaigning, voting. Raft paper 5.2 and 5.4.1, thesis 4.2.3 and 9.6.
import { mutant } from "../base/mutant.ts";
import { voteOutcome } from "./quorum.ts";
import { becomeLeader } from "./leader.ts";
import type { RaftState } from "./raft-state.ts";
import { nextTerm, nodeIdOf, type ReplicaId, type VoteRequest, type VoteResponse } from "./types.ts";

export function tickElection(state: RaftState): void {
  if (state.role.kind === "leader" || state.tick < state.electionTick) return;
  state.waitForVotes();
  if (!canCampaign(state)) {
    // It cannot do anything about it, but it does not send others to a leader that is gone.
    if (state.role.kind === "follower") state.role.leader = null;
    return;
  }
  if (mutant("M33r")) campaign(state, { isTransfer: false });
  else preCampaign(state);
}

/**
 * Only a voter, and only with something in its log (D-20). One that the newest configuration leaves out still campaigns while
 * it does not know that configuration to be committed: its log may be the only one that can win (thesis 4.2.2).
 */
export function canCampaign({ self, log, configurations, isVoter }: RaftState): boolean {
  if (log.end === 0) return false;
  const { latestIndex } = configurations;
  return isVoter || (latestIndex >= log.commitEnd && configurations.at(latestIndex).voters.includes(self));
}

/** Asks whether it could win, without spending a term: a node that is cut off comes back without disturbing anybody. */
function preCampaign(state: RaftState): void {
  const votes = new Map([[state.self, true]]);
  state.role = { kind: "preCandidate", votes };
  if (voteOutcome(state.configuration.voters, votes) === "won") {
    campaign(state, { isTransfer: false });
    return;
  }
  const { end, lastTerm } = state.log;
  const term = nextTerm(state.term);
  for (const to of otherVoters(state))
    state.messages.push({
      kind: "voteRequest",
      from: state.self,
      to,
      term,
      isPreVote: true,
      isTransfer: false,
      end,
      lastTerm,
    });
}

/** Spends a term. The own vote counts, and the others are asked, once it is durable. */
export function campaign(state: RaftState, { isTransfer }: { readonly isTransfer: boolean }): void {
  state.setTerm(nextTerm(state.term));
  state.voteFor(state.self);
  state.role = { kind: "candidate", votes: new Map() };
  state.waitForVotes();
  state.sendAfterSync({ kind: "voteResponse", to: state.self, isPreVote: false, isGranted: true });
  const { end, lastTerm } = state.log;
  for (const to of otherVoters(state))
    state.sendAfterSync({ kind: "voteRequest", to, isPreVote: false, isTransfer, end, lastTerm });
}

const otherVoters = (state: RaftState): ReplicaId[] => state.configuration.voters.filter((id) => id !== state.self);

/**
 * True when the request is not even looked at, and its term not adopted: a leader is alive. The leader itself asking for a
 * vote in a later term is the best proof that it leads no more: it restarted (D-1), or stepped down.
 */
export function isDisturbance(state: RaftState, { from, isTransfer }: VoteRequest): boolean {
  const { role } = state;
  if (role.kind === "follower" && role.leader === from) role.leader = null;
  return !isTransfer && state.hasLiveLeader && !mutant("M33r");
}

export function refuseVote(state: RaftState, request: VoteRequest): void {
  state.sendInTerm({ kind: "voteResponse", to: request.from, isPreVote: request.isPreVote, isGranted: false });
}

/** Called with the request's term adopted, or, for a pre-vote, with a term below the one asked for. */
export function handleVoteRequest(state: RaftState, request: VoteRequest): void {
  const isFree =
    request.isPreVote || state.votedFor === request.from || (state.votedFor === null && state.leader === null);
  const mayVote = state.log.end > 0 && !isReplaced(state, request.from);
  if (!isFree || !mayVote || !state.log.isUpToDate(request)) {
    refuseVote(state, request);
    return;
  }
  if (request.isPreVote) {
    const { from: to, term } = request;
    state.messages.push({ kind: "voteResponse", from: state.self, to, term, isPreVote: true, isGranted: true });
    return;
  }
  state.voteFor(request.from);
  state.waitForLeader();
  const answer = { kind: "voteResponse", to: request.from, isPreVote: false, isGranted: true } as const;
  if (mutant("M16")) state.send(answer);
  else state.sendAfterSync(answer);
}

/** The same node is a member with another disk: this one's past is gone, its voice too (D-20). */
function isReplaced({ configuration: { voters, learners } }: RaftState, candidate: ReplicaId): boolean {
  if (voters.includes(candidate) || learners.includes(candidate)) return false;
  const nodeId = nodeIdOf(candidate);
  return voters.some((id) => nodeIdOf(id) === nodeId) || learners.some((id) => nodeIdOf(id) === nodeId);
}

export function handleVoteResponse(state: RaftState, response: VoteResponse): void {
  const { role } = state;
  const isAsked = response.isPreVote
    ? role.kind === "preCandidate" && (!response.isGranted || response.term === nextTerm(state.term))
    : role.kind === "candidate" && response.term === state.term;
  if (!isAsked || (role.kind !== "preCandidate" && role.kind !== "candidate")) return;
  role.votes.set(response.from, response.isGranted);
  switch (voteOutcome(state.configuration.voters, role.votes)) {
    case "won":
      if (role.kind === "preCandidate") campaign(state, { isTransfer: false });
      else becomeLeader(state);
      return;
    case "lost":
      state.becomeFollower(state.term, null);
      return;
    case "open":
  }
}
