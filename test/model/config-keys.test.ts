// What configuration keys take, kind by kind, and a configuration made of them.
import { describe, expect, expectTypeOf, it } from "vitest";
import { type BrokerConfig, brokerConfigKeys, brokerConfigOf } from "../../src/model/config.ts";
import * as keys from "../../src/model/config-keys.ts";

const { checkedConfig, parsedValue, takenBy } = keys;
const NOTHING = [undefined, null, {}, [], "", " ", "half", Number.NaN, Infinity];

describe("a value", () => {
  const sizeAbove16 = keys.bytes(64, 16, 2 ** 30, "A size.");
  it.each([
    { key: sizeAbove16, taken: { 16: 16, "1.5 KiB": 1536, "2kB": 2000, "1GiB": 2 ** 30 } },
    {
      key: keys.duration(1, 0, 2 ** 53 - 1, "A time."),
      taken: { 0: 0, "250ms": 250, "1.5h": 5_400_000, "7d": 604_800_000 },
    },
    { key: keys.limited("bytes", -1, 2048, "A limit."), taken: { "-1": -1, " -1 ": -1, "2KiB": 2048 } },
    { key: keys.count(3, 1, 10, "A number."), taken: { 1: 1, " 10 ": 10 } },
    { key: keys.onOff(0, "A switch."), taken: { 0: 0, 1: 1, true: 1, " FALSE": 0 } },
    { key: keys.ratio(0.5, "A part."), taken: { 0: 0, "0.25": 0.25, ".5": 0.5, "1": 1 } },
    { key: keys.words(1, { one: 1, "two,one": 3 }, "Words."), taken: { One: 1, "one , TWO": 3, "3": 3 } },
  ])("in $key.unit is taken as a text and, when it is one, as a number", ({ key, taken }) => {
    for (const [text, value] of Object.entries(taken)) {
      expect([text, parsedValue(key, text)]).toEqual([text, value]);
      expect(parsedValue(key, value)).toBe(value);
    }
    for (const given of [...NOTHING, "0x10", "1e1", "1XB", "1w", "truefalse", "-1ms", "--1"])
      expect([given, parsedValue(key, given)]).toEqual([given, undefined]);
  });

  it("outside its bounds, or in part where it counts, is not taken", () => {
    for (const given of [15, "15", 2 ** 30 + 1, "1.1GiB", 16.5, -1, "-1", true])
      expect([given, parsedValue(sizeAbove16, given)]).toEqual([given, undefined]);
    expect(parsedValue(keys.ratio(0.5, ""), 1.01)).toBeUndefined();
    expect(parsedValue(keys.limited("duration", -1, 9, ""), -2)).toBeUndefined();
    expect(parsedValue(keys.duration(1, 0, Number.MAX_SAFE_INTEGER, ""), 2 ** 53)).toBeUndefined();
  });

  it("that is a boolean is one of a switch only", () => {
    expect(parsedValue(keys.onOff(0, ""), true)).toBe(1);
    expect(parsedValue(keys.count(3, 0, 10, ""), true)).toBeUndefined();
  });

  it("that is a text has to look like one of its key", () => {
    const { listeners } = brokerConfigKeys;
    expect(parsedValue(listeners, "ws://a:1")).toBe("ws://a:1");
    for (const given of [...NOTHING, "a", "a:b", "http://a:1", 7070])
      expect(parsedValue(listeners, given)).toBeUndefined();
    expect(parsedValue(brokerConfigKeys["data.dir"], "\n")).toBe("\n");
  });

  it("is told to people by what its key takes", () => {
    expect(
      [sizeAbove16, keys.ratio(0, ""), keys.words(1, { a: 1, b: 2 }, ""), brokerConfigKeys.listeners].map(takenBy),
    ).toEqual(["16 to 1073741824 bytes (also 64MiB)", "0 to 1", "a or b", "ws://host:port"]);
  });
});

describe("a configuration", () => {
  const given = { "node.id": "7", "data.dir": "d" };

  it("has what is given, and the defaults of the rest; what is optional may be absent", () => {
    const config = brokerConfigOf({ ...given, "segment.bytes": "2MiB", "cluster.id": undefined });
    expect(config).toMatchObject({ "node.id": 7, "data.dir": "d", "segment.bytes": 2_097_152, "num.partitions": 1 });
    expect(Object.keys(config)).not.toContain("cluster.id");
    expectTypeOf<BrokerConfig["cluster.id"]>().toEqualTypeOf<string | undefined>();
    expectTypeOf<BrokerConfig["node.id"]>().toEqualTypeOf<number>();
  });

  it("names every key that cannot be used: unknown, missing, with a wrong value", () => {
    expect(checkedConfig(brokerConfigKeys, { "no.such": 1, toString: 1, "node.id": 0, listeners: "x" })).toEqual({
      kind: "invalid",
      names: ["no.such", "toString", "node.id", "data.dir", "listeners"],
    });
    expect(() => brokerConfigOf({ ...given, "no.such": 1 })).toThrow("no.such");
  });

  it("has a default that each key takes itself", () => {
    for (const [name, key] of Object.entries<keys.ConfigKey>(brokerConfigKeys))
      if (key.absence === "default") expect([name, parsedValue(key, key.fallback)]).toEqual([name, key.fallback]);
  });
});
