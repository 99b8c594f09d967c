// The controller of the model: the real metadata image and the real decisions, in one process that is sometimes out of reach.
import type { Rng } from "../../base/rng.ts";
import type { ErrorName } from "../../model/errors.ts";
import { type NodeId, type Uuid, uuidFromBytes } from "../../model/ids.ts";
import {
  alterPartition,
  type Decision,
  decideBalance,
  decideCluster,
  decideDamage,
  decideElections,
  decideFence,
  decideRegistration,
  decideTopicConfigs,
  decideUnfence,
  type FenceWish,
  PartitionChanges,
  type PartitionRef,
  type Verdict,
} from "../../metadata/controller.ts";
import { type BrokerImage, MetadataImage, type PartitionImage } from "../../metadata/image.ts";
import { type RestartClaim, SUPPORTED_METADATA_VERSIONS } from "../../metadata/records.ts";
import { Sessions } from "../../metadata/sessions.ts";
import type { Eligible } from "../../replication/types.ts";
import type { SimNode } from "./node.ts";
import type { IsrProposal } from "./replica.ts";
import { CONTROLLER } from "./place.ts";
import type { ReplicationWorld } from "./world.ts";

/** What is applied below one index. */
export interface View {
  readonly partitions: readonly PartitionImage[];
  readonly brokers: ReadonlyMap<NodeId, BrokerImage>;
  readonly eligible: Eligible;
}

export interface Registration {
  readonly nodeId: NodeId;
  readonly incarnation: number;
  readonly directory: number;
  readonly restart: RestartClaim;
  readonly storedBrokerEpoch: number | undefined;
}

export interface Heartbeat {
  readonly nodeId: NodeId;
  readonly brokerEpoch: number;
  readonly appliedEnd: number;
  readonly isEpochStored: boolean;
  readonly wantsShutdown: boolean;
  readonly damaged: readonly number[];
  /** They come in order: one at a time is under way. */
  readonly sequence: number;
}

export type HeartbeatAnswer = "ok" | "stale" | "may stop";

export interface IsrRequest {
  readonly nodeId: NodeId;
  readonly brokerEpoch: number;
  readonly partition: number;
  readonly proposal: IsrProposal;
}

const TOPIC = "t";

export class SimController {
  readonly image = new MetadataImage();
  isThere = true;
  readonly #world: ReplicationWorld;
  readonly #rng: Rng;
  readonly #sessions: Sessions;
  readonly #views: View[] = [{ partitions: [], brokers: new Map(), eligible: new Map() }];
  readonly #topicId = uuidOf(3, 0);
  /** Told by heartbeats of the present broker epoch, and decided: "node partition". */
  readonly #damaged = new Map<NodeId, { readonly brokerEpoch: number; readonly partitions: Set<number> }>();
  readonly #unfencedMs = new Map<NodeId, number>();
  /** Where the log ended when a broker was let go. */
  readonly #leftAt = new Map<NodeId, number>();
  readonly #sequences = new Map<NodeId, number>();
  readonly #appliedEnds = new Map<NodeId, number>();

  constructor(world: ReplicationWorld, rng: Rng) {
    this.#world = world;
    this.#rng = rng;
    this.#sessions = new Sessions({ sessionMs: world.swarm.sessionMs, tickMs: this.#tickMs });
    const clusterId = uuidOf(4, 0);
    this.#propose((image) =>
      decideCluster(image, { clusterId, metadataVersion: SUPPORTED_METADATA_VERSIONS.max, nowMs: 0 }),
    );
    this.#tick();
    if (world.swarm.balanceMs > 0) this.#balance();
  }

  get #tickMs(): number {
    return this.#world.swarm.heartbeatMs / 2;
  }
  get end(): number {
    return this.image.endOffset;
  }
  get hasTopic(): boolean {
    return this.image.topic(this.#topicId) !== undefined;
  }
  get partitions(): readonly PartitionImage[] {
    return this.#latest.partitions;
  }
  get #latest(): View {
    return this.view(this.end);
  }

  view(end: number): View {
    const view = this.#views[end];
    if (view === undefined) throw new RangeError(`nothing is known of the log below ${end}`);
    return view;
  }

  /** Partition p is on the brokers p, p + 1, ... in turn. */
  replicasOf(partition: number): NodeId[] {
    const { nodes, replicationFactor } = this.#world.swarm;
    return Array.from({ length: replicationFactor }, (_, at) => (((partition + at) % nodes) + 1) as NodeId);
  }

  partitionsOn(nodeId: NodeId): number[] {
    const partitions: number[] = [];
    for (let at = 0; at < this.#world.swarm.partitions; at++)
      if (this.replicasOf(at).includes(nodeId)) partitions.push(at);
    return partitions;
  }

  // --- the log of the metadata

  #propose(decide: (image: MetadataImage) => Decision): Decision {
    const decision = decide(this.image);
    if (decision.kind === "refused" || decision.records.length === 0) return decision;
    this.image.apply(this.end, decision.records);
    this.#publish();
    return decision;
  }

  #publish(): void {
    const { image } = this;
    const before = this.#views.at(-1) as View;
    const partitions = (image.topic(this.#topicId)?.partitions ?? []).slice();
    const brokers = new Map([...image.brokers].map((broker) => [broker.nodeId, broker]));
    this.#views.push({ partitions, brokers, eligible: image.active });
    for (const { nodeId, isFenced } of brokers.values()) {
      const was = before.brokers.get(nodeId);
      if (!isFenced && was?.isFenced !== false) this.#unfencedMs.set(nodeId, this.#world.timeMs);
    }
    for (const record of partitions) this.#tell(record, before.partitions[record.index]);
    const { end } = this;
    for (const node of this.#world.nodes) this.#push(node, end);
  }

  #tell(record: PartitionImage, before: PartitionImage | undefined): void {
    if (record === before) return;
    this.#world.hash.u32(record.partitionEpoch * 64 + (record.leader ?? 0));
    this.#world.trace(
      () =>
        `p${record.index} leader ${record.leader ?? "none"} epochs ${record.leaderEpoch}/${record.partitionEpoch} ISR [${record.isr.join(" ")}] ELR [${record.elr.join(" ")}] min ${record.minIsr}`,
    );
    if (record.leader === null) this.#world.mark("leaderless");
    if (before !== undefined && before.isr.length === 0 && record.isr.length > 0)
      this.#world.mark("elected from the ELR");
    if (record.elr.length > 0) this.#world.mark("ELR in use");
    if (before !== undefined && record.isr.length > before.isr.length) this.#world.mark("ISR grew");
    const isUnclean = record.uncleanEpoch !== (before?.uncleanEpoch ?? -1);
    this.#world.checker.recorded(record.index, record, { isUnclean });
  }

  #push(node: SimNode, end: number): void {
    const { nodeId, life } = node;
    this.#world.at(this.#world.delayMs(this.#world.swarm.metadataDelayMsMean), () => {
      if (node.life !== life || this.#world.isCut(CONTROLLER, nodeId)) return;
      node.whenRunning(() => node.metadata(end));
    });
  }

  // --- brokers

  #tick(): void {
    this.#world.at(this.#tickMs, () => {
      if (this.isThere) this.#fenceExpired();
      this.#createTopic();
      this.#tick();
    });
  }

  #fenceExpired(): void {
    const wishes: FenceWish[] = [];
    for (const nodeId of this.#sessions.tick(this.#world.timeMs)) {
      const broker = this.image.broker(nodeId);
      if (broker !== undefined) wishes.push({ nodeId, brokerEpoch: broker.brokerEpoch, reason: "session" });
    }
    this.#fence(wishes);
  }

  #fence(wishes: readonly FenceWish[]): void {
    const decision = this.#propose((image) => decideFence(image, wishes));
    if (decision.kind === "records" && decision.records.length > 0) this.#world.mark("broker fenced");
  }

  /** A process is gone: its port refuses, and that may be noticed (D-22). */
  died({ nodeId, brokerEpoch }: SimNode): void {
    if (brokerEpoch === undefined || !this.#rng.chance(this.#world.swarm.refusedChance)) return;
    this.#world.at(this.#world.delayMs(2), () => {
      if (!this.isThere || this.#world.isCut(CONTROLLER, nodeId) || this.#world.isCut(nodeId, CONTROLLER)) return;
      const broker = this.image.broker(nodeId);
      if (broker?.brokerEpoch !== brokerEpoch || broker.isFenced) return;
      this.#sessions.end(nodeId);
      this.#fence([{ nodeId, brokerEpoch, reason: "refused" }]);
    });
  }

  register(wish: Registration, reply: (brokerEpoch: number) => void): void {
    if (!this.isThere) return;
    const { nodeId, incarnation, directory, restart, storedBrokerEpoch } = wish;
    const decision = this.#propose((image) =>
      decideRegistration(image, {
        clusterId: uuidOf(4, 0),
        nodeId,
        directoryId: uuidOf(1, nodeId * 1000 + directory),
        incarnationId: uuidOf(2, nodeId * 100_000 + incarnation),
        restart,
        address: `node${nodeId}:9092`,
        metadataVersions: SUPPORTED_METADATA_VERSIONS,
        storedBrokerEpoch: storedBrokerEpoch ?? null,
        hasLiveSession: this.#sessions.isLive(nodeId),
        nowMs: Math.floor(this.#world.timeMs),
      }),
    );
    if (decision.kind === "refused") {
      this.#world.mark(`registration refused: ${decision.error}`);
      return;
    }
    this.#world.trace(
      () =>
        `node ${nodeId} registers (${restart}, disk ${directory}, stored epoch ${storedBrokerEpoch ?? "none"}): broker epoch ${this.image.broker(nodeId)?.brokerEpoch}`,
    );
    this.#sessions.heard(nodeId, this.#world.timeMs);
    this.#leftAt.delete(nodeId);
    const node = this.#world.node(nodeId);
    if (node.incarnation === incarnation && node.disk.directory === directory) node.forgiven();
    const broker = this.image.broker(nodeId);
    if (broker !== undefined) reply(broker.brokerEpoch);
  }

  heartbeat(beat: Heartbeat, reply: (answer: HeartbeatAnswer) => void): void {
    if (!this.isThere) return;
    const { nodeId, brokerEpoch, appliedEnd } = beat;
    if (this.image.broker(nodeId)?.brokerEpoch !== brokerEpoch) return reply("stale");
    if (beat.sequence < (this.#sequences.get(nodeId) ?? 0)) return;
    this.#sequences.set(nodeId, beat.sequence);
    this.#sessions.heard(nodeId, this.#world.timeMs);
    this.#appliedEnds.set(nodeId, Math.max(appliedEnd, this.#appliedEnds.get(nodeId) ?? 0));
    this.#heardDamage(beat);
    if (beat.wantsShutdown) return reply(this.#letGo(beat) ? "may stop" : "ok");
    const isConfirmed = beat.isEpochStored;
    this.#propose((image) => decideUnfence(image, { nodeId, brokerEpoch, isConfirmed, appliedEnd }));
    reply("ok");
  }

  #refs({ damaged }: Heartbeat): PartitionRef[] {
    return damaged.map((partition) => ({ topicId: this.#topicId, partition }));
  }

  #heardDamage(beat: Heartbeat): void {
    const { nodeId, brokerEpoch, damaged } = beat;
    const known = this.#damaged.get(nodeId);
    const before = known?.brokerEpoch === brokerEpoch ? known.partitions : new Set<number>();
    const due = this.#refs(beat).filter((ref) => !before.has(ref.partition));
    this.#damaged.set(nodeId, { brokerEpoch, partitions: new Set(damaged) });
    if (due.length === 0) return;
    this.#world.mark("damage told");
    this.#propose((image) => decideDamage(image, { nodeId, brokerEpoch, partitions: due }));
    for (const { partition } of due) this.#world.node(nodeId).isForgiven(partition);
  }

  /** */
  #letGo({ nodeId, brokerEpoch }: Heartbeat): boolean {
    this.#fence([{ nodeId, brokerEpoch, reason: "shutdown" }]);
    const leftAt = this.#leftAt.get(nodeId) ?? this.end;
    this.#leftAt.set(nodeId, leftAt);
    return [...this.image.active.keys()].every((other) => (this.#appliedEnds.get(other) ?? 0) >= leftAt);
  }

  outage(forMs: number): void {
    if (!this.isThere) return;
    this.isThere = false;
    this.#world.at(forMs, () => this.comeBack());
  }

  /** Another one has taken over: whoever is registered has a fresh session, and of damage it has to hear anew. */
  comeBack(): void {
    if (this.isThere) return;
    this.isThere = true;
    this.#damaged.clear();
    this.#appliedEnds.clear();
    this.#sessions.begin(
      [...this.image.brokers].map(({ nodeId }) => nodeId),
      this.#world.timeMs,
    );
  }

  // --- partitions

  #createTopic(): void {
    const { swarm } = this.#world;
    if (this.hasTopic || this.image.active.size < swarm.nodes) return;
    this.#propose(() => ({
      kind: "records",
      records: [
        {
          type: "topic",
          version: 1,
          topicId: this.#topicId,
          name: TOPIC,
          configs: swarm.minIsr === undefined ? {} : { "min.insync.replicas": swarm.minIsr },
          replicationFactor: swarm.replicationFactor,
          replicas: Array.from({ length: swarm.partitions }, (_, at) => this.replicasOf(at)),
          timestampMs: 0,
        },
      ],
    }));
  }

  #isDamaged(nodeId: NodeId, partition: number): boolean {
    const known = this.#damaged.get(nodeId);
    return (
      known !== undefined &&
      known.brokerEpoch === this.image.broker(nodeId)?.brokerEpoch &&
      known.partitions.has(partition)
    );
  }

  alterPartition({ nodeId, brokerEpoch, partition, proposal }: IsrRequest, reply: (error: ErrorName) => void): void {
    if (!this.isThere) return reply("NOT_CONTROLLER");
    const { leaderEpoch, partitionEpoch, isr, wantsMove } = proposal;
    const wish = {
      nodeId,
      brokerEpoch,
      topicId: this.#topicId,
      partition,
      leaderEpoch,
      partitionEpoch,
      isr,
      wantsMove,
    };
    const before = this.partitions[partition];
    const isDamaged = (member: NodeId): boolean => this.#isDamaged(member, partition);
    const changes = new PartitionChanges();
    let verdict: Verdict = { error: "NONE", message: "" };
    this.#propose((image) => {
      verdict = alterPartition(image, { sender: wish, wish, known: { isDamaged }, changes });
      return { kind: "records", records: changes.records };
    });
    if (changes.count > 0 && before !== undefined) {
      this.#world.checker.altered(partition, before, { sender: nodeId, leaderEpoch, partitionEpoch });
      if (wantsMove) this.#world.mark("leadership moved away from a slow disk");
    }
    reply(verdict.error);
  }

  #balance(): void {
    this.#world.at(this.#world.swarm.balanceMs, () => {
      this.#balance();
      if (!this.isThere) return;
      const isSteady = (nodeId: NodeId): boolean =>
        this.#world.timeMs - (this.#unfencedMs.get(nodeId) ?? 0) > 1000 && this.#sessions.isLive(nodeId);
      const decision = this.#propose((image) => decideBalance(image, { max: 10, isSteady }));
      if (decision.kind === "records" && decision.records.length > 0) this.#world.mark("balanced");
    });
  }

  // --- operators

  elect(partition: number, kind: "preferred" | "unclean", nodeId: NodeId | null = null): ErrorName {
    if (!this.isThere) return "NOT_CONTROLLER";
    const isDamaged = (member: NodeId): boolean => this.#isDamaged(member, partition);
    const partitions = [{ topicId: this.#topicId, partition }];
    let error: ErrorName = "NONE";
    this.#propose((image) => {
      const { decision, verdicts } = decideElections(image, { kind, partitions, nodeId, isDamaged, isForced: true });
      error = verdicts[0]?.error ?? "NONE";
      return decision;
    });
    this.#world.mark(`${kind} election: ${error}`);
    return error;
  }

  /** To a member of the ISR, as when a leader asks for it (D-8). */
  moveLeadership(partition: number, leader: NodeId): void {
    const record = this.partitions[partition];
    if (record === undefined || !record.isr.includes(leader)) throw new RangeError(`node ${leader} is not in sync`);
    const { isr, elr, partitionEpoch } = record;
    const change = { partition, leader, isr, elr, isUnclean: false, isNewEpoch: false, partitionEpoch };
    this.#propose(() => ({
      kind: "records",
      records: [{ type: "partition-change", version: 1, topicId: this.#topicId, changes: [change] }],
    }));
  }

  setMinIsr(minIsr: number): void {
    if (!this.isThere) return;
    this.#propose((image) =>
      decideTopicConfigs(image, {
        name: TOPIC,
        changes: [{ key: "min.insync.replicas", value: String(minIsr) }],
      }),
    );
    this.#world.mark("min ISR set");
  }
}

/** Of a kind of thing and its number. */
function uuidOf(kind: number, number: number): Uuid {
  const bytes = new Uint8Array(16);
  bytes[0] = kind;
  new DataView(bytes.buffer).setUint32(4, number);
  return uuidFromBytes(bytes);
}
