// What a client process of a run is told when it is started, and what it tells.
import type { Acks } from "../../client/types.ts";
import type { CompressionName } from "../../ports/codecs.ts";

export interface LoadRole {
  readonly kind: "load";
  /** One of these for each record. */
  readonly acks: readonly Acks[];
  readonly recordsPerSecond: number;
  readonly valueBytesMax: number;
  readonly lingerMs: number;
  readonly batchBytes: number;
  readonly compression: CompressionName;
  readonly deliveryTimeoutMs: number;
  readonly requestTimeoutMs: number;
  /** A named producer: the next life of its process fences this one (24). */
  readonly isNamed: boolean;
  /** Sends not yet settled, of all partitions and of one; those that are due beyond are left out. Default 512 and 128. */
  readonly outstandingMax?: number;
  readonly partitionOutstandingMax?: number;
}

export interface ReaderRole {
  readonly kind: "reader";
  /** Between these two, a session of reading lasts. */
  readonly sessionMs: readonly [number, number];
  /** How many of the sessions read all from the start. */
  readonly rereadChance: number;
}

export interface MetadataRole {
  readonly kind: "metadata";
  /** Mean pause between two operations. */
  readonly thinkMs: number;
  readonly nodes: readonly number[];
}

export type ClientRole = LoadRole | ReaderRole | MetadataRole;

export interface TopicSpec {
  readonly name: string;
  readonly partitions: number;
}

export interface ClientOrder {
  /** Of this life: `load-1`, `load-1/1`. */
  readonly process: string;
  /** The process over all its lives, and the number of this one. */
  readonly name: string;
  readonly life: number;
  readonly brokers: readonly string[];
  readonly historyFile: string;
  /** Numbers of operations from here on are this life's. */
  readonly firstOperation: number;
  readonly seed: number;
  readonly topics: readonly TopicSpec[];
  readonly role: ClientRole;
}

/** Operations of one life, at most. */
export const OPERATIONS_PER_LIFE = 100_000_000;

/** The count of records that a partition has acknowledged. */
export const acknowledgedBy = (topic: string, partition: number): string => `acknowledged by ${topic}-${partition}`;

export type Counts = Readonly<Record<string, number>>;

export type FromClient =
  /** Some times a second; what it has done since its start. */
  | { readonly kind: "counts"; readonly counts: Counts }
  /** A bug: of the client library or of this program. It ends then. */
  | { readonly kind: "bug"; readonly message: string };

/** All it has under way is to end, then the process. */
export interface ToClient {
  readonly kind: "stop";
}
