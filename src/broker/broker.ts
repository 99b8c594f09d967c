// One broker: the shell around the pure cores. It starts, serves, and ends in an ordered stop or a failure.
import { AssertionFailure, present } from "../base/assert.ts";
import { OttlaError, asOttlaError } from "../model/errors.ts";
import type { BrokerConfig } from "../model/config.ts";
import { addressOf } from "./address.ts";
import { ClusterMember } from "./cluster-member.ts";
import { toNodeId } from "../model/ids.ts";
import { type Listener, TransportError } from "../ports/transport.ts";
import type { RaftStore } from "../storage/raft-types.ts";
import type { LogStore } from "../storage/types.ts";
import { Accountant } from "./accountant.ts";
import { untilCommitted } from "./committed-waiter.ts";
import { ConnectionSet } from "./connection-set.ts";
import { Deadlines } from "../base/deadlines.ts";
import { Dispatcher } from "./dispatcher.ts";
import { FetchPurgatory } from "./fetch-purgatory.ts";
import { healthOf, waitingFor } from "./health.ts";
import { MetadataAnswers } from "./metadata-answers.ts";
import { BrokerMetrics } from "./metrics.ts";
import { ProduceIntake } from "./produce-intake.ts";
import { ReadLanes } from "./read-lanes.ts";
import { ReplicaManager } from "./replica-manager.ts";
import { ScanGate } from "./scan-gate.ts";
import type { NodeServices, Services } from "./services.ts";
import type { Replica } from "./replica.ts";
import { coreSettingsOf, metadataVersionsOf, openHostedQuorum, openStore, votersOf } from "./start-up.ts";
import { TurnQueue } from "./turn-queue.ts";
import type { Broker, BrokerDeps, BrokerIdentity, BrokerState, Health } from "./types.ts";

export type { Broker, BrokerDeps, BrokerIdentity, BrokerState, Health } from "./types.ts";

/** The largest batch that any topic may allow; what is larger closes the connection instead of being answered. */
const MESSAGE_BYTES_MAX = 64 * 1024 * 1024;

const STOPPED_EARLY = "the broker was stopped while it started";
/** For the controller to let it go; without an answer it goes all the same. */
const LEAVE_MS_MAX = 2_000;
/** For followers to have what was appended last. */
const COMMIT_MS_MAX = 1_000;

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
  readonly #readLanes: ReadLanes;
  readonly #purgatory = new FetchPurgatory();
  readonly #connections: ConnectionSet;
  readonly #dispatcher: Dispatcher;
  readonly #fatalCallbacks: ((error: OttlaError) => void)[] = [];
  readonly #messageBytesMax: number;
  #state: BrokerState = "starting";
  #failure: OttlaError | undefined;
  #listener: Listener | undefined;
  #store: LogStore | undefined;
  #raftStore: RaftStore | undefined;
  #member: ClusterMember | undefined;
  #replicas: ReplicaManager | undefined;
  #intake: ProduceIntake | undefined;
  /** Rejects when the broker fails, or is stopped: whatever a start waits for then never comes. */
  readonly #ended: Promise<never>;
  #rejectStart: (error: OttlaError) => void = () => {};
  #opening: Promise<ClusterMember> | undefined;
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  readonly #scans = new ScanGate();
  #sweepCount = 0;
  #toldWaiting: string | undefined;

  constructor(deps: BrokerDeps, config: BrokerConfig) {
    this.#deps = deps;
    this.#config = config;
    this.#metrics = new BrokerMetrics(deps.metrics);
    this.#accountant = this.#makeAccountant();
    this.#deadlines = new Deadlines(deps);
    this.#readLanes = new ReadLanes({
      clock: deps.clock,
      deadlines: this.#deadlines,
      defer: (work) => deps.timers.defer(work),
    });
    this.#messageBytesMax = Math.min(
      MESSAGE_BYTES_MAX,
      config["connection.inflight.bytes"],
      config["produce.inflight.bytes"],
    );
    this.#dispatcher = new Dispatcher(this.#makeNode(), (defect) => this.#defect(defect));
    this.#connections = this.#makeConnections();
    this.#ended = new Promise((_, reject) => {
      this.#rejectStart = reject;
    });
    this.#ended.catch(() => undefined); // heard only by a start under way
  }

  get state(): BrokerState {
    return this.#state;
  }

  get address(): string {
    const advertised = this.#config["advertised.listeners"];
    if (advertised !== undefined) return addressOf(advertised);
    // Where the other nodes were told to look for this one.
    const own = votersOf(this.#config).find(({ nodeId }) => nodeId === this.#config["node.id"]);
    return own?.address ?? present(this.#listener, "the listener").address;
  }

  get identity(): BrokerIdentity {
    const { clusterId, nodeId, directoryId } = present(this.#store, "the store").identity;
    return { clusterId: present(clusterId, "the cluster id"), nodeId, directoryId };
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
    return healthOf({
      state: this.#state,
      failure: this.#failure,
      store: this.#store,
      member: this.#member,
      replicas: this.#replicas,
    });
  }

  async #start(): Promise<void> {
    const startedMs = this.#deps.clock.monoMs();
    try {
      this.#opening = this.#open();
      // A failure ends the start even when what it was waiting for never comes; a stop lets a recovery end, but waits for no quorum.
      const member = await Promise.race([this.#opening, this.#ended]);
      await Promise.race([member.start(), this.#ended]);
      if (this.#failure !== undefined) throw this.#failure;
    } catch (thrown) {
      await this.#giveUp();
      throw asOttlaError(thrown);
    }
    if (this.#state !== "starting") throw new OttlaError("CLOSED", STOPPED_EARLY);
    this.#state = "running";
    this.#serve();
    const { clusterId } = this.identity;
    const startMs = Math.round(this.#deps.clock.monoMs() - startedMs);
    this.#deps.logger.info("broker_started", { address: this.address, clusterId, startMs });
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

  async #open(): Promise<ClusterMember> {
    const { timers } = this.#deps;
    votersOf(this.#config);
    this.#connections.startSweeping();
    // The port first: a taken one must leave the data directory untouched. Other nodes and DescribeQuorum are answered from here on.
    this.#listener = await this.#listen();
    const store = await openStore(this.#deps, this.#config);
    this.#store = store;
    const events = {
      onRoomChanged: () => this.#roomChanged(),
      onDiskFailed: (error: OttlaError) => this.#fail(error),
      onUnusable: (replica: Replica, error: OttlaError | undefined) => this.#unusable(replica, error),
      onIsrChanged: (change: number) => this.#metrics.isrChanged(change),
      guard: (work: () => void) => this.#guard(work),
    };
    const { clock, checksum, replicaProbe: probe, logger } = this.#deps;
    const managerDeps = { clock, checksum, timers, store, events, probe, logger };
    const replicas = new ReplicaManager(managerDeps, coreSettingsOf(this.#config));
    this.#replicas = replicas;
    store.listen(replicas);
    this.#intake = new ProduceIntake({ store, accountant: this.#accountant });
    const { address } = this;
    const onOpened = (raftStore: RaftStore) => {
      this.#raftStore = raftStore;
    };
    const quorum = await openHostedQuorum(this.#deps, this.#config, { store, address, onOpened });
    const member = new ClusterMember(this.#deps, this.#config, {
      store,
      quorum,
      replicas,
      deadlines: this.#deadlines,
      metrics: this.#metrics,
      address,
      onChanged: () => this.#observeCluster(),
      onFailed: (error) => this.#fail(error),
      onDefect: (defect) => this.#defect(defect),
    });
    this.#member = member;
    return member;
  }

  /** What the handlers know of this node from the first moment on. */
  #makeNode(): NodeServices {
    const { clock, logger } = this.#deps;
    const member = () => this.#member;
    return {
      config: this.#config,
      nodeId: toNodeId(this.#config["node.id"]),
      clock,
      logger,
      metrics: this.#metrics,
      accountant: this.#accountant,
      metadataVersions: metadataVersionsOf(this.#deps),
      messageBytesMax: this.#messageBytesMax,
      scans: this.#scans,
      get quorum() {
        return member()?.quorum;
      },
      get controller() {
        return member()?.controller;
      },
      named: (connection, clientId) => this.#connections.named(connection, clientId),
      waitingFor: () => waitingFor(this.#member),
    };
  }

  #serve(): void {
    const { clock, logger, entropy, checksum, codecs } = this.#deps;
    const member = present(this.#member, "the member");
    const services: Services = {
      config: this.#config,
      nodeId: toNodeId(this.#config["node.id"]),
      clock,
      logger,
      metrics: this.#metrics,
      metadataVersions: metadataVersionsOf(this.#deps),
      messageBytesMax: this.#messageBytesMax,
      quorum: member.quorum,
      controller: member.controller,
      named: (connection, clientId) => this.#connections.named(connection, clientId),
      waitingFor: () => waitingFor(this.#member),
      entropy,
      checksum,
      codecs,
      accountant: this.#accountant,
      deadlines: this.#deadlines,
      purgatory: this.#purgatory,
      readLanes: this.#readLanes,
      store: present(this.#store, "the store"),
      replicas: present(this.#replicas, "the replicas"),
      topics: member.topics,
      membership: member.membership,
      producerIds: member.producerIds,
      replication: member.replication,
      intake: present(this.#intake, "the intake"),
      metadataAnswers: new MetadataAnswers(clock),
      scans: this.#scans,
      defer: (work) => this.#defer(work),
    };
    this.#dispatcher.services = services;
    this.#observe();
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
      onRequest: (...request: Parameters<Dispatcher["dispatch"]>) => this.#dispatcher.dispatch(...request),
      guard: (work: () => void) => this.#guard(work),
    };
    const isPeer = (nodeId: number) => this.#isPeer(nodeId);
    const deps = { timers, logger, host, isPeer, onSweep: () => this.#sweep() };
    return new ConnectionSet(deps, this.#config["connections.max"]);
  }

  /** Whoever says so, while this node cannot know yet. */
  #isPeer(nodeId: number): boolean {
    const { quorum } = this.#member ?? {};
    if (quorum === undefined) return true;
    const isVoter = quorum.status.voters.some((voter) => voter.nodeId === nodeId);
    return isVoter || quorum.image.cluster === undefined || quorum.image.broker(toNodeId(nodeId)) !== undefined;
  }

  #roomChanged(): void {
    this.#intake?.drain();
    this.#member?.topics.retryFailed();
  }

  #sweep(): void {
    this.#observe();
    if (this.#state === "starting") this.#tellWaiting();
    if (this.#sweepCount++ % SWEEPS_PER_DISK_LOOK !== 0 || this.#store === undefined) return;
    this.#deps.files.freeBytes(this.#config["data.dir"]).then(
      (bytes) => this.#metrics.diskFree.set(bytes),
      (thrown: unknown) => this.#deps.logger.warn("free_space_unknown", { err: thrown }),
    );
  }

  /** What the others are told of the partition may be another thing now. */
  #unusable(replica: Replica, error: OttlaError | undefined): void {
    this.#member?.topics.onUnusable(replica, error);
    this.#dispatcher.services?.metadataAnswers.clear();
  }

  /** Once for each thing that a start waits for. */
  #tellWaiting(): void {
    const what = waitingFor(this.#member);
    if (what === null || what === this.#toldWaiting) return;
    this.#toldWaiting = what;
    this.#deps.logger.info("broker_waiting", { for: what });
  }

  #observe(): void {
    this.#metrics.connections.set(this.#connections.count);
    this.#metrics.delayed.set(this.#accountant.delayedCount);
    this.#metrics.inFlight.set(this.#dispatcher.inFlightCount);
    this.#metrics.requestBytes.set(this.#accountant.requestBytes);
    this.#metrics.unsentBytes.set(this.#accountant.unsent.usedBytes);
    this.#observeCluster();
  }

  #observeCluster(): void {
    if (this.#member === undefined || this.#replicas === undefined) return;
    this.#metrics.observeCluster(this.#member, this.#replicas.led.size);
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
    if (error.code === "DISK_FAILED") this.#store?.giveUp(error);
    this.#rejectStart(error);
    if (isStarting) return; // whoever called start() is told
    // It must look dead to the others, too: no heartbeat, no vote, whoever notices the failure and when.
    this.#member?.close().catch((thrown: unknown) => this.#deps.logger.error("stop_failed", { err: thrown }));
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
    await this.#closeFiles();
  }

  async #closeFiles(): Promise<void> {
    try {
      await this.#member?.close();
    } finally {
      await this.#closeStores();
    }
  }

  /** The lock of the directory goes last: what a slow disk still does of this process must not meet the next one. */
  async #closeStores(): Promise<void> {
    try {
      await this.#raftStore?.close();
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
    if (this.#state === "starting") {
      await this.#opening?.catch(() => undefined);
      this.#rejectStart(new OttlaError("CLOSED", STOPPED_EARLY));
      await this.#starting.catch(() => undefined); // its caller is told
    }
    if (this.#state === "stopped") return;
    if (this.#state !== "failed") this.#state = "stopping";
    await this.#atMost(timeoutMs, this.#stopInOrder(timeoutMs));
    this.#connections.destroyAll();
    this.#deadlines.stop();
    if (this.#failure === undefined) this.#state = "stopped";
    this.#deps.logger.info("broker_stopped");
  }

  async #stopInOrder(timeoutMs: number): Promise<void> {
    if (this.#state === "failed") {
      await this.#listener?.close();
      return this.#closeFiles();
    }
    // No new produce but of those who can send it again without doubt; its followers go on fetching, so that what was appended is answered: nearly always by the next sync, else never.
    this.#dispatcher.phase = "draining";
    await this.#atMost(timeoutMs / 4, this.#intake?.idle() ?? Promise.resolve());
    // What was answered for acks 1 goes over, too.
    const parts = { deadlines: this.#deadlines, accountant: this.#accountant };
    await untilCommitted(parts, [...(this.#replicas?.led ?? [])], Math.min(timeoutMs / 8, COMMIT_MS_MAX));
    // others lead, and know it, before anybody is turned away.
    await this.#member?.leave(Math.min(timeoutMs / 8, LEAVE_MS_MAX));
    this.#dispatcher.phase = "stopping";
    await this.#atMost(Math.min(timeoutMs / 8, COMMIT_MS_MAX), this.#intake?.idle() ?? Promise.resolve());
    await this.#listener?.close();
    this.#purgatory.abandonAll("BROKER_NOT_AVAILABLE");
    this.#intake?.abandonAll("BROKER_NOT_AVAILABLE");
    // Its last words go out over connections that are open yet.
    await this.#member?.close();
    this.#connections.closeAll("BROKER_NOT_AVAILABLE: the broker is stopping");
    await this.#atMost(timeoutMs / 4, this.#connections.empty());
    await this.#closeStores();
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
