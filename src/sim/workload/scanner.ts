// Reads every partition whole, from the start to the end, and says what it found.
import type { Client } from "../../client/types.ts";
import type { HistoryEvent } from "../history.ts";
import type { SimWorld } from "../world.ts";
import { sumOf, valueOf } from "./records.ts";

/** Nobody writes while it runs, so the ends it is told are the ends. */
export async function scanTopic(
  client: Client,
  topic: string,
  sink: { world: SimWorld; record: (event: HistoryEvent) => void },
): Promise<void> {
  const { world, record } = sink;
  for (const { partition, startOffset, endOffset } of await client.admin().offsets(topic)) {
    record({ type: "end", timeMs: world.nowMs, source: "told", topic, partition, endOffset });
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
        const read = { topic, partition, offset: each.offset, value, sum: sumOf(each, world.checksum) };
        record({
          type: "read",
          timeMs: world.nowMs,
          process: "scanner",
          ...read,
          highWatermark: batch.highWatermark,
          fromOffset: startOffset,
        });
      }
    }
    await consumer.close();
    record({
      type: "scan",
      timeMs: world.nowMs,
      process: "scanner",
      topic,
      partition,
      startOffset,
      endOffset,
      records,
    });
  }
}
