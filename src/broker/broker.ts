// One broker: the shell around the pure cores. It starts, serves, and ends in an ordered stop or a failure.
import { AssertionFailure, present } from "../base/assert.ts";
import { OttlaError, asOttlaError } from "../model/errors.ts";
import type { BrokerConfig } from "../model/config.ts";
import { addressOf } from "./address.ts";
import { toNodeId } from "../model/ids.ts";
import { type Listener, TransportError } from "../ports/transport.ts";
import type { LogStore, StoreIdentity } from "../storage/types.ts";
import { Accountant } from "./accountant.ts";
import { ConnectionSet } from "./connection-set.ts";
import { Deadlines } from "../base/deadlines.ts";
import { Dispatcher } from "./dispatcher.ts";
import { FetchPurgatory } from "./fetch-purgatory.ts";
import { MetadataAnswers } from "./metadata-answers.ts";
import type { MetadataLog } from "./metadata-log.ts";
import { BrokerMetrics } from "./metrics.ts";
import { ProduceIntake } from "./produce-intake.ts";
import { ReplicaManager } from "./replica-manager.ts";
import { ScanGate } from "./scan-gate.ts";
import type { Services } from "./services.ts";
import { joinCluster, openMetadata, openStore } from "./start-up.ts";
import { type ReconcilerDeps, TopicReconciler } from "./topic-reconciler.ts";
import { TurnQueue } from "./turn-queue.ts";
import type { Broker, BrokerDeps, BrokerState, Health } from "./types.ts";

export type { Broker, BrokerDeps, BrokerState, Health } from "./types.ts";

/** The largest batch that any topic may allow; what is larger closes the connection instead of being answered. */
const MESSAGE_BYTES_MAX = 64 * 1024 * 1024;

/** Free space is a metric here; that produce is refused when it is low is storage's own watch. */
const SWEEPS_PER_DISK_LOOK = 5;

export function createBroker(deps: BrokerDeps, config: BrokerConfig): Broker {
  return new BrokerShell(deps, config);
}

class BrokerShell implements Broker {
  readonly #deps: BrokerDeps;
  readonly #config: BrokerConfig;
  readonly #metrics: BrokerMetrics;
  readonly #accountant: Accountant;
  readonly #deadlines: Deadlines;
  readonly #purgatory = new FetchPurgatory();
  readonly #connections: ConnectionSet;
  readonly #fatalCallbacks: ((error: OttlaError) => void)[] = [];
  readonly #messageBytesMax: number;
  #state: BrokerState = "starting";
  #failure: OttlaError | undefined;
  #listener: Listener | undefined;
  #store: LogStore | undefined;
  #metadata: MetadataLog | undefined;
  #replicas: ReplicaManager | undefined;
  #intake: ProduceIntake | undefined;
  #topics: TopicReconciler | undefined;
  #dispatcher: Dispatcher | undefined;
  /** Rejects when the broker fails. */
  readonly #failed: Promise<never>;
  #rejectStart: (error: OttlaError) => void = () => {};
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  #sweepCount = 0;

  constructor(deps: BrokerDeps, config: BrokerConfig) {
    this.#deps = deps;
    this.#config = config;
    this.#metrics = new BrokerMetrics(deps.metrics);
    this.#accountant = this.#makeAccountant();
    this.#deadlines = new Deadlines(deps);
    this.#messageBytesMax = Math.min(
      MESSAGE_BYTES_MAX,
      config["connection.inflight.bytes"],
      config["produce.inflight.bytes"],
    );
    this.#connections = this.#makeConnections();
    this.#failed = new Promise((_, reject) => {
      this.#rejectStart = reject;
    });
    this.#failed.catch(() => undefined); // heard only by a start under way
  }

  get state(): BrokerState {
    return this.#state;
  }

  get address(): string {
    const advertised = this.#config["advertised.listeners"];
    return advertised === undefined ? present(this.#listener, "the listener").address : addressOf(advertised);
  }

  get identity(): StoreIdentity {
    return present(this.#store, "the store").identity;
  }

  onFatal(callback: (error: OttlaError) => void): void {
    this.#fatalCallbacks.push(callback);
  }

  start(): Promise<void> {
    this.#starting ??= this.#start();
    return this.#starting;
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  health(): Health {
    const isLow = this.#store?.isLowOnSpace ?? false;
    const checks: Record<string, string> = {
      state: this.#state,
      disk: isLow ? "low on space: produce is refused" : "ok",
    };
    if (this.#failure !== undefined) checks["failure"] = this.#failure.message;
    const damaged = [...(this.#store?.logs ?? [])].filter((log) => (log.damage ?? log.readDamage) !== undefined);
    checks["logs"] = damaged.length === 0 ? "ok" : `${damaged.length} damaged`;
    return { live: this.#state !== "failed", ready: this.#state === "running", checks };
  }

  async #start(): Promise<void> {
    try {
      this.#connections.startSweeping();
      // The port first: a taken one must leave the data directory untouched. Who connects now waits until we serve.
      this.#listener = await this.#listen();
      // A failure ends the start even when what it was waiting for never comes.
      await Promise.race([this.#open(), this.#failed]);
      if (this.#failure !== undefined) throw this.#failure;
    } catch (thrown) {
      await this.#giveUp();
      throw asOttlaError(thrown);
    }
    if (this.#state !== "starting") throw new OttlaError("CLOSED", "the broker was stopped while it started");
    this.#state = "running";
    this.#connections.serve();
    this.#deps.logger.info("broker_started", { address: this.address, clusterId: this.identity.clusterId });
  }

  async #listen(): Promise<Listener> {
    const address = addressOf(this.#config.listeners);
    try {
      return await this.#deps.transport.listen(address, (connection) => this.#connections.accept(connection));
    } catch (thrown) {
      if (!(thrown instanceof TransportError)) throw thrown;
      if (thrown.kind === "address-in-use")
        throw new OttlaError("PORT_IN_USE", `${address} is taken`, { cause: thrown });
      throw new OttlaError("CONFIG_UNREADABLE", `listeners: cannot listen on ${address}: ${thrown.kind}`, {
        cause: thrown,
      });
    }
  }

  async #open(): Promise<void> {
    const { timers, clock, logger } = this.#deps;
    const self = toNodeId(this.#config["node.id"]);
    const store = await openStore(this.#deps, this.#config);
    this.#store = store;
    const metadata = await openMetadata(this.#deps, this.#config, (error) => this.#fail(error));
    this.#metadata = metadata;
    await joinCluster({ deps: this.#deps, store, metadata }, this.#config, this.address);
    const events = {
      onRoomChanged: () => this.#roomChanged(),
      onDiskFailed: (error: OttlaError) => this.#fail(error),
      guard: (work: () => void) => this.#guard(work),
    };
    const replicas = new ReplicaManager({ timers, events }, self);
    this.#replicas = replicas;
    store.listen(replicas);
    const topics = this.#makeReconciler({ store, metadata, replicas, timers, logger });
    this.#topics = topics;
    await topics.openAll(metadata.image.topics);
    this.#intake = new ProduceIntake({ store, accountant: this.#accountant });
    const services: Services = {
      config: this.#config,
      clock,
      entropy: this.#deps.entropy,
      checksum: this.#deps.checksum,
      logger,
      metrics: this.#metrics,
      accountant: this.#accountant,
      deadlines: this.#deadlines,
      purgatory: this.#purgatory,
      store,
      metadata,
      replicas,
      topics,
      intake: this.#intake,
      metadataAnswers: new MetadataAnswers(clock),
      scans: new ScanGate(),
      defer: (work) => this.#defer(work),
      messageBytesMax: this.#messageBytesMax,
    };
    this.#dispatcher = new Dispatcher(services, (defect) => this.#defect(defect));
    this.#finishDeletions(metadata, topics);
    this.#warnOfStrays(store, metadata);
    this.#observe();
  }

  #makeReconciler(parts: Omit<ReconcilerDeps, "onChanged" | "onDefect">): TopicReconciler {
    const onChanged = () => this.#observe();
    const onDefect = (defect: unknown) => this.#defect(defect);
    return new TopicReconciler({ ...parts, onChanged, onDefect }, toNodeId(this.#config["node.id"]), this.#config);
  }

  /** Deletions that a restart interrupted go on behind the serving. */
  #finishDeletions(metadata: MetadataLog, topics: TopicReconciler): void {
    for (const topic of metadata.image.topics) {
      if (topic.isDeleting) void topics.reconcile(topic.topicId); // never rejects; a failure is logged and tried again
    }
  }

  /** S-2: a log of an unknown topic is neither served nor deleted. No order of our own writes leaves one. */
  #warnOfStrays(store: LogStore, metadata: MetadataLog): void {
    for (const { topic, topicId, partition } of store.logs) {
      if (metadata.image.topic(topicId) === undefined)
        this.#deps.logger.warn("stray_log", { topic, topicId, partition });
    }
  }

  #defer(work: () => void): void {
    this.#deps.timers.defer(() => this.#guard(work));
  }

  #makeAccountant(): Accountant {
    const caps = {
      produceBytes: this.#config["produce.inflight.bytes"],
      unsentBytes: this.#config["unsent.bytes"],
      delayedRequests: this.#config["delayed.requests.max"],
    };
    return new Accountant(caps, (work) => this.#defer(work));
  }

  #makeConnections(): ConnectionSet {
    const { timers, clock, logger } = this.#deps;
    const host = {
      accountant: this.#accountant,
      inFlightBytesMax: this.#config["connection.inflight.bytes"],
      unsentBytesMax: this.#config["connection.unsent.bytes"],
      bodyBytesMax: this.#messageBytesMax,
      nowMs: () => clock.monoMs(),
      turns: new TurnQueue(
        (work) => this.#defer(work),
        () => clock.monoMs(),
      ),
      onRequest: (...request: Parameters<Dispatcher["dispatch"]>) => this.#dispatcher?.dispatch(...request),
      guard: (work: () => void) => this.#guard(work),
    };
    return new ConnectionSet({ timers, logger, host, onSweep: () => this.#sweep() }, this.#config["connections.max"]);
  }

  #roomChanged(): void {
    this.#intake?.drain();
    this.#topics?.retryFailed();
  }

  #sweep(): void {
    this.#observe();
    if (this.#sweepCount++ % SWEEPS_PER_DISK_LOOK !== 0 || this.#store === undefined) return;
    this.#deps.files.freeBytes(this.#config["data.dir"]).then(
      (bytes) => this.#metrics.diskFree.set(bytes),
      (thrown: unknown) => this.#deps.logger.warn("free_space_unknown", { err: thrown }),
    );
  }

  #observe(): void {
    this.#metrics.connections.set(this.#connections.count);
    this.#metrics.delayed.set(this.#accountant.delayedCount);
    this.#metrics.inFlight.set(this.#dispatcher?.inFlightCount ?? 0);
    this.#metrics.requestBytes.set(this.#accountant.requestBytes);
    this.#metrics.unsentBytes.set(this.#accountant.unsent.usedBytes);
    const image = this.#metadata?.image;
    if (image === undefined || this.#replicas === undefined) return;
    this.#metrics.partitions.set(image.partitionCount);
    this.#metrics.leaderPartitions.set(this.#replicas.count);
    this.#metrics.offlinePartitions.set(Math.max(0, image.livePartitionCount - this.#replicas.count));
    this.#metrics.controllerActive.set(1);
  }

  /** Runs work that nobody else catches for: what it throws is a defect. */
  #guard(work: () => void): void {
    if (this.#state === "failed") return;
    try {
      work();
    } catch (thrown) {
      this.#defect(thrown);
    }
  }

  #defect(thrown: unknown): void {
    const cause = thrown instanceof AssertionFailure ? "assertion_failed" : "unexpected_exception";
    this.#deps.logger.error(cause, { err: thrown });
    this.#fail(asOttlaError(thrown));
  }

  /** Nothing is answered any more: an answer might promise what the disk did not keep (D-13). */
  #fail(error: OttlaError): void {
    if (this.#state === "failed" || this.#state === "stopped") return;
    const isStarting = this.#state === "starting";
    this.#state = "failed";
    this.#failure = error;
    this.#deps.logger.error("broker_failed", { code: error.code, message: error.message });
    this.#connections.destroyAll();
    this.#deadlines.stop();
    this.#rejectStart(error);
    if (isStarting) return; // whoever called start() is told
    for (const callback of this.#fatalCallbacks) callback(error);
  }

  /** After a start that did not succeed. */
  async #giveUp(): Promise<void> {
    if (this.#state === "starting") this.#state = "stopped";
    this.#connections.destroyAll();
    this.#deadlines.stop();
    await this.#atMost(this.#config["shutdown.timeout.ms"], this.#release());
  }

  async #release(): Promise<void> {
    await this.#listener?.close();
    await this.#topics?.stop();
    await this.#closeFiles();
  }

  async #closeFiles(): Promise<void> {
    try {
      await this.#metadata?.close();
    } finally {
      await this.#store?.close();
    }
  }

  async #stop(): Promise<void> {
    if (this.#starting === undefined) {
      this.#connections.destroyAll();
      this.#state = "stopped";
      return;
    }
    const timeoutMs = this.#config["shutdown.timeout.ms"];
    const isBounded = this.#state !== "starting";
    if (this.#state !== "failed") this.#state = "stopping";
    if (!isBounded) await this.#starting.catch(() => undefined); // its caller is told
    await this.#atMost(timeoutMs, this.#stopInOrder(timeoutMs));
    this.#connections.destroyAll();
    this.#deadlines.stop();
    if (this.#failure === undefined) this.#state = "stopped";
    this.#deps.logger.info("broker_stopped");
  }

  async #stopInOrder(timeoutMs: number): Promise<void> {
    if (this.#dispatcher !== undefined) this.#dispatcher.isServing = false;
    await this.#listener?.close();
    if (this.#state === "failed") return this.#closeFiles();
    this.#purgatory.abandonAll("BROKER_NOT_AVAILABLE");
    // What was appended is nearly always answered by the next sync; what is not by half the time, never.
    await this.#atMost(timeoutMs / 2, this.#intake?.idle() ?? Promise.resolve());
    this.#intake?.abandonAll("BROKER_NOT_AVAILABLE");
    await this.#topics?.stop();
    this.#connections.closeAll("BROKER_NOT_AVAILABLE: the broker is stopping");
    await this.#atMost(timeoutMs / 4, this.#connections.empty());
    await this.#closeFiles();
  }

  /** Resolves when the work has ended, either way, or the time is up. */
  #atMost(timeoutMs: number, work: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#deps.timers.after(timeoutMs, resolve);
      const end = () => {
        timer.cancel();
        resolve();
      };
      work.then(end, (thrown: unknown) => {
        this.#deps.logger.error("stop_failed", { err: thrown });
        end();
      });
    });
  }
}
