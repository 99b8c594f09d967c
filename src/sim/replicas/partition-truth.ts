// All replicas of one partition, as their brokers say they are, and the rules among them (invariants 1 to 9 and 12 to 16). It is told what each
// replica did in the turn in which it did it, and throws where that must not be; it costs what changed, not what there is.
//
// What a log holds is known without its bytes: each batch is compared with what the epoch's one writer wrote, so lineages say the rest.
import type { NodeId } from "../../model/ids.ts";
import type { PartitionRecord } from "../../replication/types.ts";
import { type BatchSeen, EpochTruth } from "./epoch-truth.ts";
import { type LogFound, type LostLog, newReplicaSeen, type ReplicaSeen } from "./replica-seen.ts";
import { epochAt, firstDifference, joined, type Lineage, lineageBelow, lineageOf, lineageText } from "./lineage.ts";

export class ReplicaBroken extends Error {
  readonly invariant: number;

  constructor(invariant: number, message: string) {
    super(message);
    this.invariant = invariant;
  }
}

interface Appending {
  readonly process: string;
  readonly leadsIn: number | undefined;
  /** The records of the batch are known to be some of those that were written there; none, or some. */
  readonly areCompared?: boolean;
  readonly isEmpty?: boolean;
}

/** Of a core. */
interface Standing {
  readonly startOffset: number;
  readonly durableEnd: number;
  readonly highWatermark: number;
}

const PROPOSALS_MAX = 64;

export class PartitionTruth {
  readonly name: string;
  record: PartitionRecord;
  /** What was committed may be gone, by a fault that the atlas allows or by an operator's choice: only what never depends on it is checked. */
  isVoid = false;
  committedEnd = 0;
  readonly replicas = new Map<NodeId, ReplicaSeen>();
  #committed: Lineage = [];
  readonly #epochs = new Map<number, EpochTruth>();
  readonly #proposals: string[] = [];

  constructor(name: string, record: PartitionRecord) {
    this.name = name;
    this.record = record;
  }

  replica(node: NodeId): ReplicaSeen {
    let seen = this.replicas.get(node);
    if (seen === undefined) {
      seen = newReplicaSeen(node);
      this.replicas.set(node, seen);
    }
    return seen;
  }

  /** Of those who the metadata counts on, one still has everything. */
  get hasCopy(): boolean {
    return this.#counted.some((node) => this.replicas.get(node)?.isInDoubt !== true);
  }

  /** The leader has taken what cannot be read yet. */
  get hasUncommitted(): boolean {
    const leader = this.record.leader === null ? undefined : this.replicas.get(this.record.leader);
    return leader !== undefined && leader.highWatermark < leader.endOffset;
  }

  get #counted(): readonly NodeId[] {
    return [...this.record.isr, ...this.record.elr];
  }

  // --- what a replica does

  /** A process found this log on its disk, or made it. */
  opened(node: NodeId, log: LogFound): void {
    const seen = this.replica(node);
    // Of a log without records it is of no consequence where it begins.
    if (log.durableEnd < seen.durableEnd && seen.startOffset < seen.durableEnd && !seen.isInDoubt)
      this.#broken(16, `node ${node} took [0, ${seen.durableEnd}) for durable, its disk has ${log.durableEnd}`);
    seen.lineage = lineageOf(log.epochs, log.startOffset, log.endOffset);
    seen.startOffset = log.startOffset;
    seen.endOffset = log.endOffset;
    seen.durableEnd = log.durableEnd;
    seen.leads = undefined;
    seen.record = undefined;
    seen.isGone = false;
    this.#compareWithWriters(seen);
    seen.highWatermark = 0;
    this.#knows(seen, log.highWatermark);
  }

  /** A batch is handed to its log; `leadsIn`: the epoch that it leads in, undefined of a follower. */
  appended(node: NodeId, batch: BatchSeen, by: Appending): void {
    const seen = this.replica(node);
    if (batch.base !== seen.endOffset)
      this.#broken(4, `node ${node} appends [${batch.base}, ${batch.last}] at ${seen.endOffset}`);
    const newest = seen.lineage.at(-1)?.epoch ?? -1;
    if (batch.epoch < newest) this.#broken(6, `node ${node} appends epoch ${batch.epoch} after ${newest}`);
    if (by.leadsIn === undefined) this.#copied(seen, batch, by);
    else this.#wrote(seen, batch, { process: by.process, epoch: by.leadsIn });
    if (batch.epoch > newest) seen.lineage = [...seen.lineage, { epoch: batch.epoch, start: batch.base }];
    seen.endOffset = batch.last + 1;
  }

  /** Of its log and of what was deleted below it, as their leaders wrote them. One that the start of an empty log lies in is deleted: nobody will copy it. */
  batchesOf(node: NodeId): readonly BatchSeen[] {
    const seen = this.replica(node);
    const whole = this.#wholeOf(seen);
    return whole.flatMap(({ epoch }, at) => [
      ...(this.#epochs.get(epoch)?.beginningBelow(whole[at + 1]?.start ?? seen.endOffset) ?? []),
    ]);
  }

  /**
   * What it knows of producers is what whoever was there all the time knows: also once its log begins further up (D-15), or has what a compacted one had.
   * Compaction keeps the batches that count at its own end, so whoever copies such a log knows less while it is on its way there. Of a void partition
   * nobody follows what was committed, and so what was there below its start.
   */
  knowsAllProducers({ node, startOffset, hasCompacted, leads, isInDoubt }: ReplicaSeen): boolean {
    if (startOffset === 0 && !hasCompacted) return true;
    return (
      !this.isVoid &&
      !isInDoubt &&
      this.record.uncleanEpoch < 0 &&
      (leads !== undefined || this.record.isr.includes(node))
    );
  }

  #wrote(seen: ReplicaSeen, batch: BatchSeen, { process, epoch }: { process: string; epoch: number }): void {
    if (batch.epoch !== epoch) this.#broken(6, `node ${seen.node} leads in ${epoch} and appends epoch ${batch.epoch}`);
    let truth = this.#epochs.get(epoch);
    if (truth === undefined) {
      truth = new EpochTruth(epoch, { writer: process, start: batch.base, before: this.#wholeOf(seen) });
      this.#epochs.set(epoch, truth);
    }
    if (truth.writer !== process) this.#broken(7, `epoch ${epoch} is written by ${truth.writer} and by ${process}`);
    if (truth.end !== batch.base)
      this.#broken(7, `node ${seen.node} writes ${batch.base} again in epoch ${epoch}, which ends at ${truth.end}`);
    truth.push(batch);
  }

  #copied(seen: ReplicaSeen, batch: BatchSeen, by: Appending): void {
    const { node, lineage } = seen;
    const truth = this.#epochs.get(batch.epoch);
    const original = truth?.at(batch.base);
    const isEqual = original !== undefined && original.last === batch.last && original.sum === batch.sum;
    // Compaction takes records, and makes one batch without any of several; those of this one were compared on their own.
    const isLess = truth !== undefined && by.areCompared === true && isLeftOf(truth, batch, by.isEmpty === true);
    if (truth === undefined || !(isEqual || isLess))
      this.#broken(
        5,
        `node ${node} takes [${batch.base}, ${batch.last}] of epoch ${batch.epoch}, which nobody wrote so`,
      );
    if (!isEqual) seen.hasCompacted = true;
    if (lineage.at(-1)?.epoch === batch.epoch) return;
    const differs =
      batch.base === truth.start ? firstDifference(lineage, truth.before, batch.base, seen.startOffset) : truth.start;
    if (differs !== undefined && seen.startOffset <= differs)
      this.#broken(
        5,
        `node ${node} takes epoch ${batch.epoch} from ${batch.base} on behind ${lineageText(lineage, seen.endOffset)}, its leader had ${lineageText(truth.before, truth.start)}`,
      );
  }

  /** The disk had no room: the log ends there again. */
  tookBack(node: NodeId, endOffset: number): void {
    const seen = this.replica(node);
    if (endOffset >= seen.endOffset) return;
    const truth = seen.leads === undefined ? undefined : this.#epochs.get(seen.leads);
    if (truth !== undefined && truth.end > endOffset) {
      for (const other of this.replicas.values())
        if (other !== seen && other.endOffset > endOffset && other.lineage.some(({ epoch }) => epoch === truth.epoch))
          this.#broken(
            7,
            `node ${node} takes back epoch ${truth.epoch} from ${endOffset} on, node ${other.node} has it`,
          );
      truth.cut(endOffset);
    }
    this.#shorten(seen, endOffset);
  }

  /** Its log is to be cut. `isByEpochs`: a leader's answer asked for it. */
  truncates(node: NodeId, toOffset: number, isByEpochs: boolean): void {
    const seen = this.replica(node);
    if (!isByEpochs) this.#broken(12, `node ${node} cuts its log at ${toOffset} though no leader said so`);
    if (toOffset < seen.highWatermark)
      this.#broken(12, `node ${node} cuts its log at ${toOffset}, below its high watermark ${seen.highWatermark}`);
    this.#shorten(seen, toOffset);
    this.#mustHold(seen, 12);
  }

  /** Its log is dropped, to begin anew. */
  dropped(node: NodeId, fromOffset: number): void {
    const seen = this.replica(node);
    this.#forget(seen, fromOffset);
    seen.isGone = true;
    this.#mustHold(seen, 13);
  }

  /** It begins anew, there. */
  restarted(node: NodeId, fromOffset: number): void {
    const seen = this.replica(node);
    this.#forget(seen, fromOffset);
    seen.isGone = false;
  }

  /** Whole ranges of it may be copied now without a word (D-17), from a compacted log. */
  mayBeRepaired(node: NodeId): void {
    this.replica(node).hasCompacted = true;
  }

  /** The metadata knows of its new disk. */
  registered(node: NodeId): void {
    const seen = this.replicas.get(node);
    if (seen === undefined) return;
    seen.isInDoubt = false;
    if (!this.record.isr.includes(node)) this.#countNoMore(seen, this.record.partitionEpoch + 1);
  }

  /** Its disk is another one, or does not give what it took any more: by a fault that was planted. */
  lost(node: NodeId): void {
    const seen = this.replicas.get(node);
    if (seen === undefined && !this.record.replicas.includes(node)) return;
    const replica = seen ?? this.replica(node);
    this.#remember(replica);
    this.#forget(replica, 0);
    replica.isGone = true;
    replica.isInDoubt = true;
    this.#isLeft();
  }

  #remember({ lineage, startOffset, durableEnd, lostLogs }: ReplicaSeen): void {
    if (durableEnd <= startOffset) return;
    lostLogs.push({ lineage, startOffset, durableEnd, countedBefore: Number.POSITIVE_INFINITY });
  }

  /** The metadata knows that the logs before its present one are gone. */
  #countNoMore({ isInDoubt, lostLogs }: ReplicaSeen, from: number): void {
    if (!isInDoubt) for (const log of lostLogs) log.countedBefore = Math.min(log.countedBefore, from);
  }

  #forget(seen: ReplicaSeen, fromOffset: number): void {
    seen.lineage = [];
    seen.startOffset = fromOffset;
    seen.endOffset = fromOffset;
    seen.durableEnd = fromOffset;
    seen.highWatermark = 0;
  }

  #shorten(seen: ReplicaSeen, endOffset: number): void {
    seen.lineage = lineageBelow(seen.lineage, endOffset);
    seen.endOffset = Math.min(seen.endOffset, endOffset);
    seen.durableEnd = Math.min(seen.durableEnd, endOffset);
  }

  /** The process is gone. */
  ended(node: NodeId): void {
    const seen = this.replicas.get(node);
    if (seen === undefined) return;
    seen.leads = undefined;
    seen.record = undefined;
  }

  /** It was given a record of the partition. */
  learned(node: NodeId, record: PartitionRecord): void {
    const seen = this.replica(node);
    if (seen.record === undefined || record.partitionEpoch >= seen.record.partitionEpoch) seen.record = record;
  }

  /** Where it stands after a step. */
  stands(node: NodeId, { startOffset, durableEnd, highWatermark }: Standing): void {
    const seen = this.replica(node);
    if (seen.isGone) return;
    seen.startOffset = startOffset;
    if (durableEnd > seen.durableEnd) seen.durableEnd = durableEnd;
    if (highWatermark === seen.highWatermark) return;
    if (seen.leads !== undefined && highWatermark > seen.highWatermark) this.#mayCommit(seen, highWatermark);
    this.#knows(seen, highWatermark);
  }

  /** Is what was written there in this epoch committed? */
  hasCommitted({ epoch, offset }: { readonly epoch: number; readonly offset: number }): boolean {
    return offset < this.committedEnd && epochAt(this.#committed, offset) === epoch;
  }

  /** As `hasCommitted`; anything, once nothing is promised any more. */
  readonly mayCount = (place: { readonly epoch: number; readonly offset: number }): boolean =>
    this.isVoid || this.hasCommitted(place);

  /** Was a batch committed that touches [from, to), other than what was told of producers? */
  hasRecords(from: number, to: number): boolean {
    const touches = ({ base, last, told }: BatchSeen): boolean => told === undefined && base < to && last >= from;
    return this.#committed.some(({ epoch }, at) => {
      const end = this.#committed[at + 1]?.start ?? this.committedEnd;
      return [...(this.#epochs.get(epoch)?.below(end) ?? [])].some(touches);
    });
  }

  /** What it tells its leader to have synced. */
  reports(node: NodeId, durableEnd: number, isDurable: number): void {
    if (durableEnd > isDurable) this.#broken(16, `node ${node} reports ${durableEnd} as durable, ${isDurable} is`);
  }

  /** A record acknowledged with acks=all. */
  acknowledges(node: NodeId, endOffset: number): void {
    const seen = this.replica(node);
    const newest = this.#committed.at(-1)?.epoch ?? -1;
    // Who has handed its leadership over tells its producers what the next leader has committed.
    const epoch = seen.leads ?? (endOffset <= seen.highWatermark ? newest : -1);
    if (this.isVoid) return;
    // A report that all of its ISR had sent before may reach it late: what it tells then is true, since the next leader has it too (D-10).
    if (newest > epoch && !this.#isCommitted(seen, endOffset))
      this.#broken(8, `node ${node} acknowledges up to ${endOffset} in epoch ${epoch}, epoch ${newest} has committed`);
    if (endOffset > this.committedEnd)
      this.#broken(1, `node ${node} acknowledges up to ${endOffset}, committed is ${this.committedEnd}`);
  }

  proposes(leaderEpoch: number, partitionEpoch: number, isr: readonly NodeId[]): void {
    this.#proposals.push(proposalText(leaderEpoch, partitionEpoch, isr));
    if (this.#proposals.length > PROPOSALS_MAX) this.#proposals.shift();
  }

  #isCommitted({ lineage, startOffset }: ReplicaSeen, endOffset: number): boolean {
    const { committedEnd } = this;
    return endOffset <= committedEnd && firstDifference(lineage, this.#committed, endOffset, startOffset) === undefined;
  }

  // --- rules

  /** 9: by the ISR that the leader knows of, by durable ends, and not while too few are in it. */
  #mayCommit(seen: ReplicaSeen, highWatermark: number): void {
    const { record, node, leads } = seen;
    if (record === undefined || record.leaderEpoch !== leads) return;
    if (record.isr.length < record.minIsr)
      this.#broken(
        9,
        `node ${node} commits up to ${highWatermark} with ISR ${record.isr.join()}, min ISR ${record.minIsr}`,
      );
    for (const member of record.isr) {
      const { durableEnd, lostLogs } = this.replica(member);
      // A report stays true when the log is lost behind it: its leader goes by it until a record takes the member out, however late it hears of that.
      const counted = lostLogs.filter(({ countedBefore }) => record.partitionEpoch < countedBefore);
      if (durableEnd < highWatermark && !counted.some((log) => this.#hadAll(log, seen, highWatermark)))
        this.#broken(
          9,
          `node ${node} commits up to ${highWatermark}, node ${member} of its ISR ${record.isr.join()} has ${[durableEnd, ...counted.map((log) => log.durableEnd)].join(", before ")} durable`,
        );
    }
  }

  /** Durably, what `leader` has below `end`. */
  #hadAll(log: LostLog, leader: ReplicaSeen, end: number): boolean {
    if (log.durableEnd < end) return false;
    const from = Math.max(log.startOffset, leader.startOffset);
    return this.isVoid || firstDifference(log.lineage, leader.lineage, end, from) === undefined;
  }

  /** 2, 3: what a replica knows to be committed is what every other knows to be. */
  #knows(seen: ReplicaSeen, highWatermark: number): void {
    seen.highWatermark = highWatermark;
    if (this.isVoid) return;
    if (highWatermark > seen.endOffset)
      this.#broken(9, `node ${seen.node} has high watermark ${highWatermark} and ends at ${seen.endOffset}`);
    const common = Math.min(highWatermark, this.committedEnd);
    const differs = firstDifference(seen.lineage, this.#committed, common, seen.startOffset);
    if (differs !== undefined)
      this.#broken(
        3,
        `node ${seen.node} takes ${lineageText(seen.lineage, highWatermark)} of [${seen.startOffset}, ${seen.endOffset}) for committed, committed is ${lineageText(this.#committed, this.committedEnd)}`,
      );
    if (highWatermark <= this.committedEnd) return;
    if (seen.leads === undefined)
      this.#broken(
        9,
        `node ${seen.node}, a follower, has high watermark ${highWatermark}, committed is ${this.committedEnd}`,
      );
    this.#committed = lineageBelow(this.#wholeOf(seen), highWatermark);
    this.committedEnd = highWatermark;
    for (const node of this.#counted) this.#mustHold(this.replica(node), 13);
  }

  /** Also of what was deleted below its start: that was committed. */
  #wholeOf({ lineage, startOffset }: ReplicaSeen): Lineage {
    return startOffset === 0 ? lineage : joined(lineageBelow(this.#committed, startOffset), lineage);
  }

  /** 13: who is in the ISR or eligible has everything that is committed, durably. */
  #mustHold(seen: ReplicaSeen, invariant: number): void {
    if (this.isVoid || seen.isInDoubt || !this.#counted.includes(seen.node)) return;
    const lacks = this.lacks(seen.node);
    if (lacks === undefined) return;
    const { isr, elr, partitionEpoch } = this.record;
    const where = `in ISR ${isr.join()} ELR ${elr.join()} of partition epoch ${partitionEpoch}`;
    this.#broken(invariant, `node ${seen.node} is ${where} and lacks ${lacks}`);
  }

  /** What is committed and not durable there; undefined: nothing. */
  lacks(node: NodeId): string | undefined {
    const { durableEnd, lineage, startOffset } = this.replica(node);
    const { committedEnd } = this;
    if (durableEnd < committedEnd) return `[${durableEnd}, ${committedEnd})`;
    const differs = firstDifference(lineage, this.#committed, committedEnd, startOffset);
    if (differs === undefined) return undefined;
    return `${differs}: it has ${lineageText(lineage, durableEnd)}, committed is ${lineageText(this.#committed, committedEnd)}`;
  }

  #compareWithWriters(seen: ReplicaSeen): void {
    seen.lineage.forEach(({ epoch, start }, at) => {
      const end = seen.lineage[at + 1]?.start ?? seen.endOffset;
      const truth = this.#epochs.get(epoch);
      const before = seen.lineage.slice(0, at);
      const isEqual =
        truth !== undefined &&
        end <= truth.end &&
        truth.isBoundary(end) &&
        (start === seen.startOffset ||
          (start === truth.start && firstDifference(before, truth.before, start, seen.startOffset) === undefined));
      if (!isEqual)
        this.#broken(
          5,
          `node ${seen.node} found ${lineageText(seen.lineage, seen.endOffset)}: epoch ${epoch} was never so`,
        );
    });
  }

  // --- what the metadata decides

  /** A committed record changed the partition. */
  changed(after: PartitionRecord): void {
    const before = this.record;
    this.record = after;
    if (after.partitionEpoch <= before.partitionEpoch)
      this.#broken(14, `partition epoch ${after.partitionEpoch} after ${before.partitionEpoch}`);
    if (after.leaderEpoch < before.leaderEpoch)
      this.#broken(6, `leader epoch ${after.leaderEpoch} after ${before.leaderEpoch}`);
    if (after.leader !== before.leader && after.leaderEpoch === before.leaderEpoch)
      this.#broken(
        6,
        `epoch ${after.leaderEpoch} of ${before.leader ?? "nobody"} is given to ${after.leader ?? "nobody"}`,
      );
    if (after.uncleanEpoch !== before.uncleanEpoch) this.isVoid = true;
    for (const seen of this.replicas.values())
      if (!after.isr.includes(seen.node)) this.#countNoMore(seen, after.partitionEpoch);
    this.#elects(before, after);
    this.#admits(before, after);
    this.#isLeft();
    for (const node of this.#counted) this.#mustHold(this.replica(node), 13);
  }

  /** 15, and 1: who is elected was in the ISR or eligible, and has everything. */
  #elects(before: PartitionRecord, after: PartitionRecord): void {
    const { leader } = after;
    if (leader === null || after.leaderEpoch === before.leaderEpoch || after.uncleanEpoch !== before.uncleanEpoch)
      return;
    if (!before.isr.includes(leader) && !before.elr.includes(leader))
      this.#broken(15, `node ${leader} is elected, ISR was ${before.isr.join()}, ELR ${before.elr.join()}`);
    const lacks = this.isVoid || this.replica(leader).isInDoubt ? undefined : this.lacks(leader);
    if (lacks !== undefined)
      this.#broken(15, `node ${leader} is elected in epoch ${after.leaderEpoch} and lacks ${lacks}`);
  }

  /** 14: nobody joins but by a proposal that the leader made of this very state. */
  #admits(before: PartitionRecord, after: PartitionRecord): void {
    const joins = after.isr.filter((node) => !before.isr.includes(node));
    const isElected = joins.length === 1 && joins[0] === after.leader && after.isr.length === 1;
    if (joins.length === 0 || isElected) return;
    if (!this.#proposals.includes(proposalText(before.leaderEpoch, before.partitionEpoch, after.isr)))
      this.#broken(
        14,
        `ISR ${before.isr.join()} became ${after.isr.join()} at partition epoch ${before.partitionEpoch}, leader epoch ${before.leaderEpoch}; its leader never proposed that`,
      );
  }

  #isLeft(): void {
    if (!this.hasCopy) this.isVoid = true;
  }

  #broken(invariant: number, message: string): never {
    throw new ReplicaBroken(invariant, `${this.name}: ${message}`);
  }
}

/** One without records may stand for any part of the epoch. */
function isLeftOf(truth: EpochTruth, { base, last }: BatchSeen, isEmpty: boolean): boolean {
  if (isEmpty) return base >= truth.start && last < truth.end;
  return truth.isBoundary(base) && truth.isBoundary(last + 1);
}

function proposalText(leaderEpoch: number, partitionEpoch: number, isr: readonly NodeId[]): string {
  return `${leaderEpoch} ${partitionEpoch} ${[...isr].sort((left, right) => left - right).join()}`;
}
