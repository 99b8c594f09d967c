// What the active controller does beside answering: it keeps the sessions of brokers (D-22), fences those that are gone, registers and unfences those
// that are there, gives them their leaderships back, and finishes deletions. On the other nodes it only waits for its turn.
import { type Decision, decideFence, type FenceWish, type PartitionRef } from "../../metadata/controller.ts";
import type { BrokerImage, MetadataImage } from "../../metadata/image.ts";
import { Sessions } from "../../metadata/sessions.ts";
import { OttlaError } from "../../model/errors.ts";
import type { NodeId } from "../../model/ids.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Logger } from "../../ports/logger.ts";
import type { TimerHandle, Timers } from "../../ports/timers.ts";
import type {
  BrokerHeartbeatRequest,
  BrokerHeartbeatResponse,
  RegisterBrokerRequest,
  RegisterBrokerResponse,
  UnregisterBrokerRequest,
} from "../../wire/native/quorum-apis.ts";
import type {
  AllocateProducerIdsRequest,
  AllocateProducerIdsResponse,
  InitProducerIdResponse,
} from "../../wire/native/producer-apis.ts";
import type {
  AlterPartitionRequest,
  AlterPartitionResponse,
  ElectLeadersRequest,
  ElectLeadersResponse,
} from "../../wire/native/replication-apis.ts";
import type { OwnReplica } from "../own-replica.ts";
import type { PeerLinks } from "../quorum/peers.ts";
import type { Applied, ChangeSource, MetadataQuorum, QuorumListener } from "../quorum/types.ts";
import { type BalanceOptions, Balancer } from "./balancer.ts";
import { AppliedEnds } from "./applied-ends.ts";
import { Damages } from "./damages.ts";
import { Deletions } from "./deletions.ts";
import { Departures } from "./departures.ts";
import { IsrChanges } from "./isr-changes.ts";
import { LeaderElections } from "./leader-elections.ts";
import { type NamedInit, type ProducerNames, Producers } from "./producers.ts";
import { Registrations } from "./registrations.ts";

export interface ControllerDeps {
  readonly quorum: Pick<MetadataQuorum, "image" | "controllerId" | "isController" | "propose" | "barrier">;
  readonly links: Pick<PeerLinks, "want" | "probe" | "watch" | "whoIsAt" | "call">;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly logger: Logger;
  /** How far the replica of this broker is; undefined: there is none that is intact. */
  readonly ownReplica: (ref: PartitionRef) => OwnReplica | undefined;
  /** Work begun here that ends in a defect. */
  readonly onDefect: (defect: unknown) => void;
}

export interface ControllerOptions {
  readonly nodeId: NodeId;
  readonly heartbeatMs: number;
  readonly sessionMs: number;
  /** Default: every 2 s. */
  readonly balance?: BalanceOptions;
  /** Default: 10,000, a week. */
  readonly producerNames?: ProducerNames;
}

const PRODUCER_NAMES: ProducerNames = { namesMax: 10_000, expirationMs: 7 * 86_400_000 };
const BALANCE: BalanceOptions = { isEnabled: true, everyMs: 2_000 };

/** Sessions are looked at twice in each interval. */
const TICKS_PER_INTERVAL = 2;

/** With the time that one takes to come. */
const HEARTBEATS_MISSED = 2.5;

export class Controller implements Pick<QuorumListener, "onApplied" | "onControllerChanged"> {
  readonly #deps: ControllerDeps;
  readonly #options: ControllerOptions;
  readonly #sessions: Sessions;
  readonly #registrations: Registrations;
  readonly #deletions: Deletions;
  readonly #damages: Damages;
  readonly #applied: AppliedEnds;
  readonly #departures: Departures;
  readonly #producers: Producers;
  readonly #isrChanges: IsrChanges;
  readonly #elections: LeaderElections;
  readonly #balancer: Balancer;
  /** To be fenced, by node: those of one moment go in one command. */
  readonly #due = new Map<NodeId, FenceWish>();
  /** Broker epochs that were fenced for a refused connection and then proved to live: for them a refusal proves nothing. */
  readonly #refused = new Map<NodeId, { readonly brokerEpoch: number; isDisproved: boolean }>();
  readonly #unwatch: () => void;
  readonly #tickMs: number;
  #isActive = false;
  #isFencing = false;
  #isStopped = false;
  #tick: TimerHandle | undefined;

  constructor(deps: ControllerDeps, options: ControllerOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#tickMs = options.heartbeatMs / TICKS_PER_INTERVAL;
    this.#sessions = new Sessions({ sessionMs: options.sessionMs, tickMs: this.#tickMs });
    const { quorum, logger, clock } = deps;
    const run = (work: Promise<unknown>) => this.#run(work);
    this.#deletions = new Deletions({ quorum, run });
    this.#damages = new Damages({ quorum, logger });
    this.#applied = new AppliedEnds(deps, options.nodeId);
    this.#departures = new Departures(this.#applied);
    const applied = this.#applied;
    this.#producers = new Producers({ quorum, applied, clock, logger }, options.producerNames ?? PRODUCER_NAMES);
    const isDamaged: Damages["isDamaged"] = (nodeId, ref) => this.#damages.isDamaged(nodeId, ref);
    const onMovedAway = (nodeId: NodeId) => this.#balancer.movedAway(nodeId);
    this.#isrChanges = new IsrChanges({ quorum, logger, run, isDamaged, onMovedAway });
    const survey = { nodeId: options.nodeId, links: deps.links, own: deps.ownReplica };
    this.#elections = new LeaderElections({ quorum, logger, isDamaged, survey });
    const isQuiet = (nodeId: NodeId) => this.isQuiet(nodeId);
    const full = () => this.#registrations.lowOnSpace;
    this.#balancer = new Balancer({ quorum, clock, logger, run, isQuiet, full }, options.balance ?? BALANCE);
    this.#registrations = new Registrations({
      links: deps.links,
      quorum,
      logger,
      clock,
      run,
      sessions: this.#sessions,
      damages: this.#damages,
      departures: this.#departures,
      applied,
      onUnfenced: (broker) => this.#unfenced(broker),
      onDropped: (nodeId, topicIds) => this.#deletions.reported(nodeId, topicIds),
      fence: (wish) => this.#fenceNow(wish),
    });
    this.#unwatch = deps.links.watch({ onRefused: (nodeId, address) => this.#refusedAt(nodeId, address) });
  }

  get isActive(): boolean {
    return this.#isActive;
  }

  /** Not heard of for more than two heartbeats, or not yet by a new controller: it may be dead. For the placement of new partitions. */
  isQuiet(nodeId: NodeId): boolean {
    const { nodeId: self, heartbeatMs } = this.#options;
    const sinceMs = this.#deps.clock.monoMs() - HEARTBEATS_MISSED * heartbeatMs;
    return nodeId !== self && !this.#registrations.isHeardSince(nodeId, sinceMs);
  }

  /** As it last told; for the placement of new partitions. */
  isLowOnSpace(nodeId: NodeId): boolean {
    return this.#registrations.isLowOnSpace(nodeId);
  }

  /** Why this node does not decide; undefined when it does. */
  refusal(): OttlaError | undefined {
    if (this.#isActive && this.#deps.quorum.isController) return undefined;
    const { controllerId } = this.#deps.quorum;
    const known =
      controllerId === null || controllerId === this.#options.nodeId ? "none is known" : `it is node ${controllerId}`;
    return new OttlaError("NOT_CONTROLLER", `this node is not the controller; ${known}`);
  }

  /** A linearizable read: null, or why there is none here. */
  async barrier(): Promise<OttlaError | null> {
    return this.refusal() ?? (await this.#deps.quorum.barrier());
  }

  /** What a client asks for. */
  propose(decide: (image: MetadataImage) => Decision, source: ChangeSource): Promise<Decision> {
    const refusal = this.refusal();
    if (refusal === undefined) return this.#deps.quorum.propose(decide, source);
    return Promise.resolve({ kind: "refused", error: refusal.code, message: refusal.message });
  }

  /** Rejects with OttlaError. */
  async register(request: RegisterBrokerRequest): Promise<RegisterBrokerResponse> {
    this.#assertActive();
    const response = await this.#registrations.register(request);
    this.#wantBrokers();
    return response;
  }

  /** Rejects with OttlaError. Counts as contact in the turn in which it comes, however long the rest takes. */
  async heartbeat(request: BrokerHeartbeatRequest): Promise<BrokerHeartbeatResponse> {
    this.#assertActive();
    return this.#registrations.heartbeat(request);
  }

  /** Rejects with OttlaError. `members`: of the quorum, at the moment of the decision. */
  async unregister(
    request: UnregisterBrokerRequest,
    members: () => readonly NodeId[],
    source: ChangeSource,
  ): Promise<void> {
    this.#assertActive();
    await this.#registrations.unregister(request, members, source);
    this.#balancer.forget(request.nodeId);
    this.#wantBrokers();
  }

  /** Rejects with OttlaError. */
  async alterPartition(request: AlterPartitionRequest): Promise<AlterPartitionResponse> {
    this.#assertActive();
    return this.#isrChanges.request(request);
  }

  /** Rejects with OttlaError. */
  async electLeaders(request: ElectLeadersRequest, source?: ChangeSource): Promise<ElectLeadersResponse> {
    this.#assertActive();
    return this.#elections.elect(request, source);
  }

  /** Rejects with OttlaError. */
  async allocateProducerIds(request: AllocateProducerIdsRequest): Promise<AllocateProducerIdsResponse> {
    this.#assertActive();
    return this.#producers.allocate(request);
  }

  /** Rejects with OttlaError. */
  async initProducer(request: NamedInit, timeoutMs: number, source: ChangeSource): Promise<InitProducerIdResponse> {
    this.#assertActive();
    return this.#producers.init(request, timeoutMs, source);
  }

  onControllerChanged(isController: boolean): void {
    if (isController === this.#isActive || this.#isStopped) return;
    this.#deps.logger.info(isController ? "controller_active" : "controller_resigned");
    if (isController) this.#begin();
    else this.#end();
  }

  onApplied(applied: Applied): void {
    this.#deletions.onApplied(applied, this.#isActive);
    for (const record of this.#isActive ? applied.records : [])
      if (record.type === "fence-broker") this.#registrations.fenced(record.nodeId, applied.index + 1);
    this.#applied.look();
  }

  stop(): void {
    this.#isStopped = true;
    this.#end();
    this.#unwatch();
  }

  /** everybody has a fresh session. D-22: those whose process is gone are found at once, by asking all. */
  #begin(): void {
    const { image } = this.#deps.quorum;
    const { clock } = this.#deps;
    this.#isActive = true;
    this.#sessions.begin(
      [...image.brokers].map(({ nodeId }) => nodeId),
      clock.monoMs(),
    );
    this.#registrations.begin();
    this.#damages.begin();
    this.#departures.begin();
    this.#applied.begin();
    this.#balancer.begin();
    this.#deletions.begin();
    this.#wantBrokers();
    for (const { nodeId, isFenced } of image.brokers)
      if (!isFenced && nodeId !== this.#options.nodeId) this.#run(this.#probe(nodeId));
    this.#armTick();
    this.#deletions.look();
  }

  /** A refusal is told to the watcher. */
  async #probe(nodeId: NodeId): Promise<void> {
    const outcome = await this.#deps.links.probe(nodeId);
    if (outcome === "connected") this.#registrations.heard(nodeId);
  }

  #end(): void {
    this.#isActive = false;
    this.#applied.end();
    this.#tick?.cancel();
    this.#due.clear();
    this.#refused.clear();
    this.#deps.links.want("controller", []);
  }

  /** Those whose end is to be noticed (D-22); a dead one is not dialled for ever. */
  #wantBrokers(): void {
    const brokers = [...this.#deps.quorum.image.brokers];
    const there = brokers.filter(({ nodeId, isFenced }) => !isFenced || this.#sessions.isLive(nodeId));
    this.#deps.links.want(
      "controller",
      there.map(({ nodeId }) => nodeId),
    );
  }

  #armTick(): void {
    this.#tick?.cancel();
    this.#tick = this.#deps.timers.after(this.#tickMs, () => {
      if (!this.#isActive) return;
      this.#armTick();
      for (const nodeId of this.#sessions.tick(this.#deps.clock.monoMs())) this.#expired(nodeId);
      this.#wantBrokers();
      this.#fenceDue();
      this.#deletions.look();
      this.#balancer.tick();
    });
  }

  #expired(nodeId: NodeId): void {
    const broker = this.#deps.quorum.image.broker(nodeId);
    if (broker === undefined || broker.isFenced) return;
    this.#due.set(nodeId, { nodeId, brokerEpoch: broker.brokerEpoch, reason: "session" });
  }

  /** D-22: nobody listens where the broker registered: its process is dead. */
  #refusedAt(nodeId: NodeId, address: string): void {
    const broker = this.#deps.quorum.image.broker(nodeId);
    if (!this.#isActive || broker === undefined || broker.isFenced || broker.address !== address) return;
    const { brokerEpoch } = broker;
    const before = this.#refused.get(nodeId);
    if (before?.brokerEpoch === brokerEpoch && before.isDisproved) return;
    this.#refused.set(nodeId, { brokerEpoch, isDisproved: false });
    this.#sessions.end(nodeId);
    this.#due.set(nodeId, { nodeId, brokerEpoch, reason: "refused" });
    this.#fenceDue();
  }

  #unfenced({ nodeId, brokerEpoch }: BrokerImage): void {
    this.#balancer.unfenced(nodeId);
    const refused = this.#refused.get(nodeId);
    if (refused?.brokerEpoch === brokerEpoch) refused.isDisproved = true;
  }

  #fenceDue(): void {
    if (this.#isFencing || this.#due.size === 0) return;
    this.#isFencing = true;
    this.#run(
      this.#fenceAll().finally(() => {
        this.#isFencing = false;
      }),
    );
  }

  async #fenceAll(): Promise<void> {
    while (this.#isActive && this.#due.size > 0) {
      const wishes = [...this.#due.values()];
      this.#due.clear();
      if (await this.#fence(wishes)) continue;
      // The next tick tries again; what came meanwhile counts more.
      for (const wish of wishes) if (this.#isActive && !this.#due.has(wish.nodeId)) this.#due.set(wish.nodeId, wish);
      return;
    }
  }

  /** Of one broker, that asks for it. */
  #fenceNow(wish: FenceWish): Promise<boolean> {
    return this.#fence([wish]);
  }

  /** True: decided. */
  async #fence(wishes: readonly FenceWish[]): Promise<boolean> {
    const { quorum, logger } = this.#deps;
    // Heard of since: its session has begun anew.
    const isDue = ({ nodeId, reason }: FenceWish) => reason !== "session" || !this.#sessions.isLive(nodeId);
    const decision = await quorum.propose((image) => decideFence(image, wishes.filter(isDue)));
    if (decision.kind === "refused") {
      logger.warn("fencing_put_off", { code: decision.error, message: decision.message });
      return false;
    }
    for (const record of decision.records) {
      if (record.type !== "fence-broker") continue;
      const { nodeId, brokerEpoch } = record;
      const reason = wishes.find((wish) => wish.nodeId === nodeId)?.reason;
      logger.info("broker_fenced", { nodeId, brokerEpoch, reason });
    }
    return true;
  }

  #assertActive(): void {
    const refusal = this.refusal();
    if (refusal !== undefined) throw refusal;
  }

  /** Nobody waits for it: what it rejects with is a defect. */
  #run(work: Promise<unknown>): void {
    work.catch((thrown: unknown) => this.#deps.onDefect(thrown));
  }
}
