// ottla cluster status|down: the cluster that was started from a data directory, seen from another shell.
import { setTimeout as delay } from "node:timers/promises";
import { EXIT } from "../../model/exit-codes.ts";
import { lookOnce } from "../cluster/look.ts";
import { viewTable } from "../cluster/view.ts";
import { CommandFailure } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import { lastLogLines } from "../log-tail.ts";
import { isAlive, signalProcess } from "../process-identity.ts";
import { clusterAsJson, rowAsJson } from "../launcher/presenter.ts";
import { type ClusterState, launcherLogOf, removeStateOf } from "../state-file.ts";
import { counted, parseWait } from "../values.ts";
import { type DirectoryFlags, directoryOf, stateOf } from "./cluster-target.ts";

const POLL_MS = 50;
const DOWN_TIMEOUT = "30s";

export async function clusterStatus({ flags, output }: Invocation<DirectoryFlags>): Promise<number> {
  const dataDir = directoryOf(flags);
  const state = stateOf(dataDir);
  if (state === undefined) {
    if (output.isJson) output.json("cluster.status", { dataDir, isRunning: false, ...NO_CLUSTER });
    else output.note(`no cluster runs in ${dataDir}`);
    // A launcher whose nodes all failed has said why.
    const last = lastLogLines(launcherLogOf(dataDir), 2).filter((line) => /^(error|hint)/.test(line));
    if (!output.isJson) for (const line of last) output.note(line);
    return EXIT.UNHEALTHY;
  }
  const view = await lookOnce({ cluster: state.cluster, nodes: state.nodes, phase: "up" });
  const hasLauncher = isAlive(state.launcher);
  if (output.isJson) output.json("cluster.status", { dataDir, isRunning: hasLauncher, ...statusAsJson(state, view) });
  else {
    output.table(viewTable(view));
    for (const { message } of view.diagnosis.findings) output.note(message);
    for (const remark of view.diagnosis.remarks) output.note(remark);
    if (!hasLauncher) output.note("the launcher is gone: ottla cluster down, then ottla cluster up starts it again");
  }
  return hasLauncher && view.nodes.every((node) => node.state === "running") ? EXIT.OK : EXIT.UNHEALTHY;
}

const NO_CLUSTER = { cluster: null, startedAt: null, launcherPid: null, condition: "down", nodes: [] };

function statusAsJson(state: ClusterState, view: Awaited<ReturnType<typeof lookOnce>>) {
  return {
    cluster: state.cluster,
    startedAt: state.startedAt,
    launcherPid: isAlive(state.launcher) ? state.launcher.pid : null,
    ...clusterAsJson(view),
    nodes: view.nodes.map((row, index) => {
      const { dataDir, logFile } = state.nodes[index] ?? {};
      return { ...rowAsJson(row), dataDir, logFile };
    }),
  };
}

export async function clusterDown({ flags, output }: Invocation<DirectoryFlags>): Promise<number> {
  const timeoutMs = parseWait(flags.timeout ?? DOWN_TIMEOUT, "--timeout");
  const dataDir = directoryOf(flags);
  const state = stateOf(dataDir);
  const processes = state === undefined ? [] : [state.launcher, ...state.nodes.map((node) => node.process)];
  const running = processes.filter(isAlive);
  if (state === undefined || running.length === 0) {
    if (state !== undefined) removeStateOf(dataDir, state);
    if (output.isJson) output.json("cluster.down", { dataDir, wasRunning: false });
    else output.note(`no cluster runs in ${dataDir}`);
    return EXIT.OK;
  }
  // The launcher stops its nodes, also the paused ones; nodes without one stop by themselves on the signal.
  const targets = isAlive(state.launcher) ? [state.launcher] : running;
  for (const target of targets) {
    signalProcess(target, "SIGTERM");
    signalProcess(target, "SIGCONT");
  }
  const deadlineMs = performance.now() + timeoutMs;
  while (running.some(isAlive)) {
    if (performance.now() > deadlineMs) throw stillRunning(running.filter(isAlive).map((target) => target.pid));
    await delay(POLL_MS);
  }
  removeStateOf(dataDir, state);
  if (output.isJson) output.json("cluster.down", { dataDir, wasRunning: true });
  else output.note(`stopped ${counted(state.nodes.length, "node")} of cluster ${state.cluster}`);
  return EXIT.OK;
}

function stillRunning(pids: readonly number[]): CommandFailure {
  const message = `still running after the time given: pid ${pids.join(", ")}`;
  const hint = `look at the nodes' logs; kill -9 ${pids.join(" ")} ends them at once`;
  return new CommandFailure({ code: "STILL_RUNNING", message, hint, exitCode: EXIT.UNREACHABLE });
}
