// The nodes of a run: machines with disks and brokers on them, and what is known of them as a whole.
import { present } from "../base/assert.ts";
import { storageConfigOf } from "../broker/start-up.ts";
import type { PartitionImage } from "../metadata/image.ts";
import type { NodeId } from "../model/ids.ts";
import type { Codecs } from "../ports/codecs.ts";
import { majorityOf } from "../raft/quorum.ts";
import { nodeIdOf, type ReplicaId } from "../raft/types.ts";
import { SimDisk } from "./disk.ts";
import { type HistoryEvent, type PartitionName, partitionName } from "../checkers/history.ts";
import { type DamageOnDisk, NO_DAMAGE } from "./replicas/planted-damage.ts";
import type { DurableClaim, ReplicaWatch } from "./replicas/replica-watch.ts";
import type { SimNetwork } from "./network.ts";
import { SimNode } from "./node.ts";
import type { Planted } from "./at-rest.ts";
import type { RotEntry } from "./rot-ledger.ts";
import { provenPartOf, type Stretch } from "./journal-rot.ts";
import { type CopyOptions, type LogContent, type PlatterEnd, readCopy, recoverCopy } from "./platter.ts";
import type { QuorumWatch } from "./quorum-watch.ts";
import type { SwarmConfig } from "./swarm.ts";
import type { SimWorld, WorldHost } from "./world.ts";

export interface ClusterParts {
  readonly world: SimWorld;
  readonly host: WorldHost;
  readonly network: SimNetwork;
  readonly codecs: Codecs;
  readonly watch: QuorumWatch;
  readonly replicas: ReplicaWatch;
  readonly record: (event: HistoryEvent) => void;
  readonly onDown: (node: SimNode) => void;
}

/** A partition that nobody leads. */
export interface LeaderlessPlace {
  readonly topic: string;
  readonly partition: number;
  readonly hasNoIntactReplica: boolean;
}

const PORT = 7070;

export class SimCluster {
  readonly nodes: readonly SimNode[];
  readonly #parts: ClusterParts;
  /** Replicas of the metadata log whose disk is gone for ever, or of an older time. */
  readonly #lost = new Set<ReplicaId>();
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

  /** Of the nodes with a replica of the partition, in the order of assignment, as the committed metadata says. */
  replicasOf(topic: string, partition: number): readonly SimNode[] {
    const { image } = this.#parts.watch;
    return (image.topicByName(topic)?.partitions[partition]?.replicas ?? []).map((id) => this.node(id));
  }

  /** Every replica that counted is gone or damaged: nobody takes or gives its records any more. */
  isLost(place: { readonly topic: string; readonly partition: number }): boolean {
    const topic = this.#parts.watch.image.topicByName(place.topic);
    return topic !== undefined && this.#parts.replicas.isLost(topic.topicId, place.partition);
  }

  /** A partition that nobody leads though a replica that may is there. */
  get leaderless(): PartitionName | undefined {
    return this.#partition(({ leader }) => leader === null);
  }

  /** A partition that nobody leads though these nodes can. */
  leaderlessWith(nodes: readonly SimNode[]): PartitionName | undefined {
    for (const { topic, partition } of this.leaderlessPlaces) {
      const place = { topic, partition };
      if (!this.isLost(place) && this.canCommit(place, nodes)) return partitionName(place);
    }
    return undefined;
  }

  /** A partition of which a replica is not in sync. */
  get underReplicated(): PartitionName | undefined {
    return this.#partition(({ isr, replicas }) => isr.length < replicas.length);
  }

  /** Nodes that lead partitions with several replicas, as often as they do. */
  get leaders(): readonly SimNode[] {
    return [...this.#parts.watch.image.topics].flatMap(({ partitions }) =>
      partitions.flatMap(({ leader, replicas }) =>
        leader === null || replicas.length === 1 ? [] : [this.node(leader)],
      ),
    );
  }

  get leaderlessPlaces(): readonly LeaderlessPlace[] {
    return [...this.#parts.watch.image.topics].flatMap(({ name, isDeleting, partitions }) =>
      partitions.flatMap(({ index, leader, isr, elr }) =>
        leader !== null || isDeleting
          ? []
          : [{ topic: name, partition: index, hasNoIntactReplica: isr.length + elr.length === 0 }],
      ),
    );
  }

  /** For people: why the cluster is not whole. */
  get whatIsMissing(): string {
    const { leaderless, underReplicated } = this;
    return `leaderless: ${leaderless ?? "none"}, under-replicated: ${underReplicated === undefined ? "none" : this.#parts.replicas.describe(underReplicated)}`;
  }

  /** May these nodes alone lead the partition and commit in it? A member of ISR or ELR is among them, and of replicas at least min ISR. */
  canCommit(place: { readonly topic: string; readonly partition: number }, nodes: readonly SimNode[]): boolean {
    const partition = this.#parts.watch.image.topicByName(place.topic)?.partitions[place.partition];
    if (partition === undefined) return false;
    const isIn = (id: NodeId): boolean => nodes.some((node) => node.id === id);
    const { isr, elr, replicas, minIsr } = partition;
    return [...isr, ...elr].some(isIn) && replicas.filter(isIn).length >= minIsr;
  }

  #partition(isSo: (partition: PartitionImage) => boolean): PartitionName | undefined {
    for (const { name, isDeleting, partitions } of this.#parts.watch.image.topics)
      for (const partition of partitions) {
        const place = { topic: name, partition: partition.index };
        if (!isDeleting && isSo(partition) && !this.isLost(place)) return partitionName(place);
      }
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

  /** Has a partition with several replicas its last good copy there? */
  hasLastCopy(node: SimNode): boolean {
    return this.#parts.replicas.hasLastCopy(node.id);
  }

  /** What a copy of its disk, made now, has of damage that was planted. */
  damageOn(node: SimNode): DamageOnDisk {
    return this.#parts.replicas.damage.onDisk(node.id);
  }

  /** The disk of a node that is down is gone, or is as it was, with the `damage` of then: what only it had is lost. */
  diskLost(node: SimNode, damage: DamageOnDisk = NO_DAMAGE): void {
    const { watch, replicas } = this.#parts;
    this.spoilt(node);
    for (const replica of watch.replicasOf(node.id)) this.#lost.add(replica);
    replicas.diskLost(node.id, damage);
  }

  /** Does it hold a replica of a partition that has several? */
  hasReplicas(node: SimNode): boolean {
    for (const { partition } of this.#parts.watch.image.partitionsOn(node.id))
      if (partition.replicas.length > 1) return true;
    return false;
  }

  /** Bits of its log of that partition turned over, or cannot be read. */
  logSpoilt(node: SimNode, partition: PartitionName): void {
    this.#parts.replicas.spoilt(node.id, partition);
  }

  /** D8: of its log of that partition, as long as `isThere`. */
  pageUnreadable(node: SimNode, partition: PartitionName, isThere: () => boolean): void {
    this.#parts.replicas.damage.makeUnreadable(node.id, partition, isThere);
  }

  /** Somebody is about to ask that what lies below goes. */
  mayTrim(place: { readonly topic: string; readonly partition: number }, toOffset: number): void {
    const topic = this.#parts.watch.image.topicByName(place.topic);
    if (topic !== undefined) this.#parts.replicas.lives.mayTrim(topic.topicId, place.partition, toOffset);
  }

  /** Was a record committed in [from, to), as far as anybody knows of the topic? */
  hasRecords(
    place: { readonly topic: string; readonly partition: number },
    range: { readonly from: number; readonly to: number },
  ): boolean {
    const topic = this.#parts.watch.image.topicByName(place.topic);
    return topic !== undefined && this.#parts.replicas.hasRecords(topic.topicId, place.partition, range);
  }

  /** Has this partition its last good copy there, of several? */
  isLastCopy(node: SimNode, partition: PartitionName): boolean {
    return this.#parts.replicas.isLastCopy(node.id, partition);
  }

  /** A file of that partition is not what was written. */
  rotPlanted(node: SimNode, partition: PartitionName, planted: Planted): void {
    this.#parts.replicas.damage.plant(node.id, partition, planted, this.#parts.world.nowMs);
  }

  /** Of closed segments that count: bytes that are still not what was written. */
  get rot(): readonly RotEntry[] {
    const { replicas, world } = this.#parts;
    return replicas.damage
      .outstanding(world.nowMs)
      .filter(
        ({ node, partition, base }) =>
          base !== undefined && replicas.lives.hasClosedSegment(node, partition, base) && !this.#isVoid(partition),
      );
  }

  /** Nothing is said of it any more; or it has no other replica to be mended from. */
  #isVoid(partition: PartitionName): boolean {
    const at = partition.lastIndexOf("-");
    const place = { topic: partition.slice(0, at), partition: Number(partition.slice(at + 1)) };
    return this.isLost(place) || this.replicasOf(place.topic, place.partition).length < 2;
  }

  /** Registered anew since the metadata was like that: its disk of that time has an older broker epoch (D-6). */
  brokerEpochOf(node: SimNode): number {
    return this.#parts.watch.image.broker(node.id)?.confirmedEpoch ?? -1;
  }

  /** Damage of it was planted: nothing that it held is claimed any more. */
  isLogSpoilt(node: SimNode, partition: PartitionName): boolean {
    return this.#parts.replicas.isSpoilt(node.id, partition) || this.#parts.replicas.isInDoubt(node.id, partition);
  }

  /** Where its journal may rot within the atlas. */
  provenJournalOf(node: SimNode): Stretch | undefined {
    return provenPartOf(node.disk.image, node.config["data.dir"], this.#parts.world.checksum);
  }

  /** Bits of its journal turned over: any of its logs may be found damaged by the next start. */
  journalSpoilt(node: SimNode): void {
    this.#parts.replicas.journalSpoilt(node.id);
  }

  /** What each of its replicas took for durable. */
  claimsOf(node: SimNode): readonly DurableClaim[] {
    return this.#parts.replicas.claimsOf(node.id);
  }

  /** What a recovery of the node's disk as it is now would find. */
  recoverCopyOf(node: SimNode): Promise<readonly PlatterEnd[]> {
    return recoverCopy(node.disk.image, this.#copyOptions(node));
  }

  /** All that the node's replicas hold on its disk, but for those of which damage was planted. */
  contentOf(node: SimNode): Promise<readonly LogContent[]> {
    const isSkipped = (partition: PartitionName): boolean => this.#parts.replicas.isSpoilt(node.id, partition);
    return readCopy(node.disk.image, { ...this.#copyOptions(node), isSkipped });
  }

  #copyOptions(node: SimNode): CopyOptions {
    const { world, host, codecs } = this.#parts;
    const seed = world.seed * 1000 + this.#probes++;
    return { seed, host, codecs, config: { ...storageConfigOf(node.config), maintenance: undefined } };
  }
}
