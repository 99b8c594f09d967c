// What replication takes from the rest of the broker, and what it is told. `Replication` (replication.ts) carries bytes and offsets between
// brokers; it decides nothing: cores do. It never touches a log but to read from it.
import type { Deadlines } from "../../base/deadlines.ts";
import type { NodeId, TopicId } from "../../model/ids.ts";
import type { Checksum } from "../../ports/checksum.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Logger } from "../../ports/logger.ts";
import type { Counter } from "../../ports/metrics.ts";
import type { Eligible, PartitionEffect, PartitionEvent } from "../../replication/types.ts";
import type { AlterPartitionRequest, AlterPartitionResponse } from "../../wire/native/replication-apis.ts";
import type { PeerLinks } from "../quorum/peers.ts";
import type { ProduceEntry, Replica } from "../replica.ts";

type Event = PartitionEvent<ProduceEntry>;
type Effect = PartitionEffect<ProduceEntry>;

/** The effects of a core that replication carries out; ReplicaManager hands them over in the order in which the core gave them. */
export type StreamEffect = Extract<Effect, { kind: "fetch" | "report" | "propose-isr" }>;
/** What a core says to a follower's position. */
export type FetchVerdict = Extract<Effect, { kind: "fetch-verdict" }>;
/** What replication tells cores. */
export type StreamEvent = Extract<
  Event,
  { kind: "follower-fetch" | "durable-report" | "session-ended" | "session-started" | "fetched" | "isr-change-refused" }
>;

/** What this broker does with a partition, as of the step just made. */
export type PartitionRole = "leader" | "follower" | "none";

/** ReplicaManager, as far as replication needs it. */
export interface ReplicaHost {
  find(topicId: TopicId, partition: number): Replica | undefined;
  /** Steps the core and carries the effects out; the verdict of a `follower-fetch` is given back. */
  step(replica: Replica, event: StreamEvent): FetchVerdict | undefined;
}

/** The active controller, wherever it is; rejects with an OttlaError. */
export interface IsrController {
  alterPartition(request: AlterPartitionRequest): Promise<AlterPartitionResponse>;
}

export interface ReplicationDeps {
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly logger: Logger;
  readonly checksum: Checksum;
  /** Bytes of batches sent to followers, and got from leaders. */
  readonly counters: { readonly bytesOut: Counter; readonly bytesIn: Counter };
  /** Connections for bulk: never those that Raft and heartbeats use (D-24). Closed by their owner, after `Replication.stop`. */
  readonly links: PeerLinks;
  readonly replicas: ReplicaHost;
  readonly controller: IsrController;
  /** Runs the work in a later turn; what it throws is a defect. */
  readonly defer: (work: () => void) => void;
  /** Runs the work now; what it throws is a defect. */
  readonly guard: (work: () => void) => void;
  /** Of this broker's registration as applied; null = none yet, and nothing is fetched. */
  brokerEpoch(): number | null;
  /** Of another broker's registration as applied, fenced or not; undefined = not registered. */
  brokerEpochOf(nodeId: NodeId): number | undefined;
  /** Unfenced brokers and their epochs: one immutable map for each change of the image. */
  eligible(): Eligible;
  /** LogStore.hasRoom: while false nothing is asked for. */
  hasRoom(): boolean;
}

export interface ReplicationSettings {
  readonly nodeId: NodeId;
  /** replica.fetch.wait.max.ms */
  readonly waitMaxMs: number;
  /** replica.fetch.max.bytes */
  readonly partitionBytesMax: number;
  /** replica.fetch.response.max.bytes */
  readonly responseBytesMax: number;
}

/**
 * The class `Replication` of replication.ts. What its owner owes it:
 *   - `onEffect` for each StreamEffect, in order, inside the step or after it;
 *   - `onRole` after each step that gave the replica a role or a new leader epoch (lead, follow, stand-by), in the same turn;
 *   - `onReadable` when the written end of a partition led here rose, `onHighWatermark` when its mark did, `onLogStart` when its log start did;
 *   - `forget` when the replica is gone from here;
 *   - `onBrokersChanged` when registrations, fences or this broker's epoch changed in the applied metadata, `onRoomChanged` with the store's.
 * Each costs nothing where no other broker takes part.
 */
export interface ReplicationCalls {
  onEffect(replica: Replica, effect: StreamEffect): void;
  onRole(replica: Replica, role: PartitionRole): void;
  onReadable(replica: Replica): void;
  onHighWatermark(replica: Replica): void;
  onLogStart(replica: Replica): void;
  forget(replica: Replica): void;
  onBrokersChanged(): void;
  onRoomChanged(): void;
  /** Nothing is sent, asked or answered any more. */
  stop(): void;
}
