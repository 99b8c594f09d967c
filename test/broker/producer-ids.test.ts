// The ids that a broker hands out: blocks asked for early, again after a failure, and what becomes of requests that wait (P-17).
import { describe, expect, test } from "vitest";
import { ProducerIdSource } from "../../src/broker/producer-ids.ts";
import { asOttlaError, OttlaError } from "../../src/model/errors.ts";
import { toNodeId } from "../../src/model/ids.ts";
import { createSimTimers } from "../../src/sim/world.ts";
import { createSimLogger } from "../../src/sim/sim-ports.ts";
import type { AllocateProducerIdsResponse } from "../../src/wire/native/producer-apis.ts";
import { makeWorld } from "./support.ts";

function makeSource() {
  const { world } = makeWorld();
  const incarnation = world.startIncarnation("node1");
  const asked: ((answer: AllocateProducerIdsResponse | OttlaError) => void)[] = [];
  let count = 0;
  const known = { brokerEpoch: 7 as number | null };
  const source = new ProducerIdSource({
    nodeId: toNodeId(1),
    brokerEpoch: () => known.brokerEpoch,
    allocate: () =>
      new Promise((resolve, reject) => {
        count++;
        asked.push((answer) => (answer instanceof OttlaError ? reject(answer) : resolve(answer)));
      }),
    timers: createSimTimers(world, incarnation),
    logger: createSimLogger(world, "node1"),
    onDefect: (defect) => world.fail(defect as Error),
  });
  const next = (timeoutMs = 5_000): Promise<number | string> =>
    source.next(timeoutMs).catch((thrown: unknown) => `${asOttlaError(thrown).code}: ${asOttlaError(thrown).message}`);
  const answer = async (what: AllocateProducerIdsResponse | OttlaError): Promise<void> => {
    asked.shift()?.(what);
    await world.runFor(0.1);
  };
  return { world, source, next, answer, known, calls: () => count };
}

const BLOCK = { firstId: 3_000, count: 10 };

describe("ids of a block", () => {
  test("come in order; the next block is asked for when a fifth is left, once", async () => {
    const { world, next, answer, calls } = makeSource();
    const first = next();
    await answer(BLOCK);
    const given = [await first];
    for (let at = 0; at < 6; at++) given.push(await next());
    expect(calls()).toBe(1);
    given.push(await next());
    expect(calls()).toBe(2);
    given.push(await next(), await next());
    expect(given).toEqual([3_000, 3_001, 3_002, 3_003, 3_004, 3_005, 3_006, 3_007, 3_008, 3_009]);
    expect(calls(), "one call at a time").toBe(2);
    const waiting = next();
    await answer({ firstId: 9_000, count: 10 });
    expect(await world.settle(waiting)).toBe(9_000);
    expect(calls()).toBe(2);
  });

  test("more requests than a block has: it asks on until all are served", async () => {
    const { world, next, answer, calls } = makeSource();
    const waiting = Promise.all(Array.from({ length: 25 }, () => next()));
    for (let block = 0; block < 3; block++) await answer({ firstId: block * 10, count: 10 });
    expect(await world.settle(waiting)).toEqual(Array.from({ length: 25 }, (_, index) => index));
    expect(calls()).toBe(3);
  });
});

describe("a controller that does not give any", () => {
  test("is asked again, for as long as somebody waits", async () => {
    const { world, next, answer, calls } = makeSource();
    const waiting = next(1_000);
    await answer(new OttlaError("NOT_CONTROLLER", "not here"));
    expect(calls()).toBe(1);
    await world.runFor(60);
    expect(calls()).toBe(2);
    await answer(new OttlaError("NOT_CONTROLLER", "nor here"));
    await world.runFor(1_000);
    expect(await waiting).toBe("REQUEST_TIMED_OUT: it waited for producer ids: nor here");
    await answer(new OttlaError("NOT_CONTROLLER", "nor here"));
    await world.runFor(5_000);
    expect(calls(), "nobody waits any more").toBe(3);
    const again = next();
    expect(calls()).toBe(4);
    await answer(BLOCK);
    expect(await again).toBe(3_000);
  });

  test("is not asked by a broker that is not registered", async () => {
    const { world, next, known, answer, calls } = makeSource();
    known.brokerEpoch = null;
    const waiting = next();
    await world.runFor(500);
    expect(calls()).toBe(0);
    known.brokerEpoch = 7;
    await world.runFor(600);
    await answer(BLOCK);
    expect(await waiting).toBe(3_000);
  });
});

test("Q-21: a broker asks for its first block before anybody wants an id, again and again until it has it", async () => {
  const { world, source, next, answer, calls } = makeSource();
  source.warm();
  for (let tries = 1; tries <= 4; tries++) {
    expect(calls()).toBe(tries);
    await answer(new OttlaError("NOT_CONTROLLER", "not here"));
    await world.runFor(600);
  }
  await answer(BLOCK);
  await world.runFor(5_000);
  expect(calls()).toBe(5);
  expect(await next()).toBe(3_000);
  expect(calls()).toBe(5);
});

test("a stop ends the waits; the bound refuses what is too much", async () => {
  const { world, source, next } = makeSource();
  const waiting = Array.from({ length: 10_000 }, () => next());
  expect(await next()).toBe("BUSY: 10000 requests wait for producer ids");
  source.stop();
  expect(new Set(await world.settle(Promise.all(waiting)))).toEqual(
    new Set(["BROKER_NOT_AVAILABLE: the broker is stopping"]),
  );
  expect(await next()).toBe("BROKER_NOT_AVAILABLE: the broker is stopping");
});
