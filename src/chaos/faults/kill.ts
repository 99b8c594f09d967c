// Processes that die at once (SIGKILL): they stay dead, come back before anybody gives them up, or die again and again while they recover.
import { setTimeout as sleep } from "node:timers/promises";
import type { Rng } from "../../base/rng.ts";
import type { ChaosCluster, ChaosNode } from "../cluster-types.ts";
import { allOf, exitsSince, faultEvent, listed, startAll, targetsOf } from "./parts.ts";
import type { ActiveFault, FaultKind, Historian } from "./types.ts";

/** What a node that starts gets before it is killed again: from the first lines of a recovery to some moments after it is ready. */
const NEXT_KILL_MS = { low: 30, high: 900 } as const;
const KILLS = { low: 3, high: 5 } as const;

const wasKilled = (node: ChaosNode): (() => string | undefined) => {
  const exits = exitsSince(node);
  return () => {
    const kills = exits().filter(({ signal }) => signal === "SIGKILL").length;
    return kills === 0
      ? undefined
      : `node ${node.nodeId} ended by SIGKILL ${kills === 1 ? "" : `${kills} times`}`.trim();
  };
};

/** One kill each, at the same time. */
async function killAll(
  cluster: ChaosCluster,
  target: readonly number[],
  history: Historian,
): Promise<Pick<ActiveFault, "observed" | "heal"> & { readonly nodes: readonly ChaosNode[] }> {
  const nodes = targetsOf(cluster, target);
  const evidence = nodes.map(wasKilled);
  await Promise.all(nodes.map(async (node) => killed(node, history)));
  return {
    nodes,
    observed: () => Promise.resolve(allOf(evidence.map((each) => each()))),
    heal: async () => startAll(nodes),
  };
}

async function killed(node: ChaosNode, history: Historian): Promise<void> {
  await node.kill("SIGKILL");
  history(faultEvent(node.nodeId, "process death"));
}

export const KILL: FaultKind = {
  name: "kill",
  says: "kill -9; down until the fault ends",
  needs: ["signals"],
  tolerates: "writes",
  inject: async (cluster, target, _rng, history) => {
    const { observed, heal } = await killAll(cluster, target, history);
    return { description: `${listed(target)} killed`, observed, heal };
  },
};

export const KILL_RESTART: FaultKind = {
  name: "kill-restart",
  says: "kill -9 and started again at once, inside its session",
  needs: ["signals"],
  tolerates: "writes",
  inject: async (cluster, target, _rng, history) => {
    const { nodes, observed, heal } = await killAll(cluster, target, history);
    await startAll(nodes);
    return { description: `${listed(target)} killed and started again`, observed, heal };
  },
};

export const CRASH_LOOP: FaultKind = {
  name: "crash-loop",
  says: "kill -9, and again up to 5 times while it recovers",
  needs: ["signals"],
  tolerates: "writes",
  inject: (cluster, target, rng, history) => {
    const loops = targetsOf(cluster, target).map(
      (node) => new CrashLoop(node, rng.fork(`crash loop ${node.nodeId}`), history),
    );
    const done = Promise.all(loops.map(async (loop) => loop.run()));
    // Whoever heals hears of it.
    done.catch(() => undefined);
    const fault: ActiveFault = {
      description: `${listed(target)} killed again and again`,
      observed: () => Promise.resolve(allOf(loops.map((loop) => loop.evidence()))),
      heal: async () => {
        await done;
        await startAll(targetsOf(cluster, target));
      },
    };
    return Promise.resolve(fault);
  },
};

class CrashLoop {
  readonly #node: ChaosNode;
  readonly #rng: Rng;
  readonly #history: Historian;
  #kills = 0;
  /** Of these, before the node was ready. */
  #inRecovery = 0;

  constructor(node: ChaosNode, rng: Rng, history: Historian) {
    this.#node = node;
    this.#rng = rng;
    this.#history = history;
  }

  async run(): Promise<void> {
    const wanted = this.#rng.between(KILLS.low, KILLS.high);
    await this.#kill();
    while (this.#kills < wanted) {
      const start = this.#node.start();
      const late = sleep(this.#rng.between(NEXT_KILL_MS.low, NEXT_KILL_MS.high)).then(() => "late" as const);
      const first = await Promise.race([start, late]);
      if (first === false) throw new Error(`node ${this.#node.nodeId} ended by itself when it started after a kill`);
      await late;
      await this.#kill();
      if (!(await start)) this.#inRecovery++;
    }
    if (!(await this.#node.start()))
      throw new Error(`node ${this.#node.nodeId} did not start after ${this.#kills} kills`);
  }

  async #kill(): Promise<void> {
    await killed(this.#node, this.#history);
    this.#kills++;
  }

  /** A loop of one kill is none. */
  evidence(): string | undefined {
    if (this.#kills < 2) return undefined;
    return `node ${this.#node.nodeId} killed ${this.#kills} times, ${this.#inRecovery} of them before it was ready`;
  }
}

export const KILL_KINDS: readonly FaultKind[] = [KILL, KILL_RESTART, CRASH_LOOP];
