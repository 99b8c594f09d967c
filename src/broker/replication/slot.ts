// One partition in the fetch session of one follower: the position that it asked with, and what there is to say about it.
import type { ErrorName } from "../../model/errors.ts";
import type { Offset, TopicId } from "../../model/ids.ts";
import type { ReadResult } from "../../storage/types.ts";
import type { Replica } from "../replica.ts";
import type { FetchSession } from "./fetch-session.ts";

/** What was read from disk for a slot, until an answer takes it. */
export interface ColdRead {
  readonly fromOffset: number;
  readonly result: ReadResult;
}

/** An answer that is known already. */
export interface Notice {
  readonly error: ErrorName;
  /** -1 and -1: no divergence. */
  readonly divergingEpoch: number;
  readonly divergingEnd: number;
}

/**
 * "silent": it has been answered, or has not asked. "active": whatever comes at or above `fromOffset` is for it. "held": what it asks cannot be said
 * yet, since the metadata of this broker may be late; it is asked again when the replica has another role.
 */
export type SlotState = "silent" | "active" | "held";

export class Slot {
  readonly id: number;
  readonly session: FetchSession;
  readonly topicId: TopicId;
  readonly partition: number;
  /** undefined: not hosted here, or not yet. */
  replica: Replica | undefined;
  state: SlotState = "silent";
  /** As asked. */
  leaderEpoch = -1;
  fetchOffset = 0;
  lastFetchedEpoch = -1;
  /** No position of it has been judged yet. */
  isAdded = true;
  /** Where to read; of an active one. */
  fromOffset = 0 as Offset;
  /** An answer is owed, also an empty one. */
  mustAnswer = false;
  sentHighWatermark = -1;
  sentStartOffset = -1;
  notice: Notice | undefined;
  silentSinceMs = 0;
  /** In the session's queue of those that were answered, and when it is looked at there. */
  isWatched = false;
  lookAtMs = 0;
  /** In the session's queue of those that have something to say. */
  isReady = false;
  /** In the session's list of those whose high watermark rose. */
  isMarked = false;
  /** Waits for a read from disk, or one is under way. */
  isCold = false;
  cold: ColdRead | undefined;

  constructor(
    session: FetchSession,
    added: { readonly slot: number; readonly topicId: TopicId; readonly partition: number },
  ) {
    this.session = session;
    this.id = added.slot;
    this.topicId = added.topicId;
    this.partition = added.partition;
  }

  /** There is something above what the follower has. */
  get isReadable(): boolean {
    return this.replica !== undefined && this.fromOffset < this.replica.core.writtenEnd;
  }
}
