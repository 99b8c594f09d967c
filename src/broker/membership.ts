// This broker's own side of the cluster. It registers its incarnation at the controller, waits until its own image has that, stores the broker
// epoch and confirms it (D-6), and from then on tells the controller that it lives. It finds the controller again when that has moved, registers
// again when it is told that its epoch has passed (Q-22), and says goodbye (R-62).
import { failpoint } from "../base/failpoint.ts";
import { present } from "../base/assert.ts";
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { PartitionRef } from "../metadata/partition-decisions.ts";
import type { BrokerEpoch, NodeId, TopicId } from "../model/ids.ts";
import type { Clock } from "../ports/clock.ts";
import type { Logger } from "../ports/logger.ts";
import type { TimerHandle, Timers } from "../ports/timers.ts";
import type { LogStore } from "../storage/types.ts";
import type {
  BrokerHeartbeatRequest,
  BrokerHeartbeatResponse,
  RegisterBrokerRequest,
  RegisterBrokerResponse,
} from "../wire/native/quorum-apis.ts";
import { DamageReports } from "./damage-reports.ts";
import type { MetadataQuorum } from "./quorum/types.ts";
import type { SelfIdentity } from "./topic-reconciler.ts";

/** The way to whoever is the controller, this node itself included. Calls reject with OttlaError. */
export interface ControllerCalls {
  register(controller: NodeId, request: RegisterBrokerRequest): Promise<RegisterBrokerResponse>;
  heartbeat(controller: NodeId, request: BrokerHeartbeatRequest): Promise<BrokerHeartbeatResponse>;
}

export interface MembershipDeps {
  readonly quorum: Pick<MetadataQuorum, "image" | "clusterId" | "controllerId" | "waitForApplied">;
  readonly store: Pick<LogStore, "identity" | "restart" | "brokerEpoch" | "storeBrokerEpoch">;
  readonly calls: ControllerCalls;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly logger: Logger;
  /** What a heartbeat says of this broker's disk and logs. */
  readonly reports: () => Pick<BrokerHeartbeatRequest, "isLowOnSpace" | "droppedTopics">;
  /** Every damaged replica here (D-17). */
  readonly damaged: () => Iterable<PartitionRef>;
  /** The own image has the registration of this incarnation: each time. */
  readonly onRegistered: () => void;
  readonly onDefect: (defect: unknown) => void;
}

export interface MembershipOptions {
  readonly self: SelfIdentity;
  readonly address: string;
  readonly metadataVersions: { readonly min: number; readonly max: number };
  readonly heartbeatMs: number;
  readonly sessionMs: number;
}

/** While there is nobody to talk to, or who was asked said no. */
const RETRY_MS = 50;
const HEARD_SHARE = 5 / 6;
const RETRY_LONGEST_MS = 500;
/** Calls to controllers that failed in a row before it is told. */
const FAILURES_TOLD = 4;
/** A start gives up when another disk has this node's id for so many sessions. */
const DUPLICATE_SESSIONS = 4;

type Next = { readonly kind: "now" } | { readonly kind: "retry" } | { readonly kind: "interval" };
const NOW: Next = { kind: "now" };
const RETRY: Next = { kind: "retry" };
const INTERVAL: Next = { kind: "interval" };

/**
 * Shape:     no epoch -> registered (own image has it) -> stored -> confirmed by a heartbeat; STALE_BROKER_EPOCH begins again.
 * Invariant: at most one request is under way, and none to a node that is no controller as far as this one knows.
 */
export class Membership {
  readonly #deps: MembershipDeps;
  readonly #options: MembershipOptions;
  readonly #damage: DamageReports;
  #epoch: BrokerEpoch | undefined;
  #isEpochStored = false;
  /** D-17: its damage has to be committed before it may be elected. */
  #isHeldBack = false;
  #wantsShutdown = false;
  #isStopped = false;
  /** Why it is not registered, or what the controller last said. */
  #trouble: string | undefined = "the metadata log has to come here first";
  #isFencedByAnswer = true;
  #wasUnfenced = false;
  #failures = 0;
  #duplicateSinceMs: number | undefined;
  #sentMs = Number.NEGATIVE_INFINITY;
  #heardUntilMs = Number.NEGATIVE_INFINITY;
  #pause: { readonly timer: TimerHandle; readonly end: () => void } | undefined;
  /** Ends the wait for an answer of a controller that is none any more. */
  #onMoved: (() => void) | undefined;
  #askedController: NodeId | null = null;
  #isKicked = false;
  #registrations = 0;
  readonly #ready: {
    readonly promise: Promise<void>;
    readonly resolve: () => void;
    readonly reject: (e: OttlaError) => void;
  };
  #onMayShutDown: (() => void) | undefined;

  constructor(deps: MembershipDeps, options: MembershipOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#damage = new DamageReports(deps.damaged);
    this.#ready = deferred();
    this.#ready.promise.catch(() => undefined); // heard only by a start under way
  }

  /** Resolves when this incarnation was unfenced once; rejects when that can never be, or when stopped first. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** Times that this process has registered. */
  get registrations(): number {
    return this.#registrations;
  }

  /**
   * Until then no controller fences this broker: for a session after the sending of the last heartbeat that was answered "unfenced", less a margin for
   * clocks that run unlike and for a controller that does not know yet that it is none. Not once this broker wants to go.
   */
  get heardUntilMs(): number {
    return this.#heardUntilMs;
  }

  /** As the own image says; it may be late. */
  get isUnfenced(): boolean {
    const broker = this.#deps.quorum.image.broker(this.#options.self.nodeId);
    return broker?.incarnationId === this.#options.self.incarnationId && !broker.isFenced;
  }

  /** For people. */
  describe(): string {
    const { image } = this.#deps.quorum;
    const { self } = this.#options;
    const broker = image.broker(self.nodeId);
    const isOurs = broker?.incarnationId === self.incarnationId;
    if (this.#epoch !== undefined && broker !== undefined && !isOurs)
      return `another process registered under node id ${self.nodeId}: this one leads nothing`;
    if (isOurs && !broker.isFenced) {
      if (this.#failures < FAILURES_TOLD) return "ok";
      return `not heard of by a controller: ${this.#trouble}; what this broker leads as far as it knows it goes on serving`;
    }
    if (this.#trouble !== undefined) return `waiting: ${this.#trouble}`;
    if (!isOurs) return "waiting: registering";
    return `fenced${broker.fencedFor === null ? "" : ` (${broker.fencedFor})`}: leads nothing until the controller has heard of it again`;
  }

  /** Once, when the image is as new as the quorum's. */
  start(): void {
    void this.#run().catch((thrown: unknown) => this.#deps.onDefect(thrown));
  }

  /** After each applied record: the controller may be another one, and this incarnation may be unfenced. */
  onApplied(): void {
    if (this.#isHeldBack && !this.#isDamageCounted()) this.kick();
    const { isUnfenced } = this;
    if (this.#epoch !== undefined && isUnfenced) this.#ready.resolve();
    // Fenced: the controller waits to hear that this is known here. Unfenced: until the answer says so named producers have to wait.
    if (isUnfenced !== this.#wasUnfenced && isUnfenced === this.#isFencedByAnswer) this.kick();
    this.#wasUnfenced = isUnfenced;
    if (this.#deps.quorum.controllerId === this.#askedController) return;
    this.#onMoved?.();
    if (this.#failures > 0) this.kick();
  }

  /** A heartbeat now: there is something to report. */
  kick(): void {
    this.#isKicked = true;
    this.#pause?.end();
  }

  /** D-17: the controller has committed that the replica is damaged, and the own image has it. Only then may it be dropped and begun anew. */
  isDamageKnown(topicId: TopicId, partition: number): boolean {
    return this.#damage.isKnown(this.#deps.quorum.image, { topicId, partition });
  }

  /** A damaged replica was dropped. */
  damageEnded(topicId: TopicId, partition: number): void {
    this.#damage.ended(topicId, partition);
    this.kick();
  }

  #isDamageCounted(): boolean {
    return this.#damage.isCounted(this.#deps.quorum.image, this.#options.self.nodeId);
  }

  /** R-62: resolves when the controller let it go, when there is no controller, or after `timeoutMs`. */
  async leave(timeoutMs: number): Promise<void> {
    this.#wantsShutdown = true;
    this.#heardUntilMs = Number.NEGATIVE_INFINITY;
    const { quorum, timers } = this.#deps;
    if (this.#epoch === undefined || quorum.controllerId === null || this.#isStopped) return;
    await new Promise<void>((resolve) => {
      const timer = timers.after(timeoutMs, resolve);
      this.#onMayShutDown = () => {
        timer.cancel();
        resolve();
      };
      this.kick();
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#ready.reject(new OttlaError("CLOSED", "the broker was stopped while it started"));
    this.#onMoved?.();
    this.#onMayShutDown?.();
    this.#pause?.end();
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      this.#isKicked = false;
      const next = await this.#step();
      if (next.kind !== "retry") this.#failures = 0;
      await this.#wait(next);
    }
  }

  #wait(next: Next): Promise<void> {
    if (next.kind === "now" || this.#isStopped || (this.#isKicked && next.kind === "interval"))
      return Promise.resolve();
    const { timers, clock } = this.#deps;
    const sinceSentMs = clock.monoMs() - this.#sentMs;
    const waitMs =
      next.kind === "interval"
        ? Math.max(0, this.#options.heartbeatMs - sinceSentMs)
        : Math.min(RETRY_MS * 2 ** this.#failures++, RETRY_LONGEST_MS, this.#options.heartbeatMs);
    return new Promise((resolve) => {
      const end = () => {
        this.#pause?.timer.cancel();
        this.#pause = undefined;
        resolve();
      };
      this.#pause = { timer: timers.after(waitMs, end), end };
    });
  }

  async #step(): Promise<Next> {
    const { controllerId } = this.#deps.quorum;
    this.#askedController = controllerId;
    if (controllerId === null) {
      this.#trouble = "no controller is known";
      if (this.#wantsShutdown) this.#onMayShutDown?.();
      return RETRY;
    }
    try {
      this.#sentMs = this.#deps.clock.monoMs();
      return this.#epoch === undefined
        ? await this.#register(controllerId)
        : await this.#heartbeat(controllerId, this.#epoch);
    } catch (thrown) {
      return this.#failed(controllerId, asOttlaError(thrown));
    }
  }

  #failed(controllerId: NodeId, error: OttlaError): Next {
    if (this.#isStopped) return NOW;
    const hint = error.hint === "" ? "" : ` (${error.hint})`;
    this.#trouble = `the controller (node ${controllerId}) says ${error.code}: ${error.message}${hint}`;
    this.#deps.logger.debug("controller_call_failed", { controllerId, code: error.code, message: error.message });
    if (error.code === "STALE_BROKER_EPOCH" && this.#epoch !== undefined) {
      this.#deps.logger.warn("broker_epoch_passed", { brokerEpoch: this.#epoch });
      this.#epoch = undefined;
      this.#isEpochStored = false;
    }
    if (error.code === "DUPLICATE_BROKER_REGISTRATION") this.#metDuplicate(error);
    else this.#duplicateSinceMs = undefined;
    // Asking again cannot help: only a start is ended by it.
    if (!error.retriable) this.#ready.reject(error);
    const now = this.#deps.quorum.controllerId;
    if (now !== null && now !== controllerId) return NOW;
    // Who cannot let us go now learns it otherwise: our port refuses, or our session ends.
    if (this.#wantsShutdown) this.#onMayShutDown?.();
    return RETRY;
  }

  #metDuplicate(error: OttlaError): void {
    const nowMs = this.#deps.clock.monoMs();
    this.#duplicateSinceMs ??= nowMs;
    if (nowMs - this.#duplicateSinceMs >= this.#options.sessionMs * DUPLICATE_SESSIONS) this.#ready.reject(error);
  }

  async #register(controllerId: NodeId): Promise<Next> {
    const { quorum, store, calls, logger } = this.#deps;
    const { self, address, metadataVersions } = this.#options;
    this.#trouble = `registering at node ${controllerId}`;
    const { brokerEpoch } = await this.#answered(
      calls.register(controllerId, {
        clusterId: present(quorum.clusterId, "the cluster id"),
        nodeId: self.nodeId,
        directoryId: store.identity.directoryId,
        incarnationId: self.incarnationId,
        restart: store.restart,
        address,
        versionsMin: metadataVersions.min,
        versionsMax: metadataVersions.max,
        lastBrokerEpoch: store.brokerEpoch ?? -1,
      }),
    );
    this.#trouble = "registered; waiting for the metadata log to come here";
    await quorum.waitForApplied(brokerEpoch + 1);
    const broker = quorum.image.broker(self.nodeId);
    if (broker?.incarnationId !== self.incarnationId || broker.brokerEpoch !== brokerEpoch) return RETRY;
    // It is lower than the stored one only after an unsafe recovery of the quorum: then the disk proves itself with what it has.
    failpoint("broker-epoch-unstored");
    if ((store.brokerEpoch ?? -1) < brokerEpoch) await store.storeBrokerEpoch(brokerEpoch);
    failpoint("broker-epoch-stored");
    this.#epoch = brokerEpoch;
    this.#isEpochStored = true;
    this.#damage.reset();
    this.#registrations++;
    this.#duplicateSinceMs = undefined;
    logger.info("broker_registered", { brokerEpoch, controllerId });
    this.#deps.onRegistered();
    return NOW;
  }

  async #heartbeat(controllerId: NodeId, brokerEpoch: BrokerEpoch): Promise<Next> {
    const { quorum, calls, reports } = this.#deps;
    const { nodeId, incarnationId } = this.#options.self;
    const { image } = quorum;
    const damage = this.#damage.list(image);
    // Once it is unfenced it may be elected wherever it counts: not where it is damaged (D-17).
    this.#isHeldBack = this.#isDamageCounted();
    const { isFenced, mayShutDown } = await this.#answered(
      calls.heartbeat(controllerId, {
        nodeId,
        brokerEpoch,
        incarnationId,
        appliedEnd: image.endOffset,
        epochStored: this.#isEpochStored && !this.#isHeldBack,
        wantsShutdown: this.#wantsShutdown,
        ...reports(),
        damaged: damage.damaged,
      }),
    );
    if (!isFenced && !this.#wantsShutdown) this.#heardUntilMs = this.#sentMs + HEARD_SHARE * this.#options.sessionMs;
    this.#damage.answered(damage);
    this.#trouble = undefined;
    if (isFenced !== this.#isFencedByAnswer)
      this.#deps.logger.info(isFenced ? "broker_fenced" : "broker_unfenced", { controllerId });
    this.#isFencedByAnswer = isFenced;
    if (this.#wantsShutdown && mayShutDown) this.#onMayShutDown?.();
    return this.#wantsShutdown && !mayShutDown ? RETRY : INTERVAL;
  }

  /** The answer, unless the controller moves or we stop first. */
  #answered<T>(call: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#onMoved = () => reject(new OttlaError("NOT_CONTROLLER", "the controller has moved"));
      call.then(resolve, reject);
    }).finally(() => {
      this.#onMoved = undefined;
    });
  }
}

function deferred(): { promise: Promise<void>; resolve: () => void; reject: (error: OttlaError) => void } {
  let resolve = (): void => undefined;
  let reject = (_error: OttlaError): void => undefined;
  const promise = new Promise<void>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
