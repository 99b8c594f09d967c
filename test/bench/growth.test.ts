// A broker that grows over a soak is found; one that breathes is not; one that was hardly looked at is not judged.
import { describe, expect, it } from "vitest";
import { growthOf, SAMPLES_MIN } from "../../src/bench/growth.ts";
import type { BenchRun, ProcessSample } from "../../src/bench/result.ts";
import { soakVerdict } from "../../src/bench/soak.ts";

const MB = 1_000_000;

function samples(count: number, rssBytes: (at: number) => number, openFiles: (at: number) => number): ProcessSample[] {
  return Array.from({ length: count }, (_, at) => ({
    atMs: at * 1000,
    process: "node 1",
    rssBytes: rssBytes(at),
    openFiles: openFiles(at),
  }));
}

const tooMuch = (found: readonly ProcessSample[]) =>
  growthOf(found)
    .filter(({ isTooMuch }) => isTooMuch)
    .map(({ what }) => what);

describe("growth", () => {
  it("is found where memory leaks steadily", () => {
    expect(
      tooMuch(
        samples(
          100,
          (at) => 200 * MB + at * 3 * MB,
          () => 40,
        ),
      ),
    ).toEqual(["memory"]);
  });

  it("is found where descriptors leak", () => {
    expect(
      tooMuch(
        samples(
          40,
          () => 200 * MB,
          (at) => 40 + at * 2,
        ),
      ),
    ).toEqual(["descriptors"]);
  });

  it("is none where a heap rises and is collected again, and none within the floor", () => {
    expect(
      tooMuch(
        samples(
          100,
          (at) => 200 * MB + (at % 10) * 40 * MB,
          (at) => 40 + (at % 3),
        ),
      ),
    ).toEqual([]);
    expect(
      tooMuch(
        samples(
          100,
          (at) => 50 * MB + at * 0.5 * MB,
          (at) => 10 + at * 0.1,
        ),
      ),
    ).toEqual([]);
  });

  it("is not judged of too few samples", () => {
    const few = samples(
      SAMPLES_MIN - 1,
      (at) => at * 1000 * MB,
      () => 1,
    );
    expect(growthOf(few)).toEqual([]);
  });
});

describe("the verdict of a soak", () => {
  const run = (changes: Partial<BenchRun>): BenchRun =>
    ({ records: 10, errors: {}, processes: [], ...changes }) as unknown as BenchRun;

  it("has nothing against a good run", () => {
    const processes = samples(
      20,
      () => 100 * MB,
      () => 30,
    );
    expect(soakVerdict(run({ processes }))).toEqual([]);
  });

  it("names a broker that grew, records that failed, and a run that did nothing", () => {
    const processes = samples(
      20,
      (at) => (100 + at * 20) * MB,
      () => 30,
    );
    expect(soakVerdict(run({ processes }))).toEqual([expect.stringMatching(/^memory of node 1 grew from \d+ MB to/)]);
    expect(soakVerdict(run({ errors: { CLOSED: 3 } }))).toEqual(["3 records failed (CLOSED)"]);
    expect(soakVerdict(run({ records: 0 }))).toEqual(["no record came through"]);
  });
});
