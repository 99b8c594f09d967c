import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { murmur2, partitionOfKey } from "../../src/client/partitioner.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

describe("partitioner", () => {
  it("computes murmur2 as Kafka does", () => {
    expect(murmur2(bytes("21"))).toBe(-973932308);
    expect(murmur2(bytes("foobar"))).toBe(-790332482);
    expect(murmur2(bytes("a-little-bit-long-string"))).toBe(-985981536);
  });

  it("always gives the same partition for the same bytes, within the range", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), fc.integer({ min: 1, max: 10_000 }), (key, count) => {
        const partition = partitionOfKey(key, count);
        expect(partition).toBeGreaterThanOrEqual(0);
        expect(partition).toBeLessThan(count);
        expect(partitionOfKey(new Uint8Array(key), count)).toBe(partition);
        expect(partition).toBe((murmur2(key) & 0x7fffffff) % count);
      }),
    );
  });
});
