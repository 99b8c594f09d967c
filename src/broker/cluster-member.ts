// This node as a member of its cluster: its quorum, the controller that it may become, its registration, the replicas that the metadata wants here,
// and the streams between them and those of other nodes.
import type { MetadataImage } from "../metadata/image.ts";
import type { BrokerConfig } from "../model/config.ts";
import type { OttlaError } from "../model/errors.ts";
import { type IncarnationId, type NodeId, toNodeId } from "../model/ids.ts";
import type { TimerHandle } from "../ports/timers.ts";
import type { LogStore, ReplicaLog } from "../storage/types.ts";
import { Controller } from "./controller/controller.ts";
import { ControllerLink } from "./controller-calls.ts";
import { affectsBrokers } from "./affected-partitions.ts";
import { Membership } from "./membership.ts";
import { ownReplica } from "./own-replica.ts";
import { PeerLinks } from "./quorum/peers.ts";
import type { Applied, HostedQuorum } from "./quorum/types.ts";
import type { ReplicaManager } from "./replica-manager.ts";
import { ReplicaRepair } from "./replica-repair.ts";
import { RetentionLoop } from "./retention-loop.ts";
import { ReplicaTicker } from "./replica-ticker.ts";
import { Replication } from "./replication/replication.ts";
import type { Deadlines } from "../base/deadlines.ts";
import type { BrokerMetrics } from "./metrics.ts";
import { ProducerIdSource } from "./producer-ids.ts";
import { metadataVersionsOf, newUuid } from "./start-up.ts";
import { type SelfIdentity, TopicReconciler } from "./topic-reconciler.ts";
import { type BrokerDeps, SOFTWARE } from "./types.ts";

export interface MemberParts {
  readonly store: LogStore;
  readonly quorum: HostedQuorum;
  readonly replicas: ReplicaManager;
  readonly deadlines: Deadlines;
  readonly metrics: BrokerMetrics;
  /** host:port that others are told. */
  readonly address: string;
  readonly onChanged: () => void;
  readonly onFailed: (error: OttlaError) => void;
  readonly onDefect: (defect: unknown) => void;
}

/** Of one heartbeat; what is left over is told by later ones. */
const DROPPED_MAX = 1_000;
/** How often a controller that wants to go looks whether there is anybody left. */
const LOOK_MS = 50;

export class ClusterMember {
  readonly nodeId: NodeId;
  readonly quorum: HostedQuorum;
  readonly controller: Controller;
  readonly membership: Membership;
  readonly topics: TopicReconciler;
  readonly replication: Replication;
  readonly producerIds: ProducerIdSource;
  /** Of the streams alone: never those that Raft and heartbeats use (D-24). */
  readonly #bulkLinks: PeerLinks;
  readonly #repair: ReplicaRepair;
  readonly #calls: ControllerLink;
  readonly #ticker: ReplicaTicker;
  readonly #retention: RetentionLoop;
  readonly #self: SelfIdentity;
  readonly #deps: BrokerDeps;
  readonly #parts: MemberParts;
  #hasTopics = false;
  #areLogsOpen = false;
  #closing: Promise<void> | undefined;

  constructor(deps: BrokerDeps, config: BrokerConfig, parts: MemberParts) {
    this.#deps = deps;
    this.#parts = parts;
    this.quorum = parts.quorum;
    const self = { nodeId: toNodeId(config["node.id"]), incarnationId: newUuid(deps) as IncarnationId };
    this.#self = self;
    this.nodeId = self.nodeId;
    this.controller = this.#makeController(self, config);
    this.#calls = this.#makeCalls(config);
    this.topics = this.#makeTopics(self, config);
    this.membership = this.#makeMembership(self, config);
    this.producerIds = this.#makeProducerIds();
    this.#bulkLinks = this.#makeBulkLinks();
    this.#repair = new ReplicaRepair({ links: this.#bulkLinks, logger: deps.logger });
    this.replication = this.#makeReplication(config);
    parts.replicas.streams = this.replication;
    this.#ticker = this.#makeTicker();
    this.#retention = this.#makeRetention(config);
    this.quorum.listen({
      onApplied: (applied) => this.#applied(applied),
      onControllerChanged: (isController) => this.#guard(() => this.controller.onControllerChanged(isController)),
      onFailed: parts.onFailed,
    });
    if (this.quorum.isController) this.controller.onControllerChanged(true);
  }

  /** Resolves when this incarnation may lead, and leads what it was given. Waits as long as there is no quorum. */
  async start(): Promise<void> {
    await this.quorum.waitForImage();
    this.membership.start();
    this.#ticker.start();
    this.#retention.start();
    await this.membership.ready;
    this.producerIds.warm();
    await this.topics.settled();
  }

  /** R-62; bounded. A controller without a majority has nobody to ask. */
  async leave(timeoutMs: number): Promise<void> {
    let look: TimerHandle | undefined;
    const isAlone = new Promise<void>((resolve) => {
      const again = () => {
        if (this.quorum.isController && !this.#hasMajority) resolve();
        else look = this.#deps.timers.after(LOOK_MS, again);
      };
      again();
    });
    await Promise.race([isAlone, this.membership.leave(timeoutMs)]);
    look?.cancel();
  }

  get #hasMajority(): boolean {
    const { voters, reachable } = this.quorum.status;
    const deciding = voters.filter(({ isLearner }) => !isLearner);
    return deciding.filter(({ nodeId }) => reachable.includes(nodeId)).length * 2 > deciding.length;
  }

  /** A leader hands over first; bounded. Closing again waits for the same end. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.membership.stop();
    this.producerIds.stop();
    this.controller.stop();
    this.#ticker.stop();
    this.#retention.stop();
    this.replication.stop();
    // A repair that is under way ends with its connection, not with its log.
    await Promise.all([this.topics.stop(), this.#bulkLinks.close()]);
    await this.quorum.close();
  }

  #applied(applied: Applied): void {
    this.#guard(() => {
      const isOfBrokers = applied.isReset || affectsBrokers(applied.records);
      if (isOfBrokers) this.#parts.replicas.eligible = this.quorum.image.active;
      // Whatever was taken from this broker ends first.
      this.topics.onApplied(applied);
      if (isOfBrokers) this.replication.onBrokersChanged();
      this.membership.onApplied();
      // Whoever took the name waits for this broker to say that it knows (invariant 24).
      if (applied.records.some(({ type }) => type === "named-producer")) this.membership.kick();
      this.controller.onApplied(applied);
      this.#parts.onChanged();
    });
  }

  #guard(work: () => void): void {
    try {
      work();
    } catch (thrown) {
      this.#parts.onDefect(thrown);
    }
  }

  #makeController(self: SelfIdentity, config: BrokerConfig): Controller {
    const { clock, timers, logger } = this.#deps;
    const { quorum } = this;
    return new Controller(
      {
        quorum,
        links: quorum.links,
        clock,
        timers,
        logger: logger.child({ component: "controller" }),
        ownReplica: ({ topicId, partition }) => ownReplica(this.#parts.replicas, topicId, partition),
        onDefect: this.#parts.onDefect,
      },
      {
        nodeId: self.nodeId,
        heartbeatMs: config["broker.heartbeat.interval.ms"],
        sessionMs: config["broker.session.timeout.ms"],
        balance: {
          isEnabled: config["auto.leader.rebalance.enable"] === 1,
          everyMs: config["leader.imbalance.check.interval.seconds"] * 1_000,
        },
        producerNames: {
          namesMax: config["producer.names.max"],
          expirationMs: config["producer.name.expiration.ms"],
        },
      },
    );
  }

  #makeTopics(self: SelfIdentity, config: BrokerConfig): TopicReconciler {
    const { timers, logger } = this.#deps;
    const { store, replicas, onChanged, onDefect } = this.#parts;
    const image = (): MetadataImage => this.quorum.image;
    return new TopicReconciler(
      {
        store,
        image,
        replicas,
        timers,
        logger,
        onChanged,
        onDefect,
        onNews: () => this.membership.kick(),
        isDamageKnown: (topicId, partition) => this.membership.isDamageKnown(topicId, partition),
        damageEnded: (topicId, partition) => this.membership.damageEnded(topicId, partition),
        repair: (replica, partition) => this.#repair.repair(replica, partition),
      },
      self,
      { nodeId: self.nodeId, config },
    );
  }

  #makeCalls(config: BrokerConfig): ControllerLink {
    const { quorum, controller, nodeId } = this;
    return new ControllerLink({
      self: nodeId,
      controller,
      links: quorum.links,
      controllerId: () => quorum.controllerId,
      // Two must fit into a session.
      heartbeatTimeoutMs: Math.max(config["broker.heartbeat.interval.ms"], config["broker.session.timeout.ms"] / 3),
    });
  }

  #makeBulkLinks(): PeerLinks {
    const { transport, clock, timers, rng, logger } = this.#deps;
    const { quorum } = this;
    return new PeerLinks({
      transport,
      clock,
      timers,
      rng: rng.fork("replication"),
      logger: logger.child({ component: "replication" }),
      software: SOFTWARE,
      self: this.nodeId,
      addressesOf: (nodeId) => {
        const address = quorum.image.broker(nodeId)?.address;
        return address === undefined ? [] : [address];
      },
      clusterId: () => quorum.clusterId,
    });
  }

  #makeReplication(config: BrokerConfig): Replication {
    const { clock, timers, logger, checksum } = this.#deps;
    const { replicas, deadlines, store, metrics } = this.#parts;
    const { quorum, nodeId } = this;
    const guard = (work: () => void) => this.#guard(work);
    return new Replication(
      {
        clock,
        deadlines,
        checksum,
        replicas,
        counters: metrics.replicationBytes,
        logger: logger.child({ component: "replication" }),
        links: this.#bulkLinks,
        controller: this.#calls,
        defer: (work) => timers.defer(() => guard(work)),
        guard,
        brokerEpoch: () => this.#ownEpoch(),
        brokerEpochOf: (other) => quorum.image.broker(other)?.brokerEpoch,
        eligible: () => replicas.eligible,
        hasRoom: () => store.hasRoom,
      },
      {
        nodeId,
        waitMaxMs: config["replica.fetch.wait.max.ms"],
        partitionBytesMax: config["replica.fetch.max.bytes"],
        responseBytesMax: config["replica.fetch.response.max.bytes"],
      },
    );
  }

  #makeProducerIds(): ProducerIdSource {
    const { timers, logger } = this.#deps;
    return new ProducerIdSource({
      nodeId: this.nodeId,
      brokerEpoch: () => this.#ownEpoch(),
      allocate: (request) => this.#calls.allocateProducerIds(request),
      timers,
      logger,
      onDefect: this.#parts.onDefect,
    });
  }

  #makeTicker(): ReplicaTicker {
    const { clock, timers } = this.#deps;
    const { replicas, metrics } = this.#parts;
    const guard = (work: () => void) => this.#guard(work);
    const onTick = () => this.topics.retryDamaged();
    return new ReplicaTicker({ replicas, clock, timers, metrics, onTick, guard });
  }

  #makeRetention(config: BrokerConfig): RetentionLoop {
    const { clock, timers, logger } = this.#deps;
    const { replicas, metrics } = this.#parts;
    const guard = (work: () => void) => this.#guard(work);
    const everyMs = config["log.retention.check.interval.ms"];
    return new RetentionLoop({ replicas, clock, timers, logger, counters: metrics.retentionSegments, guard }, everyMs);
  }

  #ownEpoch(): number | null {
    const broker = this.quorum.image.broker(this.nodeId);
    return broker?.incarnationId === this.#self.incarnationId ? broker.brokerEpoch : null;
  }

  #makeMembership(self: SelfIdentity, config: BrokerConfig): Membership {
    const { clock, timers, logger } = this.#deps;
    const { store, address, onDefect } = this.#parts;
    const { quorum } = this;
    const heartbeatMs = config["broker.heartbeat.interval.ms"];
    const sessionMs = config["broker.session.timeout.ms"];
    return new Membership(
      {
        quorum,
        store,
        calls: this.#calls,
        clock,
        timers,
        logger,
        reports: () => ({
          isLowOnSpace: store.isLowOnSpace,
          droppedTopics: this.topics.droppedTopics(DROPPED_MAX),
        }),
        damaged: () => this.#damaged(),
        onRegistered: () => this.#registered(),
        onDefect,
      },
      { self, address, metadataVersions: metadataVersionsOf(this.#deps), heartbeatMs, sessionMs },
    );
  }

  #registered(): void {
    if (this.#hasTopics) return;
    this.#hasTopics = true;
    this.#parts.replicas.eligible = this.quorum.image.active;
    this.topics.start().then(() => {
      this.#areLogsOpen = true;
      this.#warnOfStrays();
    }, this.#parts.onDefect);
  }

  /** D-17: also of logs that no replica is made of yet: it must be told before this broker may lead. */
  *#damaged(): IterableIterator<Pick<ReplicaLog, "topicId" | "partition">> {
    const { store, replicas } = this.#parts;
    for (const { log } of replicas.damaged) yield log;
    if (this.#areLogsOpen) return;
    for (const log of store.logs)
      if (log.damage !== undefined && replicas.find(log.topicId, log.partition) === undefined) yield log;
  }

  /** S-2: a log of an unknown topic is neither served nor deleted. No order of our own writes leaves one. */
  #warnOfStrays(): void {
    const { image } = this.quorum;
    for (const { topic, topicId, partition } of this.#parts.store.logs)
      if (image.topic(topicId) === undefined) this.#deps.logger.warn("stray_log", { topic, topicId, partition });
  }
}
