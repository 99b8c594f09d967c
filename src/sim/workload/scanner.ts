// Reads every partition whole, from the start to the end, and says what it found.
import type { Client } from "../../client/types.ts";
import type { HistoryEvent } from "../../checkers/history.ts";
import type { SimWorld } from "../world.ts";
import { sumOf, valueOf } from "../../checkers/named-records.ts";
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

/**
 * Nobody writes while it runs, so the ends it is told are the ends.
 * @returns the partitions a read failed in: it may have met the damage of the last replica, and the metadata hear of that later than the reader
 */
export async function scanTopic(client: Client, topic: TopicPlan, parts: ScanParts): Promise<readonly Unreadable[]> {
  const unreadable: Unreadable[] = [];
  for (const ends of await endsOf(client, topic, parts)) {
    try {
      await scanPartition(client, topic.name, { ends, parts });
    } catch (error) {
      unreadable.push({ partition: ends.partition, error });
    }
  }
  return unreadable;
}

/** Ends are told of a topic as a whole, or not at all. */
async function endsOf(client: Client, topic: TopicPlan, { isLost }: ScanParts): Promise<readonly Ends[]> {
  const all = Array.from({ length: topic.partitions }, (_, partition) => partition);
  const left = all.filter((partition) => !isLost(partition));
  if (left.length === all.length) return client.admin().offsets(topic.name);
  return left.map((partition) => ({ partition, startOffset: 0, endOffset: undefined }));
}

async function scanPartition(
  client: Client,
  topic: string,
  { ends, parts }: { readonly ends: Ends; readonly parts: ScanParts },
): Promise<void> {
  const { partition, startOffset } = ends;
  const { world, record } = parts;
  const place = { topic, partition };
  if (ends.endOffset !== undefined)
    record({ type: "end", timeMs: world.nowMs, source: "told", ...place, endOffset: ends.endOffset });
  const records: { offset: number; value: string }[] = [];
  const consumer = client.consumer({
    topics: [topic],
    partitions: [partition],
    from: "start",
    untilEnd: true,
    onOutOfRange: "error",
  });
  for await (const batch of consumer.batches()) {
    for (const each of batch) {
      const value = valueOf(each.value);
      records.push({ offset: each.offset, value });
      record({
        type: "read",
        timeMs: world.nowMs,
        process: "scanner",
        ...place,
        offset: each.offset,
        value,
        sum: sumOf(each, world.checksum),
        highWatermark: batch.highWatermark,
        fromOffset: startOffset,
      });
    }
  }
  await consumer.close();
  const endOffset = ends.endOffset ?? (records.at(-1)?.offset ?? -1) + 1;
  record({ type: "scan", timeMs: world.nowMs, process: "scanner", ...place, startOffset, endOffset, records });
}
