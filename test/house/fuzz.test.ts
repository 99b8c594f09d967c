// A short fuzz of every decoder, and that the fuzzer notices what it is there for.
import { describe, expect, it } from "vitest";
import { fuzzTarget } from "../../scripts/fuzz.ts";
import { type FuzzTarget, fuzzTargets } from "../../scripts/fuzz-targets.ts";
import { createRng } from "../../src/base/rng.ts";
import { OttlaError } from "../../src/model/errors.ts";

const SEED = 20_261_129;
const ROUNDS = 1500;

describe("fuzz", () => {
  it("every decoder answers damaged bytes with acceptance or a coded error", async () => {
    const rng = createRng(SEED);
    const targets = await fuzzTargets(rng);
    const results = targets.map((target) => ({
      name: target.name,
      result: fuzzTarget(target, { rounds: ROUNDS, rng }),
    }));
    expect(results.filter(({ result }) => "fault" in result)).toEqual([]);
    for (const { name, result } of results) expect(result, name).toMatchObject({ fed: ROUNDS });
    expect(results.length).toBeGreaterThan(5);
  });

  it("every sample is accepted undamaged", async () => {
    for (const target of await fuzzTargets(createRng(SEED))) {
      for (const sample of target.samples) expect(target.feed(sample), target.name).toBeUndefined();
    }
  });

  it.each<[string, (bytes: Uint8Array) => string | undefined, RegExp]>([
    ["an exception without a code", (bytes) => String(bytes[999]?.toFixed(1) ?? JSON.parse("{")), /SyntaxError/],
    ["a wrong acceptance", (bytes) => (bytes.length < 8 ? "too short to be right" : undefined), /too short/],
  ])("notices %s", (_what, feed, alarm) => {
    const target: FuzzTarget = { name: "planted", samples: [new Uint8Array(16)], feed };
    expect(fuzzTarget(target, { rounds: 1000, rng: createRng(1) })).toMatchObject({
      fault: expect.stringMatching(alarm),
    });
  });

  it("counts refusals", () => {
    const feed = (): never => {
      throw new OttlaError("CORRUPT_MESSAGE");
    };
    const result = fuzzTarget(
      { name: "strict", samples: [new Uint8Array(4)], feed },
      { rounds: 10, rng: createRng(1) },
    );
    expect(result).toEqual({ fed: 10, accepted: 0, refused: 10 });
  });
});
