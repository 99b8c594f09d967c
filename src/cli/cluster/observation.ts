// What one look at a cluster saw: each node as it answered for itself, and the topics as one of them knows them.
import type { DescribeQuorumResponse } from "../../wire/native/quorum-apis.ts";

/** What /readyz says. A node low on space is ready, for it serves reads, but not well. */
export interface Readiness {
  readonly ready: boolean;
  readonly checks: Readonly<Record<string, string>>;
}

export interface NodeObservation {
  /** -1: it answers nothing, and nobody else knows who it is. */
  readonly nodeId: number;
  /** host:port. */
  readonly address: string;
  /** Null: no answer. */
  readonly readiness: Readiness | null;
  /** What it knows of the metadata quorum; null: it says nothing of it. */
  readonly quorum: DescribeQuorumResponse | null;
  /** As registered; null: not registered as far as anybody says. */
  readonly isFenced: boolean | null;
}

/** Partitions that want for something; the first few by name, since there may be thousands. */
export interface PartitionTrouble {
  readonly count: number;
  readonly examples: readonly string[];
}

export interface NodeShare {
  readonly leaders: number;
  readonly replicas: number;
  /** Of those replicas, the ones in sync. */
  readonly inSync: number;
}

export interface TopicTally {
  readonly topics: number;
  readonly partitions: number;
  /** Without a leader until a node is up. */
  readonly offline: PartitionTrouble;
  /** Without a leader, and without a replica that has all that was acknowledged. */
  readonly lost: PartitionTrouble;
  /** With fewer replicas in sync than a write needs. */
  readonly belowMinIsr: PartitionTrouble;
  readonly underReplicated: PartitionTrouble;
  /** With the error that the partition's leader tells of. */
  readonly faulty: PartitionTrouble;
  readonly shares: ReadonlyMap<number, NodeShare>;
}

export interface ClusterObservation {
  readonly clusterId: string | null;
  /** -1 = none known. */
  readonly controllerId: number;
  /** In ascending order of the ids. */
  readonly nodes: readonly NodeObservation[];
  /** Null: no node could say. */
  readonly topics: TopicTally | null;
}

export const NOTHING_SEEN: ClusterObservation = { clusterId: null, controllerId: -1, nodes: [], topics: null };
