// A leader whose disk takes seconds for a sync: how long nobody can write (D-8).
import { afterEach, describe, expect, it } from "vitest";
import { activateMutants } from "../../../src/base/mutant.ts";
import { Stage } from "../../../src/sim/replication/directed/stage.ts";

afterEach(() => activateMutants([]));

/** From the first batch that waits for the slow disk until one is committed by the next leader. Of a sync of 9 s, with replica.lag.time.max.ms of 3 s. */
function standstillMs(minIsr?: number): { readonly ms: number; readonly isr: readonly number[] } {
  const stage = new Stage({ lagMaxMs: 3_000, sessionMs: 60_000, ...(minIsr === undefined ? {} : { minIsr }) });
  const { world } = stage;
  stage.produce(1);
  stage.until(() => stage.replica(1).core.highWatermark === 1);
  stage.node(1).syncFactor = 30_000;
  const fromMs = world.timeMs;
  stage.produce(1);
  stage.until(() => stage.record.leader === 2, 10_000);
  const { isr } = stage.record;
  stage.leads(2);
  stage.produce(2);
  const { endOffset } = stage.replica(2).core;
  stage.until(() => stage.replica(2).core.highWatermark >= endOffset, 10_000);
  return { ms: world.timeMs - fromMs, isr };
}

describe("a leader whose disk is slow", () => {
  it("hands over, and the next one does not wait for its disk again", () => {
    const { ms, isr } = standstillMs();
    expect(isr).toEqual([2, 3]);
    expect(ms).toBeGreaterThan(3_000);
    expect(ms).toBeLessThan(5_000);
  });

  it("is waited for all the same where min ISR needs it", () => {
    const { ms, isr } = standstillMs(3);
    expect(isr).toEqual([1, 2, 3]);
    expect(ms).toBeGreaterThan(5_000);
  });

  it("D-8m: the planted bug lets everybody wait twice", () => {
    activateMutants(["D-8m"]);
    expect(standstillMs().ms).toBeGreaterThan(5_000);
  });
});
