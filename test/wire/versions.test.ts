// Older versions of requests and answers: what they do not have is not sent, and reads as its default (docs/protocol.md, "Versions").
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { OttlaError } from "../../src/model/errors.ts";
import { API } from "../../src/wire/native/apis.ts";
import type { ApiKey } from "../../src/wire/native/apis.ts";
import { RequestAssembler, ResponseAssembler, encodeRequest, encodeResponse } from "../../src/wire/native/codec.ts";
import { ARBITRARIES } from "./arbitraries.ts";
import type { Sample } from "./arbitraries.ts";

/** Until version 2. */
function withoutReplication(topics: unknown): unknown {
  return (topics as readonly { readonly partitions: readonly { readonly error: string }[] }[]).map((topic) => ({
    ...topic,
    partitions: topic.partitions.map((partition) => ({
      ...partition,
      error: LEADERLESS.has(partition.error) ? "NOT_LEADER_OR_FOLLOWER" : partition.error,
      elr: [],
      partitionEpoch: -1,
      minIsr: -1,
      uncleanEpoch: -1,
    })),
  }));
}
const LEADERLESS = new Set(["NO_INTACT_REPLICA", "LEADER_NOT_AVAILABLE"]);

const header = { version: 0, correlationId: 5, deadlineMs: 9 } as const;
const answer = { version: 0, correlationId: 5, more: false, error: "NONE", message: null } as const;

function requestAfter(api: ApiKey, payload: never): unknown {
  const [envelope] = encodeRequest({ ...header, api }, payload, []);
  const result = new RequestAssembler({ bodyBytesMax: 0 }).push(envelope ?? new Uint8Array());
  return result.kind === "message" ? result.message.request : result;
}

function responseAfter(api: ApiKey, payload: never, version = 0): unknown {
  const [envelope] = encodeResponse({ ...answer, api, version }, payload, []);
  const result = new ResponseAssembler({ bodyBytesMax: 0 }).push(envelope ?? new Uint8Array());
  return result.kind === "message" ? result.message.response : result;
}

/** Api, what version 0 of its request lacks with the value that it reads as, the same of its answer. */
const SINCE_1 = [
  [API.METADATA, { barrier: false }, { metadataEnd: -1 }],
  [API.CREATE_TOPICS, { requestId: null }, {}],
  [API.DELETE_TOPICS, { requestId: null }, {}],
] as const;

describe.each(SINCE_1)("api %i in version 0", (api, requestDefaults, responseDefaults) => {
  it("requests come through without the newer fields", () => {
    fc.assert(
      fc.property(ARBITRARIES[api].request as fc.Arbitrary<Sample<never>>, ({ payload }) => {
        const asked = { ...(payload as object), ...("barrier" in requestDefaults ? { barrier: false } : {}) };
        expect(requestAfter(api, asked as never)).toEqual({ ...asked, ...requestDefaults });
      }),
      { numRuns: 40 },
    );
  });

  it("answers come through without the newer fields", () => {
    fc.assert(
      fc.property(ARBITRARIES[api].response as fc.Arbitrary<Sample<never>>, ({ payload }) => {
        const read = responseAfter(api, payload);
        const expected: Record<string, unknown> = { ...(payload as object), ...responseDefaults };
        if (Array.isArray(expected["brokers"])) {
          expected["brokers"] = expected["brokers"].map((broker: object) => ({ ...broker, isFenced: false }));
        }
        if ("metadataEnd" in responseDefaults) expected["topics"] = withoutReplication(expected["topics"]);
        expect(read).toEqual(expected);
      }),
      { numRuns: 40 },
    );
  });
});

describe("metadata in version 1", () => {
  it("partitions come through without what version 2 says of replicas", () => {
    fc.assert(
      fc.property(ARBITRARIES[API.METADATA].response, ({ payload }) => {
        const expected = { ...payload, topics: withoutReplication(payload.topics) };
        expect(responseAfter(API.METADATA, payload as never, 1)).toEqual(expected);
      }),
      { numRuns: 40 },
    );
  });
});

describe("what an older version cannot say", () => {
  it("a linearizable read is refused before anything is sent, not made without its barrier", () => {
    const request = { topics: null, after: null, barrier: true };
    expect(() => encodeRequest({ ...header, api: API.METADATA }, request, [])).toThrow(
      expect.objectContaining({ code: "UNSUPPORTED_VERSION" }) as OttlaError,
    );
    expect(encodeRequest({ ...header, api: API.METADATA, version: 1 }, request, [])).toHaveLength(1);
  });

  it("the bytes of version 0 are those of the release that had no other", () => {
    const hex = (messages: readonly Uint8Array[]): string => Buffer.from(messages[0] ?? []).toString("hex");
    const names = { names: ["t"], requestId: null };
    expect(hex(encodeRequest({ ...header, api: API.DELETE_TOPICS }, names, []))).toBe("9607000509909191a174");
    const all = { topics: null, after: null, barrier: false };
    expect(hex(encodeRequest({ ...header, api: API.METADATA }, all, []))).toBe("9602000509" + "9092c0c0");
  });
});
