import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  bytesEqual,
  concatBytes,
  keepable,
  readI16,
  readI32,
  readI64,
  readU16,
  readU32,
  utf8Decode,
  utf8Encode,
  utf8Size,
  utf8Write,
  writeI64,
  writeU16,
  writeU32,
} from "../../src/base/bytes.ts";

/** DataView is the twin: big-endian, and BigInt for 64 bits. */
function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const safeInteger = fc.oneof(
  fc.maxSafeInteger(),
  fc
    .tuple(fc.nat(52), fc.integer({ min: -2, max: 2 }), fc.constantFrom(1, -1))
    .map(([bits, by, sign]) =>
      Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, sign * 2 ** bits + by)),
    ),
);

describe("integers", () => {
  it("reads what DataView reads, at any position", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 12, maxLength: 12 }), fc.nat(4), (bytes, position) => {
        const view = viewOf(bytes);
        expect(readU16(bytes, position)).toBe(view.getUint16(position));
        expect(readI16(bytes, position)).toBe(view.getInt16(position));
        expect(readI32(bytes, position)).toBe(view.getInt32(position));
        expect(readU32(bytes, position)).toBe(view.getUint32(position));
        const exact = view.getBigInt64(position);
        const read = readI64(bytes, position);
        expect(Number.isSafeInteger(read)).toBe(Number.isSafeInteger(Number(exact)));
        if (Number.isSafeInteger(read)) expect(BigInt(read)).toBe(exact);
      }),
      { numRuns: 1000 },
    );
  });

  it("writes any safe integer as 64 bits, negative ones too, and reads it back", () => {
    fc.assert(
      fc.property(safeInteger, (value) => {
        const bytes = new Uint8Array(10).fill(0xaa);
        writeI64(bytes, 1, value);
        expect(viewOf(bytes).getBigInt64(1)).toBe(BigInt(value));
        expect(readI64(bytes, 1)).toBe(value === 0 ? 0 : value);
        expect([bytes[0], bytes[9]]).toEqual([0xaa, 0xaa]);
      }),
      { numRuns: 2000 },
    );
  });

  it("2^53 and beyond, both ways, is seen to be inexact", () => {
    const bytes = new Uint8Array(8);
    for (const value of [2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 53n), -(2n ** 53n) - 1n, -(2n ** 63n)]) {
      viewOf(bytes).setBigInt64(0, value);
      expect(Number.isSafeInteger(readI64(bytes, 0)), String(value)).toBe(false);
    }
  });

  it("writes 16 and 32 bits, signed or not", () => {
    fc.assert(
      fc.property(fc.integer({ min: -(2 ** 31), max: 2 ** 32 - 1 }), (value) => {
        const bytes = new Uint8Array(4);
        writeU32(bytes, 0, value);
        expect(readU32(bytes, 0)).toBe(value >>> 0);
        writeU16(bytes, 1, value);
        expect(readU16(bytes, 1)).toBe(value & 0xffff);
      }),
    );
  });
});

describe("text", () => {
  it("size and writing agree with TextEncoder, lone surrogates included", () => {
    const text = fc.oneof(
      fc.string({ unit: "binary", maxLength: 20 }),
      fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 12 }).map((units) => String.fromCharCode(...units)),
      fc.constantFrom("", "é", "€", "😀", "a😀b", "\ud800", "\udc00\ud800", "x\ud83d"),
    );
    fc.assert(
      fc.property(text, (value) => {
        const expected = utf8Encode(value);
        expect(utf8Size(value)).toBe(expected.length);
        const bytes = new Uint8Array(expected.length + 2).fill(0xaa);
        expect(utf8Write(bytes, 1, value)).toBe(expected.length + 1);
        expect(bytes.subarray(1, -1)).toEqual(expected);
      }),
      { numRuns: 1000 },
    );
  });

  it("reads invalid bytes as U+FFFD instead of throwing", () => {
    expect(utf8Decode(Uint8Array.of(0x61, 0xff, 0x62))).toBe("a\ufffdb");
  });
});

describe("runs of bytes", () => {
  it("compares by content", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 20 }), fc.uint8Array({ maxLength: 20 }), (left, right) => {
        expect(bytesEqual(left, right)).toBe(Buffer.compare(left, right) === 0);
        expect(bytesEqual(left, Uint8Array.from(left))).toBe(true);
      }),
    );
    expect(bytesEqual(Uint8Array.of(1, 2, 3), Uint8Array.of(1, 2, 4))).toBe(false);
  });

  it("concatenates in order into one own buffer", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 9 }), { maxLength: 6 }), (parts) => {
        expect([...concatBytes(parts)]).toEqual(parts.flatMap((part) => [...part]));
      }),
    );
  });

  it("D-26: a view of less than half of its store is copied, another is kept as it is", () => {
    const store = new Uint8Array(100).map((_, at) => at);
    expect(keepable(store.subarray(0, 50)).buffer).toBe(store.buffer);
    const copied = keepable(store.subarray(10, 59));
    expect(copied.buffer).not.toBe(store.buffer);
    expect(copied.buffer.byteLength).toBe(49);
    expect(copied).toEqual(store.subarray(10, 59));
    expect(keepable(Buffer.from("pooled")).buffer.byteLength).toBe(6);
  });
});
