// A small part of what `npm run enumerate-crashes` does in full, and proof that it can fail.
import { afterEach, describe, expect, it } from "vitest";
import { createSimHost, ENUMERATOR_CONFIG } from "../../scripts/sim-host.ts";
import { activateMutants } from "../../src/base/mutant.ts";
import { type EnumeratorResult, enumerateCrashes, type UNDER_WAY } from "../../src/sim/crash-enumerator.ts";
import { recordStorageTrace } from "../../src/sim/storage-trace.ts";
import { compactionFault } from "../../src/sim/traced-records.ts";

const host = await createSimHost();
const SWAP_SEED = 2;
const SWAPS = 50;
const OPTIONS = { seed: 2, host, codecs: host.codecs, config: ENUMERATOR_CONFIG };

afterEach(() => activateMutants([]));

async function enumerate(
  mutant: string | undefined,
  imagesMax: number,
  choice: { readonly only?: (typeof UNDER_WAY)[number]; readonly seed?: number } = {},
): Promise<EnumeratorResult> {
  if (mutant !== undefined) activateMutants([mutant]);
  const options = { ...OPTIONS, ...choice };
  const trace = await recordStorageTrace({ ...options, operations: 150 });
  return enumerateCrashes(trace, { ...options, imagesMax, subsets: 4 });
}

it("T7: no crash of a storage trace loses what was promised", async () => {
  const result = await enumerate(undefined, 150);
  expect(result.failures).toEqual([]);
  expect(result.distinct).toBeGreaterThanOrEqual(150);
  expect(result.doubleCrashes).toBeGreaterThan(5);
});

it.each([
  ["M2", {}],
  ["M19c", { only: "checkpoint" }],
  ["D-13", {}],
  ["M23", {}],
  ["D-15b", { seed: 1 }],
] as const)("T7: the planted bug %s is found", async (id, choice) => {
  expect((await enumerate(id, 500, choice)).failures).not.toEqual([]);
});

describe("while the files of a compaction take their places (S-41)", () => {
  /** Of a seed whose first one does early. */
  async function swaps(mutant?: string): Promise<EnumeratorResult> {
    const options = { ...OPTIONS, seed: SWAP_SEED };
    if (mutant !== undefined) activateMutants([mutant]);
    const trace = await recordStorageTrace({ ...options, operations: 480 });
    return enumerateCrashes(trace, { ...options, imagesMax: SWAPS, subsets: 1, only: "swap", crashesPerPrefix: 4 });
  }

  it("no crash loses the newest value of a key, nor an offset", async () => {
    const result = await swaps();
    expect(result.failures).toEqual([]);
    expect(result.during.swap).toBe(SWAPS);
  });

  it.each(["S-36", "S-41", "S-41d", "S-41r"])("the planted bug %s is found", async (id) => {
    expect((await swaps(id)).failures).not.toEqual([]);
  });
});

describe("what compaction may leave", () => {
  const record = (offset: number, key: string) => ({ offset, key, sum: offset });
  const accepted = [
    { base: 0, last: 0, sum: 10, records: [record(0, "a")] },
    { base: 1, last: 2, sum: 11, records: [record(1, "b"), record(2, "a")] },
    { base: 3, last: 3, sum: 12, records: [record(3, "b")] },
  ];
  const range = { startOffset: 0, endOffset: 4 };
  const [first, second, third] = accepted as [(typeof accepted)[0], (typeof accepted)[0], (typeof accepted)[0]];
  const left = { base: 1, last: 2, sum: 99, records: [record(2, "a")] };

  it("the newest record of each key, in batches that cover all offsets", () => {
    expect(compactionFault([{ base: 0, last: 0, sum: 98, records: [] }, left, third], accepted, range)).toBeUndefined();
    expect(compactionFault([first, second, third], accepted, range)).toBeUndefined();
    // A crash took the newer one of b with it: then the older one has to be there.
    expect(compactionFault([first, left], accepted, { startOffset: 0, endOffset: 3 })).toMatch(/key b, at 1, is gone/);
  });

  it.each([
    ["a newest record that is gone", [first, { ...left, records: [] }, third], /newest record of key a, at 2/],
    ["a record of its own", [first, { ...left, records: [record(2, "c")] }, third], /never accepted/],
    ["a record at another offset", [first, { ...left, records: [record(1, "a")] }, third], /never accepted/],
    ["half a batch", [first, { ...left, last: 1 }, third], /whole accepted ones/],
    ["other bytes with all records", [first, { ...second, sum: 1, records: undefined }, third], /other bytes/],
  ])("not %s", (_what, found, alarm) => {
    expect(compactionFault(found, accepted, range)).toMatch(alarm);
  });
});
