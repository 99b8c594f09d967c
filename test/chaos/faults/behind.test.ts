// Followers that had nothing to lose have lost nothing: then the fault did not strike, whatever was done.
import { expect, it } from "vitest";
import { createRng } from "../../../src/base/rng.ts";
import type { ChaosCluster, ChaosNode } from "../../../src/chaos/cluster-types.ts";
import { POWER_LOSS_BEHIND } from "../../../src/chaos/faults/behind.ts";

/** Operations that no sync had covered, of nodes 1 to 3. */
function clusterOf(pending: readonly number[]): ChaosCluster {
  const nodes = pending.map((count, index) => ({
    nodeId: index + 1,
    exits: [],
    kill: () => Promise.resolve(),
    start: () => Promise.resolve(true),
    shim: {
      set: () => undefined,
      clear: () => undefined,
      powerLoss: () => Promise.resolve({ pending: count, kept: 0, dropped: count, torn: 0, problems: [] }),
    },
  })) as unknown as ChaosNode[];
  const node = (nodeId: number) => nodes[nodeId - 1] as ChaosNode;
  return { nodes, node } as unknown as ChaosCluster;
}

it.each([
  [[0, 4, 2], "node 2: of 4 unsynced operations 4 dropped, 0 torn; node 3: of 2 unsynced operations 2 dropped, 0 torn"],
  [[0, 4, 0], undefined],
])("behind node 1, with %j operations to lose", async (pending, evidence) => {
  const fault = await POWER_LOSS_BEHIND.inject(clusterOf(pending), [1], createRng(1), () => undefined);
  expect(await fault.observed()).toBe(evidence);
});
