// The format language of consume -f, and records as JSON.
import { describe, expect, it } from "vitest";
import type { ConsumedRecord } from "../../src/client/types.ts";
import { type ByteSink, parseFormat, recordAsJson, writeRecord } from "../../src/cli/format.ts";
import { UsageError } from "../../src/cli/values.ts";

const record: ConsumedRecord = {
  topic: "orders",
  partition: 3,
  offset: 41,
  timestamp: 1_700_000_000_123,
  leaderEpoch: 7,
  key: Buffer.from("k1"),
  value: Uint8Array.of(0, 0xff, 10, 65),
  headers: [
    ["a", Buffer.from("1")],
    ["b", null],
  ],
};

function printed(format: string, of: ConsumedRecord = record): Buffer {
  const bytes: number[] = [];
  const sink: ByteSink = {
    byte: (value) => void bytes.push(value),
    bytes: (value) => void bytes.push(...value),
    text: (value) => void bytes.push(...Buffer.from(value)),
  };
  writeRecord(parseFormat(format), of, sink);
  return Buffer.from(bytes);
}

describe("format", () => {
  it("knows every escape", () => {
    expect(printed("%t %p %o %T %k %h %K %V %e %%\\n\\t\\r\\0\\\\\\x41é").toString()).toBe(
      "orders 3 41 1700000000123 k1 a=1,b 2 4 7 %\n\t\r\0\\Aé",
    );
  });

  it("writes values and single bytes as they are", () => {
    expect([...printed("%v")]).toEqual([0, 0xff, 10, 65]);
    expect([...printed("\\xff\\x00")]).toEqual([0xff, 0]);
  });

  it("tells null from empty by its length", () => {
    const empty = { ...record, key: null, value: new Uint8Array(0) };
    expect(printed("[%k|%v|%K|%V]", empty).toString()).toBe("[||-1|0]");
  });

  it.each(["%q", "%", "\\q", "\\", "\\x4", "\\xzz"])("refuses %j", (text) => {
    expect(() => parseFormat(text)).toThrow(UsageError);
  });
});

describe("records as JSON", () => {
  it("gives text as text", () => {
    expect(recordAsJson({ ...record, value: Buffer.from("héllo") })).toEqual({
      topic: "orders",
      partition: 3,
      offset: 41,
      timestamp: 1_700_000_000_123,
      leaderEpoch: 7,
      key: "k1",
      value: "héllo",
      headers: [
        { key: "a", value: "1" },
        { key: "b", value: null },
      ],
    });
  });

  it("gives bytes that are not UTF-8 as base64 and says so", () => {
    expect(recordAsJson(record)).toMatchObject({ value: "AP8KQQ==", valueEncoding: "base64" });
  });

  it("keeps a replacement character that was really sent", () => {
    const json = recordAsJson({ ...record, value: Buffer.from("\ufffd") });
    expect(json).toMatchObject({ value: "\ufffd" });
    expect(json).not.toHaveProperty("valueEncoding");
  });
});
