// Watches the metadata quorum of a whole cluster at every event: Raft's five properties and single votes (37), equal states at
// equal places (39), membership (41), and that what was acknowledged is on the disk (16). It keeps an image of its own, made of the
// whole committed log from its start: whatever a node has after snapshots and restarts must be equal to it.
import { AssertionFailure, present } from "../base/assert.ts";
import type { QuorumProbe } from "../broker/quorum/probe.ts";
import { decodeCommand } from "../metadata/codec.ts";
import { MetadataImage } from "../metadata/image.ts";
import { asOttlaError } from "../model/errors.ts";
import type { NodeId } from "../model/ids.ts";
import type { RaftNode } from "../raft/raft-node.ts";
import {
  type Configuration,
  type Message,
  nodeIdOf,
  type Ready,
  type ReplicaId,
  type RestoredState,
} from "../raft/types.ts";
import type { Entry } from "../raft/types.ts";
import type { Violation } from "../checkers/checker.ts";
import { MARK } from "./marks.ts";
import { RaftBroken, RaftChecker, type Watched } from "./raft/checker.ts";
import type { SimWorld } from "./world.ts";

/** States are compared at each of so many places: a hash costs as much as the image is long. */
const STATE_EVERY = 16;

/** What is known of one replica of the log: a node on one disk. */
class Mirror implements Watched {
  readonly id: ReplicaId;
  readonly chain: number[] = [];
  readonly entries: Entry[] = [];
  logEnd = 0;
  core: RaftNode | undefined;
  /** The last one that this replica went by. */
  configuration: Configuration | undefined;
  leaderTerm = 0;
  commitEnd = 0;
  /** It told a leader that its log is durable up to here; lowered where a later leader cut it. */
  claimedEnd = 0;
  /** Rot was planted in it, or an older state put in its place: its claims are void. */
  isSpoilt = false;

  constructor(id: ReplicaId) {
    this.id = id;
  }
}

export interface QuorumWatchParts {
  readonly world: SimWorld;
  readonly onViolation: (violation: Violation) => void;
  /** After each command of the committed log. */
  readonly onCommitted?: (image: MetadataImage) => void;
}

export class QuorumWatch {
  readonly #parts: QuorumWatchParts;
  readonly #checker = new RaftChecker();
  readonly #mirrors = new Map<ReplicaId, Mirror>();
  /** The replica of each node that runs now. */
  readonly #running = new Map<NodeId, Mirror>();
  /** Where each running node's image is. */
  readonly #images = new Map<NodeId, MetadataImage>();
  readonly #image = new MetadataImage();
  readonly #states: string[] = [];
  #controllers = 0;
  #elections = 0;
  #lastController: NodeId | undefined;

  constructor(parts: QuorumWatchParts) {
    this.#parts = parts;
  }

  /** Made of everything that is committed. */
  get image(): MetadataImage {
    return this.#image;
  }

  get committedEnd(): number {
    return this.#checker.committedEnd;
  }

  /** For people: where each running node stands. */
  describe(): string {
    const lines = [...this.#running].map(([node, { id, core }]) => {
      if (core === undefined) return `node ${node}: no core`;
      const { role, term, leader, log, configuration } = core;
      const who = `voters ${configuration.voters.join(" ")} learners ${configuration.learners.join(" ")}`;
      return `${id} ${role} in term ${term}, leader ${leader ?? "none"}, log ${log.start}..${log.end}, committed ${log.commitEnd}, applied ${log.appliedEnd}, ${who}`;
    });
    return [...lines, `committed ${this.committedEnd}`].join("\n");
  }

  /** Times that a node began to lead, in whatever term. */
  get elections(): number {
    return this.#elections;
  }

  /** Its Raft term; undefined: it does not run, or is no member. */
  termOf(node: NodeId): number | undefined {
    return this.#running.get(node)?.core?.term;
  }

  /** Times that another node than the last one led. */
  get controllerMoves(): number {
    return Math.max(0, this.#controllers - 1);
  }

  /** All that run know of everything that is committed, and nobody is in a term that the others have not heard of. */
  get isSettled(): boolean {
    const terms = new Set([...this.#running.values()].flatMap(({ core }) => (core?.term ? [core.term] : [])));
    return terms.size <= 1 && [...this.#images.values()].every(({ endOffset }) => endOffset === this.committedEnd);
  }

  /** Who leads, as far as any running node goes. */
  get controller(): NodeId | undefined {
    let best: Mirror | undefined;
    for (const mirror of this.#running.values())
      if (mirror.core?.role === "leader" && mirror.core.term > (best?.core?.term ?? 0)) best = mirror;
    return best === undefined ? undefined : nodeIdOf(best.id);
  }

  get configuration(): Configuration | undefined {
    return this.#checker.configuration;
  }

  imageOf(node: NodeId): MetadataImage | undefined {
    return this.#images.get(node);
  }

  replicaOf(node: NodeId): ReplicaId | undefined {
    return this.#running.get(node)?.id;
  }

  /** Every disk that the node has had in the quorum. */
  replicasOf(node: NodeId): readonly ReplicaId[] {
    return [...this.#mirrors.keys()].filter((replica) => nodeIdOf(replica) === node);
  }

  /** Every set of voters that some replica may go by, running or not, now or when the learners that it knows have a vote. */
  votersInUse(isGone: (replica: ReplicaId) => boolean): (readonly ReplicaId[])[] {
    const found = [...this.#mirrors.values()].filter(({ id }) => !isGone(id)).map(({ configuration }) => configuration);
    return [...found, this.#checker.configuration].flatMap((one) => {
      if (one === undefined || one.voters.length === 0) return [];
      return one.learners.length === 0 ? [one.voters] : [one.voters, [...one.voters, ...one.learners]];
    });
  }

  /** The process is gone. */
  ended(node: NodeId): void {
    const mirror = this.#running.get(node);
    if (mirror !== undefined) mirror.core = undefined;
    this.#running.delete(node);
    this.#images.delete(node);
  }

  spoilt(replica: ReplicaId): void {
    const mirror = this.#mirrors.get(replica);
    if (mirror !== undefined) mirror.isSpoilt = true;
  }

  probeOf(node: NodeId): QuorumProbe {
    return {
      onRaftStarted: (core, restored) => this.#guard(() => this.#started(node, core, restored)),
      onReady: (core, ready) => this.#guard(() => this.#ready(core, ready)),
      onMessage: (message) => this.#guard(() => this.#sent(message)),
      onApplied: (image) => this.#guard(() => this.#applied(node, image)),
    };
  }

  /** Nothing may be thrown into the node that is watched. */
  #guard(look: () => void): void {
    try {
      look();
    } catch (thrown) {
      if (thrown instanceof RaftBroken)
        this.#parts.onViolation({ invariant: thrown.invariant, message: thrown.message });
      else if (thrown instanceof AssertionFailure)
        this.#parts.onViolation({ invariant: 37, message: `assertion: ${thrown.message}` });
      else this.#parts.world.fail(thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
  }

  #started(node: NodeId, core: RaftNode, restored: RestoredState): void {
    let mirror = this.#mirrors.get(core.self);
    if (mirror === undefined) {
      mirror = new Mirror(core.self);
      this.#mirrors.set(core.self, mirror);
    }
    this.#running.set(node, mirror);
    mirror.core = core;
    mirror.leaderTerm = 0;
    mirror.commitEnd = 0;
    const { log, snapshot } = restored;
    const durableEnd = Math.max(log.start + log.entries.length, snapshot?.end ?? 0);
    if (mirror.isSpoilt) mirror.claimedEnd = Math.min(mirror.claimedEnd, durableEnd);
    mirror.isSpoilt = false;
    if (durableEnd < mirror.claimedEnd)
      throw new RaftBroken(
        16,
        `${core.self} told that its log is durable up to ${mirror.claimedEnd}, it has ${durableEnd}`,
      );
    this.#remember(mirror, log.start);
    for (const entry of log.entries) this.#checker.appended(mirror, entry);
    mirror.configuration = core.configuration;
  }

  /** The log begins at a committed place: what lies below is what all agreed on. */
  #remember(mirror: Mirror, start: number): void {
    mirror.logEnd = start;
    if (start > 0)
      mirror.chain[start - 1] = present(this.#checker.committedHash(start - 1), `committed entry ${start - 1}`);
  }

  #ready(core: RaftNode, { write }: Ready): void {
    const mirror = present(this.#mirrors.get(core.self), "the replica");
    const wasLeader = mirror.leaderTerm === core.term;
    if (write !== null) this.#accept(mirror, core, write);
    if (core.role === "leader" && !wasLeader) this.#leads(mirror, core);
    mirror.configuration = core.configuration;
    this.#observeCommit(mirror, core);
  }

  #accept(mirror: Mirror, core: RaftNode, write: NonNullable<Ready["write"]>): void {
    const leads = core.role === "leader" && mirror.leaderTerm === core.term;
    if (leads && (write.cutSuffixTo !== null || write.resetLogTo !== null))
      throw new RaftBroken(37, `leader append-only: ${mirror.id} cuts its log in term ${core.term}`);
    if (write.resetLogTo !== null) {
      this.#remember(mirror, write.resetLogTo.start);
      this.#parts.world.sometimes(MARK.SNAPSHOT_INSTALLED);
    }
    if (write.cutSuffixTo !== null && write.cutSuffixTo < mirror.logEnd) {
      mirror.logEnd = write.cutSuffixTo;
      mirror.claimedEnd = Math.min(mirror.claimedEnd, write.cutSuffixTo);
      this.#parts.world.sometimes(MARK.METADATA_CUT);
    }
    for (const entry of write.entries) {
      this.#checker.appended(mirror, entry);
      if (core.role === "leader" && entry.kind === "configuration")
        this.#checker.configured(mirror, core.term, entry.configuration);
    }
  }

  #leads(mirror: Mirror, core: RaftNode): void {
    mirror.leaderTerm = core.term;
    this.#elections++;
    this.#checker.becameLeader(mirror, core.term);
    const node = nodeIdOf(mirror.id);
    if (node === this.#lastController) return;
    this.#controllers++;
    this.#lastController = node;
    if (this.#controllers > 1) this.#parts.world.sometimes(MARK.CONTROLLER_MOVED);
    const others = [...this.#running.values()].filter((other) => other !== mirror && other.core?.role === "leader");
    if (others.length > 0) this.#parts.world.sometimes(MARK.TWO_LEADERS);
  }

  #observeCommit(mirror: Mirror, core: RaftNode): void {
    const { commitEnd } = core.log;
    if (commitEnd < mirror.commitEnd)
      throw new RaftBroken(37, `commit end of ${mirror.id} falls from ${mirror.commitEnd} to ${commitEnd}`);
    if (commitEnd === mirror.commitEnd) return;
    const from = Math.max(mirror.commitEnd, core.snapshot?.end ?? 0, core.log.start);
    const before = this.#checker.committedEnd;
    this.#checker.committed(mirror, { from, end: commitEnd, term: core.term });
    mirror.commitEnd = commitEnd;
    for (let index = before; index < this.#checker.committedEnd; index++)
      this.#follow(present(mirror.entries[index], "the committed entry"));
  }

  #follow(entry: Entry): void {
    try {
      if (entry.kind === "command") this.#image.apply(entry.index, decodeCommand(entry.bytes, entry.index));
      else this.#image.skip(entry.index);
    } catch (thrown) {
      const { code, message } = asOttlaError(thrown);
      throw new RaftBroken(39, `committed entry ${entry.index} cannot be applied: ${code} ${message}`);
    }
    if (entry.kind === "command") this.#parts.onCommitted?.(this.#image);
    const { endOffset } = this.#image;
    if (endOffset % STATE_EVERY === 0) this.#states[endOffset] = this.#image.stateHash();
  }

  #sent(message: Message): void {
    this.#checker.sent(message);
    if (message.kind !== "appendMatched") return;
    const mirror = this.#mirrors.get(message.from);
    if (mirror !== undefined && message.term === mirror.core?.term)
      mirror.claimedEnd = Math.max(mirror.claimedEnd, Math.min(message.end, mirror.logEnd));
  }

  #applied(node: NodeId, image: MetadataImage): void {
    this.#images.set(node, image);
    const { endOffset } = image;
    if (endOffset > this.committedEnd)
      throw new RaftBroken(39, `node ${node} applied up to ${endOffset}, committed is ${this.committedEnd}`);
    if (endOffset % STATE_EVERY === 0) this.#compare(node, image, this.#states[endOffset]);
  }

  #compare(node: NodeId, image: MetadataImage, expected: string | undefined): void {
    if (expected === undefined || image.stateHash() === expected) return;
    throw new RaftBroken(39, `node ${node} has another state than the log makes at ${image.endOffset}`);
  }

  /** At the end: all of them at one place, in one state. */
  compareAll(nodes: readonly NodeId[]): void {
    this.#guard(() => {
      const expected = this.#image.stateHash();
      for (const node of nodes) {
        const image = present(this.#images.get(node), `the image of node ${node}`);
        if (image.endOffset !== this.#image.endOffset)
          throw new RaftBroken(39, `node ${node} applied ${image.endOffset} of ${this.#image.endOffset}`);
        this.#compare(node, image, expected);
      }
    });
  }
}
