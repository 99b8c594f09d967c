// ottla cluster kill|pause|resume|start|restart: what another shell does to single nodes. Signals are sent from here, and only to a process
// whose pid, start time and boot are those that the launcher wrote down; starting is asked of the launcher, which stays the parent.
import { setTimeout as delay } from "node:timers/promises";
import { EXIT } from "../../model/exit-codes.ts";
import { askReadiness, waitOf } from "../cluster/readiness.ts";
import { CommandFailure } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import { askLauncher, type ControlRequest } from "../launcher/control.ts";
import type { Output } from "../output.ts";
import { isAlive, isPaused, signalProcess } from "../process-identity.ts";
import type { ClusterState, NodeState } from "../state-file.ts";
import { parseWait, UsageError } from "../values.ts";
import { type DirectoryFlags, directoryOf, nodesOf, runningCluster, stateOf } from "./cluster-target.ts";

export interface KillFlags extends DirectoryFlags {
  readonly signal?: string;
}

const POLL_MS = 50;
/** The kernel needs no longer to end or hold a process, unless its disk hangs. */
const SIGNAL_SEEN_MS = 2000;
const START_TIMEOUT = "30s";
const KILL_SIGNALS: readonly string[] = ["KILL", "TERM", "INT"];

async function until(isTrue: () => boolean, limitMs: number): Promise<void> {
  const deadlineMs = performance.now() + limitMs;
  while (!isTrue() && performance.now() < deadlineMs) await delay(POLL_MS);
}

function notRunning({ nodeId, state }: NodeState): CommandFailure {
  const how = state === "killed" || state === "failed" || state === "stopped" ? state : "its process is gone";
  const hint = `ottla cluster start ${nodeId} starts it`;
  const message = `node ${nodeId} does not run (${how})`;
  return new CommandFailure({ code: "NODE_NOT_RUNNING", message, hint, exitCode: EXIT.FAILED });
}

/** Each node on its own: one that does not run does not keep the others from being signalled. */
async function signalEach(
  { args, flags, output }: Invocation<DirectoryFlags>,
  how: {
    readonly command: string;
    readonly done: string;
    send(node: NodeState): boolean;
    isSeen(node: NodeState): boolean;
  },
): Promise<number> {
  const nodes = nodesOf(runningCluster(directoryOf(flags)).nodes, args);
  const sent = nodes.filter((node) => how.send(node));
  for (const node of sent) await until(() => how.isSeen(node), SIGNAL_SEEN_MS);
  if (output.isJson) output.json(how.command, { nodes: sent.map(({ nodeId, process: { pid } }) => ({ nodeId, pid })) });
  else
    for (const {
      nodeId,
      process: { pid },
    } of sent)
      output.line(`node ${nodeId} ${how.done} (pid ${pid})`);
  const missed = nodes.filter((node) => !sent.includes(node)).map(notRunning);
  for (const failure of missed.slice(1)) output.failure(failure);
  if (missed[0] !== undefined) throw missed[0];
  return EXIT.OK;
}

export async function clusterKill(invocation: Invocation<KillFlags>): Promise<number> {
  const name = (invocation.flags.signal ?? "KILL").toUpperCase().replace(/^SIG/, "");
  if (!KILL_SIGNALS.includes(name)) throw new UsageError(`-s takes ${KILL_SIGNALS.join(", ")}, not "${name}"`);
  const isGone = (node: NodeState) => !isAlive(node.process);
  return await signalEach(invocation, {
    command: "cluster.kill",
    done: name === "KILL" ? "killed" : `told to stop by SIG${name}`,
    send: ({ process: identity }) => {
      const isSent = signalProcess(identity, `SIG${name}` as NodeJS.Signals);
      // A paused one would get it only later.
      return isSent && (signalProcess(identity, "SIGCONT") || name === "KILL");
    },
    isSeen: name === "KILL" ? isGone : () => true,
  });
}

export async function clusterPause(invocation: Invocation<DirectoryFlags>): Promise<number> {
  return await signalEach(invocation, {
    command: "cluster.pause",
    done: "paused",
    send: ({ process: identity }) => signalProcess(identity, "SIGSTOP"),
    isSeen: ({ process: identity }) => isPaused(identity),
  });
}

export async function clusterResume(invocation: Invocation<DirectoryFlags>): Promise<number> {
  return await signalEach(invocation, {
    command: "cluster.resume",
    done: "goes on",
    send: ({ process: identity }) => signalProcess(identity, "SIGCONT"),
    isSeen: ({ process: identity }) => !isPaused(identity),
  });
}

export async function clusterStart(invocation: Invocation<DirectoryFlags>): Promise<number> {
  const state = runningCluster(directoryOf(invocation.flags));
  const isIdle = (node: NodeState) => !isAlive(node.process) || isPaused(node.process);
  const nodes = invocation.args.length > 0 ? nodesOf(state.nodes, invocation.args) : state.nodes.filter(isIdle);
  if (nodes.length === 0) invocation.output.note("all nodes run");
  return await askFor(invocation, state, "start", nodes);
}

export async function clusterRestart(invocation: Invocation<DirectoryFlags>): Promise<number> {
  const state = runningCluster(directoryOf(invocation.flags));
  const nodes = nodesOf(state.nodes, invocation.args);
  // One after the other: the next one stops when this one serves.
  for (const node of nodes) await askFor(invocation, state, "restart", [node]);
  return EXIT.OK;
}

async function askFor(
  { flags, output }: Invocation<DirectoryFlags>,
  state: ClusterState,
  kind: ControlRequest["kind"],
  nodes: readonly NodeState[],
): Promise<number> {
  if (!isAlive(state.launcher)) {
    const hint = "ottla cluster down stops what is left, ottla cluster up starts everything again";
    const message = "the launcher is gone: nobody is there to be the parent of a node";
    throw new CommandFailure({ code: "NO_LAUNCHER", message, hint, exitCode: EXIT.FAILED });
  }
  const timeoutMs = parseWait(flags.timeout ?? START_TIMEOUT, "--timeout");
  const deadlineMs = performance.now() + timeoutMs;
  const nodeIds = nodes.map(({ nodeId }) => nodeId);
  const started = nodeIds.length === 0 ? [] : await askLauncher(state.socket, { kind, nodeIds }, timeoutMs);
  const dataDir = directoryOf(flags);
  for (const { nodeId } of started) await untilServing(dataDir, nodeId, deadlineMs, output);
  const now = stateOf(dataDir)?.nodes.filter(({ nodeId }) => nodeIds.includes(nodeId)) ?? [];
  if (output.isJson)
    output.json(`cluster.${kind}`, { nodes: now.map(({ nodeId, process: { pid } }) => ({ nodeId, pid })) });
  else for (const { nodeId, address } of now) output.line(`node ${nodeId} runs at ${address}`);
  return EXIT.OK;
}

/** Rejects when the node ended, or does not serve in time. */
async function untilServing(dataDir: string, nodeId: number, deadlineMs: number, output: Output): Promise<void> {
  let told = "";
  for (;;) {
    const node = stateOf(dataDir)?.nodes.find((one) => one.nodeId === nodeId);
    if (node === undefined || node.state === "failed" || node.state === "killed" || node.state === "stopped")
      throw startFailure(nodeId, node?.reason ?? node?.state ?? "the cluster was stopped", EXIT.FAILED);
    const readiness = await askReadiness(node.address.replace(/^ws:\/\//, ""), 1000);
    if (readiness?.ready === true && node.state === "running") return;
    const waits = waitOf(readiness);
    if (waits !== undefined && waits !== told) output.note(`node ${nodeId}: ${waits}`);
    told = waits ?? told;
    if (performance.now() > deadlineMs)
      throw startFailure(nodeId, told === "" ? "not ready in the time given" : told, EXIT.UNHEALTHY);
    await delay(POLL_MS);
  }
}

function startFailure(nodeId: number, why: string, exitCode: number): CommandFailure {
  const hint = `ottla cluster logs ${nodeId}, ottla cluster health`;
  const code = exitCode === EXIT.UNHEALTHY ? "NODE_NOT_READY" : "NODE_ENDED";
  return new CommandFailure({ code, message: `node ${nodeId} was started: ${why}`, hint, exitCode });
}
