// The checksum of a journal record (D-11), which takes over those of the batches in its body.
import { expect, test } from "vitest";
import { concatBytes, readU32 } from "../../src/base/bytes.ts";
import { CRC_FROM, encodeRecordHeader, KIND, RECORD_HEADER_BYTES } from "../../src/storage/journal-record.ts";
import { checksum, makeBatch } from "./support.ts";

const SALT = 0x1234_5678;

/** The record's bytes, its checksum, and how many bytes were summed for it. */
function encoded(body: Uint8Array, kind: number = KIND.APPEND) {
  const header = new Uint8Array(RECORD_HEADER_BYTES);
  let summedBytes = 0;
  const crc32c = (bytes: Uint8Array, seed?: number): number => {
    summedBytes += bytes.length;
    return checksum.crc32c(bytes, seed);
  };
  const record = { kind, flags: 0, logId: 3, base: 7, last: 9, epoch: 2, body };
  const place = { generation: 4, salt: SALT, sequence: 9, prevCrc: 5, syncedTo: 128 };
  const crc = encodeRecordHeader(header, 0, { record, place, checksum: { crc32c } });
  expect(place).toMatchObject({ prevCrc: crc, sequence: 10 });
  return { bytes: concatBytes([header, body]), crc, summedBytes };
}

/** The batches of a run by the bytes of their values. */
const runOf = (...valueBytes: number[]): Uint8Array =>
  concatBytes(valueBytes.map((bytes, base) => makeBatch(base, { valueBytes: bytes, fill: 31 * base, epoch: 2 })));

test.each([
  ["one batch", runOf(50_000)],
  ["one that is short", runOf(20)],
  ["short ones", runOf(20, 30, 40, 1500)],
  ["long ones", runOf(3000, 70_000, 16_384)],
  ["short ones around long ones", runOf(20, 5000, 20, 20, 9000, 4000, 20)],
  ["a long one that is cut off", runOf(20, 5000, 9000).subarray(0, -1)],
  ["a header that is cut off", runOf(5000, 20).subarray(0, -60)],
  ["no batch", new Uint8Array(5000).fill(1)],
  ["nothing", new Uint8Array(0)],
])("D-11: the checksum of a record is that of all its bytes, of a run of %s", (_, body) => {
  const { bytes, crc } = encoded(body);
  expect(crc).toBe(checksum.crc32c(bytes.subarray(CRC_FROM), SALT));
  expect(readU32(bytes, 4)).toBe(crc);
});

test("the records of a long batch are not summed again: what changed in them since does not match", () => {
  const body = runOf(50_000);
  const { summedBytes } = encoded(body);
  expect(summedBytes).toBeLessThan(100);
  body[30_000] = (body[30_000] ?? 0) ^ 1;
  const { bytes, crc } = encoded(body);
  expect(crc).not.toBe(checksum.crc32c(bytes.subarray(CRC_FROM), SALT));
});

test("the body of another kind is summed, whatever it looks like", () => {
  const { bytes, crc, summedBytes } = encoded(runOf(50_000), KIND.DAMAGED);
  expect(summedBytes).toBe(bytes.length - CRC_FROM);
  expect(crc).toBe(checksum.crc32c(bytes.subarray(CRC_FROM), SALT));
});
