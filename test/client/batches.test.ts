// The batches of a consumer: what ends their iteration, and what a seek does to it.
import { expect, it } from "vitest";
import { utf8Decode } from "../../src/base/bytes.ts";
import type { RecordBatchView } from "../../src/client/types.ts";
import { FakeBroker } from "./fake-broker.ts";
import { createWorld } from "./world.ts";

async function reading(values: readonly string[]) {
  const world = createWorld();
  const broker = await FakeBroker.start(world);
  broker.createTopic("t", 1);
  for (const value of values) broker.append("t", [value]);
  const client = await world.connect();
  const consumer = client.consumer({ topics: ["t"] });
  return { world, broker, consumer, batches: consumer.batches()[Symbol.asyncIterator]() };
}

const offsetsOf = ({ value }: IteratorResult<RecordBatchView>) =>
  [...(value as RecordBatchView)].map(({ offset }) => offset);

it("return() ends them while a next() waits for records, and the consumer with them", async () => {
  const { world, broker, batches } = await reading(["a"]);
  expect(offsetsOf(await world.time.until(batches.next()))).toEqual([0]);
  const next = batches.next();
  await world.time.pass(1_000);
  expect(await world.time.until(batches.return?.() ?? Promise.reject(new Error("no return")))).toMatchObject({
    done: true,
  });
  expect(await world.time.until(next)).toMatchObject({ done: true });
  const asked = broker.of(4).length;
  await world.time.pass(60_000);
  expect(broker.of(4).length).toBe(asked);
});

it("a seek counts that comes while a next() is on its way", async () => {
  const { world, consumer, batches } = await reading(["a", "b", "c", "d", "e", "f"]);
  for (let count = 0; count < 3; count++) await world.time.until(batches.next());
  const next = batches.next();
  consumer.seek("t", 0, { offset: 1 });
  const [first, second] = [await world.time.until(next), await world.time.until(batches.next())];
  expect([...offsetsOf(first), ...offsetsOf(second)]).toEqual([1, 2]);
});

it.each(["OFFSET_NOT_AVAILABLE", "BUSY"] as const)(
  "a leader that says nothing but %s may have been replaced",
  async (code) => {
    const world = createWorld();
    const first = await FakeBroker.start(world);
    const second = await first.join();
    first.createTopic("t", 1);
    first.append("t", ["a"]);
    const client = await world.connect();
    const consumer = client.consumer({ topics: ["t"] });
    const seen: string[] = [];
    const read = (async () => {
      for await (const { value } of consumer) seen.push(utf8Decode(value ?? new Uint8Array()));
    })();
    await world.time.pass(1_000);
    first.cutOff();
    first.onFetch = () => code;
    Object.assign(second.partition("t"), { leader: 2, leaderEpoch: second.partition("t").leaderEpoch + 1 });
    second.append("t", ["b"]);
    await world.time.pass(30_000);
    expect(seen).toEqual(["a", "b"]);
    await consumer.close();
    await world.time.until(read);
  },
);
