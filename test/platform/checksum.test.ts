import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { crc32cJs } from "../../src/base/crc32c.ts";
import { createChecksum } from "../../src/platform/checksum.ts";

const ascii = (text: string): Uint8Array => new TextEncoder().encode(text);
const implementations = { native: createChecksum(), script: createChecksum({ isNative: false }) };

/** One bit at a time, as the polynomial is defined. */
function bitwiseCrc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return ~crc >>> 0;
}

describe.each(Object.entries(implementations))("CRC-32C, %s", (_name, checksum) => {
  it("B-2: the check value, and the vectors of RFC 3720", () => {
    expect(checksum.crc32c(ascii("123456789"))).toBe(0xe3069283);
    expect(checksum.crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
    expect(checksum.crc32c(new Uint8Array(32).fill(0xff))).toBe(0x62a8ab43);
    expect(checksum.crc32c(Uint8Array.from({ length: 32 }, (_, at) => at))).toBe(0x46dd794e);
    expect(checksum.crc32c(new Uint8Array(0))).toBe(0);
  });

  it("agrees with the sum by single bits, whole and in two pieces, at any alignment", () => {
    const cases = fc.tuple(fc.uint8Array({ maxLength: 700 }), fc.nat(15), fc.nat(700));
    fc.assert(
      fc.property(cases, ([data, skip, cut]) => {
        const bytes = data.subarray(Math.min(skip, data.length));
        const at = Math.min(cut, bytes.length);
        const whole = bitwiseCrc32c(bytes);
        expect(checksum.crc32c(bytes)).toBe(whole);
        expect(checksum.crc32c(bytes.subarray(at), checksum.crc32c(bytes.subarray(0, at)))).toBe(whole);
      }),
      { numRuns: 150 },
    );
  });
});

describe("createChecksum", () => {
  it("has the native sums here, and they are not the plain ones at batch sizes", () => {
    const native = createChecksum();
    expect(native.crc32c).not.toBe(crc32cJs);
    const big = new Uint8Array(65_536).map((_, at) => at * 31);
    expect(native.crc32c(big)).toBe(crc32cJs(big));
  });
});
