// The wall clock of a node jumps. Its monotonic clock, by which it measures time, goes on as before, as on Linux.
import { get } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Rng } from "../../base/rng.ts";
import type { ChaosNode } from "../cluster-types.ts";
import { allOf, listed, targetsOf } from "./parts.ts";
import { SHIM_NEEDS, shimOf } from "./shim-parts.ts";
import type { FaultKind } from "./types.ts";

const DAY_MS = 86_400_000;
/** The widest jump of a strobe, and the time from one to the next. */
const STROBE_MS = 600_000;
const STROBE_EVERY_MS = 100;
const ASK_MS = 2_000;
/** A date in an HTTP answer is a whole second, up to a second old. */
const OFF_BY_MS = 5_000;
const LOOKS = 5;

/** How far a node's wall clock is off, as the date of its own answer to a probe says; undefined: no answer. */
function clockError(address: string): Promise<number | undefined> {
  return new Promise((resolve) => {
    const request = get(`http://${address}/healthz`, { timeout: ASK_MS, agent: false }, (response) => {
      const toldMs = Date.parse(response.headers.date ?? "");
      resolve(Number.isNaN(toldMs) ? undefined : toldMs - Date.now());
      response.destroy();
    });
    request.on("timeout", () => request.destroy());
    request.on("error", () => resolve(undefined));
  });
}

/** A strobe may pass by zero: the farthest of some looks counts. */
async function evidenceOf(node: ChaosNode): Promise<string | undefined> {
  for (let look = 0; look < LOOKS; look++) {
    const offMs = await clockError(node.address);
    if (offMs !== undefined && Math.abs(offMs) > OFF_BY_MS)
      return `node ${node.nodeId}: its clock is ${Math.round(offMs / 1000)} s off, by its own answer`;
    await sleep(STROBE_EVERY_MS);
  }
  return undefined;
}

/** `offsetMs` is asked again and again until the fault ends. */
function clockFault(name: string, says: string, offsetMs: (rng: Rng) => number): FaultKind {
  return {
    name,
    says,
    needs: SHIM_NEEDS,
    cluster: { shim: true },
    tolerates: "writes",
    inject: (cluster, target, rng) => {
      const nodes = targetsOf(cluster, target);
      const ended = new AbortController();
      const done = Promise.all(
        nodes.map((node) => jump(node, rng.fork(`${name} ${node.nodeId}`), offsetMs, ended.signal)),
      );
      return Promise.resolve({
        description: `${listed(target)}: ${says}`,
        observed: async () => (ended.signal.aborted ? undefined : allOf(await Promise.all(nodes.map(evidenceOf)))),
        heal: async () => {
          ended.abort();
          await done;
          for (const node of nodes) shimOf(node).clear();
        },
      });
    },
  };
}

async function jump(node: ChaosNode, rng: Rng, offsetMs: (rng: Rng) => number, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    shimOf(node).set({ clockOffsetMs: offsetMs(rng) });
    await sleep(STROBE_EVERY_MS, undefined, { signal: ended }).catch(() => undefined);
  }
}

export const CLOCK_KINDS: readonly FaultKind[] = [
  clockFault("clock-forward", "the wall clock is a day ahead", () => DAY_MS),
  clockFault("clock-back", "the wall clock is a day behind", () => -DAY_MS),
  clockFault("clock-strobe", "the wall clock jumps 10 times a second, by up to 10 minutes", (rng) =>
    rng.between(-STROBE_MS, STROBE_MS),
  ),
];
