// size: all invariants of one partition share its truth.
// What must hold at every moment of a replicated partition: invariants 1 to 17 and 21 to 25, as far as a model of cores, disks and a controller shows them.
import type { PartitionImage } from "../../metadata/image.ts";
import type { ErrorName } from "../../model/errors.ts";
import type { NodeId } from "../../model/ids.ts";
import type { ProducerTable } from "../../model/producer-table.ts";
import { JOINING_MAX_MS } from "../../replication/in-sync-replicas.ts";
import { placeOf, type SimBatch } from "./batch.ts";
import type { PlatterLog } from "./disk.ts";
import { differs, isOriginal, type ProducerFault, ProducerTruth, refusedWrongly } from "./producer-truth.ts";
import { StartChecker } from "./start-checker.ts";
import { ReplicationBroken, type ReplicationInvariant } from "./violation.ts";
import type { ReplicationWorld } from "./world.ts";

/** What the checker may see of a replica: its log as accepted, and what its core says. */
export interface WatchedReplica {
  readonly name: string;
  readonly nodeId: NodeId;
  /** Counts the processes of its node. */
  readonly life: number;
  readonly partition: number;
  readonly batches: readonly SimBatch[];
  readonly startOffset: number;
  readonly writtenEnd: number;
  /** The record that its core was given last. */
  readonly record: PartitionImage | undefined;
}

const KEY = 2 ** 32;
const TICK_MS = 500;

/** Everything known of one partition. */
class Truth {
  /** What some leader's high watermark has passed; the first that exposes a batch fixes it. */
  readonly committed: SimBatch[] = [];
  committedEnd = 0;
  /** The latest epoch in which something was committed. */
  committedIn = -1;
  /** Promised to producers, and not yet passed by a high watermark. */
  readonly owed = new Set<SimBatch>();
  /** Log matching: (epoch, base offset) -> the batch, and the one before it. */
  readonly chains = new Map<number, { readonly batch: SimBatch; readonly before: SimBatch | undefined }>();
  /** Who appends in which epoch. */
  readonly writers = new Map<number, string>();
  /** Where consumers were told that the partition ends, and by the leader of which epoch. */
  exposed = 0;
  exposedIn = -1;
  record: PartitionImage | undefined;
  /** Leader epoch of the last unclean election: what an earlier leader says counts no more (D-10). */
  uncleanEpoch = -1;
  readonly producers = new ProducerTruth();
  /** And nobody has led since. */
  isGivenUp = false;
}

export class ReplicationChecker {
  readonly #world: ReplicationWorld;
  readonly #truths: Truth[] = [];
  readonly starts: StartChecker;
  committedBatches = 0;
  promisedBatches = 0;
  elections = 0;
  uncleanElections = 0;

  constructor(world: ReplicationWorld) {
    this.#world = world;
    this.starts = new StartChecker(world, (partition) => this.#truth(partition));
    for (let at = 0; at < world.swarm.partitions; at++) this.#truths.push(new Truth());
  }

  committedEnd(partition: number): number {
    return this.#truth(partition).committedEnd;
  }

  #truth(partition: number): Truth {
    return this.#truths[partition] as Truth;
  }

  // --- the log of a replica

  /** 4, 6: `batch` is about to become the last one of `replica`. */
  appends(replica: WatchedReplica, batch: SimBatch): void {
    const before = replica.batches.at(-1);
    const end = before?.endOffset ?? batch.baseOffset;
    if (end !== batch.baseOffset)
      throw new ReplicationBroken(4, `${replica.name} appends ${batch.baseOffset} to a log that ends at ${end}`);
    if (before !== undefined && before.epoch > batch.epoch)
      throw new ReplicationBroken(6, `${replica.name} appends epoch ${batch.epoch} after ${before.epoch}`);
  }

  /** 5: `batch` is written after `before`; one that a full disk refused was never there. */
  wrote(
    replica: WatchedReplica,
    { batch, before }: { readonly batch: SimBatch; readonly before: SimBatch | undefined },
  ): void {
    const { chains } = this.#truth(replica.partition);
    const key = batch.epoch * KEY + batch.baseOffset;
    const known = chains.get(key);
    // One whose log begins here knows of none below.
    if (known === undefined || (known.before === undefined && known.batch === batch))
      chains.set(key, { batch, before });
    else if (known.batch !== batch)
      throw new ReplicationBroken(
        5,
        `log matching: ${replica.name} has batch ${batch.number} at ${batch.baseOffset} of epoch ${batch.epoch}, where another has ${known.batch.number}`,
      );
    else if (before !== undefined && known.before !== before)
      throw new ReplicationBroken(
        5,
        `log matching: ${replica.name} has another log below ${batch.baseOffset} of epoch ${batch.epoch}`,
      );
  }

  /** 6, 7: a leader writes what a producer sent. */
  leaderAppends(replica: WatchedReplica, batch: SimBatch): void {
    const { epoch } = batch;
    const { record } = replica;
    if (record?.leaderEpoch !== epoch)
      throw new ReplicationBroken(6, `${replica.name} appends in epoch ${epoch}, not in ${record?.leaderEpoch}`);
    const truth = this.#truth(replica.partition);
    const writer = `node ${replica.nodeId} in life ${replica.life}`;
    const known = truth.writers.get(epoch);
    if (known === undefined) truth.writers.set(epoch, writer);
    else if (known !== writer)
      throw new ReplicationBroken(
        7,
        `${writer} appends to partition ${replica.partition} in epoch ${epoch}, as ${known} did`,
      );
  }

  /** 12: D-9, a replica is never cut below the high watermark that it validated. */
  truncates(replica: WatchedReplica, cut: { readonly toOffset: number; readonly highWatermark: number }): void {
    if (cut.toOffset < cut.highWatermark)
      throw new ReplicationBroken(
        12,
        `${replica.name} is cut to ${cut.toOffset}, below its high watermark ${cut.highWatermark}`,
      );
  }

  /** 16: what a node says is durable is on its platter. */
  reports(
    replica: WatchedReplica,
    { durableEnd, platterEnd }: { readonly durableEnd: number; readonly platterEnd: number },
  ): void {
    if (durableEnd > platterEnd)
      throw new ReplicationBroken(16, `${replica.name} reports ${durableEnd} durable, on its disk is ${platterEnd}`);
  }

  /** 14: within a leader epoch a core never goes back to an earlier record, and counts on nothing that the controller did not decide. */
  believes(
    replica: WatchedReplica,
    held: { readonly leaderEpoch: number; readonly partitionEpoch: number; readonly isr: readonly NodeId[] },
  ): void {
    const { record } = replica;
    if (record === undefined || held.leaderEpoch !== record.leaderEpoch) return;
    if (held.partitionEpoch < record.partitionEpoch)
      throw new ReplicationBroken(
        14,
        `${replica.name} goes by partition epoch ${held.partitionEpoch}, having seen ${record.partitionEpoch}`,
      );
    if (held.isr !== record.isr && !sameMembers(held.isr, record.isr))
      throw new ReplicationBroken(
        14,
        `${replica.name} counts on the ISR [${held.isr.join(" ")}], partition epoch ${record.partitionEpoch} says [${record.isr.join(" ")}]`,
      );
  }

  /** 44: the high watermark waits for who is not in sync, for a moment only (D-8). */
  waitsForNewcomer(replica: WatchedReplica, nodeId: NodeId, forMs: number): void {
    if (forMs > JOINING_MAX_MS + TICK_MS)
      throw new ReplicationBroken(
        44,
        `the high watermark of ${replica.name} has waited for node ${nodeId}, which is not in its ISR, for ${forMs.toFixed(0)} ms`,
      );
  }

  // --- high watermarks

  /** 2, 3, 9: the high watermark of a leader rises from `from` to `to`. */
  leaderHighWatermark(replica: WatchedReplica, { from, to }: { readonly from: number; readonly to: number }): void {
    const truth = this.#truth(replica.partition);
    const { record } = replica;
    if (record === undefined || record.leaderEpoch < truth.uncleanEpoch) return;
    if (record.isr.length < record.minIsr)
      throw new ReplicationBroken(
        9,
        `the high watermark of ${replica.name} moves to ${to} with ${record.isr.length} in sync, min ISR is ${record.minIsr}`,
      );
    for (const member of record.isr) this.#heldBy(replica, member, to);
    this.#compare(replica, { from, to, invariant: 2, mayExtend: true });
    truth.committedIn = Math.max(truth.committedIn, record.leaderEpoch);
    this.#checkHolders(replica.partition);
  }

  #heldBy(replica: WatchedReplica, member: NodeId, to: number): void {
    const node = this.#world.node(member);
    if (node.hurt.has(replica.partition)) return;
    // What it lost after this leader had counted on it, as far as the leader can know.
    if ((node.lostIn.get(replica.partition) ?? 0) > (replica.record?.partitionEpoch ?? 0)) return;
    const { endOffset } = this.#platter(member, replica.partition).state;
    if (endOffset < to)
      throw new ReplicationBroken(
        9,
        `the high watermark of ${replica.name} moves to ${to}, node ${member} of its ISR has ${endOffset} on disk`,
      );
  }

  followerHighWatermark(replica: WatchedReplica, { from, to }: { readonly from: number; readonly to: number }): void {
    const { record } = replica;
    if (record === undefined || record.leaderEpoch < this.#truth(replica.partition).uncleanEpoch) return;
    this.#compare(replica, { from, to, invariant: 3, mayExtend: false });
  }

  #compare(
    replica: WatchedReplica,
    range: {
      readonly from: number;
      readonly to: number;
      readonly invariant: ReplicationInvariant;
      readonly mayExtend: boolean;
    },
  ): void {
    const { committed } = this.#truth(replica.partition);
    const truth = this.#truth(replica.partition);
    const { batches, name, startOffset } = replica;
    // What the log starts above nobody sees.
    for (let at = placeOf(batches, Math.max(range.from, startOffset)); at < batches.length; at++) {
      const batch = batches[at] as SimBatch;
      if (batch.endOffset > range.to) break;
      const isNew = batch.baseOffset >= truth.committedEnd;
      if (isNew && (range.mayExtend || this.#isOfLeader(truth, batch))) this.#commit(truth, batch, name);
      else if (committed[placeOf(committed, batch.baseOffset)] !== batch)
        throw new ReplicationBroken(
          range.invariant,
          `${name} shows batch ${batch.number} at ${batch.baseOffset} (epoch ${batch.epoch}) below its high watermark ${range.to}: not what was committed there`,
        );
    }
    if (range.to > truth.committedEnd && range.to > startOffset)
      throw new ReplicationBroken(
        range.invariant,
        `the high watermark of ${name} is ${range.to}, committed is ${truth.committedEnd}`,
      );
  }

  /** After an unclean election its leader may know less than a follower that has the same log does. */
  #isOfLeader({ uncleanEpoch, record }: Truth, batch: SimBatch): boolean {
    if (uncleanEpoch < 0 || record === undefined || record.leader === null) return false;
    const batches = this.#world.node(record.leader).replica(record.index)?.batches ?? [];
    return batches[placeOf(batches, batch.baseOffset)] === batch;
  }

  #commit(truth: Truth, batch: SimBatch, name: string): void {
    if (batch.baseOffset !== truth.committedEnd)
      throw new ReplicationBroken(2, `${name} commits ${batch.baseOffset}, committed is ${truth.committedEnd}`);
    report(truth.producers.commits(batch));
    truth.committed.push(batch);
    truth.committedEnd = batch.endOffset;
    truth.owed.delete(batch);
    this.committedBatches++;
  }

  // --- 13: whoever may be elected holds everything

  #platter(member: NodeId, partition: number): PlatterLog {
    return this.#world.node(member).disk.logs[partition] as PlatterLog;
  }

  #checkHolders(partition: number): void {
    const { record } = this.#truth(partition);
    if (record === undefined) return;
    for (const member of record.isr) this.#holds(member, partition, "ISR");
    for (const member of record.elr) this.#holds(member, partition, "ELR");
  }

  /** Its disk has less than before. */
  lost(nodeId: NodeId): void {
    for (const [partition, { record }] of this.#truths.entries())
      if (record !== undefined && (record.isr.includes(nodeId) || record.elr.includes(nodeId)))
        this.#holds(nodeId, partition, record.isr.includes(nodeId) ? "ISR" : "ELR");
  }

  #holds(member: NodeId, partition: number, list: string): void {
    if (this.#world.node(member).hurt.has(partition)) return;
    const { committed, committedEnd } = this.#truth(partition);
    const platter = this.#platter(member, partition);
    const { state } = platter;
    let at = placeOf(committed, Math.max(platter.matchedEnd, state.startOffset));
    let place = placeOf(state.batches, committed[at]?.baseOffset ?? 0);
    while (at < committed.length && committed[at] === state.batches[place]) {
      at++;
      place++;
    }
    platter.matchedEnd = committed[at - 1]?.endOffset ?? 0;
    if (at < committed.length)
      throw new ReplicationBroken(
        13,
        `node ${member} is in the ${list} of partition ${partition} and has not the committed batch at ${committed[at]?.baseOffset} (of ${committedEnd}) on disk`,
      );
  }

  /** 14: a change of an ISR was let through that was decided on an older state of the partition. */
  altered(
    partition: number,
    before: PartitionImage,
    by: { readonly sender: NodeId; readonly leaderEpoch: number; readonly partitionEpoch: number },
  ): void {
    const isCurrent = by.leaderEpoch === before.leaderEpoch && by.partitionEpoch === before.partitionEpoch;
    if (!isCurrent || before.leader !== by.sender)
      throw new ReplicationBroken(
        14,
        `node ${by.sender} changes partition ${partition} as of epochs ${by.leaderEpoch}/${by.partitionEpoch}, it was at ${before.leaderEpoch}/${before.partitionEpoch} and led by ${before.leader}`,
      );
  }

  // --- elections and records

  /** 6, 14, 15: the controller has put `record` in the place of the one before. */
  recorded(partition: number, record: PartitionImage, { isUnclean }: { readonly isUnclean: boolean }): void {
    const truth = this.#truth(partition);
    const before = truth.record;
    truth.record = record;
    if (before !== undefined) this.#follows(partition, before, record, isUnclean);
    if (isUnclean) this.#unclean(truth, record);
    this.#checkHolders(partition);
  }

  #follows(partition: number, before: PartitionImage, record: PartitionImage, isUnclean: boolean): void {
    if (record.leaderEpoch < before.leaderEpoch || record.partitionEpoch <= before.partitionEpoch)
      throw new ReplicationBroken(
        6,
        `partition ${partition} goes from epochs ${before.leaderEpoch}/${before.partitionEpoch} to ${record.leaderEpoch}/${record.partitionEpoch}`,
      );
    const { leader } = record;
    if (record.isr.length + record.elr.length === 0 && before.isr.length + before.elr.length > 0)
      this.#stops(partition, before);
    if (leader === null || (leader === before.leader && record.leaderEpoch === before.leaderEpoch)) return;
    this.elections++;
    const isClean = before.isr.includes(leader) || before.elr.includes(leader);
    if (!isClean && !isUnclean)
      throw new ReplicationBroken(
        15,
        `node ${leader} leads partition ${partition} in epoch ${record.leaderEpoch}, and was neither in ISR [${before.isr.join(" ")}] nor in ELR [${before.elr.join(" ")}]`,
      );
  }

  /** 44: a partition stops for good only when whoever still counted has lost what it had (D-6). */
  #stops(partition: number, before: PartitionImage): void {
    const intact = [...before.isr, ...before.elr].filter((member) => !this.#world.node(member).hurt.has(partition));
    if (intact.length > 0)
      throw new ReplicationBroken(
        44,
        `nobody may lead partition ${partition} any more, and nodes ${intact.join(" ")} have lost nothing`,
      );
    this.#world.mark("stopped for want of an intact replica");
  }

  /** An operator has given up what this leader has not got. */
  #unclean(truth: Truth, record: PartitionImage): void {
    this.uncleanElections++;
    truth.uncleanEpoch = record.leaderEpoch;
    truth.isGivenUp = true;
    const leader = record.leader as NodeId;
    const { committed } = truth;
    const { state, isDamaged } = this.#platter(leader, record.index);
    // A new controller may not have heard yet.
    if (isDamaged) this.#world.node(leader).hurt.add(record.index);
    let at = placeOf(committed, state.startOffset);
    while (at < committed.length && committed[at] === state.batches[placeOf(state.batches, baseOf(committed[at]))])
      at++;
    if (at < committed.length) this.#world.mark("unclean election lost something");
    committed.length = at;
    truth.producers.restart(committed, state.batches[0]?.baseOffset ?? state.startOffset);
    // Where it starts inside a batch that it has not got, that one is lost with what comes after it.
    truth.committedEnd = Math.max(committed.at(-1)?.endOffset ?? 0, state.startOffset);
    truth.owed.clear();
    truth.exposed = 0;
    for (const node of this.#world.nodes) {
      const platter = node.disk.logs[record.index] as PlatterLog;
      platter.matchedEnd = Math.min(platter.matchedEnd, truth.committedEnd);
    }
  }

  /** 1: `replica` begins to lead: everything promised must be in its log. */
  leads(replica: WatchedReplica, highWatermark: number): void {
    const truth = this.#truth(replica.partition);
    const { record, batches, name } = replica;
    // One that was paused may begin late what is over: it commits nothing any more.
    if (record === undefined || record.leaderEpoch !== truth.record?.leaderEpoch) return;
    const { committed } = truth;
    if (truth.isGivenUp) this.#adopt(truth, replica, highWatermark);
    for (let at = placeOf(committed, replica.startOffset); at < committed.length; at++) {
      const batch = committed[at] as SimBatch;
      if (batches[placeOf(batches, batch.baseOffset)] !== batch)
        throw new ReplicationBroken(
          1,
          `${name} leads epoch ${record.leaderEpoch} without the committed batch ${batch.number} at ${batch.baseOffset} of ${truth.committedEnd}`,
        );
    }
    for (const batch of truth.owed)
      if (batches[placeOf(batches, batch.baseOffset)] !== batch)
        throw new ReplicationBroken(
          1,
          `${name} leads epoch ${record.leaderEpoch} without batch ${batch.number} at ${batch.baseOffset}, which was acknowledged`,
        );
  }

  /** After an unclean election what counts is what this leader held to be committed: in a history that was given up before, perhaps. */
  #adopt(truth: Truth, { batches, name }: WatchedReplica, highWatermark: number): void {
    truth.isGivenUp = false;
    for (const batch of batches) {
      if (batch.baseOffset < truth.committedEnd) continue;
      if (batch.endOffset > highWatermark) return;
      this.#commit(truth, batch, name);
    }
  }

  // --- answers

  /**
   * 1, 8, 17: a producer hears that its batch is kept. A report that is late may let a leader of before say so of what a later one has committed; that
   * is true, and harmless. Of anything else it must say nothing any more.
   */
  #acknowledged(replica: WatchedReplica, batch: SimBatch): void {
    const truth = this.#truth(replica.partition);
    const { record, name } = replica;
    const epoch = record?.leaderEpoch ?? -1;
    if (batch.acks === 1) {
      if (replica.writtenEnd < batch.endOffset)
        throw new ReplicationBroken(
          17,
          `${name} answers acks=1 for ${batch.baseOffset} to ${batch.endOffset}, written is ${replica.writtenEnd}`,
        );
      return;
    }
    if (batch.acks !== -1 || epoch < truth.uncleanEpoch) return;
    const isCommitted = truth.committed[placeOf(truth.committed, batch.baseOffset)] === batch;
    if (truth.committedIn > epoch && !isCommitted)
      throw new ReplicationBroken(
        8,
        `${name} acknowledges ${batch.baseOffset} in epoch ${epoch}, after epoch ${truth.committedIn} committed`,
      );
    this.promisedBatches++;
    batch.isPromised = true;
    if (!isCommitted) truth.owed.add(batch);
  }

  /** What a producer is told of its batch; `baseOffset` of an earlier attempt perhaps. */
  answers(
    replica: WatchedReplica,
    batch: SimBatch,
    { error, baseOffset }: { readonly error: ErrorName; readonly baseOffset: number },
  ): void {
    if (error === "NONE") this.#acknowledged(replica, this.#original(replica, batch, baseOffset));
    else this.#refuses(replica, batch, error);
  }

  /** 23: `batch` is said to be at `baseOffset`. What is there in the log, an earlier attempt perhaps. */
  #original(replica: WatchedReplica, batch: SimBatch, baseOffset: number): SimBatch {
    const { name } = replica;
    const batches = this.#history(replica);
    const original = batches[placeOf(batches, baseOffset)];
    if (original === undefined || !isOriginal(batch, original, baseOffset))
      throw new ReplicationBroken(
        23,
        `${name} says that batch ${batch.number} is at ${baseOffset}, where it has batch ${original?.number} at ${original?.baseOffset}`,
      );
    return original;
  }

  /** 22 to 24: unless an operator has given up what was written before. */
  #refuses(replica: WatchedReplica, batch: SimBatch, error: ErrorName): void {
    const truth = this.#truth(replica.partition);
    const { record, name } = replica;
    const batches = this.#history(replica);
    if (batch.producerId < 0 || truth.uncleanEpoch >= 0) return;
    const isLeader = record !== undefined && record.leaderEpoch === truth.record?.leaderEpoch;
    report(refusedWrongly(batch, error, { name, batches, most: this.#world.swarm.producersMax, isLeader }));
  }

  /** 25. Reads the whole log: not for every event. */
  hasProducers(replica: WatchedReplica, table: ProducerTable): void {
    const { name, nodeId, partition, startOffset } = replica;
    const truth = this.#truth(partition);
    const isInSync = truth.record?.isr.includes(nodeId) === true || truth.record?.leader === nodeId;
    // D-15: who is not in sync may have missed what was told of producers whose batches it has not got either.
    const isHurt = this.#world.node(nodeId).hurt.has(partition);
    if (startOffset > 0 && (!isInSync || isHurt || truth.uncleanEpoch >= 0)) return;
    if (startOffset > 0 && table.size > 0) this.#world.mark("producers outlived their batches");
    report(differs({ name, batches: this.#history(replica), most: this.#world.swarm.producersMax }, table));
  }

  /** All that was ever in its log: what it let go was committed. */
  #history({ partition, batches, startOffset }: WatchedReplica): readonly SimBatch[] {
    const from = batches[0]?.baseOffset ?? startOffset;
    if (from === 0) return batches;
    const { committed } = this.#truth(partition);
    return [...committed.slice(0, placeOf(committed, from)), ...batches];
  }

  /** 10: a consumer asks a leader where the partition ends, and is told. */
  tellsEnd(replica: WatchedReplica, highWatermark: number): void {
    const truth = this.#truth(replica.partition);
    const epoch = replica.record?.leaderEpoch ?? -1;
    if (epoch < truth.uncleanEpoch || epoch < truth.exposedIn) return;
    if (highWatermark < truth.exposed)
      throw new ReplicationBroken(
        10,
        `${replica.name} says in epoch ${epoch} that the partition ends at ${highWatermark}; in epoch ${truth.exposedIn} it ended at ${truth.exposed}`,
      );
    truth.exposed = highWatermark;
    truth.exposedIn = epoch;
  }
}

const baseOf = (batch: SimBatch | undefined): number => batch?.baseOffset ?? 0;

function report(fault: ProducerFault | undefined): void {
  if (fault !== undefined) throw new ReplicationBroken(fault.invariant, fault.message);
}

function sameMembers(left: readonly NodeId[], right: readonly NodeId[]): boolean {
  return left.length === right.length && left.every((member) => right.includes(member));
}
