// One cell over a cluster that is made up: what becomes of an injection that fails when half of it is done.
import { describe, expect, it } from "vitest";
import { createRng } from "../../src/base/rng.ts";
import { type CellParts, runCell } from "../../src/chaos/cell.ts";
import type { Fleet } from "../../src/chaos/clients/fleet.ts";
import type { ChaosCluster } from "../../src/chaos/cluster-types.ts";
import type { FaultKind } from "../../src/chaos/faults/types.ts";
import { QUICK_PLAN } from "../../src/chaos/plan.ts";
import { WORKLOADS } from "../../src/chaos/workloads.ts";

/** `ills`: what is wrong with it now. */
function clusterOf(ills: Set<string>): ChaosCluster {
  const nodes = [1, 2, 3].map((nodeId) => ({
    nodeId,
    get pid() {
      return ills.has(`${nodeId} down`) ? undefined : nodeId;
    },
    signal: (signal: string) =>
      void (signal === "SIGSTOP" ? ills.add(`${nodeId} still`) : ills.delete(`${nodeId} still`)),
    kill: () => Promise.resolve(void ills.add(`${nodeId} down`)),
    start: () => Promise.resolve(ills.delete(`${nodeId} down`)),
    network: {
      isolate: () => Promise.resolve(void ills.add(`${nodeId} cut`)),
      heal: () => Promise.resolve(void ills.delete(`${nodeId} cut`)),
    },
  }));
  return {
    nodes,
    node: (nodeId: number) => nodes[nodeId - 1],
    untilHealthy: () => (ills.size === 0 ? Promise.resolve() : Promise.reject(new Error([...ills].join(", ")))),
  } as unknown as ChaosCluster;
}

const HALF: FaultKind = {
  name: "half",
  says: "strikes all but one of its targets",
  needs: [],
  tolerates: "writes",
  inject: async (cluster) => {
    cluster.node(1).signal("SIGSTOP");
    await cluster.node(2).network?.isolate();
    await cluster.node(3).kill();
    throw new Error("node 3 did not stand still");
  },
};

const [workload] = WORKLOADS;
if (workload === undefined) throw new Error("no workload");
const partsOf = (cluster: ChaosCluster): CellParts => ({
  ...{ cluster, workload, kind: HALF, rng: createRng(1), history: () => undefined },
  fleet: {} as Fleet,
  place: { topic: "t", partition: 0 },
  plan: { ...QUICK_PLAN, seed: 1, steadyMs: 0, faultMs: 0, recoveryMs: 1 },
});

describe("an injection that fails half-way", () => {
  const cell = { workload: workload.name, fault: "half", target: "all" } as const;

  it("is red, and taken back before the next cell", async () => {
    const ills = new Set<string>();
    const run = await runCell(cell, partsOf(clusterOf(ills)));
    expect(ills).toEqual(new Set());
    expect(run).toMatchObject({ nodes: [1, 2, 3], observed: undefined, reasons: ["node 3 did not stand still"] });
    expect(run.recoveredMs).toBeGreaterThanOrEqual(0);
  });

  it("and leaves what cannot be taken back ends the cells of its cluster", async () => {
    const run = await runCell(cell, partsOf(clusterOf(new Set(["data damaged"]))));
    expect(run).toMatchObject({ recoveredMs: undefined, reasons: ["node 3 did not stand still", "data damaged"] });
  });
});
