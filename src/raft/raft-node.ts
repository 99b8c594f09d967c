// The Raft core of one node: pure and synchronous. Inputs are method calls, what is to be done comes out of ready().
//
// The host's duties, in this order:
//   1. Start with what the disk holds. An empty disk is `emptyState()`: such a node follows, but neither votes nor campaigns.
//   2. Call tick() every TICK_MS, but never to make up for ticks that a late loop missed (D-22); step() with each message that
//      arrives. Peers are authenticated by the host; entries that arrive are kept, so their bytes must be (D-26).
//   3. After any input: until ready() gives null,
//      a. send `messages`, attaching the bytes of the named snapshot to each snapshotChunk (if it is gone: snapshotGone);
//      b. append `snapshotWrites` to the snapshot's temporary file; after the last, sync it, rename it, sync the directory, and
//         only then call snapshotDurable(meta) (if it is not whole: snapshotSpoilt);
//      c. give `write` to the log's lane. The lane takes the batches in order, and of each: hard state durable -> reset of the
//         log, or cut of its conflicting suffix, durable -> entries appended -> sync -> `messagesAfterSync` sent ->
//         advance({id, stage: "durable"}). One sync may end several batches; none may be skipped. Batches are handed out
//         while earlier ones are under way;
//      d. if `loadSnapshot`, replace the state machine by it; then apply `committed` in order, then call applied(end);
//      e. answer `reads`: each once everything below its `end` is applied.
//   4. A snapshot of its own: beginSnapshot() at the applied end, write it as in b., then snapshotDurable(meta). The newest
//      durable one is kept, and those of snapshotsInUse.
//   5. A write or sync fails: storageFailed(), nothing more of what was under way, and storageRecovered() only when the lane
//      writes again (never after a failed sync: then the process ends).
//   6. The connection to a peer is refused: peerUnreachable(peer) (D-22).
import { assert, assertNever } from "../base/assert.ts";
import type { ConfChange } from "./configuration.ts";
import {
  campaign,
  canCampaign,
  handleVoteRequest,
  handleVoteResponse,
  isDisturbance,
  refuseVote,
  tickElection,
} from "./election.ts";
import { handleAppend, handleHeartbeat } from "./follower.ts";
import {
  askForReads,
  handleAppendMatched,
  handleAppendRefused,
  handleHeartbeatResponse,
  maybeCommit,
  nudgeSuccessor,
  sendEntries,
  tickLeader,
} from "./leader.ts";
import { type Proposal, propose, proposeConfChange, readIndex, transferLeadership } from "./proposals.ts";
import { type RaftDeps, type RaftOptions, RaftState, type Role } from "./raft-state.ts";
import { checkSettings } from "./settings.ts";
import { handleSnapshotChunk, handleSnapshotResponse, snapshotDurable, startSnapshot } from "./snapshots.ts";
import {
  type Configuration,
  type Entry,
  type HardState,
  type Message,
  NO_TERM,
  type ProposeResult,
  type Ready,
  type ReplicaId,
  type RequestResult,
  type RestoredState,
  type SnapshotMeta,
  type Term,
  type WriteBatch,
} from "./types.ts";

/** A disk without anything on it. */
export const emptyState = (): RestoredState => ({
  hardState: { term: NO_TERM, votedFor: null },
  snapshot: null,
  log: { start: 0, startTerm: NO_TERM, entries: [] },
});

/** What every founding voter writes before its first start, the same on all (D-20): entry 0 in term 1, which nobody leads. */
export const foundingState = (configuration: Configuration): RestoredState => ({
  hardState: { term: 1 as Term, votedFor: null },
  snapshot: null,
  log: {
    start: 0,
    startTerm: NO_TERM,
    entries: [{ kind: "configuration", index: 0, term: 1 as Term, configuration }],
  },
});

export interface PeerStatus {
  readonly kind: "probe" | "replicate" | "snapshot";
  readonly matchEnd: number;
  readonly nextIndex: number;
  readonly inFlightCount: number;
  readonly contactTicksAgo: number;
}

interface Outstanding {
  readonly id: number;
  readonly term: Term;
  /** When it was handed out. */
  readonly tick: number;
  /** Messages to this node itself: inputs once the batch is durable. */
  readonly toSelf: readonly Message[];
}

export class RaftNode {
  readonly #state: RaftState;
  #nextBatchId = 1;
  #outstanding: Outstanding[] = [];

  constructor(deps: RaftDeps, options: RaftOptions) {
    checkSettings(options.settings);
    this.#state = new RaftState(deps, options);
    this.#state.log.checkInvariants();
  }

  // --- what it is

  get self(): ReplicaId {
    return this.#state.self;
  }
  get role(): Role["kind"] {
    return this.#state.role.kind;
  }
  get term(): Term {
    return this.#state.term;
  }
  get hardState(): HardState {
    return { term: this.#state.term, votedFor: this.#state.votedFor };
  }
  get leader(): ReplicaId | null {
    return this.#state.leader;
  }
  get configuration(): Configuration {
    return this.#state.configuration;
  }
  /** Accepted, written, durable, committed and applied ends of the log (all exclusive), and its start. */
  get log(): Pick<
    RaftState["log"],
    "start" | "end" | "writtenEnd" | "durableEnd" | "commitEnd" | "appliedEnd" | "lastTerm"
  > {
    return this.#state.log;
  }
  /** True on a leader that knows everything committed before it: the state machine may decide on what is applied. */
  get isLeaderReady(): boolean {
    const { role, log } = this.#state;
    return role.kind === "leader" && log.commitEnd > role.termStart;
  }
  get transferTarget(): ReplicaId | null {
    const { role } = this.#state;
    return role.kind === "leader" ? (role.transfer?.target ?? null) : null;
  }
  get snapshot(): SnapshotMeta | null {
    return this.#state.snapshot;
  }
  /** Ends of the snapshots that are being sent. */
  get snapshotsInUse(): readonly number[] {
    const { role } = this.#state;
    if (role.kind !== "leader") return [];
    return [...role.peers.values()].flatMap(({ state }) => (state.kind === "snapshot" ? [state.snapshot.end] : []));
  }
  /** A leader's view of the other members. */
  peers(): ReadonlyMap<ReplicaId, PeerStatus> {
    const { role, tick } = this.#state;
    if (role.kind !== "leader") return new Map();
    return new Map(
      [...role.peers].map(([id, { state, matchEnd, nextIndex, inFlightCount, contactTick }]) => [
        id,
        { kind: state.kind, matchEnd, nextIndex, inFlightCount, contactTicksAgo: tick - contactTick },
      ]),
    );
  }

  /** For observers (D-21): committed entries from `start` on, within the limits; undefined where only a snapshot has them. */
  committedFrom(
    start: number,
    limits: { readonly entriesMax: number; readonly bytesMax: number },
  ): Entry[] | undefined {
    const { log } = this.#state;
    if (start < log.start) return undefined;
    const entriesMax = Math.min(limits.entriesMax, Math.min(log.commitEnd, log.durableEnd) - start);
    return log.slice(start, { ...limits, entriesMax });
  }

  // --- inputs

  tick(): void {
    const state = this.#state;
    state.tick++;
    if (!state.isDiskWorking) return;
    if (state.role.kind === "leader") tickLeader(state, state.role, this.#outstanding[0]?.tick);
    else tickElection(state);
    this.checkInvariants();
  }

  step(message: Message): void {
    const state = this.#state;
    if (message.to !== state.self || !state.isDiskWorking) return;
    if (this.#isInTerm(message)) this.#handle(message);
    this.checkInvariants();
  }

  propose(proposal: Proposal): ProposeResult {
    const result = propose(this.#state, proposal);
    this.checkInvariants();
    return result;
  }

  proposeConfChange(change: ConfChange): ProposeResult {
    const result = proposeConfChange(this.#state, change);
    this.checkInvariants();
    return result;
  }

  transferLeadership(target: ReplicaId): RequestResult {
    return transferLeadership(this.#state, target);
  }

  readIndex(token: number): RequestResult {
    return readIndex(this.#state, token);
  }

  /** Campaign at once, as if the leader had been silent for long. For tests and for an operator. */
  campaign(): void {
    if (this.#state.role.kind === "leader" || !this.#state.isDiskWorking) return;
    this.#state.electionTick = this.#state.tick;
    tickElection(this.#state);
    this.checkInvariants();
  }

  /** Batch `id` and all before it: "written" survives this process, "durable" the power. */
  advance({ id, stage }: { readonly id: number; readonly stage: "written" | "durable" }): void {
    const state = this.#state;
    assert(id < this.#nextBatchId, `batch ${id} is done, but only ${this.#nextBatchId - 1} were handed out`);
    const isUnknown = !this.#outstanding.some((batch) => batch.id === id);
    if (isUnknown) return;
    if (stage === "written") {
      state.log.written(id);
      return;
    }
    state.log.durable(id);
    const done = this.#outstanding.filter((batch) => batch.id <= id);
    this.#outstanding = this.#outstanding.filter((batch) => batch.id > id);
    for (const { term, toSelf } of done) {
      state.durableTerm = term;
      for (const message of toSelf) this.step(message);
    }
    if (state.role.kind === "leader") maybeCommit(state, state.role);
    this.checkInvariants();
  }

  /** Everything below `end` is in the state machine. */
  applied(end: number): void {
    this.#state.log.applied(end);
  }

  /** The name of a snapshot of what is applied now; undefined when nothing was applied since the last one. */
  beginSnapshot(): Omit<SnapshotMeta, "sizeBytes"> | undefined {
    const { log, configurations, snapshot } = this.#state;
    const end = log.appliedEnd;
    const lastTerm = log.termBefore(end);
    if (end <= (snapshot?.end ?? 0) || lastTerm === undefined) return undefined;
    return { end, lastTerm, configuration: configurations.at(end) };
  }

  snapshotDurable(snapshot: SnapshotMeta): void {
    snapshotDurable(this.#state, snapshot);
    this.checkInvariants();
  }

  /** The snapshot that arrived is not whole or could not be kept: its transfer begins again. */
  snapshotSpoilt(): void {
    this.#state.incoming = null;
  }

  /** The snapshot that a chunk names cannot be read: the peer gets the newest one from its beginning. */
  snapshotGone(peer: ReplicaId): void {
    const { role } = this.#state;
    const progress = role.kind === "leader" ? role.peers.get(peer) : undefined;
    // Told so of the newest one, it waits for a newer: to name it again at once would go round for ever.
    if (progress?.state.kind === "snapshot" && progress.state.snapshot.end !== this.#state.snapshot?.end)
      startSnapshot(this.#state, peer, progress);
  }

  /** D-22: nobody listens where this peer was. Of the leader: it is lost, without waiting for the timeout. */
  peerUnreachable(peer: ReplicaId): void {
    const state = this.#state;
    const { role } = state;
    if (role.kind === "follower" && role.leader === peer) {
      role.leader = null;
      state.waitBriefly();
    }
    const progress = role.kind === "leader" ? role.peers.get(peer) : undefined;
    if (progress?.state.kind === "replicate") progress.becomeProbe(progress.matchEnd);
  }

  /** D-19: whoever cannot write does not lead, vote or answer. What was under way counts for nothing. */
  storageFailed(): void {
    const state = this.#state;
    if (!state.isDiskWorking) return;
    if (state.role.kind === "leader") nudgeSuccessor(state, state.role);
    state.becomeFollower(state.term, null);
    state.isDiskWorking = false;
    this.#outstanding = [];
    state.messagesAfterSync = [];
    state.incoming = null;
  }

  storageRecovered(): void {
    const state = this.#state;
    if (state.isDiskWorking) return;
    state.isDiskWorking = true;
    state.isHardStateDirty = true;
    state.log.restartWrites();
    state.waitForLeader();
    this.checkInvariants();
  }

  // --- outputs

  /** Everything to do now, or null. Taken once; nothing of it comes again, except after storageRecovered(). */
  ready(): Ready | null {
    const state = this.#state;
    this.#pump();
    if (!this.#hasWork) return null;
    const write = this.#takeWrite();
    const { messages, snapshotWrites, loadSnapshot, reads } = state;
    const committed = state.log.takeCommitted(state.settings.applyEntriesMax);
    state.messages = [];
    state.snapshotWrites = [];
    state.loadSnapshot = null;
    state.reads = [];
    this.checkInvariants();
    return { write, messages, snapshotWrites, loadSnapshot, committed, reads };
  }

  get #hasWork(): boolean {
    const state = this.#state;
    return (
      state.messages.length > 0 ||
      state.snapshotWrites.length > 0 ||
      state.loadSnapshot !== null ||
      state.reads.length > 0 ||
      state.log.hasToApply ||
      this.#hasWrite
    );
  }

  get #hasWrite(): boolean {
    const state = this.#state;
    return state.isDiskWorking && (state.isHardStateDirty || state.log.hasWrite || state.messagesAfterSync.length > 0);
  }

  /** Lets a leader send what became sendable. */
  #pump(): void {
    const state = this.#state;
    if (state.role.kind !== "leader") return;
    sendEntries(state, state.role);
    askForReads(state, state.role);
  }

  #takeWrite(): WriteBatch | null {
    const state = this.#state;
    if (!this.#hasWrite) return null;
    const isNothingToWait = !state.isHardStateDirty && !state.log.hasWrite && this.#outstanding.length === 0;
    if (isNothingToWait) {
      state.messages.push(...state.messagesAfterSync);
      state.messagesAfterSync = [];
      return null;
    }
    const id = this.#nextBatchId++;
    const hardState = state.isHardStateDirty ? this.hardState : null;
    const messages = state.messagesAfterSync;
    const write: WriteBatch = {
      id,
      hardState,
      ...state.log.takeWrite(id),
      messagesAfterSync: messages.filter(({ to }) => to !== state.self),
    };
    const toSelf = messages.filter(({ to }) => to === state.self);
    this.#outstanding.push({ id, term: state.term, tick: state.tick, toSelf });
    state.isHardStateDirty = false;
    state.messagesAfterSync = [];
    return write;
  }

  // --- messages

  /** Settles the terms first (5.1): true when the message is of this node's term, or is a question about the next one. */
  #isInTerm(message: Message): boolean {
    const state = this.#state;
    if (message.kind === "voteRequest" && message.term > state.term && isDisturbance(state, message)) {
      if (message.isPreVote) refuseVote(state, message);
      return false;
    }
    if (message.term === state.term)
      return message.kind !== "voteRequest" || !message.isPreVote || this.#refuse(message);
    if (message.term < state.term) return this.#refuse(message);
    const isAboutNextTerm =
      (message.kind === "voteRequest" || message.kind === "voteResponse") &&
      message.isPreVote &&
      (message.kind === "voteRequest" || message.isGranted);
    if (!isAboutNextTerm) state.becomeFollower(message.term, null);
    return true;
  }

  /** An answer of this term tells a deposed leader or a late candidate what it missed. */
  #refuse(message: Message): false {
    const state = this.#state;
    switch (message.kind) {
      case "voteRequest":
        refuseVote(state, message);
        return false;
      case "append":
      case "heartbeat":
      case "snapshotChunk":
        state.sendInTerm({ kind: "heartbeatResponse", to: message.from, round: 0 });
        return false;
      case "voteResponse":
      case "appendMatched":
      case "appendRefused":
      case "heartbeatResponse":
      case "snapshotResponse":
      case "timeoutNow":
        return false;
      default:
        return assertNever(message);
    }
  }

  #handle(message: Message): void {
    const state = this.#state;
    const { role } = state;
    switch (message.kind) {
      case "voteRequest":
        return handleVoteRequest(state, message);
      case "voteResponse":
        return handleVoteResponse(state, message);
      case "append":
        assert(role.kind !== "leader", `two leaders in term ${state.term}: ${state.self} and ${message.from}`);
        return handleAppend(state, message);
      case "heartbeat":
        assert(role.kind !== "leader", `two leaders in term ${state.term}: ${state.self} and ${message.from}`);
        return handleHeartbeat(state, message);
      case "snapshotChunk":
        assert(role.kind !== "leader", `two leaders in term ${state.term}: ${state.self} and ${message.from}`);
        return handleSnapshotChunk(state, message);
      case "appendMatched":
        return role.kind === "leader" ? handleAppendMatched(state, role, message) : undefined;
      case "appendRefused":
        return role.kind === "leader" ? handleAppendRefused(state, role, message) : undefined;
      case "heartbeatResponse":
        return role.kind === "leader" ? handleHeartbeatResponse(state, role, message) : undefined;
      case "snapshotResponse":
        return role.kind === "leader" ? handleSnapshotResponse(state, role, message) : undefined;
      case "timeoutNow":
        if (role.kind === "follower" && role.leader === message.from && canCampaign(state))
          campaign(state, { isTransfer: true });
        return undefined;
      default:
        return assertNever(message);
    }
  }

  // --- assertions

  /** Runs at the end of each input. */
  checkInvariants(): void {
    const fault = faultOf(this.#state);
    assert(fault === undefined, fault ?? "");
  }
}

function faultOf(state: RaftState): string | undefined {
  const { log, role, term, durableTerm, configurations } = state;
  log.checkInvariants();
  const snapshotEnd = state.snapshot?.end ?? 0;
  if (log.lastTerm > term) return `term ${term}, but the log ends in term ${log.lastTerm}`;
  if (durableTerm > term) return `term ${term}, on disk ${durableTerm}`;
  if (snapshotEnd < log.start) return `the log starts at ${log.start}, the snapshot ends at ${snapshotEnd}`;
  if (configurations.latestIndex >= log.end)
    return `configuration of ${configurations.latestIndex}, the log ends at ${log.end}`;
  if (role.kind !== "leader") return undefined;
  if (state.votedFor !== state.self) return `leads term ${term}, voted for ${state.votedFor}`;
  if (durableTerm !== term) return `leads term ${term}, on disk ${durableTerm}`;
  if (role.termStart >= log.end) return `the term starts at ${role.termStart}, the log ends at ${log.end}`;
  for (const progress of role.peers.values()) progress.checkInvariants(state.settings);
  return undefined;
}
