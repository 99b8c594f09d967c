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

test("two at once, so that a sync finds a thread; the others in the order in which they came, also behind one that failed", async () => {
  const bench = new Bench();
  for (const name of ["a", "bad", "c", "d"]) bench.read(name, 10);
  expect(bench.begun).toEqual(["a", "bad"]);
  await bench.world.runFor(15);
  expect(bench.begun).toEqual(["a", "bad", "c", "d"]);
  await bench.world.runFor(100);
  expect(bench.ended).toHaveLength(4);
  expect(bench.ended.at(-1)?.atMs).toBeLessThan(25);
});

const microtasks = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Turns of the loop in which something was looked at, of five that were read when others had the loop too; the first is turn 1. */
async function turnsOfFive(): Promise<number[]> {
  const deferred: (() => void)[] = [];
  const deadlines = { add: () => new Deadline(0, 0, { onExpire: () => undefined, onStop: undefined }) };
  const lanes = new ReadLanes({ clock: { monoMs: () => 0 }, deadlines, defer: (work) => void deferred.push(work) });
  let turn = 0;
  const seenIn: number[] = [];
  const read = () =>
    lanes.run(async (admitted) => {
      await microtasks();
      await admitted();
      seenIn.push(turn);
    });
  await read();
  expect(seenIn.splice(0), "alone: at once").toEqual([0]);
  const reads = Promise.all([1, 2, 3, 4, 5].map(read));
  for (turn = 1; seenIn.length < 5; turn++) {
    await microtasks();
    await microtasks();
    expect(deferred).toHaveLength(1);
    deferred.shift()?.();
    await microtasks();
  }
  await reads;
  return seenIn;
}

test("what has come from the disk is looked at one in every third turn of the loop; alone, at once", async () => {
  expect(await turnsOfFive()).toEqual([3, 6, 9, 12, 15]);
});

test("R-turns: if it came in every turn, others would have none for themselves", async () => {
  activateMutants(["R-turns"]);
  expect(await turnsOfFive()).toEqual([1, 2, 3, 4, 5]);
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

/** How many reads began while the loop had no turn for long for the two that the disk had answered. */
async function begunInSlowTurn(): Promise<number> {
  let nowMs = 0;
  const looks: (() => void)[] = [];
  const deadlines = {
    add: (_: number, look: () => void) => {
      looks.push(look);
      return new Deadline(0, 0, { onExpire: () => undefined, onStop: undefined });
    },
  };
  const lanes = new ReadLanes({ clock: { monoMs: () => nowMs }, deadlines, defer: () => undefined });
  let begun = 0;
  const read = () =>
    lanes.run(async (admitted) => {
      begun++;
      await microtasks();
      await admitted();
    });
  for (let number = 0; number < 10; number++) void read();
  await microtasks();
  await microtasks();
  for (let look = 0; look < 5; look++) {
    nowMs += 100;
    for (const each of looks.splice(0)) each();
    await microtasks();
    await microtasks();
  }
  return begun;
}

test("a loop that is slow to look at what the disk answered is no slow disk", async () => {
  expect(await begunInSlowTurn()).toBe(2);
});

test("R-lanes-loop: if it were, all would be read at once in a slow loop", async () => {
  activateMutants(["R-lanes-loop"]);
  expect(await begunInSlowTurn()).toBe(10);
});
