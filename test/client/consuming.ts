// One broker with topic t, a client, and what its consumers read.
import { utf8Decode } from "../../src/base/bytes.ts";
import type { ConsumedRecord, Consumer, ConsumerOptions } from "../../src/client/types.ts";
import { FakeBroker } from "./fake-broker.ts";
import { createWorld } from "./world.ts";

export async function setUp(partitionCount = 1) {
  const world = createWorld();
  const broker = await FakeBroker.start(world);
  broker.createTopic("t", partitionCount);
  const client = await world.connect();
  const consume = (options: Partial<ConsumerOptions> = {}) => client.consumer({ topics: ["t"], ...options });
  return { world, time: world.time, broker, client, consume };
}

export const text = (record: ConsumedRecord) => utf8Decode(record.value ?? new Uint8Array());

/** The values of all records up to the end of the iteration. */
export async function all(consumer: Consumer, seen: string[] = []): Promise<string[]> {
  for await (const record of consumer) seen.push(text(record));
  return seen;
}
