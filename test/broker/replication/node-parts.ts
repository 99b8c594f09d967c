// One process that replicates, put together: storage, cores, streams, and a door for the other nodes.
import { createSimHost } from "../../../scripts/sim-host.ts";
import { Deadlines } from "../../../src/base/deadlines.ts";
import { Accountant } from "../../../src/broker/accountant.ts";
import { ConnectionSet } from "../../../src/broker/connection-set.ts";
import { Dispatcher } from "../../../src/broker/dispatcher.ts";
import { BrokerMetrics } from "../../../src/broker/metrics.ts";
import { PeerLinks } from "../../../src/broker/quorum/peers.ts";
import { ReplicaManager } from "../../../src/broker/replica-manager.ts";
import { Replication } from "../../../src/broker/replication/replication.ts";
import type { IsrController } from "../../../src/broker/replication/types.ts";
import type { NodeServices, Services } from "../../../src/broker/services.ts";
import { coreSettingsOf } from "../../../src/broker/start-up.ts";
import { TurnQueue } from "../../../src/broker/turn-queue.ts";
import type { BrokerConfig } from "../../../src/model/config.ts";
import { type ClusterId, type NodeId, toNodeId, uuidFromBytes } from "../../../src/model/ids.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import type { Logger } from "../../../src/ports/logger.ts";
import type { Timers } from "../../../src/ports/timers.ts";
import type { MessageTransport } from "../../../src/ports/transport.ts";
import type { SimDisk } from "../../../src/sim/disk.ts";
import type { SimNetwork } from "../../../src/sim/network.ts";
import { createSimLogger, SimMetrics } from "../../../src/sim/sim-ports.ts";
import {
  createSimClock,
  createSimEntropy,
  createSimTimers,
  type Incarnation,
  type SimWorld,
} from "../../../src/sim/world.ts";
import { openLogStore } from "../../../src/storage/log-store.ts";
import type { LogStore } from "../../../src/storage/types.ts";

export const host = await createSimHost();
const TICK_MS = 250;
const MESSAGE_BYTES_MAX = 64 * 1024 * 1024;
const CLUSTER = uuidFromBytes(new Uint8Array(16).fill(9)) as ClusterId;

/** Where it runs. */
export interface NodePlace {
  readonly world: SimWorld;
  readonly network: SimNetwork;
  readonly disk: SimDisk;
  readonly config: BrokerConfig;
  readonly name: string;
}

/** What the rest of the broker would tell it. */
export interface NodeSurroundings {
  readonly brokerEpochs: ReadonlyMap<NodeId, number>;
  addressOf(nodeId: NodeId): string;
  hasRoom(): boolean;
  readonly alterPartition: IsrController["alterPartition"];
}

export interface NodeParts {
  readonly incarnation: Incarnation;
  readonly store: LogStore;
  readonly replicas: ReplicaManager;
  readonly replication: Replication;
  readonly accountant: Accountant;
  readonly metrics: SimMetrics;
}

/** The ports of one process. */
interface Process {
  readonly place: NodePlace;
  readonly nodeId: NodeId;
  readonly incarnation: Incarnation;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly logger: Logger;
  readonly metrics: SimMetrics;
  readonly transport: MessageTransport;
  readonly deadlines: Deadlines;
  readonly guard: (work: () => void) => void;
  readonly defer: (work: () => void) => void;
}

function processAt(place: NodePlace): Process {
  const { world, network, name, config } = place;
  const incarnation = world.startIncarnation(name);
  const clock = createSimClock(world, incarnation);
  const timers = createSimTimers(world, incarnation);
  const guard = (work: () => void): void => {
    try {
      work();
    } catch (thrown) {
      world.fail(thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
  };
  return {
    place,
    nodeId: toNodeId(config["node.id"]),
    incarnation,
    clock,
    timers,
    logger: createSimLogger(world, name),
    metrics: new SimMetrics(),
    transport: network.messages(incarnation),
    deadlines: new Deadlines({ clock, timers }),
    guard,
    defer: (work) => timers.defer(() => guard(work)),
  };
}

export async function startNode(place: NodePlace, around: NodeSurroundings): Promise<NodeParts> {
  const process = processAt(place);
  const { incarnation, timers, guard, clock } = process;
  const store = await openStore(process);
  const replicas = replicasOf(process, store);
  replicas.eligible = new Map(around.brokerEpochs);
  const replication = replicationOf(process, { store, replicas, around });
  replicas.streams = replication;
  store.listen(replicas);
  const accountant = await openDoor(process, { replicas, replication });
  const tick = (): void => {
    guard(() => {
      for (const replica of replicas.all)
        replicas.step(replica, { kind: "tick", eligible: replicas.eligible, nowMs: clock.monoMs() });
    });
    timers.after(TICK_MS, tick);
  };
  timers.after(TICK_MS, tick);
  return { incarnation, store, replicas, replication, accountant, metrics: process.metrics };
}

async function openStore(process: Process): Promise<LogStore> {
  const { place, incarnation, clock, timers, logger, metrics, nodeId } = process;
  const { world, disk, config } = place;
  const { checksum } = world;
  const entropy = createSimEntropy(world, incarnation);
  const { codecs } = host;
  const opening = openLogStore(
    { files: disk.files(incarnation), clock, timers, checksum, codecs, entropy, logger, metrics, bootId: "boot 1" },
    {
      directory: "/data",
      nodeId,
      clusterId: undefined,
      segmentBytes: config["segment.bytes"],
      indexIntervalBytes: config["index.interval.bytes"],
      journalBytes: config["journal.bytes"],
      checkpointIntervalMs: config["checkpoint.interval.ms"],
      journalPinnedBytes: config["journal.pinned.bytes"],
      tailCacheBytes: config["tail.cache.bytes"],
      diskLowSpaceBytes: 0,
      diskReserveBytes: config["disk.reserve.bytes"],
      openFilesMax: config["open.files.max"],
    },
  );
  const store = await world.settle(opening);
  if (store.identity.clusterId === null) await world.settle(store.adoptCluster(CLUSTER));
  return store;
}

function replicasOf({ place, clock, timers, guard }: Process, store: LogStore): ReplicaManager {
  const events = {
    onRoomChanged: () => undefined,
    onDiskFailed: (error: Error) => place.world.fail(error),
    onUnusable: () => undefined,
    onIsrChanged: () => undefined,
    guard,
  };
  const { checksum } = place.world;
  return new ReplicaManager({ clock, checksum, timers, store, events }, coreSettingsOf(place.config));
}

function replicationOf(
  process: Process,
  parts: { readonly store: LogStore; readonly replicas: ReplicaManager; readonly around: NodeSurroundings },
): Replication {
  const { place, nodeId, incarnation, clock, timers, logger, metrics, transport, deadlines, guard, defer } = process;
  const { store, replicas, around } = parts;
  const { world, config, name } = place;
  const links = new PeerLinks({
    transport,
    clock,
    timers,
    rng: world.fork(`node ${name} ${incarnation.number}`),
    logger,
    software: "test",
    self: nodeId,
    addressesOf: (other) => [around.addressOf(other)],
    clusterId: () => CLUSTER,
  });
  return new Replication(
    {
      clock,
      deadlines,
      logger,
      checksum: world.checksum,
      counters: { bytesOut: metrics.counter("out"), bytesIn: metrics.counter("in") },
      links,
      replicas,
      controller: { alterPartition: around.alterPartition },
      defer,
      guard,
      brokerEpoch: () => around.brokerEpochs.get(nodeId) ?? null,
      brokerEpochOf: (other) => around.brokerEpochs.get(other),
      eligible: () => replicas.eligible,
      hasRoom: () => around.hasRoom() && store.hasRoom,
    },
    {
      nodeId,
      waitMaxMs: config["replica.fetch.wait.max.ms"],
      partitionBytesMax: config["replica.fetch.max.bytes"],
      responseBytesMax: config["replica.fetch.response.max.bytes"],
    },
  );
}

/** Connections and their requests, as in a broker; of the services only what the handlers of replication use. */
async function openDoor(
  process: Process,
  parts: { readonly replicas: ReplicaManager; readonly replication: Replication },
): Promise<Accountant> {
  const { place, nodeId, clock, timers, logger, metrics, transport, deadlines, guard, defer } = process;
  const { config, world } = place;
  const caps = {
    produceBytes: config["produce.inflight.bytes"],
    unsentBytes: config["unsent.bytes"],
    delayedRequests: config["delayed.requests.max"],
  };
  const accountant = new Accountant(caps, defer);
  const node = {
    config,
    nodeId,
    clock,
    logger,
    metrics: new BrokerMetrics(metrics),
    accountant,
    messageBytesMax: MESSAGE_BYTES_MAX,
    named: () => true,
    waitingFor: () => null,
  } as unknown as NodeServices;
  const dispatcher = new Dispatcher(node, (defect) =>
    world.fail(defect instanceof Error ? defect : new Error(String(defect))),
  );
  dispatcher.services = { ...node, ...parts, deadlines } as unknown as Services;
  const host = {
    accountant,
    inFlightBytesMax: config["connection.inflight.bytes"],
    unsentBytesMax: config["connection.unsent.bytes"],
    bodyBytesMax: MESSAGE_BYTES_MAX,
    nowMs: () => clock.monoMs(),
    turns: new TurnQueue(defer, () => clock.monoMs()),
    onRequest: (...request: Parameters<Dispatcher["dispatch"]>) => dispatcher.dispatch(...request),
    guard,
  };
  const connections = new ConnectionSet(
    { timers, logger, host, isPeer: () => true, onSweep: () => undefined },
    config["connections.max"],
  );
  connections.startSweeping();
  const address = config.listeners;
  await world.settle(transport.listen(address, (connection) => connections.accept(connection)));
  return accountant;
}
