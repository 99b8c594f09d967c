// Whose Raft messages count (D-20). Before a node takes or gives any, it is asked who it is and how far its disk is; the answer is held
// against what this disk remembers. Asked again on each new connection and once a second, so that the marks stay young.
//
// Invariant: an answer is compared with the mark as it was when the question left. The peer answered later than it said anything that had
// raised that mark, so an honest disk is never below it, however messages overtake each other.
import type { OttlaError } from "../../model/errors.ts";
import { type ClusterId, type NodeId, uuidToBytes } from "../../model/ids.ts";
import type { Logger } from "../../ports/logger.ts";
import type { TimerHandle, Timers } from "../../ports/timers.ts";
import { type Message, nodeIdOf, type ReplicaId, toReplicaId } from "../../raft/types.ts";
import type { VoterHelloResponse } from "../../wire/native/quorum-apis.ts";
import { faultOfStanding, type Marks } from "./marks.ts";

const ASK_EVERY_MS = 1_000;
const ASK_TIMEOUT_MS = 2_000;
/** Bound: nodes that are no members and spoke to this one (a leader of a configuration that has not arrived here yet). */
const STRANGERS_MAX = 16;
/** Bound: how often a peer is asked in a second because of what came in its name. */
const HEARSAY_PER_SECOND = 20;

export interface PeerCheckParts {
  readonly self: NodeId;
  readonly timers: Timers;
  readonly logger: Logger;
  readonly marks: Marks;
  clusterId(): ClusterId | null;
  isConnected(nodeId: NodeId): boolean;
  /** `isRefused`: this node does not believe the peer's disk. */
  ask(nodeId: NodeId, isRefused: boolean, timeoutMs: number): Promise<VoterHelloResponse>;
  /** Makes the marks durable. */
  save(): Promise<void>;
  onFailed(error: OttlaError): void;
  onChanged(): void;
}

interface Peer {
  /** That it said it has when it was asked last. */
  disk: ReplicaId | null;
  /** Of the present connection; null = not known (any more). */
  vouched: { readonly replica: ReplicaId; readonly boots: number } | null;
  isAsking: boolean;
  /** Questions on hearsay in this second. */
  hearsayCount: number;
}

export class PeerCheck {
  readonly #parts: PeerCheckParts;
  readonly #peers = new Map<NodeId, Peer>();
  readonly #refused = new Map<ReplicaId, string>();
  readonly #strangers = new Set<NodeId>();
  #members: ReadonlySet<NodeId> = new Set();
  #timer: TimerHandle | undefined;
  #isSaving = false;
  #isClosed = false;

  constructor(parts: PeerCheckParts) {
    this.#parts = parts;
    this.#schedule();
  }

  /** Disks that this node does not believe, and why. */
  get refused(): ReadonlyMap<ReplicaId, string> {
    return this.#refused;
  }

  /** Nodes to be connected to. */
  get wanted(): Set<NodeId> {
    return new Set([...this.#members, ...this.#strangers]);
  }

  setMembers(members: ReadonlySet<NodeId>): void {
    this.#members = members;
    for (const nodeId of members) this.#strangers.delete(nodeId);
    for (const replica of this.#refused.keys()) if (!members.has(nodeIdOf(replica))) this.#refused.delete(replica);
    for (const nodeId of this.#peers.keys()) if (!this.wanted.has(nodeId)) this.#peers.delete(nodeId);
  }

  /** The disk, and its starts, that the present connection was vouched for. */
  vouchedFor(nodeId: NodeId): { readonly replica: ReplicaId; readonly boots: number } | undefined {
    return this.#peers.get(nodeId)?.vouched ?? undefined;
  }

  /** This node does not believe the disk that the peer said it has. */
  isRefused(nodeId: NodeId): boolean {
    const disk = this.#peers.get(nodeId)?.disk ?? null;
    return disk !== null && this.#refused.has(disk);
  }

  /** May a message go to this replica? */
  mayTell(replica: ReplicaId): boolean {
    return this.#peers.get(nodeIdOf(replica))?.vouched?.replica === replica;
  }

  /** May this message count? If its sender is not known well enough, it is asked. */
  mayHear(message: Message, boots: number, commitEnd: number): boolean {
    const { from } = message;
    const vouched = this.#peers.get(nodeIdOf(from))?.vouched ?? null;
    if (vouched?.replica !== from || vouched.boots !== boots) {
      this.heardOf(nodeIdOf(from));
      return false;
    }
    const isAboutNextTerm = (message.kind === "voteRequest" || message.kind === "voteResponse") && message.isPreVote;
    const term = isAboutNextTerm ? 0 : message.term;
    const end = message.kind === "appendMatched" ? Math.min(message.end, commitEnd) : 0;
    this.#parts.marks.raise(from, { boots, term, end });
    return true;
  }

  /** A node that is here and wants something: connect to it and ask who it is. */
  heardOf(nodeId: NodeId): void {
    if (nodeId === this.#parts.self || this.#isClosed) return;
    if (!this.#members.has(nodeId) && !this.#strangers.has(nodeId)) {
      if (this.#strangers.size >= STRANGERS_MAX) this.#strangers.delete([...this.#strangers][0] as NodeId);
      this.#strangers.add(nodeId);
      this.#parts.onChanged();
    }
    this.askOnHearsay(nodeId);
  }

  /** Something came in its name. */
  askOnHearsay(nodeId: NodeId): void {
    const peer = this.#peers.get(nodeId);
    if (peer !== undefined && peer.hearsayCount++ >= HEARSAY_PER_SECOND) return;
    this.ask(nodeId);
  }

  connected(nodeId: NodeId): void {
    this.lost(nodeId);
    this.ask(nodeId);
  }

  /** What was vouched for may be replaced by anything before the next connection. */
  lost(nodeId: NodeId): void {
    const peer = this.#peers.get(nodeId);
    if (peer !== undefined) peer.vouched = null;
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  ask(nodeId: NodeId): void {
    const { clusterId, isConnected, marks } = this.#parts;
    if (this.#isClosed || clusterId() === null || !isConnected(nodeId)) return;
    let peer = this.#peers.get(nodeId);
    if (peer === undefined) {
      peer = { disk: null, vouched: null, isAsking: false, hearsayCount: 0 };
      this.#peers.set(nodeId, peer);
    }
    if (peer.isAsking) return;
    peer.isAsking = true;
    const asked = peer;
    const before = new Map(marks.all);
    this.#parts.ask(nodeId, this.isRefused(nodeId), ASK_TIMEOUT_MS).then(
      (answer) => {
        asked.isAsking = false;
        if (!this.#isClosed && isConnected(nodeId)) this.#judge(nodeId, answer, before);
      },
      () => {
        asked.isAsking = false;
      },
    );
  }

  #judge(nodeId: NodeId, answer: VoterHelloResponse, before: Marks["all"]): void {
    const { state, directoryId, clusterId, boots, term, end, commitEnd } = answer;
    const peer = this.#peers.get(nodeId);
    const isSame = state === "formed" && answer.nodeId === nodeId && clusterId === this.#parts.clusterId();
    if (peer === undefined || !isSame || uuidToBytes(directoryId) === undefined) return;
    const replica = toReplicaId(nodeId, directoryId);
    peer.disk = replica;
    for (const other of this.#refused.keys())
      if (other !== replica && nodeIdOf(other) === nodeId) this.#refused.delete(other);
    const fault = faultOfStanding({ boots, term, end, commitEnd }, before.get(replica));
    if (fault !== undefined) {
      peer.vouched = null;
      this.#refuse(replica, fault);
      return;
    }
    if (this.#refused.delete(replica)) this.#parts.onChanged();
    this.#parts.marks.raise(replica, { boots, term, end: commitEnd });
    const isNew = peer.vouched?.replica !== replica || peer.vouched.boots !== boots;
    peer.vouched = { replica, boots };
    if (isNew) this.#parts.onChanged();
  }

  #refuse(replica: ReplicaId, fault: string): void {
    const isNew = this.#refused.get(replica) === undefined;
    this.#refused.set(replica, fault);
    if (!isNew) return;
    this.#parts.logger.error("voter_refused", { replica, reason: fault });
    this.#parts.onChanged();
  }

  #schedule(): void {
    this.#timer = this.#parts.timers.after(ASK_EVERY_MS, () => {
      if (this.#isClosed) return;
      for (const peer of this.#peers.values()) peer.hearsayCount = 0;
      for (const nodeId of this.wanted) this.ask(nodeId);
      this.#save();
      this.#schedule();
    });
  }

  #save(): void {
    const { marks, logger } = this.#parts;
    if (!marks.isDirty || this.#isSaving) return;
    marks.prune((replica) => this.#members.has(nodeIdOf(replica)));
    marks.isDirty = false;
    this.#isSaving = true;
    this.#parts.save().then(
      () => {
        this.#isSaving = false;
      },
      (error: OttlaError) => {
        this.#isSaving = false;
        marks.isDirty = true;
        if (error.code === "DISK_FAILED") this.#parts.onFailed(error);
        else logger.warn("marks_not_written", { err: error });
      },
    );
  }
}
