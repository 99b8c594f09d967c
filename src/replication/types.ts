// What goes into a partition core and what comes out of it. Events tell what happened, effects what the shell has to do, in order.
import type { ErrorName, Outcome } from "../model/errors.ts";
import type { LeaderEpoch, NodeId, Offset } from "../model/ids.ts";

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

/** An appended batch whose producer waits. Made by the core; the shell keeps it only to name it in a `deadline` event. */
export interface WaitingProduce<Token> {
  readonly token: Token;
  readonly baseOffset: Offset;
  /** Exclusive. */
  readonly endOffset: Offset;
  /** True once answered. A settled one may stay in its queue until it reaches the head. */
  isSettled: boolean;
}

export type PartitionEvent<Token> =
  /** This replica leads in a new epoch that the log has opened durably. `minIsr` and `isr` come from one partition record (D-5). */
  | {
      readonly kind: "lead";
      readonly leaderEpoch: LeaderEpoch;
      readonly isr: readonly NodeId[];
      readonly minIsr: number;
      readonly ends: LogEnds;
    }
  /** Leads no more: what waits is answered with `error`, outcome unknown. */
  | { readonly kind: "resign"; readonly error: ErrorName }
  | {
      readonly kind: "produce";
      readonly token: Token;
      readonly recordCount: number;
      readonly acks: RequiredAcks;
      /** -1 = not checked. */
      readonly leaderEpoch: number;
    }
  /** The log's journal write returned for everything below `endOffset`. */
  | { readonly kind: "written"; readonly endOffset: Offset; readonly truncations: number }
  /** The log synced everything below `endOffset`. */
  | { readonly kind: "durable"; readonly endOffset: Offset; readonly truncations: number }
  /** The disk had no room: nothing from `fromOffset` on was appended, the log ends there again. */
  | { readonly kind: "refused"; readonly fromOffset: Offset; readonly truncations: number }
  /** The request of this batch waits no longer. */
  | { readonly kind: "deadline"; readonly waiting: WaitingProduce<Token> };

export type PartitionEffect<Token> =
  /** Write base offset and epoch into the batch of `token` and hand it to the log. `waiting` is undefined with acks 0. */
  | {
      readonly kind: "append";
      readonly token: Token;
      readonly baseOffset: Offset;
      readonly lastOffset: Offset;
      readonly leaderEpoch: LeaderEpoch;
      readonly waiting: WaitingProduce<Token> | undefined;
    }
  | {
      readonly kind: "answer";
      readonly token: Token;
      readonly error: ErrorName;
      readonly outcome: Outcome;
      /** undefined when not known or not appended. */
      readonly baseOffset: Offset | undefined;
    }
  /** Consumers may read below this now. */
  | { readonly kind: "high-watermark"; readonly highWatermark: Offset };
