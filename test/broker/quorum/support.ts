// Quorums in the simulated world: each node is a disk with a metadata store, a port that answers the quorum's requests, and openQuorum.
import { createSimHost } from "../../../scripts/sim-host.ts";
import { HostedEnd } from "./hosted-end.ts";
import { openQuorum } from "../../../src/broker/quorum/quorum.ts";
import type { Applied, HostedQuorum, QuorumIdentity, QuorumOptions } from "../../../src/broker/quorum/types.ts";
import type { QuorumProbe } from "../../../src/broker/quorum/probe.ts";
import { type Decision, decideRegistration } from "../../../src/metadata/controller.ts";
import type { MetadataImage } from "../../../src/metadata/image.ts";
import type { VersionRange } from "../../../src/metadata/records.ts";
import { asOttlaError, type OttlaError } from "../../../src/model/errors.ts";
import { type ClusterId, type NodeId, toNodeId, type Uuid, uuidFromBytes } from "../../../src/model/ids.ts";
import type { RaftNode } from "../../../src/raft/raft-node.ts";
import { type CrashKind, SimDisk } from "../../../src/sim/disk.ts";
import { DiskImage } from "../../../src/sim/disk-image.ts";
import { SimNetwork } from "../../../src/sim/network.ts";
import { createSimLogger, SimMetrics } from "../../../src/sim/sim-ports.ts";
import {
  createSimClock,
  createSimEntropy,
  createSimTimers,
  type Incarnation,
  SimWorld,
} from "../../../src/sim/world.ts";
import { rewriteForUnsafeRecovery } from "../../../src/storage/unsafe-recovery.ts";
import { encodeConfiguration } from "../../../src/broker/quorum/codec.ts";
import { encodeCommand } from "../../../src/metadata/codec.ts";
import { EPOCHS_RAISED_BY_RECOVERY } from "../../../src/metadata/records.ts";
import type { ReplicaId } from "../../../src/raft/types.ts";
import type { RaftOwner } from "../../../src/storage/raft-types.ts";
import { openRaftStore } from "../../../src/storage/raft-store.ts";
import type { StorageDeps } from "../../../src/storage/types.ts";

const host = await createSimHost();
const LATENCIES = { readMs: 0.05, writeMs: 0.05, syncMs: 0.5, directoryMs: 0.02 };
const SETTLE_MS = 30_000;

export const nodeId = (id: number): NodeId => toNodeId(id);
export const idOf = (label: number): Uuid => uuidFromBytes(new Uint8Array(16).fill(label).fill(label >> 8, 0, 8));

/** A disk and what the superblock of a log store would hold on it. */
interface Machine {
  readonly disk: SimDisk;
  superblock: { directoryId: Uuid; clusterId: ClusterId | null };
}

export interface NodeOptions extends Partial<QuorumOptions> {
  readonly metadataVersions?: VersionRange;
}

export class QuorumNode {
  readonly id: NodeId;
  readonly address: string;
  readonly name: string;
  readonly machine: Machine;
  readonly latencies = { ...LATENCIES };
  readonly #cluster: QuorumCluster;
  options: NodeOptions;
  incarnation: Incarnation | undefined;
  #quorum: HostedQuorum | undefined;
  failure: OttlaError | undefined;
  refusal: OttlaError | undefined;
  /** Indices in the order in which the listener was told, of this life. */
  applied: Applied[] = [];
  controllerChanges: boolean[] = [];
  /** The Raft core of this life; for what only a test does to it. */
  core: RaftNode | undefined;
  probe: Partial<QuorumProbe> = {};
  #directories = 0;

  constructor(cluster: QuorumCluster, id: number, options: NodeOptions) {
    this.#cluster = cluster;
    this.id = toNodeId(id);
    this.name = `n${id}`;
    this.address = `${this.name}:7`;
    this.options = options;
    const disk = new SimDisk(cluster.world, this.name, { latencies: this.latencies, capacityBytes: 2 ** 30 });
    this.machine = { disk, superblock: this.#freshSuperblock() };
  }

  #freshSuperblock(): Machine["superblock"] {
    return { directoryId: idOf(this.id * 10 + this.#directories++), clusterId: null };
  }

  get isUp(): boolean {
    return this.#quorum !== undefined && this.failure === undefined;
  }
  get quorum(): HostedQuorum {
    if (this.#quorum === undefined) throw new Error(`${this.name} is down`);
    return this.#quorum;
  }
  get directoryId(): Uuid {
    return this.machine.superblock.directoryId;
  }
  get replica(): string {
    return `${this.id}:${this.directoryId}`;
  }
  get isController(): boolean {
    return this.isUp && this.quorum.isController;
  }

  storageDeps(incarnation: Incarnation): StorageDeps {
    const { world } = this.#cluster;
    return {
      files: this.machine.disk.files(incarnation),
      clock: createSimClock(world, incarnation),
      timers: createSimTimers(world, incarnation),
      checksum: world.checksum,
      codecs: host.codecs,
      entropy: createSimEntropy(world, incarnation),
      logger: createSimLogger(world, this.name),
      metrics: new SimMetrics(),
      bootId: "boot",
    };
  }

  /** Resolves once the quorum is open and the port listens; it may be waiting for others. */
  async start(): Promise<void> {
    const { world, network, options } = this.#cluster;
    const incarnation = world.startIncarnation(this.name);
    this.incarnation = incarnation;
    this.failure = this.refusal = undefined;
    this.applied = [];
    this.controllerChanges = [];
    const deps = this.storageDeps(incarnation);
    const transport = network.messages(incarnation);
    try {
      await deps.files.makeDirectory("/data");
      await deps.files.syncDirectory("/");
      const store = await openRaftStore(deps, { directory: "/data/metadata", segmentBytes: 4096, owner: this.#owner });
      const { metadataVersions, ...own } = this.options;
      const quorum = await openQuorum(
        {
          ...deps,
          rng: world.fork(`quorum ${this.name} ${incarnation.number}`),
          transport,
          identity: this.#identity(incarnation),
          store,
          address: this.address,
          software: "test",
          metadataVersions,
          probe: this.#watched(),
        },
        { ...options, ...own },
      );
      if (!incarnation.isAlive) return;
      this.#quorum = quorum;
      quorum.listen({
        onApplied: (applied) => void this.applied.push(applied),
        onControllerChanged: (isController) => void this.controllerChanges.push(isController),
        onFailed: (error) => {
          this.failure = error;
        },
      });
      await transport.listen(this.address, (connection) => new HostedEnd(connection, quorum, this.id));
    } catch (thrown) {
      this.refusal = asOttlaError(thrown);
    }
  }

  #watched(): QuorumProbe {
    return {
      onRaftStarted: (core, restored) => {
        this.core = core;
        this.probe.onRaftStarted?.(core, restored);
      },
      onReady: (core, ready) => this.probe.onReady?.(core, ready),
      onMessage: (message) => this.probe.onMessage?.(message),
      onApplied: (image) => this.probe.onApplied?.(image),
    };
  }

  /** Names in the directory of the metadata. */
  get metadataFiles(): string[] {
    const found = this.machine.disk.image.find("/data/metadata");
    return found?.kind === "directory" ? [...found.live.keys()].toSorted() : [];
  }

  /** The superblock: durable after a while, lost with the process before. */
  get #owner(): RaftOwner {
    return { nodeId: this.id, directoryId: this.machine.superblock.directoryId };
  }

  #identity(incarnation: Incarnation): QuorumIdentity {
    const { world } = this.#cluster;
    const { machine, id } = this;
    const { superblock } = machine;
    return {
      nodeId: id,
      directoryId: superblock.directoryId,
      get clusterId() {
        return superblock.clusterId;
      },
      adoptCluster: (clusterId) =>
        world.later({ delayMs: 1, kind: "superblock", owner: incarnation }, () => {
          if (machine.superblock === superblock) superblock.clusterId = clusterId;
        }),
    };
  }

  crash(kind: CrashKind = "process death"): void {
    this.incarnation?.end();
    if (this.incarnation !== undefined) this.#cluster.network.forget(this.incarnation);
    this.machine.disk.crash(kind);
    this.#quorum = undefined;
  }

  async stop(): Promise<void> {
    await this.quorum.close();
    this.crash();
  }

  /** What an operator does when the others are gone for ever: this node, stopped, becomes the only voter of what its log holds. */
  async recover(): Promise<void> {
    const incarnation = this.#cluster.world.startIncarnation(this.name);
    const store = await openRaftStore(this.storageDeps(incarnation), {
      directory: "/data/metadata",
      segmentBytes: 4096,
      owner: this.#owner,
    });
    const { clusterId } = this.machine.superblock;
    const voters = [this.replica as ReplicaId];
    const configuration = encodeConfiguration({ voters, learners: [] }, clusterId ?? idOf(0));
    const command = encodeCommand(
      [{ type: "unsafe-recovery", version: 1, epochsRaisedBy: EPOCHS_RAISED_BY_RECOVERY, timestampMs: 1 }],
      1,
    );
    await rewriteForUnsafeRecovery(store, configuration, command);
    await store.close();
    incarnation.end();
    this.machine.disk.crash("process death");
  }

  wipe(): void {
    this.machine.disk.replace(new DiskImage());
    this.machine.superblock = this.#freshSuperblock();
  }

  /** What a backup of the disk would hold now. */
  backup(): () => void {
    const image = this.machine.disk.image.clone();
    image.closeAll();
    const superblock = { ...this.machine.superblock };
    return () => {
      this.machine.disk.replace(image.clone());
      this.machine.superblock = { ...superblock };
    };
  }
}

export interface ClusterOptions extends NodeOptions {
  readonly seed?: number;
  /** Node ids; all of them are listed unless `listed` says otherwise. */
  readonly nodes?: readonly number[];
  readonly listed?: readonly number[];
}

export class QuorumCluster {
  readonly world: SimWorld;
  readonly network: SimNetwork;
  readonly nodes: readonly QuorumNode[];
  readonly options: QuorumOptions;

  constructor({ seed = 1, nodes = [1, 2, 3], listed = nodes, ...options }: ClusterOptions = {}) {
    this.world = new SimWorld({ seed, host });
    this.network = new SimNetwork(this.world, {
      link: { delayMs: 0.2, bandwidth: 1_000_000, windowBytes: 256 * 1024 },
    });
    const voters = listed.map((id) => ({ nodeId: toNodeId(id), address: `n${id}:7` }));
    this.options = { voters, snapshotBytes: 1024 * 1024, proposalsMax: 100, ...options };
    this.nodes = nodes.map((id) => new QuorumNode(this, id, {}));
  }

  node(id: number): QuorumNode {
    const node = this.nodes.find((candidate) => candidate.id === id);
    if (node === undefined) throw new Error(`no node ${id}`);
    return node;
  }

  get controllers(): QuorumNode[] {
    return this.nodes.filter((node) => node.isController);
  }

  /** Starts these (all by default) and waits until they have opened their quorum. */
  async start(...ids: number[]): Promise<void> {
    const chosen = ids.length === 0 ? this.nodes : ids.map((id) => this.node(id));
    await this.world.settle(Promise.all(chosen.map((node) => node.start())));
  }

  async until(condition: () => boolean, limitMs = SETTLE_MS, what = "condition"): Promise<void> {
    if (!(await this.world.runUntil(condition, this.world.nowMs + limitMs)))
      throw new Error(`${what}: not within ${limitMs} simulated ms\n${this.describe()}`);
  }

  describe(): string {
    return this.nodes
      .map((node) => `${node.name}: ${node.isUp ? JSON.stringify(node.quorum.status) : "down"}`)
      .join("\n");
  }

  async controller(among: readonly QuorumNode[] = this.nodes): Promise<QuorumNode> {
    let found: QuorumNode | undefined;
    await this.until(
      () => {
        found = among.find((node) => node.isController);
        return found !== undefined;
      },
      SETTLE_MS,
      "a controller",
    );
    return found as QuorumNode;
  }

  run(ms: number): Promise<void> {
    return this.world.runFor(ms);
  }

  settle<T>(promise: Promise<T>, limitMs = SETTLE_MS): Promise<T> {
    return this.world.settle(promise, limitMs);
  }

  propose(node: QuorumNode, decide: Parameters<HostedQuorum["propose"]>[0]): Promise<Decision> {
    return this.settle(node.quorum.propose(decide));
  }

  /** Cuts or mends both directions between the two. */
  cut(one: number, other: number): void {
    this.network.cut(`n${one}`, `n${other}`);
    this.network.cut(`n${other}`, `n${one}`);
  }
  mend(one: number, other: number): void {
    this.network.mend(`n${one}`, `n${other}`);
    this.network.mend(`n${other}`, `n${one}`);
  }

  /** Until every node that is up has applied as much as the one that has most, and all images are the same. */
  async converged(among: readonly QuorumNode[] = this.nodes.filter(({ isUp }) => isUp)): Promise<void> {
    await this.until(
      () => new Set(among.map((node) => node.quorum.image.endOffset)).size === 1,
      SETTLE_MS,
      "equal images",
    );
    const hashes = new Set(among.map((node) => node.quorum.image.stateHash()));
    if (hashes.size !== 1) throw new Error(`images differ\n${this.describe()}`);
  }
}

/** A command that is seen in the image: broker `id` registers. */
export const registers =
  (id: number) =>
  (image: MetadataImage): Decision =>
    decideRegistration(image, {
      clusterId: image.cluster?.clusterId ?? idOf(0),
      nodeId: toNodeId(id),
      directoryId: idOf(id),
      incarnationId: idOf(id),
      restart: "first",
      address: `broker${id}:1`,
      metadataVersions: { min: 1, max: 2 },
      storedBrokerEpoch: null,
      hasLiveSession: false,
      nowMs: 1,
    });

/** Which of those commands an image holds. */
export const registeredIn = (node: QuorumNode): number[] =>
  [...node.quorum.image.brokers].map((broker) => broker.nodeId as number).toSorted((one, other) => one - other);
