// Consumers over changes of the leader: no record twice, none left out, an end that never goes back; and what an unclean election gave up is told.
import { describe, expect, it } from "vitest";
import { utf8Decode } from "../../src/base/bytes.ts";
import type { ConsumerOptions } from "../../src/client/types.ts";
import { asOttlaError } from "../../src/model/errors.ts";
import { API } from "../../src/wire/native/apis.ts";
import { FakeBroker } from "./fake-broker.ts";
import { createWorld } from "./world.ts";

async function setUp(options: Partial<ConsumerOptions> = {}) {
  const world = createWorld();
  const first = await FakeBroker.start(world);
  const second = await first.join();
  first.createTopic("t", 1);
  first.append("t", ["a", "b"]);
  first.append("t", ["c"]);
  const client = await world.connect();
  const consumer = client.consumer({ topics: ["t"], ...options });
  const seen: string[] = [];
  const ends: number[] = [];
  const reading = (async () => {
    for await (const batch of consumer.batches()) {
      ends.push(batch.highWatermark);
      for (const { offset, value } of batch) seen.push(`${offset}${utf8Decode(value ?? new Uint8Array())}`);
    }
  })().catch((error: unknown) => asOttlaError(error));
  await world.time.pass(500);
  const lead = (leader: number) => {
    const partition = first.partition("t");
    partition.leader = leader;
    partition.leaderEpoch++;
  };
  /** Only what stands before `kept` batches is left; in their place come these. */
  const unclean = (kept: number, values: readonly string[]) => {
    const partition = first.partition("t");
    partition.batches.length = kept;
    lead(2);
    partition.uncleanEpoch = partition.leaderEpoch;
    for (const value of values) first.append("t", [value]);
  };
  return { world, time: world.time, first, second, consumer, seen, ends, reading, lead, unclean };
}

describe("a leader that moves", () => {
  it("is followed: no record twice, none left out, an end that never goes back", async () => {
    const { time, first, second, seen, ends, consumer, reading, lead } = await setUp();
    for (let round = 0; round < 10; round++) {
      const [from, to] = round % 2 === 0 ? [first, 2] : [second, 1];
      if (round % 3 === 0) from.pause();
      if (round % 3 === 1) from.cutAll();
      lead(to);
      first.append("t", [`r${round}`]);
      // It has just begun to lead, and knows less of the end than the one before.
      first.partition("t").highWatermark = 1;
      await time.pass(3_000);
      from.resume();
      first.append("t", [`s${round}`]);
      delete first.partition("t").highWatermark;
      await time.pass(1_000);
    }
    const values = ["a", "b", "c", ...Array.from({ length: 10 }, (_, round) => [`r${round}`, `s${round}`]).flat()];
    expect(seen).toEqual(values.map((value, offset) => `${offset}${value}`));
    expect(ends).toEqual(ends.toSorted((left, right) => left - right));
    await consumer.close();
    await time.until(reading);
  });
});

describe("an unclean election", () => {
  it("that gave up what was read starts it over, also where as much was written again (R-25)", async () => {
    const { time, seen, unclean } = await setUp();
    expect(seen).toEqual(["0a", "1b", "2c"]);
    unclean(1, ["x", "y", "z"]);
    await time.pass(5_000);
    expect(seen).toEqual(["0a", "1b", "2c", "0a", "1b", "2x", "3y", "4z"]);
  });

  it("is an error for who wants one, with the reason", async () => {
    const { time, unclean, reading } = await setUp({ onOutOfRange: "error" });
    unclean(1, ["x", "y"]);
    const error = await time.until(reading, 10_000);
    expect(error).toMatchObject({ code: "OFFSET_OUT_OF_RANGE" });
    expect(String(error)).toContain("what was read below offset 3 is not all there any more");
  });

  it("that left nothing where was read is told, too", async () => {
    const { time, seen, unclean } = await setUp();
    unclean(1, []);
    await time.pass(5_000);
    expect(seen).toEqual(["0a", "1b", "2c", "0a", "1b"]);
  });

  it("that gave up nothing of what was read changes nothing, and is looked at once", async () => {
    const { time, second, seen, unclean } = await setUp();
    unclean(2, ["x"]);
    await time.pass(5_000);
    expect(seen).toEqual(["0a", "1b", "2c", "3x"]);
    const probes = second.of(API.FETCH).filter(({ request }) => request.entries.some(({ offset }) => offset === 2));
    expect(probes).toHaveLength(1);
  });
});
