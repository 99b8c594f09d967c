import fc from "fast-check";
import { expect, test } from "vitest";
import { KeyMap } from "../../../src/storage/compaction/key-map.ts";

test("S-35: it is a map of whole keys: whatever their hashes, no key is taken for another", () => {
  const keys = fc.uint8Array({ maxLength: 3, max: 3 });
  fc.assert(
    fc.property(fc.array(keys, { maxLength: 400 }), fc.nat(), (puts, seed) => {
      const map = new KeyMap({ maxBytes: 1 << 20, seed });
      const twin = new Map<string, number>();
      for (const [offset, key] of puts.entries()) {
        expect(map.put(key, offset)).toBe(true);
        twin.set(key.join(), offset);
      }
      expect(map.size).toBe(twin.size);
      for (const key of puts) expect(map.get(key)).toBe(twin.get(key.join()));
      expect(map.get(Uint8Array.of(9))).toBe(-1);
    }),
  );
});

test("it grows up to its bound and says when there is no room; known keys always have some", () => {
  const map = new KeyMap({ maxBytes: 1 << 20, seed: 7 });
  const keyOf = (number: number): Uint8Array => new TextEncoder().encode(`key-${number}-of-some-length`);
  let count = 0;
  while (map.put(keyOf(count), count)) count++;
  // 28 bytes an entry and its key: so many at least, and not more than the bound has bytes for.
  expect(count).toBeGreaterThan(10_000);
  expect(count * (20 + 20)).toBeLessThan(1 << 20);
  expect(map.size).toBe(count);
  expect(map.put(keyOf(3), 99_999)).toBe(true);
  for (let number = 0; number < count; number++) expect(map.get(keyOf(number))).toBe(number === 3 ? 99_999 : number);
  expect(map.get(keyOf(count))).toBe(-1);
});

test("a first key is taken whatever its size: a pass always gets on", () => {
  const map = new KeyMap({ maxBytes: 1024, seed: 1 });
  const large = new Uint8Array(1 << 20).fill(1);
  expect(map.put(large, 5)).toBe(true);
  expect(map.get(large)).toBe(5);
  expect(map.put(Uint8Array.of(1), 6)).toBe(false);
  expect(map.put(new Uint8Array(1 << 21), 7)).toBe(false);
});
