// The client's promises under random misfortune: refusals, lost answers, cut connections, brokers that go and come back.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createRng } from "../../src/base/rng.ts";
import { OttlaError } from "../../src/model/errors.ts";
import { FakeBroker, type Verdict } from "./fake-broker.ts";
import { createWorld } from "./world.ts";

const REFUSALS = ["BUSY", "NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "STORAGE_FULL", "INVALID_RECORD"] as const;

function verdicts(seed: number, faultPercent: number): () => Verdict {
  const rng = createRng(seed);
  return () => {
    if (rng.below(100) >= faultPercent) return undefined;
    switch (rng.below(6)) {
      case 0:
        return "cut";
      case 1:
        return "swallow";
      case 2:
        return { error: "REQUEST_TIMED_OUT", outcome: "unknown" };
      default:
        return { error: rng.pick(REFUSALS), outcome: "not appended" };
    }
  };
}

interface Run {
  readonly seed: number;
  readonly faultPercent: number;
  readonly partitionCount: number;
  readonly maxInFlight: number;
  readonly batchBytes: number;
}

const run: fc.Arbitrary<Run> = fc.record({
  seed: fc.nat(),
  faultPercent: fc.constantFrom(0, 5, 30, 80),
  partitionCount: fc.integer({ min: 1, max: 4 }),
  maxInFlight: fc.integer({ min: 1, max: 5 }),
  batchBytes: fc.constantFrom(120, 400, 2_000),
});

async function produce(options: Run, count: number) {
  const world = createWorld(options.seed);
  const { time } = world;
  const broker = await FakeBroker.start(world);
  broker.createTopic("t", options.partitionCount);
  broker.onProduce = verdicts(options.seed, options.faultPercent);
  const client = await world.connect();
  const { maxInFlight, batchBytes } = options;
  const settings = { lingerMs: 2, bufferBytes: 2_000, requestTimeoutMs: 500, deliveryTimeoutMs: 8_000 };
  const producer = client.producer({ ...settings, maxInFlight, batchBytes });
  const rng = createRng(options.seed + 1);
  const sends: Promise<{ value: string; place: string | undefined; error: OttlaError | undefined }>[] = [];
  for (let index = 0; index < count; index++) {
    const value = String(index);
    sends.push(
      producer.send("t", { value, partition: rng.below(options.partitionCount) }).then(
        ({ partition, offset }) => ({ value, place: `${partition}:${offset}`, error: undefined }),
        (error: OttlaError) => ({ value, place: undefined, error }),
      ),
    );
    if (rng.chance(0.2)) await time.pass(rng.below(30));
    if (rng.chance(0.01)) {
      await broker.stopListening();
      broker.cutAll();
      time.timers.after(rng.below(3_000), () => void broker.listen());
    }
  }
  const outcomes = await time.until(Promise.all(sends), 60_000);
  return { world, time, broker, client, producer, outcomes };
}

describe("the client's promises under random faults", () => {
  it("every send is told the truth, and nothing is there twice", async () => {
    const check = async (options: Run) => {
      const { time, broker, producer, outcomes } = await produce(options, 120);
      const places = new Map<string, string>();
      for (let index = 0; index < options.partitionCount; index++) {
        for (const [offset, value] of broker.values("t", index).entries()) places.set(value, `${index}:${offset}`);
      }
      const stored = Array.from({ length: options.partitionCount }, (_, index) => broker.values("t", index)).flat();
      expect(new Set(stored).size).toBe(stored.length);
      for (const { value, place, error } of outcomes) {
        if (place !== undefined) expect(places.get(value)).toBe(place);
        else {
          expect(error).toBeInstanceOf(OttlaError);
          expect(error?.outcome).toMatch(/^(not appended|unknown)$/);
          if (error?.outcome === "not appended") expect(places.has(value)).toBe(false);
        }
      }
      await time.until(producer.close({ timeoutMs: 100 }), 200);
    };
    await fc.assert(fc.asyncProperty(run, check), { numRuns: 40 });
  });

  it("with one request in flight, what was acknowledged stands in the order it was sent", async () => {
    const check = async (options: Run) => {
      const { broker, outcomes } = await produce({ ...options, maxInFlight: 1 }, 80);
      const acknowledged = new Set(
        outcomes.filter(({ place }) => place !== undefined).map(({ value }) => Number(value)),
      );
      for (let index = 0; index < options.partitionCount; index++) {
        const order = broker
          .values("t", index)
          .map(Number)
          .filter((value) => acknowledged.has(value));
        expect(order).toEqual(order.toSorted((left, right) => left - right));
      }
    };
    await fc.assert(fc.asyncProperty(run, check), { numRuns: 40 });
  });

  it("a consumer shows every record of a partition once and in order", async () => {
    const check = async (options: Run) => {
      const world = createWorld(options.seed);
      const broker = await FakeBroker.start(world);
      broker.createTopic("t", options.partitionCount);
      const rng = createRng(options.seed);
      for (let index = 0; index < options.partitionCount; index++) {
        for (let count = rng.below(20), next = 0; count > 0; count--) {
          if (rng.chance(0.1)) broker.appendControl("t", index);
          broker.append(
            "t",
            Array.from({ length: rng.between(1, 5) }, () => `${index}:${next++}`),
            index,
          );
        }
      }
      broker.entriesPerPart = rng.between(1, 3);
      broker.onFetch = () => {
        if (rng.below(100) >= options.faultPercent / 2) return undefined;
        return rng.pick(["cut", "BUSY", "NOT_LEADER_OR_FOLLOWER", "UNKNOWN_LEADER_EPOCH"] as const);
      };
      const client = await world.connect();
      const limits = { maxPartitionBytes: options.batchBytes, maxBytes: 3_000 };
      const seen = Array.from({ length: options.partitionCount }, (): string[] => []);
      const read = async () => {
        for await (const record of client.consumer({ topics: ["t"], untilEnd: true, ...limits })) {
          seen[record.partition]?.push(new TextDecoder().decode(record.value ?? new Uint8Array()));
        }
      };
      await world.time.until(read());
      for (let index = 0; index < options.partitionCount; index++)
        expect(seen[index]).toEqual(broker.values("t", index));
    };
    await fc.assert(fc.asyncProperty(run, check), { numRuns: 40 });
  });
});
