// What `cluster up --detach` waits with: a bound on the time, and a word now and then on what the nodes wait for.
import { setTimeout as delay } from "node:timers/promises";
import { EXIT } from "../../model/exit-codes.ts";
import { nodeFolders } from "../cluster/folders.ts";
import { askReadiness, waitOf } from "../cluster/readiness.ts";
import type { Failure } from "../failure.ts";
import { dataDirFlag, ottlaCommand } from "../self.ts";
import { liveState } from "../state-file.ts";

/** An ordinary start needs no words. */
const QUIET_MS = 2000;
const ASK_MS = 500;
const ANSWER_MS = 1000;

export interface StartWait {
  /** Resolves when the time is up, never before; and never after `end`. */
  readonly timeIsUp: Promise<void>;
  /** The last thing that a node waited for; empty: none said. */
  readonly lastWait: string;
  end(): void;
}

export function startWait(dataDir: string, timeoutMs: number, note: (text: string) => void): StartWait {
  const ended = new AbortController();
  const { signal } = ended;
  let last = "";
  let told = "";
  const tellWaits = async () => {
    await delay(QUIET_MS, undefined, { signal });
    for (;;) {
      const { wait, nodeIds } = await waitsOf(dataDir);
      signal.throwIfAborted();
      const word = wait ?? (last === "" && nodeIds.length > 0 ? `waiting for ${nodesText(nodeIds)}` : told);
      if (word !== told) note(word);
      told = word;
      last = wait ?? last;
      await delay(ASK_MS, undefined, { signal });
    }
  };
  // Only the end of it ends it.
  tellWaits().catch(() => undefined);
  const timeIsUp = new Promise<void>((resolve) => {
    delay(timeoutMs, undefined, { signal }).then(resolve, () => undefined);
  });
  return {
    timeIsUp,
    get lastWait() {
      return last;
    },
    end: () => ended.abort(),
  };
}

const nodesText = (nodeIds: readonly number[]) => `${nodeIds.length === 1 ? "node" : "nodes"} ${nodeIds.join(", ")}`;

/** Of the first node that waits; the others wait for the same. */
async function waitsOf(dataDir: string): Promise<{ wait: string | undefined; nodeIds: number[] }> {
  const starting = (liveState(dataDir)?.nodes ?? []).filter(({ state }) => state === "starting");
  const answers = await Promise.all(
    starting.map(async ({ nodeId, address }) => {
      const wait = waitOf(await askReadiness(address.replace(/^ws:\/\//, ""), ANSWER_MS));
      return wait === undefined ? [] : [`node ${nodeId}: ${wait}`];
    }),
  );
  return { wait: answers.flat()[0], nodeIds: starting.map(({ nodeId }) => nodeId) };
}

/** Nodes that keep data here and are not of this start: where they vote, the others wait for them. */
export function leftOut(dataDir: string, nodeIds: readonly number[]): number[] {
  return nodeFolders(dataDir).filter((nodeId) => !nodeIds.includes(nodeId));
}

export function leftOutRemark(missing: readonly number[]): string {
  const are = missing.length === 1 ? "is" : "are";
  return `${nodesText(missing)} of an earlier start ${are} not started: if a majority of the voters is missing, nothing is served`;
}

export function notServing(dataDir: string, seconds: number, lastWait: string, missing: readonly number[]): Failure {
  const flag = dataDirFlag(dataDir);
  const down = `${ottlaCommand()} cluster down${flag}`;
  const hint =
    missing.length === 0
      ? `ottla cluster health${flag} says what is missing; ${down} stops it`
      : `${down}, then cluster up with ${nodesText(missing)} too (more with -n, or the file that they came from)`;
  const why = lastWait === "" ? "" : `: ${lastWait}`;
  const message = `the cluster does not serve after ${seconds} s${why}; it goes on trying in the background`;
  return { code: "NODE_NOT_READY", message, hint, exitCode: EXIT.UNHEALTHY };
}
