// Idempotent producers: what is sent again is there once and in its place, a silent broker is left for the new leader, a gap leads to a new epoch,
// and a named producer is ended by its successor.
import { afterEach, describe, expect, it } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { BatchReport, ProducerOptions } from "../../src/client/types.ts";
import { asOttlaError, type OttlaError } from "../../src/model/errors.ts";
import { baseSequenceAt, CRC_START, crcAt, producerEpochAt, producerIdAt } from "../../src/model/record-batch.ts";
import { API } from "../../src/wire/native/apis.ts";
import { FakeBroker, type Verdict } from "./fake-broker.ts";
import { createWorld } from "./world.ts";

afterEach(() => activateMutants([]));

const failure = (promise: Promise<unknown>): Promise<OttlaError> =>
  promise.then(
    () => {
      throw new Error("did not fail");
    },
    (error: OttlaError) => error,
  );

/** Two brokers; topic t has one partition, led by the first. */
async function setUp(options: ProducerOptions = {}) {
  const world = createWorld();
  const first = await FakeBroker.start(world);
  const second = await first.join();
  first.createTopic("t", 1);
  const client = await world.connect();
  const reports: BatchReport[] = [];
  const producer = client.producer({ lingerMs: 0, onBatch: (report) => reports.push(report), ...options });
  const lead = (leader: number) => {
    const partition = second.partition("t");
    partition.leader = leader;
    partition.leaderEpoch++;
  };
  const send = (value: string) => producer.send("t", { value });
  /** Of the batches that were sent: producer, epoch, sequence. */
  const numbers = (broker: FakeBroker = first) =>
    broker
      .of(API.PRODUCE)
      .flatMap(({ bodies }) =>
        bodies.map((body) => [producerIdAt(body, 0), producerEpochAt(body, 0), baseSequenceAt(body, 0)]),
      );
  return { world, time: world.time, first, second, client, producer, reports, lead, send, numbers };
}

const once =
  (verdict: Verdict, at = 0) =>
  ({ requestIndex }: { requestIndex: number }): Verdict =>
    requestIndex === at ? verdict : undefined;

describe("a batch whose outcome is unknown", () => {
  it.each<[string, Verdict]>([
    ["the connection was lost", "cut"],
    ["there was no answer in time", "swallow"],
    ["the broker says so", { error: "REQUEST_TIMED_OUT", outcome: "unknown" }],
    ["the leader changed", { error: "NOT_LEADER_OR_FOLLOWER", outcome: "unknown" }],
    ["too few were in sync", { error: "NOT_ENOUGH_REPLICAS_AFTER_APPEND", outcome: "unknown" }],
  ])("is sent again under its numbers: %s", async (_why, verdict) => {
    const { time, first, send, numbers, reports } = await setUp({ requestTimeoutMs: 1_000 });
    first.onProduce = once(verdict);
    expect(await time.until(send("a"), 3_000)).toMatchObject({ offset: 0 });
    expect(await time.until(send("b"), 3_000)).toMatchObject({ offset: 1 });
    expect(first.values("t")).toEqual(["a", "b"]);
    expect(numbers()).toEqual([
      [1, 0, 0],
      [1, 0, 0],
      [1, 0, 1],
    ]);
    expect(reports.map(({ attempts }) => attempts)).toEqual([2, 1]);
  });

  it("says so to the broker, and of one that was refused for certain says nothing", async () => {
    const { time, first, send } = await setUp();
    const verdicts: Verdict[] = [
      { error: "BUSY", outcome: "not appended" },
      "cut",
      { error: "BUSY", outcome: "not appended" },
    ];
    first.onProduce = ({ requestIndex }) => verdicts[requestIndex];
    await time.until(send("a"), 5_000);
    await time.until(send("b"), 3_000);
    const said = first.of(API.PRODUCE).flatMap(({ request }) => request.entries.map(({ isResent }) => isResent));
    // Once in doubt, always in doubt.
    expect(said).toEqual([false, false, true, true, false]);
    expect(first.values("t")).toEqual(["a", "b"]);
  });

  it("is not taken for another's under the same numbers: it goes on in a new epoch, and nothing is lost", async () => {
    const { time, first, send, numbers } = await setUp();
    first.append("t", ["a stranger's"], 0, 1);
    expect(await time.until(send("a"), 3_000)).toMatchObject({ offset: 1 });
    expect(await time.until(send("b"), 3_000)).toMatchObject({ offset: 2 });
    expect(first.values("t")).toEqual(["a stranger's", "a", "b"]);
    expect(numbers()).toEqual([
      [1, 0, 0],
      [1, 1, 0],
      [1, 1, 1],
    ]);
  });

  it("is told to be unknown where another's stands under its numbers when it is sent again", async () => {
    const { time, first, send } = await setUp();
    first.onProduce = ({ requestIndex }) => {
      if (requestIndex === 0) first.append("t", ["a stranger's"], 0, 1);
      return requestIndex === 0 ? { error: "REQUEST_TIMED_OUT", outcome: "unknown" } : undefined;
    };
    const error = await time.until(failure(send("a")), 5_000);
    expect(error).toMatchObject({ code: "SEQUENCE_NUMBER_TAKEN", outcome: "unknown" });
    await time.until(send("b"), 3_000);
    expect(first.values("t")).toEqual(["a stranger's", "b"]);
  });

  it("D-15c: the planted bug says that a stranger's batch is its own", async () => {
    activateMutants(["D-15c"]);
    const { time, first, send } = await setUp();
    first.append("t", ["a stranger's"], 0, 1);
    expect(await time.until(send("a"), 3_000)).toMatchObject({ offset: 0 });
    expect(first.values("t")).toEqual(["a stranger's"]);
  });

  /** Ten thousand others write to the partition between a first batch, whose answer is lost, and its second sending. */
  async function forgotten() {
    const world = await setUp();
    const { time, first, send, reports } = world;
    first.producersMax = 1;
    first.onProduce = ({ requestIndex }) => {
      if (requestIndex === 0) return "cut";
      if (requestIndex === 1) first.append("t", ["x"], 0, 99);
      return undefined;
    };
    const outcome = await time.until(
      send("a").then(
        () => "appended",
        (thrown: unknown) => asOttlaError(thrown),
      ),
      5_000,
    );
    return { ...world, outcome, reports };
  }

  it("is not there twice where the broker has forgotten its producer: unknown, and a new epoch follows", async () => {
    const { time, first, send, outcome, numbers } = await forgotten();
    expect(outcome).toMatchObject({ code: "UNKNOWN_PRODUCER_ID", outcome: "unknown" });
    await time.until(send("b"), 3_000);
    expect(first.values("t")).toEqual(["a", "x", "b"]);
    expect(numbers().at(-1)).toEqual([1, 1, 0]);
  });

  it("D-15f: is there twice", async () => {
    activateMutants(["D-15f"]);
    const { first, outcome } = await forgotten();
    expect(outcome).toBe("appended");
    expect(first.values("t")).toEqual(["a", "x", "a"]);
  });

  /** What becomes of two sends of acks=1, the first of which loses its connection. */
  async function twoOfAcks1() {
    const { time, first, producer, numbers } = await setUp();
    first.onProduce = once("cut");
    const send = (value: string) => producer.send("t", { value }, { acks: 1 });
    const error = await time.until(send("a").catch((thrown: unknown) => asOttlaError(thrown)));
    await time.until(send("b"));
    return { error, numbers: numbers() };
  }

  it("with acks=1 has no numbers and is not sent again (D-28)", async () => {
    const { error, numbers } = await twoOfAcks1();
    expect(error).toMatchObject({ code: "CONNECTION_LOST", outcome: "unknown" });
    expect(numbers).toEqual([
      [-1, -1, -1],
      [-1, -1, -1],
    ]);
  });

  it("D-28: numbers with acks=1 are seen", async () => {
    activateMutants(["D-28"]);
    const { numbers } = await twoOfAcks1();
    expect(numbers.some(([producerId]) => producerId !== -1)).toBe(true);
  });

  it("is sent again until its time is up, and is unknown then; what follows has a new epoch", async () => {
    const { time, first, send, numbers } = await setUp({ requestTimeoutMs: 1_000, deliveryTimeoutMs: 5_000 });
    first.onProduce = () => "swallow";
    const error = await time.until(failure(send("a")));
    expect(error).toMatchObject({ code: "DELIVERY_TIMED_OUT", outcome: "unknown" });
    first.onProduce = () => undefined;
    expect(await time.until(send("b"), 3_000)).toMatchObject({ offset: 1 });
    expect(first.values("t")).toEqual(["a", "b"]);
    const sent = numbers();
    expect(sent.length).toBeGreaterThan(4);
    expect(sent.at(-1)).toEqual([1, 1, 0]);
  });
});

describe("a batch behind one that was given up", () => {
  /** Of a, b and c, a is there; b and c end in doubt, b's time is up first. */
  async function behindGap() {
    const world = await setUp({ deliveryTimeoutMs: 4_000, requestTimeoutMs: 1_000 });
    const { time, first, send } = world;
    await time.until(send("a"));
    let isSick = true;
    first.onProduce = () => (isSick ? { error: "REQUEST_TIMED_OUT", outcome: "unknown" } : undefined);
    const given = failure(send("b"));
    await time.pass(3_000);
    const behind = failure(send("c"));
    const gap = await time.until(given, 2_000);
    isSick = false;
    return { ...world, gap, behind };
  }

  it("fails before its time if nothing behind the gap is taken: with the reason, and what to do", async () => {
    const { time, first, send, gap, behind } = await behindGap();
    expect(gap).toMatchObject({ code: "DELIVERY_TIMED_OUT", outcome: "unknown" });
    const error = await time.until(behind, 2_000);
    expect(error).toMatchObject({ code: "OUT_OF_ORDER_SEQUENCE_NUMBER", outcome: "unknown", retriable: false });
    expect(error.message).toMatch(/^t-0: an earlier batch was given up/);
    expect(error.hint).toMatch(/look in the partition before you send it again/);
    expect(error.cause).toMatchObject({ code: "DELIVERY_TIMED_OUT", message: gap.message });
    expect(await time.until(send("d"), 2_000)).toMatchObject({ offset: 1 });
    expect(first.values("t")).toEqual(["a", "d"]);
  });
});

describe("order", () => {
  it("is kept over refusals and lost answers, with five batches under way", async () => {
    const { world, time, first, producer, numbers } = await setUp({ lingerMs: 10_000, batchBytes: 200 });
    await time.until(producer.prepare("t"));
    let refusals = 30;
    let most = 0;
    first.onProduce = () => {
      if (refusals-- <= 0) return undefined;
      const chance = world.deps.rng.below(4);
      if (chance === 0) return { error: "BUSY", outcome: "not appended" };
      return chance === 1 ? { error: "REQUEST_TIMED_OUT", outcome: "unknown" } : chance === 2 ? "cut" : undefined;
    };
    const values = Array.from({ length: 30 }, (_, index) => `${index} ${"x".repeat(80)}`);
    const sends = values.map((value) => producer.send("t", { value }));
    void producer.flush();
    for (let count = 0; count < 50; count++) {
      await time.pass(1);
      most = Math.max(most, numbers().length);
    }
    const results = await time.until(Promise.all(sends));
    expect(first.values("t")).toEqual(values);
    expect(results.map(({ offset }) => offset)).toEqual(values.map((_, index) => index));
    expect(numbers().length).toBeGreaterThan(30);
    expect(most).toBeGreaterThan(0);
  });

  it("has at most five batches under way", async () => {
    const { time, first, producer, numbers } = await setUp({ lingerMs: 10_000, batchBytes: 200 });
    await time.until(producer.prepare("t"));
    first.onProduce = () => "swallow";
    for (let index = 0; index < 20; index++) producer.send("t", { value: "x".repeat(80) }).catch(() => undefined);
    await time.pass(500);
    expect(numbers().map(([, , sequence]) => sequence)).toEqual([0, 1, 2, 3, 4]);
  });
});

describe("a partition with five batches under way", () => {
  it("lets the next one grow to four times its size", async () => {
    const { time, first, producer, reports } = await setUp({ lingerMs: 10_000, batchBytes: 1_000 });
    await time.until(producer.prepare("t"));
    let isHeld = true;
    first.onProduce = () => (isHeld ? "swallow" : undefined);
    for (let index = 0; index < 200; index++) producer.send("t", { value: "x".repeat(80) }).catch(() => undefined);
    await time.pass(500);
    isHeld = false;
    first.cutAll();
    await time.until(producer.flush());
    const sizes = reports.map(({ sizeBytes }) => sizeBytes);
    expect(Math.max(...sizes)).toBeGreaterThan(3_800);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(4_000);
    expect(Math.max(...sizes.slice(0, 5))).toBeLessThanOrEqual(1_000);
    expect(first.values("t")).toHaveLength(200);
  });
});

describe("a broker that is silent while another one leads", () => {
  it.each([1, 16])(
    "is left: what it was sent goes to the new leader within two seconds (%i in flight)",
    async (max) => {
      const { time, first, second, producer, send, lead } = await setUp({ maxInFlight: max });
      await time.until(send("a"));
      first.pause();
      const sends = ["b", "c", "d"].map(send);
      await time.pass(500);
      lead(2);
      expect(await time.until(Promise.all(sends), 2_000)).toMatchObject([{ offset: 1 }, { offset: 2 }, { offset: 3 }]);
      expect(second.of(API.PRODUCE).length).toBeGreaterThan(0);
      // What it does then, being no leader, changes nothing.
      first.resume();
      await time.pass(1_000);
      await time.until(producer.flush());
      expect(first.values("t")).toEqual(["a", "b", "c", "d"]);
    },
  );

  it("and says that it is busy is left, too", async () => {
    const { time, first, send, lead } = await setUp();
    await time.until(send("a"));
    first.cutOff();
    first.onProduce = () => ({ error: "BUSY", outcome: "not appended" });
    lead(2);
    expect(await time.until(send("b"), 2_000)).toMatchObject({ offset: 1 });
  });

  it("may answer late that it has it", async () => {
    const { time, first, second, send, lead } = await setUp();
    await time.until(send("a"));
    first.pause();
    second.pause();
    const late = send("b");
    await time.pass(500);
    lead(2);
    await time.pass(3_000);
    lead(1);
    first.resume();
    expect(await time.until(late, 3_000)).toMatchObject({ offset: 1 });
    second.resume();
    expect(await time.until(send("c"), 3_000)).toMatchObject({ offset: 2 });
    expect(first.values("t")).toEqual(["a", "b", "c"]);
  });
});

describe("numbers", () => {
  it("of a batch that was refused for good go to the next one", async () => {
    const { time, first, send, numbers } = await setUp();
    first.onProduce = once({ error: "INVALID_RECORD", outcome: "not appended" });
    expect(await time.until(failure(send("a")))).toMatchObject({ code: "INVALID_RECORD", outcome: "not appended" });
    await time.until(send("b"));
    expect(numbers()).toEqual([
      [1, 0, 0],
      [1, 0, 0],
    ]);
  });

  it("are written anew, with their checksum, where a new epoch has begun", async () => {
    const { world, time, first, send, numbers } = await setUp({ deliveryTimeoutMs: 4_000 });
    first.onProduce = ({ requestIndex }) => {
      if (requestIndex === 0) return { error: "REQUEST_TIMED_OUT", outcome: "unknown" };
      return requestIndex < 14 ? { error: "BUSY", outcome: "not appended" } : undefined;
    };
    const lost = failure(send("a"));
    await time.pass(3_500);
    const later = send("b");
    expect(await time.until(lost)).toMatchObject({ code: "DELIVERY_TIMED_OUT", outcome: "unknown" });
    expect(await time.until(later, 4_000)).toMatchObject({ offset: 0 });
    const unique = new Set(numbers().map(([, epoch, sequence]) => `${epoch} ${sequence}`));
    expect([...unique]).toEqual(["0 0", "0 1", "1 0"]);
    const sent = first.of(API.PRODUCE).flatMap(({ bodies }) => bodies);
    for (const body of sent) expect(world.deps.checksum.crc32c(body.subarray(CRC_START))).toBe(crcAt(body, 0));
  });

  it("begin anew in a topic that was made anew", async () => {
    const { time, first, send, numbers } = await setUp();
    await time.until(send("old"));
    first.createTopic("t");
    expect(await time.until(send("new"))).toMatchObject({ offset: 0 });
    expect(numbers().at(-1)).toEqual([1, 0, 0]);
    expect(first.values("t")).toEqual(["new"]);
  });

  it("end in a new epoch where the partition has forgotten the producer", async () => {
    const { time, first, send, numbers } = await setUp();
    await time.until(send("a"));
    first.partition("t").batches.length = 0;
    expect(await time.until(send("b"), 3_000)).toMatchObject({ offset: 0 });
    expect(numbers().slice(1)).toEqual([
      [1, 0, 1],
      [1, 1, 0],
    ]);
  });

  it("are none without idempotence", async () => {
    const { time, first, send, numbers } = await setUp({ idempotent: false });
    await time.until(send("a"));
    expect(numbers()).toEqual([[-1, -1, -1]]);
    expect(first.of(API.INIT_PRODUCER_ID)).toEqual([]);
  });
});

describe("the producer's id", () => {
  it("is asked for again until a broker has one; a send waits until its own deadline", async () => {
    const { time, first, second, send } = await setUp({ deliveryTimeoutMs: 30_000 });
    let isReady = false;
    for (const broker of [first, second])
      broker.initProducerError = () => (isReady ? undefined : "BROKER_NOT_AVAILABLE");
    const expired = failure(send("a"));
    expect(await time.until(expired)).toMatchObject({ code: "DELIVERY_TIMED_OUT", outcome: "not appended" });
    expect((await expired).message).toContain(":");
    const sent = send("b");
    await time.pass(5_000);
    isReady = true;
    expect(await time.until(sent, 15_000)).toMatchObject({ offset: 0 });
  });

  it("is told why there is none where no retry helps; the next send asks again", async () => {
    const { time, first, second, client } = await setUp();
    let isFull = true;
    for (const broker of [first, second]) broker.initProducerError = () => (isFull ? "PRODUCER_NAMES_FULL" : undefined);
    const producer = client.producer({ lingerMs: 0, name: "n" });
    const error = await time.until(failure(producer.send("t", { value: "a" })), 3_000);
    expect(error).toMatchObject({ code: "PRODUCER_NAMES_FULL", outcome: "not appended" });
    isFull = false;
    expect(await time.until(producer.send("t", { value: "b" }), 3_000)).toMatchObject({ offset: 0 });
  });
});

describe("a named producer", () => {
  it("is ended by the next one of its name", async () => {
    const { time, first, client } = await setUp();
    const old = client.producer({ lingerMs: 0, name: "n" });
    await time.until(old.send("t", { value: "a" }));
    const next = client.producer({ lingerMs: 0, name: "n" });
    await time.until(next.send("t", { value: "b" }));
    for (const value of ["c", "d"]) {
      const error = await time.until(failure(old.send("t", { value })), 1_000);
      expect(error).toMatchObject({ code: "PRODUCER_FENCED", outcome: "not appended", retriable: false });
    }
    await time.until(next.send("t", { value: "e" }));
    expect(first.values("t")).toEqual(["a", "b", "e"]);
  });

  it("raises its epoch at the controller, and only when nothing of it is under way", async () => {
    const { time, first, client, numbers } = await setUp();
    first.createTopic("u");
    const producer = client.producer({ lingerMs: 0, name: "n", deliveryTimeoutMs: 5_000, requestTimeoutMs: 2_000 });
    await time.until(producer.send("u", { value: "a" }));
    first.onProduce = () => "swallow";
    const lost = failure(producer.send("t", { value: "b" }));
    await time.pass(3_000);
    const open = producer.send("u", { value: "c" });
    expect(await time.until(lost)).toMatchObject({ outcome: "unknown" });
    const behind = producer.send("t", { value: "d" });
    await time.pass(100);
    expect(first.of(API.INIT_PRODUCER_ID).filter(({ request }) => request.name === "n")).toHaveLength(1);
    first.onProduce = () => undefined;
    expect(await time.until(open, 4_000)).toMatchObject({ offset: 1 });
    expect(await time.until(behind, 4_000)).toMatchObject({ offset: 1 });
    const asked = first.of(API.INIT_PRODUCER_ID).map(({ request }) => request);
    expect(asked.at(-1)).toEqual({ name: "n", producerId: 1, producerEpoch: 0 });
    expect(numbers().at(-1)).toEqual([1, 1, 0]);
    await time.until(producer.send("u", { value: "e" }));
    expect(numbers().at(-1)).toEqual([1, 1, 0]);
    expect(first.values("u")).toEqual(["a", "c", "e"]);
    expect(first.values("t")).toEqual(["b", "d"]);
  });

  it("goes with idempotence and acks all only", async () => {
    const { client } = await setUp();
    for (const options of [{ acks: 1 }, { idempotent: false }] as const) {
      expect(() => client.producer({ name: "n", ...options })).toThrow(/name goes with/);
    }
  });
});
