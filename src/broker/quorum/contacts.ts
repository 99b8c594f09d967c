// Who this node talks Raft with: links to the members, what is known of their disks, messages out and in.
import { mutant } from "../../base/mutant.ts";
import type { OttlaError } from "../../model/errors.ts";
import type { ClusterId, NodeId } from "../../model/ids.ts";
import { parseVoters } from "../../model/quorum-voters.ts";
import type { MetadataImage } from "../../metadata/image.ts";
import { type Configuration, type Message, nodeIdOf, type ReplicaId, toReplicaId } from "../../raft/types.ts";
import { API } from "../../wire/native/apis.ts";
import type { RaftRequest, VoterHelloRequest, VoterHelloResponse } from "../../wire/native/quorum-apis.ts";
import { votersText } from "./bootstrap.ts";
import { Marks } from "./marks.ts";
import { PeerCheck } from "./peer-check.ts";
import { PeerLinks } from "./peers.ts";
import { isApplicable, messageOf, wireMessageOf } from "./raft-wire.ts";
import type { QuorumDeps, QuorumOptions } from "./types.ts";

/** Word that another node refuses this disk counts for this long; it is repeated every second. */
const REFUSAL_MS = 5_000;
/** Bound. */
const LEARNED_MAX = 64;
/** What anybody says in a peer's name is looked into this often, per name: it is hearsay until the peer itself was asked. */
const VERIFY_EVERY_MS = 1_000;
const NUDGE_EVERY_MS = 100;
const LIST_EVERY_MS = 100;
/** A peer that says nothing for this long, asked because somebody speaks in its name, is gone: its connection is dead. */
const VERIFY_TIMEOUT_MS = 250;
/** Bound. */
const HEARSAY_MAX = 256;
/** Elections that a node may have missed: it takes days of nothing else. A term beyond is no honest one, and would be for ever. */
const TERM_JUMP_MAX = 1_000_000;
const WARN_EVERY_MS = 1_000;

export interface ContactsParts {
  readonly deps: QuorumDeps;
  readonly options: QuorumOptions;
  readonly self: ReplicaId;
  readonly image: () => MetadataImage;
  readonly clusterId: () => ClusterId | null;
  readonly commitEnd: () => number;
  /** Of the core; 0 = it has none yet, and any will do. */
  readonly term: () => number;
  /** D-22: nobody listens where this node was. */
  readonly onGone: (nodeId: NodeId) => void;
  readonly onFailed: (error: OttlaError) => void;
}

export class Contacts {
  readonly links: PeerLinks;
  readonly check: PeerCheck;
  readonly #parts: ContactsParts;
  readonly #marks: Marks;
  /** Connections that were lost and not made again. */
  readonly #lost = new Set<NodeId>();
  /** Nodes that refuse this disk, and when they said so last. */
  readonly #refusedBy = new Map<NodeId, number>();
  /** Addresses that other nodes named, in lists or as their own, and those in this log's uncommitted part. */
  readonly #learned = new Map<NodeId, string>();
  #learnedFrom = "";
  #learnedFromMs = Number.NEGATIVE_INFINITY;
  /** When what was said in a node's name was last looked into. */
  readonly #hearsay = new Map<NodeId, { nudgedMs: number; verifiedMs: number }>();
  #warnedMs = Number.NEGATIVE_INFINITY;
  #configurations: readonly (Configuration | undefined)[] = [];

  constructor(parts: ContactsParts) {
    const { deps, options } = parts;
    const { nodeId } = deps.identity;
    this.#parts = parts;
    this.#marks = new Marks(deps.store.marks);
    this.links = new PeerLinks({
      ...deps,
      self: nodeId,
      rng: deps.rng.fork("links"),
      addressesOf: (peer) => this.#addressesOf(peer),
      clusterId: parts.clusterId,
    });
    this.check = new PeerCheck({
      self: nodeId,
      timers: deps.timers,
      logger: deps.logger,
      marks: this.#marks,
      clusterId: parts.clusterId,
      isConnected: (peer) => this.links.isConnected(peer),
      ask: (peer, isRefused, timeoutMs) => this.ask(peer, isRefused, timeoutMs),
      save: () => deps.store.writeMarks(this.#marks.all),
      onFailed: parts.onFailed,
      onChanged: () => this.links.want("quorum", this.check.wanted),
    });
    this.links.watch({
      onConnected: (peer) => this.#connected(peer),
      onLost: (peer) => this.#lostTo(peer),
      onRefused: (peer) => this.#refused(peer),
    });
    // For ever: who the members are is the log's word, but a listed node of another cluster is to be noticed.
    if (options.voters.length > 0)
      this.links.want(
        "listed",
        options.voters.map((voter) => voter.nodeId),
      );
  }

  /** The registered address first, then the list's, then hearsay: any of them may be of before (a restart under another port). */
  #addressesOf(nodeId: NodeId): readonly string[] {
    const registered = this.#parts.image().broker(nodeId)?.address;
    const listed = this.#parts.options.voters.find((voter) => voter.nodeId === nodeId)?.address;
    const known = [registered, listed, this.#learned.get(nodeId)].filter((address) => address !== undefined);
    return [...new Set(known)];
  }

  ask(nodeId: NodeId, isRefused: boolean, timeoutMs: number): Promise<VoterHelloResponse> {
    const { deps, options } = this.#parts;
    const { directoryId } = deps.identity;
    const { boots } = deps.store;
    const { address = "" } = deps;
    const voters = votersText(options.voters);
    const request = { nodeId: deps.identity.nodeId, directoryId, voters, address, boots, isRefused };
    return this.links.call(nodeId, API.VOTER_HELLO, request, { timeoutMs });
  }

  /** Somebody asks who this node is. Anybody can say to be that node: what it says of itself counts as far as it is who was vouched for. */
  heardHello({ nodeId, directoryId, isRefused, boots, voters, address }: VoterHelloRequest): void {
    const { clock, identity } = this.#parts.deps;
    if (nodeId === identity.nodeId) return;
    const replica = toReplicaId(nodeId, directoryId);
    const known = this.check.vouchedFor(nodeId);
    this.#learnList(voters);
    if (address !== "" && (known === undefined || known.replica === replica)) this.learn(nodeId, address);
    this.#heard(replica, boots);
    if (known?.replica === replica) {
      if (isRefused) this.#refusedBy.set(nodeId, clock.monoMs());
      else this.#refusedBy.delete(nodeId);
    }
    if (known === undefined && this.check.wanted.has(nodeId)) this.check.askOnHearsay(nodeId);
  }

  /** A node whose own list is short (it was alone once) knows no address before its log is applied, and its log is not applied before it knows one. */
  #learnList(list: string): void {
    const nowMs = this.#parts.deps.clock.monoMs();
    if (list === "" || list === this.#learnedFrom || nowMs - this.#learnedFromMs < LIST_EVERY_MS) return;
    this.#learnedFrom = list;
    this.#learnedFromMs = nowMs;
    try {
      for (const { nodeId, address } of parseVoters(list)) if (!this.#learned.has(nodeId)) this.learn(nodeId, address);
    } catch {
      // Nothing to learn from it.
    }
  }

  /** Where a node may be found besides where the image and the list say. */
  learn(nodeId: NodeId, address: string): void {
    this.#learned.delete(nodeId);
    this.#learned.set(nodeId, address);
    if (this.#learned.size <= LEARNED_MAX) return;
    const { wanted } = this.check;
    const least = [...this.#learned.keys()].find((known) => !wanted.has(known)) ?? nodeId;
    this.#learned.delete(least);
  }

  get refusedBy(): NodeId[] {
    const nowMs = this.#parts.deps.clock.monoMs();
    return [...this.#refusedBy].filter(([, atMs]) => nowMs - atMs < REFUSAL_MS).map(([nodeId]) => nodeId);
  }

  /** The configurations that name who is talked with: the log's newest, and the newest one applied. */
  follow(configurations: readonly (Configuration | undefined)[]): void {
    if (configurations.every((configuration, at) => configuration === this.#configurations[at])) return;
    this.#configurations = configurations;
    const members = new Set<NodeId>();
    for (const configuration of configurations)
      for (const id of [...(configuration?.voters ?? []), ...(configuration?.learners ?? [])])
        members.add(nodeIdOf(id));
    members.delete(this.#parts.deps.identity.nodeId);
    this.check.setMembers(members);
    this.links.want("quorum", this.check.wanted);
    // Connected to already: who it is was not asked as long as it was no member.
    for (const nodeId of members) if (this.check.vouchedFor(nodeId) === undefined) this.check.ask(nodeId);
  }

  send(message: Message): void {
    const { deps, clusterId } = this.#parts;
    deps.probe?.onMessage(message);
    const cluster = clusterId();
    if (cluster === null || !this.check.mayTell(message.to)) return;
    const wire = wireMessageOf(message, { clusterId: cluster, boots: deps.store.boots });
    this.links.tell(nodeIdOf(message.to), API.RAFT, wire);
  }

  /** Undefined: nothing that may count. */
  accept(request: RaftRequest, bodies: readonly Uint8Array[]): Message | undefined {
    if (request.clusterId !== this.#parts.clusterId() || request.to !== this.#parts.self) return undefined;
    const message = messageOf(request, bodies);
    const term = this.#parts.term();
    const isAbsurd = message !== undefined && term > 0 && message.term > term + TERM_JUMP_MAX;
    if (message === undefined || isAbsurd || !(isApplicable(message) || mutant("Q19w"))) {
      this.#warnDropped(request);
      return undefined;
    }
    this.#heard(message.from, request.boots);
    return this.check.mayHear(message, request.boots, this.#parts.commitEnd()) ? message : undefined;
  }

  #warnDropped({ from, message }: RaftRequest): void {
    const { clock, logger } = this.#parts.deps;
    if (clock.monoMs() - this.#warnedMs < WARN_EVERY_MS) return;
    this.#warnedMs = clock.monoMs();
    logger.warn("raft_message_dropped", { from, kind: message.kind, term: message.term });
  }

  /**
   * A sign of life, or somebody who says so. Of another process or disk than the one that is connected to, it may say that this connection is
   * dead though nothing told so: that one is asked, and its silence ends the connection. While it answers, hearsay changes nothing.
   */
  #heard(replica: ReplicaId, boots: number): void {
    const nodeId = nodeIdOf(replica);
    const nowMs = this.#parts.deps.clock.monoMs();
    const known = this.check.vouchedFor(nodeId);
    if (known?.replica === replica && known.boots === boots) return;
    const looked = this.#lookedInto(nodeId);
    if (known === undefined) {
      if (nowMs - looked.nudgedMs < NUDGE_EVERY_MS) return;
      looked.nudgedMs = nowMs;
      this.links.nudge(nodeId);
      return;
    }
    if (mutant("D20h")) this.links.renew(nodeId);
    if (nowMs - looked.verifiedMs < VERIFY_EVERY_MS) return;
    looked.verifiedMs = nowMs;
    this.ask(nodeId, this.check.isRefused(nodeId), VERIFY_TIMEOUT_MS).catch(() => undefined); // its silence has closed the connection
  }

  #lookedInto(nodeId: NodeId): { nudgedMs: number; verifiedMs: number } {
    const known = this.#hearsay.get(nodeId);
    if (known !== undefined) return known;
    const never = Number.NEGATIVE_INFINITY;
    const looked = { nudgedMs: never, verifiedMs: never };
    this.#hearsay.set(nodeId, looked);
    for (const oldest of this.#hearsay.keys()) {
      if (this.#hearsay.size <= HEARSAY_MAX) break;
      this.#hearsay.delete(oldest);
    }
    return looked;
  }

  /** In an ordered end. What cannot be written now is younger than D-20 asks for. */
  async saveMarks(): Promise<void> {
    if (this.#marks.isDirty) await this.#parts.deps.store.writeMarks(this.#marks.all).catch(() => undefined);
  }

  #connected(nodeId: NodeId): void {
    this.#lost.delete(nodeId);
    if (this.check.wanted.has(nodeId)) this.check.connected(nodeId);
  }

  #lostTo(nodeId: NodeId): void {
    this.#lost.add(nodeId);
    this.check.lost(nodeId);
  }

  /** Only after a connection was lost: before that it says nothing of a leader. */
  #refused(nodeId: NodeId): void {
    if (this.#lost.has(nodeId) && !mutant("D22r")) this.#parts.onGone(nodeId);
  }
}
