// ottla cluster up: the launcher in the foreground, or with --detach in the background as the parent that the nodes keep.
import { spawn } from "node:child_process";
import { closeSync, existsSync, openSync } from "node:fs";
import { basename, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { EXIT } from "../../model/exit-codes.ts";
import { type ClusterPlan, planCluster } from "../cluster-file.ts";
import { environmentRemarks } from "../config-file.ts";
import { DEFAULT_DATA_DIR } from "../data-dir.ts";
import { CommandFailure, failureOf } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import type { FromLauncher } from "../ipc.ts";
import { claimDirectory, Launcher, NodeFailure, type UpNode } from "../launcher.ts";
import type { Output } from "../output.ts";
import { type ClusterState, launcherLogOf, nodeAsJson, readState } from "../state-file.ts";
import { exitCodeOfSignal, onStopSignals, type StopSignal } from "../signals.ts";
import { counted } from "../values.ts";

export interface UpFlags {
  readonly config?: string;
  readonly detach?: boolean;
  readonly dataDir?: string;
  readonly listeners?: string;
  readonly set?: readonly string[];
  /** Internal: this is the launcher that --detach started. */
  readonly background?: boolean;
}

export async function clusterUp(invocation: Invocation<UpFlags>): Promise<number> {
  const { flags, output } = invocation;
  // The launcher in the background has its remarks said by its starter.
  if (flags.background !== true) for (const remark of environmentRemarks(process.env)) output.note(remark);
  const plan = planCluster({
    file: flags.config ?? defaultClusterFile(),
    dataDir: flags.dataDir,
    listeners: flags.listeners,
    pairs: flags.set ?? [],
    environment: process.env,
  });
  if (flags.detach === true) return startInBackground(invocation, plan);
  if (flags.background === true) return runInBackground(invocation, plan);
  return runHere(invocation, plan);
}

function defaultClusterFile(): string {
  const example = fileURLToPath(new URL("../../../cluster.example.json", import.meta.url));
  return existsSync("cluster.json") ? "cluster.json" : relative(process.cwd(), example);
}

/** How this very command is called, for commands to paste. npx finds the command in the project that npm was started in. */
function self(): string {
  const script = process.argv[1] ?? "ottla";
  if (process.env["npm_command"] !== undefined) return "npx ottla";
  if (basename(script) === "ottla") return "ottla";
  return `node ${relative(process.cwd(), script)}`;
}

/** What another command needs to find this cluster's state file. */
function dataDirFlag(plan: ClusterPlan): string {
  if (plan.dataDir === resolve(DEFAULT_DATA_DIR)) return "";
  const path = shortPath(plan.dataDir);
  return ` --data-dir ${/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`}`;
}

function hints(up: readonly UpNode[]): string[] {
  const address = (up[0]?.ready.address ?? "").replace(/^ws:\/\//, "");
  const ottla = address === "127.0.0.1:7070" ? self() : `${self()} -b ${address}`;
  return [
    `  ${ottla} topic create greetings`,
    `  echo hello | ${ottla} produce greetings`,
    `  ${ottla} consume greetings -o start -e`,
  ];
}

function announce(output: Output, plan: ClusterPlan, state: ClusterState): void {
  if (output.isJson) {
    output.json("cluster.up", {
      cluster: plan.cluster,
      dataDir: plan.dataDir,
      launcherPid: state.launcher.pid,
      nodes: state.nodes.map(nodeAsJson),
    });
    return;
  }
  const rows = state.nodes.map((node) => [
    String(node.nodeId),
    "running",
    node.address,
    node.address.replace(/^ws/, "http"),
    String(node.process.pid),
  ]);
  output.table({ headers: ["NODE", "STATE", "ADDRESS", "HTTP", "PID"], rows, right: [0, 4] });
}

function foundState(plan: ClusterPlan): ClusterState | undefined {
  const outcome = readState(plan.dataDir);
  return outcome.kind === "found" ? outcome.state : undefined;
}

async function runHere({ output }: Invocation<UpFlags>, plan: ClusterPlan): Promise<number> {
  const launcher = new Launcher(plan, output);
  const startedMs = performance.now();
  let stopSignal: StopSignal | undefined;
  const off = onStopSignals({
    onFirst: (signal) => {
      stopSignal = signal;
      output.note("\nstopping in order (Ctrl-C again kills)");
      // Its outcome is seen by launcher.finished().
      void launcher.stop();
    },
    onAgain: (signal) => {
      launcher.kill();
      process.exit(exitCodeOfSignal(signal));
    },
  });
  try {
    output.note(
      `Starting ${counted(plan.nodes.length, "node")} of cluster ${plan.cluster} in ${shortPath(plan.dataDir)}`,
    );
    const up = await launcher.start();
    if (stopSignal !== undefined && up.length < plan.nodes.length) return exitCodeOfSignal(stopSignal);
    output.note(`ready in ${((performance.now() - startedMs) / 1000).toFixed(1)} s`);
    const state = foundState(plan);
    if (state !== undefined) announce(output, plan, state);
    output.note(["Try, in another terminal:", ...hints(up), "Ctrl-C stops it."].join("\n"));
    await launcher.finished();
    output.note("stopped; what was acknowledged is on disk");
    return EXIT.OK;
  } catch (thrown) {
    if (thrown instanceof NodeFailure) for (const line of thrown.details) output.note(`  | ${line}`);
    throw thrown;
  } finally {
    off();
  }
}

const shortPath = (path: string) => {
  const near = relative(process.cwd(), path);
  return near.startsWith("..") || near === "" ? path : `./${near}`;
};

/** The launcher of --detach: tells its starter how it went, then lives on alone. */
async function runInBackground({ output }: Invocation<UpFlags>, plan: ClusterPlan): Promise<number> {
  const launcher = new Launcher(plan, output);
  onStopSignals({
    onFirst: () => void launcher.stop(),
    onAgain: (signal) => {
      launcher.kill();
      process.exit(exitCodeOfSignal(signal));
    },
  });
  try {
    const up = await launcher.start();
    await tellStarter({ kind: "up", lines: hints(up), state: foundState(plan) });
    await launcher.finished();
    return EXIT.OK;
  } catch (thrown) {
    const details = thrown instanceof NodeFailure ? thrown.details : [];
    await tellStarter({ kind: "failed", failure: failureOf(thrown), details });
    throw thrown;
  }
}

async function tellStarter(message: FromLauncher): Promise<void> {
  if (!process.connected) return;
  await new Promise<void>((resolve) => {
    process.send?.(message, undefined, {}, () => resolve());
  });
  if (process.connected) process.disconnect();
}

async function startInBackground({ output }: Invocation<UpFlags>, plan: ClusterPlan): Promise<number> {
  claimDirectory(plan.dataDir);
  const log = openSync(launcherLogOf(plan.dataDir), "w");
  const script = process.argv[1] ?? "";
  const parameters = process.argv
    .slice(2)
    .map((text) => (text === "--detach" || text === "-d" ? "--background" : text));
  const child = spawn(process.execPath, [...process.execArgv, script, ...parameters], {
    detached: true,
    stdio: ["ignore", log, log, "ipc"],
  });
  closeSync(log);
  const off = onStopSignals({
    onFirst: () => child.kill("SIGTERM"),
    onAgain: (signal) => process.exit(exitCodeOfSignal(signal)),
  });
  const answer = await new Promise<FromLauncher | undefined>((resolve) => {
    child.once("message", (message) => resolve(message as FromLauncher));
    child.once("exit", () => resolve(undefined));
    child.once("error", () => resolve(undefined));
  });
  off();
  if (child.connected) child.disconnect();
  child.unref();
  if (answer?.kind === "up") {
    announce(output, plan, answer.state as ClusterState);
    output.note(["Try:", ...answer.lines, `  ${self()} cluster down${dataDirFlag(plan)}`].join("\n"));
    return EXIT.OK;
  }
  return backgroundFailed(output, plan, answer);
}

function backgroundFailed(
  output: Output,
  plan: ClusterPlan,
  answer: Extract<FromLauncher, { kind: "failed" }> | undefined,
): never {
  for (const line of answer?.details ?? []) output.note(`  | ${line}`);
  if (answer !== undefined) throw new CommandFailure(answer.failure);
  const hint = `its output: ${launcherLogOf(plan.dataDir)}`;
  throw new CommandFailure({
    code: "LAUNCHER_ENDED",
    message: "the launcher ended before the cluster was ready",
    hint,
    exitCode: EXIT.FAILED,
  });
}
