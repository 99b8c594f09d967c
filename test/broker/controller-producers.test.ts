// The active controller and producers, against a log that commits at once: who is waited for before a name is given (invariant 24), blocks of ids.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { asOttlaError } from "../../src/model/errors.ts";
import { active, type Bench, SESSION_MS } from "./controller-bench.ts";

const NAMED = 2 ** 40;
const BEGIN = { producerId: -1, producerEpoch: -1 };

afterEach(() => activateMutants([]));

/** What became of it by now: "-", the epoch, or the error. */
function asked(bench: Bench, name: string, timeoutMs = 10_000, present = BEGIN): { outcome: string } {
  const call = { outcome: "-" };
  bench.controller.initProducer({ name, ...present }, timeoutMs, "a connection").then(
    ({ producerEpoch }) => {
      call.outcome = `epoch ${producerEpoch}`;
    },
    (thrown: unknown) => {
      call.outcome = asOttlaError(thrown).code;
    },
  );
  return call;
}

describe("a name is given", () => {
  test("when every other unfenced broker has told that it applied the record", async () => {
    const bench = await active(1, 2, 3);
    const call = asked(bench, "a");
    await bench.world.runFor(1);
    const end = bench.image.endOffset;
    expect(bench.decided()).toEqual(["named-producer"]);
    await bench.beat(2);
    await bench.beat(3, { appliedEnd: end - 1 });
    expect(call.outcome).toBe("-");
    await bench.beat(3, { appliedEnd: end });
    expect(call.outcome).toBe("epoch 0");
  });

  test("when who does not answer was fenced", async () => {
    const bench = await active(1, 2, 3);
    const call = asked(bench, "a");
    await bench.world.runFor(1);
    for (let passedMs = 0; passedMs < SESSION_MS; passedMs += 500) {
      expect(call.outcome).toBe("-");
      for (const nodeId of [1, 2]) await bench.beat(nodeId);
      await bench.world.runFor(498);
    }
    await bench.world.runFor(300);
    expect(bench.isFenced(3)).toBe(true);
    expect(call.outcome).toBe("epoch 0");
  });

  test("not within the time of the call: asked again from the same, it is the same; from nothing, the next", async () => {
    const bench = await active(1, 2);
    const first = asked(bench, "a");
    await bench.world.runFor(1);
    await bench.beat(2);
    expect(first.outcome).toBe("epoch 0");
    const from = { producerId: NAMED, producerEpoch: 0 };
    const calls = [asked(bench, "a", 100, from), asked(bench, "a", 200, from), asked(bench, "b", 300)];
    await bench.world.runFor(400);
    expect(calls.map(({ outcome }) => outcome)).toEqual(Array(3).fill("REQUEST_TIMED_OUT"));
    const again = [asked(bench, "a", 5_000, from), asked(bench, "a", 5_000), asked(bench, "b", 5_000)];
    await bench.world.runFor(1);
    await bench.beat(2);
    expect(again.map(({ outcome }) => outcome)).toEqual(["epoch 1", "epoch 2", "epoch 1"]);
  });

  test("by nobody who is the controller no more", async () => {
    const bench = await active(1, 2);
    const call = asked(bench, "a");
    await bench.world.runFor(1);
    bench.isController = false;
    bench.controller.onControllerChanged(false);
    await bench.world.runFor(1);
    expect(call.outcome).toBe("NOT_CONTROLLER");
    const late = asked(bench, "a");
    await bench.world.runFor(1);
    expect(late.outcome).toBe("NOT_CONTROLLER");
  });
});

describe("a broker that was fenced", () => {
  async function lateBroker(): Promise<{ bench: Bench; fencedEnd: number }> {
    const bench = await active(1, 2);
    bench.createTopic([2]);
    const before = bench.image.endOffset;
    await bench.world.runFor(SESSION_MS - 100);
    await bench.beat(1);
    await bench.world.runFor(500);
    expect(bench.decided()).toEqual(["fence 2 session"]);
    await bench.beat(2, { appliedEnd: before });
    return { bench, fencedEnd: bench.image.endOffset };
  }

  test("is unfenced only once it knows that it was: until then it may think that it leads", async () => {
    const { bench, fencedEnd } = await lateBroker();
    expect(bench.decided()).toEqual([]);
    await bench.beat(2, { appliedEnd: fencedEnd - 1 });
    expect(bench.decided()).toEqual([]);
    await bench.beat(2, { appliedEnd: fencedEnd });
    expect(bench.decided()).toEqual(["unfence 2"]);
  });

  test("a new controller, which does not know when it was, asks it to know everything", async () => {
    const { bench, fencedEnd } = await lateBroker();
    bench.controller.onControllerChanged(false);
    bench.controller.onControllerChanged(true);
    await bench.beat(2, { appliedEnd: fencedEnd - 1 });
    expect(bench.decided()).toEqual([]);
    await bench.beat(2, { appliedEnd: fencedEnd });
    expect(bench.decided()).toEqual(["unfence 2"]);
  });

  test("the tests find the bug I24f", async () => {
    activateMutants(["I24f"]);
    const { bench } = await lateBroker();
    expect(bench.decided()).toEqual(["unfence 2"]);
  });
});

test("P-17: a block of ids is of the broker's present epoch", async () => {
  const bench = await active(1, 2);
  const brokerEpoch = bench.heartbeatOf(2).brokerEpoch;
  const nodeId = bench.heartbeatOf(2).nodeId;
  expect(await bench.controller.allocateProducerIds({ nodeId, brokerEpoch })).toEqual({ firstId: 0, count: 1_000 });
  expect(await bench.controller.allocateProducerIds({ nodeId, brokerEpoch })).toEqual({ firstId: 1_000, count: 1_000 });
  await expect(bench.controller.allocateProducerIds({ nodeId, brokerEpoch: 99 })).rejects.toMatchObject({
    code: "STALE_BROKER_EPOCH",
  });
});

test("one block at a time is made for a broker; who does not know its epoch takes nothing of its place", async () => {
  const bench = await active(1, 2);
  const { nodeId, brokerEpoch } = bench.heartbeatOf(2);
  const own = bench.heartbeatOf(1);
  const ask = (of: { readonly nodeId: typeof nodeId; readonly brokerEpoch: number }) =>
    bench.controller.allocateProducerIds({ nodeId: of.nodeId, brokerEpoch: of.brokerEpoch }).then(
      ({ firstId }) => firstId,
      (thrown: unknown) => asOttlaError(thrown).code,
    );
  const asked = [
    ask({ nodeId, brokerEpoch: 99 }),
    ask({ nodeId, brokerEpoch }),
    ask({ nodeId, brokerEpoch }),
    ask(own),
  ];
  expect(await Promise.all(asked)).toEqual(["STALE_BROKER_EPOCH", 0, "BUSY", 1_000]);
  expect(await ask({ nodeId, brokerEpoch })).toBe(2_000);
});
