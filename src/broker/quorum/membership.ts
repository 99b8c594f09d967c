// Changes of who votes, at the leader: one after another, each step waited for until it is committed and applied.
import type { ConfChange } from "../../raft/configuration.ts";
import { isMember } from "../../raft/configuration.ts";
import type { RaftNode } from "../../raft/raft-node.ts";
import {
  type Configuration,
  directoryIdOf,
  nodeIdOf,
  type ProposeResult,
  type ReplicaId,
  toReplicaId,
} from "../../raft/types.ts";
import type { ErrorName } from "../../model/errors.ts";
import type { NodeId } from "../../model/ids.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Timers } from "../../ports/timers.ts";
import type { ChangeOutcome, QuorumChange } from "./types.ts";

export interface MembershipParts {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly core: () => RaftNode | undefined;
  readonly input: <T>(act: (core: RaftNode) => T) => T | undefined;
  readonly isController: () => boolean;
  /** This node has a connection to it, and knows it for who it is. */
  readonly isThere: (replica: ReplicaId) => boolean;
  readonly appliedEnd: () => number;
  /** Committed and applied. */
  readonly configuration: () => Configuration | undefined;
}

/** Bound of voters and learners: every message that lists them holds them all. */
export const MEMBERS_MAX = 64;
/** For a learner that nobody has heard of to be taken back, after its addition ran out of time. */
const TAKE_BACK_MS = 5_000;
/** How often a leader looks whether a learner has caught up. */
const PROMOTE_EVERY_MS = 100;

const refused = (error: ErrorName, message: string): ChangeOutcome => ({ kind: "refused", error, message });

interface Condition {
  readonly untilMs: number;
  /** Undefined: not yet. */
  readonly check: () => ChangeOutcome | "met" | undefined;
  readonly resolve: (outcome: ChangeOutcome | "met") => void;
}

export class Membership {
  readonly #parts: MembershipParts;
  #conditions: Condition[] = [];
  #isChanging = false;
  #isClosed = false;
  #isPromotionDue = true;

  constructor(parts: MembershipParts) {
    this.#parts = parts;
  }

  async change(change: QuorumChange, timeoutMs: number): Promise<ChangeOutcome> {
    if (!this.#parts.isController()) return notController();
    if (this.#isChanging) return refused("BUSY", "another change of the quorum is under way");
    this.#isChanging = true;
    try {
      return await this.#carryOut(change, this.#parts.clock.monoMs() + timeoutMs);
    } finally {
      this.#isChanging = false;
    }
  }

  async transfer(to: NodeId, timeoutMs: number): Promise<ChangeOutcome> {
    const present = this.#parts.core();
    const disks = present?.configuration.voters.filter((id) => nodeIdOf(id) === to) ?? [];
    // One that is being replaced votes with two disks, and runs on one of them.
    const target = disks.find((id) => id === present?.self || this.#parts.isThere(id)) ?? disks[0];
    // It names a state: asked for again, it is as it should be.
    if (present?.role === "leader" && target === present.self) return this.#done();
    if (target === undefined) return refused("VOTER_NOT_FOUND", `node ${to} is no voter`);
    const result = this.#parts.input((core) => core.transferLeadership(target));
    if (result?.kind === "busy") return refused("BUSY", result.reason);
    if (result?.kind === "refused") return refused("INVALID_REQUEST", result.reason);
    if (result?.kind !== "started") return notController();
    const outcome = await this.#until(this.#parts.clock.monoMs() + timeoutMs, () => {
      const core = this.#parts.core();
      if (core?.role !== "leader") return "met";
      return core.transferTarget === null
        ? refused("REQUEST_TIMED_OUT", `node ${to} did not take over in time`)
        : undefined;
    });
    return outcome === "met" ? this.#done() : outcome;
  }

  /** Anything may have changed. */
  onProgress(): void {
    this.#promote();
    if (this.#conditions.length === 0) return;
    const nowMs = this.#parts.clock.monoMs();
    const waiting = this.#conditions;
    this.#conditions = [];
    for (const condition of waiting) {
      const outcome = condition.check() ?? (nowMs >= condition.untilMs ? timedOut() : undefined);
      if (outcome === undefined) this.#conditions.push(condition);
      else condition.resolve(outcome);
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const { resolve } of this.#conditions) resolve(refused("BROKER_NOT_AVAILABLE", "the broker is stopping"));
    this.#conditions = [];
  }

  async #carryOut(change: QuorumChange, untilMs: number): Promise<ChangeOutcome> {
    const { nodeId } = change;
    const members = this.#membersOf(nodeId);
    if (change.op === "remove") return this.#removeNamed(members, change, untilMs);
    const { directoryId } = change;
    const replica = toReplicaId(nodeId, directoryId);
    const others = members.filter((id) => id !== replica);
    const isVoter = this.#parts.configuration()?.voters.includes(replica) === true;
    if (isVoter && others.length === 0)
      return refused("DUPLICATE_VOTER", `node ${nodeId} votes with this disk already`);
    if (change.op === "add" && others.length > 0)
      return refused("INVALID_VOTER_KEY", `node ${nodeId} votes with another disk (${others.join(", ")}): replace it`);
    if (change.op === "replace" && others.length === 0 && !members.includes(replica))
      return refused("VOTER_NOT_FOUND", `node ${nodeId} is no member of the quorum: add it`);
    const isNew = !members.includes(replica);
    if (isNew && this.#memberCount >= MEMBERS_MAX)
      return refused("INCONSISTENT_VOTER_SET", `the quorum has ${MEMBERS_MAX} members, and no more can be added`);
    const added = await this.#add(replica, untilMs);
    if (added.kind === "refused") return isNew ? this.#tookBack(replica, added) : added;
    for (const old of others) {
      const removed = await this.#remove(old, untilMs);
      if (removed.kind === "refused") return removed;
    }
    return this.#done();
  }

  async #removeNamed(
    members: readonly ReplicaId[],
    { nodeId, directoryId }: Extract<QuorumChange, { op: "remove" }>,
    untilMs: number,
  ): Promise<ChangeOutcome> {
    const named = members.filter((id) => directoryId === null || directoryIdOf(id) === directoryId);
    const [replica] = named;
    if (replica === undefined) return refused("VOTER_NOT_FOUND", `node ${nodeId} is no member of the quorum`);
    if (named.length > 1)
      return refused("INVALID_VOTER_KEY", `node ${nodeId} is a member with several disks: name one`);
    return this.#remove(replica, untilMs);
  }

  #membersOf(nodeId: NodeId): ReplicaId[] {
    const { voters = [], learners = [] } = this.#parts.core()?.configuration ?? {};
    return [...voters, ...learners].filter((id) => nodeIdOf(id) === nodeId);
  }

  async #add(replica: ReplicaId, untilMs: number): Promise<ChangeOutcome> {
    const core = this.#parts.core();
    if (core !== undefined && !isMember(core.configuration, replica)) {
      const added = await this.#step({ kind: "addLearner", replica }, untilMs);
      if (added !== "met") return added;
    }
    // The promotion comes by itself, whoever leads by then.
    const outcome = await this.#until(untilMs, () => {
      if (this.#parts.configuration()?.voters.includes(replica) === true) return "met";
      return this.#parts.isController() ? undefined : lostLeadership();
    });
    return outcome === "met" ? this.#done() : outcome;
  }

  /** A learner that is not there is most likely a mistake, which nobody else takes out. One that is will be brought up to date, and votes then. */
  async #tookBack(replica: ReplicaId, outcome: ChangeOutcome & { kind: "refused" }): Promise<ChangeOutcome> {
    const isSilent = !this.#parts.isThere(replica) && this.#membersOf(nodeIdOf(replica)).includes(replica);
    if (outcome.error !== "REQUEST_TIMED_OUT" || !isSilent || this.#isClosed) return outcome;
    const removed = await this.#remove(replica, this.#parts.clock.monoMs() + TAKE_BACK_MS);
    return removed.kind === "refused"
      ? outcome
      : refused("REQUEST_TIMED_OUT", `${replica} is not to be found: it was taken out again`);
  }

  get #memberCount(): number {
    const { voters = [], learners = [] } = this.#parts.core()?.configuration ?? {};
    return voters.length + learners.length;
  }

  async #remove(replica: ReplicaId, untilMs: number): Promise<ChangeOutcome> {
    const outcome = await this.#step({ kind: "remove", replica }, untilMs);
    return outcome === "met" ? this.#done() : outcome;
  }

  /** Appended once the rules allow it, and waited for. */
  async #step(change: ConfChange, untilMs: number): Promise<ChangeOutcome | "met"> {
    let accepted: Extract<ProposeResult, { kind: "accepted" }> | undefined;
    return this.#until(untilMs, () => {
      if (accepted === undefined) {
        const result = this.#parts.input((core) => core.proposeConfChange(change));
        if (result === undefined || result.kind === "notLeader") return notController();
        if (result.kind === "refused") return refused("INCONSISTENT_VOTER_SET", result.reason);
        if (result.kind === "busy") return undefined;
        accepted = result;
      }
      const { index, term } = accepted;
      if (this.#parts.appliedEnd() > index) return "met";
      const core = this.#parts.core();
      const isStillMine =
        core !== undefined && core.term === term && (core.role === "leader" || core.log.commitEnd > index);
      return isStillMine ? undefined : lostLeadership();
    });
  }

  #until(untilMs: number, check: Condition["check"]): Promise<ChangeOutcome | "met"> {
    if (this.#isClosed) return Promise.resolve(refused("BROKER_NOT_AVAILABLE", "the broker is stopping"));
    return new Promise((resolve) => {
      this.#conditions.push({ untilMs, check, resolve });
      this.#parts.timers.after(Math.max(0, untilMs - this.#parts.clock.monoMs()), () => this.onProgress());
      this.onProgress();
    });
  }

  /** The second half of an addition, by whoever leads. Whether it is allowed yet, the core says. */
  #promote(): void {
    const core = this.#parts.core();
    if (core === undefined || !this.#isPromotionDue || this.#isClosed || !core.isLeaderReady) return;
    const { learners } = core.configuration;
    if (learners.length === 0) return;
    this.#isPromotionDue = false;
    this.#parts.timers.after(PROMOTE_EVERY_MS, () => {
      this.#isPromotionDue = true;
      this.onProgress();
    });
    this.#parts.input((node) => {
      for (const replica of learners)
        if (node.proposeConfChange({ kind: "promote", replica }).kind === "accepted") return;
    });
  }

  #done(): ChangeOutcome {
    return { kind: "done", configuration: this.#parts.configuration() ?? { voters: [], learners: [] } };
  }
}

const notController = (): ChangeOutcome => refused("NOT_CONTROLLER", "this node does not lead the metadata quorum");
const lostLeadership = (): ChangeOutcome =>
  refused("REQUEST_TIMED_OUT", "the leadership was lost while the quorum changed: look how far it came, and ask again");
const timedOut = (): ChangeOutcome =>
  refused(
    "REQUEST_TIMED_OUT",
    "the quorum did not change in time; a node that was added becomes a voter once it has caught up: ask again to see it to its end",
  );
