// A small part of what `npm run enumerate-crashes` does in full, and proof that it can fail.
import { afterEach, expect, it } from "vitest";
import { createSimHost, ENUMERATOR_CONFIG } from "../../scripts/sim-host.ts";
import { activateMutants } from "../../src/base/mutant.ts";
import { type EnumeratorResult, enumerateCrashes } from "../../src/sim/crash-enumerator.ts";
import { recordStorageTrace } from "../../src/sim/storage-trace.ts";

const host = await createSimHost();
const OPTIONS = { seed: 2, host, codecs: host.codecs, config: ENUMERATOR_CONFIG };

afterEach(() => activateMutants([]));

async function enumerate(mutant: string | undefined, imagesMax: number): Promise<EnumeratorResult> {
  if (mutant !== undefined) activateMutants([mutant]);
  const trace = await recordStorageTrace({ ...OPTIONS, operations: 150 });
  return enumerateCrashes(trace, { ...OPTIONS, imagesMax, subsets: 4 });
}

it("T7: no crash of a storage trace loses what was promised", async () => {
  const result = await enumerate(undefined, 150);
  expect(result.failures).toEqual([]);
  expect(result.distinct).toBeGreaterThanOrEqual(150);
  expect(result.doubleCrashes).toBeGreaterThan(5);
});

it.each(["M2", "M19c", "D-13", "M23", "D-15b"])("T7: the planted bug %s is found", async (id) => {
  expect((await enumerate(id, 500)).failures).not.toEqual([]);
});
