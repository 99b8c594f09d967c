// What sums of parts tell of the sum of the whole; the sums themselves are tested with platform/checksum.
import { expect, test } from "vitest";
import { crc32cJs, crc32cShifted } from "../../src/base/crc32c.ts";
import { createRng } from "../../src/base/rng.ts";

test("the sum of two pieces is that of the second and that of the first, shifted by the length of the second", () => {
  const rng = createRng(7);
  for (const [first, second] of [
    [0, 0],
    [1, 0],
    [0, 9],
    [5, 1],
    [31, 64],
    [300, 4097],
    [70_001, 131_071],
  ] as const) {
    const bytes = Uint8Array.from({ length: first + second }, () => rng.below(256));
    const [before, after] = [crc32cJs(bytes.subarray(0, first)), crc32cJs(bytes.subarray(first))];
    expect((crc32cShifted(before, second) ^ after) >>> 0).toBe(crc32cJs(bytes));
    const seed = rng.below(2 ** 32);
    expect((crc32cShifted(seed, first) ^ before) >>> 0).toBe(crc32cJs(bytes.subarray(0, first), seed));
  }
});
