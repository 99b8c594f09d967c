// What a producer reuses from batch to batch: its buffers, and the time of a turn.
import { describe, expect, it } from "vitest";
import { bytesEqual } from "../../src/base/bytes.ts";
import { decodeRecords } from "../../src/model/records.ts";
import { FakeBroker } from "./fake-broker.ts";
import { createWorld, toyCodecs } from "./world.ts";

async function setUp() {
  const world = createWorld();
  const broker = await FakeBroker.start(world);
  broker.createTopic("t");
  const client = await world.connect();
  return { world, time: world.time, broker, client };
}

describe("producer: timestamps", () => {
  it("stamps records with the time of their turn, and anew with each batch of a long turn", async () => {
    const { world, time, broker, client } = await setUp();
    const producer = client.producer({ lingerMs: 1_000, batchBytes: 300 });
    await time.until(producer.prepare("t"));
    const startMs = time.clock.wallMs();
    const enqueue = (record: { timestamp?: number }) =>
      void producer.enqueue("t", { value: "x".repeat(90), ...record });
    enqueue({});
    await time.pass(40);
    enqueue({});
    enqueue({ timestamp: 7 }); // two records fit: opens the second batch
    time.stall(100);
    enqueue({});
    enqueue({}); // opens the third
    enqueue({});
    await time.until(producer.flush());
    const { checksum } = world.deps;
    const options = { checksum, codecs: toyCodecs, decompressedBytesMax: 1_000 };
    const stamps = broker
      .partition("t")
      .batches.flatMap((batch) => [...decodeRecords(batch, options)].map(({ timestamp }) => timestamp));
    expect(stamps.map((stamp) => (stamp === 7 ? 7 : stamp - startMs))).toEqual([0, 40, 7, 40, 40, 140]);
  });
});

describe("producer: buffers used again", () => {
  it("never changes the bytes of a batch that may still be sent or is sent again", async () => {
    const { time, broker, client } = await setUp();
    let requests = 0;
    broker.onProduce = () => {
      requests++;
      if (requests % 7 === 0) return { error: "REQUEST_TIMED_OUT", outcome: "unknown" };
      return requests % 3 === 0 ? { error: "BUSY", outcome: "not appended" } : undefined;
    };
    const producer = client.producer({ batchBytes: 600, lingerMs: 0, requestTimeoutMs: 200, maxInFlight: 4 });
    await time.until(producer.prepare("t"));
    const sent = Array.from({ length: 300 }, (_, index) => `${index}:${"x".repeat(index % 200)}`);
    const sends: Promise<unknown>[] = [];
    const acknowledged: string[] = [];
    for (const value of sent) {
      sends.push(
        producer.send("t", { value }).then(
          () => acknowledged.push(value),
          () => undefined,
        ),
      );
      if (sends.length % 10 === 0) await time.pass(3);
    }
    await time.until(Promise.all(sends));
    expect(acknowledged.length).toBeGreaterThan(200);
    expect(broker.values("t").toSorted()).toEqual(acknowledged.toSorted());
  });

  it("hands out a view of its buffer, and none of it changes before the answer", async () => {
    const { world, time, client } = await setUp();
    const producer = client.producer({ batchBytes: 500, lingerMs: 0, maxInFlight: 3 });
    await time.until(producer.prepare("t"));
    const [pipe] = world.network.pipes;
    if (pipe === undefined) throw new Error("no connection");
    const held: { bytes: Uint8Array; copy: Uint8Array }[] = [];
    const send = pipe.send.bind(pipe);
    pipe.send = (messages) => {
      for (const bytes of messages) held.push({ bytes, copy: new Uint8Array(bytes) });
      send(messages);
    };
    const receive = pipe.receive.bind(pipe);
    pipe.receive = (message) => {
      for (const { bytes, copy } of held) expect(bytesEqual(bytes, copy)).toBe(true);
      held.length = 0; // answered: these may be used again
      receive(message);
    };
    for (let count = 0; count < 200; count++) void producer.enqueue("t", { value: `${count}`.padEnd(300, "x") });
    await time.until(producer.flush());
  });
});
