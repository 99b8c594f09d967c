// Looking behind the end of a journal's chain for what proves that more was synced (D-11).
import { expect, test } from "vitest";
import { writeI64, writeU32 } from "../../src/base/bytes.ts";
import { createRng } from "../../src/base/rng.ts";
import type { DirectoryId } from "../../src/model/ids.ts";
import { MAGIC } from "../../src/storage/format.ts";
import { findProofOfSync, type JournalEnd, type JournalHeader } from "../../src/storage/journal-reader.ts";
import { encodeRecordHeader, FILE_HEADER_BYTES, KIND, RECORD_HEADER_BYTES } from "../../src/storage/journal-record.ts";
import { MemoryFiles } from "./memory-files.ts";
import { checksum } from "./support.ts";

const HEADER: JournalHeader = {
  generation: 7,
  directoryId: "" as DirectoryId,
  salt: 0x1234_5678,
  prevGeneration: 0,
  prevCrc: 0,
  prevSequence: 0,
  prevLength: 0,
  crc: 1,
};
const END: JournalEnd = { position: FILE_HEADER_BYTES, isSealed: false, lastCrc: 1, lastSequence: 4 };

async function proofIn(bytes: Uint8Array, crc32c = checksum.crc32c): Promise<number | undefined> {
  const files = new MemoryFiles();
  const handle = await files.open("/journal", "open-or-create");
  await handle.write(0, [bytes]);
  return findProofOfSync(handle, { header: HEADER, end: END, checksum: { crc32c } });
}

/** Writes a record; of another salt it is what a producer may have sent. */
function put(
  bytes: Uint8Array,
  at: number,
  { size, syncedTo, salt = HEADER.salt }: { readonly size: number; readonly syncedTo: number; readonly salt?: number },
): void {
  const body = bytes.subarray(at + RECORD_HEADER_BYTES, at + size);
  const record = { kind: KIND.APPEND, flags: 0, logId: 1, base: 0, last: 0, epoch: 0, body };
  const place = { generation: HEADER.generation, salt, sequence: 9, prevCrc: 0, syncedTo };
  encodeRecordHeader(bytes, at, { record, place, checksum });
}

const SIZE_BYTES = 2.5 * 1024 * 1024;
const MIDDLE = 1024 * 1024 + FILE_HEADER_BYTES;

test.each([
  ["in the middle of a window", 5000, 300],
  ["whose header lies across two windows", MIDDLE - 40, 500],
  ["whose header begins with the last byte of one", MIDDLE - RECORD_HEADER_BYTES, 72],
  ["that spans three windows", MIDDLE - 3000, 1024 * 1024 + 9000],
  ["that ends with the file", SIZE_BYTES - 90, 90],
  ["that is all that there is", FILE_HEADER_BYTES + 200, SIZE_BYTES - FILE_HEADER_BYTES - 200],
])("a record %s is found, and only if it proves more", async (_, at, size) => {
  const rng = createRng(at);
  for (const [syncedTo, expected] of [
    [END.position + 1, at],
    [END.position, undefined],
  ] as const) {
    const bytes = new Uint8Array(SIZE_BYTES);
    for (let place = 0; place < 2000; place++) bytes[rng.below(SIZE_BYTES)] = 1 + rng.below(255);
    // Around it and in it, what only looks like one.
    for (let place = 0; place < 200; place++) {
      const start = FILE_HEADER_BYTES + rng.below(SIZE_BYTES - 5000);
      put(bytes, start, { size: 72 + rng.below(4000), syncedTo: END.position + 1, salt: rng.below(1000) });
    }
    put(bytes, at, { size, syncedTo });
    expect(await proofIn(bytes)).toBe(expected);
  }
});

test("headers that claim all of the rest, as many as fit, are summed once", async () => {
  const bytes = new Uint8Array(SIZE_BYTES);
  for (let at = 1024; at + RECORD_HEADER_BYTES <= SIZE_BYTES; at += RECORD_HEADER_BYTES) {
    writeU32(bytes, at, MAGIC.RECORD);
    writeI64(bytes, at + 16, HEADER.generation);
    writeI64(bytes, at + 24, END.lastSequence + 1);
    writeI64(bytes, at + 32, END.position + 1);
    writeU32(bytes, at + 68, SIZE_BYTES - at - RECORD_HEADER_BYTES);
  }
  let summedBytes = 0;
  const counted = (part: Uint8Array, seed?: number): number => {
    summedBytes += part.length;
    return checksum.crc32c(part, seed);
  };
  expect(await proofIn(bytes, counted)).toBeUndefined();
  expect(summedBytes).toBeGreaterThan(SIZE_BYTES / 2);
  expect(summedBytes).toBeLessThanOrEqual(SIZE_BYTES);
});
