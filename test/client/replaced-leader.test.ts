// A leader that hangs, or is cut off from all but clients, is the last to know that another one leads: clients find out from other brokers, soon,
// and without asking all the time.
import { describe, expect, it } from "vitest";
import { utf8Decode } from "../../src/base/bytes.ts";
import type { OttlaError } from "../../src/model/errors.ts";
import { API } from "../../src/wire/native/apis.ts";
import { FakeBroker } from "./fake-broker.ts";
import { createWorld } from "./world.ts";

/** Three brokers; topic t, of which the second leads partition 0 and the third partition 1. */
async function setUp() {
  const world = createWorld();
  const first = await FakeBroker.start(world);
  const second = await first.join();
  const third = await first.join();
  first.createTopic("t", 2);
  for (const index of [0, 1]) {
    Object.assign(first.partition("t", index), { leader: index + 2, replicas: [1, 2, 3], isr: [1, 2, 3] });
  }
  const lead = (leader: number) => {
    const partition = first.partition("t", 0);
    partition.leader = leader;
    partition.leaderEpoch++;
  };
  return { world, time: world.time, first, second, third, client: await world.connect(), lead };
}

const outcome = (promise: Promise<unknown>): Promise<unknown> => promise.catch((error: OttlaError) => error.code);
const asked = (brokers: readonly FakeBroker[]) => brokers.flatMap((broker) => broker.of(API.METADATA)).length;

describe("a leader that hangs", () => {
  it.each([
    ["as a rule", {}],
    ["when requests time out before another one leads", { requestTimeoutMs: 2_000 }],
    ["with one request in flight", { maxInFlight: 1 }],
  ])("is replaced half a second after metadata say so, %s", async (_, options) => {
    const { time, first, second, client, lead } = await setUp();
    const producer = client.producer({ lingerMs: 0, ...options });
    await time.until(producer.send("t", { partition: 0, value: "a" }));
    second.pause();
    const stuck = outcome(producer.send("t", { partition: 0, value: "b" }));
    const sends: Promise<unknown>[] = [];
    for (let count = 0; count < 42; count++) {
      sends.push(outcome(producer.send("t", { partition: 0, value: `c${count}` })));
      await time.pass(100);
    }
    lead(1);
    await time.pass(600);
    expect(await time.until(producer.send("t", { partition: 0, value: "d" }), 100)).toMatchObject({ partition: 0 });
    expect(first.values("t", 0)).toContain("d");
    second.resume();
    await time.until(Promise.all([stuck, ...sends]));
  });

  it("is looked for by all partitions together, less often when it lasts, and not by asking it", async () => {
    const { time, first, second, third, client } = await setUp();
    first.createTopic("many", 500);
    for (let index = 0; index < 500; index++) first.partition("many", index).leader = 2;
    const producer = client.producer({ lingerMs: 0, deliveryTimeoutMs: 60_000 });
    await time.until(producer.prepare("many"));
    second.pause();
    const before = asked([first, third]);
    const ofSilent = asked([second]);
    const sends = Array.from({ length: 500 }, (_, partition) =>
      outcome(producer.send("many", { partition, value: "v" })),
    );
    await time.pass(10_000);
    const count = asked([first, third]) - before;
    expect(count).toBeGreaterThan(10);
    expect(count).toBeLessThan(30);
    await time.pass(10_000);
    expect(asked([first, third]) - before - count).toBeLessThan(10);
    expect(asked([second])).toBe(ofSilent);
    await time.until(Promise.all([producer.close({ timeoutMs: 1 }), ...sends]));
  });

  it("is asked of nobody while it answers", async () => {
    const { time, first, second, third, client } = await setUp();
    const producer = client.producer({ lingerMs: 0 });
    await time.until(producer.send("t", { partition: 0, value: "a" }));
    const before = asked([first, second, third]);
    for (let count = 0; count < 50; count++) {
      await time.until(producer.send("t", { partition: 0, value: "v" }));
      await time.pass(100);
    }
    expect(asked([first, second, third])).toBe(before);
  });

  it("is left by consumers, too", async () => {
    const { time, first, second, client, lead } = await setUp();
    const consumer = client.consumer({ topics: ["t"], from: "start", maxWaitMs: 500 });
    const seen: string[] = [];
    const reading = (async () => {
      for await (const { value } of consumer) seen.push(utf8Decode(value ?? new Uint8Array()));
    })();
    first.append("t", ["a"], 0);
    await time.pass(1_000);
    expect(seen).toEqual(["a"]);
    second.pause();
    await time.pass(4_200);
    lead(1);
    first.append("t", ["b"], 0);
    await time.pass(600);
    expect(seen).toEqual(["a", "b"]);
    second.resume();
    await time.pass(1_000);
    first.append("t", ["c"], 0);
    await time.pass(1_000);
    expect(seen).toEqual(["a", "b", "c"]);
    await consumer.close();
    await time.until(reading);
  });
});

describe("a leader that is cut off from all but clients", () => {
  it.each(["NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE"] as const)(
    "refuses with %s and would have it that it leads: another broker is asked",
    async (error) => {
      const { time, first, second, third, client, lead } = await setUp();
      const producer = client.producer({ lingerMs: 0 });
      await time.until(producer.send("t", { partition: 0, value: "a" }));
      second.cutOff();
      second.onProduce = () => ({ error, outcome: "not appended" });
      lead(3);
      const before = asked([first, third]);
      expect(await time.until(producer.send("t", { partition: 0, value: "b" }), 1_000)).toMatchObject({ offset: 1 });
      expect(asked([first, third]) - before).toBe(1);
    },
  );

  it.each(["REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"] as const)(
    "lets acks=all without numbers end with %s: that one is unknown, the next ones go elsewhere",
    async (error) => {
      const { time, second, client, lead } = await setUp();
      const producer = client.producer({ lingerMs: 0, idempotent: false });
      await time.until(producer.send("t", { partition: 0, value: "a" }));
      second.cutOff();
      second.onProduce = () => ({ error, outcome: "unknown" });
      lead(3);
      expect(await time.until(outcome(producer.send("t", { partition: 0, value: "b" })), 1_000)).toBe(error);
      await time.pass(600);
      expect(await time.until(producer.send("t", { partition: 0, value: "c" }), 100)).toMatchObject({ offset: 1 });
    },
  );

  it("takes acks=1 and gives no records: after half a minute clients have found the new one", async () => {
    const { time, first, second, client, lead } = await setUp();
    const producer = client.producer({ lingerMs: 0, acks: 1 });
    const consumer = client.consumer({ topics: ["t"], from: "end" });
    const seen: string[] = [];
    const reading = (async () => {
      for await (const { value } of consumer) seen.push(utf8Decode(value ?? new Uint8Array()));
    })();
    await time.until(producer.send("t", { partition: 0, value: "a" }));
    second.cutOff();
    lead(3);
    for (let count = 0; count < 40; count++) {
      await time.until(producer.send("t", { partition: 0, value: `b${count}` }));
      await time.pass(1_000);
    }
    expect(first.values("t", 0).at(-1)).toBe("b39");
    expect(seen).toContain("b39");
    await consumer.close();
    await time.until(reading);
  });
});

describe("a leader of before that is never to answer (acks 0)", () => {
  it("is left a second after metadata say so, by who asks another broker once a second at most", async () => {
    const { time, first, second, third, client, lead } = await setUp();
    const producer = client.producer({ acks: 0, lingerMs: 0 });
    const send = async (value: string) => {
      await time.until(producer.send("t", { partition: 0, value }));
      await time.pass(100);
    };
    const before = asked([first, second, third]);
    for (let count = 0; count < 50; count++) await send("a");
    expect(asked([first, second, third]) - before).toBeLessThanOrEqual(6);
    lead(1);
    const arrivedBefore = first.of(API.PRODUCE).length;
    for (let count = 0; count < 13; count++) await send("b");
    expect(first.of(API.PRODUCE).length).toBeGreaterThan(arrivedBefore);
    const ofOld = second.of(API.PRODUCE).length;
    for (let count = 0; count < 20; count++) await send("c");
    expect(second.of(API.PRODUCE)).toHaveLength(ofOld);
  });
});
