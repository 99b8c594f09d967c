// ottla cluster status|down: the cluster that was started from a data directory, seen from another shell.
import { setTimeout as delay } from "node:timers/promises";
import { resolve } from "node:path";
import { EXIT } from "../../model/exit-codes.ts";
import { DEFAULT_DATA_DIR } from "../data-dir.ts";
import { CommandFailure } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import { lastLogLines } from "../log-tail.ts";
import { isAlive, signalProcess } from "../process-identity.ts";
import { type ClusterState, launcherLogOf, nodeAsJson, readState, removeState, stateFileOf } from "../state-file.ts";
import { counted, parseDuration } from "../values.ts";

export interface DirectoryFlags {
  readonly dataDir?: string;
}

const POLL_MS = 50;
const DOWN_TIMEOUT = "30s";

function directoryOf(flags: DirectoryFlags): string {
  return resolve(flags.dataDir ?? process.env["OTTLA_DATA_DIR"] ?? DEFAULT_DATA_DIR);
}

function stateOf(dataDir: string): ClusterState | undefined {
  const outcome = readState(dataDir);
  if (outcome.kind === "found") return outcome.state;
  if (outcome.kind === "none") return undefined;
  const file = stateFileOf(dataDir);
  const hint = "if no cluster of this directory runs, remove the file";
  throw new CommandFailure({
    code: "STATE_UNREADABLE",
    message: `${file} cannot be used: ${outcome.reason}`,
    hint,
    exitCode: EXIT.FAILED,
  });
}

export async function clusterStatus({ flags, output }: Invocation<DirectoryFlags>): Promise<number> {
  const dataDir = directoryOf(flags);
  const state = stateOf(dataDir);
  const nodes = await Promise.all(
    (state?.nodes ?? []).map(async (node) => ({
      node,
      state: isAlive(node.process) ? await readiness(node.address) : "stopped",
    })),
  );
  const hasLauncher = state !== undefined && isAlive(state.launcher);
  const isGood = hasLauncher && nodes.every((entry) => entry.state === "running");
  if (output.isJson) {
    const launcherPid = hasLauncher ? state.launcher.pid : null;
    output.json("cluster.status", {
      dataDir,
      isRunning: hasLauncher,
      cluster: state?.cluster ?? null,
      startedAt: state?.startedAt ?? null,
      launcherPid,
      nodes: nodes.map((entry) => ({ ...nodeAsJson(entry.node), state: entry.state })),
    });
  } else if (state === undefined) {
    output.note(`no cluster runs in ${dataDir}`);
    // A launcher whose nodes all died has said why.
    for (const line of lastLogLines(launcherLogOf(dataDir), 2)) if (!line.startsWith("node ")) output.note(line);
  } else {
    const rows = nodes.map(({ node, state: how }) => [
      String(node.nodeId),
      how,
      node.address,
      String(node.process.pid),
      node.logFile,
    ]);
    output.table({ headers: ["NODE", "STATE", "ADDRESS", "PID", "LOG"], rows, right: [0, 3] });
    if (!hasLauncher) output.note("the launcher is gone; ottla cluster up starts the cluster again");
  }
  return isGood ? EXIT.OK : EXIT.UNHEALTHY;
}

async function readiness(address: string): Promise<string> {
  try {
    const answer = await fetch(`${address.replace(/^ws/, "http")}/readyz`, { signal: AbortSignal.timeout(2000) });
    return answer.ok ? "running" : "not ready";
  } catch {
    return "not answering";
  }
}

export async function clusterDown({ flags, output }: Invocation<DirectoryFlags>): Promise<number> {
  const dataDir = directoryOf(flags);
  const state = stateOf(dataDir);
  const processes = state === undefined ? [] : [state.launcher, ...state.nodes.map((node) => node.process)];
  const running = processes.filter(isAlive);
  if (state === undefined || running.length === 0) {
    removeState(dataDir);
    if (output.isJson) output.json("cluster.down", { dataDir, wasRunning: false });
    else output.note(`no cluster runs in ${dataDir}`);
    return EXIT.OK;
  }
  // The launcher stops its nodes; nodes without one stop by themselves on the signal.
  const targets = isAlive(state.launcher) ? [state.launcher] : running;
  for (const target of targets) signalProcess(target, "SIGTERM");
  const deadlineMs = performance.now() + parseDuration(flags.timeout ?? DOWN_TIMEOUT, "--timeout", "s");
  while (running.some(isAlive)) {
    if (performance.now() > deadlineMs) throw stillRunning(running.filter(isAlive).map((target) => target.pid));
    await delay(POLL_MS);
  }
  removeState(dataDir);
  if (output.isJson) output.json("cluster.down", { dataDir, wasRunning: true });
  else output.note(`stopped ${counted(state.nodes.length, "node")} of cluster ${state.cluster}`);
  return EXIT.OK;
}

function stillRunning(pids: readonly number[]): CommandFailure {
  const message = `still running after the time given: pid ${pids.join(", ")}`;
  const hint = `look at the nodes' logs; kill -9 ${pids.join(" ")} ends them at once`;
  return new CommandFailure({ code: "STILL_RUNNING", message, hint, exitCode: EXIT.UNREACHABLE });
}
