import { describe, expect, it } from "vitest";
import { nearest } from "../../src/base/nearest.ts";

describe("nearest", () => {
  it("suggests a near word only", () => {
    const known = ["segment.bytes", "journal.bytes", "listeners"];
    expect(nearest("segment.byte", known)).toBe("segment.bytes");
    expect(nearest("sgement.bytes", known)).toBe("segment.bytes");
    expect(nearest("zzz", known)).toBeUndefined();
    expect(nearest("acts", ["acks"])).toBe("acks");
    expect(nearest("nope", ["note.x", "none", "BUSY"])).toBe("none");
    expect(nearest("nope", ["BUSY", "ropes"])).toBeUndefined();
  });
});
