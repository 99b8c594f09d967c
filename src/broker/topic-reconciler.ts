// Makes the logs of this broker what the metadata says: opens those of new topics, drops those of deleted ones, leads in the epochs given.
// One topic after another, the partitions of one in chunks at once; what fails is tried again later.
import { AssertionFailure } from "../base/assert.ts";
import { Ring } from "../base/ring.ts";
import { asOttlaError, OttlaError } from "../model/errors.ts";
import { toPartitionIndex, type NodeId, type TopicId } from "../model/ids.ts";
import type { BrokerConfig } from "../model/config.ts";
import { decideRemoval } from "../metadata/controller.ts";
import type { PartitionImage, TopicImage } from "../metadata/image.ts";
import type { Logger } from "../ports/logger.ts";
import type { TimerHandle, Timers } from "../ports/timers.ts";
import type { LogSpec, LogStore, ReplicaLog } from "../storage/types.ts";
import type { MetadataLog } from "./metadata-log.ts";
import type { ReplicaManager } from "./replica-manager.ts";

/** Logs opened or dropped at once: they share their syncs, and no start floods the disk's queue. */
const AT_ONCE = 256;
const RETRY_MS = 1_000;

export interface ReconcilerDeps {
  readonly store: LogStore;
  readonly metadata: MetadataLog;
  readonly replicas: ReplicaManager;
  readonly timers: Timers;
  readonly logger: Logger;
  readonly onChanged: () => void;
  readonly onDefect: (defect: unknown) => void;
}

interface Turn {
  readonly topicId: TopicId;
  readonly resolve: (error: OttlaError | undefined) => void;
}

export class TopicReconciler {
  readonly #deps: ReconcilerDeps;
  readonly #self: NodeId;
  readonly #config: BrokerConfig;
  readonly #queue = new Ring<Turn>();
  readonly #failed = new Set<TopicId>();
  #retry: TimerHandle | undefined;
  #isRunning = false;
  #isStopped = false;
  #onIdle: (() => void) | undefined;

  constructor(deps: ReconcilerDeps, self: NodeId, config: BrokerConfig) {
    this.#deps = deps;
    this.#self = self;
    this.#config = config;
  }

  /**
   * At start, before anything is served: every topic that is not being deleted. A full disk is no reason not to start (D-18): what it keeps
   * from being created is tried again. Rejects with any other error.
   */
  async openAll(topics: Iterable<TopicImage>): Promise<void> {
    const wanted: [TopicImage, PartitionImage][] = [];
    for (const topic of topics) {
      if (topic.isDeleting) continue;
      for (const partition of topic.partitions) wanted.push([topic, partition]);
    }
    await inChunks(wanted, async ([topic, partition]) => {
      try {
        await this.#open(topic, partition);
      } catch (thrown) {
        const error = asOttlaError(thrown);
        if (error.code !== "STORAGE_FULL") throw thrown;
        this.#tryLater(topic.topicId, error);
      }
    });
  }

  /** Resolves when the topic's logs are as the metadata of now says, or with why they are not (it is tried again). Never rejects. */
  reconcile(topicId: TopicId): Promise<OttlaError | undefined> {
    return new Promise((resolve) => {
      this.#queue.push({ topicId, resolve });
      void this.#run(); // never rejects: each turn hands its error to whoever waits for it
    });
  }

  /** Tries again what failed: there may be room now. */
  retryFailed(): void {
    this.#retry?.cancel();
    this.#retry = undefined;
    const failed = [...this.#failed];
    this.#failed.clear();
    for (const topicId of failed) void this.reconcile(topicId); // its failure is logged and kept for the next retry
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

  async #run(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    for (let turn = this.#queue.shift(); turn !== undefined; turn = this.#queue.shift()) {
      turn.resolve(this.#isStopped ? undefined : await this.#turn(turn.topicId));
    }
    this.#isRunning = false;
    this.#onIdle?.();
  }

  async #turn(topicId: TopicId): Promise<OttlaError | undefined> {
    try {
      const topic = this.#deps.metadata.image.topic(topicId);
      if (topic === undefined) return undefined;
      if (topic.isDeleting) await this.#drop(topic);
      else await inChunks(topic.partitions, (partition) => this.#open(topic, partition));
      return undefined;
    } catch (thrown) {
      if (thrown instanceof AssertionFailure) this.#deps.onDefect(thrown);
      return this.#tryLater(topicId, asOttlaError(thrown));
    } finally {
      this.#deps.onChanged();
    }
  }

  #tryLater(topicId: TopicId, error: OttlaError): OttlaError {
    this.#deps.logger.warn("topic_reconcile_failed", { topicId, code: error.code, message: error.message });
    this.#failed.add(topicId);
    if (!this.#isStopped) this.#retry ??= this.#deps.timers.after(RETRY_MS, () => this.retryFailed());
    return error;
  }

  async #open(topic: TopicImage, partition: PartitionImage): Promise<void> {
    if (partition.leader !== this.#self) return;
    const { store, replicas } = this.#deps;
    const index = toPartitionIndex(partition.index);
    const present = replicas.find(topic.topicId, index);
    if (present?.core.leaderEpoch === partition.leaderEpoch) return;
    const log = store.find(topic.topicId, index) ?? (await store.createLog(this.#specOf(topic, partition)));
    if (log.damage !== undefined) return;
    // the epoch is durable before anything is appended in it.
    await log.startEpoch(partition.leaderEpoch);
    const { leaderEpoch, isr, minIsr } = partition;
    const { configs } = topic;
    const limits = {
      maxMessageBytes: configs["max.message.bytes"] ?? this.#config["max.message.bytes"],
      segmentBytes: configs["segment.bytes"] ?? this.#config["segment.bytes"],
    };
    replicas.lead(log, { leaderEpoch, isr, minIsr, limits });
  }

  #specOf(topic: TopicImage, partition: PartitionImage): LogSpec {
    const segmentBytes = topic.configs["segment.bytes"];
    const indexIntervalBytes = topic.configs["index.interval.bytes"];
    return {
      topicId: topic.topicId,
      topic: topic.name,
      partition: toPartitionIndex(partition.index),
      ...(segmentBytes === undefined ? {} : { segmentBytes }),
      ...(indexIntervalBytes === undefined ? {} : { indexIntervalBytes }),
    };
  }

  /** Marked -> logs dropped -> removed, so that a name is free only when nothing of it is left. */
  async #drop(topic: TopicImage): Promise<void> {
    const { store, replicas, metadata } = this.#deps;
    replicas.drop(topic.topicId, "UNKNOWN_TOPIC_OR_PARTITION");
    const logs: ReplicaLog[] = [];
    for (const { index } of topic.partitions) {
      const log = store.find(topic.topicId, toPartitionIndex(index));
      if (log !== undefined) logs.push(log);
    }
    await inChunks(logs, (log) => store.deleteLog(log));
    const decision = await metadata.propose((image) => decideRemoval(image, topic.topicId));
    if (decision.kind === "refused") throw new OttlaError(decision.error, decision.message);
  }
}

async function inChunks<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += AT_ONCE) await Promise.all(items.slice(at, at + AT_ONCE).map(work));
}
