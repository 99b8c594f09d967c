// Flag values and start positions.
import { describe, expect, it } from "vitest";
import { parseStartPosition } from "../../src/cli/start-position.ts";
import {
  humanBytes,
  parseBootstrap,
  parseDuration,
  parseInteger,
  parsePair,
  parsePartitions,
  parseSize,
  parseWait,
  UsageError,
} from "../../src/cli/values.ts";

describe("flag values", () => {
  it("sizes and durations take units", () => {
    expect(parseSize("64KiB", "x")).toBe(65_536);
    expect(parseSize("1.5MB", "x")).toBe(1_500_000);
    expect(parseSize("7", "x")).toBe(7);
    expect(parseDuration("1h", "x")).toBe(3_600_000);
    expect(parseDuration("10", "x")).toBe(10);
    expect(parseDuration("10", "x", "s")).toBe(10_000);
  });

  it.each(["", "x", "-1", "1 2", "5parsec", "0x10", "1e3", "5constructor"])("no size and no duration: %j", (text) => {
    expect(() => parseSize(text, "--x")).toThrow(UsageError);
    expect(() => parseDuration(text, "--x")).toThrow(UsageError);
  });

  it("waits are a millisecond at least, and never longer than Node can wait", () => {
    expect(parseWait("5", "--x")).toBe(5000);
    expect(parseWait("30d", "--x")).toBe(2 ** 31 - 1);
    expect(parseWait(`${"9".repeat(400)}d`, "--x")).toBe(2 ** 31 - 1);
    for (const text of ["0", "0s", "0.0001ms", "-1"]) expect(() => parseWait(text, "--x")).toThrow(UsageError);
    expect(() => parseSize("99999999GiB", "--x")).toThrow(UsageError);
  });

  it("integers are checked against their range", () => {
    expect(parseInteger("5", "x", { min: 1, max: 5 })).toBe(5);
    for (const text of ["6", "0", "1.5", "", "1e1", "99999999999999999999"]) {
      expect(() => parseInteger(text, "x", { min: 1, max: 5 })).toThrow(UsageError);
    }
  });

  it("bootstrap takes lists with and without scheme", () => {
    expect(parseBootstrap("a:1, ws://b:2")).toEqual(["a:1", "b:2"]);
    expect(parseBootstrap("[::1]:7070")).toEqual(["[::1]:7070"]);
    expect(parseBootstrap("a,[::1],ws://b:2")).toEqual(["a:7070", "[::1]:7070", "b:2"]);
    for (const text of ["", "a b", "a:", "::1", "a:0", "a:70000", "a:b", "http://a:1", ","]) {
      expect(() => parseBootstrap(text)).toThrow(UsageError);
    }
  });

  it("pairs keep what is after the first =", () => {
    expect(parsePair("a=b=c", "-H")).toEqual(["a", "b=c"]);
    expect(parsePair("a=", "-H")).toEqual(["a", ""]);
    expect(() => parsePair("=b", "-H")).toThrow(UsageError);
    expect(() => parsePair("a", "-H")).toThrow(UsageError);
  });

  it("partition lists take ranges and drop repeats", () => {
    expect(parsePartitions("3,0-2,2")).toEqual([0, 1, 2, 3]);
    for (const text of ["", "a", "3-1", "-1", "1,", "0-999999999"]) {
      expect(() => parsePartitions(text)).toThrow(UsageError);
    }
  });

  it("byte counts read well", () => {
    expect([0, 999, 1000, 12_345, 999_600, 1_234_567_890].map(humanBytes)).toEqual([
      "0 B",
      "999 B",
      "1.00 kB",
      "12.3 kB",
      "1.00 MB",
      "1.23 GB",
    ]);
  });
});

describe("consume -o", () => {
  const now = Date.UTC(2026, 0, 2);

  it("takes names, offsets, distances from the end and times", () => {
    expect(parseStartPosition("start", now)).toBe("start");
    expect(parseStartPosition("end", now)).toBe("end");
    expect(parseStartPosition("42", now)).toEqual({ offset: 42 });
    expect(parseStartPosition("-10", now)).toEqual({ fromEnd: 10 });
    expect(parseStartPosition("@1700000000000", now)).toEqual({ timestamp: 1_700_000_000_000 });
    expect(parseStartPosition("@2026-01-01T00:00:00Z", now)).toEqual({ timestamp: now - 86_400_000 });
    expect(parseStartPosition("@-1h", now)).toEqual({ timestamp: now - 3_600_000 });
    expect(parseStartPosition("@now", now)).toEqual({ timestamp: now });
    for (const text of [
      "2026-01-01",
      "2026-01-01T00:00",
      "2026-01-01 00:00:00.000",
      "2026-01",
      "2026-01-01T02:00+02:00",
      "2026-01-01T02:00+0200",
      "2026-01-01T00:00:00.000123Z",
    ])
      expect(parseStartPosition(`@${text}`, now)).toEqual({ timestamp: now - 86_400_000 });
    expect(parseStartPosition("@8640000000000000", now)).toEqual({ timestamp: 8_640_000_000_000_000 });
  });

  it.each(["", "x", "1.5", "--1", "@", "@x", "99999999999999999", "@8640000000000001", "@-60"])(
    "refuses %j",
    (text) => {
      expect(() => parseStartPosition(text, now)).toThrow(UsageError);
    },
  );

  it.each(["2026-99-99", "2026-02-31", "2026-011", "2026-01-01 EST", "2026-01-01T25:00", "2026-01-01T"])(
    "takes no date that is none, nor one of which only some make the same: @%s",
    (text) => {
      expect(() => parseStartPosition(`@${text}`, now)).toThrow(UsageError);
    },
  );
});
