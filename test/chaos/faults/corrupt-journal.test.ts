// Where damage to a journal is no torn tail: below the synced position that its last record of this generation tells.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { longJournal } from "../../../src/chaos/faults/corrupt-journal.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "ottla-journal-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** As docs/storage.md lays them out. */
function header(generation: number): Buffer {
  const bytes = Buffer.alloc(128);
  bytes.write("OTLJ");
  bytes.writeBigInt64BE(BigInt(generation), 12);
  return bytes;
}

function record(generation: number, syncedTo: number, bodyBytes: number): Buffer {
  const bytes = Buffer.alloc(72 + bodyBytes, 7);
  bytes.write("OTLR");
  bytes.writeBigInt64BE(BigInt(generation), 16);
  bytes.writeBigInt64BE(BigInt(syncedTo), 32);
  bytes.writeUInt32BE(bodyBytes, 68);
  return bytes;
}

describe("longJournal", () => {
  it("ends where the last record says that all was synced, and takes no bytes of an earlier life for records", () => {
    const journal = [header(5), record(5, 128, 100), record(5, 300, 50), record(5, 422, 0), record(4, 9_999, 10)];
    writeFileSync(join(directory, "0000000005.journal"), Buffer.concat(journal));
    writeFileSync(join(directory, "0000000004.journal"), Buffer.concat([header(4), record(4, 128, 10)]));
    writeFileSync(join(directory, "spare"), Buffer.concat([header(3), record(3, 5_000, 5_000)]));
    expect(longJournal(directory)).toEqual({ path: join(directory, "0000000005.journal"), from: 128, to: 422 });
  });

  it("finds nothing where no record is known to be synced", () => {
    expect(() => longJournal(directory)).toThrow(/no journal with synced records/);
    writeFileSync(join(directory, "0000000001.journal"), Buffer.concat([header(1), record(1, 128, 10)]));
    expect(() => longJournal(directory)).toThrow(/no journal with synced records/);
  });
});
