// Watches the replicas of a whole cluster at every event, through the probe of each broker and the committed metadata: one PartitionTruth per
// partition is told what happens, and what it objects to is a violation.
import type { ReplicaProbe } from "../../broker/replica-probe.ts";
import type { ProduceEntry, Replica } from "../../broker/replica.ts";
import type { MetadataImage, PartitionImage, TopicImage } from "../../metadata/image.ts";
import {
  baseOffsetAt,
  batchSizeAt,
  lastOffsetAt,
  leaderEpochAt,
  crcAt,
  isControlBatchAt,
  recordCountAt,
} from "../../model/batch-header.ts";
import type { NodeId, TopicId } from "../../model/ids.ts";
import type { PartitionEffect, PartitionEvent, WaitingProduce } from "../../replication/types.ts";
import type { Violation } from "../../checkers/checker.ts";
import { type HistoryEvent, partitionName, type PartitionName } from "../../checkers/history.ts";
import { MARK, RARE_MARK } from "../marks.ts";
import type { SimWorld } from "../world.ts";
import type { ProducerTable } from "../../model/producer-table.ts";
import { type DamageOnDisk, PlantedDamage } from "./planted-damage.ts";
import { type LifeParts, LifeWatch, keyOf } from "./life-watch.ts";
import { numbersAt, ProducerWatch } from "./producer-watch.ts";
import type { BatchSeen } from "./epoch-truth.ts";
import { PartitionTruth, ReplicaBroken } from "./partition-truth.ts";
import type { RecordSeen } from "./record-truth.ts";
import type { ReplicaSeen } from "./replica-seen.ts";

type Event = PartitionEvent<ProduceEntry>;
type Effect = PartitionEffect<ProduceEntry>;

/** Effects after which a log holds something else. */
const CUTS: ReadonlySet<string> = new Set(["truncate", "restart-log", "damaged"] satisfies Effect["kind"][]);
/** Appends between two looks at the producers of a replica. */
const COMPARED_EVERY = 50;

export interface ReplicaWatchParts {
  readonly world: SimWorld;
  readonly onViolation: (violation: Violation) => void;
  readonly record: (event: HistoryEvent) => void;
  readonly life: LifeParts;
}

/** What one replica of a node took for durable. */
export interface DurableClaim {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly name: PartitionName;
  readonly durableEnd: number;
}

interface Watched {
  readonly topic: TopicImage;
  readonly truth: PartitionTruth;
  image: PartitionImage;
  /** The last node that led. */
  leader: NodeId | null;
}

export class ReplicaWatch {
  readonly #parts: ReplicaWatchParts;
  readonly #partitions = new Map<string, Watched>();
  readonly #waiting = new WeakMap<ProduceEntry, WaitingProduce<ProduceEntry>>();
  /** Of each node's last registration. */
  readonly #brokerEpochs = new Map<NodeId, number>();
  readonly damage: PlantedDamage;
  readonly #producers = new ProducerWatch();
  /** How logs lose what they lose. */
  readonly lives: LifeWatch;
  #moves = 0;
  #appends = 0;

  constructor(parts: ReplicaWatchParts) {
    this.#parts = parts;
    this.lives = new LifeWatch(parts.world, parts.life);
    this.damage = new PlantedDamage(parts.life.imageOf);
  }

  /** Times that a partition got another leader than the one before. */
  get leadershipMoves(): number {
    return this.#moves;
  }

  hasRecords(
    topicId: TopicId,
    partition: number,
    { from, to }: { readonly from: number; readonly to: number },
  ): boolean {
    return this.#partitions.get(keyOf(topicId, partition))?.truth.hasRecords(from, to) === true;
  }

  /** Something that a leader has taken cannot be read yet. */
  get hasUncommitted(): boolean {
    return [...this.#partitions.values()].some(({ topic, truth }) => !topic.isDeleting && truth.hasUncommitted);
  }

  /** Not even an eligible replica is left that has all it should: as far as the metadata goes, or will when it hears. */
  isLost(topicId: TopicId, partition: number): boolean {
    const watched = this.#partitions.get(keyOf(topicId, partition));
    return watched !== undefined && !watched.truth.hasCopy;
  }

  /** Would a partition with several replicas be lost with this node's disk? Latent damage elsewhere counts as loss. */
  hasLastCopy(node: NodeId): boolean {
    for (const { truth } of this.#partitions.values()) if (this.#isLastIn(truth, node)) return true;
    return false;
  }

  /** As `hasLastCopy`, of one partition. Of one that has no other replica: false. */
  isLastCopy(node: NodeId, partition: PartitionName): boolean {
    return [...this.#partitions.values()].some(({ truth }) => truth.name === partition && this.#isLastIn(truth, node));
  }

  #isLastIn(truth: PartitionTruth, node: NodeId): boolean {
    const { isr, elr, replicas } = truth.record;
    if (replicas.length === 1 || !truth.hasCopy || ![...isr, ...elr].includes(node)) return false;
    const isGood = (other: NodeId): boolean =>
      other !== node && !this.isSpoilt(other, truth.name) && truth.replicas.get(other)?.isInDoubt !== true;
    return ![...isr, ...elr].some(isGood);
  }

  claimsOf(node: NodeId): readonly DurableClaim[] {
    return [...this.#partitions.values()].flatMap(({ topic, truth, image }) => {
      const seen = truth.replicas.get(node);
      if (seen === undefined || seen.isInDoubt || topic.isDeleting || this.isSpoilt(node, truth.name)) return [];
      const { topicId } = topic;
      if (seen.startOffset >= seen.durableEnd) return [];
      return [{ topicId, partition: image.index, name: truth.name, durableEnd: seen.durableEnd }];
    });
  }

  /** For people: where the replicas of a partition stand. */
  describe(name: PartitionName): string {
    const watched = [...this.#partitions.values()].find(({ truth }) => truth.name === name);
    if (watched === undefined) return `${name}: unknown`;
    const { record, replicas, committedEnd, isVoid } = watched.truth;
    const { leader, leaderEpoch, partitionEpoch, isr, elr, minIsr } = record;
    const each = [...replicas.values()].map(
      ({ node, endOffset, durableEnd, highWatermark, leads, isInDoubt }) =>
        `node ${node}: end ${endOffset} durable ${durableEnd} hw ${highWatermark}${leads === undefined ? "" : ` leads in ${leads}`}${isInDoubt ? " in doubt" : ""}`,
    );
    return `${name}: leader ${leader ?? "none"} epoch ${leaderEpoch}/${partitionEpoch} isr ${isr.join()} elr ${elr.join()} min ${minIsr}, committed ${committedEnd}${isVoid ? ", void" : ""}; ${each.join("; ")}`;
  }

  // --- the committed metadata

  /** After each committed command. */
  committed(image: MetadataImage): void {
    for (const { nodeId, brokerEpoch, restart } of image.brokers) {
      if (this.#brokerEpochs.get(nodeId) === brokerEpoch) continue;
      this.#brokerEpochs.set(nodeId, brokerEpoch);
      if (restart === "changed-disk" || restart === "first")
        for (const { truth } of this.#partitions.values()) truth.registered(nodeId);
    }
    for (const { topic, index } of image.touched) {
      const partition = image.topic(topic.topicId)?.partitions[index];
      if (partition === undefined) this.#gone(keyOf(topic.topicId, index));
      else this.#guard(() => this.#partition(topic, partition));
    }
  }

  #gone(key: string): void {
    this.#partitions.delete(key);
    this.lives.end(key);
  }

  #partition(topic: TopicImage, image: PartitionImage): void {
    const key = keyOf(topic.topicId, image.index);
    const watched = this.#partitions.get(key);
    if (watched === undefined) {
      const truth = new PartitionTruth(partitionName({ topic: topic.name, partition: image.index }), image);
      this.#partitions.set(key, { topic, truth, image, leader: image.leader });
      this.lives.begin(key, topic);
    } else if (watched.image !== image) this.#changed(watched, image);
  }

  #changed(watched: Watched, after: PartitionImage): void {
    const before = watched.image;
    watched.image = after;
    this.#mark(before, after);
    if (after.leader !== null) {
      if (watched.leader !== null && watched.leader !== after.leader) {
        this.#moves++;
        this.#parts.world.sometimes(MARK.LEADER_MOVED);
      }
      watched.leader = after.leader;
    }
    this.#judge(watched, (truth) => truth.changed(after));
  }

  #mark(before: PartitionImage, after: PartitionImage): void {
    const { world } = this.#parts;
    if (after.uncleanEpoch !== before.uncleanEpoch) world.sometimes(MARK.UNCLEAN);
    else if (after.leader !== null && before.isr.length === 0 && before.elr.includes(after.leader))
      world.sometimes(MARK.ELECTED_FROM_ELR);
    if (after.isr.length === 0 && after.elr.length === 0) world.sometimes(MARK.NO_INTACT_REPLICA);
    if (after.isr.length < before.isr.length && after.leader === before.leader) world.sometimes(MARK.ISR_SHRANK);
    if (after.isr.length > before.isr.length && after.leader === before.leader) world.sometimes(MARK.ISR_GREW);
    if (after.minIsr !== before.minIsr) world.sometimes(MARK.MIN_ISR_CHANGED);
    if (after.leader === after.replicas[0] && before.leader !== null && before.leader !== after.leader)
      world.sometimes(MARK.PREFERRED_AGAIN);
  }

  // --- what befalls nodes

  /** The process is gone. */
  ended(node: NodeId): void {
    for (const watched of this.#partitions.values()) {
      const seen = watched.truth.replicas.get(node);
      const hasLed = seen?.leads !== undefined;
      watched.truth.ended(node);
      if (hasLed) this.#leadershipOf(watched);
    }
  }

  /** The node's disk is another one, or of an older time. */
  diskLost(node: NodeId, damage: DamageOnDisk): void {
    this.damage.diskLost(node, damage);
    for (const watched of this.#partitions.values()) this.#judge(watched, (truth) => truth.lost(node));
  }

  /** Bits of its log turned over, or pages cannot be read: it may be found damaged from now on. */
  spoilt(node: NodeId, partition: PartitionName): void {
    this.damage.spoil(node, partition);
  }

  /** Damage of its log was planted, and nothing has shown it yet. */
  isSpoilt(node: NodeId, partition: PartitionName): boolean {
    return this.damage.isSpoilt(node, partition, this.#parts.world.nowMs);
  }

  /** Its disk was lost, or it was found damaged, and nothing has taken its place yet. */
  isInDoubt(node: NodeId, partition: PartitionName): boolean {
    return [...this.#partitions.values()].some(
      ({ truth }) => truth.name === partition && truth.replicas.get(node)?.isInDoubt === true,
    );
  }

  /** Bits of its journal turned over: its next start may find any of its logs damaged. */
  journalSpoilt(node: NodeId): void {
    // Also of a log that its journal has and no process has opened yet.
    for (const { truth } of this.#partitions.values())
      if (truth.record.replicas.includes(node)) this.damage.spoilJournal(node, truth.name);
  }

  probeOf(node: NodeId, process: string): ReplicaProbe {
    return {
      onOpened: (replica) => this.#at(replica, (watched) => this.#isDamaged(watched, node, replica)),
      onDamaged: (replica) => this.#at(replica, (watched) => this.#isDamaged(watched, node, replica)),
      onStepped: (replica, event, effects) =>
        this.#at(replica, (watched) => this.#stepped(watched, { node, replica }, event, effects)),
      onAppended: (replica, batches) =>
        this.#at(replica, (watched) => this.#appended(watched, { node, replica, process }, batches)),
      onClosed: () => undefined,
    };
  }

  // --- one replica

  #stepped(
    watched: Watched,
    { node, replica }: { readonly node: NodeId; readonly replica: Replica },
    event: Event,
    effects: readonly Effect[],
  ): void {
    const { truth } = watched;
    const { core } = replica;
    const seen = truth.replica(node);
    if (this.#isDamaged(watched, node, replica)) {
      this.#role(watched, seen, core.isLeader ? core.leaderEpoch : undefined);
      return;
    }
    if (event.kind === "load") this.#load(truth, node, event);
    if (event.kind === "restarted") truth.restarted(node, event.startOffset);
    if (event.kind === "lead" || event.kind === "follow" || event.kind === "record") truth.learned(node, event.record);
    this.#role(watched, seen, core.isLeader ? core.leaderEpoch : undefined);
    if (event.kind === "refused") truth.tookBack(node, core.endOffset);
    truth.stands(node, core);
    this.#life(truth, { node, replica }, event.kind === "tick" || event.kind === "load");
    for (const effect of effects) this.#effect(watched, { node, replica }, { event, effect });
    const isOther = event.kind === "load" || event.kind === "refused" || effects.some(({ kind }) => CUTS.has(kind));
    if (isOther) this.#producers.became(seen, truth.batchesOf(node));
    if (isOther || event.kind === "truncated" || event.kind === "lead" || event.kind === "follow")
      this.#compareProducers(truth, seen, core.producers);
  }

  /** A record without a value was committed behind it, of the same key. */
  isDeleted(topicId: TopicId, partition: number, record: RecordSeen): boolean {
    const key = keyOf(topicId, partition);
    const { truth } = this.#partitions.get(key) ?? {};
    return truth !== undefined && this.lives.recordsOf(key)?.isDeleted(record, truth.mayCount) === true;
  }

  /** 20. */
  #life(
    truth: PartitionTruth,
    { node, replica }: { readonly node: NodeId; readonly replica: Replica },
    isClose: boolean,
  ): void {
    const { topicId, partition } = replica.log;
    const broken = (message: string): never => {
      throw new ReplicaBroken(20, `${truth.name}: node ${node}: ${message}`);
    };
    const judged = { isSpoilt: this.isSpoilt(node, truth.name), isCommitted: truth.mayCount, broken };
    this.lives.step(keyOf(topicId, partition), truth.name, { node, replica, isClose, ...judged });
  }

  /** A broker gave a producer its id and epoch. */
  gave(producerId: number, producerEpoch: number): void {
    this.#producers.gave(producerId, producerEpoch);
  }

  /** 25, where the core has seen exactly what its log was handed. */
  #compareProducers(truth: PartitionTruth, seen: ReplicaSeen, table: ProducerTable): void {
    if (seen.isGone || !truth.knowsAllProducers(seen) || table.endOffset !== seen.endOffset) return;
    const difference = this.#producers.differenceOf(seen, table.view());
    if (difference !== undefined)
      throw new ReplicaBroken(25, `${truth.name}: node ${seen.node} up to ${seen.endOffset}: ${difference}`);
    if (table.size > 0) this.#parts.world.sometimes(MARK.PRODUCERS_COMPARED);
    if (table.size > 0 && seen.startOffset > 0) this.#parts.world.sometimes(MARK.PRODUCERS_OUTLIVE);
  }

  #load(truth: PartitionTruth, node: NodeId, event: Extract<Event, { kind: "load" }>): void {
    const { ends, startOffset, epochs, highWatermark } = event;
    const { endOffset, durableEnd } = ends;
    // A damaged log is begun anew, or has been repaired, only once the controller has written down that it was damaged (D-17).
    if (this.damage.opened(node, truth.name)) truth.registered(node);
    truth.opened(node, { startOffset, endOffset, durableEnd, epochs, highWatermark });
  }

  #effect(
    watched: Watched,
    { node, replica }: { readonly node: NodeId; readonly replica: Replica },
    { event, effect }: { readonly event: Event; readonly effect: Effect },
  ): void {
    const { world } = this.#parts;
    const { truth } = watched;
    switch (effect.kind) {
      case "append":
        if (effect.waiting !== undefined) this.#waiting.set(effect.token, effect.waiting);
        return;
      case "answer": {
        const waiting = this.#waiting.get(effect.token);
        if (effect.error === "NONE" && waiting?.acks === -1) truth.acknowledges(node, waiting.endOffset);
        if (effect.error !== "NONE") world.sometimes(`produce answered ${effect.error}, ${effect.outcome}`);
        return;
      }
      case "truncate":
        if (effect.toOffset < truth.replica(node).endOffset) world.sometimes(MARK.TRUNCATED);
        truth.truncates(node, effect.toOffset, event.kind === "fetched");
        return;
      case "restart-log":
        world.sometimes(RARE_MARK.LOG_RESTARTED);
        truth.dropped(node, effect.fromOffset);
        return;
      case "report":
        truth.reports(node, effect.durableEnd, replica.core.durableEnd);
        return;
      case "propose-isr":
        if (effect.wantsMove) world.sometimes(RARE_MARK.WANTS_MOVE);
        truth.proposes(
          effect.leaderEpoch,
          effect.partitionEpoch,
          effect.isr.map(({ nodeId }) => nodeId),
        );
        return;
      case "damaged":
        // D-9: only after an unclean election.
        if (truth.record.uncleanEpoch < 0)
          throw new ReplicaBroken(
            12,
            `${truth.name}: node ${node} would have to drop what is committed: ${effect.reason}`,
          );
        world.sometimes(RARE_MARK.WHOLE_DROPPED);
        this.damage.dropped(node, truth.name);
        truth.lost(node);
        return;
      default:
        return;
    }
  }

  #appended(
    { truth }: Watched,
    { node, replica, process }: { readonly node: NodeId; readonly replica: Replica; readonly process: string },
    batches: Uint8Array,
  ): void {
    const { core } = replica;
    const leadsIn = core.isLeader ? core.leaderEpoch : undefined;
    const { topicId, partition } = replica.log;
    const records = this.lives.recordsOf(keyOf(topicId, partition));
    for (let at = 0; at < batches.length; at += batchSizeAt(batches, at)) {
      const batch = {
        base: baseOffsetAt(batches, at),
        last: lastOffsetAt(batches, at),
        epoch: leaderEpochAt(batches, at),
        sum: crcAt(batches, at),
        ...numbersAt(batches, at),
      };
      const forbidden = leadsIn === undefined ? undefined : this.#producers.forbids(batch);
      if (forbidden !== undefined)
        throw new ReplicaBroken(
          24,
          `${truth.name}: node ${node} appends [${batch.base}, ${batch.last}] of ${forbidden}`,
        );
      const fault = leadsIn === undefined ? records?.faultOf(batches, at) : undefined;
      if (fault !== undefined) throw new ReplicaBroken(20, `${truth.name}: node ${node} takes a batch: ${fault}`);
      truth.appended(node, batch, {
        process,
        leadsIn,
        areCompared: records !== undefined,
        isEmpty: recordCountAt(batches, at) === 0,
      });
      if (leadsIn !== undefined) this.#wrote(replica, batch, { bytes: batches, at });
      this.#producers.appended(truth.replica(node), batch);
    }
    if (++this.#appends % COMPARED_EVERY === 0) this.#compareProducers(truth, truth.replica(node), core.producers);
  }

  #wrote(
    { log: { topicId, topic, partition } }: Replica,
    { base, last }: BatchSeen,
    { bytes, at }: { readonly bytes: Uint8Array; readonly at: number },
  ): void {
    const { world, record } = this.#parts;
    const key = keyOf(topicId, partition);
    this.lives.recordsOf(key)?.wrote(bytes, at, world.nowMs);
    if (!isControlBatchAt(bytes, at)) return;
    this.lives.tells(key, base);
    record({ type: "control", timeMs: world.nowMs, topic, partition, offset: base, lastOffset: last });
  }

  #role(watched: Watched, seen: ReplicaSeen, leads: number | undefined): void {
    if (seen.leads === leads) return;
    seen.leads = leads;
    this.#leadershipOf(watched);
    if (leads === undefined) return;
    const others = [...watched.truth.replicas.values()].filter((other) => other !== seen && other.leads !== undefined);
    if (others.length > 0) this.#parts.world.sometimes(MARK.TWO_PARTITION_LEADERS);
  }

  /** Somebody begins or ceases to lead: what was acknowledged with acks=1 may be lost (17). */
  #leadershipOf({ topic, image, truth }: Watched): void {
    const { world, record } = this.#parts;
    const leaders = [...truth.replicas.values()].filter(({ leads }) => leads !== undefined).length;
    record({ type: "leadership", timeMs: world.nowMs, topic: topic.name, partition: image.index, leaders });
  }

  /** A damaged log is nobody's copy any more; but only planted faults may damage one. */
  #isDamaged(watched: Watched, node: NodeId, { log }: Replica): boolean {
    const { truth } = watched;
    const found = this.damage.found(node, truth.name, { log, nowMs: this.#parts.world.nowMs });
    if (found === "intact" || found === "known") return found === "known";
    if (found === "unexplained" && !truth.replica(node).isInDoubt)
      throw new ReplicaBroken(16, `${truth.name}: node ${node} found it damaged: ${log.damage?.reason ?? ""}`);
    this.#parts.world.sometimes(MARK.LOG_DAMAGED);
    truth.lost(node);
    if (this.lives.recordsOf(keyOf(log.topicId, log.partition)) !== undefined) truth.mayBeRepaired(node);
    this.#noteVoid(watched);
    return true;
  }

  // --- judging

  #at(replica: Replica, look: (watched: Watched) => void): void {
    const watched = this.#partitions.get(keyOf(replica.log.topicId, replica.log.partition));
    // What becomes of the logs of a topic that goes is of no interest any more.
    if (watched === undefined || watched.topic.isDeleting) return;
    this.#guard(() => look(watched));
    this.#noteVoid(watched);
  }

  #judge(watched: Watched, judge: (truth: PartitionTruth) => void): void {
    this.#guard(() => judge(watched.truth));
    this.#noteVoid(watched);
  }

  readonly #noted = new WeakSet<PartitionTruth>();

  /** From here on histories of the partition prove nothing. */
  #noteVoid({ topic, truth, image }: Watched): void {
    if (!truth.isVoid || this.#noted.has(truth)) return;
    this.#noted.add(truth);
    const { world, record } = this.#parts;
    world.note("", "void", `${truth.name}`);
    record({ type: "partition lost", timeMs: world.nowMs, topic: topic.name, partition: image.index });
  }

  /** Nothing may be thrown into the node that is watched. */
  #guard(look: () => void): void {
    try {
      look();
    } catch (thrown) {
      if (thrown instanceof ReplicaBroken)
        this.#parts.onViolation({ invariant: thrown.invariant, message: thrown.message });
      else this.#parts.world.fail(thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
  }
}
