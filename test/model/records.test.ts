import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import {
  BATCH_HEADER_BYTES,
  assignOffsets,
  compressionAt,
  isControlBatchAt,
  sealBatch,
} from "../../src/model/record-batch.ts";
import { OttlaError } from "../../src/model/errors.ts";
import {
  buildControlBatch,
  decodeControlRecord,
  type DecodedRecord,
  decodeRecords,
  forEachBatch,
  RecordBatchBuilder,
  type RecordInput,
  recordSizeBytes,
} from "../../src/model/records.ts";
import { createChecksum } from "../../src/platform/checksum.ts";
import { COMPRESSION_NAMES, loadCodecs } from "../../src/platform/codecs.ts";
import type { Codecs, CompressionName } from "../../src/ports/codecs.ts";
import { naiveOf, plain, recordInput, recordInputs } from "./arbitraries.ts";
import { naiveBatch, type NaiveRecord, naiveParse, naiveRecord, NO_PRODUCER } from "./naive-batch.ts";

const checksum = createChecksum();
let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs();
});

const hex = (text: string): Uint8Array => new Uint8Array(Buffer.from(text.replaceAll(/\s/g, ""), "hex"));
const ascii = (text: string): Uint8Array => new TextEncoder().encode(text);
const decode = (batch: Uint8Array, decompressedBytesMax = 1 << 20) =>
  decodeRecords(batch, { checksum, codecs, decompressedBytesMax });

function build(records: readonly RecordInput[], compression: CompressionName = "none"): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: 1 << 20 });
  for (const record of records) expect(builder.tryAppend(record)).toBe(true);
  return builder.build({ compression, codecs, checksum });
}

function codeOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof OttlaError) return error.code;
    throw error;
  }
  return "none";
}

/** Three records: a header; null key and empty value, 5 ms later; empty key, null value, a header of null, 1 ms earlier. */
const GOLDEN = hex(`
  0000000000000000 00000050 ffffffff 02 4d2e2731
  0000 00000002 0000018bcfe56800 0000018bcfe56805 ffffffffffffffff ffff ffffffff 00000003
  18 00 00 00  02 6b  02 76  02  02 68  02 78
  0c 00 0a 02  01     00     00
  14 00 01 04  00     01     02  04 c3a9  01`);
const GOLDEN_RECORDS: RecordInput[] = [
  { key: ascii("k"), value: ascii("v"), headers: [["h", ascii("x")]], timestamp: 1_700_000_000_000 },
  { key: null, value: ascii(""), headers: [], timestamp: 1_700_000_000_005 },
  { key: ascii(""), value: null, headers: [["é", null]], timestamp: 1_699_999_999_999 },
];

/** LEADER_CHANGE (2) with a value of version 0, at 1 ms. */
const GOLDEN_CONTROL = hex(`
  0000000000000000 0000003e ffffffff 02 a497aafd
  0020 00000000 0000000000000001 0000000000000001 ffffffffffffffff ffff ffffffff 00000001
  18 00 00 00  08 00000002  04 0000  00`);

describe("known bytes", () => {
  it("B-1, B-4, B-6: three records, null, empty and with headers", () => {
    expect(build(GOLDEN_RECORDS)).toEqual(GOLDEN);
  });

  it("B-6: and back, null and empty told apart", () => {
    const records = [...decode(GOLDEN)].map(({ offset, timestamp, key, value, headers }) => ({
      offset,
      timestamp,
      key,
      value,
      headers,
    }));
    expect(records).toEqual(GOLDEN_RECORDS.map((record, offset) => ({ offset, ...record })));
  });

  it("B-9, D-33: a control batch", () => {
    expect(buildControlBatch({ type: "LEADER_CHANGE", value: hex("0000"), timestamp: 1, checksum })).toEqual(
      GOLDEN_CONTROL,
    );
    expect(isControlBatchAt(GOLDEN_CONTROL, 0)).toBe(true);
    const decoded = decode(GOLDEN_CONTROL);
    expect([decoded.isControl, decoded.recordCount, decoded.lastOffset]).toEqual([true, 0, 0]);
    expect([...decoded]).toEqual([]);
    decoded.forEach(() => expect.unreachable("applications never see a control record"));
    expect(decodeControlRecord(GOLDEN_CONTROL, { checksum, codecs, decompressedBytesMax: 100 })).toEqual({
      type: 2,
      value: hex("0000"),
    });
  });
});

describe("control batches", () => {
  const options = {
    checksum,
    get codecs() {
      return codecs;
    },
    decompressedBytesMax: 1000,
  };
  const control = (key: readonly number[] | null, count = 1): Uint8Array =>
    naiveBatch(
      {
        baseOffset: 5,
        leaderEpoch: 1,
        attributes: 0x20,
        lastOffsetDelta: 0,
        baseTimestamp: 0,
        maxTimestamp: 0,
        ...NO_PRODUCER,
        recordCount: count,
      },
      count === 0 ? [] : naiveRecord({ offsetDelta: 0, timestampDelta: 0, key, value: null, headers: [] }),
    );

  it("B-9: an unknown type is told as its number, an emptied batch as undefined, a data batch too", () => {
    expect(decodeControlRecord(control([0, 0, 0x12, 0x34]), options)).toEqual({ type: 0x1234, value: null });
    expect(decodeControlRecord(control([0, 9, 0, 1, 7, 7]), options)).toEqual({ type: 1, value: null });
    expect(decodeControlRecord(control(null, 0), options)).toBeUndefined();
    expect(decodeControlRecord(GOLDEN, options)).toBeUndefined();
  });

  it("B-9: a key without version and type, or of a negative version, is invalid", () => {
    for (const key of [null, [], [0, 0, 0], [0xff, 0xff, 0, 1]]) {
      expect(codeOf(() => decodeControlRecord(control(key), options))).toBe("INVALID_RECORD");
    }
  });
});

describe("RecordBatchBuilder", () => {
  it("B-4, B-5: builds byte for byte what the naive twin builds", () => {
    fc.assert(
      fc.property(recordInputs, (records) => {
        const baseTimestamp = records[0]?.timestamp ?? 0;
        const expected = naiveBatch(
          {
            baseOffset: 0,
            leaderEpoch: -1,
            attributes: 0,
            lastOffsetDelta: records.length - 1,
            baseTimestamp,
            maxTimestamp: Math.max(...records.map((record) => record.timestamp)),
            ...NO_PRODUCER,
            recordCount: records.length,
          },
          records.flatMap((record, index) => naiveRecord(naiveOf(record, index, baseTimestamp))),
        );
        expect(Buffer.compare(build(records), expected)).toBe(0);
      }),
      { numRuns: 150 },
    );
  });

  it("takes a record exactly when the batch stays within its limit, and says its size beforehand", () => {
    fc.assert(
      fc.property(recordInputs, fc.integer({ min: 61, max: 700 }), (records, limitBytes) => {
        const builder = new RecordBatchBuilder({ limitBytes });
        const unbounded = new RecordBatchBuilder({ limitBytes: 1 << 20 });
        for (const record of records) {
          const sizeBefore = builder.sizeBytes;
          unbounded.tryAppend(record);
          const isTaken = builder.tryAppend(record);
          expect(isTaken).toBe(unbounded.sizeBytes <= limitBytes);
          if (!isTaken) {
            expect(builder.sizeBytes).toBe(sizeBefore);
            break;
          }
          expect(builder.sizeBytes).toBe(unbounded.sizeBytes);
        }
        if (builder.recordCount === 0) return;
        const batch = builder.build({ compression: "none", codecs, checksum });
        expect(batch.length).toBe(builder.sizeBytes);
        expect(batch.length).toBeLessThanOrEqual(limitBytes);
        expect([...decode(batch)].length).toBe(builder.recordCount);
      }),
      { numRuns: 200 },
    );
  });

  it("recordSizeBytes is the size of the record alone in a batch", () => {
    fc.assert(
      fc.property(recordInput, (record) => {
        expect(recordSizeBytes(record)).toBe(build([record]).length - BATCH_HEADER_BYTES);
        const exact = new RecordBatchBuilder({ limitBytes: BATCH_HEADER_BYTES + recordSizeBytes(record) });
        expect(exact.tryAppend(record)).toBe(true);
        const short = new RecordBatchBuilder({ limitBytes: BATCH_HEADER_BYTES + recordSizeBytes(record) - 1 });
        expect(short.tryAppend(record)).toBe(false);
      }),
      { numRuns: 150 },
    );
  });

  it("copies what it takes, and after reset leaves built batches alone", () => {
    const value = ascii("first");
    const builder = new RecordBatchBuilder({ limitBytes: 1000 });
    builder.tryAppend({ key: null, value, headers: [], timestamp: 5 });
    value.fill(0);
    const first = builder.build({ compression: "none", codecs, checksum });
    builder.reset();
    expect([builder.recordCount, builder.sizeBytes]).toEqual([0, BATCH_HEADER_BYTES]);
    builder.tryAppend({ key: null, value: ascii("other"), headers: [], timestamp: 3 });
    const second = builder.build({ compression: "none", codecs, checksum });
    const only = (batch: Uint8Array) =>
      [...decode(batch)].map(({ value: bytes, timestamp }) => [Buffer.from(bytes ?? []).toString(), timestamp]);
    expect([only(first), only(second)]).toEqual([[["first", 5]], [["other", 3]]]);
  });

  it("refuses a timestamp that is no time", () => {
    const builder = new RecordBatchBuilder({ limitBytes: 1000 });
    for (const timestamp of [-2, 1.5, Number.NaN, 2 ** 52, Number.POSITIVE_INFINITY]) {
      expect(codeOf(() => builder.tryAppend({ key: null, value: null, headers: [], timestamp }))).toBe(
        "INVALID_TIMESTAMP",
      );
    }
    expect(builder.recordCount).toBe(0);
  });

  it("sends uncompressed what compression makes too long, and refuses what is too long either way", () => {
    const record = { key: null, value: ascii("x"), headers: [], timestamp: 0 };
    const builder = new RecordBatchBuilder({ limitBytes: 1000 });
    builder.tryAppend(record);
    const maxBytes = builder.sizeBytes;
    expect(compressionAt(builder.build({ compression: "gzip", codecs, checksum }), 0)).toBe("gzip");
    const batch = builder.build({ compression: "gzip", codecs, checksum, maxBytes });
    expect(compressionAt(batch, 0)).toBe("none");
    expect([...decode(batch)].length).toBe(1);
    expect(codeOf(() => builder.build({ compression: "gzip", codecs, checksum, maxBytes: maxBytes - 1 }))).toBe(
      "MESSAGE_TOO_LARGE",
    );
  });
});

describe("decodeRecords", () => {
  /** Gaps as compaction leaves them, any offsets and epochs, either kind of timestamp. */
  const storedBatch = fc
    .record({
      records: fc.array(recordInput, { maxLength: 8 }),
      gaps: fc.array(fc.constantFrom(1, 1, 1, 2, 200), { minLength: 9, maxLength: 9 }),
      baseOffset: fc.oneof(fc.nat(1000), fc.integer({ min: 2 ** 32, max: 2 ** 52 })),
      leaderEpoch: fc.nat(),
      isLogAppendTime: fc.boolean(),
    })
    .map(({ records, gaps, baseOffset, leaderEpoch, isLogAppendTime }) => {
      let offsetDelta = -1;
      const naive = records.map((record, index): NaiveRecord => {
        offsetDelta += gaps[index] ?? 1;
        return naiveOf(record, offsetDelta, records[0]?.timestamp ?? 0);
      });
      const header = {
        baseOffset,
        leaderEpoch,
        attributes: isLogAppendTime ? 8 : 0,
        lastOffsetDelta: Math.max(0, offsetDelta) + (gaps[8] ?? 1) - 1,
        baseTimestamp: records[0]?.timestamp ?? -1,
        maxTimestamp: 1_800_000_000_000,
        ...NO_PRODUCER,
        recordCount: records.length,
      };
      return { naive, header, isLogAppendTime };
    });

  it("B-8, B-10: gives the twin's records at their own offsets; the batch's end comes from its header", () => {
    fc.assert(
      fc.property(storedBatch, ({ naive, header, isLogAppendTime }) => {
        const inside = naiveBatch(header, naive.flatMap(naiveRecord));
        const batch = Uint8Array.from([1, 2, 3, ...inside]).subarray(3);
        const decoded = decode(batch);
        expect(decoded.lastOffset).toBe(header.baseOffset + header.lastOffsetDelta);
        expect([decoded.baseOffset, decoded.leaderEpoch, decoded.recordCount]).toEqual([
          header.baseOffset,
          header.leaderEpoch,
          naive.length,
        ]);
        const expected = naive.map((record) => ({
          offset: header.baseOffset + record.offsetDelta,
          timestamp: isLogAppendTime ? header.maxTimestamp : header.baseTimestamp + record.timestampDelta,
          key: record.key,
          value: record.value,
          headers: record.headers,
        }));
        const shown = ({ offset, timestamp, key, value, headers }: DecodedRecord) => ({
          offset,
          timestamp,
          key: plain(key),
          value: plain(value),
          headers: headers.map(([name, content]) => [name, plain(content)]),
        });
        const kept = [...decoded];
        expect(kept.map(shown)).toEqual(expected);
        const viewed: unknown[] = [];
        decoded.forEach((view) => viewed.push(shown(view)));
        expect(viewed).toEqual(expected);
      }),
      { numRuns: 150 },
    );
  });

  it("gives views into the batch, no copies", () => {
    const batch = build(GOLDEN_RECORDS);
    expect([...decode(batch)][0]?.value?.buffer).toBe(batch.buffer);
  });

  it("B-10: an emptied batch has no records but keeps its offsets", () => {
    const batch = naiveBatch(
      {
        baseOffset: 40,
        leaderEpoch: 2,
        attributes: 0,
        lastOffsetDelta: 9,
        baseTimestamp: -1,
        maxTimestamp: 77,
        ...NO_PRODUCER,
        recordCount: 0,
      },
      [],
    );
    expect(batch.length).toBe(BATCH_HEADER_BYTES);
    const decoded = decode(batch);
    expect([[...decoded].length, decoded.lastOffset]).toEqual([0, 49]);
  });

  it("B-12: offsets assigned in place move the records and leave the checksum right", () => {
    const batch = build(GOLDEN_RECORDS);
    assignOffsets(batch, 2 ** 40 + 7, 12);
    const decoded = decode(batch);
    expect([...decoded].map(({ offset }) => offset)).toEqual([2 ** 40 + 7, 2 ** 40 + 8, 2 ** 40 + 9]);
    expect(decoded.leaderEpoch).toBe(12);
  });

  it.each(COMPRESSION_NAMES)("B-11: %s round trip", (name) => {
    fc.assert(
      fc.property(recordInputs, (records) => {
        const batch = build(records, name);
        expect(compressionAt(batch, 0)).toBe(name);
        const back = [...decode(batch)].map(({ timestamp, key, value, headers }) => ({
          timestamp,
          key: plain(key),
          value: plain(value),
          headers: headers.map(([text, bytes]) => [text, plain(bytes)]),
        }));
        expect(back).toEqual(
          records.map(({ timestamp, key, value, headers }) => ({
            timestamp,
            key: plain(key),
            value: plain(value),
            headers: headers.map(([text, bytes]) => [text, plain(bytes)]),
          })),
        );
      }),
      { numRuns: 30 },
    );
  });

  it.each(COMPRESSION_NAMES.filter((name) => name !== "none"))("B-11: a %s bomb is refused with a code", (name) => {
    const records = [{ key: null, value: new Uint8Array(900_000), headers: [], timestamp: 0 }];
    const batch = build(records, name);
    expect(codeOf(() => decode(batch, 899_999))).toBe("INVALID_RECORD");
    expect([...decode(batch, 900_100)][0]?.value?.length).toBe(900_000);
  });

  it("B-11: a blob that its codec cannot read, under a right checksum, is CORRUPT_MESSAGE; codecs 5 to 7 are unsupported", () => {
    const header = {
      baseOffset: 0,
      leaderEpoch: 0,
      lastOffsetDelta: 0,
      baseTimestamp: 0,
      maxTimestamp: 0,
      ...NO_PRODUCER,
      recordCount: 1,
    };
    for (const codec of [1, 2, 3, 4]) {
      expect(codeOf(() => decode(naiveBatch({ ...header, attributes: codec }, [1, 2, 3, 250, 7, 9])))).toBe(
        "CORRUPT_MESSAGE",
      );
    }
    for (const codec of [5, 6, 7]) {
      expect(codeOf(() => decode(naiveBatch({ ...header, attributes: codec }, [1])))).toBe(
        "UNSUPPORTED_COMPRESSION_TYPE",
      );
    }
  });

  it.each(COMPRESSION_NAMES)("cut at every byte is CORRUPT_MESSAGE, %s", (name) => {
    const batch = build(GOLDEN_RECORDS, name);
    for (let cut = 0; cut < batch.length; cut++)
      expect(codeOf(() => decode(batch.subarray(0, cut)))).toBe("CORRUPT_MESSAGE");
    expect(codeOf(() => decode(Uint8Array.from([...batch, 0])))).toBe("CORRUPT_MESSAGE");
  });

  it("B-2: one bit flipped anywhere under the checksum, in it, in magic or length is CORRUPT_MESSAGE", () => {
    for (let bit = 0; bit < GOLDEN.length * 8; bit++) {
      const at = bit >> 3;
      if (at < 8 || (at >= 12 && at < 16)) continue; // base offset and epoch: not protected here
      const bad = Uint8Array.from(GOLDEN);
      bad[at] = (bad[at] as number) ^ (1 << (bit & 7));
      expect(
        codeOf(() => decode(bad)),
        `bit ${bit}`,
      ).toBe("CORRUPT_MESSAGE");
    }
  });

  it("B-4: agrees with the twin on damaged records under a right checksum", () => {
    const change = fc.tuple(fc.nat(200), fc.oneof(fc.nat(255), fc.constantFrom(0, 1, 2, 0x7f, 0x80, 0xff)));
    fc.assert(
      fc.property(
        recordInputs,
        fc.array(change, { minLength: 1, maxLength: 3 }),
        fc.integer({ min: -1, max: 1 }),
        (records, changes, more) => {
          const bytes = [...build(records).subarray(BATCH_HEADER_BYTES)];
          for (const [at, byte] of changes) if (at < bytes.length) bytes[at] = byte;
          const recordCount = Math.max(0, records.length + more);
          const twin = naiveParse(bytes, recordCount);
          let previous = -1;
          const isRising = twin?.every(({ offsetDelta }) => {
            const rises = offsetDelta > previous && offsetDelta <= 50;
            previous = offsetDelta;
            return rises;
          });
          const header = {
            baseOffset: 0,
            leaderEpoch: 0,
            attributes: 0,
            lastOffsetDelta: 50,
            baseTimestamp: 1000,
            maxTimestamp: 0,
            ...NO_PRODUCER,
            recordCount,
          };
          const batch = naiveBatch(header, bytes);
          if (twin === undefined || isRising === false) expect(codeOf(() => decode(batch))).toBe("INVALID_RECORD");
          else {
            const seen = [...decode(batch)].map((record) => [
              record.offset,
              record.timestamp - 1000,
              plain(record.key),
              plain(record.value),
              record.headers.length,
            ]);
            expect(seen).toEqual(
              twin.map((record) => [
                record.offsetDelta,
                record.timestampDelta,
                record.key,
                record.value,
                record.headers.length,
              ]),
            );
          }
        },
      ),
      { numRuns: 600 },
    );
  });

  it("an offset or timestamp beyond 2^53 is INVALID_RECORD, never a rounded number", () => {
    for (const [at, byte] of [
      [0, 0x7f],
      [1, 0x20],
      [27, 0x40],
      [35, 0x80],
    ] as const) {
      const bad = Uint8Array.from(GOLDEN);
      bad[at] = byte;
      sealBatch(bad, checksum);
      expect(
        codeOf(() => decode(bad)),
        `byte ${at}`,
      ).toBe("INVALID_RECORD");
    }
  });

  it("B-4: a header count of billions costs nothing and is refused", () => {
    const body = [0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f];
    const batch = build([{ key: null, value: null, headers: [], timestamp: 0 }]);
    const bad = Uint8Array.from([...batch.subarray(0, BATCH_HEADER_BYTES), body.length * 2, ...body]);
    bad[11] = bad.length - 12;
    sealBatch(bad, checksum);
    expect(codeOf(() => decode(bad))).toBe("INVALID_RECORD");
  });
});

describe("forEachBatch", () => {
  it("visits each batch of a run once, in order, and stops at what is no whole batch", () => {
    const run = Uint8Array.from([...GOLDEN, ...GOLDEN_CONTROL, ...GOLDEN]);
    const visits: number[][] = [];
    forEachBatch(run, (position, sizeBytes) => visits.push([position, sizeBytes]));
    expect(visits).toEqual([
      [0, 92],
      [92, 74],
      [166, 92],
    ]);
    forEachBatch(new Uint8Array(0), () => expect.unreachable("an empty run has no batches"));
    for (const cut of [1, 12, 60, 91, 93, 200])
      expect(() => forEachBatch(run.subarray(0, cut), () => undefined)).toThrow(RangeError);
  });
});
