// A short fuzz of every decoder and of every file format, and that the fuzzer notices what it is there for.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { diskTargets, fuzzFiles, fuzzTarget } from "../../scripts/fuzz.ts";
import { FILE_FORMATS, fileTargets } from "../../scripts/fuzz-files.ts";
import { type FuzzTarget, fuzzTargets } from "../../scripts/fuzz-targets.ts";
import { createRng } from "../../src/base/rng.ts";
import { OttlaError } from "../../src/model/errors.ts";

const SEED = 20_261_129;
const ROUNDS = 1500;
/** T16: damaged files in all. */
const FILES = 50_000;
const onDisk = await diskTargets(SEED);

describe("fuzz", () => {
  it("every decoder answers damaged bytes with acceptance or a coded error", async () => {
    const rng = createRng(SEED);
    const targets = await fuzzTargets(rng);
    const results: { name: string; result: Awaited<ReturnType<typeof fuzzTarget>> }[] = [];
    for (const target of targets)
      results.push({ name: target.name, result: await fuzzTarget(target, { rounds: ROUNDS, rng }) });
    expect(results.filter(({ result }) => "fault" in result)).toEqual([]);
    for (const { name, result } of results) expect(result, name).toMatchObject({ fed: ROUNDS });
    expect(results.length).toBeGreaterThan(5);
  });

  it("every sample is accepted undamaged", async () => {
    for (const target of [...(await fuzzTargets(createRng(SEED))), ...onDisk]) {
      for (const sample of target.samples) expect(await target.feed(sample, false), target.name).toBeUndefined();
    }
  });

  it.each<[string, (bytes: Uint8Array) => string | undefined, RegExp]>([
    ["an exception without a code", (bytes) => String(bytes[999]?.toFixed(1) ?? JSON.parse("{")), /SyntaxError/],
    ["a wrong acceptance", (bytes) => (bytes.length < 8 ? "too short to be right" : undefined), /too short/],
  ])("notices %s", async (_what, feed, alarm) => {
    const target: FuzzTarget = { name: "planted", samples: [new Uint8Array(16)], feed };
    expect(await fuzzTarget(target, { rounds: 1000, rng: createRng(1) })).toMatchObject({
      fault: expect.stringMatching(alarm),
    });
  });

  it("counts refusals", async () => {
    const feed = (): never => {
      throw new OttlaError("CORRUPT_MESSAGE");
    };
    const target = { name: "strict", samples: [new Uint8Array(4)], feed };
    expect(await fuzzTarget(target, { rounds: 10, rng: createRng(1) })).toEqual({ fed: 10, accepted: 0, refused: 10 });
  });
});

describe("fuzz of files", () => {
  it(`T16: of ${FILES} damaged files no reader takes one for what was written, nor fails without a code`, async () => {
    expect(await fuzzFiles(onDisk, { rng: createRng(SEED), files: FILES })).toBeUndefined();
  });

  it("feeding fewer than asked is a finding", async () => {
    expect(await fuzzFiles([], { rng: createRng(1), files: 10 })).toMatchObject({
      fault: expect.stringMatching(/^only 0/),
    });
  });

  it.each(FILE_FORMATS.filter(({ repair }) => repair !== undefined).map(({ name }) => name))(
    "a reader of %s that does not look at checksums is found out",
    async (name) => {
      const target = onDisk.find((candidate) => candidate.isFile === true && candidate.name === name);
      if (target === undefined) throw new Error("no such target");
      // As if each checksum matched, whatever the bytes are.
      const careless: FuzzTarget = {
        ...target,
        repair: () => undefined,
        feed: (bytes) => {
          target.repair?.(bytes);
          return target.feed(bytes, false);
        },
      };
      expect(await fuzzTarget(careless, { rounds: 3000, rng: createRng(SEED) })).toMatchObject({
        fault: expect.stringMatching(/taken for what no file holds/),
      });
    },
  );

  it("a file that nobody reads is told of", async () => {
    const files = [{ path: "t-0/00000000000000000000.novelty", bytes: Uint8Array.of(1) }];
    expect(() => fileTargets(files, {} as never)).toThrow(/no fuzz target reads t-0\/0+\.novelty/);
  });

  it("every magic number of storage has a format that is fuzzed", () => {
    const magics = [...readFileSync("src/storage/format.ts", "utf8").matchAll(/\/\*\* "(OTL.)" \*\//g)].map(
      ([, text]) => text,
    );
    expect(magics.length).toBeGreaterThan(5);
    // RECORD lies within the journal.
    expect(FILE_FORMATS.filter(({ repair }) => repair !== undefined).length).toBeGreaterThanOrEqual(magics.length - 1);
  });
});
