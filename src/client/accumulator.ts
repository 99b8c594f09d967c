// Gathers records into batches: one open batch per (topic, partition, acks). A batch is due when it is full, has lingered, or is
// flushed; until the sender takes it, it goes on taking records.
import { present } from "../base/assert.ts";
import { Ring } from "../base/ring.ts";
import type { Rng } from "../base/rng.ts";
import { OttlaError } from "../model/errors.ts";
import { sealBatch, setProducer } from "../model/record-batch.ts";
import { RecordBatchBuilder } from "../model/records.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Codecs, CompressionName } from "../ports/codecs.ts";
import type { Timers } from "../ports/timers.ts";
import type { PartitionMetadata, TopicMetadata } from "../wire/native/apis.ts";
import type { Alarm, Alarms } from "../link/alarms.ts";
import type { Generation } from "./flush-tracker.ts";
import type { NormalRecord } from "./outgoing.ts";
import { Lane } from "./lane.ts";
import { type BatchWaiter, ProduceBatch } from "./produce-batch.ts";
import type { Stamp } from "./sequences.ts";
import { isLost } from "./unreadable.ts";

export interface AccumulatorOptions {
  readonly lingerMs: number;
  readonly batchBytes: number;
  readonly compression: CompressionName;
  readonly idempotent: boolean;
  readonly partitioner: (key: Uint8Array, partitionCount: number) => number;
}

export interface AccumulatorDeps {
  readonly alarms: Alarms;
  readonly timers: Timers;
  readonly checksum: Checksum;
  readonly codecs: Codecs;
  readonly rng: Rng;
}

export interface AccumulatorEvents {
  onBatchOpened(batch: ProduceBatch): void;
  /** The lane has a batch that may be sent. */
  onDue(lane: Lane): void;
}

/** A record and where it is to go: one object for all records, since a batch copies what it takes. */
export interface PlacedRecord extends NormalRecord {
  partition: number | undefined;
  acks: number;
  waiter: BatchWaiter | undefined;
  generation: Generation;
}

const BUILDERS_KEPT = 64;
/** While a partition has as many batches under way as it may, the next one grows to so many times `batchBytes`: five then carry what 16 would. */
const GROWTH_MAX = 4;
/** A lane this far behind (its leader is slow, or hangs) gets records without key only when the others are no better. */
const BACKLOG_MAX = 32;

interface TopicLanes {
  /** By partition * 3 + acks. */
  readonly lanes: (Lane | undefined)[];
  sticky: number;
}

export class Accumulator {
  readonly #deps: AccumulatorDeps;
  readonly #options: AccumulatorOptions;
  readonly #events: AccumulatorEvents;
  readonly #topics = new Map<string, TopicLanes>();
  /** Of the last record: most records follow one of the same topic. */
  #lastTopic: TopicMetadata | undefined;
  #lastLanes: TopicLanes | undefined;
  readonly #builders: RecordBatchBuilder[] = [];
  /** Batches in the order of their linger's end. */
  readonly #lingering = new Ring<ProduceBatch>();
  #lingerAlarm: Alarm | undefined;
  #isDeferred = false;
  #order = 0;
  #bufferedBytes = 0;

  constructor(deps: AccumulatorDeps, options: AccumulatorOptions, events: AccumulatorEvents) {
    this.#deps = deps;
    this.#options = options;
    this.#events = events;
  }

  /** Of all batches that are not settled. */
  get bufferedBytes(): number {
    return this.#bufferedBytes;
  }

  /** Throws OttlaError when the record can never be sent. */
  append(topic: TopicMetadata, record: PlacedRecord): void {
    const lanes = topic === this.#lastTopic && this.#lastLanes !== undefined ? this.#lastLanes : this.#lanesOf(topic);
    const partition = this.#choosePartition(topic, record, lanes);
    const lane = this.#laneOf(topic.name, lanes, partition, record.acks);
    if (lane.open !== undefined) {
      if (this.#tryAppend(lane.open, record, this.#options.batchBytes)) return;
      const limitBytes = this.#growthOf(topic, lane, record);
      if (limitBytes > 0 && this.#tryAppend(lane.open, record, limitBytes)) return;
      this.#makeDue(lane.open);
      lane.open = undefined;
      // A full batch ends the stay of records without key in this partition.
      if (record.partition === undefined && record.key === null) {
        lanes.sticky = -1;
        return this.append(topic, record);
      }
    }
    this.#appendFirst(topic, lane, record);
  }

  /** Makes the batch's bytes, with these numbers; it takes no more records. May throw what compression throws. */
  seal(batch: ProduceBatch, maxBytes: number, producer?: Stamp): Uint8Array {
    if (batch.bytes !== undefined) return this.#stamped(batch, batch.bytes, producer);
    const builder = present(batch.builder, "the builder of an open batch");
    if (batch.lane.open === batch) batch.lane.open = undefined;
    batch.state = "sealed";
    // The next record without key goes elsewhere.
    const lanes = this.#topics.get(batch.lane.topic);
    if (lanes?.sticky === batch.lane.partition) lanes.sticky = -1;
    const { codecs, checksum } = this.#deps;
    // Only an answer tells that the bytes have left: without one the builder's buffer could not be used again.
    const mayBeView = batch.lane.acks !== 0;
    const { compression } = this.#options;
    const numbers = producer === undefined ? {} : { producer };
    batch.bytes = builder.build({ compression, codecs, checksum, maxBytes, mayBeView, ...numbers });
    batch.stamp = producer;
    if (!builder.owns(batch.bytes)) {
      batch.builder = undefined;
      this.#recycle(batch, builder);
    }
    return batch.bytes;
  }

  /** A connection that the batch was sent over may still hold its bytes: other numbers go into a copy. */
  #stamped(batch: ProduceBatch, bytes: Uint8Array, producer: Stamp | undefined): Uint8Array {
    if (producer === undefined || isSame(batch.stamp, producer)) return bytes;
    const own = batch.attempts === 0 ? bytes : bytes.slice();
    setProducer(own, producer);
    sealBatch(own, this.#deps.checksum);
    batch.bytes = own;
    batch.stamp = producer;
    return own;
  }

  /** The batch's fate is known: its room is free again. */
  release(batch: ProduceBatch, isAcknowledged: boolean): void {
    if (batch.lane.open === batch) batch.lane.open = undefined;
    // After a failure, or a second try, a connection may still hold the bytes: then its buffer is left to it.
    const isUnused = batch.attempts === 0 || (isAcknowledged && batch.attempts === 1);
    if (batch.builder !== undefined && isUnused) this.#recycle(batch, batch.builder);
    batch.builder = undefined;
    batch.bytes = undefined;
    this.#bufferedBytes -= batch.sizeBytes;
  }

  /** Records without key go elsewhere from now on. */
  leave({ topic, partition }: Lane): void {
    const lanes = this.#topics.get(topic);
    if (lanes?.sticky === partition) lanes.sticky = -1;
  }

  /**
   * Batches of records without key that wait in a lane without leader go to partitions that have one, or, where nothing is left to wait for, to
   * ones that may have one again. Returns the lanes that got them; they are due.
   */
  rehome(lane: Lane, topic: TopicMetadata): Lane[] {
    const lanes = this.#topics.get(lane.topic);
    const own = topic.partitions[lane.partition];
    const isBetter = (other: PartitionMetadata) => isLed(other) || (own !== undefined && isLost(own) && !isLost(other));
    if (lanes === undefined || !topic.partitions.some(isBetter)) return [];
    const moved = lane.takeUnbound();
    for (const batch of moved) {
      const partition = this.#nextSticky(topic, lanes, lane.acks);
      batch.lane = this.#laneOf(topic.name, lanes, partition, lane.acks);
      batch.isDue = true;
      batch.lane.push(batch);
    }
    return [...new Set(moved.map((batch) => batch.lane))];
  }

  /** Every open batch is to go now. */
  makeAllDue(): void {
    for (let batch = this.#lingering.shift(); batch !== undefined; batch = this.#lingering.shift())
      this.#makeDue(batch);
  }

  /** Forgets all that is not in flight. */
  drain(): void {
    for (const { lanes } of this.#topics.values()) for (const lane of lanes) lane?.drain();
    this.#lingering.clear();
    this.#lingerAlarm?.cancel();
  }

  #laneOf(topic: string, { lanes }: TopicLanes, partition: number, acks: number): Lane {
    const { idempotent } = this.#options;
    return (lanes[slotOf(partition, acks)] ??= new Lane(topic, partition, { acks, idempotent }));
  }

  #lanesOf(topic: TopicMetadata): TopicLanes {
    let lanes = this.#topics.get(topic.name);
    if (lanes === undefined) this.#topics.set(topic.name, (lanes = { lanes: [], sticky: -1 }));
    this.#lastTopic = topic;
    this.#lastLanes = lanes;
    return lanes;
  }

  #choosePartition(topic: TopicMetadata, { partition, key, acks }: PlacedRecord, lanes: TopicLanes): number {
    const count = topic.partitions.length;
    if (partition !== undefined) return checkedPartition(partition, topic);
    if (key !== null) return checkedPartition(this.#options.partitioner(key, count), topic);
    if (lanes.sticky < 0 || lanes.sticky >= count) lanes.sticky = this.#nextSticky(topic, lanes, acks);
    return lanes.sticky;
  }

  /** A partition with a leader that takes records, if there is one; not one that is far behind, if another is less so. */
  #nextSticky({ name, partitions }: TopicMetadata, { lanes }: TopicLanes, acks: number): number {
    if (partitions.length === 0) throw new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `${name} has no partitions`);
    const led = partitions.filter(isLed);
    const laneOf = ({ index }: PartitionMetadata) => lanes[slotOf(index, acks)];
    const taking = led.filter((partition) => laneOf(partition)?.isBlocked !== true);
    const hopeful = led.length > 0 ? led : partitions.filter((partition) => !isLost(partition));
    const usable = [taking, led, hopeful, partitions].find((candidates) => candidates.length > 0) ?? partitions;
    const backlogOf = (partition: PartitionMetadata) => laneOf(partition)?.backlog ?? 0;
    const picked = this.#deps.rng.pick(usable);
    if (backlogOf(picked) < BACKLOG_MAX) return picked.index;
    return usable.reduce((best, other) => (backlogOf(other) < backlogOf(best) ? other : best), picked).index;
  }

  /** To what size the open batch may grow beyond the usual one; 0: it may not. Records that may go elsewhere do. */
  #growthOf({ maxMessageBytes, partitions }: TopicMetadata, lane: Lane, { partition, key }: PlacedRecord): number {
    const isPlaced = partition !== undefined || key !== null || partitions.length === 1;
    if (!isPlaced || !lane.isSaturated || lane.open?.isUsual !== true) return 0;
    return Math.min(maxMessageBytes, this.#options.batchBytes * GROWTH_MAX);
  }

  #tryAppend(batch: ProduceBatch, record: PlacedRecord, limitBytes?: number): boolean {
    const builder = present(batch.builder, "the builder of an open batch");
    if (!builder.tryAppend(record, limitBytes)) return false;
    if (record.key !== null || record.partition !== undefined) batch.isBound = true;
    const { waiter } = record;
    if (waiter === undefined) batch.hasEnqueued = true;
    else {
      waiter.index = batch.recordCount;
      batch.waiters.push(waiter);
    }
    batch.recordCount++;
    const { sizeBytes } = builder;
    this.#bufferedBytes += sizeBytes - batch.sizeBytes;
    batch.sizeBytes = sizeBytes;
    if (sizeBytes >= this.#options.batchBytes && !batch.isDue) this.#makeDue(batch);
    return true;
  }

  #appendFirst({ name, maxMessageBytes }: TopicMetadata, lane: Lane, record: PlacedRecord): void {
    const { batchBytes } = this.#options;
    let batch = maxMessageBytes >= batchBytes ? this.#newBatch(lane, record.generation, batchBytes) : undefined;
    if (batch === undefined || !this.#tryAppend(batch, record, batchBytes)) {
      if (batch !== undefined) this.release(batch, false);
      // A record larger than a usual batch, or a topic of small batches: a builder made to measure, used once.
      batch = this.#newBatch(lane, record.generation, Math.max(1, maxMessageBytes));
      if (!this.#tryAppend(batch, record)) throw tooLarge(name, maxMessageBytes);
    }
    lane.open = batch;
    lane.push(batch);
    this.#events.onBatchOpened(batch);
    this.#linger(batch);
  }

  #newBatch(lane: Lane, generation: Generation, limitBytes: number): ProduceBatch {
    const isUsual = limitBytes === this.#options.batchBytes;
    const most = isUsual ? limitBytes * GROWTH_MAX : limitBytes;
    const builder = (isUsual ? this.#builders.pop() : undefined) ?? new RecordBatchBuilder({ limitBytes: most });
    const createdMs = this.#deps.alarms.nowMs();
    return new ProduceBatch(lane, { order: this.#order++, createdMs, generation, builder, isUsual });
  }

  #linger(batch: ProduceBatch): void {
    if (batch.isDue) return this.#events.onDue(batch.lane);
    this.#lingering.push(batch);
    if (this.#options.lingerMs <= 0) this.#deferDue();
    else if (this.#lingering.length === 1) this.#armLinger(this.#options.lingerMs);
  }

  #deferDue(): void {
    if (this.#isDeferred) return;
    this.#isDeferred = true;
    this.#deps.timers.defer(() => {
      this.#isDeferred = false;
      this.makeAllDue();
    });
  }

  #armLinger(delayMs: number): void {
    this.#lingerAlarm?.cancel();
    this.#lingerAlarm = this.#deps.alarms.after(delayMs, () => this.#endLinger());
  }

  #endLinger(): void {
    const nowMs = this.#deps.alarms.nowMs();
    for (;;) {
      const batch = this.#lingering.peek();
      if (batch === undefined) return;
      const leftMs = batch.createdMs + this.#options.lingerMs - nowMs;
      if (batch.state === "open" && !batch.isDue && leftMs > 0) return this.#armLinger(leftMs);
      this.#lingering.shift();
      this.#makeDue(batch);
    }
  }

  #makeDue(batch: ProduceBatch): void {
    if (batch.state !== "open") return;
    batch.isDue = true;
    this.#events.onDue(batch.lane);
  }

  #recycle(batch: ProduceBatch, builder: RecordBatchBuilder): void {
    if (!batch.isUsual || this.#builders.length >= BUILDERS_KEPT) return;
    builder.reset();
    this.#builders.push(builder);
  }
}

function isSame(left: Stamp | undefined, right: Stamp): boolean {
  const { producerId, producerEpoch, baseSequence } = right;
  if (left?.producerId !== producerId || left.producerEpoch !== producerEpoch) return false;
  return left.baseSequence === baseSequence;
}

const slotOf = (partition: number, acks: number): number => partition * 3 + (acks + 1);
const isLed = ({ leader }: PartitionMetadata): boolean => leader >= 0;

function checkedPartition(partition: number, topic: TopicMetadata): number {
  const count = topic.partitions.length;
  if (Number.isInteger(partition) && partition >= 0 && partition < count) return partition;
  throw new OttlaError(
    "UNKNOWN_TOPIC_OR_PARTITION",
    `${topic.name} has partitions 0 to ${count - 1}, not ${partition}`,
  );
}

function tooLarge(topic: string, maxMessageBytes: number): OttlaError {
  return new OttlaError(
    "MESSAGE_TOO_LARGE",
    `a record does not fit a batch of ${maxMessageBytes} bytes, the max.message.bytes of ${topic}`,
    { outcome: "not appended" },
  );
}
