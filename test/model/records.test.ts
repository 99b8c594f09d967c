import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BATCH_HEADER_BYTES, compressionAt, isControlBatchAt } from "../../src/model/record-batch.ts";
import {
  buildControlBatch,
  decodeControlRecord,
  forEachBatch,
  RecordBatchBuilder,
  recordSizeBytes,
} from "../../src/model/records.ts";
import { naiveOf, recordInput, recordInputs } from "./arbitraries.ts";
import {
  checksum,
  codecs,
  hex,
  ascii,
  decode,
  build,
  codeOf,
  GOLDEN,
  GOLDEN_RECORDS,
  GOLDEN_CONTROL,
} from "./batches.ts";
import { naiveBatch, naiveRecord, NO_PRODUCER } from "./naive-batch.ts";

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
  const options = { checksum, codecs, decompressedBytesMax: 1000 };
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
  it("D-26: gives a view of its buffer only when asked, and only when the batch is most of it", () => {
    const builder = new RecordBatchBuilder({ limitBytes: 4_096 });
    const options = { compression: "none", codecs, checksum } as const;
    const record = (sizeBytes: number) => ({ key: null, value: new Uint8Array(sizeBytes), headers: [], timestamp: 1 });
    builder.tryAppend(record(100));
    expect(builder.owns(builder.build({ ...options, mayBeView: true }))).toBe(false);
    builder.tryAppend(record(3_000));
    expect(builder.owns(builder.build(options))).toBe(false);
    const view = builder.build({ ...options, mayBeView: true });
    expect(builder.owns(view)).toBe(true);
    expect(view).toEqual(builder.build(options));
    expect(builder.owns(builder.build({ ...options, mayBeView: true, compression: "gzip" }))).toBe(false);
  });

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
