// Runs one seed with the tripwires set, and takes a rejection that nobody handled for a failure.
import { runSeed, type SeedOptions, type SeedResult } from "../src/sim/run-seed.ts";
import type { SimHost } from "./sim-host.ts";

export async function runGuarded(
  host: SimHost,
  seed: number,
  options: Pick<SeedOptions, "isCanary" | "onTrace" | "adjust"> = {},
): Promise<SeedResult> {
  let rejection: unknown;
  const onRejection = (reason: unknown): void => {
    rejection ??= reason;
  };
  process.on("unhandledRejection", onRejection);
  const restore = host.setTripwires();
  try {
    const { codecs, baseConfig } = host;
    const result = await runSeed(seed, { host, codecs, baseConfig, ...options });
    await host.pump(() => false);
    if (rejection === undefined || result.failure !== undefined) return result;
    return {
      ...result,
      failure: `a promise was rejected and nobody saw it: ${rejection instanceof Error ? rejection.stack : String(rejection)}`,
    };
  } finally {
    restore();
    process.off("unhandledRejection", onRejection);
  }
}

/** What a seed failed with, in words; undefined when it is clean. */
export function faultOf(result: SeedResult): string | undefined {
  const [first] = result.violations;
  if (first !== undefined) return `invariant ${first.invariant}: ${first.message}`;
  return result.failure;
}
