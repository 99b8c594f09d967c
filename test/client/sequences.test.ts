// The numbers of batches against a broker that keeps the rules of producers, and a network that loses, delays and repeats what it can.
import { afterEach, describe, expect, it } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { createRng, type Rng } from "../../src/base/rng.ts";
import { addSequence } from "../../src/model/batch-header.ts";
import { Sequences, type Slot } from "../../src/client/sequences.ts";
import { SequenceWorld } from "./sequence-world.ts";

afterEach(() => activateMutants([]));

const SEEDS = 1_500;

function run(seed: number, rng: Rng = createRng(seed), most?: number): SequenceWorld {
  const world = new SequenceWorld(rng, most);
  for (let count = 0; count < 250; count++) world.event();
  world.settle();
  return world;
}

/** The first seed of some that shows what must not be. */
function firstFault(): string | undefined {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const faults = run(seed).faults();
    if (faults.length > 0) return faults[0];
  }
  return undefined;
}

it("D-15f: a first batch of a forgotten producer that is believed is there twice", () => {
  activateMutants(["D-15f"]);
  const faults = Array.from({ length: 30 }, (_, seed) => run(seed, createRng(seed), 1).faults());
  expect(faults.flat().some((fault) => fault.startsWith("twice"))).toBe(true);
});

describe("sequences against a model broker", () => {
  it("writes no batch twice, keeps the order, and tells the truth of each", () => {
    const seen = { ok: 0, unknown: 0, notAppended: 0, duplicates: 0, epochs: 0, late: 0, forgotten: 0 };
    for (let seed = 1; seed <= SEEDS; seed++) {
      // In some the partition forgets the producer for one or two others.
      const world = run(seed, createRng(seed), seed % 3 === 0 ? 1 + (seed % 2) : undefined);
      expect(world.faults(), `seed ${seed}`).toEqual([]);
      for (const key of Object.keys(seen) as (keyof typeof seen)[]) seen[key] += world.seen[key];
    }
    // What was to be tried was tried.
    for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(SEEDS / 5);
  });

  it("sends all when nothing goes wrong any more", () => {
    for (let seed = 1; seed <= 100; seed++) {
      const world = run(seed);
      expect(world.open, `seed ${seed}`).toBe(0);
    }
  });

  it("D-28e: an epoch that changes while batches are under way is seen", () => {
    activateMutants(["D-28e"]);
    expect(firstFault()).toMatch(/twice|order|not appended/);
  });
});

const IDENTITY = { producerId: 7, producerEpoch: 0 };

function begun(count: number): { sequences: Sequences<string>; slots: Slot<string>[] } {
  const sequences = new Sequences<string>();
  sequences.restart(IDENTITY);
  const slots = Array.from({ length: count }, (_, index) => sequences.begin("ABCDE"[index] as string, 1));
  return { sequences, slots };
}

describe("sequences", () => {
  it("need an identity first", () => {
    const sequences = new Sequences<string>();
    expect(sequences.next()).toEqual({ kind: "restart" });
    sequences.restart(IDENTITY);
    expect(sequences.next()).toEqual({ kind: "new" });
  });

  it("are given to at most five batches from the oldest that is not known to be there", () => {
    const { sequences, slots } = begun(5);
    expect(sequences.next().kind).toBe("hold");
    sequences.appended(slots[2] as Slot<string>);
    expect(sequences.next().kind).toBe("hold");
    sequences.appended(slots[0] as Slot<string>);
    expect(sequences.next().kind).toBe("new");
  });

  it("go back to a batch that was refused for certain, for the next one to have", () => {
    const { sequences, slots } = begun(1);
    expect(sequences.refused(slots[0] as Slot<string>, false)).toEqual(["A"]);
    expect(sequences.nextStamp?.baseSequence).toBe(0);
    expect(sequences.next().kind).toBe("new");
  });

  it("stay with a batch in doubt, and with one behind which another is under way", () => {
    const { sequences, slots } = begun(2);
    const [first, second] = slots as [Slot<string>, Slot<string>];
    expect(sequences.refused(first, false)).toEqual([]);
    expect(sequences.next()).toEqual({ kind: "again", slot: first });
    expect(sequences.refused(second, true)).toEqual([]);
    sequences.again(first);
    expect(sequences.next()).toEqual({ kind: "again", slot: second });
    expect(second.stamp.baseSequence).toBe(1);
  });

  it("P-16: an out-of-order answer behind a batch that is to be sent again changes no epoch", () => {
    const { sequences, slots } = begun(3);
    const [first, second, third] = slots as [Slot<string>, Slot<string>, Slot<string>];
    sequences.refused(first, false);
    expect(sequences.outOfOrder(second).kind).toBe("again");
    expect(sequences.outOfOrder(third)).toEqual({ kind: "again", freed: ["C", "B", "A"] });
    expect(sequences.next().kind).toBe("new");
    expect(sequences.nextStamp).toEqual({ ...IDENTITY, baseSequence: 0 });
  });

  it("begin anew behind a batch that was given up in doubt", () => {
    const { sequences, slots } = begun(2);
    const [first, second] = slots as [Slot<string>, Slot<string>];
    sequences.failed(first);
    expect(sequences.next().kind).toBe("hold");
    expect(sequences.outOfOrder(second)).toEqual({ kind: "again", freed: ["B"] });
    expect(sequences.next().kind).toBe("restart");
    sequences.restart({ ...IDENTITY, producerEpoch: 1 });
    expect(sequences.begin("B", 1).stamp).toEqual({ producerId: 7, producerEpoch: 1, baseSequence: 0 });
  });

  it("tell a batch in doubt that is never taken any more that it is lost", () => {
    const { sequences, slots } = begun(2);
    const [first, second] = slots as [Slot<string>, Slot<string>];
    sequences.refused(second, true);
    sequences.failed(first);
    expect(sequences.next()).toEqual({ kind: "again", slot: second });
    sequences.again(second);
    expect(sequences.outOfOrder(second).kind).toBe("lost");
    sequences.failed(second);
    expect(sequences.next().kind).toBe("restart");
  });

  it("go on in their epoch where a later answer shows that nothing is missing", () => {
    const { sequences, slots } = begun(2);
    const [first, second] = slots as [Slot<string>, Slot<string>];
    sequences.failed(first);
    sequences.appended(second);
    expect(sequences.next().kind).toBe("new");
    expect(sequences.nextStamp).toEqual({ ...IDENTITY, baseSequence: 2 });
  });

  it("P-3: wrap after 2^31 - 1", () => {
    const { sequences } = begun(0);
    sequences.skipTo(0x7fffffff);
    expect(sequences.begin("A", 3).stamp.baseSequence).toBe(0x7fffffff);
    expect(sequences.nextStamp?.baseSequence).toBe(addSequence(0x7fffffff, 3));
    expect(sequences.nextStamp?.baseSequence).toBe(2);
  });
});
