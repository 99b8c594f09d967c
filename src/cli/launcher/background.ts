// `cluster up --detach`: the launcher in a process of its own session that lives on, and the command that starts it and waits for its word.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync } from "node:fs";
import { EXIT } from "../../model/exit-codes.ts";
import type { ClusterPlan } from "../cluster-file.ts";
import { CommandFailure, type Failure, failureOf } from "../failure.ts";
import type { FromLauncher, NodeFault } from "../ipc.ts";
import { openAnew } from "../log-tail.ts";
import { createOutput, type GlobalFlags, type Output } from "../output.ts";
import { dataDirFlag, firstSteps, ottlaCommand, ottlaFor } from "../self.ts";
import { exitCodeOfSignal, onStopSignals, type StopSignal } from "../signals.ts";
import { type ClusterState, launcherLogOf, nodeAsJson } from "../state-file.ts";
import { checkDirectory } from "./claim.ts";
import { Launcher } from "./launcher.ts";
import { NodeFailure } from "./managed-node.ts";
import { faultTo } from "./presenter.ts";
import { leftOut, leftOutRemark, notServing, startWait } from "./start-wait.ts";

/** The launcher of --detach: tells its starter how it went, then lives on alone. What it says goes to its log. */
export async function runInBackground(plan: ClusterPlan, flags: GlobalFlags): Promise<number> {
  const output = createOutput({ ...flags, quiet: false, json: false });
  const launcher: Launcher = new Launcher(plan, {
    verbosity: output.verbosity,
    note: (text) => output.note(text),
    onChanged: () => {
      for (const { nodeId, state, reason } of launcher.nodes)
        changes.tell(nodeId, `${state}${reason === null ? "" : ` (${reason})`}`);
    },
  });
  const changes = new ChangeLog(output);
  onStopSignals({
    onFirst: () => void launcher.stop(),
    onAgain: (signal) => {
      launcher.kill();
      process.exit(exitCodeOfSignal(signal));
    },
  });
  try {
    const failures = await launcher.start();
    if (launcher.isStopping) {
      await launcher.finished();
      await tellStarter({ kind: "failed", failure: STOPPED_EARLY, details: [] });
      return EXIT.OK;
    }
    const lines = firstSteps(ottlaFor(plan.dataDir));
    const state = { version: 2, ...launcher.state };
    await tellStarter({ kind: "up", lines, state, failures: failures.map(({ fault }) => fault) });
    await launcher.finished();
    return EXIT.OK;
  } catch (thrown) {
    const details = thrown instanceof NodeFailure ? thrown.details : [];
    await tellStarter({ kind: "failed", failure: failureOf(thrown), details });
    throw thrown;
  }
}

const STOPPED_EARLY: Failure = {
  code: "STOPPING",
  message: "the cluster was stopped before it served",
  hint: "ottla cluster up starts it again",
  exitCode: EXIT.FAILED,
};

/** One line for each change of a node, with the time. */
class ChangeLog {
  readonly #output: Output;
  readonly #last = new Map<number, string>();

  constructor(output: Output) {
    this.#output = output;
  }

  tell(nodeId: number, what: string): void {
    if (this.#last.get(nodeId) === what) return;
    this.#last.set(nodeId, what);
    this.#output.note(`${new Date().toISOString()} node ${nodeId} ${what}`);
  }
}

async function tellStarter(message: FromLauncher): Promise<void> {
  if (!process.connected) return;
  await new Promise<void>((resolve) => {
    process.send?.(message, undefined, {}, () => resolve());
  });
  if (process.connected) process.disconnect();
}

/** `timeoutMs`: so long it waits for the cluster to serve; what it started goes on after that. */
export async function startInBackground(plan: ClusterPlan, output: Output, timeoutMs: number): Promise<number> {
  checkDirectory(plan.dataDir);
  const missing = leftOut(
    plan.dataDir,
    plan.nodes.map(({ nodeId }) => nodeId),
  );
  if (missing.length > 0) output.note(leftOutRemark(missing));
  const child = spawnLauncher(plan);
  let stopped: StopSignal | undefined;
  const off = onStopSignals({
    onFirst: (signal) => {
      stopped = signal;
      child.kill("SIGTERM");
    },
    onAgain: (signal) => process.exit(exitCodeOfSignal(signal)),
  });
  const wait = startWait(plan.dataDir, timeoutMs, (text) => output.note(text));
  const answer = await Promise.race([answerOf(child), wait.timeIsUp.then((): "late" => "late")]);
  wait.end();
  off();
  if (child.connected) child.disconnect();
  child.unref();
  if (stopped !== undefined) {
    output.note("stopped before it served");
    return exitCodeOfSignal(stopped);
  }
  if (answer === "late") throw new CommandFailure(notServing(plan.dataDir, timeoutMs / 1000, wait.lastWait, missing));
  if (answer?.kind === "up") return await announce(plan, output, answer);
  throw backgroundFailed(plan, output, answer);
}

function spawnLauncher(plan: ClusterPlan): ChildProcess {
  const log = openAnew(launcherLogOf(plan.dataDir));
  const script = process.argv[1] ?? "";
  const child = spawn(process.execPath, [...process.execArgv, script, ...process.argv.slice(2), "--background"], {
    detached: true,
    stdio: ["ignore", log, log, "ipc"],
  });
  closeSync(log);
  return child;
}

/** Undefined: it ended without a word. */
function answerOf(child: ChildProcess): Promise<FromLauncher | undefined> {
  return new Promise((resolve) => {
    child.once("message", (message) => resolve(message as FromLauncher));
    child.once("exit", () => resolve(undefined));
    child.once("error", () => resolve(undefined));
  });
}

async function announce(
  plan: ClusterPlan,
  output: Output,
  { lines, state, failures }: Extract<FromLauncher, { kind: "up" }>,
): Promise<number> {
  const { nodes, launcher } = state as ClusterState;
  for (const fault of failures) faultTo(output, fault);
  if (output.isJson) {
    const { cluster, dataDir } = plan;
    output.json("cluster.up", { cluster, dataDir, launcherPid: launcher.pid, nodes: nodes.map(nodeAsJson) });
  } else {
    const { lookOnce } = await import("../cluster/look.ts");
    const { viewTable } = await import("../cluster/view.ts");
    output.table(viewTable(await lookOnce({ cluster: plan.cluster, nodes, phase: "up" })));
  }
  output.note(["Try:", ...lines, `  ${ottlaCommand()} cluster down${dataDirFlag(plan.dataDir)}`].join("\n"));
  return failures.length === 0 ? EXIT.OK : EXIT.UNHEALTHY;
}

function backgroundFailed(plan: ClusterPlan, output: Output, answer: NodeFault | undefined): CommandFailure {
  for (const line of answer?.details ?? []) output.note(`  | ${line}`);
  if (answer !== undefined) return new CommandFailure(answer.failure);
  return new CommandFailure({
    code: "LAUNCHER_ENDED",
    message: "the launcher ended before the cluster was ready",
    hint: `its output: ${launcherLogOf(plan.dataDir)}`,
    exitCode: EXIT.FAILED,
  });
}
