// Followers whose syncs hang lose power together with a leader that dies, and are back before it: what they said to have, they must have synced.
import { setTimeout as sleep } from "node:timers/promises";
import { DROP_ALL } from "../shim/choices.ts";
import { dies } from "./ordered.ts";
import { allOf, listed, startAll, targetsOf } from "./parts.ts";
import { losePowerOf, told } from "./power.ts";
import { SHIM_NEEDS } from "./shim-parts.ts";
import type { ActiveFault, FaultKind } from "./types.ts";

/** No sync that a follower begins now ends before its power is gone. */
const SYNC_DELAY_MS = 5_000;
/** For the leader to acknowledge what it should not. */
const HANGING_MS = 1_000;

export const POWER_LOSS_BEHIND: FaultKind = {
  name: "power-loss-behind",
  says: "syncs of all other nodes hang; they lose power and all they had not synced while the target dies, and are back before it",
  needs: ["signals", ...SHIM_NEEDS],
  cluster: { shim: true },
  tolerates: "nothing",
  async inject(cluster, target, rng, history): Promise<ActiveFault> {
    const others = cluster.nodes.filter(({ nodeId }) => !target.includes(nodeId));
    const dying = targetsOf(cluster, target);
    for (const { shim } of others) shim?.set({ syncDelayMs: SYNC_DELAY_MS });
    await sleep(HANGING_MS);
    await Promise.all([...dying.map((node) => dies(node, history)), ...others.map((node) => node.kill())]);
    const evidence: (string | undefined)[] = [];
    for (const node of others) {
      node.shim?.clear();
      // Nothing that was not synced reached the disk: what a power loss may do at its worst.
      evidence.push(told(node, [await losePowerOf(node, rng, history, DROP_ALL)]));
    }
    await startAll(others);
    return {
      description: `${listed(others.map(({ nodeId }) => nodeId))} lost power behind ${listed(target)}`,
      observed: () => Promise.resolve(allOf(evidence)),
      heal: () => startAll(dying),
    };
  },
};

export const BEHIND_KINDS: readonly FaultKind[] = [POWER_LOSS_BEHIND];
