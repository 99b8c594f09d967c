// Makes the logs of this broker what the metadata says, in its order: stops leading at once where a leadership was taken, drops the logs
// of deleted topics, opens those of new ones, leads in the epochs given. One topic after another, the partitions of one in chunks at once;
// what fails is tried again later.
import { AssertionFailure } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import { Ring } from "../base/ring.ts";
import { asOttlaError, type OttlaError } from "../model/errors.ts";
import { toPartitionIndex, type IncarnationId, type NodeId, type TopicId } from "../model/ids.ts";
import type { MetadataImage, PartitionImage, TopicImage } from "../metadata/image.ts";
import type { Logger } from "../ports/logger.ts";
import type { TimerHandle, Timers } from "../ports/timers.ts";
import type { LogStore, ReplicaLog } from "../storage/types.ts";
import { affectedBy, EVERYTHING } from "./affected-topics.ts";
import { logSpecOf, type TopicDefaults, topicLimitsOf, type TopicLimits } from "./effective-configs.ts";
import type { Applied } from "./quorum/types.ts";
import type { Replica } from "./replica.ts";
import type { ReplicaManager } from "./replica-manager.ts";

/** Logs opened or dropped at once: they share their syncs, and no start floods the disk's queue. */
const AT_ONCE = 256;
const RETRY_MS = 1_000;

export interface ReconcilerDeps {
  readonly store: LogStore;
  /** Of now: never kept over a turn. */
  readonly image: () => MetadataImage;
  readonly replicas: ReplicaManager;
  readonly timers: Timers;
  readonly logger: Logger;
  readonly onChanged: () => void;
  /** Logs of a deleted topic are gone. */
  readonly onDropped: () => void;
  readonly onDefect: (defect: unknown) => void;
}

/** This process under its node id. */
export interface SelfIdentity {
  readonly nodeId: NodeId;
  readonly incarnationId: IncarnationId;
}

/** A topic, or all of them. */
type Work = TopicId | typeof EVERYTHING;

interface Turn {
  /** Undefined: nothing, to learn that all before is done. */
  readonly work: Work | undefined;
  readonly resolve: (error: OttlaError | undefined) => void;
}

export class TopicReconciler {
  readonly #deps: ReconcilerDeps;
  readonly #self: SelfIdentity;
  readonly #defaults: TopicDefaults;
  readonly #queue = new Ring<Turn>();
  /** What is tried again, and why. */
  readonly #failed = new Map<TopicId, OttlaError>();
  /** Topics, deleted or being deleted, whose logs are known to be gone from here. */
  readonly #dropped = new Set<TopicId>();
  #retry: TimerHandle | undefined;
  #isStarted = false;
  #isRunning = false;
  #isStopped = false;
  #onIdle: (() => void) | undefined;

  constructor(deps: ReconcilerDeps, self: SelfIdentity, defaults: TopicDefaults) {
    this.#deps = deps;
    this.#self = self;
    this.#defaults = defaults;
  }

  /**
   * Once, when the image is as new as the quorum's and has this incarnation: from here on every applied record has its effect. Resolves when
   * all logs that must be there are. Nothing is led before the incarnation is unfenced (D-1).
   */
  async start(): Promise<void> {
    this.#isStarted = true;
    await this.reconcile(EVERYTHING);
  }

  /** In the turn in which it was applied. */
  onApplied({ records, isReset }: Applied): void {
    if (!this.#isStarted) return;
    const affected = isReset ? EVERYTHING : affectedBy(records, this.#self.nodeId);
    if (affected === EVERYTHING) {
      for (const topicId of [...this.#deps.replicas.topicIds]) this.#stopWhereTold(topicId);
      void this.reconcile(EVERYTHING); // never rejects; what fails is logged and tried again
      return;
    }
    for (const topicId of affected) {
      this.#stopWhereTold(topicId);
      void this.reconcile(topicId); // as above
    }
  }

  /** Resolves when the logs are as the metadata of its turn says, or with why they are not (it is tried again). Never rejects. */
  reconcile(work: Work): Promise<OttlaError | undefined> {
    return this.#enqueue(work);
  }

  /** Resolves when everything that was applied so far has had its effect, or has failed and is tried again. */
  async settled(): Promise<void> {
    await this.#enqueue(undefined);
  }

  /** Tries again what failed: there may be room now. */
  retryFailed(): void {
    this.#retry?.cancel();
    this.#retry = undefined;
    for (const topicId of [...this.#failed.keys()]) void this.reconcile(topicId); // its failure is logged and kept for the next retry
  }

  /** Why the topic's logs here are not as they should be; undefined when they are, or are about to be. */
  failureOf(topicId: TopicId): OttlaError | undefined {
    return this.#failed.get(topicId);
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
  stop(): Promise<void> {
    this.#isStopped = true;
    this.#retry?.cancel();
    if (!this.#isRunning) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onIdle = resolve;
    });
  }

  #enqueue(work: Work | undefined): Promise<OttlaError | undefined> {
    return new Promise((resolve) => {
      this.#queue.push({ work, resolve });
      void this.#run(); // never rejects: each turn hands its error to whoever waits for it
    });
  }

  async #run(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    for (let turn = this.#queue.shift(); turn !== undefined; turn = this.#queue.shift()) {
      const { work, resolve } = turn;
      resolve(this.#isStopped || work === undefined ? undefined : await this.#turn(work));
    }
    this.#isRunning = false;
    this.#onIdle?.();
  }

  async #turn(work: Work): Promise<OttlaError | undefined> {
    try {
      return work === EVERYTHING ? await this.#everything() : await this.#topic(work);
    } catch (thrown) {
      this.#deps.onDefect(thrown);
      return asOttlaError(thrown);
    } finally {
      this.#deps.onChanged();
    }
  }

  /** Deletes before creates: a name may have been given anew. */
  async #everything(): Promise<undefined> {
    const image = this.#deps.image();
    const { nodeId } = this.#self;
    const going: TopicId[] = [];
    for (const { topicId, owed } of image.tombstones) if (owed.includes(nodeId)) going.push(topicId);
    for (const { topicId, isDeleting } of image.topics) if (isDeleting) going.push(topicId);
    for (const topicId of going) await this.#topic(topicId);
    this.#failed.clear();
    const wanted: { readonly topicId: TopicId; readonly index: number }[] = [];
    for (const { topic, partition } of this.#deps.image().partitionsOn(nodeId))
      if (!topic.isDeleting) wanted.push({ topicId: topic.topicId, index: partition.index });
    await inChunks(wanted, async ({ topicId, index }) => {
      try {
        await this.#open(topicId, index);
      } catch (thrown) {
        this.#tryLater(topicId, thrown);
      }
    });
    return undefined;
  }

  async #topic(topicId: TopicId): Promise<OttlaError | undefined> {
    try {
      this.#failed.delete(topicId);
      const topic = this.#deps.image().topic(topicId);
      // One that was in the image and is no more has been removed.
      if (topic === undefined || topic.isDeleting) await this.#drop(topicId);
      else await inChunks(topic.partitions, ({ index }) => this.#open(topicId, index));
      return undefined;
    } catch (thrown) {
      return this.#tryLater(topicId, thrown);
    }
  }

  #tryLater(topicId: TopicId, thrown: unknown): OttlaError {
    if (thrown instanceof AssertionFailure) this.#deps.onDefect(thrown);
    const error = asOttlaError(thrown);
    this.#deps.logger.warn("topic_reconcile_failed", { topicId, code: error.code, message: error.message });
    this.#failed.set(topicId, error);
    if (!this.#isStopped) this.#retry ??= this.#deps.timers.after(RETRY_MS, () => this.retryFailed());
    return error;
  }

  /** Its producers are answered and its readers look again in the turn in which it was applied, however long the queue is. */
  #stopWhereTold(topicId: TopicId): void {
    const { replicas } = this.#deps;
    const topic = this.#deps.image().topic(topicId);
    if (topic === undefined || topic.isDeleting) {
      replicas.drop(topicId, "UNKNOWN_TOPIC_OR_PARTITION");
      return;
    }
    for (const replica of replicas.ofTopic(topicId)) {
      const partition = topic.partitions[replica.log.partition];
      if (partition === undefined || !this.#leads(partition, replica))
        replicas.resign(replica, "NOT_LEADER_OR_FOLLOWER");
    }
  }

  #leads(partition: PartitionImage, { core }: Replica): boolean {
    return this.#isGiven(partition) && partition.leaderEpoch === core.leaderEpoch;
  }

  /** D-1: only an epoch that was given to this incarnation, not to one before or to another process under this node id. */
  #isGiven({ leader }: PartitionImage): boolean {
    const { nodeId, incarnationId } = this.#self;
    if (leader !== nodeId) return false;
    const broker = this.#deps.image().broker(nodeId);
    return (broker?.incarnationId === incarnationId && !broker.isFenced) || mutant("D1-broker");
  }

  async #open(topicId: TopicId, index: number): Promise<void> {
    const { store } = this.#deps;
    const place = this.#place(topicId, index);
    if (place === undefined || !place.partition.isr.includes(this.#self.nodeId)) return;
    const { topic } = place;
    const known = store.find(topicId, toPartitionIndex(index));
    const log = known ?? (await store.createLog(logSpecOf(topic, toPartitionIndex(index))));
    if (log.damage !== undefined) return;
    const limits = topicLimitsOf(this.#deps.image(), topic, this.#defaults);
    log.configure(limits);
    await this.#lead(log, limits);
  }

  async #lead(log: ReplicaLog, limits: TopicLimits): Promise<void> {
    const { replicas } = this.#deps;
    const given = this.#place(log.topicId, log.partition)?.partition;
    if (given === undefined || !this.#isGiven(given)) return;
    const present = replicas.find(log.topicId, log.partition);
    if (present?.core.isLeader === true && present.core.leaderEpoch === given.leaderEpoch) {
      replicas.configure(present, limits);
      return;
    }
    // the epoch is durable before anything is appended in it.
    await log.startEpoch(given.leaderEpoch);
    // It may have been taken again meanwhile; then there is another turn, or nothing to lead.
    const partition = this.#place(log.topicId, log.partition)?.partition;
    if (partition?.leaderEpoch !== given.leaderEpoch || !this.#isGiven(partition)) return;
    const { leaderEpoch, isr, minIsr } = partition;
    replicas.lead(log, { leaderEpoch, isr, minIsr, limits });
  }

  /** What the metadata of now says, of a topic that is not being deleted. */
  #place(
    topicId: TopicId,
    index: number,
  ): { readonly topic: TopicImage; readonly partition: PartitionImage } | undefined {
    const topic = this.#deps.image().topic(topicId);
    const partition = topic?.partitions[index];
    return topic === undefined || topic.isDeleting || partition === undefined ? undefined : { topic, partition };
  }

  async #drop(topicId: TopicId): Promise<void> {
    const { store, replicas } = this.#deps;
    replicas.drop(topicId, "UNKNOWN_TOPIC_OR_PARTITION");
    await inChunks(this.#logsOf(topicId), (log) => store.deleteLog(log));
    if (!this.#isOwed(topicId)) return;
    this.#dropped.add(topicId);
    this.#deps.onDropped();
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

async function inChunks<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += AT_ONCE) await Promise.all(items.slice(at, at + AT_ONCE).map(work));
}
