// What goes into a partition core and what comes out of it. Events tell what happened, effects what the shell has to do, in order.
//
// The core owns the ends and the epoch history of the log from `load` on; the log only carries out and completes (D-34).
import type { ErrorName, Outcome } from "../model/errors.ts";
import type { LeaderEpoch, NodeId, Offset } from "../model/ids.ts";
import type { ToldProducers } from "../model/producer-records.ts";
import type { ProducerTable, SequencedBatch } from "../model/producer-table.ts";

/** 0: no answer. 1: when written by the leader. -1: when the high watermark has passed the batch. */
export type RequiredAcks = -1 | 0 | 1;

/** Where the local log stands. endOffset >= writtenEnd >= durableEnd, all exclusive. */
export interface LogEnds {
  readonly endOffset: Offset;
  readonly writtenEnd: Offset;
  readonly durableEnd: Offset;
  /** Truncations of the log so far: a completion that carries an older count is void (D-34). */
  readonly truncations: number;
}

/** Leader epochs of a log, oldest first, both columns strictly increasing. */
export interface EpochStart {
  readonly epoch: LeaderEpoch;
  readonly startOffset: Offset;
}

/** A partition in the applied metadata: one snapshot, never mixed from two (D-5, R-35). Metadata's partition image is one. */
export interface PartitionRecord {
  readonly leader: NodeId | null;
  readonly leaderEpoch: LeaderEpoch;
  /** Raised by every change of the record. */
  readonly partitionEpoch: number;
  readonly replicas: readonly NodeId[];
  readonly isr: readonly NodeId[];
  readonly elr: readonly NodeId[];
  /** The effective one (D-5). */
  readonly minIsr: number;
  /** Leader epoch of the last unclean election, -1: there was none (D-9). */
  readonly uncleanEpoch: number;
}

/** Unfenced brokers and their broker epochs: one immutable map for each change of the metadata. */
export type Eligible = ReadonlyMap<NodeId, number>;

/** An appended batch whose producer waits. Made by the core; the shell keeps it only to name it in a `deadline` event. */
export interface WaitingProduce<Token> {
  readonly token: Token;
  readonly acks: RequiredAcks;
  readonly baseOffset: Offset;
  /** Exclusive. */
  readonly endOffset: Offset;
  /** True once answered. A settled one may stay in its queue until it reaches the head. */
  isSettled: boolean;
}

/** Whole batches of one epoch from the leader, one after another, their checksums verified (B-18, B-19). */
export interface FetchedBatch<Body> {
  readonly baseOffset: Offset;
  /** Inclusive. */
  readonly lastOffset: Offset;
  readonly epoch: LeaderEpoch;
  /** Those of its batches that have a producer, or speak of producers, in order. */
  readonly sequenced: readonly SequencedBatch[];
  readonly body: Body;
}

/** The leader's history leaves the follower's: the largest epoch that the leader has at or below the asked one, and where it ends. */
export interface Divergence {
  /** -1: the leader's history knows no such epoch. */
  readonly epoch: number;
  readonly endOffset: Offset;
}

/** Of the shell: what became of roles, producers and the log. */
export type LocalEvent<Token> =
  /** The log is open, or is another one now (refetched whole): from here on the core knows its ends. First event; the role is `stand-by`. */
  | {
      readonly kind: "load";
      readonly ends: LogEnds;
      readonly startOffset: Offset;
      readonly epochs: readonly EpochStart[];
      /** As stored, else the log start (D-7). */
      readonly highWatermark: Offset;
      /** Of exactly this log. From here on the core alone changes it. */
      readonly producers: ProducerTable;
    }
  /**
   * The log opened `leaderEpoch` at its end, durably. Always told, also when nothing is led after all: the history has the epoch then.
   * Only in `stand-by`, with no truncation under way.
   */
  | { readonly kind: "epoch-opened"; readonly leaderEpoch: LeaderEpoch }
  /** This replica leads in an epoch that was opened and given to this incarnation (D-1). */
  | { readonly kind: "lead"; readonly record: PartitionRecord; readonly eligible: Eligible; readonly nowMs: number }
  /** Another one leads. Also after `load`, also in an epoch already known; what was asked for before is void. */
  | { readonly kind: "follow"; readonly record: PartitionRecord; readonly nowMs: number }
  /** Same leader epoch, newer partition epoch; an older one is ignored. Commits or drops a pending ISR change. */
  | { readonly kind: "record"; readonly record: PartitionRecord; readonly eligible: Eligible; readonly nowMs: number }
  /** Neither: leaderless, epoch being opened, damaged, deleted. What waits is answered with `error`, outcome unknown. */
  | { readonly kind: "stand-by"; readonly error: ErrorName }
  | {
      readonly kind: "produce";
      readonly token: Token;
      readonly recordCount: number;
      readonly acks: RequiredAcks;
      /** -1 = not checked. */
      readonly leaderEpoch: number;
      /** -1 none; only with acks -1 (D-28). Epoch and sequence are checked with an id alone, and are not negative then. */
      readonly producerId: number;
      readonly producerEpoch: number;
      readonly baseSequence: number;
      /** As in WindowBatch; looked at with an id alone. */
      readonly crc: number;
      /** Its client sent it before, and does not know what became of it. */
      readonly isResent: boolean;
      /** The topic allows acks 0 and 1 below min ISR by name (D-29). */
      readonly allowsBelowMinIsr?: boolean;
    }
  /** The log's journal write returned for everything below `endOffset`. */
  | { readonly kind: "written"; readonly endOffset: Offset; readonly truncations: number }
  /** The log synced everything below `endOffset`. */
  | { readonly kind: "durable"; readonly endOffset: Offset; readonly truncations: number }
  /** The disk had no room: nothing from `fromOffset` on was appended, the log ends there again. `epochs`: the log's, as they are now. */
  | {
      readonly kind: "refused";
      readonly fromOffset: Offset;
      readonly truncations: number;
      readonly epochs?: readonly EpochStart[];
      readonly nowMs?: number;
    }
  /** The request of this batch waits no longer. */
  | { readonly kind: "deadline"; readonly waiting: WaitingProduce<Token> }
  /** `truncate` is durable. */
  | { readonly kind: "truncated"; readonly ends: LogEnds; readonly epochs: readonly EpochStart[] }
  /** `restart-log` is done: the log is empty and begins at `startOffset`. */
  | {
      readonly kind: "restarted";
      readonly ends: LogEnds;
      readonly startOffset: Offset;
      /** The log's new one, empty. */
      readonly producers: ProducerTable;
    }
  /**
   * On the leader: retention, or who deletes records, wants the log to begin at `toOffset`. No further than the high watermark (S-27, S-30); elsewhere
   * nothing.
   */
  | { readonly kind: "raise-start"; readonly toOffset: Offset }
  /**
   * The log start is to be raised to `toOffset`: appends what whoever begins there would not know of producers (D-15). Nothing while below min ISR.
   * `PartitionCore.mayBeginAt` tells when it may be raised. `wallMs` is data, told in the log (D-23); `mayExpire`: false after a jump of that clock.
   */
  | {
      readonly kind: "carry-producers";
      readonly toOffset: Offset;
      readonly wallMs: number;
      readonly mayExpire: boolean;
    }
  /** A `log-start` is durable. */
  | { readonly kind: "start-durable"; readonly startOffset: Offset }
  /** Every 500 ms; may come more often, e.g. when `retryAtMs` has passed. */
  | { readonly kind: "tick"; readonly eligible: Eligible; readonly nowMs: number };

/** On the leader, of its followers. A session is one connection of one follower's incarnation: (brokerEpoch, sessionId) only rises. */
export type LeaderEvent =
  /** The follower asks for what follows `fetchOffset`. Always answered by one `fetch-verdict`. */
  | {
      readonly kind: "follower-fetch";
      readonly follower: NodeId;
      readonly brokerEpoch: number;
      readonly sessionId: number;
      /** The slot was added with this position: what was known of it in this session is void. */
      readonly isAdded: boolean;
      readonly leaderEpoch: number;
      readonly fetchOffset: Offset;
      /** Latest epoch of the follower's history, -1 none. */
      readonly lastFetchedEpoch: number;
      readonly eligible: Eligible;
      readonly nowMs: number;
    }
  | {
      readonly kind: "durable-report";
      readonly follower: NodeId;
      readonly brokerEpoch: number;
      readonly sessionId: number;
      readonly leaderEpoch: number;
      readonly durableEnd: Offset;
      /** Where its log begins, durably; -1: it does not say (an older build). */
      readonly startOffset: number;
      readonly eligible: Eligible;
      readonly nowMs: number;
    }
  /** Its connection is gone. */
  | { readonly kind: "session-ended"; readonly follower: NodeId; readonly sessionId: number; readonly nowMs: number }
  /** The controller's answer to a `propose-isr` in this partition epoch; "NONE" needs not be told. */
  | { readonly kind: "isr-change-refused"; readonly partitionEpoch: number; readonly error: ErrorName };

/** On a follower, of its stream to the leader. */
export type FollowerEvent<Body> =
  /** A new session to the leader: it knows nothing of this replica (D-3). Gives the position again. */
  | { readonly kind: "session-started"; readonly nowMs: number }
  /** The leader's answer to the position (leaderEpoch, fetchOffset); one that is not the present position is dropped. */
  | {
      readonly kind: "fetched";
      readonly leaderEpoch: number;
      readonly fetchOffset: Offset;
      /** The leader's; -1 with a divergence or an error. */
      readonly highWatermark: number;
      /** The leader's, -1 not known; needed with OFFSET_OUT_OF_RANGE. With batches this log follows it. */
      readonly logStartOffset: number;
      readonly batches: readonly FetchedBatch<Body>[];
      readonly diverging?: Divergence | undefined;
      /** CORRUPT_MESSAGE where the bytes do not check (B-19). */
      readonly error?: ErrorName | undefined;
      readonly nowMs: number;
    };

export type PartitionEvent<Token, Body = Uint8Array> = LocalEvent<Token> | LeaderEvent | FollowerEvent<Body>;

/** What the leader says to a follower's position. */
export type Verdict =
  /** Whole batches from `fromOffset` on, all below `limitOffset` or a later writtenEnd: only what is written is shipped. */
  | {
      readonly kind: "read";
      readonly fromOffset: Offset;
      readonly limitOffset: Offset;
      /** The first of its session, slot and leader epoch: answer at once, also with nothing, or the follower never reports (D-3). */
      readonly isFirst: boolean;
    }
  | { readonly kind: "diverging"; readonly epoch: number; readonly endOffset: Offset }
  /** UNKNOWN_LEADER_EPOCH and NOT_LEADER_OR_FOLLOWER may be held back until this replica has another role: its metadata may only be late. */
  | { readonly kind: "refused"; readonly error: ErrorName };

/** A member of a proposed ISR with the broker epoch that was seen of it; -1: not checked. */
export interface IsrMember {
  readonly nodeId: NodeId;
  readonly brokerEpoch: number;
}

export type PartitionEffect<Token, Body = Uint8Array> =
  /** Write base offset and epoch into the batch of `token` and hand it to the log. `waiting` is undefined with acks 0. */
  | {
      readonly kind: "append";
      readonly token: Token;
      readonly baseOffset: Offset;
      readonly lastOffset: Offset;
      readonly leaderEpoch: LeaderEpoch;
      readonly waiting: WaitingProduce<Token> | undefined;
    }
  /** Write this as a control batch of one offset and that time, and hand it to the log. Nobody waits for it. */
  | {
      readonly kind: "append-told";
      readonly told: ToldProducers;
      readonly baseOffset: Offset;
      readonly leaderEpoch: LeaderEpoch;
      readonly wallMs: number;
    }
  /**
   * The batch of `token` is in the log already, and is not appended again (P-2). `waiting`: until the high watermark has passed the original (P-15), to be
   * named in a `deadline` as any other; undefined: an `answer` with the offset of the original follows.
   */
  | { readonly kind: "duplicate"; readonly token: Token; readonly waiting: WaitingProduce<Token> | undefined }
  | {
      readonly kind: "answer";
      readonly token: Token;
      readonly error: ErrorName;
      readonly outcome: Outcome;
      /** undefined when not known or not appended. */
      readonly baseOffset: Offset | undefined;
    }
  /** Consumers may read below this now. On a follower: what it knows to be committed, to be stored (D-7). */
  | { readonly kind: "high-watermark"; readonly highWatermark: Offset }
  /** Hand these to the log, in order, as they are: the first begins at its end (B-15). */
  | { readonly kind: "append-fetched"; readonly batches: readonly FetchedBatch<Body>[] }
  /** Cut the log and its epochs at `toOffset` (R-12: also where only an epoch goes), then tell `truncated`. */
  | { readonly kind: "truncate"; readonly toOffset: Offset }
  /** Have the log begin at `startOffset`, then tell `start-durable`; whoever reads sees it at once. */
  | { readonly kind: "log-start"; readonly startOffset: Offset }
  /** Drop everything and begin empty at `fromOffset`, then tell `restarted` (R-17, S-32). */
  | { readonly kind: "restart-log"; readonly fromOffset: Offset }
  /** The position to ask for from now on. */
  | {
      readonly kind: "fetch";
      readonly leaderId: NodeId;
      readonly leaderEpoch: LeaderEpoch;
      readonly fetchOffset: Offset;
      readonly lastFetchedEpoch: number;
      /** Nothing before it counts: the slot is added anew. */
      readonly isFirst: boolean;
    }
  /** Tell the leader that everything below `durableEnd` is durable here (D-3), and where the log begins durably (S-30). */
  | {
      readonly kind: "report";
      readonly leaderEpoch: LeaderEpoch;
      readonly durableEnd: Offset;
      readonly startOffset: Offset;
    }
  /** Ask the controller, until it answers or a newer record of this partition comes. A newer proposal replaces an older one. */
  | {
      readonly kind: "propose-isr";
      readonly leaderEpoch: LeaderEpoch;
      readonly partitionEpoch: number;
      readonly isr: readonly IsrMember[];
      /** This leader's own disk is too slow: another member should lead (D-8). */
      readonly wantsMove: boolean;
    }
  | { readonly kind: "fetch-verdict"; readonly verdict: Verdict }
  /** The log must be dropped and refetched whole (D-9, D-17): report it as damaged. The core stands by until `load`. */
  | { readonly kind: "damaged"; readonly reason: string };

/** What the leader knows of one replica, for people. */
export interface ReplicaView {
  readonly nodeId: NodeId;
  /** Exclusive; -1 not known. */
  readonly endOffset: number;
  readonly durableEnd: number;
  /** 0: has everything now. -1 not known. */
  readonly caughtUpMsAgo: number;
  readonly isInSync: boolean;
}

export interface PartitionView {
  readonly leaderEpoch: LeaderEpoch;
  readonly partitionEpoch: number;
  readonly startOffset: Offset;
  readonly highWatermark: Offset;
  readonly endOffset: Offset;
  readonly durableEnd: Offset;
  readonly replicas: readonly ReplicaView[];
}

export interface CoreSettings {
  readonly self: NodeId;
  /** replica.lag.time.max.ms */
  readonly lagMaxMs: number;
  /** replica.fetch.backoff.ms */
  readonly backoffMs: number;
  /** producer.id.expiration.ms; undefined: nobody is ever forgotten for having been silent. */
  readonly producerExpirationMs?: number | undefined;
}
