// What storage/ promises to the broker: one store per data directory, one replica log per partition hosted on it.
// Everything here is told in events, never with a promise per append.
import type {
  ClusterId,
  DirectoryId,
  LeaderEpoch,
  LogId,
  NodeId,
  Offset,
  PartitionIndex,
  TopicId,
} from "../model/ids.ts";
import type { OttlaError } from "../model/errors.ts";
import type { ProducerTable } from "../model/producer-table.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Clock } from "../ports/clock.ts";
import type { Codecs } from "../ports/codecs.ts";
import type { Entropy } from "../ports/entropy.ts";
import type { Files } from "../ports/files.ts";
import type { Logger } from "../ports/logger.ts";
import type { Metrics } from "../ports/metrics.ts";
import type { Timers } from "../ports/timers.ts";

export interface StorageDeps {
  readonly files: Files;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly checksum: Checksum;
  readonly codecs: Codecs;
  readonly entropy: Entropy;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** The kernel's boot id: equal to the stored one means that the page cache survived (D-6). */
  readonly bootId: string;
}

/** The broker's configuration keys that storage uses, plus who owns the directory. */
export interface StorageConfig {
  readonly directory: string;
  readonly nodeId: NodeId;
  /** Refuse a directory of another cluster, and to become part of one; undefined takes what it says. */
  readonly clusterId: ClusterId | undefined;
  readonly segmentBytes: number;
  readonly indexIntervalBytes: number;
  readonly journalBytes: number;
  readonly checkpointIntervalMs: number;
  readonly journalPinnedBytes: number;
  readonly tailCacheBytes: number;
  readonly diskLowSpaceBytes: number;
  readonly diskReserveBytes: number;
  readonly openFilesMax: number;
  /** Undefined: nothing is compacted and nothing scrubbed. */
  readonly maintenance?: MaintenanceConfig | undefined;
}

/** What a store does with its segments by itself, at which pace. */
export interface MaintenanceConfig {
  readonly cleanerBackoffMs: number;
  readonly cleanerDedupeBytes: number;
  readonly cleanerBytesPerSecond: number;
  readonly scrubPeriodMs: number;
  readonly scrubBytesPerSecond: number;
}

/** What a start found (D-6). "first": the directory was empty. */
export type RestartKind = "first" | "clean" | "process-death" | "power-loss";

export interface StoreIdentity {
  /** Null until `adoptCluster`: this disk belongs to no cluster yet (D-20). */
  readonly clusterId: ClusterId | null;
  readonly nodeId: NodeId;
  readonly directoryId: DirectoryId;
}

export interface LogSpec {
  readonly topicId: TopicId;
  readonly topic: string;
  readonly partition: PartitionIndex;
  /** Overrides of the store's values. */
  readonly segmentBytes?: number;
  readonly indexIntervalBytes?: number;
}

/** Completions, in the order of the log. `truncations` counts the log's truncations: an event of an older count is void (D-34). */
export interface StoreListener {
  /** The journal write of everything below `endOffset` returned: it survives a killed process. */
  onWritten(log: ReplicaLog, endOffset: Offset, truncations: number): void;
  /** Everything below `endOffset` was written before an fdatasync that succeeded: it survives a power loss. */
  onDurable(log: ReplicaLog, endOffset: Offset, truncations: number): void;
  /** The disk had no room: everything from `fromOffset` on was not appended, and no trace of it is left. The log ends there again. */
  onRefused(log: ReplicaLog, fromOffset: Offset, truncations: number): void;
  /** `log.damage` is set from here on (D-17). Told once a log; not of damage that the start found. */
  onDamaged(log: ReplicaLog): void;
  /** `hasRoom` or `isLowOnSpace` changed. */
  onRoomChanged(): void;
  /** The disk failed a write or a sync: stop the process, answer nothing any more (D-13). Called once. */
  onDiskFailed(error: OttlaError): void;
}

export interface LogStore {
  /** Node id and directory id are durable once the store is open. */
  readonly identity: StoreIdentity;
  readonly restart: RestartKind;
  /** The last one stored (D-6). */
  readonly brokerEpoch: number | null;
  /** Once only, to the same id again is nothing. Resolves when durable; DATA_DIR_FOREIGN when the disk, or the configuration, is of another cluster. */
  adoptCluster(clusterId: ClusterId): Promise<void>;
  /** Resolves when durable. Epochs rise. */
  storeBrokerEpoch(epoch: number): Promise<void>;
  /** False while the pinned bytes are at their bound: hand no more appends until `onRoomChanged`. */
  readonly hasRoom: boolean;
  /** True while free space is below the mark: refuse produce. */
  readonly isLowOnSpace: boolean;
  readonly logs: Iterable<ReplicaLog>;
  find(topicId: TopicId, partition: PartitionIndex): ReplicaLog | undefined;
  /** Must be called once before the first append. */
  listen(listener: StoreListener): void;
  /** Creates an empty log, or returns the one that exists. Rejects when the disk is full or failed. Resolves when durable. */
  createLog(spec: LogSpec): Promise<ReplicaLog>;
  /**
   * D-17: a log of nobody (isNobodys) in the directory of a partition that should have one and has none may be all that is left of it: it is that
   * partition's from here on, damaged as it is. What the next start does not know again is adopted again.
   */
  adoptLog(log: ReplicaLog, topicId: TopicId): void;
  /** Drops the log and its files. Resolves when its DELETE is durable; the files go after that. Reads under way end with STORAGE_ERROR. */
  deleteLog(log: ReplicaLog): Promise<void>;
  /**
   * Drops the log with all that it holds, damaged or not, and makes it anew: empty from `fromOffset` on, under another log id, with the settings of
   * its spec (D-17, R-17). Resolves when durable; `find` gives nothing meanwhile. A crash on the way leaves the old log whole, or none, or the new
   * one. Rejects like `createLog`; the log may be gone then, and `createLog` makes it again.
   */
  resetLog(log: ReplicaLog, fromOffset: Offset): Promise<ReplicaLog>;
  /** Another file of this disk failed (D-13): nothing is written any more, and `close` leaves what a crash would leave. */
  giveUp(error: OttlaError): void;
  /** Syncs, checkpoints, writes the clean marker, releases the lock. Always ends; a failure leaves what a crash would leave. */
  close(): Promise<void>;
}

/** Why a log cannot be used, for people and errors. */
export interface Damage {
  readonly reason: string;
  /** First offset that is not proven; undefined when not known. */
  readonly fromOffset: Offset | undefined;
}

/** [base, endOffset) */
export interface OffsetRange {
  readonly base: Offset;
  readonly endOffset: Offset;
}

/** Segments of a damaged log being made anew. Ends with `finish` or `giveUp`; after a rejection, with `giveUp`. */
export interface LogRepair {
  /** What is needed next, of what the leader has committed; undefined: all is there. */
  readonly nextOffset: Offset | undefined;
  /** Batches of the partition, from the one that holds `nextOffset` on. Rejects with STORAGE_ERROR when they cannot be those. */
  take(batches: Uint8Array): Promise<void>;
  /** True: the log is whole again, durably. False: it is damaged as before. */
  finish(): Promise<boolean>;
  giveUp(): Promise<void>;
}

export interface EpochEntry {
  readonly epoch: LeaderEpoch;
  /** First offset of the epoch. */
  readonly startOffset: Offset;
}

export interface ReplicaLog {
  readonly logId: LogId;
  readonly topicId: TopicId;
  readonly topic: string;
  readonly partition: PartitionIndex;
  readonly startOffset: Offset;
  /** Accepted: where the next batch goes. writtenEnd <= endOffset, durableEnd <= writtenEnd. */
  readonly endOffset: Offset;
  readonly writtenEnd: Offset;
  readonly durableEnd: Offset;
  readonly truncations: number;
  /** Oldest first, both columns strictly increasing. */
  readonly epochs: readonly EpochEntry[];
  /**
   * Found at the start, or met since by a read, a cut or a page that the disk does not give (D-17). A damaged log takes and gives nothing, and stays
   * damaged until `resetLog` or `deleteLog`; the others go on.
   */
  readonly damage: Damage | undefined;
  /**
   * As noted last, never above `endOffset`; after a start what the journal or the last checkpoint knew, if the epochs still agree with it (D-7), else
   * the log start. Only a truncation lowers it.
   */
  readonly highWatermark: Offset;
  /**
   * D-15: after a start of exactly what the log holds, and safe to be taken back to the high watermark at least. From then on the caller's: it observes
   * what it appends and truncates with the log, in the same turn; the store only reads it, for images. Says nothing of a damaged log.
   */
  readonly producers: ProducerTable;
  /** D-17: the way to end the damage without dropping the log; undefined: there is none. */
  beginRepair(): LogRepair | undefined;
  /** In memory; goes to the journal with what is written next, or within 50 ms. Nobody waits for it. */
  noteHighWatermark(offset: Offset): void;
  /**
   * Takes one record batch, or a run of them in one piece, whose first base offset is `endOffset` and whose epoch is `epoch`, without a gap (all
   * already in their headers; the bytes must not change any more). A run costs about what one batch does. Opens the epoch when it is new, in the
   * same journal record (D-2).
   */
  append(batches: Uint8Array, lastOffset: Offset, epoch: LeaderEpoch): void;
  /** Opens an epoch at `endOffset` before any append of it. Resolves when durable. */
  startEpoch(epoch: LeaderEpoch): Promise<void>;
  /**
   * Cuts everything from `toOffset` on and forgets the epochs that start there or later, also when there is nothing to cut. An offset within a
   * batch cuts that batch whole: `endOffset` tells. Must not run beside appends of this log; other logs do not wait for it. Resolves when durable.
   */
  truncate(toOffset: Offset): Promise<void>;
  /** Raises the log start, which whoever reads sees at once. Resolves when durable; the files go after that. */
  advanceStart(toOffset: Offset): Promise<void>;
  /**
   * Whole batches from the one that holds `offset` on, all below `limitOffset`, at most `maxBytes`; the first batch comes whole even when
   * larger if `atLeastOne`. Synchronous when memory holds them. Rejects with OttlaError STORAGE_ERROR on damage met, checked by CRC.
   */
  read(offset: Offset, options: ReadOptions): ReadResult | Promise<ReadResult>;
  /** A read from here on needs no disk. */
  isInMemory(offset: Offset): boolean;
  /** For what is written from now on; not durable. A batch taken before that is longer than a segment gets one of its own. */
  configure(settings: LogSettings): void;
  /** The segment files of now, oldest first, without a gap; those below the log start that are about to go may be among them. */
  segmentViews(): readonly SegmentView[];
  /** First record with timestamp >= `timestamp` and offset < limitOffset. */
  findTimestamp(timestamp: number, limitOffset: Offset): Promise<TimestampResult | undefined>;
}

/** What is known of a segment without opening a file. */
export interface SegmentView {
  readonly base: Offset;
  /** Exclusive; of the last one what its file holds, so batches may be above it. */
  readonly endOffset: Offset;
  readonly sizeBytes: number;
  /** -1 when no batch has a timestamp. */
  readonly maxTimestamp: number;
  /** Wall clock when it was begun. */
  readonly createdMs: number;
}

/** Of a topic, as the configuration keys of these names say. */
export interface LogSettings {
  readonly segmentBytes: number;
  readonly indexIntervalBytes: number;
  readonly segmentMs: number;
  readonly segmentJitterMs: number;
  readonly segmentIndexBytes: number;
  /** Bits of CLEANUP. */
  readonly cleanupPolicy: number;
  readonly deleteRetentionMs: number;
  readonly minCleanableDirtyRatio: number;
  readonly minCompactionLagMs: number;
  readonly maxCompactionLagMs: number;
}

export interface ReadOptions {
  /** For who has everything below `offset`: an empty batch that reaches across it (compaction has put several together) is given from there on. */
  readonly isFollowing?: boolean;
  readonly limitOffset: Offset;
  readonly maxBytes: number;
  readonly atLeastOne: boolean;
  /** Awaited when the disk has answered, before what it gave is checked: that holds the loop. */
  readonly turn?: (() => Promise<void> | undefined) | undefined;
}

export interface ReadResult {
  /** Runs of whole batches, in order; empty when nothing is readable. */
  readonly chunks: readonly Uint8Array[];
  readonly sizeBytes: number;
  /** Where to read on: one past the last batch given, or the asked offset. */
  readonly nextOffset: Offset;
  /**
   * The memory of the chunks is used again after this call: for whoever knows that nobody looks at them any more. Never called, they stay what they are.
   * Undefined: others look at them too.
   */
  readonly release?: () => void;
}

export interface TimestampResult {
  readonly offset: Offset;
  readonly timestamp: number;
  readonly epoch: LeaderEpoch;
}
