// Commands as bytes: golden texts of every record version, refusal of what is unknown or damaged.
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { utf8Encode } from "../../src/base/bytes.ts";
import { createRng } from "../../src/base/rng.ts";
import { OttlaError } from "../../src/model/errors.ts";
import { decodeCommand, encodeCommand } from "../../src/metadata/codec.ts";
import type { MetadataRecord } from "../../src/metadata/records.ts";
import { uuid } from "./support.ts";

/**
 * Every version of every record as it was first written. A log may hold them for ever: these lines are only ever added to. Uuids: A..A then
 * one more letter.
 */
const GOLDEN: readonly string[] = [
  '{"type":"cluster","version":1,"clusterId":"AAAAAAAAAAAAAAAAAAAAAQ","metadataVersion":1,"timestampMs":1700000000000}',
  '{"type":"metadata-version","version":1,"metadataVersion":2}',
  '{"type":"register-broker","version":1,"nodeId":1,"directoryId":"AAAAAAAAAAAAAAAAAAAAAg","incarnationId":"AAAAAAAAAAAAAAAAAAAAAw","restart":"power-loss","address":"127.0.0.1:7070","metadataVersions":{"min":1,"max":2},"timestampMs":1700000000001}',
  '{"type":"register-broker","version":1,"nodeId":1,"directoryId":"AAAAAAAAAAAAAAAAAAAAAg","incarnationId":"AAAAAAAAAAAAAAAAAAAAAw","restart":"changed-disk","address":"","metadataVersions":{"min":1,"max":1},"timestampMs":-1}',
  '{"type":"fence-broker","version":1,"nodeId":1,"brokerEpoch":4}',
  '{"type":"fence-broker","version":2,"nodeId":1,"brokerEpoch":4,"reason":"session"}',
  '{"type":"fence-broker","version":2,"nodeId":1,"brokerEpoch":4,"reason":"refused"}',
  '{"type":"fence-broker","version":2,"nodeId":1,"brokerEpoch":4,"reason":"shutdown"}',
  '{"type":"fence-broker","version":2,"nodeId":1,"brokerEpoch":4,"reason":"replaced"}',
  '{"type":"unfence-broker","version":1,"nodeId":1,"brokerEpoch":4}',
  '{"type":"partition-change","version":1,"topicId":"AAAAAAAAAAAAAAAAAAAABA","changes":[{"partition":0,"leader":1,"isr":[1,2],"elr":[],"isUnclean":false,"isNewEpoch":false,"partitionEpoch":3},{"partition":9,"leader":null,"isr":[],"elr":[3,1],"isUnclean":true,"isNewEpoch":true,"partitionEpoch":0}]}',
  '{"type":"topic","version":1,"topicId":"AAAAAAAAAAAAAAAAAAAABA","name":"orders","configs":{"max.message.bytes":1000,"segment.bytes":4096},"replicationFactor":1,"replicas":[[1],[2]],"timestampMs":1700000000002}',
  '{"type":"topic-config","version":1,"topicId":"AAAAAAAAAAAAAAAAAAAABA","configs":{"segment.bytes":8192}}',
  '{"type":"broker-config","version":1,"nodeId":null,"configs":{"num.partitions":3}}',
  '{"type":"broker-config","version":1,"nodeId":2,"configs":{}}',
  '{"type":"delete-topic","version":1,"topicId":"AAAAAAAAAAAAAAAAAAAABA"}',
  '{"type":"topic-removed","version":1,"topicId":"AAAAAAAAAAAAAAAAAAAABA","owed":[2,3]}',
  '{"type":"tombstone-settled","version":1,"nodeId":2,"topicIds":["AAAAAAAAAAAAAAAAAAAABA"]}',
  '{"type":"request","version":1,"requestId":"AAAAAAAAAAAAAAAAAAAABQ","topicId":null}',
  '{"type":"request","version":1,"requestId":"AAAAAAAAAAAAAAAAAAAABQ","topicId":"AAAAAAAAAAAAAAAAAAAABA"}',
  '{"type":"producer-ids","version":1,"nodeId":1,"brokerEpoch":4,"firstId":3000,"count":1000}',
  '{"type":"named-producer","version":1,"name":"billing","producerId":1099511627776,"producerEpoch":0,"fromId":-1,"fromEpoch":-1,"forgets":"mailer","timestampMs":1700000000004}',
  '{"type":"named-producer","version":1,"name":"","producerId":1099511627776,"producerEpoch":3,"fromId":1099511627776,"fromEpoch":2,"forgets":null,"timestampMs":-1}',
  '{"type":"unsafe-recovery","version":1,"epochsRaisedBy":1000000,"timestampMs":1700000000003}',
];

afterEach(() => activateMutants([]));

const commandOf = (...records: readonly string[]): Uint8Array =>
  utf8Encode(`{"version":1,"records":[${records.join(",")}]}`);

function codeOf(bytes: Uint8Array): string {
  try {
    decodeCommand(bytes, 5);
    return "accepted";
  } catch (thrown) {
    return thrown instanceof OttlaError ? thrown.code : `threw ${String(thrown)}`;
  }
}

describe("I-39: what nobody could read is not written", () => {
  const BAD = [-1, -0, 0.5, 2 ** 53, null, "", "x", true, [], [-1], {}, { min: -1, max: 2 }, undefined];

  test.each(GOLDEN)("%s", (text) => {
    const record = JSON.parse(text) as Record<string, unknown>;
    let refused = 0;
    for (const name of Object.keys(record).filter((each) => each !== "type" && each !== "version"))
      for (const value of BAD) {
        const changed = { ...record, [name]: value } as unknown as MetadataRecord;
        const isReadable = codeOf(commandOf(JSON.stringify(changed))) === "accepted";
        if (isReadable && !Object.is(value, -0)) expect(encodeCommand([changed], 2)).toBeDefined();
        if (isReadable) continue;
        expect(() => encodeCommand([changed], 99)).toThrow(expect.objectContaining({ code: "UNKNOWN_SERVER_ERROR" }));
        refused++;
      }
    expect(refused).toBeGreaterThan(5);
  });

  test("I39p: the planted bug writes it", () => {
    activateMutants(["I39p"]);
    const [text = ""] = GOLDEN.filter((each) => each.includes('"register-broker"'));
    const record = { ...(JSON.parse(text) as MetadataRecord), metadataVersions: { min: -1, max: 2 } } as MetadataRecord;
    expect(codeOf(encodeCommand([record], 2))).toBe("DATA_DAMAGED");
  });
});

describe("golden records", () => {
  test.each(GOLDEN)("%s", (text) => {
    const records = decodeCommand(commandOf(text), 5);
    expect(records).toEqual([JSON.parse(text)]);
    expect(encodeCommand(records, 2)).toEqual(commandOf(text));
  });

  test("there is one of each type and version, and the next version of each is refused by name", () => {
    const kinds = GOLDEN.map((text) => JSON.parse(text) as MetadataRecord);
    const newest = new Map<string, number>();
    for (const { type, version } of kinds) newest.set(type, Math.max(newest.get(type) ?? 0, version));
    expect([...newest].map(([type, version]) => `${type} ${version}`).sort()).toEqual([
      "broker-config 1",
      "cluster 1",
      "delete-topic 1",
      "fence-broker 2",
      "metadata-version 1",
      "named-producer 1",
      "partition-change 1",
      "producer-ids 1",
      "register-broker 1",
      "request 1",
      "tombstone-settled 1",
      "topic 1",
      "topic-config 1",
      "topic-removed 1",
      "unfence-broker 1",
      "unsafe-recovery 1",
    ]);
    for (const record of kinds) {
      const version = (newest.get(record.type) ?? 0) + 1;
      const said = `metadata entry 5 (record "${record.type}", version ${version}) was written by a newer build`;
      expect(() => decodeCommand(commandOf(JSON.stringify({ ...record, version })), 5)).toThrow(
        expect.objectContaining({ code: "DATA_DIR_NEWER", message: said }),
      );
    }
  });

  test("a command holds several, in their order", () => {
    const records = decodeCommand(commandOf(...GOLDEN), 5);
    expect(records).toEqual(GOLDEN.map((text): unknown => JSON.parse(text)));
    expect(encodeCommand(records, 2)).toEqual(commandOf(...GOLDEN));
  });

  test("every field is needed, none may be added", () => {
    for (const text of GOLDEN) {
      const record = JSON.parse(text) as Record<string, unknown>;
      expect(codeOf(commandOf(JSON.stringify({ ...record, more: 1 })))).toBe("DATA_DAMAGED");
      for (const field of Object.keys(record)) {
        const { [field]: _left, ...rest } = record;
        expect([field, codeOf(commandOf(JSON.stringify(rest)))]).toEqual([field, "DATA_DAMAGED"]);
        const wrong = JSON.stringify({ ...record, [field]: { a: [] } });
        expect([field, codeOf(commandOf(wrong))]).toEqual([field, "DATA_DAMAGED"]);
      }
    }
  });
});

describe("refusal", () => {
  const id = uuid(1);

  test.each([
    ["an unknown type", '{"type":"new-thing","version":1}'],
    ["a type that every object has", '{"type":"toString","version":1}'],
    ["a version before the first", `{"type":"delete-topic","version":0,"topicId":"${id}"}`],
    ["a metadata.version beyond this build", '{"type":"metadata-version","version":1,"metadataVersion":3}'],
  ])("D-31: %s stops the state machine", (_what, record) => {
    expect(codeOf(commandOf(record))).toBe("DATA_DIR_NEWER");
    expect(codeOf(commandOf(GOLDEN[9] as string, record))).toBe("DATA_DIR_NEWER");
  });

  test("D-31: so does a command of another version", () => {
    expect(codeOf(utf8Encode('{"version":2,"records":[]}'))).toBe("DATA_DIR_NEWER");
  });

  test.each([
    ["nothing", ""],
    ["no JSON", "{"],
    ["no object", "[]"],
    ["null", "null"],
    ["no version", '{"records":[]}'],
    ["no records", '{"version":1,"records":[]}'],
    ["records that are no list", '{"version":1,"records":{}}'],
    ["a field beside", `{"version":1,"records":[${GOLDEN[4]}],"more":1}`],
    ["a record that is none", '{"version":1,"records":[1]}'],
    ["a record by itself", GOLDEN[4] as string],
    ["minus zero", '{"version":1,"records":[{"type":"fence-broker","version":1,"nodeId":-0,"brokerEpoch":4}]}'],
    ["half a number", '{"version":1,"records":[{"type":"fence-broker","version":1,"nodeId":1.5,"brokerEpoch":4}]}'],
    [
      "a number too large",
      '{"version":1,"records":[{"type":"fence-broker","version":1,"nodeId":1e16,"brokerEpoch":4}]}',
    ],
    ["a bad uuid", '{"version":1,"records":[{"type":"delete-topic","version":1,"topicId":"AAAAAAAAAAAAAAAAAAAAAB"}]}'],
    [
      "a configuration key that is none",
      '{"version":1,"records":[{"type":"broker-config","version":1,"nodeId":null,"configs":{"__proto__":1}}]}',
    ],
    ["deep nesting", `${"[".repeat(100_000)}${"]".repeat(100_000)}`],
    ["a prototype", '{"version":1,"records":[{"__proto__":{"type":"delete-topic"},"version":1}]}'],
  ])("%s is damage", (_what, text) => {
    expect(codeOf(utf8Encode(text))).toBe("DATA_DAMAGED");
  });

  test("bytes that are no UTF-8 are damage", () => {
    const bytes = commandOf(GOLDEN[11] as string);
    expect(codeOf(bytes)).toBe("accepted");
    const at = new TextDecoder().decode(bytes).indexOf("orders");
    expect(codeOf(bytes.fill(0xff, at, at + 1))).toBe("DATA_DAMAGED");
    expect(codeOf(new Uint8Array([0xef, 0xbb, 0xbf, ...commandOf(GOLDEN[4] as string)]))).toBe("DATA_DAMAGED");
  });

  test("a command of nothing is not written", () => {
    expect(() => encodeCommand([], 2)).toThrow(/has records/);
  });
});

describe("damaged bytes", () => {
  const KNOWN = new Set(["accepted", "DATA_DAMAGED", "DATA_DIR_NEWER"]);

  test("any bytes at all are refused with a code, never another error", () => {
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array(), fc.json().map(utf8Encode)), (bytes) => {
        expect(["DATA_DAMAGED", "DATA_DIR_NEWER"]).toContain(codeOf(bytes));
      }),
    );
  });

  test("a good command with bytes changed, cut or doubled is accepted or refused with a code", () => {
    const rng = createRng(20);
    for (let round = 0; round < 20_000; round++) {
      const bytes = commandOf(...GOLDEN.filter(() => rng.chance(0.2)), rng.pick(GOLDEN));
      const at = rng.below(bytes.length);
      const to = rng.below(bytes.length);
      const damaged = [
        (): Uint8Array => bytes.fill(rng.below(256), at, at + 1),
        (): Uint8Array => bytes.subarray(0, at),
        (): Uint8Array => bytes.copyWithin(at, to, to + 1 + rng.below(40)),
      ];
      expect(KNOWN).toContain(codeOf(rng.pick(damaged)()));
    }
  });
});
