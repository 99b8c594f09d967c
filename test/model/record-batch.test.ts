import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  addSequence,
  assignOffsets,
  baseOffsetAt,
  baseSequenceAt,
  baseTimestampAt,
  batchSizeAt,
  checkProducedBatch,
  checkStoredBatch,
  compressionAt,
  crcAt,
  isControlBatchAt,
  lastOffsetAt,
  lastSequenceAt,
  leaderEpochAt,
  maxTimestampAt,
  producerEpochAt,
  producerIdAt,
  recordCountAt,
  sealBatch,
  subtractSequence,
} from "../../src/model/record-batch.ts";
import { RecordBatchBuilder, type RecordInput } from "../../src/model/records.ts";
import { createChecksum } from "../../src/platform/checksum.ts";
import { recordInputs } from "./arbitraries.ts";
import { naiveBatch, type NaiveBatch, naiveInteger, naiveParse, naiveRecord, NO_PRODUCER } from "./naive-batch.ts";

const checksum = createChecksum();
const limits = { maxBytes: 1_048_588, segmentBytes: 1 << 30, checksum };
const codecs = { compress: () => expect.unreachable(), decompress: () => expect.unreachable() };

function build(records: readonly RecordInput[]): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: 1 << 20 });
  for (const record of records) builder.tryAppend(record);
  return builder.build({ compression: "none", codecs, checksum });
}

const value = (text: string): RecordInput => ({
  key: null,
  value: Buffer.from(text),
  headers: [],
  timestamp: 1_700_000_000_000,
});
const GOOD = build([value("one"), { ...value("two"), headers: [["h", null]] }, value("three")]);
const errorOf = (batch: Uint8Array, over: Partial<typeof limits> = {}): string =>
  checkProducedBatch(batch, { ...limits, ...over })?.error ?? "none";

/** GOOD with bytes written over; sealed again, so that only what was changed is wrong. */
function changed(position: number, bytes: readonly number[], options = { isSealed: true }): Uint8Array {
  const batch = Uint8Array.from(GOOD);
  batch.set(bytes, position);
  if (options.isSealed) sealBatch(batch, checksum);
  return batch;
}

const HEADER: NaiveBatch = {
  baseOffset: 0,
  leaderEpoch: -1,
  attributes: 0,
  lastOffsetDelta: 0,
  baseTimestamp: 9,
  maxTimestamp: 9,
  ...NO_PRODUCER,
  recordCount: 1,
};
const RECORD = { offsetDelta: 0, timestampDelta: 0, key: null, value: [1], headers: [] };

describe("header fields", () => {
  const int64 = fc.oneof(fc.maxSafeInteger(), fc.constantFrom(-1, 0, 2 ** 31, 2 ** 32, Number.MAX_SAFE_INTEGER));
  const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
  const header: fc.Arbitrary<NaiveBatch> = fc.record({
    baseOffset: fc.nat({ max: 2 ** 52 }),
    leaderEpoch: int32,
    attributes: fc.nat(0xffff),
    lastOffsetDelta: fc.nat(),
    baseTimestamp: int64,
    maxTimestamp: int64,
    producerId: int64,
    producerEpoch: fc.integer({ min: -32_768, max: 32_767 }),
    baseSequence: int32,
    recordCount: int32,
  });

  it("B-1, B-3: are read from where the twin writes them, at any position", () => {
    fc.assert(
      fc.property(header, fc.nat(9), fc.uint8Array({ maxLength: 5 }), (fields, position, records) => {
        const batch = naiveBatch(fields, [...records]);
        const bytes = Uint8Array.from([...new Uint8Array(position), ...batch, 1, 2]);
        expect(batchSizeAt(bytes, position)).toBe(batch.length);
        expect(baseOffsetAt(bytes, position)).toBe(fields.baseOffset);
        expect(lastOffsetAt(bytes, position)).toBe(fields.baseOffset + fields.lastOffsetDelta);
        expect(leaderEpochAt(bytes, position)).toBe(fields.leaderEpoch);
        expect(baseTimestampAt(bytes, position)).toBe(fields.baseTimestamp);
        expect(maxTimestampAt(bytes, position)).toBe(fields.maxTimestamp);
        expect(producerIdAt(bytes, position)).toBe(fields.producerId);
        expect(producerEpochAt(bytes, position)).toBe(fields.producerEpoch);
        expect(baseSequenceAt(bytes, position)).toBe(fields.baseSequence);
        expect(recordCountAt(bytes, position)).toBe(fields.recordCount);
        expect(isControlBatchAt(bytes, position)).toBe((fields.attributes & 0x20) !== 0);
        expect(compressionAt(bytes, position)).toBe(["none", "gzip", "snappy", "lz4", "zstd"][fields.attributes & 7]);
        expect(crcAt(bytes, position)).toBe(checksum.crc32c(batch.subarray(21)));
      }),
      { numRuns: 300 },
    );
  });

  it("B-12: assignOffsets changes base offset and epoch and not one byte more", () => {
    fc.assert(
      fc.property(fc.nat({ max: 2 ** 53 - 1 }), fc.nat(), (baseOffset, epoch) => {
        const batch = Uint8Array.from(GOOD);
        assignOffsets(batch, baseOffset, epoch);
        const expected = [
          ...naiveInteger(baseOffset, 8),
          ...GOOD.subarray(8, 12),
          ...naiveInteger(epoch, 4),
          ...GOOD.subarray(16),
        ];
        expect([...batch]).toEqual(expected);
      }),
    );
  });
});

describe("sequences", () => {
  const MAX = 2 ** 31 - 1;

  it("B-7: run up to 2^31 - 1 and on from 0, never below it", () => {
    expect([addSequence(5, 0), addSequence(5, 3), addSequence(MAX, 0)]).toEqual([5, 8, MAX]);
    expect([addSequence(MAX, 1), addSequence(MAX - 1, 5), addSequence(MAX, MAX)]).toEqual([0, 3, MAX - 1]);
    expect([subtractSequence(0, 1), subtractSequence(3, 5), subtractSequence(7, 7)]).toEqual([MAX, MAX - 1, 0]);
    fc.assert(
      fc.property(fc.nat(MAX), fc.nat(MAX), (sequence, count) => {
        const sum = addSequence(sequence, count);
        expect(BigInt(sum)).toBe((BigInt(sequence) + BigInt(count)) % 2n ** 31n);
        expect(subtractSequence(sum, count)).toBe(sequence);
      }),
    );
  });

  it("B-7: a batch may straddle the wrap; without a sequence its last one is -1", () => {
    const straddling = naiveBatch(
      { ...HEADER, producerId: 1, producerEpoch: 0, baseSequence: MAX - 1, lastOffsetDelta: 4 },
      [],
    );
    expect(lastSequenceAt(straddling, 0)).toBe(2);
    expect(lastSequenceAt(naiveBatch({ ...HEADER, lastOffsetDelta: 4 }, []), 0)).toBe(-1);
  });
});

describe("checkProducedBatch", () => {
  it("passes whatever the builder builds", () => {
    fc.assert(
      fc.property(recordInputs, (records) => {
        expect(checkProducedBatch(build(records), limits)).toBeUndefined();
      }),
      { numRuns: 150 },
    );
  });

  it("B-16: exactly one batch of format 2 fills the body", () => {
    expect(errorOf(new Uint8Array(0))).toBe("INVALID_RECORD");
    expect(errorOf(Uint8Array.from([...GOOD, ...GOOD]))).toBe("INVALID_RECORD");
    expect(errorOf(Uint8Array.from([...GOOD, 0]))).toBe("INVALID_RECORD");
    expect(errorOf(changed(16, [0]))).toBe("INVALID_RECORD");
    expect(errorOf(changed(16, [1]))).toBe("INVALID_RECORD");
  });

  it.each<[row: string, batch: Uint8Array, error: string]>([
    ["6: batch length below 14", changed(8, [0, 0, 0, 13]), "CORRUPT_MESSAGE"],
    ["6: negative batch length", changed(8, [0xff, 0xff, 0xff, 0xff]), "CORRUPT_MESSAGE"],
    ["6: format that does not exist", changed(16, [3]), "CORRUPT_MESSAGE"],
    ["7: base offset", changed(0, naiveInteger(1, 8)), "INVALID_RECORD"],
    ["7: negative base offset", changed(0, naiveInteger(-1, 8)), "INVALID_RECORD"],
    ["9: checksum", changed(17, [0, 0, 0, 0], { isSealed: false }), "CORRUPT_MESSAGE"],
    ["10: negative last offset delta", changed(23, naiveInteger(-1, 4)), "INVALID_RECORD"],
    ["10: no records", changed(57, naiveInteger(0, 4)), "INVALID_RECORD"],
    ["10: count and delta disagree", changed(57, naiveInteger(4, 4)), "INVALID_RECORD"],
    ["11: control bit", changed(22, [0x20]), "INVALID_RECORD"],
    ["12: producer without a sequence", changed(43, naiveInteger(7, 8)), "INVALID_RECORD"],
    ["codec 5", changed(22, [5]), "UNSUPPORTED_COMPRESSION_TYPE"],
    ["codec 7", changed(22, [7]), "UNSUPPORTED_COMPRESSION_TYPE"],
    ["16: append time set by the producer", changed(22, [8]), "INVALID_TIMESTAMP"],
    ["transactional bit", changed(22, [0x10]), "INVALID_RECORD"],
    ["delete horizon bit", changed(22, [0x40]), "INVALID_RECORD"],
    ["base timestamp beyond 2^53", changed(27, [0x7f]), "INVALID_RECORD"],
    ["max timestamp beyond 2^53", changed(35, [0x80]), "INVALID_RECORD"],
    ["producer id beyond 2^53", changed(43, [0x7f]), "INVALID_RECORD"],
    ["producer id -2", changed(43, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]), "INVALID_RECORD"],
    ["B-13: max timestamp that no record has", changed(35, naiveInteger(1_700_000_000_001, 8)), "INVALID_RECORD"],
  ])("B-17 row %s", (_row, batch, error) => {
    expect(errorOf(GOOD)).toBe("none");
    expect(errorOf(batch)).toBe(error);
  });

  it("B-17 rows 8 and 18: larger than a message or a segment may be; exactly as large is fine", () => {
    expect(errorOf(GOOD, { maxBytes: GOOD.length, segmentBytes: GOOD.length })).toBe("none");
    expect(errorOf(GOOD, { maxBytes: GOOD.length - 1 })).toBe("MESSAGE_TOO_LARGE");
    expect(errorOf(GOOD, { segmentBytes: GOOD.length - 1 })).toBe("RECORD_LIST_TOO_LARGE");
  });

  it("B-17 row 9: a whole batch below 61 bytes", () => {
    const short = Uint8Array.from(GOOD.subarray(0, 50));
    short.set(naiveInteger(38, 4), 8);
    sealBatch(short, checksum);
    expect(errorOf(short)).toBe("CORRUPT_MESSAGE");
  });

  it("B-17: the first failing row names the error", () => {
    const tooSmall = { maxBytes: 10, segmentBytes: 10 };
    expect(errorOf(changed(0, [1], { isSealed: false }), tooSmall)).toBe("INVALID_RECORD"); // 7 before 8
    expect(errorOf(changed(17, [0, 0, 0, 0], { isSealed: false }), tooSmall)).toBe("MESSAGE_TOO_LARGE"); // 8 before 9
    expect(errorOf(changed(22, [0x25], { isSealed: false }))).toBe("CORRUPT_MESSAGE"); // 9 before the rest
    expect(errorOf(changed(22, [0x25]))).toBe("INVALID_RECORD"); // control bit before the codec
    expect(errorOf(changed(22, [0x25]), { segmentBytes: 10 })).toBe("INVALID_RECORD"); // 18 last
  });

  it("a producer with id, epoch and sequence is let through; one without an epoch is not", () => {
    const produced = (producerEpoch: number) =>
      naiveBatch({ ...HEADER, producerId: 9, producerEpoch, baseSequence: 0 }, naiveRecord(RECORD));
    expect(errorOf(produced(0))).toBe("none");
    expect(errorOf(produced(-1))).toBe("INVALID_RECORD");
    expect(
      errorOf(naiveBatch({ ...HEADER, producerId: 9, producerEpoch: 0, baseSequence: -1 }, naiveRecord(RECORD))),
    ).toBe("INVALID_RECORD");
  });

  it("a compressed batch is judged by its header only: count and delta", () => {
    expect(errorOf(naiveBatch({ ...HEADER, attributes: 4 }, [1, 2, 3]))).toBe("none");
    expect(errorOf(naiveBatch({ ...HEADER, attributes: 4, recordCount: 2 }, [1, 2, 3]))).toBe("INVALID_RECORD");
  });

  it("B-14: offset deltas are exactly 0, 1, 2, ...", () => {
    const withDeltas = (...deltas: number[]) =>
      naiveBatch(
        { ...HEADER, lastOffsetDelta: deltas.length - 1, recordCount: deltas.length },
        deltas.flatMap((offsetDelta) => naiveRecord({ ...RECORD, offsetDelta })),
      );
    expect(errorOf(withDeltas(0, 1, 2))).toBe("none");
    for (const deltas of [[1], [0, 0], [0, 2], [1, 0], [0, 1, 3], [-1, 0], [0, 2 ** 31 - 1]]) {
      expect(errorOf(withDeltas(...deltas)), String(deltas)).toBe("INVALID_RECORD");
    }
  });

  it("cut at every byte is refused with a code", () => {
    for (let cut = 0; cut < GOOD.length; cut++) {
      expect(errorOf(GOOD.subarray(0, cut))).toBe(cut === 0 ? "INVALID_RECORD" : "CORRUPT_MESSAGE");
    }
  });

  it("cut at every byte with length and checksum set right again is refused with a code", () => {
    for (let cut = 61; cut < GOOD.length; cut++) {
      const batch = Uint8Array.from(GOOD.subarray(0, cut));
      batch.set(naiveInteger(cut - 12, 4), 8);
      sealBatch(batch, checksum);
      expect(errorOf(batch)).toBe("INVALID_RECORD");
    }
  });

  it("one bit flipped in any byte but the leader epoch is refused with a code", () => {
    for (let bit = 0; bit < GOOD.length * 8; bit++) {
      const at = bit >> 3;
      const batch = changed(at, [(GOOD[at] as number) ^ (1 << (bit & 7))], { isSealed: false });
      if (at >= 12 && at < 16)
        expect(errorOf(batch)).toBe("none"); // the leader writes its own
      else expect(["CORRUPT_MESSAGE", "INVALID_RECORD"], `bit ${bit}`).toContain(errorOf(batch));
    }
  });

  it("a compressed batch cannot claim more records than any reader would open, nor any without a body", () => {
    const claims = (count: number, bodyBytes: number): Uint8Array => {
      const batch = new Uint8Array(61 + bodyBytes);
      batch.set(GOOD.subarray(0, 61));
      const view = new DataView(batch.buffer);
      view.setInt32(8, 49 + bodyBytes);
      view.setInt16(21, 1); // gzip
      view.setInt32(23, count - 1);
      view.setInt32(57, count);
      sealBatch(batch, checksum);
      return batch;
    };
    const most = Math.floor((128 * 1024 * 1024) / 7);
    expect(errorOf(claims(most, 20))).toBe("none");
    expect(errorOf(claims(most + 1, 20))).toBe("INVALID_RECORD");
    expect(errorOf(claims(0x7fffffff, 20))).toBe("INVALID_RECORD");
    expect(errorOf(claims(1, 0))).toBe("INVALID_RECORD");
  });

  it("B-3: attribute bits that mean nothing are refused", () => {
    for (let bit = 7; bit < 16; bit++) {
      const attributes = 1 << bit;
      expect(errorOf(changed(21, [attributes >> 8, attributes & 0xff]))).toBe("INVALID_RECORD");
    }
  });

  it("B-4: agrees with the twin on damaged records under a right checksum", () => {
    const change = fc.tuple(fc.nat(300), fc.oneof(fc.nat(255), fc.constantFrom(0, 1, 2, 0x7f, 0x80, 0xff)));
    fc.assert(
      fc.property(recordInputs, fc.array(change, { minLength: 1, maxLength: 2 }), (records, changes) => {
        const batch = build(records);
        for (const [at, byte] of changes) if (61 + at < batch.length) batch[61 + at] = byte;
        const twin = naiveParse([...batch.subarray(61)], records.length);
        const isDense = twin?.every(({ offsetDelta }, index) => offsetDelta === index) ?? false;
        const newest =
          Math.max(...(twin ?? []).map(({ timestampDelta }) => timestampDelta)) + baseTimestampAt(batch, 0);
        sealBatch(batch, checksum);
        expect(errorOf(batch)).toBe(isDense && newest === maxTimestampAt(batch, 0) ? "none" : "INVALID_RECORD");
      }),
      { numRuns: 800 },
    );
  });
});

describe("checkStoredBatch", () => {
  const stored = Uint8Array.from(GOOD);
  assignOffsets(stored, 1000, 3);
  const check = (bytes: Uint8Array, position = 0, end = bytes.length) =>
    checkStoredBatch(bytes, position, { end, checksum });

  it("S-46: finds a batch whole at its position among others", () => {
    const bytes = Uint8Array.from([9, 9, ...stored, ...stored]);
    expect(check(bytes, 2)).toEqual({ kind: "valid", sizeBytes: stored.length });
    expect(check(bytes, 2, 2 + stored.length)).toEqual({ kind: "valid", sizeBytes: stored.length });
    expect(check(bytes, 2, 1 + stored.length)).toEqual({ kind: "incomplete" });
    expect(check(bytes, 1).kind).not.toBe("valid");
  });

  it("S-47: cut at every byte is incomplete, the clean end of a torn tail", () => {
    for (let cut = 0; cut < stored.length; cut++)
      expect(check(stored.subarray(0, cut))).toEqual({ kind: "incomplete" });
  });

  it("S-46: one bit flipped from the format on is corrupt; in the length it is never valid", () => {
    for (let bit = 64; bit < stored.length * 8; bit++) {
      const at = bit >> 3;
      if (at >= 12 && at < 16) continue; // the epoch is outside the checksum: the caller knows which must come
      const bad = Uint8Array.from(stored);
      bad[at] = (bad[at] as number) ^ (1 << (bit & 7));
      const { kind } = check(bad);
      if (at >= 16) expect(kind, `bit ${bit}`).toBe("corrupt");
      else expect(kind, `bit ${bit}`).not.toBe("valid");
    }
  });

  it("S-47: zeroes, as a file system may leave them behind a lost write, are corrupt", () => {
    expect(check(new Uint8Array(100)).kind).toBe("corrupt");
    expect(check(new Uint8Array(16)).kind).toBe("incomplete");
  });

  it("B-10: an emptied or thinned batch is valid; more records than offsets are not, nor are offsets beyond 2^53", () => {
    const thin = { ...HEADER, baseOffset: 7, leaderEpoch: 0, lastOffsetDelta: 9 };
    expect(check(naiveBatch({ ...thin, recordCount: 0 }, []))).toEqual({ kind: "valid", sizeBytes: 61 });
    expect(check(naiveBatch({ ...thin, recordCount: 11 }, [])).kind).toBe("corrupt");
    expect(check(naiveBatch({ ...thin, recordCount: -1 }, [])).kind).toBe("corrupt");
    expect(check(naiveBatch({ ...thin, lastOffsetDelta: -1 }, [])).kind).toBe("corrupt");
    expect(check(naiveBatch({ ...thin, baseOffset: -1 }, [])).kind).toBe("corrupt");
    expect(check(naiveBatch({ ...thin, baseOffset: Number.MAX_SAFE_INTEGER - 8 }, [])).kind).toBe("corrupt");
  });
});
