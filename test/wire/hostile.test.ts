// Envelopes made to hurt: each gets its code, fast and without memory (D-24, D-25).
import { Packr } from "msgpackr";
import { describe, expect, it } from "vitest";
import { API } from "../../src/wire/native/apis.ts";
import { RequestAssembler, ResponseAssembler, encodeRequest, encodeResponse } from "../../src/wire/native/codec.ts";
import { LIMITS } from "../../src/wire/native/protocol.ts";
import type { Assembled } from "../../src/wire/native/protocol.ts";
import { StructureCheck } from "../../src/wire/native/structure.ts";
import { uuidFromBytes } from "../../src/model/ids.ts";
import { processorMs, slowness } from "../speed.ts";

const MiB = 1024 * 1024;
const packer = new Packr({ useRecords: false });
const pack = (value: unknown): Uint8Array => new Uint8Array(packer.pack(value));
const bytesOf = (...parts: (number | Uint8Array)[]): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => (typeof part === "number" ? [part] : [...part])));
const filled = (length: number, byte: number): Uint8Array => new Uint8Array(length).fill(byte);

/** [HELLO, 0, correlationId 9, 0, [], <payload bytes>] */
const helloWith = (...payload: (number | Uint8Array)[]): Uint8Array =>
  bytesOf(0x96, API.HELLO, 0, 9, 0, 0x90, ...payload);
const pushRequest = (bytes: Uint8Array, bodyBytesMax = MiB) => new RequestAssembler({ bodyBytesMax }).push(bytes);
const broken = (error: string, reason: string, correlationId: number | null = 9) => ({
  kind: "broken",
  error,
  reason: expect.stringContaining(reason) as string,
  correlationId,
});

describe("D-25: structure", () => {
  const cases: [string, Uint8Array, string][] = [
    [
      "10,000 nested arrays",
      bytesOf(0x96, API.FETCH, 0, 9, 0, 0x90, filled(10_000, 0x91), 0xc0),
      "nested deeper than 8",
    ],
    ["an array that claims 2^32 - 1 elements", helloWith(0xdd, filled(4, 0xff)), "more elements"],
    ["an array that claims 65,535 elements", helloWith(0xdc, 0xff, 0xff), "more elements"],
    ["60,000 empty arrays", helloWith(0xdc, 0xea, 0x60, filled(60_000, 0x90)), "more elements"],
    ["an array longer than the message", helloWith(0x93, 1), "ends inside"],
    ["a map", helloWith(0x81, 0xa1, 0x61, 1), "maps"],
    ["a map of 2^32 - 1", helloWith(0xdf, filled(4, 0xff)), "maps"],
    ["a map with a 16-bit count", helloWith(0xde, 0, 0), "maps"],
    ["a fixed extension", helloWith(0xd4, 0x72, 0x40), "extension"],
    ["a long extension", helloWith(0xc9, filled(4, 0xff), 1), "extension"],
    ["a timestamp", helloWith(0xd6, 0xff, 0, 0, 0, 0), "extension"],
    ["a float", helloWith(0xcb, filled(8, 0x40)), "floats"],
    ["a short float", helloWith(0xca, filled(4, 0x40)), "floats"],
    ["2^53", helloWith(0xcf, 0, 0x20, filled(6, 0)), "2^53"],
    ["2^64 - 1", helloWith(0xcf, filled(8, 0xff)), "2^53"],
    ["-2^53", helloWith(0xd3, 0xff, 0xe0, filled(6, 0)), "2^53"],
    ["-2^63", helloWith(0xd3, 0x80, filled(7, 0)), "2^53"],
    ["the byte c1", helloWith(0xc1), "c1"],
    ["a string longer than the message", helloWith(0xdb, filled(4, 0xff), 0x61), "ends inside"],
    ["bytes longer than the message", helloWith(0xc6, 0x7f, filled(3, 0xff), 1), "ends inside"],
    ["a length that is cut", helloWith(0xda, 0), "ends inside"],
    ["an integer that is cut", helloWith(0xce, 0, 0), "ends inside"],
    ["trailing bytes", bytesOf(helloWith(0x92, 0xa1, 0x61, 0xa1, 0x62), 0xc0), "1 bytes follow"],
    ["nothing after the head", bytesOf(0x96, API.HELLO, 0, 9), "ends inside"],
  ];
  it.each(cases)("%s", (_name, bytes, reason) => {
    const tookMs = processorMs(() => {
      expect(pushRequest(bytes)).toEqual(broken("BAD_ENVELOPE", reason));
    });
    expect(tookMs).toBeLessThan(200);
  });

  it("the largest integers are taken, in every width", () => {
    const check = new StructureCheck();
    for (const value of [
      0,
      127,
      128,
      255,
      256,
      65_535,
      65_536,
      2 ** 32 - 1,
      -1,
      -32,
      -33,
      -128,
      -129,
      -32_768,
      -32_769,
      -(2 ** 31),
    ]) {
      expect(check.check(pack([value]), 1), String(value)).toBeUndefined();
    }
    for (const value of [2n ** 53n - 1n, -(2n ** 53n) + 1n, 2n ** 32n])
      expect(check.check(pack([value]), 1), String(value)).toBeUndefined();
    expect(check.check(bytesOf(0xcf, 0, 0x1f, filled(6, 0xff)), 0)).toBeUndefined();
  });

  it("counts the elements of all arrays together and the depth", () => {
    const check = new StructureCheck();
    expect(check.check(pack([[1, 2], [3]]), 5)).toBeUndefined();
    expect(check.check(pack([[1, 2], [3]]), 4)).toContain("more elements");
    expect(check.check(bytesOf(filled(8, 0x91), 0), 100)).toBeUndefined();
    expect(check.check(bytesOf(filled(9, 0x91), 0), 100)).toContain("deeper");
    expect(check.check(new Uint8Array(0), 1)).toContain("ends inside");
  });

  it("a metadata answer of 1 MiB of empty arrays is refused without becoming heap", () => {
    const count = 1_000_000;
    const head = bytesOf(
      0x98,
      API.METADATA,
      0,
      9,
      0,
      0,
      0xc0,
      0x90,
      0xdd,
      0,
      count >> 16,
      (count >> 8) & 0xff,
      count & 0xff,
    );
    const bytes = new Uint8Array(head.length + count).fill(0x90);
    bytes.set(head);
    const before = process.memoryUsage().heapUsed;
    for (let round = 0; round < 20; round++) {
      expect(new ResponseAssembler({ bodyBytesMax: MiB }).push(bytes)).toEqual(broken("BAD_ENVELOPE", "more elements"));
    }
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(8 * MiB);
  });

  it("100,000 hostile envelopes cost less than a second", () => {
    const hostile = helloWith(filled(50, 0x91));
    const tookMs = processorMs(() => {
      for (let round = 0; round < 100_000; round++) pushRequest(hostile);
    });
    expect(tookMs / slowness()).toBeLessThan(1_000);
  });
});

describe("the head of an envelope", () => {
  const cases: [string, Uint8Array, ReturnType<typeof broken>][] = [
    ["an empty message", new Uint8Array(0), broken("BAD_ENVELOPE", "does not begin", null)],
    ["text", new TextEncoder().encode("GET / HTTP/1.1"), broken("BAD_ENVELOPE", "does not begin", null)],
    [
      "a correlation id that is a string",
      bytesOf(0x96, 1, 0, 0xa1, 0x61),
      broken("BAD_ENVELOPE", "does not begin", null),
    ],
    ["an unknown api", pack([99, 0, 9, 0, [], null]), broken("UNKNOWN_API", "api 99")],
    ["an unknown api of 32 bits", pack([2 ** 32 - 1, 0, 9, 0, [], null]), broken("UNKNOWN_API", "api 4294967295")],
    ["api 0", pack([0, 0, 9, 0, [], null]), broken("UNKNOWN_API", "api 0")],
    ["an unknown version", pack([API.FETCH, 7, 9, 0, [], null]), broken("UNSUPPORTED_VERSION", "speaks 0 to 0")],
    [
      "an unknown version with a future layout",
      pack([API.FETCH, 7, 9, { a: 1 }]),
      broken("UNSUPPORTED_VERSION", "version 7"),
    ],
    ["too few fields", pack([API.HELLO, 0, 9, 0, []]), broken("BAD_ENVELOPE", "array of 6")],
    ["too many fields", pack([API.HELLO, 0, 9, 0, [], ["a", "b"], 1]), broken("BAD_ENVELOPE", "array of 6")],
    ["a negative deadline", pack([API.HELLO, 0, 9, -1, [], ["a", "b"]]), broken("BAD_ENVELOPE", "deadline")],
    [
      "an envelope over 64 KiB",
      pack([API.HELLO, 0, 9, 0, [], ["a", "b".repeat(70_000)]]),
      broken("FRAME_TOO_LARGE", "at most 65536"),
    ],
    [
      "a payload of another type",
      pack([API.HELLO, 0, 9, 0, [], 5]),
      broken("BAD_ENVELOPE", "payload: not an array of 2"),
    ],
    [
      "a field of another type",
      pack([API.HELLO, 0, 9, 0, [], ["a", null]]),
      broken("BAD_ENVELOPE", "payload.software: not a string"),
    ],
    ["a field that is missing", pack([API.HELLO, 0, 9, 0, [], ["a"]]), broken("BAD_ENVELOPE", "not an array of 2")],
    [
      "a text too long",
      pack([API.HELLO, 0, 9, 0, [], ["a", "x".repeat(1025)]]),
      broken("BAD_ENVELOPE", "longer than 1024"),
    ],
    [
      "a fault deep inside",
      pack([
        API.FETCH,
        0,
        9,
        0,
        [],
        [
          1,
          2,
          3,
          [
            [filled(16, 1), 0, 0, 0, 0],
            [filled(15, 1), 0, 0, 0, 0],
          ],
        ],
      ]),
      broken("BAD_ENVELOPE", "payload.entries[1].topicId: not 16 bytes"),
    ],
  ];
  it.each(cases)("%s", (_name, bytes, expected) => {
    expect(pushRequest(bytes)).toEqual(expected);
  });

  it("answers: unknown flags, an error with a payload, a code out of range", () => {
    const push = (fields: unknown) => new ResponseAssembler({ bodyBytesMax: MiB }).push(pack(fields));
    const good = [API.DELETE_TOPICS, 0, 9, 0, 0, null, [], [[]]];
    expect(push(good)).toMatchObject({ kind: "message" });
    expect(push(good.with(3, 2))).toEqual(broken("BAD_ENVELOPE", "flags"));
    expect(push(good.with(4, 28))).toEqual(broken("BAD_ENVELOPE", "an error with a payload"));
    expect(push(good.with(4, 70_000))).toEqual(broken("BAD_ENVELOPE", "not a code"));
    expect(push(good.with(5, 1))).toEqual(broken("BAD_ENVELOPE", "short text"));
    expect(push(good.with(4, 9_999).with(7, null))).toMatchObject({
      message: { header: { error: "UNKNOWN_SERVER_ERROR" } },
    });
    expect(push([API.DELETE_TOPICS, 0, 9, 0, 0, null, [filled(3, 1)], [[]]])).toEqual(
      broken("BAD_ENVELOPE", "no bodies"),
    );
  });

  it("once broken, an assembler stays broken", () => {
    const assembler = new RequestAssembler({ bodyBytesMax: MiB });
    const first = assembler.push(filled(3, 0));
    expect(assembler.push(pack([API.HELLO, 0, 9, 0, [], ["a", "b"]]))).toBe(first);
  });
});

describe("D-24: bodies", () => {
  const topicId = filled(16, 7);
  const produce = (bodies: unknown, entries = 1): Uint8Array =>
    pack([API.PRODUCE, 0, 9, 0, bodies, [1, 0, new Array(entries).fill([topicId, 0, 0, false])]]);

  const cases: [string, Uint8Array, string][] = [
    ["no array", produce(null), "not an array"],
    ["a length of 0", produce([0]), "neither a length"],
    ["a negative length", produce([-1]), "neither a length"],
    ["a text", produce(["x"]), "neither a length"],
    ["an inline body over 8 KiB", produce([filled(8193, 1)]), "inline body of more than 8192"],
    ["1,025 of them", produce(new Array(1025).fill(1)), "more"],
    ["another count than entries", produce([5], 2), "2 entries come with 1 bodies"],
    ["some where there are none", pack([API.HELLO, 0, 9, 0, [5], ["a", "b"]]), "no bodies"],
  ];
  it.each(cases)("%s", (_name, bytes, reason) => {
    const assembler = new RequestAssembler({ bodyBytesMax: MiB });
    expect(assembler.push(bytes)).toEqual(broken("BAD_ENVELOPE", reason));
    expect(assembler.owesBodies).toBe(false);
  });

  const LARGEST = 64 * MiB;
  it.each<[string, Uint8Array, string]>([
    ["several of more than 1 MiB together", produce([MiB, 1], 2), "2 bodies of more than 1048576 bytes together"],
    ["a large one and an empty one", produce([MiB + 1, filled(0, 0)], 2), "2 bodies of more than 1048576"],
    ["a large one and a small one", produce([60 * MiB, 1], 2), "2 bodies of more than 1048576"],
    ["one of more than the largest batch", produce([LARGEST + 1]), "a body of more than 67108864 bytes"],
    ["one of 2^53 - 1 bytes", produce([BigInt(Number.MAX_SAFE_INTEGER)]), "a body of more than 67108864 bytes"],
  ])("too many bytes are refused by the announcement: %s", (_name, bytes, reason) => {
    const assembler = new RequestAssembler({ bodyBytesMax: LARGEST });
    expect(assembler.push(bytes)).toEqual(broken("FRAME_TOO_LARGE", reason));
    expect([assembler.owesBodies, assembler.owedBytes]).toEqual([false, 0]);
  });

  it("says what is owed: a single body may be larger than 1 MiB", () => {
    const alone = new RequestAssembler({ bodyBytesMax: LARGEST });
    expect(alone.push(produce([LARGEST])).kind).toBe("incomplete");
    expect([alone.owedBytes, alone.nextBodyBytes]).toEqual([LARGEST, LARGEST]);
    const several = new RequestAssembler({ bodyBytesMax: LARGEST });
    expect(several.push(produce([MiB - 3, filled(1, 0), 2], 3)).kind).toBe("incomplete");
    expect([several.owedBytes, several.nextBodyBytes]).toEqual([MiB - 1, MiB - 3]);
    several.push(filled(MiB - 3, 1));
    expect([several.owedBytes, several.nextBodyBytes]).toEqual([2, 2]);
    several.push(filled(2, 1));
    expect([several.owedBytes, several.nextBodyBytes]).toEqual([0, 0]);
  });

  it("half a logical message is no message; an envelope in place of a body breaks it", () => {
    const assembler = new RequestAssembler({ bodyBytesMax: MiB });
    expect(assembler.push(produce([100, filled(3, 3), 200], 3))).toEqual({ kind: "incomplete" });
    expect(assembler.owesBodies).toBe(true);
    expect(assembler.push(filled(100, 1))).toEqual({ kind: "incomplete" });
    expect(assembler.push(produce([]))).toEqual(broken("BODY_MISMATCH", "where a body of 200 was announced"));
    expect(assembler.owesBodies).toBe(false);
  });

  it("a body one byte too short or too long breaks it", () => {
    for (const length of [99, 101, 0]) {
      const assembler = new RequestAssembler({ bodyBytesMax: MiB });
      assembler.push(produce([100]));
      expect(assembler.push(filled(length, 1))).toEqual(broken("BODY_MISMATCH", `a message of ${length} bytes`));
    }
  });

  it("a body that nobody announced is read as an envelope and fails", () => {
    const assembler = new RequestAssembler({ bodyBytesMax: MiB });
    expect(assembler.push(produce([filled(10, 1)]))).toMatchObject({ kind: "message" });
    expect(assembler.push(filled(100, 1))).toEqual(broken("BAD_ENVELOPE", "does not begin", null));
  });

  it("the next request may follow at once", () => {
    const assembler = new RequestAssembler({ bodyBytesMax: MiB });
    for (let round = 0; round < 3; round++) {
      assembler.push(produce([100]));
      expect(assembler.push(filled(100, round))).toMatchObject({
        kind: "message",
        message: { bodies: [filled(100, round)] },
      });
    }
  });

  it("a fetch answer that names a body it does not have is broken", () => {
    const entry = [0, 0, 0, 0, 0, 0, 1];
    const bytes = pack([API.FETCH, 0, 9, 0, 0, null, [filled(3, 1)], [[entry]]]);
    expect(new ResponseAssembler({ bodyBytesMax: MiB }).push(bytes)).toEqual(broken("BAD_ENVELOPE", "body 1 of 1"));
  });

  it("D-26: an inline body is a view of its message, a following one the message itself", () => {
    const assembler = new RequestAssembler({ bodyBytesMax: MiB });
    const id = uuidFromBytes(topicId);
    const entries = [0, 1].map((partition) => ({ topicId: id, partition, leaderEpoch: 0, isResent: false }));
    const header = { api: API.PRODUCE, version: 0, correlationId: 9, deadlineMs: 0 } as const;
    const [envelope, large] = encodeRequest(header, { acks: 1, timeoutMs: 0, entries }, [
      filled(5, 1),
      filled(LIMITS.INLINE_BODY_BYTES + 1, 2),
    ]);
    const sent = new Uint8Array(envelope as Uint8Array);
    assembler.push(sent);
    const result: Assembled<{ readonly bodies: readonly Uint8Array[] }> = assembler.push(large as Uint8Array);
    const bodies = result.kind === "message" ? result.message.bodies : [];
    expect(bodies[0]?.buffer).toBe(sent.buffer);
    expect(bodies[1]).toBe(large);
  });
});

describe("numbers beyond 32 bits", () => {
  it("leave as integers, never as floats, so that any MessagePack library reads them", () => {
    const header = {
      api: API.LIST_OFFSETS,
      version: 0,
      correlationId: 1,
      more: false,
      error: "NONE",
      message: null,
    } as const;
    const entry = { error: "NONE", offset: 2 ** 40, timestamp: -(2 ** 40), leaderEpoch: 1 } as const;
    const [envelope] = encodeResponse(header, { entries: [entry] }, []);
    expect(Buffer.from(envelope as Uint8Array).toString("hex")).toContain("d30000010000000000d3ffffff0000000000");
  });
});

describe("messages of several kinds (Raft)", () => {
  const id = filled(16, 7);
  /** [RAFT, 0, correlationId 9, 0, bodies, [cluster, from, to, boots, message]] */
  const raftWith = (message: unknown, bodies: unknown[] = [], from: unknown = "1:a") =>
    pushRequest(pack([API.RAFT, 0, 9, 0, bodies, [id, from, "2:b", 1, message]]));
  const appendOf = (count: number) => [3, [1, 0, 0, new Array(count).fill([1, 0]), 0]];

  it("a sound one is taken", () => {
    expect(raftWith([4, [1, 2]])).toMatchObject({
      kind: "message",
      message: { request: { message: { kind: "appendMatched", term: 1, end: 2 } } },
    });
  });

  it.each([
    ["a tag that nobody has", [0, [1]], "unknown tag"],
    ["the tag after the last", [11, [1]], "unknown tag"],
    ["a tag that is no number", ["append", [1]], "unknown tag"],
    ["no pair", [4, [1, 2], 3], "pair of tag and fields"],
    ["no array", 4, "pair of tag and fields"],
    ["the fields of another kind", [4, [1, 2, 3]], ".appendMatched: not an array of 2"],
    ["a negative term", [10, [-1]], ".timeoutNow.term: not an integer"],
    ["a kind of entry that nobody has", [3, [1, 0, 0, [[1, 3]], 0]], ".append.entries[0].kind"],
    ["1,025 entries", appendOf(1025), "more than 1024 elements"],
    [
      "65 voters",
      [8, [1, [0, 0, 0, [new Array(65).fill("1:a"), []]], 0]],
      ".snapshotChunk.snapshot.configuration.voters: more than 64",
    ],
  ])("%s", (_name, message, reason) => {
    expect(raftWith(message)).toEqual(broken("BAD_ENVELOPE", reason));
  });

  it("a replica id that is too long", () => {
    expect(raftWith([4, [1, 2]], [], "1".repeat(65))).toEqual(broken("BAD_ENVELOPE", ".from: longer than 64"));
  });

  it("has as many bodies as entries, one beside a snapshot, else none", () => {
    expect(raftWith(appendOf(2), [id])).toEqual(broken("BAD_ENVELOPE", "has 2 bodies, not 1"));
    expect(raftWith(appendOf(1), [id])).toMatchObject({ kind: "message" });
    expect(raftWith([4, [1, 2]], [id])).toEqual(broken("BAD_ENVELOPE", "has 0 bodies, not 1"));
    const chunk = [8, [1, [0, 0, 0, [[], []]], 0]];
    expect(raftWith(chunk)).toEqual(broken("BAD_ENVELOPE", "has 1 bodies, not 0"));
    expect(raftWith(chunk, [id])).toMatchObject({ kind: "message" });
  });

  it("60,000 empty arrays as a message become nothing", () => {
    const head = bytesOf(0x96, API.RAFT, 0, 9, 0, 0x90, 0x95, 0xc4, 16, id, 0xa1, 0x31, 0xa1, 0x32, 0, 0x92, 3);
    const bytes = bytesOf(head, 0x95, 1, 0, 0, 0xdc, 0xea, 0x60, filled(60_000, 0x90), 0);
    expect(pushRequest(bytes)).toEqual(broken("BAD_ENVELOPE", "more elements"));
  });

  it("an answer with entries beside a snapshot, or without their bodies, is broken", () => {
    const answer = (payload: unknown, bodies: unknown[]) =>
      new ResponseAssembler({ bodyBytesMax: MiB }).push(pack([API.FETCH_METADATA, 0, 9, 0, 0, null, bodies, payload]));
    const snapshot = [1, 1, 1, [[], []], 0];
    expect(answer([1, 1, 0, [[1, 0]], snapshot], [id])).toEqual(broken("BAD_ENVELOPE", "entries beside a snapshot"));
    expect(answer([1, 1, 0, [[1, 0]], null], [])).toEqual(broken("BAD_ENVELOPE", "1 bodies belong to it"));
    expect(answer([1, 1, 0, [], snapshot], [])).toEqual(broken("BAD_ENVELOPE", "1 bodies belong to it"));
    expect(answer([1, 1, 0, [], snapshot], [id])).toMatchObject({ kind: "message" });
  });
});

it("D-26: a body that waits for others keeps nothing of what came with it", () => {
  const bodies = [1, 2].map((fill) => filled(LIMITS.INLINE_BODY_BYTES + 1, fill));
  const entries = bodies.map((_, partition) => ({
    topicId: uuidFromBytes(filled(16, 1)),
    partition,
    leaderEpoch: -1,
    isResent: false,
  }));
  const header = { api: API.PRODUCE, version: 0, correlationId: 1, deadlineMs: 0 } as const;
  const [envelope, ...sent] = encodeRequest(header, { acks: -1, timeoutMs: 1_000, entries }, bodies);
  const assembler = new RequestAssembler({ bodyBytesMax: MiB });
  let assembled: Assembled<{ readonly bodies: readonly Uint8Array[] }> = assembler.push(envelope as Uint8Array);
  for (const body of sent) {
    const chunk = new Uint8Array(64 * 1024);
    chunk.set(body, 100);
    assembled = assembler.push(chunk.subarray(100, 100 + body.length));
  }
  const found = assembled.kind === "message" ? assembled.message.bodies : [];
  expect(found.map((body) => body[0])).toEqual([1, 2]);
  expect(found[0]?.buffer.byteLength).toBe(LIMITS.INLINE_BODY_BYTES + 1);
});
