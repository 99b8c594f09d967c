// A broker that a consumer fetches from: what is under way to it, and since when it is silent.
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
