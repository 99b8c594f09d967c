// Seeded mutations of sound envelopes: every one gets an answer, none a throw.
import { describe, expect, it } from "vitest";
import { RequestAssembler, ResponseAssembler } from "../../src/wire/native/codec.ts";
import { createCorpus, fuzzAssemblers } from "./fuzz-target.ts";

const corpus = createCorpus(7, 20);
const MiB = 1024 * 1024;
const KINDS = new Set<string>(["broken", "message", "incomplete"]);

describe("D-25: bytes nobody vouches for", () => {
  it("8,000 mutated envelopes never throw and meet every kind of answer", () => {
    const tally = fuzzAssemblers({ seed: 20_261, rounds: 4_000, corpus });
    expect(Object.values(tally).reduce((sum, count) => sum + count, 0)).toBe(8_000);
    for (const outcome of ["message", "incomplete", "BAD_ENVELOPE", "UNKNOWN_API", "UNSUPPORTED_VERSION"]) {
      expect(tally[outcome], outcome).toBeGreaterThan(5);
    }
  });

  it("the same seed gives the same answers", () => {
    const options = { seed: 5, rounds: 200, corpus };
    expect(fuzzAssemblers(options)).toEqual(fuzzAssemblers(options));
  });

  it("an envelope cut at any byte is broken", () => {
    for (const request of corpus.requests.filter((bytes) => bytes.length < 400)) {
      for (let end = 0; end < request.length; end++) {
        const result = new RequestAssembler({ bodyBytesMax: MiB }).push(request.slice(0, end));
        if (result.kind !== "broken" || result.error !== "BAD_ENVELOPE") expect.fail(`cut at ${end}: ${result.kind}`);
      }
    }
  });

  it("one flipped bit is answered, broken or as another message", () => {
    for (const response of corpus.responses.filter((bytes) => bytes.length < 120)) {
      for (let bit = 0; bit < response.length * 8; bit++) {
        const flipped = new Uint8Array(response);
        flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
        const { kind } = new ResponseAssembler({ bodyBytesMax: MiB }).push(flipped);
        // Compared here: an expectation of each of so many bits takes longer than all else.
        if (!KINDS.has(kind)) expect.fail(`bit ${bit}: ${kind}`);
      }
    }
  });
});
