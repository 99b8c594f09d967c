// The records of one fetched batch, as a consumer gives them: objects are made when they are iterated.
import type { DecodedBatch } from "../model/records.ts";
import type { ConsumerPartition } from "./consumer-partition.ts";
import type { ConsumedRecord, RecordBatchView } from "./types.ts";

export class BatchView implements RecordBatchView {
  readonly topic: string;
  readonly partition: number;
  readonly highWatermark: number;
  readonly recordCount: number;
  /** Offset to go on at when all of it was given. */
  readonly nextOffset: number;
  readonly #batch: DecodedBatch;
  readonly #from: number;

  /** Gives the records from the partition's position on (S-19) and below its end. */
  constructor(partition: ConsumerPartition, batch: DecodedBatch) {
    this.topic = partition.topic;
    this.partition = partition.index;
    this.highWatermark = partition.highWatermark;
    this.#batch = batch;
    this.#from = partition.position;
    this.nextOffset = Math.min(batch.lastOffset + 1, partition.endOffset ?? Number.POSITIVE_INFINITY);
    const isWhole = batch.baseOffset >= this.#from && this.nextOffset > batch.lastOffset;
    this.recordCount = isWhole ? batch.recordCount : this.#count();
  }

  *[Symbol.iterator](): IterableIterator<ConsumedRecord> {
    const { topic, partition } = this;
    const { leaderEpoch } = this.#batch;
    for (const record of this.#batch) {
      const { offset } = record;
      if (offset < this.#from) continue;
      if (offset >= this.nextOffset) return;
      const { timestamp, key, value, headers } = record;
      yield { topic, partition, offset, timestamp, key, value, headers, leaderEpoch };
    }
  }

  #count(): number {
    let count = 0;
    this.#batch.forEach(({ offset }) => {
      if (offset >= this.#from && offset < this.nextOffset) count++;
    });
    return count;
  }
}
