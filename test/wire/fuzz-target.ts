// One seeded round of hostile bytes against both assemblers, for the test beside it and for long runs by scripts/fuzz.
// It returns what was answered and throws when the codec broke a promise: no throw, no unknown code, no half left behind.
import fc from "fast-check";
import { createRng } from "../../src/base/rng.ts";
import type { Rng } from "../../src/base/rng.ts";
import type { ApiKey } from "../../src/wire/native/apis.ts";
import { RequestAssembler, ResponseAssembler, encodeRequest, encodeResponse } from "../../src/wire/native/codec.ts";
import { SCHEMAS } from "../../src/wire/native/schemas.ts";
import { API_NAMES, ARBITRARIES } from "./arbitraries.ts";
import type { Sample } from "./arbitraries.ts";

const MiB = 1024 * 1024;

export interface Corpus {
  readonly requests: readonly Uint8Array[];
  readonly responses: readonly Uint8Array[];
}

/** Sound envelopes to start from: `count` of each api and direction. */
export function createCorpus(seed: number, count: number): Corpus {
  const requests: Uint8Array[] = [];
  const responses: Uint8Array[] = [];
  const sampled = <T>(arbitrary: fc.Arbitrary<T>): T[] => fc.sample(arbitrary, { seed, numRuns: count });
  for (const [, api] of API_NAMES) {
    for (const [index] of SCHEMAS[api].versions.entries()) {
      const version = SCHEMAS[api].minVersion + index;
      const header = { api, version, correlationId: 3, deadlineMs: 1000 } as const;
      const answer = { api, version, correlationId: 3, more: false, error: "NONE", message: null } as const;
      for (const { payload, bodies } of sampled(requestOf(api))) {
        if (SCHEMAS[api].versions[index]?.request.versionFault(payload) !== undefined) continue;
        requests.push(...encodeRequest(header, payload, bodies).slice(0, 1));
      }
      for (const { payload, bodies } of sampled(responseOf(api)))
        responses.push(...encodeResponse(answer, payload, bodies).slice(0, 1));
    }
  }
  return { requests, responses };
}

// Across all apis the pair of key and payload cannot be named without a cast.
const requestOf = (api: ApiKey) => ARBITRARIES[api].request as fc.Arbitrary<Sample<never>>;
const responseOf = (api: ApiKey) => ARBITRARIES[api].response as fc.Arbitrary<Sample<never>>;

/** One to four changes: a bit, a byte that means something to MessagePack, a cut, a copy of a stretch, appended bytes. */
export function mutate(original: Uint8Array, rng: Rng): Uint8Array {
  let bytes = new Uint8Array(original);
  for (let change = rng.between(1, 4); change > 0 && bytes.length > 0; change--) {
    const at = rng.below(bytes.length);
    const kind = rng.below(6);
    if (kind === 0) bytes[at] = (bytes[at] as number) ^ (1 << rng.below(8));
    else if (kind === 1) bytes[at] = rng.between(0x80, 0xff);
    else if (kind === 2) bytes[at] = rng.below(256);
    else if (kind === 3) bytes = bytes.slice(0, at);
    else if (kind === 4) bytes.copyWithin(at, rng.below(bytes.length), bytes.length);
    else bytes = Uint8Array.from([...bytes, rng.below(256), rng.below(256)]);
  }
  return bytes;
}

const EXPECTED_ERRORS = new Set(["BAD_ENVELOPE", "UNKNOWN_API", "UNSUPPORTED_VERSION", "FRAME_TOO_LARGE"]);

export type Tally = Record<string, number>;

function pushOne(assembler: RequestAssembler | ResponseAssembler, bytes: Uint8Array, tally: Tally): void {
  const before = Buffer.from(bytes).toString("hex");
  const result = assembler.push(bytes);
  const outcome = result.kind === "broken" ? result.error : result.kind;
  if (result.kind === "broken" && !EXPECTED_ERRORS.has(outcome)) throw new Error(`${outcome} for ${before}`);
  if (assembler.owesBodies !== (result.kind === "incomplete"))
    throw new Error(`owes bodies after ${outcome}: ${before}`);
  if (Buffer.from(bytes).toString("hex") !== before) throw new Error(`the message was changed: ${before}`);
  tally[outcome] = (tally[outcome] ?? 0) + 1;
}

/** Deterministic by seed. */
export function fuzzAssemblers({ seed, rounds, corpus }: { seed: number; rounds: number; corpus: Corpus }): Tally {
  const rng = createRng(seed);
  const tally: Tally = {};
  for (let round = 0; round < rounds; round++) {
    const request = mutate(rng.pick(corpus.requests), rng);
    pushOne(new RequestAssembler({ bodyBytesMax: MiB }), request, tally);
    const response = mutate(rng.pick(corpus.responses), rng);
    pushOne(new ResponseAssembler({ bodyBytesMax: MiB }), response, tally);
  }
  return tally;
}
