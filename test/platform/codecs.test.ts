import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { compressSync as snappyRaw } from "snappy";
import { beforeAll, describe, expect, it } from "vitest";
import { bytesEqual, concatBytes, EMPTY_BYTES } from "../../src/base/bytes.ts";
import { OttlaError } from "../../src/model/errors.ts";
import { COMPRESSION_NAMES, loadCodecs } from "../../src/platform/codecs.ts";
import { lz4Frames, zstdFrames } from "../../src/platform/compressed-size.ts";
import type { Codecs } from "../../src/ports/codecs.ts";

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs();
});

const hex = (text: string): Uint8Array => new Uint8Array(Buffer.from(text.replaceAll(" ", ""), "hex"));
const plain = (bytes: Uint8Array): Uint8Array => new Uint8Array(bytes);
const MANY = 16 * 1024 * 1024;
const REAL = COMPRESSION_NAMES.filter((name) => name !== "none");

/** Text that repeats itself and noise, so that blocks of every kind come up. */
function sample(sizeBytes: number): Uint8Array {
  const bytes = new Uint8Array(sizeBytes);
  let state = 1;
  for (let at = 0; at < sizeBytes; at++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    bytes[at] = (at >> 12) % 2 === 0 ? at % 17 : state >>> 24;
  }
  return bytes;
}

describe.each(COMPRESSION_NAMES)("B-11: %s", (name) => {
  it("gives back what went in, at sizes around its block bounds", () => {
    for (const size of [0, 1, 100, 32_767, 32_768, 32_769, 65_536, 131_073, 300_000, 1_100_000]) {
      const bytes = sample(size);
      expect(Buffer.compare(codecs.decompress(name, codecs.compress(name, bytes), MANY), bytes)).toBe(0);
    }
  });

  it("gives back any bytes, from a view inside a larger buffer too", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 3000 }), fc.nat(40), (data, skip) => {
        const view = data.subarray(Math.min(skip, data.length));
        const packed = codecs.compress(name, view);
        const shifted = concatBytes([new Uint8Array(3), packed, new Uint8Array(5)]).subarray(3, 3 + packed.length);
        expect(plain(codecs.decompress(name, shifted, view.length))).toEqual(plain(view));
      }),
      { numRuns: 60 },
    );
  });

  it("stops at the limit with a RangeError: exactly at it is allowed, one byte more is not", () => {
    for (const size of [1000, 200_000, 5_000_000]) {
      const packed = codecs.compress(name, new Uint8Array(size));
      expect(codecs.decompress(name, packed, size).length).toBe(size);
      expect(() => codecs.decompress(name, packed, size - 1)).toThrow(RangeError);
      expect(() => codecs.decompress(name, packed, 10)).toThrow(RangeError);
    }
  });
});

describe.each(REAL)("damaged %s data", (name) => {
  it("cut at every byte is an error, never a shorter result", () => {
    const bytes = sample(700);
    const packed = codecs.compress(name, bytes);
    for (let cut = 0; cut < packed.length; cut++) {
      let result: Uint8Array | undefined;
      try {
        result = codecs.decompress(name, packed.subarray(0, cut), 10_000);
      } catch {
        continue;
      }
      // The snappy stream header alone is a stream of no bytes.
      expect(name === "snappy" && cut === 16 && result.length === 0, `cut at ${cut}`).toBe(true);
    }
  });

  it("with one bit flipped ends in an error or in at most the allowed bytes, and the codec works on", () => {
    const packed = codecs.compress(name, sample(300));
    for (let bit = 0; bit < packed.length * 8; bit++) {
      const bad = Uint8Array.from(packed);
      bad[bit >> 3] = (bad[bit >> 3] as number) ^ (1 << (bit & 7));
      try {
        expect(codecs.decompress(name, bad, 400).length).toBeLessThanOrEqual(400);
      } catch (error) {
        expect(error).toBeInstanceOf(Error);
        expect((error as Error).name).not.toBe("AssertionError");
      }
    }
    expect(codecs.decompress(name, packed, 300).length).toBe(300);
  });
});

describe("snappy", () => {
  it("writes the xerial stream: header, then blocks of at most 32 KiB with their length", () => {
    const packed = codecs.compress("snappy", new Uint8Array(40_000));
    expect(plain(packed.subarray(0, 16))).toEqual(hex("82 534e41505059 00 00000001 00000001"));
    const firstBytes = Buffer.from(packed).readInt32BE(16);
    expect(plain(packed.subarray(20, 23))).toEqual(hex("80 80 02")); // 32,768 as a varint
    expect(plain(packed.subarray(24 + firstBytes, 26 + firstBytes))).toEqual(hex("c0 38")); // 7,232
  });

  it("reads a raw block, as librdkafka may send, and streams strung together", () => {
    const text = sample(5000);
    expect(plain(codecs.decompress("snappy", snappyRaw(text), 5000))).toEqual(text);
    const twice = concatBytes([codecs.compress("snappy", text), codecs.compress("snappy", text)]);
    expect(plain(codecs.decompress("snappy", twice, 10_000))).toEqual(concatBytes([text, text]));
  });

  it("refuses more blocks than the limit has room for: empty ones are calls too", () => {
    const header = codecs.compress("snappy", EMPTY_BYTES);
    const stream = (blocks: number) => concatBytes([header, ...new Array<Uint8Array>(blocks).fill(hex("00000001 00"))]);
    expect(codecs.decompress("snappy", stream(1_000), MANY)).toHaveLength(0);
    expect(() => codecs.decompress("snappy", stream(20_000), MANY)).toThrow(RangeError);
  });

  it("refuses a block that states 4 GiB without asking for the memory", () => {
    expect(() => codecs.decompress("snappy", hex("ffffffff0f 00"), MANY)).toThrow(RangeError);
  });
});

describe("lz4 and zstd frames", () => {
  it("lz4: known frame, stored block", () => {
    // magic, flags (version 1, independent blocks), 64 KiB blocks, header checksum, one stored block "abc", end mark
    expect(plain(codecs.decompress("lz4", hex("04224d18 60 40 82 03000080 616263 00000000"), 3))).toEqual(
      hex("616263"),
    );
    expect(lz4Frames(hex("04224d18 60 40 82 03000080 616263 00000000"), 3)[0]?.maxBytes).toBe(3);
  });

  it.each(["lz4", "zstd"] as const)("%s: no more frames than the limit has room for", (name) => {
    const frame = codecs.compress(name, EMPTY_BYTES);
    const frames = (count: number) => concatBytes(new Array<Uint8Array>(count).fill(frame));
    expect(codecs.decompress(name, frames(60), 0)).toHaveLength(0);
    expect(() => codecs.decompress(name, frames(70), 0)).toThrow(RangeError);
    expect(() => codecs.decompress(name, frames(20_000), MANY)).toThrow(RangeError);
  });

  it("lz4: the bound is exact when the rough one passes the limit", () => {
    for (const size of [10, 70_000, 1_000_000]) {
      const packed = codecs.compress("lz4", sample(size));
      expect(lz4Frames(packed, 0)[0]?.maxBytes).toBe(size);
    }
  });

  it("lz4: a frame that states 2^62 bytes is refused before the decoder sees it", () => {
    expect(() =>
      codecs.decompress("lz4", hex("04224d18 68 40 0000000000000040 00 03000080 616263 00000000"), MANY),
    ).toThrow(RangeError);
  });

  it("zstd: known frame without a stated size, stored block", () => {
    const frame = hex("28b52ffd 00 58 190000 616263"); // window descriptor, last stored block of 3
    expect(plain(codecs.decompress("zstd", frame, 3))).toEqual(hex("616263"));
    expect(() => codecs.decompress("zstd", frame, 2)).toThrow(RangeError);
    expect(zstdFrames(frame)).toEqual([{ start: 0, end: 12, maxBytes: 3, statedBytes: undefined }]);
  });

  it("zstd: a run-length bomb without a stated size stops at the limit", () => {
    // 1,000 run-length blocks of 128 KiB: 131,072,000 bytes out of 4 KB.
    const block = hex("020010 00");
    const bomb = concatBytes([hex("28b52ffd 00 58"), ...Array.from({ length: 999 }, () => block), hex("030010 00")]);
    expect(() => codecs.decompress("zstd", bomb, MANY)).toThrow(RangeError);
  });

  it("zstd: a stated size above the limit is refused, and so is one that is a lie", () => {
    // 64-bit stated size of 2^63, single segment, then an empty last block.
    expect(() => codecs.decompress("zstd", hex("28b52ffd e0 0000000000000080 010000"), MANY)).toThrow(RangeError);
    expect(() => codecs.decompress("zstd", hex("28b52ffd 20 02 190000 616263"), MANY)).toThrow(/-7|-2/);
  });

  it.each(["lz4", "zstd", "gzip"] as const)("%s: frames strung together are one sequence", (name) => {
    const parts = [sample(900), sample(70_000)];
    const joined = concatBytes(parts.map((part) => codecs.compress(name, part)));
    expect(Buffer.compare(codecs.decompress(name, joined, 70_900), concatBytes(parts))).toBe(0);
    expect(() => codecs.decompress(name, joined, 70_899)).toThrow(RangeError);
  });

  it.each(["lz4", "zstd"] as const)("%s: a skippable frame is skipped, other bytes are an error", (name) => {
    const packed = codecs.compress(name, hex("010203"));
    const skip = hex("502a4d18 02000000 ffff");
    expect(plain(codecs.decompress(name, concatBytes([skip, packed]), 3))).toEqual(hex("010203"));
    expect(() => codecs.decompress(name, concatBytes([packed, hex("00000000")]), 3)).toThrow(Error);
  });
});

describe("loadCodecs", () => {
  it("may be called again and again in one process", async () => {
    const text = new TextEncoder().encode("the same bytes ".repeat(500));
    for (let time = 0; time < 4; time++) {
      const again = await loadCodecs();
      for (const name of COMPRESSION_NAMES) {
        expect(bytesEqual(again.decompress(name, again.compress(name, text), text.length), text)).toBe(true);
      }
    }
  });

  it("without zstd says so with a code; the others work", async () => {
    const few = await loadCodecs(["gzip"]);
    expect(few.decompress("gzip", gzipSync("a"), 1).length).toBe(1);
    expect(few.compress("lz4", hex("00")).length).toBeGreaterThan(0);
    expect(() => few.compress("zstd", hex("00"))).toThrow(OttlaError);
  });
});
