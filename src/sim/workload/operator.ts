// The operator of a cluster (R1), through the real admin client while everything breaks: puts new disks in the place of lost ones,
// adds and removes voters, moves the leadership, upgrades nodes one by one and raises metadata.version in the end.
import type { Rng } from "../../base/rng.ts";
import type { Admin, Client, ElectOptions, QuorumInfo } from "../../client/types.ts";
import { asOttlaError } from "../../model/errors.ts";
import type { SimCluster } from "../cluster.ts";
import type { HistoryEvent } from "../../checkers/history.ts";
import { MARK } from "../marks.ts";
import type { OperatorPlan } from "../swarm.ts";
import type { SimWorld } from "../world.ts";
import type { TopicBoard } from "./topics.ts";

export interface OperatorParts {
  readonly world: SimWorld;
  readonly cluster: SimCluster;
  readonly connect: () => Promise<Client>;
  readonly wait: (delayMs: number) => Promise<void>;
  readonly record: (event: HistoryEvent) => void;
  readonly nextOperation: () => number;
  readonly board: TopicBoard;
  /** Told before it is asked that what lies below may go. */
  readonly mayTrim: (topic: string, partition: number, toOffset: number) => void;
}

/** An operator who gives up early and tries something else: a change may still be under way when the next one is asked for. */
const CHANGE_MS = 4000;
const REPLACE_EVERY_MS = 1500;
const UPGRADE_EVERY_MS = 2500;

/** Of giving a partition up that has eligible replicas, only dead ones. */
const UNCLEAN_CHANCE = 0.1;

export class Operator {
  isStopping = false;
  readonly #parts: OperatorParts;
  readonly #plan: OperatorPlan;
  readonly #rng: Rng;

  constructor(parts: OperatorParts, plan: OperatorPlan) {
    this.#parts = parts;
    this.#plan = plan;
    this.#rng = parts.world.fork("operator");
  }

  /** Until `isStopping`; resolves when nothing of it is under way. */
  async run(): Promise<void> {
    if (this.#parts.cluster.isSingle) return;
    const admin = (await this.#parts.connect()).admin();
    await Promise.all([
      this.#every(REPLACE_EVERY_MS, () => this.#replaceLost(admin)),
      this.#every(this.#plan.membersMs, () => this.#changeMembers(admin)),
      this.#every(this.#plan.transferMs, () => this.#transfer(admin)),
      this.#every(this.#plan.uncleanMs, () => this.#electUnclean(admin)),
      this.#every(this.#plan.preferredMs, () => this.#electPreferred(admin)),
      this.#every(this.#plan.minIsrMs, () => this.#changeMinIsr(admin)),
      this.#every(this.#plan.trimMs, () => this.#trim(admin)),
      this.#every(this.#plan.isUpgrade ? UPGRADE_EVERY_MS : 0, () => this.#upgrade(admin)),
    ]);
  }

  async #every(meanMs: number, act: () => Promise<void>): Promise<void> {
    if (meanMs === 0) return;
    for (;;) {
      const untilMs = this.#parts.world.nowMs - Math.log((this.#rng.u32() + 1) / 2 ** 32) * meanMs;
      while (!this.isStopping && this.#parts.world.nowMs < untilMs) await this.#parts.wait(100);
      if (this.isStopping) return;
      await act();
    }
  }

  async #try(what: string, mark: string, act: () => Promise<void>): Promise<void> {
    const { world } = this.#parts;
    world.note("operator", "wants", what);
    try {
      await act();
      world.note("operator", "done", what);
      world.sometimes(mark);
    } catch (thrown) {
      const error = asOttlaError(thrown);
      world.note("operator", "failed", `${what}: ${error.code} ${error.message}`);
      world.sometimes(`operator ended ${error.code}`);
      if (error.code === "UNKNOWN_SERVER_ERROR") world.fail(error);
    }
  }

  async #quorum(admin: Admin): Promise<QuorumInfo | undefined> {
    return admin.describeQuorum({ timeoutMs: CHANGE_MS }).catch((thrown: unknown) => {
      const error = asOttlaError(thrown);
      if (error.code === "UNKNOWN_SERVER_ERROR") this.#parts.world.fail(error);
      return undefined;
    });
  }

  /** A voter whose disk is gone, or refused for being of an older time: whoever runs the machines knows. */
  async #replaceLost(admin: Admin): Promise<void> {
    const { cluster } = this.#parts;
    if (!cluster.hasLosses) return;
    const quorum = await this.#quorum(admin);
    const lost = quorum?.voters.find(({ nodeId, directoryId }) => cluster.isLostDisk(nodeId, directoryId));
    if (lost === undefined || !cluster.isRunning(lost.nodeId)) return;
    await this.#try(`replace ${lost.nodeId}`, MARK.VOTER_REPLACED, () =>
      admin.replaceVoter(lost.nodeId, { timeoutMs: CHANGE_MS }),
    );
  }

  async #changeMembers(admin: Admin): Promise<void> {
    const quorum = await this.#quorum(admin);
    if (quorum === undefined) return;
    const members = quorum.voters.map(({ nodeId }) => nodeId);
    const strangers = this.#parts.cluster.nodes.map(({ id }): number => id).filter((id) => !members.includes(id));
    const voters = quorum.voters.filter(({ isLearner }) => !isLearner).map(({ nodeId }) => nodeId);
    if (strangers.length > 0 && this.#rng.chance(0.6)) {
      const nodeId = this.#rng.pick(strangers);
      await this.#try(`add ${nodeId}`, MARK.VOTER_ADDED, () => admin.addVoter(nodeId, { timeoutMs: CHANGE_MS }));
    } else if (voters.length > 3 || (voters.length > 1 && this.#rng.chance(0.3))) {
      const nodeId = this.#rng.pick(members);
      await this.#removing(() =>
        this.#try(`remove ${nodeId}`, MARK.VOTER_REMOVED, () => admin.removeVoter(nodeId, { timeoutMs: CHANGE_MS })),
      );
    }
  }

  /** Never while it is not clear which disks there are: what is lost then is nobody's fault but the operator's. */
  async #removing(act: () => Promise<void>): Promise<void> {
    const { cluster } = this.#parts;
    if (cluster.isInDoubt) return;
    cluster.isChangingVoters = true;
    try {
      await act();
    } finally {
      cluster.isChangingVoters = false;
    }
  }

  async #transfer(admin: Admin): Promise<void> {
    const quorum = await this.#quorum(admin);
    if (quorum === undefined || quorum.voters.length === 0) return;
    const { nodeId } = this.#rng.pick(quorum.voters);
    await this.#try(`transfer to ${nodeId}`, MARK.TRANSFERRED, () =>
      admin.transferLeadership(nodeId, { timeoutMs: CHANGE_MS }),
    );
  }

  /** What is lost is given up; now and then also what only waits for a replica that is not there. */
  async #electUnclean(admin: Admin): Promise<void> {
    const { cluster } = this.#parts;
    const place = cluster.leaderlessPlaces.find((each) => each.hasNoIntactReplica || this.#rng.chance(UNCLEAN_CHANCE));
    if (place === undefined) return;
    const { topic, partition } = place;
    await this.#try(`unclean election of ${topic}-${partition}`, MARK.UNCLEAN_WISH, () =>
      // What only waits for a dead replica that has everything is not given up by mistake.
      elect(admin, "unclean", { topic, partitions: [partition], force: this.#rng.chance(0.5), timeoutMs: CHANGE_MS }),
    );
  }

  /** Everybody's first replica, or one partition's replica somewhere. */
  async #electPreferred(admin: Admin): Promise<void> {
    const { board, cluster } = this.#parts;
    if (board.live.length > 0 && this.#rng.chance(0.5)) {
      const { name: topic } = this.#rng.pick(board.live);
      const { id: nodeId } = this.#rng.pick(cluster.nodes);
      return this.#try(`election of ${nodeId} for ${topic}-0`, MARK.NAMED_WISH, () =>
        elect(admin, "preferred", { topic, partitions: [0], nodeId, timeoutMs: CHANGE_MS }),
      );
    }
    await this.#try("preferred election", MARK.PREFERRED_WISH, () =>
      elect(admin, "preferred", { timeoutMs: CHANGE_MS }),
    );
  }

  async #changeMinIsr(admin: Admin): Promise<void> {
    const topics = this.#parts.board.live;
    if (topics.length === 0) return;
    const { name } = this.#rng.pick(topics);
    const value = this.#rng.pick(["1", "2", "2", "3", null]);
    await this.#try(`min ISR of ${name}: ${value ?? "default"}`, MARK.MIN_ISR_WISH, () =>
      admin.alterTopicConfigs(name, { "min.insync.replicas": value }, { timeoutMs: CHANGE_MS }),
    );
  }

  /** S-30: what lies below some record of a partition goes; where the policy is not to delete, nothing does. */
  async #trim(admin: Admin): Promise<void> {
    const { board, cluster, mayTrim } = this.#parts;
    if (board.live.length === 0) return;
    const { name } = this.#rng.pick(board.live);
    await this.#try(`trim ${name}`, MARK.TRIM_WISH, async () => {
      const all = (await admin.offsets(name, { partial: true, timeoutMs: CHANGE_MS })).filter(
        ({ error }) => error === undefined,
      );
      if (all.length === 0) return;
      const { partition, startOffset, endOffset } = this.#rng.pick(all);
      const offset = this.#rng.chance(0.2) ? endOffset : this.#rng.between(startOffset, endOffset);
      mayTrim(name, partition, offset);
      const options = { partitions: [partition], timeoutMs: CHANGE_MS };
      const [done] = await admin.deleteRecords(name, { offset }, options);
      if (done?.error !== undefined) throw done.error;
      const start = done?.startOffset ?? -1;
      // What is only told of producers stays, so that it is not told again for ever.
      const isLess = start < offset && cluster.hasRecords({ topic: name, partition }, { from: start, to: offset });
      if (isLess) this.#judge(name, partition, offset, start);
    });
  }

  #judge(topic: string, partition: number, asked: number, told: number): void {
    const { world, record } = this.#parts;
    const message = `what lies below ${asked} was asked to go and is said to be gone, it begins at ${told}`;
    record({ type: "verdict", timeMs: world.nowMs, process: "operator", topic, partition, invariant: 20, message });
  }

  /** One node gets the newer software, now and then goes back to the older one; when all have it, the version is raised. */
  async #upgrade(admin: Admin): Promise<void> {
    const { cluster, world } = this.#parts;
    const old = cluster.nodes.filter(({ metadataVersionMax }) => metadataVersionMax === 1);
    if (old.length === 0) {
      if (cluster.metadataVersion >= 2) return;
      await this.#try("raise metadata.version", MARK.VERSION_RAISED, () => this.#raise(admin));
      return;
    }
    const upgraded = cluster.nodes.filter((node) => !old.includes(node));
    const goesBack = upgraded.length > 0 && cluster.metadataVersion < 2 && this.#rng.chance(0.2);
    const node = this.#rng.pick(goesBack ? upgraded : old);
    if (node.state !== "running") return;
    node.metadataVersionMax = goesBack ? 1 : 2;
    world.countFault(goesBack ? "U1 downgrade" : "U1 upgrade");
    await Promise.race([node.stop(), this.#parts.wait(CHANGE_MS)]);
  }

  /** Part of the history that must be linearizable. */
  async #raise(admin: Admin): Promise<void> {
    const { world, record, nextOperation } = this.#parts;
    const operation = nextOperation();
    const wish = { kind: "raise metadata version", version: 2 } as const;
    record({ type: "metadata invoked", timeMs: world.nowMs, operation, process: "operator", wish });
    try {
      await admin.raiseMetadataVersion(2, { timeoutMs: CHANGE_MS });
      record({ type: "metadata ok", timeMs: world.nowMs, operation, result: { kind: "done" } });
    } catch (thrown) {
      const error = asOttlaError(thrown);
      const type = error.outcome === "unknown" ? "metadata unknown" : "metadata failed";
      record({ type, timeMs: world.nowMs, operation, reason: error.code });
      throw error;
    }
  }
}

/** Rejects with what the first partition was refused for. */
async function elect(admin: Admin, kind: "preferred" | "unclean", options: ElectOptions): Promise<void> {
  const { elections } = await admin.electLeaders(kind, options);
  const refused = elections.find(({ error }) => error !== undefined && error.code !== "ELECTION_NOT_NEEDED")?.error;
  if (refused !== undefined) throw refused;
}
