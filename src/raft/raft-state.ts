// What one node of the core remembers, and its outbox. The rules that change it are in election.ts, leader.ts, follower.ts,
// proposals.ts and snapshots.ts; this file has only what all of them share.
import { assert, assertNever } from "../base/assert.ts";
import type { Rng } from "../base/rng.ts";
import { ConfigurationHistory, NOBODY } from "./configuration.ts";
import type { Progress } from "./progress.ts";
import { RaftLog } from "./raft-log.ts";
import type { RaftSettings } from "./settings.ts";
import type {
  Configuration,
  Entry,
  Message,
  ReadResult,
  ReplicaId,
  RestoredState,
  SnapshotMeta,
  SnapshotWrite,
  Term,
} from "./types.ts";

/** `Omit` of each member of a union. */
type Without<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;
/** A message but for what the sender's state says. */
export type Outgoing = Without<Message, "from" | "term">;

export interface Transfer {
  readonly target: ReplicaId;
  readonly deadlineTick: number;
}

export interface ConfirmingRead {
  readonly token: number;
  readonly end: number;
  /** Readable once a majority answered a heartbeat of this round, or of a later one. */
  readonly round: number;
}

export interface LeaderRole {
  readonly kind: "leader";
  /** All other members, voters and learners. */
  readonly peers: Map<ReplicaId, Progress>;
  /** Index of the first entry of this term. */
  readonly termStart: number;
  readonly sinceTick: number;
  transfer: Transfer | null;
  uncommittedBytes: number;
  /** Reads that came before the first entry of this term was committed. */
  waitingReads: number[];
  confirmingReads: ConfirmingRead[];
  round: number;
}

export type Role =
  | { readonly kind: "follower"; leader: ReplicaId | null }
  | { readonly kind: "preCandidate"; readonly votes: Map<ReplicaId, boolean> }
  | { readonly kind: "candidate"; readonly votes: Map<ReplicaId, boolean> }
  | LeaderRole;

/** A snapshot under way to this node. */
export interface IncomingSnapshot {
  readonly from: ReplicaId;
  readonly term: Term;
  readonly snapshot: SnapshotMeta;
  /** Position wanted next; sizeBytes once all is there and the host makes it durable. */
  position: number;
}

export interface RaftDeps {
  readonly rng: Rng;
}
export interface RaftOptions {
  readonly self: ReplicaId;
  readonly settings: RaftSettings;
  readonly restored: RestoredState;
}

/**
 * How many waits may be short, of a fresh process and of one whose leader was lost: after that, short ones would only split votes. A vote takes a round
 * of messages and a sync, so the first split ones cost little, and what comes after them is on a network or a disk that is slow. A campaign takes two:
 * one while it asks beforehand, one while it is voted on.
 */
const SHORT_WAITS = 6;

export class RaftState {
  readonly self: ReplicaId;
  readonly settings: RaftSettings;
  readonly log: RaftLog;
  readonly configurations: ConfigurationHistory;
  term: Term;
  votedFor: ReplicaId | null;
  /** Term or vote changed since the last write batch. */
  isHardStateDirty: boolean;
  /** The term that is on disk. */
  durableTerm: Term;
  role: Role = { kind: "follower", leader: null };
  /** Ticks since the start of the process. */
  tick = 0;
  /** Tick at which this node stops waiting for a leader. */
  electionTick = 0;
  /** Tick of the last word from the present leader. */
  leaderTick = 0;
  /** False while the disk refuses writes: the node is silent (D-19). */
  isDiskWorking = true;
  /** The newest durable snapshot. */
  snapshot: SnapshotMeta | null;
  incoming: IncomingSnapshot | null = null;
  readonly #rng: Rng;
  #shortWaits = SHORT_WAITS;
  /** In this process. */
  #hasHeardLeader = false;

  // The outbox, emptied by ready().
  messages: Message[] = [];
  messagesAfterSync: Message[] = [];
  snapshotWrites: SnapshotWrite[] = [];
  loadSnapshot: SnapshotMeta | null = null;
  reads: ReadResult[] = [];

  constructor({ rng }: RaftDeps, { self, settings, restored }: RaftOptions) {
    this.self = self;
    this.settings = settings;
    this.#rng = rng;
    this.log = new RaftLog(restored);
    this.snapshot = restored.snapshot;
    this.configurations = new ConfigurationHistory(restored.snapshot?.configuration ?? NOBODY);
    for (let index = this.log.start; index < this.log.end; index++)
      if (index >= this.log.commitEnd) this.configurations.append(this.log.at(index));
    const { term, votedFor } = restored.hardState;
    const isSpent = term < this.log.lastTerm;
    // a term known only from the log is one in which this node may have voted, so it votes for nobody else in it.
    this.term = isSpent ? this.log.lastTerm : term;
    this.votedFor = isSpent ? self : votedFor;
    this.isHardStateDirty = isSpent;
    this.durableTerm = term;
    this.waitForLeader();
  }

  get configuration(): Configuration {
    return this.configurations.latest;
  }

  get isVoter(): boolean {
    return this.configuration.voters.includes(this.self);
  }

  get leader(): ReplicaId | null {
    switch (this.role.kind) {
      case "leader":
        return this.self;
      case "follower":
        return this.role.leader;
      case "preCandidate":
      case "candidate":
        return null;
      default:
        return assertNever(this.role);
    }
  }

  /** True while there is no reason to doubt the leader: then nobody gets a vote (6, thesis 4.2.3). */
  get hasLiveLeader(): boolean {
    if (this.role.kind === "leader") return true;
    return (
      this.role.kind === "follower" &&
      this.role.leader !== null &&
      this.tick - this.leaderTick < this.settings.electionTicksMin
    );
  }

  /** Starts a new wait of random length for word from a leader that is there, or about to be. */
  waitForLeader(): void {
    if (this.#hasHeardLeader) this.#waitLong();
    else this.waitForVotes();
  }

  /** The same for the end of an own campaign: after a split vote the next one comes soon (D-37). */
  waitForVotes(): void {
    if (this.#shortWaits === 0) return this.#waitLong();
    this.#shortWaits--;
    this.electionTick = this.tick + this.#rng.between(this.settings.coldTicksMin, this.settings.coldTicksMax);
  }

  #waitLong(): void {
    this.electionTick = this.tick + this.#rng.between(this.settings.electionTicksMin, this.settings.electionTicksMax);
  }

  /** A leader is lost for a reason better than silence: campaign soon, but not all at the same tick (D-22). */
  waitBriefly(): void {
    this.electionTick = this.tick + this.#rng.between(1, this.settings.coldTicksMin);
  }

  /** Word from the leader of this term. */
  heardLeader(leader: ReplicaId): void {
    if (this.role.kind !== "follower" || this.role.leader !== leader) this.becomeFollower(this.term, leader);
    this.#hasHeardLeader = true;
    this.#shortWaits = SHORT_WAITS;
    this.leaderTick = this.tick;
    this.waitForLeader();
  }

  /** The timer of a node that is waiting already is kept: else those that cannot win would put off the one that can. */
  becomeFollower(term: Term, leader: ReplicaId | null): void {
    this.setTerm(term);
    const before = this.role.kind;
    if (this.role.kind === "leader") this.#failReads(this.role);
    this.role = { kind: "follower", leader };
    if (before === "leader") this.waitForLeader();
    else if (before !== "follower") this.waitForVotes();
  }

  #failReads(role: LeaderRole): void {
    for (const token of role.waitingReads) this.reads.push({ kind: "failed", token });
    for (const { token } of role.confirmingReads) this.reads.push({ kind: "failed", token });
  }

  setTerm(term: Term): void {
    assert(term >= this.term, `term ${term} after ${this.term}`);
    if (term === this.term) return;
    this.term = term;
    this.votedFor = null;
    this.isHardStateDirty = true;
    this.incoming = null;
  }

  voteFor(candidate: ReplicaId): void {
    assert(
      this.votedFor === null || this.votedFor === candidate,
      `vote for ${candidate} in term ${this.term} after one for ${this.votedFor}`,
    );
    if (this.votedFor === candidate) return;
    this.votedFor = candidate;
    this.isHardStateDirty = true;
  }

  appendEntry(entry: Entry): void {
    this.log.append(entry);
    this.configurations.append(entry);
  }

  /** Free to go now: says nothing that a crash could take back. */
  send(message: Outgoing): void {
    this.messages.push({ ...message, from: this.self, term: this.term });
  }

  /** Waits until all that is accepted up to now is durable. One to this node itself is an input at that moment. */
  sendAfterSync(message: Outgoing): void {
    this.messagesAfterSync.push({ ...message, from: this.self, term: this.term });
  }

  /** For what only says "this is my term": it waits only if the term itself is not on disk yet. */
  sendInTerm(message: Outgoing): void {
    if (this.durableTerm === this.term) this.send(message);
    else this.sendAfterSync(message);
  }
}
