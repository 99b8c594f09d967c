// What a consumer knows of one partition that it reads.
import type { TopicId } from "../model/ids.ts";
import type { OttlaError } from "../model/errors.ts";
import type { StartPosition } from "./types.ts";

export class ConsumerPartition {
  readonly topic: string;
  readonly index: number;
  /** Of the topic when it was last fetched from: another one means that the topic was made anew. */
  topicId: TopicId | undefined;
  /** Offset of the next record to give; -1 until known. */
  position = -1;
  /** Offset to fetch next: `position` plus what is buffered. */
  fetchOffset = -1;
  /** Where to go, still to be looked up. */
  start: StartPosition | undefined;
  isResolving = false;
  /** Reading ends by itself (untilEnd). */
  readonly wantsEnd: boolean;
  /** Where, exclusive; undefined until known. */
  endOffset: number | undefined;
  /** It was told to start beyond its end: only the leader knows whether there is such an offset. */
  mustProbe = false;
  /** The highest that a leader told. */
  highWatermark = -1;
  /** The last batch that was fetched. */
  lastRead: { readonly nextOffset: number; readonly leaderEpoch: number; readonly crc: number } | undefined;
  /** Leader epoch of the last unclean election that what was read is known to have outlived. */
  checkedUncleanEpoch = -1;
  /** Raised by each jump: what was fetched before it is void. */
  version = 0;
  /** The fetch that is under way for it. */
  fetch: object | undefined;
  /** Of the last one, counted over all partitions. */
  fetchNumber = 0;
  /** Waits for a back-off or for metadata. */
  isBlocked = false;
  /** Failures in a row. */
  failureCount = 0;
  /** The leader epoch in which a new leader was asked without a pause. */
  promptEpoch = -1;
  /** Those of them that were no answer at all. */
  timeoutCount = 0;
  /** Its leader was asked, or looked for, and nothing has come of it; undefined: what was asked last was answered. */
  waitingSinceMs: number | undefined;
  /** The last failure, in words that do not name the partition. */
  lastError: OttlaError | undefined;
  /** Those of them that say that what is stored here is damaged. */
  damageCount = 0;
  /** Offset at which a fetched batch was damaged last, and how often in a row. */
  corruptAt = -1;
  corruptCount = 0;
  missingCount = 0;
  /** Positions in a row that were refused. */
  lostCount = 0;
  /** Fetched and not yet given. */
  bufferedBytes = 0;

  constructor(topic: string, index: number, options: { readonly start: StartPosition; readonly wantsEnd: boolean }) {
    this.topic = topic;
    this.index = index;
    this.start = options.start;
    this.wantsEnd = options.wantsEnd;
  }

  /** Only the leader can say where it starts or ends. */
  get needsLookUp(): boolean {
    return this.start !== undefined || (this.wantsEnd && this.endOffset === undefined);
  }

  get isAtEnd(): boolean {
    if (this.endOffset === undefined || this.start !== undefined || this.mustProbe) return false;
    return this.position >= this.endOffset;
  }

  /** Forgets what was fetched, goes on at `start`. */
  jump(start: StartPosition): void {
    this.version++;
    this.fetch = undefined;
    this.isResolving = false;
    this.mustProbe = false;
    this.bufferedBytes = 0;
    this.damageCount = 0;
    if (typeof start === "object" && "offset" in start) this.arrive(start.offset);
    else {
      this.start = start;
      this.position = this.fetchOffset = -1;
    }
  }

  arrive(offset: number): void {
    this.start = undefined;
    this.isResolving = false;
    this.position = this.fetchOffset = offset;
  }

  /** The leader answered. */
  heard(): void {
    this.failureCount = this.missingCount = this.damageCount = this.timeoutCount = 0;
    this.waitingSinceMs = this.lastError = undefined;
  }
}
