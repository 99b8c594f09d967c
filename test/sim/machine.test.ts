import { describe, expect, it } from "vitest";
import { createSimHost } from "../../scripts/sim-host.ts";
import { createSimClock, createSimTimers, SimWorld } from "../../src/sim/world.ts";

const host = await createSimHost();

function begin() {
  const world = new SimWorld({ seed: 1, host });
  const [owner, other] = [world.startIncarnation("a"), world.startIncarnation("b")];
  return { world, owner, other, machine: world.machine("a") };
}

describe("P2: a paused machine", () => {
  it("its events wait and then happen in their order; the others' go on; its clock has jumped", async () => {
    const { world, owner, other, machine } = begin();
    const clock = createSimClock(world, owner);
    const happened: string[] = [];
    const mark = (name: string) => () => void happened.push(`${name} ${Math.round(clock.monoMs())}`);
    for (const delay of [10, 20, 30, 40]) createSimTimers(world, owner).after(delay, mark(`a${delay}`));
    createSimTimers(world, other).after(25, mark("b25"));
    await world.runFor(15);
    world.pause(machine);
    await world.runFor(85);
    expect(happened).toEqual(["a10 10", "b25 25"]);
    world.resume(machine);
    createSimTimers(world, owner).after(0, mark("new"));
    await world.runFor(10);
    expect(happened).toEqual(["a10 10", "b25 25", "a20 100", "a30 100", "a40 100", "new 100"]);
  });

  it("a held event may be cancelled, and dies with its process", async () => {
    const { world, owner, machine } = begin();
    const happened: string[] = [];
    const timers = createSimTimers(world, owner);
    const handle = timers.after(10, () => void happened.push("cancelled"));
    world.pause(machine);
    await world.runFor(20);
    handle.cancel();
    timers.after(5, () => void happened.push("kept"));
    await world.runFor(20);
    world.resume(machine);
    await world.runFor(1);
    expect(happened).toEqual(["kept"]);
    world.pause(machine);
    timers.after(1, () => void happened.push("dead"));
    await world.runFor(5);
    owner.end();
    world.resume(machine);
    await world.runFor(5);
    expect(happened).toEqual(["kept"]);
  });
});

describe("C1: clocks", () => {
  it("a jump and a drift of the wall clock leave the monotonic one alone", async () => {
    const { world, owner, other, machine } = begin();
    const [clock, unmoved] = [createSimClock(world, owner), createSimClock(world, other)];
    const startMs = clock.wallMs();
    machine.setWall(-86_400_000, 1.05);
    await world.runFor(1000);
    expect(clock.wallMs()).toBe(startMs - 86_400_000 + 1050);
    expect(unmoved.wallMs()).toBe(startMs + 1000);
    expect(clock.monoMs()).toBe(1000);
  });

  it("it never shows a time before 1970", () => {
    const { owner, world, machine } = begin();
    machine.setWall(-1e15, 1);
    expect(createSimClock(world, owner).wallMs()).toBe(0);
  });

  it("a fast monotonic clock fires its timers early by the true time, on time by its own", async () => {
    const { world, owner, machine } = begin();
    machine.monoRate = 1.01;
    const clock = createSimClock(world, owner);
    const at: number[] = [];
    createSimTimers(world, owner).after(1010, () => void at.push(world.nowMs, clock.monoMs()));
    await world.runFor(2000);
    expect(at.map(Math.round)).toEqual([1000, 1010]);
  });
});
