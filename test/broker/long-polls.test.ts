// Who waits for a high watermark: nothing that changes just before is missed, and nobody waits on when everything stops.
import { expect, test } from "vitest";
import { Deadlines } from "../../src/base/deadlines.ts";
import { Accountant } from "../../src/broker/accountant.ts";
import { untilCommitted } from "../../src/broker/committed-waiter.ts";
import type { Replica } from "../../src/broker/replica.ts";
import type { TopicId } from "../../src/model/ids.ts";
import { API } from "../../src/wire/native/apis.ts";
import { batchOf, startWorld } from "./support.ts";

const WAIT_MS = 20_000;
/** A disk that is slow, but not in trouble. */
const READ_MS = 300;

test("a partition that is led no more while another one is read is told at once, not when the wait is over", async () => {
  const config = { "tail.cache.bytes": 0, "checkpoint.interval.ms": 50 };
  const { broker, client } = await startWorld({ config });
  const other = await broker.connect();
  const [going, slow] = [await client.createTopic("going"), await client.createTopic("slow")];
  for (let count = 0; count < 3; count++) await client.produce(slow, batchOf(["a"], { padBytes: 2_000 }));
  await broker.world.runFor(1_000);
  broker.latencies.readMs = READ_MS;
  const entryOf = (topicId: TopicId) => ({ topicId, partition: 0, leaderEpoch: -1, offset: 0, maxBytes: 2 ** 20 });
  const entries = [going, slow].map(entryOf);
  const request = { maxWaitMs: WAIT_MS, minBytes: 2 ** 19, maxBytes: 2 ** 20, entries };
  const sinceMs = broker.world.nowMs;
  const asked = client.send(API.FETCH, request);
  await broker.world.runFor(READ_MS / 3);
  await other.call(API.DELETE_TOPICS, { names: ["going"], requestId: null });
  expect(broker.world.nowMs - sinceMs).toBeLessThan(READ_MS);
  const { response } = await broker.world.settle(asked, 2 * WAIT_MS);
  expect(response.entries.map(({ error }) => error)).toEqual(["UNKNOWN_TOPIC_ID", "NONE"]);
  expect(broker.world.nowMs - sinceMs).toBeLessThan(WAIT_MS / 4);
});

test("who waits for what was accepted waits no longer when the broker fails: its stop did, until its time was up", async () => {
  const timers = { after: () => ({ cancel: () => undefined }), defer: () => undefined };
  const deadlines = new Deadlines({ clock: { monoMs: () => 0 }, timers });
  const accountant = new Accountant({ produceBytes: 1, unsentBytes: 1, delayedRequests: 1 }, () => undefined);
  const replica = { core: { highWatermark: 0, endOffset: 1, role: "leader" }, waiters: new Set() };
  let isOver = false;
  void untilCommitted({ deadlines, accountant }, [replica as unknown as Replica], 1_000).then(() => (isOver = true));
  expect([accountant.delayedCount, replica.waiters.size]).toEqual([1, 1]);
  deadlines.stop();
  await new Promise<void>((resolve) => setImmediate(resolve));
  expect([isOver, accountant.delayedCount, replica.waiters.size]).toEqual([true, 0, 0]);
});
