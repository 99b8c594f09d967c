// Followers whose disks are slow lose power together with a leader that dies, and are back before it: what they said to have, they must have synced.
import { setTimeout as sleep } from "node:timers/promises";
import type { Rng } from "../../base/rng.ts";
import type { ChaosNode } from "../cluster-types.ts";
import { dies } from "./ordered.ts";
import { faultEvent, listed, startAll, targetsOf } from "./parts.ts";
import type { ActiveFault, FaultKind } from "./types.ts";

/** One sync of a follower. */
const SYNC_DELAY_MS = 300;
const SLOW_MS = 2_000;

export const POWER_LOSS_BEHIND: FaultKind = {
  name: "power-loss-behind",
  says: "all other nodes sync slowly, then lose power while the target dies, and are back before it",
  needs: ["signals", "compiler", "preload"],
  cluster: { shim: true },
  tolerates: "nothing",
  async inject(cluster, target, rng, history): Promise<ActiveFault> {
    const others = cluster.nodes.filter(({ nodeId }) => !target.includes(nodeId));
    const dying = targetsOf(cluster, target);
    for (const { shim } of others) shim?.set({ syncDelayMs: SYNC_DELAY_MS });
    await sleep(SLOW_MS);
    await Promise.all([...dying.map((node) => dies(node, history)), ...others.map((node) => node.kill())]);
    const losses: string[] = [];
    for (const node of others) {
      losses.push(await losePower(node, rng));
      history(faultEvent(node.nodeId, "power loss"));
    }
    await startAll(others);
    return {
      description: `${listed(others.map(({ nodeId }) => nodeId))} lost power behind ${listed(target)}`,
      observed: () => Promise.resolve(losses.join("; ")),
      heal: () => startAll(dying),
    };
  },
};

async function losePower({ shim, nodeId }: ChaosNode, rng: Rng): Promise<string> {
  if (shim === undefined) throw new Error(`node ${nodeId} has no shim`);
  shim.clear();
  const { pending, dropped, torn, problems } = await shim.powerLoss(rng);
  if (problems.length > 0) throw new Error(`power loss of node ${nodeId}: ${problems.join("; ")}`);
  return `node ${nodeId}: ${dropped} of ${pending} operations not synced dropped, ${torn} torn`;
}

export const BEHIND_KINDS: readonly FaultKind[] = [POWER_LOSS_BEHIND];
