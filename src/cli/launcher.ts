// Runs the nodes of a local cluster as child processes: starts them, waits until they serve, stops them in order, says why one died.
import { accessSync, constants, mkdirSync } from "node:fs";
import { OttlaError } from "../model/errors.ts";
import { EXIT } from "../model/exit-codes.ts";
import type { ClusterPlan } from "./cluster-file.ts";
import { CommandFailure, type Failure } from "./failure.ts";
import { lastLogLines } from "./log-tail.ts";
import { NodeChild, type NodeExit, type ReadyNode } from "./node-child.ts";
import type { Output } from "./output.ts";
import { identify } from "./process-identity.ts";
import { liveState, removeState, writeState } from "./state-file.ts";

const LOG_LINES_SHOWN = 5;

export interface UpNode {
  readonly node: NodeChild;
  readonly ready: ReadyNode;
}

/** A node that did not start or died: the failure, and the last lines of its log. */
export class NodeFailure extends CommandFailure {
  readonly details: readonly string[];

  constructor(failure: Failure, details: readonly string[]) {
    super(failure);
    this.details = details;
  }
}

export class Launcher {
  readonly #plan: ClusterPlan;
  readonly #output: Output;
  readonly #nodes: NodeChild[] = [];
  #isStopping = false;

  constructor(plan: ClusterPlan, output: Output) {
    this.#plan = plan;
    this.#output = output;
  }

  /** Resolves when every node serves; rejects with a NodeFailure after stopping the others. */
  async start(): Promise<UpNode[]> {
    claimDirectory(this.#plan.dataDir);
    for (const plan of this.#plan.nodes) this.#nodes.push(new NodeChild(plan, this.#output.verbosity));
    const up: UpNode[] = [];
    for (const node of this.#nodes) {
      const ready = await node.ready;
      if (ready === undefined) {
        const exit = await node.exited;
        await this.stop();
        // A stop asked for while starting is no failure of the node.
        if (exit.wasAsked) return [];
        throw nodeFailure(node, exit, "did not start");
      }
      up.push({ node, ready });
    }
    this.#writeState(up);
    return up;
  }

  #writeState(up: readonly UpNode[]): void {
    writeState(this.#plan.dataDir, {
      cluster: this.#plan.cluster,
      startedAt: new Date().toISOString(),
      launcher: identify(process.pid),
      nodes: up.map(({ node, ready }) => ({
        nodeId: node.plan.nodeId,
        process: node.identity,
        address: ready.address,
        dataDir: node.plan.config["data.dir"],
        logFile: node.plan.logFile,
      })),
    });
  }

  /** Until all nodes have ended: resolves after an ordered stop, rejects with a NodeFailure when the last one died by itself. */
  async finished(): Promise<void> {
    let lastFailure: NodeFailure | undefined;
    const watch = async (node: NodeChild) => {
      const exit = await node.exited;
      if (exit.wasAsked || (exit.exitCode === EXIT.OK && this.#isStopping)) return;
      lastFailure = nodeFailure(node, exit, "ended by itself");
      if (this.#nodes.some((other) => other.isRunning)) this.#output.failure(lastFailure);
    };
    await Promise.all(this.#nodes.map(watch));
    removeState(this.#plan.dataDir);
    if (lastFailure !== undefined) throw lastFailure;
  }

  /** Ordered, with progress; always ends. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(
      this.#nodes.map(async (node) => {
        if (!node.isRunning) return;
        const startedMs = performance.now();
        this.#output.note(`node ${node.plan.nodeId} stopping`);
        const exit = await node.stop();
        const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
        const how = exit.exitCode === EXIT.OK ? "stopped" : `ended (${describeExit(exit)})`;
        this.#output.note(`node ${node.plan.nodeId} ${how} in ${seconds} s`);
      }),
    );
  }

  kill(): void {
    for (const node of this.#nodes) if (node.isRunning) node.kill();
    removeState(this.#plan.dataDir);
  }
}

/** Makes the cluster's directory; refuses when a cluster of it runs already or it cannot be written. */
export function claimDirectory(dataDir: string): void {
  const running = liveState(dataDir);
  if (running !== undefined) {
    const addresses = running.nodes.map((node) => node.address).join(", ");
    throw new CommandFailure({
      code: "ALREADY_RUNNING",
      message: `the cluster in ${dataDir} runs already (launcher pid ${running.launcher.pid}, ${addresses})`,
      hint: "ottla cluster down stops it; --data-dir names another directory",
      exitCode: EXIT.FAILED,
    });
  }
  try {
    mkdirSync(dataDir, { recursive: true });
    accessSync(dataDir, constants.W_OK);
  } catch (error) {
    throw unusable(dataDir, error);
  }
}

function unusable(dataDir: string, cause: unknown): OttlaError {
  const code = (cause as NodeJS.ErrnoException).code ?? String(cause);
  if (code === "EEXIST" || code === "ENOTDIR")
    return new OttlaError("DATA_DIR_FOREIGN", `${dataDir} is not a directory`, { cause });
  // Node names a read-only file system ENOENT when it makes parents too.
  const isReadOnly = code === "EROFS" || code === "ENOENT";
  const reason = isReadOnly ? "the file system cannot be written" : code === "EACCES" ? "permission denied" : code;
  return new OttlaError("DATA_DIR_READ_ONLY", `${dataDir}: ${reason}`, { cause });
}

function describeExit({ exitCode, signal }: NodeExit): string {
  return signal === null ? `exit code ${exitCode}` : signal;
}

function nodeFailure(node: NodeChild, exit: NodeExit, what: string): NodeFailure {
  const { nodeId, logFile } = node.plan;
  const details = lastLogLines(logFile, LOG_LINES_SHOWN);
  if (exit.failure !== undefined) {
    return new NodeFailure({ ...exit.failure, message: `node ${nodeId} ${what}: ${exit.failure.message}` }, details);
  }
  const message = `node ${nodeId} ${what}: ${describeExit(exit)}`;
  const exitCode = exit.exitCode === null || exit.exitCode === EXIT.OK ? EXIT.FAILED : exit.exitCode;
  return new NodeFailure({ code: "NODE_ENDED", message, hint: `its log: ${logFile}`, exitCode }, details);
}
