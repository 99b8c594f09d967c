// The formula of the high watermark.
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { nextHighWatermark } from "../../src/replication/high-watermark.ts";

afterEach(() => activateMutants([]));

const member = (durableEnd: number, isCounted = true) => ({ durableEnd, isCounted });

test("D-35, R-3: the smallest durable end over the maximal ISR, never falling, only with min ISR", () => {
  fc.assert(
    fc.property(
      fc.nat(20),
      fc.array(fc.record({ durableEnd: fc.integer({ min: -1, max: 20 }), isCounted: fc.boolean() }), { maxLength: 4 }),
      fc.integer({ min: -2, max: 2 }),
      fc.nat(20),
      (own, followers, spare, current) => {
        const counted = followers.filter(({ isCounted }) => isCounted).map(({ durableEnd }) => durableEnd);
        const smallest = Math.min(own, ...counted);
        const expected = spare >= 0 && smallest > current ? smallest : current;
        expect(nextHighWatermark(current, own, followers, spare)).toBe(expected);
      },
    ),
  );
});

test("M5: the planted bug takes the largest", () => {
  activateMutants(["M5"]);
  expect(nextHighWatermark(0, 3, [member(9)], 0)).toBe(9);
});

test("M15: the planted bug ignores min ISR", () => {
  expect(nextHighWatermark(0, 3, [], -1)).toBe(0);
  activateMutants(["M15"]);
  expect(nextHighWatermark(0, 3, [], -1)).toBe(3);
});
