// What faults of the preload shim share: the switches of a node, and how often they struck since the fault began.
import type { ChaosNode } from "../cluster-types.ts";
import type { ShimControl, ShimCounters, ShimFaults } from "../shim/control.ts";
import { allOf, listed, targetsOf } from "./parts.ts";
import type { ActiveFault, CapabilityName, FaultKind } from "./types.ts";

export const SHIM_NEEDS: readonly CapabilityName[] = ["compiler", "preload"];

export function shimOf(node: ChaosNode): ShimControl {
  if (node.shim === undefined) throw new Error(`node ${node.nodeId} runs without the preload shim`);
  return node.shim;
}

/** Rises of a counter from now on. */
export function risesOf(shim: ShimControl, name: keyof ShimCounters): () => number {
  const before = shim.counters()[name];
  return () => shim.counters()[name] - before;
}

export interface Switches {
  readonly name: string;
  readonly says: string;
  readonly tolerates: FaultKind["tolerates"];
  readonly faults: Partial<ShimFaults>;
  /** What shows that it struck, and how that is told after the number. */
  readonly counter: keyof ShimCounters;
  readonly told: string;
}

/** A fault that is nothing but switches that are on until it ends. */
export function switchedFault({ name, says, tolerates, faults, counter, told }: Switches): FaultKind {
  return {
    name,
    says,
    needs: SHIM_NEEDS,
    cluster: { shim: true },
    tolerates,
    inject: (cluster, target) => {
      const struck = targetsOf(cluster, target).map((node) => {
        const shim = shimOf(node);
        const rises = risesOf(shim, counter);
        shim.set(faults);
        return { node, shim, rises };
      });
      const fault: ActiveFault = {
        description: `${listed(target)}: ${says}`,
        observed: () =>
          Promise.resolve(
            allOf(
              struck.map(({ node, rises }) => (rises() === 0 ? undefined : `node ${node.nodeId}: ${rises()} ${told}`)),
            ),
          ),
        heal: () => {
          for (const { shim } of struck) shim.clear();
          return Promise.resolve();
        },
      };
      return Promise.resolve(fault);
    },
  };
}
