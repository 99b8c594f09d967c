import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BATCH_HEADER_BYTES, assignOffsets, compressionAt, sealBatch } from "../../src/model/record-batch.ts";
import { type DecodedRecord } from "../../src/model/records.ts";
import { COMPRESSION_NAMES } from "../../src/platform/codecs.ts";
import { naiveOf, plain, recordInput, recordInputs } from "./arbitraries.ts";
import { checksum, decode, build, codeOf, GOLDEN, GOLDEN_RECORDS } from "./batches.ts";
import { naiveBatch, type NaiveRecord, naiveParse, naiveRecord, NO_PRODUCER } from "./naive-batch.ts";

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

  it("keeps a U+FEFF at the start of a header's key", () => {
    const records = [{ key: null, value: null, headers: [["\uFEFFkey", null] as const], timestamp: 0 }];
    expect([...decode(build(records))][0]?.headers).toEqual([["\uFEFFkey", null]]);
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
