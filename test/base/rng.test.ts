import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createRng } from "../../src/base/rng.ts";

const draw = (count: number, next: () => number): number[] => Array.from({ length: count }, next);

describe("createRng", () => {
  it("the same seed gives the same stream, another seed another", () => {
    fc.assert(
      fc.property(fc.nat({ max: Number.MAX_SAFE_INTEGER }), (seed) => {
        const [one, same, other] = [createRng(seed), createRng(seed), createRng(seed === 0 ? 1 : seed - 1)];
        const stream = draw(8, () => one.u32());
        expect(draw(8, () => same.u32())).toEqual(stream);
        expect(draw(8, () => other.u32())).not.toEqual(stream);
      }),
      { numRuns: 200 },
    );
    const high = createRng(2 ** 40);
    const low = createRng(0);
    expect(draw(4, () => high.u32())).not.toEqual(draw(4, () => low.u32()));
  });

  it("keeps its stream for ever: kept seeds depend on it", () => {
    const rng = createRng(42);
    expect(draw(4, () => rng.u32())).toEqual([3567743944, 2300744405, 3380734625, 3326064943]);
    expect(createRng([1, 2, 3, 4]).u32()).toBe(3653304796);
    const child = createRng(42).fork("disk");
    expect(draw(2, () => child.u32())).toEqual([917036230, 2566126094]);
  });

  it("a fork depends on seed and label only, not on what the parent drew", () => {
    const fresh = createRng(7);
    const drawn = createRng(7);
    draw(100, () => drawn.u32());
    const [left, right] = [fresh.fork("net"), drawn.fork("net")];
    expect(draw(8, () => left.u32())).toEqual(draw(8, () => right.u32()));
    const labels = ["net", "disk", "", "ten", "net/0", "net/1", "net/10"];
    const firsts = new Set(labels.map((label) => fresh.fork(label).u32()));
    expect(firsts.size).toBe(labels.length);
    expect(fresh.fork("a").fork("b").u32()).not.toBe(fresh.fork("b").fork("a").u32());
    expect(fresh.fork("a").fork("a").u32()).not.toBe(createRng(7).u32());
  });

  it("stays in its ranges and reaches both ends", () => {
    fc.assert(
      fc.property(fc.nat(1000), fc.integer({ min: 1, max: 2 ** 53 - 1 }), (seed, bound) => {
        const rng = createRng(seed);
        for (const value of draw(20, () => rng.below(bound))) {
          expect(Number.isSafeInteger(value) && value >= 0 && value < bound).toBe(true);
        }
      }),
      { numRuns: 200 },
    );
    const rng = createRng(1);
    expect(new Set(draw(200, () => rng.between(-2, 2)))).toEqual(new Set([-2, -1, 0, 1, 2]));
    expect(new Set(draw(100, () => rng.pick([5, 6, 7])))).toEqual(new Set([5, 6, 7]));
    expect(() => rng.pick([])).toThrow(RangeError);
  });

  it("is uniform enough: each of 16 buckets gets its share, and chance(p) comes true about p of the time", () => {
    const rng = createRng(3);
    const buckets = new Array<number>(16).fill(0);
    for (let turn = 0; turn < 32_000; turn++) {
      const bucket = rng.below(16);
      buckets[bucket] = (buckets[bucket] ?? 0) + 1;
    }
    for (const count of buckets) expect(Math.abs(count - 2000)).toBeLessThan(250);
    const hits = draw(20_000, () => (rng.chance(0.1) ? 1 : 0)).reduce((sum, hit) => sum + hit, 0);
    expect(Math.abs(hits - 2000)).toBeLessThan(200);
    expect(draw(100, () => (rng.chance(0) ? 1 : 0))).not.toContain(1);
    expect(draw(100, () => (rng.chance(1) ? 1 : 0))).not.toContain(0);
  });

  it("fills any length, byte for byte from its stream", () => {
    for (let length = 0; length < 10; length++) {
      const words = createRng(9);
      const target = new Uint8Array(length);
      createRng(9).fill(target);
      const expected = new Uint8Array(
        draw(3, () => words.u32()).flatMap((word) => [word, word >>> 8, word >>> 16, word >>> 24]),
      );
      expect(target).toEqual(expected.subarray(0, length));
    }
  });

  it("shows every draw, those of forks too", () => {
    const seen: number[] = [];
    const rng = createRng(5, (value) => seen.push(value));
    const own = [rng.u32(), rng.fork("child").u32()];
    rng.chance(0.5);
    expect(seen.slice(0, 2)).toEqual(own);
    expect(seen.length).toBe(4);
  });
});
