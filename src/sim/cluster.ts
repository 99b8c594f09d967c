// The nodes of a run: machines with disks and brokers on them, and what is known of them as a whole.
import { present } from "../base/assert.ts";
import { storageConfigOf } from "../broker/start-up.ts";
import type { NodeId } from "../model/ids.ts";
import type { Codecs } from "../ports/codecs.ts";
import { majorityOf } from "../raft/quorum.ts";
import { nodeIdOf, type ReplicaId } from "../raft/types.ts";
import { SimDisk } from "./disk.ts";
import { type HistoryEvent, type PartitionName, partitionName } from "./history.ts";
import type { SimNetwork } from "./network.ts";
import { SimNode } from "./node.ts";
import { type PlatterEnd, recoverCopy } from "./platter.ts";
import type { QuorumWatch } from "./quorum-watch.ts";
import type { SwarmConfig } from "./swarm.ts";
import { TOPIC_PREFIX } from "./workload/topics.ts";
import type { SimWorld, WorldHost } from "./world.ts";

export interface ClusterParts {
  readonly world: SimWorld;
  readonly host: WorldHost;
  readonly network: SimNetwork;
  readonly codecs: Codecs;
  readonly watch: QuorumWatch;
  readonly record: (event: HistoryEvent) => void;
  readonly onDown: (node: SimNode) => void;
}

const PORT = 7070;

/** Topics of the record workload: their names are used once, so that checkers may go by the name. */
function isNamedOnce(topic: string): boolean {
  return topic.startsWith(TOPIC_PREFIX);
}

export class SimCluster {
  readonly nodes: readonly SimNode[];
  readonly #parts: ClusterParts;
  /** Replicas of the metadata log whose disk is gone for ever, or of an older time. */
  readonly #lost = new Set<ReplicaId>();
  /** Partitions whose only replica's disk is gone: topic id and index. */
  readonly #lostPartitions = new Set<string>();
  readonly #nodesWithLoss = new Set<NodeId>();
  /** An operator changes who votes: no disk may be lost in that time, nor may that be done while one may be lost. */
  isChangingVoters = false;
  #probes = 0;

  constructor(parts: ClusterParts, swarm: SwarmConfig) {
    this.#parts = parts;
    const { voters, observers } = swarm.cluster;
    const list = Array.from({ length: voters }, (_, at) => `${at + 1}@node-${at + 1}:${PORT}`).join(",");
    this.nodes = Array.from({ length: voters + observers }, (_, at) => {
      const name = `node-${at + 1}`;
      const config = {
        ...swarm.broker,
        "node.id": at + 1,
        "data.dir": "data",
        listeners: `ws://${name}:${PORT}`,
        ...(voters + observers === 1 ? {} : { "controller.quorum.voters": list }),
      };
      const disk = new SimDisk(parts.world, name, swarm.disk);
      const metadataVersionMax = swarm.operator.isUpgrade ? 1 : 2;
      return new SimNode(name, { ...parts, disk, raftSettings: swarm.raft }, { config, metadataVersionMax });
    });
  }

  get isSingle(): boolean {
    return this.nodes.length === 1;
  }

  get addresses(): readonly string[] {
    return this.nodes.map(({ address }) => address);
  }

  node(id: NodeId): SimNode {
    return present(
      this.nodes.find((node) => node.id === id),
      `node ${id}`,
    );
  }

  get controller(): SimNode | undefined {
    const { controller } = this.#parts.watch;
    return controller === undefined ? undefined : this.node(controller);
  }

  /** The node with the only replica of a partition, as the committed metadata says. */
  homeOf(topic: string, partition: number): SimNode | undefined {
    const [replica] = this.#parts.watch.image.topicByName(topic)?.partitions[partition]?.replicas ?? [];
    return replica === undefined ? undefined : this.node(replica);
  }

  /** Its only replica was on a disk that is gone, or it was placed on that node while nobody knew yet. */
  isLost(place: { readonly topic: string; readonly partition: number }): boolean {
    const topic = this.#parts.watch.image.topicByName(place.topic);
    const partition = topic?.partitions[place.partition];
    if (topic === undefined || partition === undefined) return false;
    const [home] = partition.replicas;
    if (this.#lostPartitions.has(`${topic.topicId} ${place.partition}`)) return true;
    return partition.isr.length === 0 && home !== undefined && this.#nodesWithLoss.has(home);
  }

  /** A partition that nobody leads though its disk is there. */
  get leaderless(): PartitionName | undefined {
    for (const { name, isDeleting, partitions } of this.#parts.watch.image.topics)
      for (const { index, leader } of partitions) {
        const place = { topic: name, partition: index };
        if (leader === null && !isDeleting && !this.isLost(place)) return partitionName(place);
      }
    return undefined;
  }

  /** A lost partition that is led again, and so shows its clients another content. */
  get risen(): PartitionName | undefined {
    for (const { name, topicId, isDeleting, partitions } of this.#parts.watch.image.topics)
      for (const { index, leader } of partitions)
        if (leader !== null && !isDeleting && this.#lostPartitions.has(`${topicId} ${index}`))
          return `${name}-${index}`;
    return undefined;
  }

  /** A disk is being worked on, or is gone and its voter not replaced yet. */
  get isInDoubt(): boolean {
    if (this.nodes.some(({ isSpoilt, isInRepair }) => isSpoilt || isInRepair)) return true;
    return this.#parts.watch.votersInUse(() => false).some((voters) => voters.some((one) => this.#lost.has(one)));
  }

  get hasLosses(): boolean {
    return this.#lost.size > 0;
  }

  isLostDisk(nodeId: number, directoryId: string): boolean {
    return this.#lost.has(`${nodeId}:${directoryId}` as ReplicaId);
  }

  isRunning(nodeId: number): boolean {
    return this.nodes.some(({ id, state }) => id === nodeId && state === "running");
  }

  get isSettled(): boolean {
    return this.#parts.watch.isSettled;
  }

  get metadataVersion(): number {
    return this.#parts.watch.image.metadataVersion;
  }

  /**
   * May the node's disk be lost without the metadata being lost with it? Only when all that could be known is known: who is down may hold
   * a configuration that nobody up knows of.
   */
  mayLose(node: SimNode): boolean {
    const { watch } = this.#parts;
    if (this.isChangingVoters) return false;
    if (this.nodes.some((other) => watch.replicaOf(other.id) === undefined && other.state !== "running")) return false;
    return this.wouldLive((replica) => nodeIdOf(replica) !== node.id);
  }

  /** Are those replicas enough to decide by every configuration that any replica may go by? */
  wouldLive(isThere: (replica: ReplicaId) => boolean): boolean {
    return this.#parts.watch
      .votersInUse((replica) => this.#lost.has(replica))
      .every(
        (voters) =>
          voters.filter((replica) => !this.#lost.has(replica) && isThere(replica)).length >= majorityOf(voters.length),
      );
  }

  /** What this node promised is not held against it any more. */
  spoilt(node: SimNode): void {
    for (const replica of this.#parts.watch.replicasOf(node.id)) this.#parts.watch.spoilt(replica);
  }

  /** The disk of a node that is down is gone, or is as it was: what only it had is lost. */
  diskLost(node: SimNode): void {
    const { watch, world, record } = this.#parts;
    this.spoilt(node);
    for (const replica of watch.replicasOf(node.id)) this.#lost.add(replica);
    this.#nodesWithLoss.add(node.id);
    const lost: PartitionName[] = [];
    for (const topic of watch.image.topics)
      for (const { index, replicas } of topic.partitions) {
        if (replicas[0] !== node.id) continue;
        this.#lostPartitions.add(`${topic.topicId} ${index}`);
        if (isNamedOnce(topic.name)) lost.push(partitionName({ topic: topic.name, partition: index }));
      }
    record({ type: "disk lost", timeMs: world.nowMs, node: node.name, partitions: lost });
  }

  /** What a recovery of the node's disk as it is now would find. */
  recoverCopyOf(node: SimNode): Promise<readonly PlatterEnd[]> {
    const { world, host, codecs } = this.#parts;
    const seed = world.seed * 1000 + this.#probes++;
    return recoverCopy(node.disk.image, { seed, host, codecs, config: storageConfigOf(node.config) });
  }
}
