// Reads every partition whole, from the start to the end, and says what it found.
import type { Client } from "../../client/types.ts";
import { asOttlaError } from "../../model/errors.ts";
import type { HistoryEvent } from "../../checkers/history.ts";
import { MARK } from "../marks.ts";
import type { SimWorld } from "../world.ts";
import { nameOf, sumOf } from "../../checkers/named-records.ts";
import type { TopicPlan } from "./topics.ts";

export interface ScanParts {
  readonly world: SimWorld;
  readonly record: (event: HistoryEvent) => void;
  /** Nobody can read it any more. */
  readonly isLost: (partition: number) => boolean;
}

interface Ends {
  readonly partition: number;
  readonly startOffset: number;
  /** Undefined: nobody could be asked. */
  readonly endOffset: number | undefined;
}

export interface Unreadable {
  readonly partition: number;
  readonly error: unknown;
}

/** Readings of one partition, each from where its log begins by then. */
const TRIES = 20;

/**
 * Nobody writes while it runs, so the ends it is told are the ends; where a log begins may rise meanwhile.
 * @returns the partitions a read failed in: it may have met the damage of the last replica, and the metadata hear of that later than the reader
 */
export async function scanTopic(client: Client, topic: TopicPlan, parts: ScanParts): Promise<readonly Unreadable[]> {
  const unreadable: Unreadable[] = [];
  for (const ends of await endsOf(client, topic, parts)) {
    try {
      for (let left = TRIES; !(await scanPartition(client, topic.name, { ends, parts, isLast: left === 0 })); left--);
    } catch (error) {
      unreadable.push({ partition: ends.partition, error });
    }
  }
  return unreadable;
}

/** Ends are told of a topic as a whole, or of each partition that can be asked. */
async function endsOf(client: Client, topic: TopicPlan, { isLost }: ScanParts): Promise<readonly Ends[]> {
  const all = Array.from({ length: topic.partitions }, (_, partition) => partition);
  const left = all.filter((partition) => !isLost(partition));
  if (left.length === all.length) return client.admin().offsets(topic.name);
  const told = await client.admin().offsets(topic.name, { partial: true });
  return left.map((partition) => {
    const ends = told.find((each) => each.partition === partition);
    return ends === undefined || ends.error !== undefined ? { partition, startOffset: 0, endOffset: undefined } : ends;
  });
}

/** False: what was to be read next was deleted meanwhile. */
async function scanPartition(
  client: Client,
  topic: string,
  { ends, parts, isLast }: { readonly ends: Ends; readonly parts: ScanParts; readonly isLast: boolean },
): Promise<boolean> {
  const { world, record } = parts;
  const place = { topic, partition: ends.partition };
  if (ends.endOffset !== undefined)
    record({ type: "end", timeMs: world.nowMs, source: "told", ...place, endOffset: ends.endOffset });
  const found = await recordsOf(client, place, { startOffset: ends.startOffset, parts }).catch((thrown: unknown) => {
    if (isLast || asOttlaError(thrown).code !== "OFFSET_OUT_OF_RANGE") throw thrown;
    world.sometimes(MARK.STARTED_LATER);
    return undefined;
  });
  if (found === undefined) return false;
  const startOffset = (await startOf(client, place)) ?? found[0]?.offset ?? ends.startOffset;
  const endOffset = ends.endOffset ?? (found.at(-1)?.offset ?? -1) + 1;
  const records = found.filter(({ offset }) => offset >= startOffset);
  record({ type: "scan", timeMs: world.nowMs, process: "scanner", ...place, startOffset, endOffset, records });
  return true;
}

/** Where the log begins now: what lay below may have been read, or not. */
async function startOf(
  client: Client,
  { topic, partition }: { readonly topic: string; readonly partition: number },
): Promise<number | undefined> {
  const told = await client.admin().offsets(topic, { partial: true });
  const ends = told.find((each) => each.partition === partition);
  return ends === undefined || ends.error !== undefined ? undefined : ends.startOffset;
}

async function recordsOf(
  client: Client,
  place: { readonly topic: string; readonly partition: number },
  { startOffset: fromOffset, parts }: { readonly startOffset: number; readonly parts: ScanParts },
): Promise<readonly { readonly offset: number; readonly value: string }[]> {
  const { world, record } = parts;
  const records: { offset: number; value: string }[] = [];
  const consumer = client.consumer({
    topics: [place.topic],
    partitions: [place.partition],
    from: "start",
    untilEnd: true,
    onOutOfRange: "error",
  });
  try {
    for await (const batch of consumer.batches()) {
      const { highWatermark } = batch;
      for (const each of batch) {
        const [value, sum] = [nameOf(each), sumOf(each, world.checksum)];
        records.push({ offset: each.offset, value });
        const read = { offset: each.offset, value, sum, highWatermark, fromOffset };
        record({ type: "read", timeMs: world.nowMs, process: "scanner", ...place, ...read });
      }
    }
  } finally {
    await consumer.close();
  }
  return records;
}
