// This node as a member of its cluster: its quorum, the controller that it may become, its registration, and the logs that the metadata wants here.
import type { MetadataImage } from "../metadata/image.ts";
import type { BrokerConfig } from "../model/config.ts";
import type { OttlaError } from "../model/errors.ts";
import { type IncarnationId, type NodeId, toNodeId } from "../model/ids.ts";
import type { TimerHandle } from "../ports/timers.ts";
import type { LogStore } from "../storage/types.ts";
import type { BrokerHeartbeatRequest } from "../wire/native/quorum-apis.ts";
import { Controller } from "./controller/controller.ts";
import { ControllerLink } from "./controller-calls.ts";
import { Membership } from "./membership.ts";
import type { Applied, HostedQuorum } from "./quorum/types.ts";
import type { ReplicaManager } from "./replica-manager.ts";
import { metadataVersionsOf, newUuid } from "./start-up.ts";
import { type SelfIdentity, TopicReconciler } from "./topic-reconciler.ts";
import type { BrokerDeps } from "./types.ts";

export interface MemberParts {
  readonly store: LogStore;
  readonly quorum: HostedQuorum;
  readonly replicas: ReplicaManager;
  /** host:port that others are told. */
  readonly address: string;
  readonly onChanged: () => void;
  readonly onFailed: (error: OttlaError) => void;
  readonly onDefect: (defect: unknown) => void;
}

/** Of one heartbeat; what is left over is told by later ones. */
const DROPPED_MAX = 1_000;
const DAMAGED_MAX = 1_000;
/** How often a controller that wants to go looks whether there is anybody left. */
const LOOK_MS = 50;

export class ClusterMember {
  readonly nodeId: NodeId;
  readonly quorum: HostedQuorum;
  readonly controller: Controller;
  readonly membership: Membership;
  readonly topics: TopicReconciler;
  readonly #deps: BrokerDeps;
  readonly #parts: MemberParts;
  #hasTopics = false;
  #closing: Promise<void> | undefined;

  constructor(deps: BrokerDeps, config: BrokerConfig, parts: MemberParts) {
    this.#deps = deps;
    this.#parts = parts;
    this.quorum = parts.quorum;
    const self = { nodeId: toNodeId(config["node.id"]), incarnationId: newUuid(deps) as IncarnationId };
    this.nodeId = self.nodeId;
    this.controller = this.#makeController(self, config);
    this.topics = this.#makeTopics(self, config);
    this.membership = this.#makeMembership(self, config);
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
    await this.membership.ready;
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
    this.controller.stop();
    await this.topics.stop();
    await this.quorum.close();
  }

  #applied(applied: Applied): void {
    this.#guard(() => {
      // Whatever was taken from this broker ends first.
      this.topics.onApplied(applied);
      this.membership.onApplied();
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
        onDefect: this.#parts.onDefect,
      },
      {
        nodeId: self.nodeId,
        heartbeatMs: config["broker.heartbeat.interval.ms"],
        sessionMs: config["broker.session.timeout.ms"],
      },
    );
  }

  #makeTopics(self: SelfIdentity, config: BrokerConfig): TopicReconciler {
    const { timers, logger } = this.#deps;
    const { store, replicas, onChanged, onDefect } = this.#parts;
    const image = (): MetadataImage => this.quorum.image;
    const onDropped = () => this.membership.kick();
    return new TopicReconciler({ store, image, replicas, timers, logger, onChanged, onDropped, onDefect }, self, {
      nodeId: self.nodeId,
      config,
    });
  }

  #makeMembership(self: SelfIdentity, config: BrokerConfig): Membership {
    const { clock, timers, logger } = this.#deps;
    const { store, address, onDefect } = this.#parts;
    const { quorum, controller } = this;
    const heartbeatMs = config["broker.heartbeat.interval.ms"];
    const sessionMs = config["broker.session.timeout.ms"];
    // Two must fit into a session.
    const heartbeatTimeoutMs = Math.max(heartbeatMs, sessionMs / 3);
    return new Membership(
      {
        quorum,
        store,
        calls: new ControllerLink({ self: self.nodeId, controller, links: quorum.links, heartbeatTimeoutMs }),
        clock,
        timers,
        logger,
        reports: () => ({
          isLowOnSpace: store.isLowOnSpace,
          droppedTopics: this.topics.droppedTopics(DROPPED_MAX),
          damaged: damagedOf(store),
        }),
        onRegistered: () => this.#registered(),
        onDefect,
      },
      { self, address, metadataVersions: metadataVersionsOf(this.#deps), heartbeatMs, sessionMs },
    );
  }

  #registered(): void {
    if (this.#hasTopics) return;
    this.#hasTopics = true;
    this.topics.start().then(() => this.#warnOfStrays(), this.#parts.onDefect);
  }

  /** S-2: a log of an unknown topic is neither served nor deleted. No order of our own writes leaves one. */
  #warnOfStrays(): void {
    const { image } = this.quorum;
    for (const { topic, topicId, partition } of this.#parts.store.logs)
      if (image.topic(topicId) === undefined) this.#deps.logger.warn("stray_log", { topic, topicId, partition });
  }
}

/** D-17: what may not lead. */
function damagedOf(store: LogStore): BrokerHeartbeatRequest["damaged"] {
  const damaged = new Map<
    string,
    { readonly topicId: BrokerHeartbeatRequest["droppedTopics"][number]; readonly partitions: number[] }
  >();
  let count = 0;
  for (const { topicId, partition, damage } of store.logs) {
    if (damage === undefined || count++ >= DAMAGED_MAX) continue;
    const entry = damaged.get(topicId) ?? { topicId, partitions: [] };
    entry.partitions.push(partition);
    damaged.set(topicId, entry);
  }
  return [...damaged.values()];
}
