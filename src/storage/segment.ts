// One segment of a log: what a checkpoint image says of it, and what is known of its files while the store is open.
import type { OffsetIndex } from "./offset-index.ts";
import { type IndexCheck, NO_ENTRIES } from "./saved-entries.ts";
import type { SegmentIdentity } from "./segment-identity.ts";
import type { TimeIndex } from "./time-index.ts";

/** What a checkpoint image says of a segment. */
export interface SegmentState {
  readonly base: number;
  readonly sizeBytes: number;
  /** -1 when no batch has a timestamp. */
  readonly maxTimestamp: number;
  /** The largest of a batch that has records, which compaction may have taken from others; -1: none has one. */
  readonly newestTimestamp: number;
  /** Last offset, relative to the base, of the first batch that is of it; -1: there is none. */
  readonly newestRelative: number;
  /** Of its first batch; -1 when it has none. A roll by time counts from it (S-7 b). */
  readonly firstTimestamp: number;
  /** Wall clock when it was begun: stands in where records have no timestamps. */
  readonly createdMs: number;
  /** Chained hash of all its batches (D-16); -1: not known, so it is checked against a peer. */
  readonly chain: number;
  /** Entries of the offset index, of the batches in `sizeBytes`; the file may have more. */
  readonly indexCheck: IndexCheck;
  readonly timesCheck: IndexCheck;
  /** This checkpoint puts another file in its place, which has the suffix .cleaned until it is renamed: a start ends that first. */
  readonly isSwapped: boolean;
}

/** What a new segment is; the rest it gets with its batches. */
export function newSegmentState(base: number, createdMs: number): SegmentState {
  return {
    base,
    sizeBytes: 0,
    maxTimestamp: -1,
    newestTimestamp: -1,
    newestRelative: -1,
    firstTimestamp: -1,
    createdMs,
    chain: -1,
    indexCheck: NO_ENTRIES,
    timesCheck: NO_ENTRIES,
    isSwapped: false,
  };
}

export interface Segment {
  readonly base: number;
  /** Without the suffix of a file. */
  readonly path: string;
  readonly createdMs: number;
  sizeBytes: number;
  maxTimestamp: number;
  newestTimestamp: number;
  newestRelative: number;
  firstTimestamp: number;
  chain: number;
  indexCheck: IndexCheck;
  timesCheck: IndexCheck;
  /** Something was met in its file that cannot be right, or was not there. */
  isSuspect: boolean;
  /** Undefined: not loaded. */
  identity: SegmentIdentity | undefined;
  /** Undefined: not loaded. */
  index: OffsetIndex | undefined;
  /** Undefined: not loaded. */
  times: TimeIndex | undefined;
  bytesSinceIndexEntry: number;
  /** Written since the last sync. */
  isDirty: boolean;
  /** How often it was cut: what was read of it before says nothing then. */
  cuts: number;
  /** In [0, 1), drawn when it is first looked at: of segment.jitter.ms (S-7 b). */
  jitter: number | undefined;
  /** Looked at since the last checkpoint; the others of old segments leave memory then. */
  isIndexUsed: boolean;
  /** An index in memory is ahead of its file. */
  isIndexDirty: boolean;
}

export function openSegment(path: string, state: SegmentState): Segment {
  const { base, sizeBytes, maxTimestamp, newestTimestamp, newestRelative, firstTimestamp, createdMs, chain } = state;
  return {
    base,
    path,
    createdMs,
    sizeBytes,
    maxTimestamp,
    newestTimestamp,
    newestRelative,
    firstTimestamp,
    chain,
    indexCheck: state.indexCheck,
    timesCheck: state.timesCheck,
    isSuspect: false,
    identity: undefined,
    index: undefined,
    times: undefined,
    bytesSinceIndexEntry: 0,
    isDirty: false,
    cuts: 0,
    jitter: undefined,
    isIndexUsed: false,
    isIndexDirty: false,
  };
}

export function stateOf(segment: Segment): SegmentState {
  const { base, sizeBytes, maxTimestamp, newestTimestamp, newestRelative, firstTimestamp, createdMs, chain } = segment;
  const { indexCheck, timesCheck } = segment;
  return {
    base,
    sizeBytes,
    maxTimestamp,
    newestTimestamp,
    newestRelative,
    firstTimestamp,
    createdMs,
    chain,
    indexCheck,
    timesCheck,
    isSwapped: false,
  };
}
