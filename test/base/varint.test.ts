import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  peekVarint,
  readVarint,
  readVarlong,
  type VarintCursor,
  varintSize,
  varlongSize,
  writeVarint,
  writeVarlong,
} from "../../src/base/varint.ts";

const INT32_MIN = -(2 ** 31);
const INT32_MAX = 2 ** 31 - 1;
const hex = (text: string): Uint8Array => Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
const start = (): VarintCursor => ({ value: 0, position: 0 });

/** The definition, in BigInt: zigzag, then groups of seven bits, lowest first. */
function naiveEncode(value: number): number[] {
  const wide = BigInt(value);
  let zigzag = wide >= 0n ? wide * 2n : -wide * 2n - 1n;
  const bytes: number[] = [];
  for (; zigzag >= 0x80n; zigzag >>= 7n) bytes.push(Number(zigzag & 0x7fn) | 0x80);
  bytes.push(Number(zigzag));
  return bytes;
}

const int32 = fc.oneof(
  fc.integer({ min: INT32_MIN, max: INT32_MAX }),
  fc.tuple(fc.nat(31), fc.integer({ min: -2, max: 2 })).map(([bits, by]) => (2 ** bits + by) | 0),
);
const int53 = fc.oneof(
  fc.integer({ min: -(2 ** 52), max: 2 ** 52 - 1 }),
  fc
    .tuple(fc.nat(51), fc.integer({ min: -2, max: 2 }), fc.boolean())
    .map(([bits, by, isNegative]) => (isNegative ? -(2 ** bits) + by : 2 ** bits + by)),
);

describe("varint", () => {
  it.each([
    [0, "00"],
    [-1, "01"],
    [1, "02"],
    [63, "7e"],
    [-64, "7f"],
    [64, "8001"],
    [-65, "8101"],
    [8191, "fe7f"],
    [8192, "808001"],
    [INT32_MAX, "feffffff0f"],
    [INT32_MIN, "ffffffff0f"],
  ])("B-5: %i is %s", (value, text) => {
    const bytes = new Uint8Array(5);
    expect(writeVarint(bytes, 0, value)).toBe(text.length / 2);
    expect(bytes.subarray(0, text.length / 2)).toEqual(hex(text));
    expect(varintSize(value)).toBe(text.length / 2);
    const cursor = start();
    expect(readVarint(hex(text), text.length / 2, cursor)).toBe(true);
    expect(cursor).toEqual({ value, position: text.length / 2 });
  });

  it("B-5: agrees with the definition, and reads no further than its end", () => {
    fc.assert(
      fc.property(int32, (value) => {
        const expected = naiveEncode(value);
        const bytes = new Uint8Array(12).fill(0xaa);
        const end = writeVarint(bytes, 3, value);
        expect([...bytes.subarray(3, end)]).toEqual(expected);
        expect(varintSize(value)).toBe(expected.length);
        expect(bytes[end]).toBe(0xaa);
        const cursor = { value: 0, position: 3 };
        for (let cut = 3; cut < end; cut++) expect(readVarint(bytes, cut, cursor)).toBe(false);
        expect(readVarint(bytes, end, cursor)).toBe(true);
        expect(cursor).toEqual({ value, position: end });
      }),
      { numRuns: 2000 },
    );
  });

  it("B-5: longer than 5 bytes or wider than 32 bits is refused, not wrapped", () => {
    for (const text of ["808080808000", "ffffffffff0f", "8080808010", "ffffffff1f", "ffffffff7f", "8080808080"]) {
      expect(readVarint(hex(text), text.length / 2, start()), text).toBe(false);
    }
    // Needlessly long, but within 5 bytes: Kafka reads it, and so do we.
    const cursor = start();
    expect(readVarint(hex("8280808000"), 5, cursor)).toBe(true);
    expect(cursor).toEqual({ value: 1, position: 5 });
  });

  it("peekVarint agrees with readVarint on anything of up to four bytes, and gives up on the rest", () => {
    const input = fc.uint8Array({ minLength: 0, maxLength: 8 });
    fc.assert(
      fc.property(
        fc.oneof(
          input,
          int32.map((value) => Uint8Array.from([...naiveEncode(value), 0, 0, 0])),
        ),
        (bytes) => {
          const word = peekVarint(bytes, 0);
          const cursor = start();
          const isReadable = readVarint(bytes, bytes.length, cursor);
          if (word < 0) {
            expect(word).toBe(-1);
            expect(!isReadable || cursor.position >= 5 || bytes.length < 4).toBe(true);
          } else {
            expect(isReadable).toBe(true);
            expect({ value: (word >>> 4) ^ -((word >>> 3) & 1), position: word & 7 }).toEqual(cursor);
          }
        },
      ),
      { numRuns: 2000 },
    );
    expect(peekVarint(new Uint8Array(0), 0)).toBe(-1);
    expect(peekVarint(hex("ff"), 0)).toBe(-1);
  });
});

describe("varlong", () => {
  it.each([
    [2 ** 31, "8080808010"],
    [-(2 ** 31) - 1, "8180808010"],
    [2 ** 52 - 1, "feffffffffffff0f"],
    [-(2 ** 52), "ffffffffffffff0f"],
  ])("B-5: %d is %s", (value, text) => {
    const bytes = new Uint8Array(text.length / 2);
    expect(writeVarlong(bytes, 0, value)).toBe(bytes.length);
    expect(bytes).toEqual(hex(text));
    const cursor = start();
    expect(readVarlong(bytes, bytes.length, cursor)).toBe(true);
    expect(cursor).toEqual({ value, position: bytes.length });
  });

  it("B-5: agrees with the definition up to 2^52", () => {
    fc.assert(
      fc.property(int53, (value) => {
        const expected = naiveEncode(value);
        const bytes = new Uint8Array(12).fill(0xaa);
        const end = writeVarlong(bytes, 1, value);
        expect([...bytes.subarray(1, end)]).toEqual(expected);
        expect(varlongSize(value)).toBe(expected.length);
        const cursor = { value: 0, position: 1 };
        for (let cut = 1; cut < end; cut++) expect(readVarlong(bytes, cut, cursor)).toBe(false);
        expect(readVarlong(bytes, end, cursor)).toBe(true);
        expect(cursor).toEqual({ value, position: end });
      }),
      { numRuns: 2000 },
    );
  });

  it("B-5: beyond 2^52 and longer than 10 bytes is refused", () => {
    for (const text of ["8080808080808010", "feffffffffffffffff01", "ffffffffffffffffff01", "8080808080808080808000"]) {
      expect(readVarlong(hex(text), text.length / 2, start()), text).toBe(false);
    }
    const cursor = start();
    expect(readVarlong(hex("82808080808080808000"), 10, cursor)).toBe(true);
    expect(cursor).toEqual({ value: 1, position: 10 });
  });
});
