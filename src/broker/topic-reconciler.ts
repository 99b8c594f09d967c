// Makes the logs and roles of this broker what the metadata says, in its order. What needs no disk happens in the turn in which a record is
// applied: roles end, followers follow another leader, ISRs change. What needs it goes on partition by partition, all at once: logs are made, epochs
// opened and then led in, damaged logs begun anew. The logs of a deleted topic go first: another one may have its name. What fails is tried again.
import { failpoint } from "../base/failpoint.ts";
import { AssertionFailure, assertNever } from "../base/assert.ts";
import { Gate } from "../base/gate.ts";
import { asOttlaError, type OttlaError } from "../model/errors.ts";
import { toPartitionIndex, type TopicId } from "../model/ids.ts";
import type { MetadataImage, PartitionImage, TopicImage } from "../metadata/image.ts";
import type { Logger } from "../ports/logger.ts";
import type { TimerHandle, Timers } from "../ports/timers.ts";
import type { LogStore, ReplicaLog } from "../storage/types.ts";
import { affectedBy, EVERYTHING, WHOLE } from "./affected-partitions.ts";
import { type TopicDefaults, TopicLimitsTable } from "./effective-configs.ts";
import type { Applied } from "./quorum/types.ts";
import type { Replica } from "./replica.ts";
import type { ReplicaManager } from "./replica-manager.ts";
import { adoptStrays, createLog } from "./stray-logs.ts";
import { mayFetchAnew, type SelfIdentity, wantedRole } from "./wanted-role.ts";

export type { SelfIdentity } from "./wanted-role.ts";

/** Logs made or dropped at once: they share their syncs, and no start floods the disk's queue. */
const LOGS_AT_ONCE = 256;
/** Epochs opened at once: one small record of the journal each. */
const EPOCHS_AT_ONCE = 4_096;
const RETRY_MS = 1_000;
/** In place of a partition: the whole topic goes. */
const DROP = "drop";

export interface ReconcilerDeps {
  readonly store: LogStore;
  /** Of now: never kept over a turn. */
  readonly image: () => MetadataImage;
  readonly replicas: ReplicaManager;
  readonly timers: Timers;
  readonly logger: Logger;
  readonly onChanged: () => void;
  /** Logs of a deleted topic are gone, or a log is found to be damaged: there is something to tell. */
  readonly onNews: () => void;
  readonly onDefect: (defect: unknown) => void;
  /** The controller has committed that the replica holds nothing to count on: before that it may not go. */
  readonly isDamageKnown: (topicId: TopicId, partition: number) => boolean;
  readonly damageEnded: (topicId: TopicId, partition: number) => void;
  /** ReplicaRepair.repair */
  readonly repair: (replica: Replica, partition: PartitionImage) => Promise<boolean>;
}

interface Place {
  readonly topic: TopicImage;
  readonly partition: PartitionImage;
}

interface Failure {
  readonly error: OttlaError;
  readonly partitions: Set<number>;
}

type Task = () => Promise<unknown>;

interface Work {
  readonly ended: Promise<void>;
  /** At the latest when it ended. */
  readonly settled: Promise<void>;
  /** What is left to do is to end damage: nobody waits for that but who stops, or drops the topic. */
  readonly settle: () => void;
}

export class TopicReconciler {
  readonly #deps: ReconcilerDeps;
  readonly #self: SelfIdentity;
  readonly #limits: TopicLimitsTable;
  readonly #logGate = new Gate(LOGS_AT_ONCE);
  /** One of its own: a repair may take minutes, and logs are made and dropped meanwhile. */
  readonly #damageGate = new Gate(LOGS_AT_ONCE);
  readonly #epochGate = new Gate(EPOCHS_AT_ONCE);
  /** Work under way: partitions by topic and index, and topics that are being dropped. */
  readonly #works = new Map<TopicId, Map<number | typeof DROP, Work>>();
  /** By topic name: no log of a new topic of that name is made before it has ended. */
  readonly #drops = new Map<string, Promise<void>>();
  /** What is tried again, and why. */
  readonly #failed = new Map<TopicId, Failure>();
  /** Topics, deleted or being deleted, whose logs are known to be gone from here. */
  readonly #dropped = new Set<TopicId>();
  #retry: TimerHandle | undefined;
  #isStarted = false;
  #isStopped = false;

  constructor(deps: ReconcilerDeps, self: SelfIdentity, defaults: TopicDefaults) {
    this.#deps = deps;
    this.#self = self;
    this.#limits = new TopicLimitsTable(defaults);
  }

  /**
   * Once, when the image is as new as the quorum's and has this incarnation: from here on every applied record has its effect. Resolves when
   * all logs that must be there are. Nothing is led before the incarnation is unfenced (D-1).
   */
  async start(): Promise<void> {
    this.#isStarted = true;
    adoptStrays(this.#deps, (topicId, index) => this.#place(topicId, index) !== undefined);
    this.#everything();
    await this.settled();
  }

  /** In the turn in which it was applied. */
  onApplied({ records, isReset }: Applied): void {
    if (!this.#isStarted) return;
    const affected = isReset ? EVERYTHING : affectedBy(records, this.#deps.image(), this.#self.nodeId);
    if (affected === EVERYTHING) return this.#everything();
    for (const [topicId, partitions] of affected) {
      if (partitions === WHOLE) this.#topic(topicId);
      else for (const index of partitions) this.#partition(topicId, index);
    }
    if (affected.size > 0) this.#deps.onChanged();
  }

  /** A replica can do nothing with its log as it is: for good (D-17), or `error` says what it could not do. */
  onUnusable(replica: Replica, error: OttlaError | undefined): void {
    const { replicas, logger, onNews } = this.#deps;
    const { topicId, partition } = replica.log;
    if (error !== undefined) {
      replicas.close(replica, "STORAGE_ERROR");
      return void this.#tryLater(topicId, partition, error);
    }
    const { topicName, damage: reason } = replica;
    logger.error("replica_damaged", { topic: topicName, partition, reason });
    this.#partition(topicId, partition);
    onNews();
  }

  /** Resolves when the topic's logs are as the metadata of now says, or with why they are not (it is tried again). Never rejects. */
  async reconcile(topicId: TopicId): Promise<OttlaError | undefined> {
    this.#topic(topicId);
    await Promise.all(Array.from(this.#works.get(topicId)?.values() ?? [], ({ settled }) => settled));
    return this.failureOf(topicId);
  }

  /** Resolves when everything that was applied so far has had its effect, or has failed and is tried again. Damage ends later. */
  async settled(): Promise<void> {
    await Promise.all(this.#allWorks.map(({ settled }) => settled));
  }

  get #allWorks(): Work[] {
    return [...this.#works.values()].flatMap((works) => [...works.values()]);
  }

  /** Tries again what failed: there may be room now. */
  retryFailed(): void {
    this.#retry?.cancel();
    this.#retry = undefined;
    const failed = [...this.#failed];
    this.#failed.clear();
    for (const [topicId, { partitions }] of failed) {
      if (this.#isGone(topicId)) this.#topic(topicId);
      else for (const index of partitions) this.#partition(topicId, index);
    }
  }

  /** D-17: looks again at what is damaged: nobody may count on it any more. */
  retryDamaged(): void {
    for (const { log } of [...this.#deps.replicas.damaged]) this.#partition(log.topicId, log.partition);
  }

  /** Why the topic's logs here are not as they should be; undefined when they are, or are about to be. */
  failureOf(topicId: TopicId): OttlaError | undefined {
    return this.#failed.get(topicId)?.error;
  }

  /** Of the topics that are going or gone: those that this broker must drop, and has. */
  droppedTopics(max: number): TopicId[] {
    const image = this.#deps.image();
    const dropped: TopicId[] = [];
    for (const topicId of this.#dropped) {
      if (dropped.length >= max) break;
      const isAsked = image.topic(topicId)?.isDeleting ?? image.tombstone(topicId)?.owed.includes(this.#self.nodeId);
      if (isAsked === true) dropped.push(topicId);
      else this.#dropped.delete(topicId);
    }
    return dropped;
  }

  /** Begins no more work; resolves when what is under way is done. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#retry?.cancel();
    await Promise.all(this.#allWorks.map(({ ended }) => ended));
  }

  /** Deletes before creates: a name may have been given anew. */
  #everything(): void {
    const image = this.#deps.image();
    const { nodeId } = this.#self;
    const going = new Set<TopicId>();
    for (const { topicId, owed } of image.tombstones) if (owed.includes(nodeId)) going.add(topicId);
    for (const { topicId, isDeleting } of image.topics) if (isDeleting) going.add(topicId);
    for (const topicId of this.#deps.replicas.topicIds) if (image.topic(topicId) === undefined) going.add(topicId);
    for (const topicId of going) this.#topic(topicId);
    for (const { topic, partition } of image.partitionsOn(nodeId))
      if (!topic.isDeleting) this.#partition(topic.topicId, partition.index);
    this.#deps.onChanged();
  }

  #topic(topicId: TopicId): void {
    if (this.#isGone(topicId)) return this.#drop(topicId);
    for (const { index, replicas } of this.#deps.image().topic(topicId)?.partitions ?? [])
      if (replicas.includes(this.#self.nodeId)) this.#partition(topicId, index);
  }

  /** One that was in the image and is no more has been removed. */
  #isGone(topicId: TopicId): boolean {
    return this.#deps.image().topic(topicId)?.isDeleting ?? true;
  }

  /** What can be done now is; the rest goes on in the background. */
  #partition(topicId: TopicId, index: number): void {
    const place = this.#place(topicId, index);
    if (place === undefined) return;
    const replica = this.#deps.replicas.find(topicId, index);
    if (replica !== undefined) this.#applyTo(replica, place);
    if (this.#nextTask(topicId, index) !== undefined) this.#begin(topicId, index, () => this.#work(topicId, index));
  }

  /** Its producers are answered and its readers look again in the turn in which it was applied, however much is under way. */
  #applyTo(replica: Replica, { topic, partition }: Place): void {
    const { replicas } = this.#deps;
    replicas.configure(replica, this.#limits.of(this.#deps.image(), topic));
    const role = this.#roleOf(replica, partition);
    if (this.#isIn(replica, role.kind, partition)) {
      const { record } = replica;
      if (record !== undefined && record !== partition) replicas.record(replica, partition);
    } else if (role.kind === "follower" && this.#isFree(replica)) replicas.follow(replica, partition);
    else replicas.standBy(replica, role.kind === "stand-by" ? role.error : "NOT_LEADER_OR_FOLLOWER");
  }

  #roleOf(replica: Replica, partition: PartitionImage) {
    return wantedRole(this.#deps.image(), this.#self, partition, replica.damage !== undefined);
  }

  /** Has the role that is wanted, in the leader epoch that is wanted. */
  #isIn(replica: Replica, role: "leader" | "follower" | "stand-by", partition: PartitionImage): boolean {
    const { record } = replica;
    if (role === "stand-by") return record === undefined;
    const isLed = this.#deps.replicas.led.has(replica);
    return record?.leaderEpoch === partition.leaderEpoch && isLed === (role === "leader");
  }

  /** No work of it and no change of its log is under way. */
  #isFree(replica: Replica): boolean {
    const { topicId, partition } = replica.log;
    return replica.busy === undefined && this.#works.get(topicId)?.has(partition) !== true;
  }

  #begin(topicId: TopicId, what: number | typeof DROP, work: () => Promise<void>): void {
    const works = this.#works.get(topicId) ?? new Map<number | typeof DROP, Work>();
    if (this.#isStopped || works.has(what)) return;
    this.#works.set(topicId, works);
    // In a later turn: `work` may find nothing to do, and ends at once then.
    const ended = Promise.resolve()
      .then(work)
      .catch((thrown: unknown) => this.#deps.onDefect(thrown));
    let settle = (): void => undefined;
    const settled = new Promise<void>((resolve) => {
      settle = resolve;
    });
    works.set(what, { ended, settled, settle });
    void ended.then(settle);
  }

  /** In the turn of the last look: whatever is applied after it begins work of its own. */
  #ended(topicId: TopicId, what: number | typeof DROP): void {
    const works = this.#works.get(topicId);
    works?.delete(what);
    if (works?.size === 0) this.#works.delete(topicId);
    if (this.#works.size === 0) this.#deps.onChanged();
  }

  /** Until the partition is what the metadata of then says, or something failed. */
  async #work(topicId: TopicId, index: number): Promise<void> {
    for (;;) {
      const task = this.#isStopped ? undefined : this.#nextTask(topicId, index);
      if (task === undefined) break;
      try {
        await task();
      } catch (thrown) {
        this.#tryLater(topicId, index, thrown);
        break;
      }
    }
    this.#ended(topicId, index);
  }

  /** The next thing to do that takes time, or that had to wait for one; undefined: nothing. */
  #nextTask(topicId: TopicId, index: number): Task | undefined {
    const place = this.#place(topicId, index);
    if (place === undefined) return undefined;
    const { replicas, store } = this.#deps;
    const replica = replicas.find(topicId, index);
    if (replica === undefined) return () => this.#open(place);
    const { partition } = place;
    const role = this.#roleOf(replica, partition);
    if (this.#isIn(replica, role.kind, partition)) {
      return this.#mayFetchAnew(replica, partition) ? () => this.#endDamageInTurn(replica) : undefined;
    }
    const { busy } = replica;
    if (busy !== undefined) return () => busy;
    if (store.find(topicId, toPartitionIndex(index)) !== replica.log) return () => this.#reopen(replica);
    switch (role.kind) {
      case "leader":
        return () => this.#epochGate.run(() => this.#lead(replica, partition));
      case "follower":
      case "stand-by":
        return () => this.#apply(replica);
      default:
        return assertNever(role);
    }
  }

  #tryLater(topicId: TopicId, index: number, thrown: unknown): OttlaError {
    if (thrown instanceof AssertionFailure) this.#deps.onDefect(thrown);
    const error = asOttlaError(thrown);
    const known = this.#failed.get(topicId);
    if (known === undefined) {
      this.#deps.logger.warn("topic_reconcile_failed", { topicId, code: error.code, message: error.message });
      this.#failed.set(topicId, { error, partitions: new Set([index]) });
    } else known.partitions.add(index);
    if (!this.#isStopped) this.#retry ??= this.#deps.timers.after(RETRY_MS, () => this.retryFailed());
    return error;
  }

  async #open({ topic, partition }: Place): Promise<void> {
    const { store, replicas } = this.#deps;
    const { topicId } = topic;
    const index = toPartitionIndex(partition.index);
    for (let drop = this.#drops.get(topic.name); drop !== undefined; drop = this.#drops.get(topic.name)) {
      // A drop of its own topic waits for this work.
      if (this.#place(topicId, index) === undefined) return;
      await drop;
    }
    if (this.#place(topicId, index) === undefined) return;
    const log = store.find(topicId, index) ?? (await this.#logGate.run(() => createLog(this.#deps, topic, index)));
    failpoint("partition-created");
    const now = this.#place(topicId, index);
    if (now === undefined) return;
    const replica = replicas.open(log, this.#limits.of(this.#deps.image(), now.topic));
    if (replica.damage !== undefined) this.#deps.onNews();
  }

  /** Its log went while it was begun anew. */
  #reopen(replica: Replica): Promise<void> {
    this.#deps.replicas.close(replica, "STORAGE_ERROR");
    return Promise.resolve();
  }

  #apply(replica: Replica): Promise<void> {
    const place = this.#place(replica.log.topicId, replica.log.partition);
    const { replicas } = this.#deps;
    if (place === undefined || replica.isDropped) return Promise.resolve();
    const role = this.#roleOf(replica, place.partition);
    if (role.kind === "follower") replicas.follow(replica, place.partition);
    else replicas.standBy(replica, role.kind === "stand-by" ? role.error : "NOT_LEADER_OR_FOLLOWER");
    return Promise.resolve();
  }

  async #lead(replica: Replica, { leaderEpoch }: PartitionImage): Promise<void> {
    const { replicas } = this.#deps;
    const { log } = replica;
    replicas.standBy(replica, "NOT_LEADER_OR_FOLLOWER");
    // the epoch is durable before anything is appended in it.
    await log.startEpoch(leaderEpoch);
    failpoint("leader-epoch-durable");
    if (replica.isDropped || replica.log !== log || replica.damage !== undefined) return;
    replicas.epochOpened(replica, leaderEpoch);
    // It may have been taken again meanwhile; then the next look finds what it is now.
    const partition = this.#place(log.topicId, log.partition)?.partition;
    if (partition?.leaderEpoch !== leaderEpoch || this.#roleOf(replica, partition).kind !== "leader") return;
    replicas.lead(replica, partition);
  }

  #endDamageInTurn(replica: Replica): Promise<void> {
    const { topicId, partition } = replica.log;
    this.#works.get(topicId)?.get(partition)?.settle();
    return this.#damageGate.run(() => this.#endDamage(replica));
  }

  /** D-17 */
  async #endDamage(replica: Replica): Promise<void> {
    const { replicas, logger } = this.#deps;
    const { topicName, damage: reason, log } = replica;
    const place = this.#place(log.topicId, log.partition);
    // What was waited for may have changed it.
    if (place === undefined || replica.isDropped || !this.#mayFetchAnew(replica, place.partition)) return;
    if (await this.#deps.repair(replica, place.partition)) {
      if (!replica.isDropped) replicas.repaired(replica);
      this.#deps.damageEnded(log.topicId, log.partition);
      return;
    }
    const now = this.#place(log.topicId, log.partition);
    if (now === undefined || replica.isDropped || !this.#mayFetchAnew(replica, now.partition)) return;
    logger.warn("replica_dropped_to_fetch_anew", { topic: topicName, partition: log.partition, reason });
    try {
      await replicas.fetchAnew(replica);
    } catch (thrown) {
      replicas.close(replica, "STORAGE_ERROR");
      throw thrown;
    }
    this.#deps.damageEnded(log.topicId, log.partition);
  }

  #mayFetchAnew({ damage, log }: Replica, partition: PartitionImage): boolean {
    if (damage === undefined || !mayFetchAnew(partition, this.#self.nodeId)) return false;
    return this.#deps.isDamageKnown(log.topicId, log.partition);
  }

  /** What the metadata of now says of a partition that is to be here, of a topic that is not being deleted. */
  #place(topicId: TopicId, index: number): Place | undefined {
    const topic = this.#deps.image().topic(topicId);
    const partition = topic?.partitions[index];
    if (topic === undefined || topic.isDeleting || partition === undefined) return undefined;
    return partition.replicas.includes(this.#self.nodeId) ? { topic, partition } : undefined;
  }

  #drop(topicId: TopicId): void {
    const { replicas } = this.#deps;
    // A log that begins anew is not found before it is there: it is dropped then.
    const changing = Promise.all(Array.from(replicas.ofTopic(topicId), ({ busy }) => busy));
    replicas.drop(topicId, "UNKNOWN_TOPIC_OR_PARTITION");
    this.#failed.delete(topicId);
    this.#begin(topicId, DROP, () => this.#dropLogs(topicId, changing));
  }

  async #dropLogs(topicId: TopicId, changing: Promise<unknown>): Promise<void> {
    const image = this.#deps.image();
    const name = (image.topic(topicId) ?? image.tombstone(topicId) ?? { name: this.#logsOf(topicId)[0]?.topic }).name;
    const before = name === undefined ? undefined : this.#drops.get(name);
    const dropping = Promise.all([before, changing]).then(() => this.#deleteAll(topicId));
    if (name !== undefined) this.#drops.set(name, dropping);
    await dropping;
    if (name !== undefined && this.#drops.get(name) === dropping) this.#drops.delete(name);
    this.#ended(topicId, DROP);
  }

  /** Never rejects. */
  async #deleteAll(topicId: TopicId): Promise<void> {
    const { store, onNews } = this.#deps;
    // A log that is being made comes first; its work finds that it is not wanted any more.
    const works = this.#works.get(topicId) ?? [];
    await Promise.all(Array.from(works, ([what, { ended }]) => (what === DROP ? undefined : ended)));
    try {
      await Promise.all(this.#logsOf(topicId).map((log) => this.#logGate.run(() => store.deleteLog(log))));
    } catch (thrown) {
      this.#tryLater(topicId, 0, thrown);
      return;
    }
    if (!this.#isOwed(topicId)) return;
    this.#dropped.add(topicId);
    onNews();
  }

  #logsOf(topicId: TopicId): ReplicaLog[] {
    const { store } = this.#deps;
    const topic = this.#deps.image().topic(topicId);
    if (topic === undefined) return [...store.logs].filter((log) => log.topicId === topicId);
    return topic.partitions.flatMap(({ index }) => store.find(topicId, toPartitionIndex(index)) ?? []);
  }

  /** The controller waits to hear that this broker has nothing of the topic. */
  #isOwed(topicId: TopicId): boolean {
    const image = this.#deps.image();
    const { nodeId } = this.#self;
    const topic = image.topic(topicId);
    if (topic === undefined) return image.tombstone(topicId)?.owed.includes(nodeId) ?? false;
    return topic.isDeleting && topic.partitions.some(({ replicas }) => replicas.includes(nodeId));
  }
}
