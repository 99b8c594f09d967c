// The metadata quorum of one node, put together: its forming, its Raft core or its pulls, its image, its changes, its peers.
import type { Decision } from "../../metadata/controller.ts";
import type { MetadataImage } from "../../metadata/image.ts";
import { SUPPORTED_METADATA_VERSIONS, type VersionRange } from "../../metadata/records.ts";
import { asOttlaError, OttlaError } from "../../model/errors.ts";
import type { ClusterId, NodeId } from "../../model/ids.ts";
import { isMember } from "../../raft/configuration.ts";
import { DEFAULT_SETTINGS } from "../../raft/settings.ts";
import {
  type Configuration,
  type Entry,
  nodeIdOf,
  type ReplicaId,
  type RestoredState,
  toReplicaId,
} from "../../raft/types.ts";
import { API } from "../../wire/native/apis.ts";
import type {
  AdoptRequest,
  FetchMetadataRequest,
  RaftRequest,
  VoterHelloRequest,
  VoterHelloResponse,
} from "../../wire/native/quorum-apis.ts";
import { votersText } from "./bootstrap.ts";
import { Contacts } from "./contacts.ts";
import { Controllership } from "./controllership.ts";
import { addressesIn, lookAtDisk } from "./formation.ts";
import { Forming } from "./forming.ts";
import { Membership } from "./membership.ts";
import { MetadataServer } from "./metadata-server.ts";
import { Observer, type Pulled } from "./observer.ts";
import type { PeerLinks } from "./peers.ts";
import { Proposals } from "./proposals.ts";
import { RaftHost } from "./raft-host.ts";
import { readWholeSnapshot } from "./snapshot-keeper.ts";
import { StateMachine } from "./state-machine.ts";
import { roleOf, troubleOf, votersOf } from "./status.ts";
import type {
  Applied,
  ChangeOutcome,
  ChangeSource,
  HostedQuorum,
  QuorumChange,
  QuorumDeps,
  QuorumListener,
  QuorumOptions,
  QuorumStatus,
} from "./types.ts";
import { helloBefore, helloOf } from "./voter-hello.ts";
import { atMost, Waiting } from "./waiting.ts";

/**
 * A member without a leader for this long looks for what it may have missed: its own removal, say, of which nobody sends it anything. Well
 * below a broker's session, whose heartbeats need to know the controller.
 */
const LEADERLESS_MS = 1_000;
const ADOPT_TIMEOUT_MS = 5_000;
const HANDOVER_MS = 1_000;
const CLOSE_MS = 2_000;
const GOODBYE_MS = 50;
const NO_CONFIGURATION: Configuration = { voters: [], learners: [] };

/**
 * Resolves once the disk was read, before it is known what the node becomes. Rejects with DATA_DAMAGED, DATA_DIR_NEWER, DATA_DIR_FOREIGN,
 * STORAGE_ERROR or DISK_FAILED, everything released again, the store too.
 */
export async function openQuorum(deps: QuorumDeps, options: QuorumOptions): Promise<HostedQuorum> {
  const quorum = new Quorum(deps, options);
  try {
    await quorum.start();
    return quorum;
  } catch (thrown) {
    await quorum.close();
    throw thrown;
  }
}

class Quorum implements HostedQuorum {
  readonly #deps: QuorumDeps;
  readonly #options: QuorumOptions;
  readonly #self: ReplicaId;
  readonly #machine: StateMachine;
  readonly #contacts: Contacts;
  readonly #forming: Forming;
  readonly #server: MetadataServer;
  readonly #observer: Observer;
  readonly #proposals: Proposals;
  readonly #membership: Membership;
  readonly #controllership: Controllership;
  readonly #caughtUp = new Waiting();
  readonly #listeners: QuorumListener[] = [];
  #host: RaftHost | undefined;
  #clusterId: ClusterId | null = null;
  #observedLeader: NodeId | null = null;
  #leaderlessSinceMs: number;
  #failure: OttlaError | undefined;
  #closing: Promise<void> | undefined;

  constructor(deps: QuorumDeps, options: QuorumOptions) {
    const { identity, metadataVersions = SUPPORTED_METADATA_VERSIONS } = deps;
    this.#deps = deps;
    this.#options = options;
    this.#self = toReplicaId(identity.nodeId, identity.directoryId);
    this.#leaderlessSinceMs = deps.clock.monoMs();
    this.#machine = this.#makeMachine(metadataVersions);
    this.#contacts = this.#makeContacts();
    this.#forming = this.#makeForming();
    const { clock, timers, store } = deps;
    const core = () => this.#host?.core;
    const clusterId = () => this.#clusterId;
    const onUnreadable = (end: number) => this.#host?.retake(end);
    this.#server = new MetadataServer({ clock, timers, store, core, clusterId, onUnreadable });
    this.#observer = this.#makeObserver();
    this.#controllership = new Controllership({
      machine: this.#machine,
      proposals: () => this.#proposals,
      core,
      clusterId,
      metadataVersion: metadataVersions.max,
      wallMs: () => clock.wallMs(),
      onChanged: (isController) => this.#controllerChanged(isController),
    });
    this.#proposals = this.#makeProposals();
    this.#membership = new Membership({
      clock,
      timers,
      core,
      input: (act) => this.#host?.input(act),
      isController: () => this.isController,
      isThere: (replica) => this.#contacts.check.mayTell(replica),
      appliedEnd: () => this.#machine.end,
      configuration: () => this.#machine.configuration?.configuration,
    });
  }

  // --- what it is

  get image(): MetadataImage {
    return this.#machine.image;
  }
  get clusterId(): ClusterId | null {
    return this.#clusterId;
  }
  get links(): PeerLinks {
    return this.#contacts.links;
  }
  get isController(): boolean {
    return this.#controllership.isController;
  }
  get controllerId(): NodeId | null {
    const leader = this.#host?.core.leader ?? null;
    return leader === null ? this.#observedLeader : nodeIdOf(leader);
  }

  get status(): QuorumStatus {
    const core = this.#host?.core;
    const { nodeId } = this.#deps.identity;
    return {
      clusterId: this.#clusterId,
      role: roleOf(core, { isMember: this.#isMember }),
      self: this.#self,
      term: core?.term ?? 0,
      leaderId: this.controllerId,
      logStart: core?.log.start ?? 0,
      logEnd: core?.log.end ?? 0,
      commitEnd: Math.max(core?.log.commitEnd ?? 0, this.#machine.end),
      appliedEnd: this.#machine.end,
      snapshotEnd: core?.snapshot?.end ?? 0,
      voters: votersOf(this.#configuration, { core, refused: this.#contacts.check.refused }),
      reachable: [nodeId, ...this.links.connected].toSorted((one, other) => one - other),
      trouble: this.#trouble,
      waitingProposals: this.#proposals.count,
    };
  }

  get #trouble(): string | null {
    const { nodeId } = this.#deps.identity;
    const voters = this.#configuration.voters.map(nodeIdOf);
    return troubleOf({
      failure: this.#failure,
      forming: this.#host === undefined ? this.#forming.trouble : null,
      refusedBy: this.#contacts.refusedBy,
      diskTrouble: this.#host?.diskTrouble ?? null,
      hasLeader: this.controllerId !== null,
      strangers: this.links.strangers,
      voters: voters.length > 0 ? voters : this.#options.voters.map((voter) => voter.nodeId),
      isReachable: (voter) => voter === nodeId || this.links.isConnected(voter),
    });
  }

  /** The newest one known here, committed or not. */
  get #configuration(): Configuration {
    const core = this.#host?.core;
    const applied = this.#machine.configuration;
    if (core !== undefined && core.log.end > 0 && core.log.end > (applied?.index ?? -1)) return core.configuration;
    return applied?.configuration ?? NO_CONFIGURATION;
  }

  /** By its own log, unless it knows better from others: one that was removed gets no more of the log. */
  get #isMember(): boolean {
    return isMember(this.#configuration, this.#self) && (this.#host?.core.log.end ?? 0) > 0;
  }

  // --- what it does

  listen(listener: QuorumListener): void {
    this.#listeners.push(listener);
    const failure = this.#failure;
    if (failure !== undefined) this.#deps.timers.defer(() => listener.onFailed(failure));
  }

  propose(decide: (image: MetadataImage) => Decision, source?: ChangeSource): Promise<Decision> {
    return this.#proposals.propose(decide, source);
  }

  barrier(isOwn = false): Promise<OttlaError | null> {
    return this.#proposals.barrier(isOwn);
  }

  change(change: QuorumChange, timeoutMs: number): Promise<ChangeOutcome> {
    return this.#membership.change(change, timeoutMs);
  }

  transfer(to: NodeId, timeoutMs: number): Promise<ChangeOutcome> {
    return this.#membership.transfer(to, timeoutMs);
  }

  waitForApplied(end: number): Promise<void> {
    return this.#failure === undefined ? this.#machine.waitForApplied(end) : Promise.reject(this.#failure);
  }

  waitForImage(): Promise<void> {
    return this.#caughtUp.promise;
  }

  // --- what others say

  receiveRaft(request: RaftRequest, bodies: readonly Uint8Array[]): void {
    const message = this.#host === undefined ? undefined : this.#contacts.accept(request, bodies);
    if (message !== undefined) this.#host?.input((core) => core.step(message));
  }

  voterHello(request: VoterHelloRequest): VoterHelloResponse {
    const { nodeId, directoryId } = this.#deps.identity;
    if (this.#failure === undefined && this.#closing === undefined) this.#contacts.heardHello(request);
    const base = { nodeId, directoryId, voters: votersText(this.#options.voters), clusterId: this.#clusterId };
    if (this.#host === undefined) return helloBefore(base, this.#forming.isUndecided ? "empty" : "starting");
    return helloOf(base, { host: this.#host, boots: this.#deps.store.boots });
  }

  adopt(request: AdoptRequest): Promise<void> {
    return this.#forming.adopt(request);
  }

  fetchMetadata(request: FetchMetadataRequest): Promise<Pulled> {
    return this.#server.fetch(request);
  }

  // --- life

  async start(): Promise<void> {
    const { store, identity, metadataVersions: versions = SUPPORTED_METADATA_VERSIONS } = this.#deps;
    const disk = lookAtDisk(store, { identity, wanted: this.#options.clusterId, versions });
    const { snapshot } = store.restored;
    if (snapshot !== null && disk.kind === "log" && disk.restored.snapshot !== null) {
      const bytes = await readWholeSnapshot(store, snapshot);
      if (bytes === undefined)
        throw new OttlaError("DATA_DAMAGED", `the metadata snapshot of ${snapshot.end} cannot be read`);
      this.#machine.load(disk.restored.snapshot, bytes);
    }
    if (disk.kind === "log")
      for (const { nodeId, address } of addressesIn(disk.restored.log.entries, versions))
        this.#contacts.learn(nodeId, address);
    store.onFailed((error) => this.#fail(error));
    await this.#forming.start(disk);
  }

  close(): Promise<void> {
    this.#closing ??= atMost(this.#deps.timers, CLOSE_MS, this.#closeInOrder());
    return this.#closing;
  }

  async #closeInOrder(): Promise<void> {
    await this.#handOver();
    const closed = new OttlaError("BROKER_NOT_AVAILABLE", "the broker is stopping");
    this.#end(closed);
    this.#contacts.check.close();
    await this.#host?.stop();
    await this.#contacts.saveMarks();
    await this.#deps.store.close();
    // What was handed over to the connections goes out; peers that are gone do not say that they have it.
    await atMost(this.#deps.timers, GOODBYE_MS, this.links.close());
  }

  /** So that nobody waits for a timeout: the voter that lacks least takes over. */
  async #handOver(): Promise<void> {
    const core = this.#host?.core;
    if (core?.role !== "leader") return;
    const candidates = [...core.peers()]
      .filter(([id]) => core.configuration.voters.includes(id) && this.#contacts.check.mayTell(id))
      .toSorted(([, one], [, other]) => other.matchEnd - one.matchEnd);
    const [best] = candidates;
    if (best === undefined) return;
    const to = nodeIdOf(best[0]);
    let stopWatching: (() => void) | undefined;
    // One that stops as well takes nothing over.
    const lost = new Promise<void>((resolve) => {
      stopWatching = this.links.watch({ onLost: (nodeId) => (nodeId === to ? resolve() : undefined) });
    });
    await Promise.race([lost, this.#membership.transfer(to, HANDOVER_MS)]);
    stopWatching?.();
  }

  /** Everything that waits is told. */
  #end(error: OttlaError): void {
    this.#forming.end();
    this.#observer.isOn = false;
    this.#proposals.close();
    this.#membership.close();
    this.#server.close();
    this.#machine.stop(error);
    this.#caughtUp.fail(error);
  }

  #fail(error: OttlaError): void {
    if (this.#failure !== undefined || (this.#closing !== undefined && error.code !== "DISK_FAILED")) return; // D-13
    this.#failure = error;
    this.#deps.logger.error("quorum_failed", { code: error.code, message: error.message });
    void this.#host?.stop();
    this.#contacts.check.close();
    this.#end(error);
    for (const { onFailed } of this.#listeners) onFailed(error);
  }

  // --- its parts

  #makeMachine(versions: VersionRange): StateMachine {
    return new StateMachine({ versions, probe: this.#deps.probe, onApplied: (applied) => this.#applied(applied) });
  }

  #makeContacts(): Contacts {
    return new Contacts({
      deps: this.#deps,
      options: this.#options,
      self: this.#self,
      image: () => this.#machine.image,
      clusterId: () => this.#clusterId,
      commitEnd: () => this.#host?.core.log.commitEnd ?? 0,
      term: () => this.#host?.core.term ?? 0,
      onGone: (nodeId) => this.#gone(nodeId),
      onFailed: (error) => this.#fail(error),
    });
  }

  #makeForming(): Forming {
    return new Forming({
      deps: this.#deps,
      options: this.#options,
      self: this.#self,
      ask: (nodeId, timeoutMs) => this.#contacts.ask(nodeId, false, timeoutMs),
      tell: (nodeId, request) =>
        void this.links.call(nodeId, API.ADOPT, request, { timeoutMs: ADOPT_TIMEOUT_MS }).then(
          () => this.#contacts.check.ask(nodeId),
          (thrown: unknown) => this.#deps.logger.warn("founding_not_adopted", { nodeId, err: thrown }),
        ),
      onFormed: (clusterId, restored) => this.#formed(clusterId, restored),
      onFailed: (error) => this.#fail(error),
    });
  }

  #makeObserver(): Observer {
    const { timers, rng, identity } = this.#deps;
    return new Observer({
      timers,
      rng: rng.fork("observer"),
      machine: this.#machine,
      targets: () => this.#targets(),
      pull: async (from, request, timeoutMs) => {
        const clusterId = this.#clusterId as ClusterId;
        const asked = { ...request, clusterId, nodeId: identity.nodeId };
        return this.links.ask(from, API.FETCH_METADATA, asked, { timeoutMs });
      },
      onCaughtUp: () => this.#lookWhetherCaughtUp(true),
      onLeader: (leader) => {
        this.#observedLeader = leader;
      },
      onFailed: (error) => this.#fail(error),
    });
  }

  #makeProposals(): Proposals {
    return new Proposals({
      max: this.#options.proposalsMax,
      image: () => this.#machine.image,
      appliedEnd: () => this.#machine.end,
      isController: () => this.#controllership.leads && this.#failure === undefined,
      isDiskFull: () => this.#host !== undefined && this.#host.diskTrouble !== null,
      append: (bytes) => this.#host?.input((core) => core.propose({ bytes })),
      read: (token) => this.#host?.input((core) => core.readIndex(token)),
    });
  }

  #formed(clusterId: ClusterId, restored: RestoredState): void {
    if (this.#closing !== undefined || this.#failure !== undefined) return;
    this.#clusterId = clusterId;
    const { clock, timers, rng, logger, probe, store } = this.#deps;
    const parts = {
      clock,
      timers,
      rng: rng.fork("raft"),
      logger,
      probe,
      store,
      clusterId,
      machine: this.#machine,
      snapshotBytes: this.#options.snapshotBytes,
      send: this.#contacts.send.bind(this.#contacts),
      onCommitted: (entry: Entry) => this.#committed(entry),
      onRead: this.#proposals.onRead.bind(this.#proposals),
      onProgress: () => this.#progress(),
      onFailed: (error: OttlaError) => this.#fail(error),
      snapshotsInUse: () => this.#server.snapshotsInUse(),
    };
    const settings = { ...DEFAULT_SETTINGS, ...this.#options.raft };
    try {
      this.#host = new RaftHost(parts, { self: this.#self, settings, restored });
      this.#host.start();
    } catch (thrown) {
      this.#fail(asOttlaError(thrown));
    }
  }

  // --- events

  #applied(applied: Applied): void {
    for (const { onApplied } of this.#listeners) onApplied(applied);
  }

  #committed(entry: Entry): void {
    this.#proposals.onCommitted(entry);
  }

  #controllerChanged(isController: boolean): void {
    this.#deps.logger.info(isController ? "controller_began" : "controller_ended", { term: this.#host?.core.term });
    for (const { onControllerChanged } of this.#listeners) onControllerChanged(isController);
  }

  /** Anything may have changed in the core. */
  #progress(): void {
    const host = this.#host;
    if (host === undefined) return;
    this.#membership.onProgress();
    if (this.#closing !== undefined && host.core.role !== "leader") return;
    const { core } = host;
    const applied = this.#machine.configuration;
    this.#contacts.follow([core.log.end > 0 ? core.configuration : undefined, applied?.configuration]);
    const isRemoved = applied !== null && applied.index >= core.log.end && !isMember(applied.configuration, this.#self);
    host.isTicking = !isRemoved;
    this.#controllership.onProgress();
    this.#proposals.onProgress();
    this.#server.onProgress();
    this.#watchLeader();
    this.#lookWhetherCaughtUp(false);
  }

  /** A member is brought the log by its leader; everybody else fetches what is committed. */
  #watchLeader(): void {
    const nowMs = this.#deps.clock.monoMs();
    const isLed = this.#isMember && this.#host?.core.leader !== null;
    if (isLed) this.#leaderlessSinceMs = nowMs;
    const isPulling = !this.#isMember || nowMs - this.#leaderlessSinceMs >= LEADERLESS_MS;
    if (isPulling !== this.#observer.isOn) this.#observer.isOn = isPulling;
    if (!isPulling) this.#observedLeader = null;
  }

  #targets(): NodeId[] {
    const { voters } = this.#configuration;
    const nodes = new Set([...voters.map(nodeIdOf), ...this.#options.voters.map(({ nodeId }) => nodeId)]);
    nodes.delete(this.#deps.identity.nodeId);
    return [...nodes];
  }

  /** A member has all that was committed before its leader's term once it has applied something of that term. */
  #lookWhetherCaughtUp(isPulledUp: boolean): void {
    const core = this.#host?.core;
    if (this.#caughtUp.isSettled || core === undefined || this.#machine.image.cluster === undefined) return;
    const isLed = core.leader !== null && this.#machine.lastTerm === core.term && this.#isMember;
    if (isPulledUp || isLed) this.#caughtUp.done();
  }

  /** D-22. */
  #gone(nodeId: NodeId): void {
    const { voters, learners } = this.#host?.core.configuration ?? NO_CONFIGURATION;
    // One that is being replaced is a member with two disks.
    for (const id of [...voters, ...learners])
      if (nodeIdOf(id) === nodeId) this.#host?.input((core) => core.peerUnreachable(id));
  }
}
