// Partitions of several replicas: what nobody can lead any more fails at once, what may be led again is waited for, too few replicas are
// waited for while nothing was appended, and how far replicas are is told as far as leaders say it.
import { describe, expect, it } from "vitest";
import { utf8Decode } from "../../src/base/bytes.ts";
import type { Admin } from "../../src/client/types.ts";
import type { OttlaError } from "../../src/model/errors.ts";
import { API } from "../../src/wire/native/apis.ts";
import { FakeBroker } from "./fake-broker.ts";
import { createWorld } from "./world.ts";

/** Topic t with partitions 0 and 2 led by broker 1, and 1 and 3 by broker 2; three replicas each. */
async function setUp() {
  const world = createWorld();
  const first = await FakeBroker.start(world);
  const second = await first.join();
  first.createTopic("t", 4);
  for (const index of [0, 1, 2, 3]) {
    const partition = first.partition("t", index);
    partition.leader = (index % 2) + 1;
    partition.replicas = index % 2 === 0 ? [1, 2, 3] : [2, 3, 1];
    partition.isr = partition.replicas;
    first.append("t", [`${index}`], index);
  }
  const client = await world.connect();
  const lose = (index: number) => {
    const partition = first.partition("t", index);
    partition.leader = -1;
    partition.leaderEpoch++;
    partition.isr = [];
    partition.error = "NO_INTACT_REPLICA";
  };
  const wait = (index: number, elr: number[]) => {
    lose(index);
    Object.assign(first.partition("t", index), { error: "LEADER_NOT_AVAILABLE", elr });
  };
  const lead = (index: number, leader: number) => {
    const partition = first.partition("t", index);
    partition.leader = leader;
    partition.leaderEpoch++;
    partition.isr = [leader];
    delete partition.error;
  };
  return { world, time: world.time, first, second, client, admin: client.admin(), lose, wait, lead };
}

const failure = (promise: Promise<unknown>): Promise<OttlaError> =>
  promise.then(
    () => {
      throw new Error("did not fail");
    },
    (error: OttlaError) => error,
  );
const to = (partition: number) => ({ partition, value: "v" });

describe("order without numbers", () => {
  it("is kept with one request in flight when the leader changes while a batch is under way", async () => {
    const { time, first, second, client, lead } = await setUp();
    const producer = client.producer({ lingerMs: 0, maxInFlight: 1, idempotent: false });
    await time.until(producer.send("t", { partition: 0, value: "a" }));
    first.pause();
    const late = producer.send("t", { partition: 0, value: "b" });
    await time.pass(100);
    lead(0, 2);
    // A refusal of another partition makes the client ask who leads now.
    lead(3, 1);
    const other = producer.send("t", to(3));
    await time.pass(1_000);
    const later = producer.send("t", { partition: 0, value: "c" });
    await time.pass(500);
    const asked = second.of(API.METADATA).length;
    expect(asked).toBeGreaterThan(0);
    expect(second.of(API.PRODUCE).flatMap(({ request }) => request.entries.map(({ partition }) => partition))).toEqual([
      3,
    ]);
    first.resume();
    await time.until(Promise.all([late, later, other]));
    expect(first.values("t", 0)).toEqual(["0", "a", "b", "c"]);
  });

  it("is kept when a batch is refused after later ones went on without it: it is not sent again", async () => {
    const { time, first, client, lead } = await setUp();
    const producer = client.producer({ lingerMs: 0, maxInFlight: 1, idempotent: false });
    await time.until(producer.send("t", { partition: 0, value: "a" }));
    first.pause();
    const late = failure(producer.send("t", { partition: 0, value: "b" }));
    await time.pass(100);
    lead(0, 2);
    await time.until(producer.send("t", { partition: 0, value: "c" }), 3_000);
    first.resume();
    expect(await time.until(late)).toMatchObject({ code: "NOT_LEADER_OR_FOLLOWER", outcome: "not appended" });
    expect(first.values("t", 0)).toEqual(["0", "a", "c"]);
  });
});

describe("a partition of which no replica is intact", () => {
  it("refuses what belongs there at once, appended nowhere, with what to do", async () => {
    const { time, client, lose } = await setUp();
    lose(3);
    const producer = client.producer({ lingerMs: 0 });
    const error = await time.until(failure(producer.send("t", to(3))), 2_000);
    expect(error).toMatchObject({ code: "NO_INTACT_REPLICA", outcome: "not appended", retriable: false });
    expect(error.message).toContain("t-3: no leader: no replica is left");
    expect(error.hint).toContain("ottla partition elect t 3 --unclean");
  });

  it("also what waited when it was lost; the metadata that says so is of that moment", async () => {
    const { time, client, lose, wait, lead } = await setUp();
    wait(3, [1]);
    const producer = client.producer({ lingerMs: 0 });
    const sent = failure(producer.send("t", to(3)));
    await time.pass(5_000);
    lose(3);
    expect(await time.until(sent, 3_000)).toMatchObject({ code: "NO_INTACT_REPLICA", outcome: "not appended" });
    // An operator has elected somebody: what was known of before is asked for again, not believed.
    lead(3, 1);
    expect(await time.until(producer.send("t", to(3)), 3_000)).toMatchObject({ partition: 3, offset: 1 });
  });

  it("records without key go to others; they wait where another one may be led again", async () => {
    const { time, first, client, lose, wait, lead } = await setUp();
    lose(3);
    const producer = client.producer({ lingerMs: 0 });
    const sent = await time.until(Promise.all(Array.from({ length: 40 }, () => producer.send("t", { value: "v" }))));
    expect(new Set(sent.map(({ partition }) => partition)).has(3)).toBe(false);
    for (const index of [0, 1, 2]) wait(index, [1]);
    const late = producer.send("t", { value: "late" });
    await time.pass(5_000);
    for (const index of [0, 1, 2]) lead(index, 1);
    const { partition } = await time.until(late, 3_000);
    expect(partition).not.toBe(3);
    expect(first.values("t", partition)).toContain("late");
  });

  it("is not waited for at the end of a read; the others are read to their end", async () => {
    const { time, client, lose } = await setUp();
    lose(3);
    const startMs = time.nowMs;
    const seen: string[] = [];
    const read = async () => {
      const consumer = client.consumer({ topics: ["t"], untilEnd: true });
      for await (const record of consumer) seen.push(utf8Decode(record.value ?? new Uint8Array()));
    };
    const error = await time.until(failure(read()));
    expect(seen.toSorted()).toEqual(["0", "1", "2"]);
    expect(error.code).toBe("NO_INTACT_REPLICA");
    expect(error.message).toMatch(/^t-3: no leader: .*; all other partitions were read to their end$/);
    expect(time.nowMs - startMs).toBeLessThan(3_000);
  });

  it("does not end a read that goes on, unless it is all there is", async () => {
    const { time, first, client, lose, lead } = await setUp();
    lose(3);
    const seen: string[] = [];
    const all = client.consumer({ topics: ["t"] });
    const reading = (async () => {
      for await (const record of all) seen.push(utf8Decode(record.value ?? new Uint8Array()));
    })();
    await time.pass(20_000);
    first.append("t", ["more"], 0);
    lead(3, 2);
    await time.pass(3_000);
    expect(seen.toSorted()).toEqual(["0", "1", "2", "3", "more"]);
    await all.close();
    await time.until(reading);
    lose(3);
    const alone = client.consumer({ topics: ["t"], partitions: [3] });
    const error = await time.until(failure((async () => alone[Symbol.asyncIterator]().next())()), 3_000);
    expect(error).toMatchObject({ code: "NO_INTACT_REPLICA" });
  });

  it("has no offsets, and nobody waits for them", async () => {
    const { time, admin, lose } = await setUp();
    lose(3);
    const error = await time.until(failure(admin.offsets("t")), 3_000);
    expect(error.code).toBe("NO_INTACT_REPLICA");
    const offsets = await time.until(admin.offsets("t", { partial: true }), 3_000);
    expect(offsets.map(({ endOffset }) => endOffset)).toEqual([1, 1, 1, -1]);
  });
});

describe("a partition that waits for a node", () => {
  it("is waited for until it is led; a send that gave up names the node", async () => {
    const { time, client, wait, lead } = await setUp();
    wait(1, [2, 3]);
    const producer = client.producer({ lingerMs: 0, deliveryTimeoutMs: 10_000 });
    const error = await time.until(failure(producer.send("t", to(1))));
    expect(error).toMatchObject({ code: "DELIVERY_TIMED_OUT", outcome: "not appended" });
    expect(error.message).toContain("no leader until one of the nodes 2, 3 is up");
    expect(error.hint).toContain("start one of the nodes 2, 3");
    const sent = producer.send("t", to(1));
    await time.pass(5_000);
    lead(1, 2);
    expect(await time.until(sent, 3_000)).toMatchObject({ partition: 1, offset: 1 });
  });
});

describe("too few replicas in sync", () => {
  it("is waited for, since nothing was appended; at the end that is the reason", async () => {
    const { time, first, client } = await setUp();
    let isShort = true;
    first.onProduce = () => (isShort ? { error: "NOT_ENOUGH_REPLICAS", outcome: "not appended" } : undefined);
    const producer = client.producer({ lingerMs: 0, deliveryTimeoutMs: 10_000 });
    const error = await time.until(failure(producer.send("t", to(0))));
    expect(error).toMatchObject({ code: "DELIVERY_TIMED_OUT", outcome: "not appended" });
    expect(error.message).toContain("min.insync.replicas");
    expect(first.values("t", 0)).toEqual(["0"]);
    const sent = producer.send("t", to(0));
    await time.pass(4_000);
    isShort = false;
    expect(await time.until(sent, 3_000)).toMatchObject({ offset: 1 });
    expect(first.values("t", 0)).toEqual(["0", "v"]);
  });

  it("after the append is told as unknown, and not sent again without numbers", async () => {
    const { time, first, client } = await setUp();
    first.onProduce = () => ({ error: "NOT_ENOUGH_REPLICAS_AFTER_APPEND", outcome: "unknown" });
    const producer = client.producer({ lingerMs: 0, idempotent: false });
    const error = await time.until(failure(producer.send("t", to(0))), 1_000);
    expect(error).toMatchObject({ code: "NOT_ENOUGH_REPLICAS_AFTER_APPEND", outcome: "unknown" });
    expect(first.of(API.PRODUCE)).toHaveLength(1);
  });
});

describe("a leader that hangs while another one is elected", () => {
  it.each([1, 16])("gets no more of what is not under way to it (%i in flight)", async (maxInFlight) => {
    const { time, second, first, client, lead } = await setUp();
    const producer = client.producer({ lingerMs: 0, maxInFlight, idempotent: false });
    await time.until(producer.send("t", to(1)));
    second.pause();
    const stuck: Promise<OttlaError>[] = [];
    for (let count = 0; count < maxInFlight; count++) {
      stuck.push(failure(producer.send("t", to(1))));
      await time.pass(5);
    }
    const behind = producer.send("t", to(1));
    await time.pass(100);
    lead(1, 1);
    expect(await time.until(behind, 3_000)).toMatchObject({ partition: 1 });
    expect(await time.until(producer.send("t", to(1)), 100)).toMatchObject({ partition: 1 });
    expect(first.of(API.PRODUCE)).toHaveLength(2);
    for (const error of await time.until(Promise.all(stuck))) expect(error).toMatchObject({ outcome: "unknown" });
  });
});

describe("sends of unknown outcome", () => {
  it("say that the leader changed while the batch waited for its replicas", async () => {
    const { time, first, client } = await setUp();
    first.onProduce = () => ({ error: "NOT_LEADER_OR_FOLLOWER", outcome: "unknown" });
    const producer = client.producer({ lingerMs: 0, idempotent: false });
    const error = await time.until(failure(producer.send("t", to(0))), 1_000);
    expect(error).toMatchObject({ code: "NOT_LEADER_OR_FOLLOWER", outcome: "unknown" });
    expect(error.message).toBe("t-0: the leader changed while the batch waited for its replicas");
    expect(error.hint).toContain("the new leader may have it or not");
  });

  it("say for whom they waited until the end", async () => {
    const { time, first, client } = await setUp();
    first.onProduce = () => "swallow";
    const producer = client.producer({ lingerMs: 0, deliveryTimeoutMs: 5_000 });
    const error = await time.until(failure(producer.send("t", to(0))), 6_000);
    expect(error).toMatchObject({ code: "DELIVERY_TIMED_OUT", outcome: "unknown" });
    expect(error.message).toContain(
      "node 1, which leads it, has not answered; with acks=all it waits for the replicas in sync (1, 2, 3)",
    );
  });
});

describe("refused sends", () => {
  it("say that nothing was appended, whatever was wrong", async () => {
    const { time, client } = await setUp();
    const producer = client.producer({ lingerMs: 0 });
    await time.until(producer.send("t", to(0)));
    const outcomes = [
      producer.send("t", { value: 5 as never }),
      producer.send("", to(0)),
      producer.send("t", to(9)),
      producer.send("t", to(0), { acks: 2 as never }),
    ].map(failure);
    for (const error of await time.until(Promise.all(outcomes)))
      expect(error.outcome, error.message).toBe("not appended");
    expect(() => producer.enqueue("t", to(9))).toThrow(expect.objectContaining({ outcome: "not appended" }) as Error);
    await time.until(producer.close());
    const closed = await time.until(failure(producer.send("t", to(0))));
    expect(closed).toMatchObject({ code: "CLOSED", outcome: "not appended" });
  });
});

describe("describePartitions", () => {
  it("tells of each replica how far it is, as its leader sees it", async () => {
    const { time, first, admin } = await setUp();
    first.append("t", ["a", "b"], 0);
    Object.assign(first.partition("t", 0), { durableEnds: { 2: 2, 3: -1 }, isr: [1, 2], elr: [3], partitionEpoch: 7 });
    const states = await time.until(admin.describePartitions("t"), 1_000);
    expect(states.map(({ index, leader }) => [index, leader])).toEqual([
      [0, 1],
      [1, 2],
      [2, 1],
      [3, 2],
    ]);
    expect(states[0]).toMatchObject({
      isr: [1, 2],
      elr: [3],
      partitionEpoch: 7,
      startOffset: 0,
      highWatermark: 2,
      endOffset: 3,
      durableEnd: 3,
      progress: [
        { nodeId: 1, isInSync: true, durableEnd: 3, lag: 0 },
        { nodeId: 2, isInSync: true, durableEnd: 2, lag: 1 },
        { nodeId: 3, isInSync: false, endOffset: null, durableEnd: null, lag: null, caughtUpMsAgo: null },
      ],
    });
    expect(states.every(({ unknown }) => unknown === undefined)).toBe(true);
  });

  it("one question for each leader, and only of the partitions named", async () => {
    const { time, first, second, admin } = await setUp();
    const states = await time.until(admin.describePartitions("t", { partitions: [1, 3] }), 1_000);
    expect(states.map(({ index }) => index)).toEqual([1, 3]);
    expect([first, second].map((broker) => broker.of(API.DESCRIBE_PARTITIONS).length)).toEqual([0, 1]);
  });

  it.each([
    ["hangs", (second: FakeBroker) => second.pause()],
    ["is gone", (second: FakeBroker) => void second.stopListening().then(() => second.cutAll())],
  ])("of a leader that %s nothing is known, in time; of the others everything", async (_how, hurt) => {
    const { time, second, admin } = await setUp();
    hurt(second);
    const startMs = time.nowMs;
    const states = await time.until(admin.describePartitions("t", { timeoutMs: 2_000 }));
    expect(time.nowMs - startMs).toBeLessThan(2_100);
    expect(states.map(({ endOffset }) => endOffset)).toEqual([1, null, 1, null]);
    expect(states[1]).toMatchObject({
      leader: 2,
      isr: [2, 3, 1],
      highWatermark: null,
      progress: [{ nodeId: 2, lag: null, isInSync: true }, { nodeId: 3 }, { nodeId: 1 }],
    });
    expect(states[1]?.unknown).toMatchObject({ name: "OttlaError" });
    expect(states[0]?.unknown).toBeUndefined();
  });

  it("a leader that has moved is asked where it is now; where there is none, replicas are asked of themselves", async () => {
    const { time, first, admin, lead, lose } = await setUp();
    await time.until(admin.describePartitions("t"));
    lead(1, 1);
    lose(3);
    const states = await time.until(admin.describePartitions("t"), 1_000);
    expect(states[1]).toMatchObject({ leader: 1, endOffset: 1 });
    expect(states[3]).toMatchObject({ leader: -1, endOffset: null, unknown: { code: "NO_INTACT_REPLICA" } });
    expect(first.of(API.DESCRIBE_PARTITIONS)).toHaveLength(3);
  });

  it("where nobody leads, each replica says what it has, and from which epoch", async () => {
    const { time, first, admin, lose } = await setUp();
    lose(3);
    first.partition("t", 3).durableEnds = { 1: 7, 2: 4 };
    const [state] = await time.until(admin.describePartitions("t", { partitions: [3] }), 3_100);
    const { leaderEpoch } = first.partition("t", 3);
    expect(state).toMatchObject({
      leader: -1,
      endOffset: null,
      unknown: { code: "NO_INTACT_REPLICA" },
      progress: [
        { nodeId: 2, endOffset: 4, durableEnd: 4, lag: null, lastEpoch: leaderEpoch - 1 },
        { nodeId: 3, endOffset: null, durableEnd: null, lastEpoch: null },
        { nodeId: 1, endOffset: 7, durableEnd: 7, lag: null, lastEpoch: leaderEpoch - 1 },
      ],
    });
  });

  it("what the leader knows of who is in sync counts where it is newer", async () => {
    const { time, first, second, admin } = await setUp();
    for (const broker of [first, second]) broker.outOfSync.add(3);
    second.newerEpochs = 1;
    const states = await time.until(admin.describePartitions("t"), 1_000);
    expect(states.map(({ isr }) => isr)).toEqual([
      [1, 2, 3],
      [2, 1],
      [1, 2, 3],
      [2, 1],
    ]);
  });

  it("a partition that there is not, and a topic", async () => {
    const { time, admin } = await setUp();
    expect(await time.until(admin.describePartitions("t", { partitions: [9] }))).toEqual([]);
    expect(await time.until(failure(admin.describePartitions("nosuch")))).toMatchObject({
      code: "UNKNOWN_TOPIC_OR_PARTITION",
    });
  });
});

describe("electLeaders", () => {
  it.each([
    ["a kind that there is not", (admin: Admin) => admin.electLeaders("best" as never)],
    ["partitions of no topic", (admin: Admin) => admin.electLeaders("preferred", { partitions: [0] })],
    ["one node for everything", (admin: Admin) => admin.electLeaders("preferred", { nodeId: 1 })],
    ["an unclean election of everything", (admin: Admin) => admin.electLeaders("unclean")],
  ])("refuses %s before anything is sent", async (_what, act) => {
    const { time, first, admin } = await setUp();
    expect(await time.until(failure(act(admin)))).toMatchObject({ code: "INVALID_REQUEST" });
    expect(first.of(API.ELECT_LEADERS)).toEqual([]);
  });
});
