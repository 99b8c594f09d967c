// The fault atlas on real processes: damage strikes one node at a time, when others have everything that this one was counted on for, and nothing of an earlier
// damage is left. So of each committed byte an intact copy stays, and most metadata logs are whole.
import { setTimeout as sleep } from "node:timers/promises";
import type { ChaosCluster, ChaosNode } from "../cluster-types.ts";

/** A dead node is fenced and out of all ISRs within some sessions. */
const GIVEN_UP_MS = 30_000;
const LOOK_AGAIN_MS = 100;
const ASK_MS = 3_000;

/** The node that is to be damaged. Rejects where it would be more than one. */
export function onlyTarget(cluster: ChaosCluster, target: readonly number[]): ChaosNode {
  const [nodeId, ...more] = target;
  if (nodeId === undefined || more.length > 0) throw new Error("damage strikes one node at a time (fault atlas)");
  return cluster.node(nodeId);
}

/** Resolves when the node, which is down, leads nothing and is in no ISR; rejects when it stays the only one who has something. */
export async function untilOthersHold(cluster: ChaosCluster, { nodeId }: ChaosNode): Promise<void> {
  const untilMs = performance.now() + GIVEN_UP_MS;
  for (;;) {
    const needed = await neededFor(cluster, nodeId);
    if (needed === undefined) return;
    if (performance.now() > untilMs) throw new Error(`node ${nodeId} must not be damaged: ${needed}`);
    await sleep(LOOK_AGAIN_MS);
  }
}

async function neededFor(cluster: ChaosCluster, nodeId: number): Promise<string | undefined> {
  const admin = (await cluster.client()).admin();
  const view = await admin.describeMetadata({ timeoutMs: ASK_MS }).catch((error: unknown) => String(error));
  if (typeof view === "string") return view;
  for (const { name, partitions } of view.topics)
    for (const { index, leader, isr, elr } of partitions) {
      if (leader === nodeId || isr.includes(nodeId) || elr.includes(nodeId))
        return `${name}-${index} counts on it (leader ${leader}, ISR ${isr.join(", ")}, ELR ${elr.join(", ")})`;
      if (leader < 0) return `${name}-${index} has no leader`;
    }
  return undefined;
}
