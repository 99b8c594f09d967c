// What looking at the files of a stopped node finds.
import type { Checksum } from "../ports/checksum.ts";
import type { Files } from "../ports/files.ts";
import type { QuorumState } from "./quorum-state.ts";
import type { StoredSnapshotMeta } from "./raft-types.ts";

export interface InspectDeps {
  readonly files: Files;
  readonly checksum: Checksum;
}

/** One batch as it lies in a file; its CRC was checked. */
export interface BatchSummary {
  readonly position: number;
  readonly sizeBytes: number;
  readonly baseOffset: number;
  readonly lastOffset: number;
  readonly leaderEpoch: number;
  readonly recordCount: number;
  readonly maxTimestamp: number;
  readonly isControl: boolean;
  /** Of a compacted batch with records that delete their key: from when on they may go, since 1970 (S-37). */
  readonly deleteHorizonMs?: number | undefined;
  /** Of a control batch that speaks of producers: of how many, and what becomes of them. */
  readonly told?: { readonly kind: "carried" | "expired"; readonly producers: number } | undefined;
  /** -1: the batch has no producer; so for the next two. */
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
  /** "unknown" for a codec that does not exist. */
  readonly codec: string;
}

export interface Fault {
  readonly file: string;
  /** Byte in the file, where it can be told. */
  readonly position: number | undefined;
  /** First offset that is not proven good; undefined when the fault is not about records. */
  readonly offset: number | undefined;
  readonly reason: string;
}

export interface LogReport {
  readonly file: string;
  readonly baseOffset: number;
  /** Exclusive end of the good batches. */
  readonly endOffset: number;
  readonly batchCount: number;
  readonly recordCount: number;
  /** Bytes of good batches. */
  readonly sizeBytes: number;
  /** Bytes behind them that nothing proves: a torn tail, or what recovery will write again. Not a fault. */
  readonly tailBytes: number;
  readonly faults: readonly Fault[];
}

export interface SnapshotReport {
  readonly file: string;
  /** Undefined when its head is damaged. */
  readonly meta: StoredSnapshotMeta | undefined;
  readonly faults: readonly Fault[];
}

/** What a metadata directory holds besides its log. */
export interface MetadataReport {
  /** Undefined when it is damaged, or not there. */
  readonly state: QuorumState | undefined;
  /** Oldest first. */
  readonly snapshots: readonly SnapshotReport[];
}

/** What a start passes over and makes good. */
export interface Remark {
  readonly file: string;
  readonly position: number;
  readonly reason: string;
}

export interface DirectoryReport {
  readonly kind: "partition" | "metadata" | "data directory";
  readonly directory: string;
  readonly logs: readonly LogReport[];
  /** Of a metadata directory, or of the one in a data directory. */
  readonly metadata: MetadataReport | undefined;
  /** What is wrong with neither a log's file nor a snapshot. */
  readonly faults: readonly Fault[];
  /** Not faults: a crash leaves the like, and nothing is missing. Rot does, too. */
  readonly remarks: readonly Remark[];
}

/** All faults of the report, the first one first. */
export function faultsOf(report: Omit<DirectoryReport, "kind" | "remarks">): Fault[] {
  const snapshots = report.metadata?.snapshots ?? [];
  return [...report.faults, ...report.logs.flatMap((log) => log.faults), ...snapshots.flatMap((each) => each.faults)];
}
