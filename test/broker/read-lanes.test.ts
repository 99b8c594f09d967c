// Reads from disk for consumers: a few at once, in turn, and none waits for one that takes long.
import { afterEach, expect, test } from "vitest";
import { Deadline, Deadlines } from "../../src/base/deadlines.ts";
import { activateMutants } from "../../src/base/mutant.ts";
import { ReadLanes } from "../../src/broker/read-lanes.ts";
import { createSimClock, createSimTimers, SimWorld } from "../../src/sim/world.ts";
import { createSimHost } from "../../scripts/sim-host.ts";

const host = await createSimHost();

afterEach(() => activateMutants([]));

class Bench {
  readonly world = new SimWorld({ seed: 1, host });
  readonly ended: { readonly name: string; readonly atMs: number }[] = [];
  readonly begun: string[] = [];
  readonly #lanes: ReadLanes;

  constructor() {
    const owner = this.world.startIncarnation("node");
    const clock = createSimClock(this.world, owner);
    const timers = createSimTimers(this.world, owner);
    const deadlines = new Deadlines({ clock, timers });
    this.#lanes = new ReadLanes({ clock, deadlines, defer: (work) => timers.defer(work) });
  }

  read(name: string, tookMs: number): void {
    const read = async (turn: () => Promise<void> | undefined): Promise<void> => {
      this.begun.push(name);
      await this.world.later({ delayMs: tookMs, kind: "read" }, () => {
        if (name.startsWith("bad")) throw new Error(name);
      });
      await turn();
    };
    const end = (): void => void this.ended.push({ name, atMs: this.world.nowMs });
    this.#lanes.run(read).then(end, end);
  }
}

test("four at once, the others in the order in which they came, also behind one that failed", async () => {
  const bench = new Bench();
  for (const name of ["a", "bad", "c", "d", "e", "f"]) bench.read(name, 10);
  expect(bench.begun).toEqual(["a", "bad", "c", "d"]);
  await bench.world.runFor(15);
  expect(bench.begun).toEqual(["a", "bad", "c", "d", "e", "f"]);
  await bench.world.runFor(100);
  expect(bench.ended).toHaveLength(6);
  expect(bench.ended.at(-1)?.atMs).toBeLessThan(25);
});

const microtasks = () => new Promise<void>((resolve) => setImmediate(resolve));

test("what has come from the disk is looked at one in each turn of the loop; alone, at once", async () => {
  const deferred: (() => void)[] = [];
  const deadlines = { add: () => new Deadline(0, 0, { onExpire: () => undefined, onStop: undefined }) };
  const lanes = new ReadLanes({ clock: { monoMs: () => 0 }, deadlines, defer: (work) => void deferred.push(work) });
  const seen: number[] = [];
  const read = (number: number) =>
    lanes.run(async (turn) => {
      await microtasks();
      await turn();
      seen.push(number);
    });
  await read(0);
  expect(seen).toEqual([0]);
  const reads = [1, 2, 3, 4, 5].map(read);
  for (let turns = 0; turns < 5; turns++) {
    await microtasks();
    await microtasks();
    expect([seen.length, deferred.length]).toEqual([1 + turns, 1]);
    deferred.shift()?.();
  }
  await Promise.all(reads);
  expect(seen).toEqual([0, 1, 2, 3, 4, 5]);
});

async function besideDying(): Promise<number> {
  const bench = new Bench();
  for (const name of ["w", "x", "y", "z"]) bench.read(`dying ${name}`, 60_000);
  for (const name of ["a", "b", "c", "d", "e"]) bench.read(name, 1);
  await bench.world.runFor(100);
  return bench.ended.length;
}

test("those that take long do not hold up the others for 100 ms", async () => {
  expect(await besideDying()).toBe(5);
});

test("R-lanes: if they counted for as long as they take, all would wait", async () => {
  activateMutants(["R-lanes"]);
  expect(await besideDying()).toBe(0);
});
