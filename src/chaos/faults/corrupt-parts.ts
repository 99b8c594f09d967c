// What kinds of fault that damage the files of a node share: down, damaged, verified offline, up again or refused.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { EXIT } from "../../model/exit-codes.ts";
import { mainScript } from "../build.ts";
import { plainEnvironment } from "../children.ts";
import type { ChaosCluster, ChaosNode } from "../cluster-types.ts";
import { untilOthersHold } from "./corrupt-atlas.ts";
import { logSince, untilLogged } from "./node-log.ts";
import { exitsSince, faultEvent } from "./parts.ts";
import type { Historian } from "./types.ts";

const VERIFY_MS = 30_000;
const LOGGED_MS = 5_000;

/** Killed, and nothing of it is counted on any more: now its files may be damaged. */
export async function bringDown(cluster: ChaosCluster, node: ChaosNode, history: Historian): Promise<void> {
  await node.kill();
  history(faultEvent(node.nodeId, "process death"));
  await untilOthersHold(cluster, node);
}

/** Stopped in order: all that it has is in its segments. */
export async function bringToRest(cluster: ChaosCluster, node: ChaosNode): Promise<void> {
  await node.stop();
  await untilOthersHold(cluster, node);
}

/** What `ottla log verify` says of the file or directory; undefined: nothing is wrong with it. */
export async function verifyFault(path: string): Promise<string | undefined> {
  const child = spawn(process.execPath, [mainScript(), "log", "verify", path], {
    stdio: ["ignore", "ignore", "pipe"],
    env: plainEnvironment(),
  });
  const limit = setTimeout(() => child.kill("SIGKILL"), VERIFY_MS);
  const [said] = await Promise.all([text(child.stderr), once(child, "close")]);
  clearTimeout(limit);
  if (child.exitCode === EXIT.OK) return undefined;
  const lines = said.trim().split("\n");
  return lines.find((line) => line.includes("error")) ?? lines[0] ?? `exit ${child.exitCode}`;
}

/** Starts it; rejects when it does not come up. */
export async function startAgain(node: ChaosNode): Promise<void> {
  await node.shim?.settle();
  if (!(await node.start())) throw new Error(`node ${node.nodeId} does not start: ${node.exits.at(-1)?.says ?? ""}`);
}

/** Starts it in vain: it must refuse with this error, exit as documented, and serve nothing. What it said. */
export async function startRefused(node: ChaosNode, error: string): Promise<string> {
  await node.shim?.settle();
  const exits = exitsSince(node);
  const events = logSince(node);
  const withdraw = node.expectExit(`refuses to start: ${error}`);
  try {
    if (await node.start()) throw new Error(`node ${node.nodeId} serves with what should be ${error}`);
    const said = await untilLogged(events, ({ fields }) => JSON.stringify(fields).includes(error), LOGGED_MS);
    const [exit] = exits();
    if (said === undefined || exit?.code !== EXIT.INVARIANT_BROKEN)
      throw new Error(`node ${node.nodeId} ended with ${exit?.code ?? exit?.signal} and not with ${error}`);
    return `node ${node.nodeId} refused to start: exit ${exit.code}, ${error}`;
  } finally {
    withdraw();
  }
}
