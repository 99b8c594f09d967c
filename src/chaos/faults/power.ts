// Power loss: the process is killed and a random part of what it had not synced is taken back, by the shim's undo journal.
import { setTimeout as sleep } from "node:timers/promises";
import type { Rng } from "../../base/rng.ts";
import type { ChaosNode } from "../cluster-types.ts";
import type { Choices } from "../shim/choices.ts";
import type { PowerLoss } from "../shim/control.ts";
import { allOf, faultEvent, listed, startAll, targetsOf } from "./parts.ts";
import { SHIM_NEEDS, shimOf } from "./shim-parts.ts";
import type { FaultKind, Historian } from "./types.ts";

/** What a node that starts gets before its power goes again: from the first lines of a recovery to some moments after it is ready. */
const NEXT_LOSS_MS = { low: 30, high: 900 } as const;
const LOSSES = { low: 3, high: 5 } as const;

/** The node is down. Rejects when the journal and the disk do not agree: then nothing that is found afterwards means anything. */
export async function losePowerOf(
  node: ChaosNode,
  rng: Rng,
  history: Historian,
  choices?: Choices,
): Promise<PowerLoss> {
  const loss = await shimOf(node).powerLoss(rng, choices);
  history(faultEvent(node.nodeId, "power loss"));
  if (loss.problems.length > 0)
    throw new Error(`power loss of node ${node.nodeId}: ${loss.problems.slice(0, 3).join("; ")}`);
  return loss;
}

/** Killed first: what it did until then may be lost. */
async function cutPower(node: ChaosNode, rng: Rng, history: Historian): Promise<PowerLoss> {
  await node.kill();
  return losePowerOf(node, rng.fork(`power loss ${node.nodeId}.${node.incarnation}`), history);
}

/** A loss of nothing is none. */
export function told(node: ChaosNode, losses: readonly PowerLoss[]): string | undefined {
  const sum = (of: (loss: PowerLoss) => number) => losses.reduce((total, loss) => total + of(loss), 0);
  const pending = sum((loss) => loss.pending);
  if (pending === 0) return undefined;
  const [dropped, torn] = [sum((loss) => loss.dropped), sum((loss) => loss.torn)];
  const times = losses.length === 1 ? "" : `${losses.length} times; `;
  return `node ${node.nodeId}: ${times}of ${pending} unsynced operations ${dropped} dropped, ${torn} torn`;
}

const POWER_LOSS: FaultKind = {
  name: "power-loss",
  says: "power lost: killed, and unsynced operations kept, dropped or torn; down until the fault ends",
  needs: [...SHIM_NEEDS, "signals"],
  cluster: { shim: true },
  tolerates: "writes",
  inject: async (cluster, target, rng, history) => {
    const nodes = targetsOf(cluster, target);
    // All at once, as by one plug: nobody hears of another's end first.
    await Promise.all(nodes.map(async (node) => node.kill()));
    const evidence: (string | undefined)[] = [];
    for (const node of nodes) evidence.push(told(node, [await cutPower(node, rng, history)]));
    return {
      description: `${listed(target)} without power`,
      observed: () => Promise.resolve(allOf(evidence)),
      heal: async () => startAll(nodes),
    };
  },
};

const POWER_LOSS_LOOP: FaultKind = {
  name: "power-loss-loop",
  says: "power lost, and again up to 5 times while it recovers",
  needs: [...SHIM_NEEDS, "signals"],
  cluster: { shim: true },
  tolerates: "writes",
  inject: (cluster, target, rng, history) => {
    const nodes = targetsOf(cluster, target);
    const losses = new Map<ChaosNode, PowerLoss[]>();
    const done = Promise.all(
      nodes.map(async (node) => {
        const list: PowerLoss[] = [];
        losses.set(node, list);
        await loseAgain(node, rng.fork(`losses ${node.nodeId}`), history, list);
      }),
    );
    // Whoever heals hears of it.
    done.catch(() => undefined);
    return Promise.resolve({
      description: `${listed(target)} loses power again and again`,
      observed: () => Promise.resolve(allOf(nodes.map((node) => told(node, losses.get(node) ?? [])))),
      heal: async () => {
        await done;
        await startAll(nodes);
      },
    });
  },
};

async function loseAgain(node: ChaosNode, rng: Rng, history: Historian, losses: PowerLoss[]): Promise<void> {
  const wanted = rng.between(LOSSES.low, LOSSES.high);
  losses.push(await cutPower(node, rng, history));
  while (losses.length < wanted) {
    const start = node.start();
    const first = await Promise.race([start, sleep(rng.between(NEXT_LOSS_MS.low, NEXT_LOSS_MS.high))]);
    if (first === false) throw new Error(`node ${node.nodeId} ended by itself when it started after a power loss`);
    losses.push(await cutPower(node, rng, history));
    await start;
  }
  if (!(await node.start())) throw new Error(`node ${node.nodeId} did not start after ${losses.length} power losses`);
}

export const POWER_KINDS: readonly FaultKind[] = [POWER_LOSS, POWER_LOSS_LOOP];
