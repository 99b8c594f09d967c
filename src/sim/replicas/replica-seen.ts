// What is known of one replica of a partition, from what its broker says of it.
import type { NodeId } from "../../model/ids.ts";
import type { PartitionRecord } from "../../replication/types.ts";
import type { Lineage } from "./lineage.ts";

/** What a replica had when a planted fault took it. */
export interface LostLog {
  readonly lineage: Lineage;
  readonly startOffset: number;
  readonly durableEnd: number;
  /** From this partition epoch on no record counts it: a leader that has an older one goes by what was reported of it. Infinity: the metadata does not know. */
  countedBefore: number;
}

/** What is known of one replica: a node on one disk. */
export interface ReplicaSeen {
  readonly node: NodeId;
  lineage: Lineage;
  startOffset: number;
  /** Handed to its log. */
  endOffset: number;
  /** What it took for durable: never less after a restart. */
  durableEnd: number;
  /** What it knows to be committed; falls to what it stored when it restarts. */
  highWatermark: number;
  /** Its newest record of the partition in this life. */
  record: PartitionRecord | undefined;
  /** The epoch that it leads in now. */
  leads: number | undefined;
  /** Its disk was lost or is damaged, and the metadata may still count on it, or admit it by a proposal of before. */
  isInDoubt: boolean;
  /** Its log is not what it was, and not yet another one: where its core stands says nothing. */
  isGone: boolean;
  /** A log of this node has, or may have, ranges as another's compaction left them. For ever: an old disk may bring it back. */
  hasCompacted: boolean;
  /** Bound: the faults that were planted. */
  readonly lostLogs: LostLog[];
}

export interface LogFound {
  readonly startOffset: number;
  readonly endOffset: number;
  readonly durableEnd: number;
  readonly epochs: readonly { readonly epoch: number; readonly startOffset: number }[];
  readonly highWatermark: number;
}

/** Of which nothing is known yet. */
export function newReplicaSeen(node: NodeId): ReplicaSeen {
  return {
    node,
    lineage: [],
    startOffset: 0,
    endOffset: 0,
    durableEnd: 0,
    highWatermark: 0,
    record: undefined,
    leads: undefined,
    isInDoubt: false,
    isGone: false,
    hasCompacted: false,
    lostLogs: [],
  };
}
