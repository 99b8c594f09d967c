// Processes that stand still (SIGSTOP) with all that they believe, and go on with it (SIGCONT).
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { ChaosNode } from "../cluster-types.ts";
import { allOf, listed, targetsOf } from "./parts.ts";
import type { FaultKind } from "./types.ts";

const LOOK_AGAIN_MS = 5;
const STOPPED_WITHIN_MS = 5_000;
const STUTTER = { stopLowMs: 100, stopHighMs: 1_500, goLowMs: 50, goHighMs: 500 } as const;

/** As the kernel has it: "T" is stopped. Undefined: no such process. */
export function processState(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3);
  } catch {
    return undefined;
  }
}

/** Resolves when the kernel says so; rejects when the process ends, or goes on. */
async function stopped(node: ChaosNode): Promise<void> {
  node.signal("SIGSTOP");
  const untilMs = performance.now() + STOPPED_WITHIN_MS;
  while (node.pid === undefined || processState(node.pid) !== "T") {
    if (node.pid === undefined || performance.now() > untilMs)
      throw new Error(`node ${node.nodeId} did not stand still`);
    await sleep(LOOK_AGAIN_MS);
  }
}

export const PAUSE: FaultKind = {
  name: "pause",
  says: "SIGSTOP until the fault ends, then SIGCONT",
  needs: ["signals"],
  tolerates: "writes",
  inject: async (cluster, target) => {
    const nodes = targetsOf(cluster, target);
    await Promise.all(nodes.map(stopped));
    const sinceMs = performance.now();
    // Where it was still stopped when it was asked last: a look after the end sees nothing.
    let evidence: string | undefined;
    const look = () => {
      const isStill = nodes.every(({ pid }) => pid !== undefined && processState(pid) === "T");
      if (isStill)
        evidence = `${listed(target)} stopped for ${Math.round(performance.now() - sinceMs)} ms, as /proc says`;
    };
    return {
      description: `${listed(target)} stopped`,
      observed: () => {
        look();
        return Promise.resolve(evidence);
      },
      heal: () => {
        look();
        for (const node of nodes) node.signal("SIGCONT");
        return Promise.resolve();
      },
    };
  },
};

export const STUTTER_KIND: FaultKind = {
  name: "stutter",
  says: "SIGSTOP for a moment, again and again",
  needs: ["signals"],
  tolerates: "writes",
  inject: (cluster, target, rng) => {
    const ended = new AbortController();
    const stutters = targetsOf(cluster, target).map((node) => {
      const draw = rng.fork(`stutter ${node.nodeId}`);
      const seen = { stops: 0 };
      const run = async (): Promise<void> => {
        while (!ended.signal.aborted) {
          await stopped(node);
          seen.stops++;
          await pauseOf(draw.between(STUTTER.stopLowMs, STUTTER.stopHighMs), ended.signal);
          node.signal("SIGCONT");
          await pauseOf(draw.between(STUTTER.goLowMs, STUTTER.goHighMs), ended.signal);
        }
      };
      const done = run();
      done.catch(() => undefined);
      return { node, seen, done };
    });
    return Promise.resolve({
      description: `${listed(target)} stopped for moments`,
      observed: () =>
        Promise.resolve(
          allOf(
            stutters.map(({ node, seen }) =>
              seen.stops < 2 ? undefined : `node ${node.nodeId} stopped ${seen.stops} times`,
            ),
          ),
        ),
      heal: async () => {
        ended.abort();
        for (const { node, done } of stutters) await done.finally(() => node.signal("SIGCONT"));
      },
    });
  },
};

/** Also when it is cut short. */
async function pauseOf(delayMs: number, signal: AbortSignal): Promise<void> {
  await sleep(delayMs, undefined, { signal }).catch(() => undefined);
}

export const PAUSE_KINDS: readonly FaultKind[] = [PAUSE, STUTTER_KIND];
