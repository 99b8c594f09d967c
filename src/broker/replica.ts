// One partition hosted here: its log, its core, and who waits for it.
import { EMPTY_BYTES } from "../base/bytes.ts";

import type { ErrorName, Outcome } from "../model/errors.ts";
import { PartitionCore } from "../replication/partition-core.ts";
import type { CoreSettings, PartitionRecord, WaitingProduce } from "../replication/types.ts";
import type { ReplicaLog } from "../storage/types.ts";
import type { TopicLimits } from "./effective-configs.ts";

/** One batch of a produce request: the core's token. */
export class ProduceEntry {
  readonly onAnswer: (entry: ProduceEntry, answer: ProduceAnswer) => void;
  readonly index: number;
  /** Given up when the log has taken it, which pins it itself. */
  batch: Uint8Array;
  replica: Replica | undefined;
  waiting: WaitingProduce<ProduceEntry> | undefined;
  /** The log has it already (P-2). */
  isDuplicate = false;

  constructor(index: number, batch: Uint8Array, onAnswer: (entry: ProduceEntry, answer: ProduceAnswer) => void) {
    this.index = index;
    this.batch = batch;
    this.onAnswer = onAnswer;
  }

  releaseBatch(): Uint8Array {
    const batch = this.batch;
    this.batch = EMPTY_BYTES;
    return batch;
  }
}

export interface ProduceAnswer {
  readonly error: ErrorName;
  readonly outcome: Outcome;
  readonly baseOffset: number | undefined;
  readonly message: string | null;
}

/** Told when the high watermark of a partition moved, or when the partition is gone. */
export interface HighWatermarkWaiter {
  onMoved(replica: Replica): void;
}

/** Who waits for the log start here, or on the followers, or for what has to come before it is raised. */
export interface LogStartWaiter {
  onStepped(replica: Replica): void;
}

export class Replica {
  readonly topicName: string;
  /** Another one after the log was dropped and begun anew: never kept over a turn. */
  log: ReplicaLog;
  readonly core: PartitionCore<ProduceEntry>;
  /** Of the configuration as last applied. */
  limits: TopicLimits;
  /** The metadata's word that the core was last given; undefined in stand-by. */
  record: PartitionRecord | undefined;
  /** Why it may neither lead nor follow; undefined when nothing is wrong but what the log itself tells. */
  coreDamage: string | undefined;
  /** Operations of the log under way that change its ends or epochs: no role begins before they have ended. */
  busy: Promise<void> | undefined;
  isDropped = false;
  /** The effects of an event are being carried out: the next event comes after them. */
  isStepping = false;
  readonly waiters = new Set<HighWatermarkWaiter>();
  /** Looked at after each step: of few, for seconds. */
  readonly startWaiters = new Set<LogStartWaiter>();
  /** Bytes ever accepted here: how much may have come since a reader looked. */
  acceptedBytes = 0;
  /** True while its wake-up of this turn is pending. */
  isWakePending = false;

  constructor(parts: {
    readonly settings: CoreSettings;
    readonly topicName: string;
    readonly log: ReplicaLog;
    readonly limits: TopicLimits;
  }) {
    this.topicName = parts.topicName;
    this.log = parts.log;
    this.limits = parts.limits;
    this.core = new PartitionCore<ProduceEntry>(parts.settings);
  }

  /** Why it takes and gives nothing, for people (D-17). */
  get damage(): string | undefined {
    return this.log.damage?.reason ?? this.coreDamage;
  }
}
