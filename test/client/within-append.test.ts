// A batch that is made due by the append of another record may be settled on the spot, when its numbers are worth nothing any more. What waits for
// room, or is sent by who is told of that, must not be appended within that append.
import { expect, it } from "vitest";
import { asOttlaError } from "../../src/model/errors.ts";
import type { BatchReport } from "../../src/client/types.ts";
import { FakeBroker } from "./fake-broker.ts";
import { createWorld } from "./world.ts";

const DELIVERY_MS = 60_000;

/** A topic that is made anew while the buffer is full and what was sent is in doubt. */
async function madeAnew(seed: number, onBatch?: (report: BatchReport) => void) {
  const world = createWorld(seed);
  const broker = await FakeBroker.start(world);
  broker.createTopic("t", 1);
  const client = await world.connect();
  const sizes = { batchBytes: 350 + 20 * (seed % 10), bufferBytes: 700 + 100 * (seed % 8) };
  const producer = client.producer({
    lingerMs: 0,
    ...sizes,
    deliveryTimeoutMs: DELIVERY_MS,
    ...(onBatch && { onBatch }),
  });
  await world.time.until(producer.prepare("t"));
  let requests = 0;
  broker.onProduce = () => (++requests >= 3 ? "cut" : "swallow");
  const fates: string[] = [];
  const send = (name: string): void => {
    const at = fates.push("open") - 1;
    producer.send("t", { value: `${name}:`.padEnd(100, "x") }).then(
      ({ offset }) => (fates[at] = `at ${offset}`),
      (error: unknown) => (fates[at] = asOttlaError(error).code),
    );
  };
  for (let count = 0; count < 40; count++) send(String(count));
  await world.time.pass(4);
  broker.topics.delete("t");
  broker.createTopic("t", 1);
  broker.onProduce = () => undefined;
  broker.cutAll();
  const end = async () => {
    await world.time.pass(4 * DELIVERY_MS);
    const stored = broker.values("t").map((value) => value.split(":")[0]);
    await world.time.until(client.close({ timeoutMs: 0 }));
    return { fates, stored };
  };
  return { send, end };
}

it("no record is lost, none is there twice, and each send has an answer", async () => {
  let hopeless = 0;
  for (let seed = 1; seed <= 40; seed++) {
    const { end } = await madeAnew(seed);
    const { fates, stored } = await end();
    expect(fates, `seed ${seed}`).not.toContain("open");
    expect(new Set(stored).size, `seed ${seed}`).toBe(stored.length);
    expect(
      fates.filter((fate) => fate.startsWith("at ")),
      `seed ${seed}`,
    ).toHaveLength(stored.length);
    hopeless += fates.filter((fate) => fate === "UNKNOWN_TOPIC_ID").length;
  }
  expect(hopeless).toBeGreaterThan(0);
});

it("what onBatch sends is no exception", async () => {
  for (let seed = 1; seed <= 10; seed++) {
    let said = 0;
    const world = await madeAnew(seed, ({ error }) => {
      if (error !== undefined && said < 5) world.send(`more ${said++}`);
    });
    const { fates, stored } = await world.end();
    expect(said, `seed ${seed}`).toBeGreaterThan(0);
    expect(fates, `seed ${seed}`).not.toContain("open");
    expect(new Set(stored).size, `seed ${seed}`).toBe(stored.length);
  }
});
