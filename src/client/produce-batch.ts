// One record batch on its way out.
import type { RecordBatchBuilder } from "../model/records.ts";
import type { OttlaError } from "../model/errors.ts";
import type { Alarm } from "../link/alarms.ts";
import type { Generation } from "./flush-tracker.ts";
import type { Lane } from "./lane.ts";
import type { Slot, Stamp } from "./sequences.ts";
import type { SendResult } from "./types.ts";

/** A send() that waits for its batch. */
export interface BatchWaiter {
  resolve(result: SendResult): void;
  reject(error: OttlaError): void;
  /** Position of its record in the batch. */
  index: number;
  /** Which flush() has to wait for it. */
  readonly generation: Generation;
}

/**
 * open: takes records. sealed: its bytes are made, it waits to be sent, for the first time or again. in-flight: a request carries it.
 * settled: its fate was told; an answer that comes later changes nothing.
 */
export type BatchState = "open" | "sealed" | "in-flight" | "settled";

export class ProduceBatch {
  /** Another one once it was moved to a partition with a leader. */
  lane: Lane;
  /** Within the producer, thus within the lane. */
  readonly order: number;
  readonly createdMs: number;
  readonly generation: Generation;
  /** Its builder has the producer's batch size and is used again. */
  readonly isUsual: boolean;
  state: BatchState = "open";
  /** Open: full, lingered long enough, or flushed. */
  isDue = false;
  /** While open, and while its buffer holds `bytes`. */
  builder: RecordBatchBuilder | undefined;
  /** From sealing on. */
  bytes: Uint8Array | undefined;
  /** The numbers in `bytes`. */
  stamp: Stamp | undefined;
  /** Its place among the numbered batches of its lane, from the first sending on. */
  slot: Slot<ProduceBatch> | undefined;
  /** The request that carries it. An answer to an earlier one that was left changes nothing, unless it says that the batch is there. */
  request: object | undefined;
  /** Of the topic that it was sent to last. */
  topicId: string | undefined;
  recordCount = 0;
  /** Uncompressed; what the buffer's bound counts. */
  sizeBytes = 0;
  hasEnqueued = false;
  /** A record of it has a key, or was given its partition: it belongs here and nowhere else. */
  isBound = false;
  readonly waiters: BatchWaiter[] = [];
  alarm: Alarm | undefined;
  attempts = 0;
  /** Under way for so long that later ones of its lane do not wait for it any more. */
  isGivenUp = false;

  constructor(
    lane: Lane,
    options: {
      readonly order: number;
      readonly createdMs: number;
      readonly generation: Generation;
      readonly builder: RecordBatchBuilder;
      readonly isUsual: boolean;
    },
  ) {
    this.lane = lane;
    this.order = options.order;
    this.createdMs = options.createdMs;
    this.generation = options.generation;
    this.builder = options.builder;
    this.isUsual = options.isUsual;
  }

  /** An attempt of it may be in the log, or may still get there. */
  get isDoubtful(): boolean {
    return this.state === "in-flight" || this.slot?.isDoubtful === true;
  }
}
