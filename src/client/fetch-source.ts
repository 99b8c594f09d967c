// A broker that a consumer fetches from: what is under way to it, and since when it is silent.
import type { TopicId } from "../model/ids.ts";
import type { FetchRequest } from "../wire/native/apis.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { ConsumerPartition } from "./consumer-partition.ts";
import type { ClientContext } from "./context.ts";
import { LeaderLook } from "./leader-look.ts";

export interface Fetch {
  readonly partitions: readonly ConsumerPartition[];
  readonly maxBytes: number;
  /** Until then the broker may wait for records. */
  readonly dueMs: number;
}

/** A partition that is to be fetched. */
export interface Ready {
  readonly partition: ConsumerPartition;
  readonly leaderEpoch: number;
}

/** What a broker gets beyond the long poll before the question is asked again, perhaps of another one: more with each try, for slow disks. */
const FIRST_ANSWER_TIMEOUT_MS = 3_000;
const ANSWER_TIMEOUT_FACTOR = 4;
export const ANSWER_TIMEOUT_MS = 30_000;

export class FetchSource {
  readonly link: BrokerLink;
  /** Under way, the oldest first. */
  readonly fetches = new Set<Fetch>();
  readonly look: LeaderLook;
  /** A connection is waited for since then. */
  connectingSinceMs: number | undefined;

  /** `onLooked`: it is silent, and who leads its partitions was asked for just now. */
  constructor(
    context: ClientContext,
    link: BrokerLink,
    consumer: { readonly topics: () => Iterable<string>; readonly onLooked: () => void },
  ) {
    this.link = link;
    const { topics, onLooked } = consumer;
    this.look = new LeaderLook(context, { link, owesSinceMs: () => this.#owesSinceMs(), topics, onLooked });
  }

  #owesSinceMs(): number | undefined {
    return this.fetches.values().next().value?.dueMs ?? this.connectingSinceMs;
  }
}

export function answerTimeoutMs(partitions: readonly ConsumerPartition[]): number {
  const triedCount = Math.max(...partitions.map((partition) => partition.timeoutCount));
  return Math.min(ANSWER_TIMEOUT_MS, FIRST_ANSWER_TIMEOUT_MS * ANSWER_TIMEOUT_FACTOR ** Math.min(triedCount, 8));
}

/** Entries per request, so that they fit an envelope. */
const ENTRIES_MAX = 512;

/** What one request asks for: of more than it holds, those that have not been asked for for the longest time. */
export function someOf(all: readonly Ready[]): readonly Ready[] {
  if (all.length <= ENTRIES_MAX) return all;
  return all.toSorted((one, other) => one.partition.fetchNumber - other.partition.fetchNumber).slice(0, ENTRIES_MAX);
}

export function entriesOf(ready: readonly Ready[], maxBytes: number): FetchRequest["entries"] {
  return ready.map(({ partition, leaderEpoch }) => ({
    topicId: partition.topicId as TopicId,
    partition: partition.index,
    leaderEpoch,
    offset: partition.fetchOffset,
    maxBytes,
  }));
}

/**
 * Bytes that a fetch of so many partitions may bring; 0: it has to wait for room.
 *
 * Bound: twice `maxBytes`, buffered and asked for. Beyond it each broker that owes nothing (`isIdle`) may bring those of one partition while less than
 * `maxBytes` is buffered: what others were asked for may be long in coming, and news of this one would wait as long.
 */
export function roomFor(
  partitionCount: number,
  { maxBytes, maxPartitionBytes }: { readonly maxBytes: number; readonly maxPartitionBytes: number },
  taken: { readonly bufferedBytes: number; readonly reservedBytes: number; readonly isIdle: boolean },
): number {
  const leastBytes = Math.min(maxBytes, maxPartitionBytes);
  const freeBytes = 2 * maxBytes - taken.bufferedBytes - taken.reservedBytes;
  if (freeBytes >= leastBytes) return Math.min(maxBytes, partitionCount * maxPartitionBytes, freeBytes);
  return taken.isIdle && taken.bufferedBytes < maxBytes ? leastBytes : 0;
}
