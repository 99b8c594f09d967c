// The messages between replicas: flat rows of integers, checked on both ways, and the fullest ones within their envelopes.
import { Packr } from "msgpackr";
import { describe, expect, it } from "vitest";
import type { OttlaError } from "../../src/model/errors.ts";
import { uuidFromBytes } from "../../src/model/ids.ts";
import type { NodeId } from "../../src/model/ids.ts";
import { API, type ApiKey, type ApiTypes } from "../../src/wire/native/apis.ts";
import {
  encodeRequest,
  encodeResponse,
  FIELD_LIMITS,
  RequestAssembler,
  ResponseAssembler,
} from "../../src/wire/native/codec.ts";
import { LIMITS } from "../../src/wire/native/protocol.ts";
import { DURABLE_ROW, POSITION_ROW, REPLICA_ROW } from "../../src/wire/native/replication-apis.ts";

const topicId = uuidFromBytes(new Uint8Array(16).fill(0xcd));
const nodeId = 2 as NodeId;
const FAR = Number.MAX_SAFE_INTEGER;
const INT = 2 ** 31 - 1;
const ROWS = FIELD_LIMITS.REPLICA_ROWS;
const pack = (value: unknown): Uint8Array => new Uint8Array(new Packr({ useRecords: false }).pack(value));

function requestAfter<K extends ApiKey>(api: K, request: ApiTypes[K]["request"], version = 0): unknown {
  const messages = encodeRequest({ api, version, correlationId: 1, deadlineMs: 0 }, request, []);
  const result = new RequestAssembler({ bodyBytesMax: 0 }).push(messages[0] as Uint8Array);
  return result.kind === "message" ? result.message.request : result;
}

function responseAfter<K extends ApiKey>(
  api: K,
  response: ApiTypes[K]["response"],
  bodies: Uint8Array[] = [],
): unknown {
  const header = { api, version: 0, correlationId: 1, more: true, error: "NONE", message: null } as const;
  const assembler = new ResponseAssembler({ bodyBytesMax: 1024 * 1024 });
  const results = encodeResponse(header, response, bodies).map((message) => assembler.push(message));
  const last = results.at(-1);
  return last?.kind === "message" ? last.message.response : last;
}

const rowsOf = (count: number, row: readonly number[]): number[] => Array.from({ length: count }, () => row).flat();
const fetchRequest = { nodeId, brokerEpoch: FAR, sessionId: FAR, maxWaitMs: INT, maxBytes: INT } as const;

describe("rows of integers", () => {
  it("are as wide as their names say", () => {
    for (const row of [POSITION_ROW, REPLICA_ROW, DURABLE_ROW]) {
      const { WIDTH, ...columns } = row;
      expect(Object.values(columns)).toEqual(Array.from({ length: WIDTH }, (_, at) => at));
    }
  });

  it("of full length, with the largest numbers, come through in one envelope", () => {
    const full = {
      ...fetchRequest,
      added: Array.from({ length: ROWS }, (_, slot) => ({ slot: INT - slot, topicId, partition: INT })),
      positions: rowsOf(ROWS, [INT, INT, FAR, -1]),
      removed: rowsOf(ROWS, [INT]),
    };
    expect(requestAfter(API.REPLICA_FETCH, full)).toEqual(full);
    const report = { nodeId, brokerEpoch: FAR, sessionId: FAR, rows: rowsOf(ROWS, [INT, INT, FAR, -1]) };
    expect(requestAfter(API.DURABLE_REPORT, report)).toEqual(report);
    const started = { ...report, rows: rowsOf(ROWS, [INT, INT, FAR, FAR]) };
    expect(requestAfter(API.DURABLE_REPORT, started, 1)).toEqual(started);
    // Version 0 does not say where a log starts.
    expect(requestAfter(API.DURABLE_REPORT, started)).toEqual(report);
    const bodies = Array.from({ length: LIMITS.BODIES }, () => new Uint8Array(100));
    const answer = { rows: rowsOf(ROWS, [INT, 0, INT, FAR, FAR, -1, -1, LIMITS.BODIES - 1]) };
    expect(responseAfter(API.REPLICA_FETCH, answer, bodies)).toEqual(answer);
  });

  it.each([
    ["a row that is cut", [1, 2, 3]],
    ["an offset beyond 2^53 - 1", [1, 2, 2 ** 53, -1]],
    ["half an epoch", [1, 1.5, 3, -1]],
    ["a slot below 0", [-1, 2, 3, -1]],
    ["an offset below 0", [1, 2, -1, -1]],
    ["an epoch below -1", [1, 2, 3, -2]],
    ["no number", [1, 2, "3" as unknown as number, -1]],
    ["too many", rowsOf(ROWS + 1, [1, 2, 3, -1])],
  ])("%s is not sent, and breaks the connection when it comes in", (_what, positions) => {
    const request = { ...fetchRequest, brokerEpoch: 1, sessionId: 1, added: [], positions, removed: [] };
    const header = { api: API.REPLICA_FETCH, version: 0, correlationId: 1, deadlineMs: 0 } as const;
    const refused = expect.objectContaining({ code: "INVALID_REQUEST" }) as OttlaError;
    expect(() => encodeRequest(header, request, [])).toThrow(refused);
    const bytes = pack([API.REPLICA_FETCH, 0, 9, 0, [], [2, 1, 1, 5, 5, [], positions, []]]);
    expect(new RequestAssembler({ bodyBytesMax: 0 }).push(bytes)).toMatchObject({
      kind: "broken",
      error: "BAD_ENVELOPE",
    });
  });

  it("of durable ends are never below 0", () => {
    const bytes = pack([API.DURABLE_REPORT, 0, 9, 0, [], [2, 1, 1, [7, 3, -5]]]);
    expect(new RequestAssembler({ bodyBytesMax: 0 }).push(bytes)).toMatchObject({
      kind: "broken",
      error: "BAD_ENVELOPE",
    });
  });

  it.each([
    ["half a divergence: an epoch", [4, 0, 3, -1, 0, 2, -1, -1]],
    ["half a divergence: an end", [4, 0, 3, -1, 0, -1, 5, -1]],
    ["an end below -1", [4, 0, 3, -1, 0, 2, -2, -1]],
    ["a divergence and an error", [4, 23, 3, -1, 0, 2, 5, -1]],
    ["a divergence and a high watermark", [4, 0, 3, 9, 0, 2, 5, -1]],
    ["an error and batches", [4, 23, 3, -1, 0, -1, -1, 0]],
    ["batches without a high watermark", [4, 0, 3, -1, 0, -1, -1, 0]],
    ["nothing", [4, 0, 3, -1, 0, -1, -1, -1]],
  ])("an answer's row that says %s is not sent, and breaks the connection when it comes in", (_what, rows) => {
    const bodies = [new Uint8Array(1)];
    const refused = expect.objectContaining({ code: "UNKNOWN_SERVER_ERROR" }) as OttlaError;
    expect(() => responseAfter(API.REPLICA_FETCH, { rows }, bodies)).toThrow(refused);
    const bytes = pack([API.REPLICA_FETCH, 0, 9, 0, 0, null, bodies, [rows]]);
    expect(new ResponseAssembler({ bodyBytesMax: 1024 }).push(bytes)).toMatchObject({
      kind: "broken",
      error: "BAD_ENVELOPE",
    });
  });

  it("one that names a body that is not there is refused", () => {
    const rows = [4, 0, 1, 9, 0, -1, -1, 1];
    const refused = expect.objectContaining({
      message: expect.stringContaining("body 1 of 1") as string,
    }) as OttlaError;
    expect(() => responseAfter(API.REPLICA_FETCH, { rows }, [new Uint8Array(1)])).toThrow(refused);
  });
});

describe("the fullest of the others", () => {
  it("AlterPartition of a thousand partitions of three replicas", () => {
    const isr = [1, 2, 3].map((node) => ({ nodeId: INT - node, brokerEpoch: FAR }));
    const entry = { topicId, partition: INT, leaderEpoch: INT, partitionEpoch: INT, isr, wantsMove: true };
    const request = { nodeId, brokerEpoch: FAR, entries: new Array(FIELD_LIMITS.ALTERED_PARTITIONS).fill(entry) };
    expect(requestAfter(API.ALTER_PARTITION, request)).toEqual(request);
    const answer = { entries: request.entries.map(() => ({ error: "INELIGIBLE_REPLICA" as const })) };
    expect(responseAfter(API.ALTER_PARTITION, answer)).toEqual(answer);
  });

  it("DescribePartitions of a thousand partitions of five replicas", () => {
    const replica = { nodeId: INT, endOffset: FAR, durableEnd: FAR, caughtUpMsAgo: FAR, isInSync: true };
    const entry = {
      error: "NONE" as const,
      leaderEpoch: INT,
      partitionEpoch: INT,
      logStartOffset: FAR,
      highWatermark: FAR,
      endOffset: FAR,
      durableEnd: FAR,
      replicas: new Array(5).fill(replica),
    };
    const answer = { entries: new Array(FIELD_LIMITS.DESCRIBED_PARTITIONS).fill(entry) };
    expect(responseAfter(API.DESCRIBE_PARTITIONS, answer)).toEqual(answer);
    const entries = answer.entries.map(() => ({ topicId, partition: INT }));
    expect(requestAfter(API.DESCRIBE_PARTITIONS, { entries })).toEqual({ entries });
  });

  it("ElectLeaders of a thousand partitions: messages for people are left out where they do not fit", () => {
    const row = {
      topic: "t".repeat(249),
      partition: INT,
      error: "ELECTION_NOT_NEEDED" as const,
      leader: INT,
      endOffset: FAR,
    };
    const entries = new Array(FIELD_LIMITS.ELECTED).fill({ ...row, message: "m".repeat(1000) });
    expect(responseAfter(API.ELECT_LEADERS, { entries, omitted: INT, metadataEnd: FAR })).toEqual({
      entries: entries.map(() => ({ ...row, message: null })),
      omitted: INT,
      metadataEnd: FAR,
    });
    const partitions = rowsOf(1024, [INT]);
    const request = { kind: "preferred" as const, topic: row.topic, partitions, nodeId: -1, isForced: false };
    expect(requestAfter(API.ELECT_LEADERS, request)).toEqual(request);
  });
});
