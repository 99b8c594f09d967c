// What clients of a run asked of the metadata, and what they were told. An operation is invoked, then ends in one of four ways;
// which one decides what a checker may conclude, so a wrong one makes a false alarm or hides a loss.

export type ConfigValues = Readonly<Record<string, string>>;

export interface ConfigChange {
  readonly key: string;
  /** null: back to the default. */
  readonly value: string | null;
}

/** All go through the controller; reads with a read barrier. */
export type MetadataWish =
  | { readonly kind: "create topic"; readonly topic: string; readonly configs: ConfigValues }
  | { readonly kind: "delete topic"; readonly topic: string }
  | { readonly kind: "describe topic"; readonly topic: string }
  /** Every topic of the run. */
  | { readonly kind: "list topics" }
  | { readonly kind: "alter topic configs"; readonly topic: string; readonly changes: readonly ConfigChange[] }
  /** Broker: a node id, or "" for the default of the whole cluster. */
  | { readonly kind: "alter broker configs"; readonly broker: string; readonly changes: readonly ConfigChange[] }
  | { readonly kind: "describe broker configs"; readonly broker: string }
  | { readonly kind: "raise metadata version"; readonly version: number }
  | { readonly kind: "describe metadata version" };

/** A topic as it was described. `configs` holds what was set, not defaults. */
export interface TopicSeen {
  readonly topic: string;
  readonly topicId: string;
  readonly isDeleting: boolean;
  readonly configs: ConfigValues;
}

export type MetadataResult =
  | { readonly kind: "done" }
  | { readonly kind: "created"; readonly topicId: string }
  /** Those that exist of what was asked for. */
  | { readonly kind: "topics"; readonly topics: readonly TopicSeen[] }
  | { readonly kind: "configs"; readonly configs: ConfigValues }
  | { readonly kind: "version"; readonly version: number };

export interface MetadataInvoked {
  readonly type: "metadata invoked";
  readonly timeMs: number;
  readonly operation: number;
  readonly process: string;
  readonly wish: MetadataWish;
}

export interface MetadataOk {
  readonly type: "metadata ok";
  readonly timeMs: number;
  readonly operation: number;
  readonly result: MetadataResult;
}

/** Said no because of the state it found: an answer as binding as a yes. */
export interface MetadataRefused {
  readonly type: "metadata refused";
  readonly timeMs: number;
  readonly operation: number;
  readonly code: string;
}

export interface MetadataGivenUp {
  /** Failed: certainly not done, for a reason that says nothing about the state. Unknown: done now, later or never. */
  readonly type: "metadata failed" | "metadata unknown";
  readonly timeMs: number;
  readonly operation: number;
  readonly reason: string;
}

/** What one node's own image said, without a read barrier: it may be old, but never wrong. */
export interface MetadataSeen {
  readonly type: "metadata seen";
  readonly invokedMs: number;
  readonly timeMs: number;
  readonly process: string;
  readonly node: number;
  /** The image had applied the metadata log up to here. */
  readonly metadataEnd: number;
  /** What was asked for; the rest of these exist not. */
  readonly asked: readonly string[];
  readonly topics: readonly TopicSeen[];
}

/** From now on nothing breaks any more; these nodes live. */
export interface MetadataHealed {
  readonly type: "metadata healed";
  readonly timeMs: number;
  readonly nodes: readonly number[];
}

/** A record of the metadata workload was acknowledged by, or read from, a topic's incarnation of this id. */
export interface MarkMet {
  readonly type: "mark acknowledged" | "mark read";
  readonly timeMs: number;
  readonly process: string;
  readonly topic: string;
  readonly topicId: string;
  readonly partition: number;
  readonly offset: number;
  /** Unique in the run. */
  readonly mark: string;
}

export type MetadataEvent =
  | MetadataInvoked
  | MetadataOk
  | MetadataRefused
  | MetadataGivenUp
  | MetadataSeen
  | MetadataHealed
  | MarkMet;
