// Values are of the size that was asked for, differ from one to the next, and carry their stamp.
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { Payload, STAMP_BYTES, StampReader } from "../../../src/bench/load/payload.ts";

describe("a payload", () => {
  it.each([1, 100, 1024, 100_000])("of %d bytes has that size, and no codec makes it smaller", (recordBytes) => {
    const payload = new Payload(recordBytes);
    const values = Array.from({ length: 50 }, () => Buffer.from(payload.next()));
    expect(new Set(values.map(({ length }) => length))).toEqual(new Set([recordBytes]));
    if (recordBytes < 100) return;
    expect(new Set(values.map((value) => value.toString("latin1"))).size).toBe(50);
    expect(gzipSync(values[0] ?? "").length).toBeGreaterThanOrEqual(recordBytes);
  });

  it("carries its stamp, which is read back exactly", () => {
    const payload = new Payload(STAMP_BYTES);
    const reader = new StampReader();
    const stamp = { connection: 999, sequence: 4_000_000_000, dueMs: 123_456_789.015625 };
    expect(reader.read(payload.stamped(stamp))).toBe(true);
    const { connection, sequence, dueMs } = reader;
    expect({ connection, sequence, dueMs }).toEqual(stamp);
  });

  it("that is too short for a stamp, or null, has none", () => {
    const reader = new StampReader();
    expect(reader.read(new Uint8Array(STAMP_BYTES - 1))).toBe(false);
    expect(reader.read(null)).toBe(false);
  });
});
