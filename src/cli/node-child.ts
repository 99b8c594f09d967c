// One node as its launcher sees it: a forked process with a life of its own.
import { type ChildProcess, fork } from "node:child_process";
import { closeSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { entryPoint } from "../platform/package-files.ts";
import type { NodePlan } from "./cluster-file.ts";
import { unusable } from "./data-dir.ts";
import type { Failure } from "./failure.ts";
import type { FromNode, ToNode } from "./ipc.ts";
import { openAnew, stderrLogOf } from "./log-tail.ts";
import { identify, type ProcessIdentity, signalProcess } from "./process-identity.ts";

const KILL_GRACE_MS = 5000;

export interface NodeExit {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  /** What the node said before it ended. */
  readonly failure: Failure | undefined;
  readonly wasAsked: boolean;
}

export interface ReadyNode {
  readonly address: string;
  readonly clusterId: string;
  readonly startMs: number;
}

/**
 * Record batches live outside V8's heap, but count for when it collects: a heap that starts at its default size of a few megabytes is then
 * collected in whole for every 10 MB produced (measured: a third of the broker's processor time). Reserves nothing.
 */
export const NODE_HEAP: readonly string[] = ["--initial-old-space-size=128"];

export interface ChildOptions {
  readonly verbosity: number;
  readonly logBytesMax: number;
}

/** What Node itself says when it dies. Not the log file: that one is renamed when it has grown. O_APPEND: it may be cut meanwhile. */
function openStderrLog(logFile: string): number {
  try {
    mkdirSync(dirname(logFile), { recursive: true });
  } catch (thrown) {
    throw unusable(dirname(logFile), thrown);
  }
  return openAnew(stderrLogOf(logFile));
}

export class NodeChild {
  readonly plan: NodePlan;
  readonly identity: ProcessIdentity;
  /** Resolves when the node serves; undefined when it ended before. */
  readonly ready: Promise<ReadyNode | undefined>;
  readonly exited: Promise<NodeExit>;
  readonly #process: ChildProcess;
  #failure: Failure | undefined;
  #wasAsked = false;

  constructor(plan: NodePlan, options: ChildOptions) {
    this.plan = plan;
    const log = openStderrLog(plan.logFile);
    // Detached: the terminal's Ctrl-C must reach the launcher only, which then stops its nodes in order.
    const stdio = ["ignore", log, log, "ipc"] as const;
    this.#process = fork(entryPoint("cli/node-process"), [], {
      detached: true,
      stdio: [...stdio],
      execArgv: [...process.execArgv, ...NODE_HEAP],
    });
    closeSync(log);
    this.identity = identify(this.#process.pid ?? 0);
    this.exited = new Promise((resolve) => {
      const ended = (exitCode: number | null, signal: NodeJS.Signals | null) =>
        resolve({ exitCode, signal, failure: this.#failure, wasAsked: this.#wasAsked });
      this.#process.once("close", ended);
      this.#process.once("error", () => ended(null, null));
    });
    this.ready = new Promise((resolve) => {
      this.#process.on("message", (message: FromNode) => {
        if (message.kind === "hello")
          this.#tell({ kind: "start", config: plan.config, logFile: plan.logFile, ...options });
        else if (message.kind === "failed") this.#failure = message.failure;
        else resolve(message);
      });
      void this.exited.then(() => resolve(undefined));
    });
  }

  get isRunning(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null;
  }

  #tell(message: ToNode): void {
    // A node that ends just now answers by its exit.
    if (this.#process.connected) this.#process.send(message, () => undefined);
  }

  /** Ordered, also of a paused one; killed when it takes longer than its own limit and some grace. */
  async stop(): Promise<NodeExit> {
    this.#wasAsked = true;
    this.#tell({ kind: "stop" });
    signalProcess(this.identity, "SIGCONT");
    const limit = setTimeout(() => this.kill(), this.plan.config["shutdown.timeout.ms"] + KILL_GRACE_MS);
    const exit = await this.exited;
    clearTimeout(limit);
    return exit;
  }

  kill(): void {
    this.#process.kill("SIGKILL");
  }
}
