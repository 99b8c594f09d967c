// Round trips of every request and answer, and what is refused on the way.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AssertionFailure } from "../../src/base/assert.ts";
import { OttlaError } from "../../src/model/errors.ts";
import { toNodeId, uuidFromBytes, uuidToBytes } from "../../src/model/ids.ts";
import { API } from "../../src/wire/native/apis.ts";
import type { ApiKey, FetchResponse, ProduceResponse, TopicMetadata } from "../../src/wire/native/apis.ts";
import {
  FIELD_LIMITS,
  RequestAssembler,
  ResponseAssembler,
  SUPPORTED_VERSIONS,
  encodeRefusal,
  encodeRequest,
  encodeResponse,
  splitBodies,
  topicsOfOnePage,
} from "../../src/wire/native/codec.ts";
import { LIMITS } from "../../src/wire/native/protocol.ts";
import type { Assembled } from "../../src/wire/native/protocol.ts";
import { SCHEMAS } from "../../src/wire/native/schemas.ts";
import { uuidBytesOf, uuidTextOf } from "../../src/wire/native/uuid.ts";
import { API_NAMES, ARBITRARIES, topic } from "./arbitraries.ts";
import type { Sample } from "./arbitraries.ts";

const MiB = 1024 * 1024;
const plain = (bytes: Uint8Array): Uint8Array => new Uint8Array(bytes);

function pushAll<Message>(
  assembler: { push(message: Uint8Array): Assembled<Message> },
  messages: readonly Uint8Array[],
) {
  const results = messages.map((message) => assembler.push(plain(message)));
  for (const result of results.slice(0, -1)) expect(result).toEqual({ kind: "incomplete" });
  return results.at(-1);
}

// The arbitraries of one api fit its types; across the apis the pair cannot be named without a cast.
const anyRequest = (api: ApiKey) => ARBITRARIES[api].request as fc.Arbitrary<Sample<never>>;
const anyResponse = (api: ApiKey) => ARBITRARIES[api].response as fc.Arbitrary<Sample<never>>;

describe.each(API_NAMES)("%s", (_name, api) => {
  const { minVersion, versions } = SCHEMAS[api];
  const latest = minVersion + versions.length - 1;
  const header = { api, version: latest, correlationId: 0xfffffffe, deadlineMs: 30_000 } as const;

  it("requests come back as they were sent", () => {
    fc.assert(
      fc.property(anyRequest(api), ({ payload, bodies }) => {
        const messages = encodeRequest(header, payload, bodies);
        const assembler = new RequestAssembler({ bodyBytesMax: MiB });
        const result = pushAll(assembler, messages);
        const sizeBytes = messages.slice(1).reduce((sum, message) => sum + message.length, messages[0]?.length ?? 0);
        const inlineBytes =
          bodies.reduce((sum, each) => sum + each.length, 0) - (sizeBytes - (messages[0]?.length ?? 0));
        expect(result).toEqual({
          kind: "message",
          message: { header, request: payload, bodies: bodies.map(plain) },
          sizeBytes: sizeBytes + inlineBytes,
        });
        expect(assembler.owesBodies).toBe(false);
      }),
      { numRuns: 60 },
    );
  });

  it("answers come back as they were sent", () => {
    fc.assert(
      fc.property(anyResponse(api), fc.boolean(), ({ payload, bodies }, more) => {
        const answer = { api, version: latest, correlationId: 7, more, error: "NONE", message: null } as const;
        const result = pushAll(new ResponseAssembler({ bodyBytesMax: MiB }), encodeResponse(answer, payload, bodies));
        expect(result).toMatchObject({
          kind: "message",
          message: { header: answer, response: payload, bodies: bodies.map(plain) },
        });
      }),
      { numRuns: 60 },
    );
  });

  it("answers that are an error carry its code and message", () => {
    const answer = { api, version: latest, correlationId: 9, more: false, error: "BUSY", message: "später" } as const;
    const result = pushAll(new ResponseAssembler({ bodyBytesMax: MiB }), encodeResponse(answer, null, []));
    expect(result).toMatchObject({ kind: "message", message: { header: answer, response: null, bodies: [] } });
  });

  it("D-25: layouts are no deeper than permitted", () => {
    for (const { request, response } of SCHEMAS[api].versions) {
      expect(1 + request.payload.depth).toBeLessThanOrEqual(LIMITS.DEPTH);
      expect(1 + response.payload.depth).toBeLessThanOrEqual(LIMITS.DEPTH);
    }
  });

  it("D-31: the versions are announced", () => {
    expect(SUPPORTED_VERSIONS).toContainEqual({ key: api, minVersion, maxVersion: latest });
    expect(minVersion).toBe(0);
  });
});

const topicId = uuidFromBytes(new Uint8Array(16).fill(0xab));
const produce = (count: number) => ({
  acks: 1,
  timeoutMs: 5,
  entries: new Array(count).fill({ topicId, partition: 0, leaderEpoch: -1, isResent: false }),
});
const produceHeader = { api: API.PRODUCE, version: 0, correlationId: 1, deadlineMs: 0 } as const;
const answerHeader = { version: 0, correlationId: 1, more: false, error: "NONE", message: null } as const;

function codeOf(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    return error instanceof OttlaError ? error.code : error instanceof AssertionFailure ? "assert" : String(error);
  }
  return "no error";
}

describe("bodies (D-24)", () => {
  it("small ones of a small message ride inside, large ones follow, in their order", () => {
    const sizes = [10, 8192, 8193, 0, 9000, 8182, 1];
    const bodies = sizes.map((size, index) => new Uint8Array(size).fill(index + 1));
    const messages = encodeRequest(produceHeader, produce(bodies.length), bodies);
    expect(messages.slice(1).map((message) => message.length)).toEqual([8193, 9000, 1]);
    const result = pushAll(new RequestAssembler({ bodyBytesMax: MiB }), messages);
    expect(result?.kind === "message" ? result.message.bodies : []).toEqual(bodies);
  });

  it("a single body may be larger than 1 MiB, several together may not", () => {
    const big = new Uint8Array(3 * MiB);
    expect(encodeRequest(produceHeader, produce(1), [big]).length).toBe(2);
    expect(codeOf(() => encodeRequest(produceHeader, produce(2), [big, big]))).toBe("INVALID_REQUEST");
    expect(codeOf(() => encodeRequest(produceHeader, produce(2), [new Uint8Array(MiB), new Uint8Array(1)]))).toBe(
      "INVALID_REQUEST",
    );
  });

  it("the fullest request and answer fit into an envelope", () => {
    const bodies = new Array<Uint8Array>(1024).fill(new Uint8Array(16));
    const bigId = { topicId, partition: 2 ** 31 - 1, leaderEpoch: 2 ** 31 - 1, isResent: true };
    const request = { acks: -1, timeoutMs: 2 ** 31 - 1, entries: new Array(1024).fill(bigId) };
    expect(
      pushAll(new RequestAssembler({ bodyBytesMax: MiB }), encodeRequest(produceHeader, request, bodies)),
    ).toMatchObject({ kind: "message" });
    const far = Number.MAX_SAFE_INTEGER;
    const entries: FetchResponse["entries"] = bodies.map((_body, index) => ({
      index,
      error: "FENCED_LEADER_EPOCH",
      leaderEpoch: 2 ** 31 - 1,
      logStartOffset: far,
      highWatermark: far,
      lastStableOffset: far,
      body: index,
    }));
    for (const size of [16, 17, 1024]) {
      const answers = bodies.map(() => new Uint8Array(size));
      const messages = encodeResponse({ api: API.FETCH, ...answerHeader }, { entries }, answers);
      expect(messages[0]?.length).toBeLessThanOrEqual(LIMITS.ENVELOPE_BYTES);
      expect(pushAll(new ResponseAssembler({ bodyBytesMax: MiB }), messages)).toMatchObject({ kind: "message" });
    }
  });

  it("messages for people are cut, and left out when they do not fit", () => {
    const entry = { error: "INVALID_RECORD", outcome: "not appended", baseOffset: -1, logStartOffset: 0 } as const;
    const one: ProduceResponse = { entries: [{ ...entry, message: "x".repeat(5000) }] };
    const result = pushAll(
      new ResponseAssembler({ bodyBytesMax: 0 }),
      encodeResponse({ api: API.PRODUCE, ...answerHeader }, one, []),
    );
    const decoded = result?.kind === "message" ? (result.message.response as ProduceResponse) : undefined;
    expect(decoded?.entries[0]?.message?.length).toBe(1024);
    const many: ProduceResponse = { entries: new Array(1024).fill({ ...entry, message: "y".repeat(900) }) };
    const cut = pushAll(
      new ResponseAssembler({ bodyBytesMax: 0 }),
      encodeResponse({ api: API.PRODUCE, ...answerHeader }, many, []),
    );
    expect(cut).toMatchObject({
      kind: "message",
      message: { response: { entries: many.entries.map(() => ({ ...entry, message: null })) } },
    });
  });

  it("whatever topics a request can name, their answer fits", () => {
    const requestHeader = { version: 1, correlationId: 1, deadlineMs: 0 } as const;
    const topicId = uuidFromBytes(new Uint8Array(16).fill(0xff));
    for (const length of [1, 30, 57, 249]) {
      const name = "n".repeat(length);
      const room = Math.floor((LIMITS.ENVELOPE_BYTES - 64) / (length + 6));
      const names = new Array<string>(Math.min(FIELD_LIMITS.TOPICS, room)).fill(name);
      const topics = names.map(() => ({ name, partitions: 1, replicationFactor: 1, configs: [] }));
      encodeRequest({ api: API.CREATE_TOPICS, ...requestHeader }, { validateOnly: false, requestId: null, topics }, []);
      encodeRequest({ api: API.DELETE_TOPICS, ...requestHeader }, { names, requestId: null }, []);
      const done = { name, error: "NONE", message: null } as const;
      const created = { topics: names.map(() => ({ ...done, topicId, partitions: 10_000 })) };
      const deleted = { topics: names.map(() => done) };
      for (const messages of [
        encodeResponse({ api: API.CREATE_TOPICS, ...answerHeader }, created, []),
        encodeResponse({ api: API.DELETE_TOPICS, ...answerHeader }, deleted, []),
      ])
        expect(pushAll(new ResponseAssembler({ bodyBytesMax: 0 }), messages)).toMatchObject({ kind: "message" });
    }
  });

  it("splitBodies: consecutive entries, each part within the bound or a single one", () => {
    expect(splitBodies([])).toEqual([{ start: 0, end: 0 }]);
    expect(splitBodies([5, 5, 5, 20, 1], 10)).toEqual([
      { start: 0, end: 2 },
      { start: 2, end: 3 },
      { start: 3, end: 4 },
      { start: 4, end: 5 },
    ]);
    fc.assert(
      fc.property(
        fc.array(fc.nat({ max: 30 }), { maxLength: 3000, size: "max" }),
        fc.integer({ min: 1, max: 40 }),
        (sizes, maxBytes) => {
          const parts = splitBodies(sizes, maxBytes);
          let next = 0;
          for (const { start, end } of parts) {
            expect(start).toBe(next);
            const total = sizes.slice(start, end).reduce((sum, size) => sum + size, 0);
            expect(end - start <= 1 || total <= maxBytes).toBe(true);
            expect(end - start).toBeLessThanOrEqual(LIMITS.BODIES);
            next = end;
          }
          expect(next).toBe(sizes.length);
        },
      ),
      { numRuns: 50 },
    );
  });
});

describe("limits of what we send", () => {
  it("values of a user beyond the protocol are refused before anything is sent, with the field's name", () => {
    const header = { api: API.CREATE_TOPICS, version: 0, correlationId: 1, deadlineMs: 0 } as const;
    const row = { name: "x".repeat(1025), partitions: 1, replicationFactor: 1, configs: [] };
    expect(() =>
      encodeRequest(header, { validateOnly: false, topics: [{ ...row, name: "ok" }, row], requestId: null }, []),
    ).toThrow("request.topics[1].name: longer than 1024 characters");
    const wide = {
      validateOnly: false,
      topics: new Array(200).fill({ ...row, name: "n".repeat(1000) }),
      requestId: null,
    };
    expect(codeOf(() => encodeRequest(header, wide, []))).toBe("INVALID_REQUEST");
    const many = { names: new Array<string>(1025).fill("a"), requestId: null };
    expect(codeOf(() => encodeRequest({ ...header, api: API.DELETE_TOPICS }, many, []))).toBe("INVALID_REQUEST");
    expect(codeOf(() => encodeRequest(produceHeader, { ...produce(1), acks: 1.5 }, [new Uint8Array(1)]))).toBe(
      "INVALID_REQUEST",
    );
    expect(codeOf(() => encodeRequest(produceHeader, produce(1), []))).toBe("INVALID_REQUEST");
  });

  it("an answer of ours beyond the limits fails that request alone; a header beyond them is a bug", () => {
    const header = { api: API.FETCH, ...answerHeader } as const;
    const entry = {
      index: 0,
      error: "NONE",
      leaderEpoch: 0,
      logStartOffset: 0,
      highWatermark: 0,
      lastStableOffset: 0,
    } as const;
    expect(codeOf(() => encodeResponse(header, { entries: [{ ...entry, body: 0 }] }, []))).toBe("UNKNOWN_SERVER_ERROR");
    expect(
      codeOf(() => encodeResponse(header, { entries: [{ ...entry, body: -1, highWatermark: 2 ** 53 }] }, [])),
    ).toBe("UNKNOWN_SERVER_ERROR");
    expect(codeOf(() => encodeResponse(header, null, []))).toBe("assert");
    expect(codeOf(() => encodeResponse({ ...header, error: "BUSY" }, { entries: [] }, []))).toBe("assert");
    expect(codeOf(() => encodeResponse({ ...header, correlationId: 2 ** 32 }, { entries: [] }, []))).toBe("assert");
    expect(codeOf(() => encodeResponse({ ...header, version: 1 }, { entries: [] }, []))).toBe("assert");
  });

  it("a refusal names the request when it can", () => {
    const reason = "api 99 does not exist";
    expect(encodeRefusal({ correlationId: null, error: "BAD_ENVELOPE", reason })).toBeNull();
    const messages = encodeRefusal({ correlationId: 5, error: "UNKNOWN_API", reason }) ?? [];
    expect(pushAll(new ResponseAssembler({ bodyBytesMax: 0 }), messages)).toMatchObject({
      message: { header: { correlationId: 5, error: "UNKNOWN_API", message: reason }, response: null },
    });
  });
});

describe("pages of metadata", () => {
  it("D-38: what topicsOfOnePage admits always fits", () => {
    const partition = {
      index: 2 ** 31 - 1,
      error: "NONE",
      leader: 70_000,
      leaderEpoch: 2 ** 31 - 1,
      replicas: [70_000, 70_001],
      isr: [70_000, 70_001],
      elr: [70_002],
      partitionEpoch: 2 ** 31 - 1,
      minIsr: 2,
      uncleanEpoch: 70_000,
    } as const;
    const big = {
      name: "n".repeat(249),
      error: "NONE",
      topicId,
      isDeleting: false,
      maxMessageBytes: 2 ** 40,
      configs: [],
      partitions: new Array(500).fill(partition),
    } as const;
    const topics: TopicMetadata[] = new Array(200).fill(big);
    const brokers = [{ nodeId: 1, address: "127.0.0.1:7070", isFenced: false }];
    const count = topicsOfOnePage(topics, brokers);
    expect(count).toBeGreaterThan(10);
    expect(count).toBeLessThan(200);
    const page = {
      clusterId: topicId,
      controllerId: 1,
      brokers,
      topics: topics.slice(0, count),
      next: big.name,
      metadataEnd: 2 ** 50,
    };
    const messages = encodeResponse({ ...answerHeader, api: API.METADATA, version: 1 }, page, []);
    expect(pushAll(new ResponseAssembler({ bodyBytesMax: 0 }), messages)).toMatchObject({ kind: "message" });
  });

  it("many tiny topics and random ones fit too", () => {
    const tiny: TopicMetadata = {
      name: "t",
      error: "NONE",
      topicId,
      isDeleting: false,
      maxMessageBytes: 1,
      configs: [],
      partitions: [],
    };
    fc.assert(
      fc.property(fc.array(topic, { minLength: 1, maxLength: 5 }), (some) => {
        const topics: TopicMetadata[] = [...some, ...new Array<TopicMetadata>(40_000).fill(tiny)];
        const count = topicsOfOnePage(topics, []);
        expect(count).toBeGreaterThan(1000);
        const page = {
          clusterId: topicId,
          controllerId: 1,
          brokers: [],
          topics: topics.slice(0, count),
          next: null,
          metadataEnd: 1,
        };
        const messages = encodeResponse({ ...answerHeader, api: API.METADATA, version: 1 }, page, []);
        expect(new ResponseAssembler({ bodyBytesMax: 0 }).push(plain(messages[0] as Uint8Array)).kind).toBe("message");
      }),
      { numRuns: 3 },
    );
    expect(topicsOfOnePage([], [])).toBe(0);
  });

  it("a topic of 10,000 partitions on three replicas fits alone", () => {
    const partition = {
      index: 9999,
      error: "NONE",
      leader: 3,
      leaderEpoch: 500,
      replicas: [1, 2, 3],
      isr: [1, 2, 3],
      elr: [],
      partitionEpoch: 70_000,
      minIsr: 2,
      uncleanEpoch: -1,
    } as const;
    const wide: TopicMetadata = {
      name: "w",
      error: "NONE",
      topicId,
      isDeleting: false,
      maxMessageBytes: 1,
      configs: [],
      partitions: new Array(10_000).fill(partition),
    };
    const page = { clusterId: topicId, controllerId: 1, brokers: [], topics: [wide], next: null, metadataEnd: 1 };
    const messages = encodeResponse({ ...answerHeader, api: API.METADATA, version: 1 }, page, []);
    expect(new ResponseAssembler({ bodyBytesMax: 0 }).push(plain(messages[0] as Uint8Array)).kind).toBe("message");
    expect(FIELD_LIMITS.PARTITIONS).toBe(100_000);
  });
});

describe("memory of encoded messages (D-26)", () => {
  it("a large answer stands in a store of its own, and the small ones after it do not pin a large block", () => {
    const names = Array.from({ length: 3_000 }, (_, index) => `${"t".repeat(200)}${index}`);
    const topics = names.map(
      (name): TopicMetadata => ({
        name,
        error: "NONE",
        topicId,
        isDeleting: false,
        maxMessageBytes: 1,
        configs: [],
        partitions: [],
      }),
    );
    const page = { clusterId: topicId, controllerId: 1, brokers: [], topics, next: null, metadataEnd: 1 };
    const [large] = encodeResponse({ ...answerHeader, api: API.METADATA, version: 1 }, page, []);
    expect(large?.length).toBeGreaterThan(600_000);
    expect(large?.buffer.byteLength).toBe(large?.length);
    const before = Buffer.from(large as Uint8Array).toString("hex");
    for (let count = 0; count < 300; count++) {
      const [small] = encodeRequest(
        { ...produceHeader, api: API.DELETE_TOPICS },
        { names: ["ä".repeat(count)], requestId: null },
        [],
      );
      expect(small?.buffer.byteLength).toBeLessThanOrEqual(256 * 1024);
      expect(new RequestAssembler({ bodyBytesMax: 0 }).push(plain(small as Uint8Array))).toMatchObject({
        message: { request: { names: ["ä".repeat(count)], requestId: null } },
      });
    }
    expect(Buffer.from(large as Uint8Array).toString("hex")).toBe(before);
  });
});

describe("uuids on the wire", () => {
  it("D-32: are the same as in the model, both ways", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (bytes) => {
        expect(uuidTextOf(bytes)).toBe(uuidFromBytes(bytes));
        expect(uuidBytesOf(uuidFromBytes(bytes))).toEqual(bytes);
      }),
    );
    fc.assert(
      fc.property(
        fc.string({ unit: "binary", minLength: 21, maxLength: 23 }),
        fc.uint8Array({ minLength: 16, maxLength: 16 }),
        (noise, bytes) => {
          for (const text of [noise, uuidFromBytes(bytes).slice(0, 21) + noise.charAt(0)])
            expect(uuidBytesOf(text)).toEqual(uuidToBytes(text));
        },
      ),
    );
  });
});

describe("the fullest messages of the quorum", () => {
  it("fit into an envelope", () => {
    const far = Number.MAX_SAFE_INTEGER;
    const entries = new Array(1024).fill({ term: far, kind: "configuration" });
    const replicas = Array.from({ length: 64 }, (_, index) => `${index}:${"d".repeat(61)}`);
    const message = { kind: "append", term: far, start: far, prevTerm: far, entries, commitEnd: far } as const;
    const request = { clusterId: topicId, from: "1:a", to: "2:b", boots: far, message };
    const header = { version: 0, correlationId: 1, deadlineMs: 0 } as const;
    for (const size of [16, 17, 1024]) {
      const bodies = new Array<Uint8Array>(1024).fill(new Uint8Array(size));
      const messages = encodeRequest({ ...header, api: API.RAFT }, request, bodies);
      expect(pushAll(new RequestAssembler({ bodyBytesMax: MiB }), messages)).toMatchObject({ kind: "message" });
      const answer = { leaderId: 1, commitEnd: far, start: far, entries, snapshot: null };
      const answers = encodeResponse({ api: API.FETCH_METADATA, ...answerHeader }, answer, bodies);
      expect(pushAll(new ResponseAssembler({ bodyBytesMax: MiB }), answers)).toMatchObject({ kind: "message" });
    }
    const voters = replicas.flatMap((replicaId) =>
      [false, true].map((isLearner) => ({ replicaId, isLearner, end: far, lagMs: far, isRefused: false })),
    );
    const described = {
      clusterId: topicId,
      nodeId: toNodeId(1),
      role: "controller",
      leaderId: 1,
      term: far,
      commitEnd: far,
      appliedEnd: far,
      metadataVersion: 1,
      versionsMin: 1,
      versionsMax: 1,
      voters,
      reachable: new Array(1024).fill(2 ** 31 - 1),
      waitingFor: "w".repeat(5000),
    } as const;
    const answers = encodeResponse({ api: API.DESCRIBE_QUORUM, ...answerHeader }, described, []);
    expect(pushAll(new ResponseAssembler({ bodyBytesMax: 0 }), answers)).toMatchObject({ kind: "message" });
    const dropped = new Array(1024).fill(topicId);
    const beat = { nodeId: toNodeId(1), brokerEpoch: far, incarnationId: topicId, appliedEnd: far };
    const damaged = new Array(1000).fill({ topicId, partitions: [2 ** 31 - 1] });
    const flags = { epochStored: true, wantsShutdown: true, isLowOnSpace: true, droppedTopics: dropped, damaged };
    const messages = encodeRequest({ ...header, api: API.BROKER_HEARTBEAT }, { ...beat, ...flags }, []);
    expect(pushAll(new RequestAssembler({ bodyBytesMax: 0 }), messages)).toMatchObject({ kind: "message" });
  });
});
