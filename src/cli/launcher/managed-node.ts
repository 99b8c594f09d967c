// One node of a local cluster over the processes that it has one after the other: what it does now, since when, and why it ended.
import { EXIT } from "../../model/exit-codes.ts";
import { noteDataDir } from "../cluster/folders.ts";
import { dialAddress, type NodePlan } from "../cluster-file.ts";
import { CommandFailure, type Failure, failureOf } from "../failure.ts";
import type { NodeFault } from "../ipc.ts";
import { lastLogLines, stderrLogOf } from "../log-tail.ts";
import { type ChildOptions, NodeChild, type NodeExit, type ReadyNode } from "../node-child.ts";
import { isAlive, signalProcess } from "../process-identity.ts";
import type { NodeState, ProcessState } from "../state-file.ts";

const LOG_LINES_SHOWN = 5;
/** Bound: how often a node is started again by itself. */
const RENEWALS_MAX = 10;
/** After an unsafe recovery: what the process holds in memory is not the cluster's metadata any more; a new one asks for it anew. */
const HELPED_BY_RESTART = "METADATA_DIVERGED";

/** A node that did not start or died: the failure, and the last lines of its log. */
export class NodeFailure extends CommandFailure {
  readonly nodeId: number;
  readonly details: readonly string[];

  constructor(nodeId: number, failure: Failure, details: readonly string[]) {
    super(failure);
    this.nodeId = nodeId;
    this.details = details;
  }

  get fault(): NodeFault {
    const { code, message, hint, exitCode } = this;
    return { failure: { code, message, hint, exitCode }, details: this.details };
  }
}

export interface ManagedOptions extends ChildOptions {
  onChanged(node: ManagedNode): void;
}

export class ManagedNode {
  readonly plan: NodePlan;
  readonly #options: ManagedOptions;
  #child: NodeChild;
  #state: ProcessState = "starting";
  #since = new Date();
  #reason: string | null = null;
  #address: string;
  #failure: NodeFailure | undefined;
  #renewals = 0;
  /** Of the process now: resolves when it has ended and the state says so. */
  #ended: Promise<void>;

  /** Starts its first process. */
  constructor(plan: NodePlan, options: ManagedOptions) {
    this.plan = plan;
    this.#options = options;
    noteDataDir(plan.logFile, plan.config["data.dir"]);
    this.#address = `ws://${dialAddress(plan.config)}`;
    this.#child = new NodeChild(plan, options);
    this.#ended = this.#follow(this.#child);
  }

  get nodeId(): number {
    return this.plan.nodeId;
  }

  get isRunning(): boolean {
    return this.#child.isRunning;
  }

  get state(): NodeState {
    const { config, logFile } = this.plan;
    return {
      nodeId: this.nodeId,
      process: this.#child.identity,
      state: this.#state,
      since: this.#since.toISOString(),
      reason: this.#reason,
      address: this.#address,
      dataDir: config["data.dir"],
      logFile,
    };
  }

  /** Why it ended, when by itself. */
  get failure(): NodeFailure | undefined {
    return this.#failure;
  }

  /** Of the process now; undefined when it ended before it served. */
  get ready(): Promise<ReadyNode | undefined> {
    return this.#child.ready;
  }

  /** Resolves when the process now has ended. */
  get ended(): Promise<void> {
    return this.#ended;
  }

  /** Resolves when a process that is stopping, or was killed a moment ago, has ended. */
  async settled(): Promise<void> {
    // It may be gone before its parent was told.
    if (this.#state === "stopping" || !isAlive(this.#child.identity)) await this.#ended;
  }

  /** A new process where none runs; a paused one goes on. */
  start(): void {
    if (this.isRunning) {
      signalProcess(this.#child.identity, "SIGCONT");
      return;
    }
    this.#failure = undefined;
    this.#renew(null);
  }

  #renew(reason: string | null): void {
    this.#child = new NodeChild(this.plan, this.#options);
    this.#ended = this.#follow(this.#child);
    this.#enter("starting", reason);
  }

  /** In order; resolves when it has ended. */
  async stop(): Promise<void> {
    if (!this.isRunning) return;
    this.#enter("stopping");
    await this.#child.stop();
    await this.#ended;
  }

  kill(): void {
    if (this.isRunning) this.#child.kill();
  }

  signal(signal: "SIGSTOP" | "SIGCONT"): boolean {
    return signalProcess(this.#child.identity, signal);
  }

  async #follow(child: NodeChild): Promise<void> {
    void child.ready.then((ready) => {
      if (ready === undefined || this.#state !== "starting") return;
      this.#address = ready.address;
      this.#enter("running");
    });
    const exit = await child.exited;
    if (exit.failure?.code === HELPED_BY_RESTART && !exit.wasAsked && this.#renewals++ < RENEWALS_MAX) {
      try {
        return this.#renew("started again: its metadata was not the cluster's any more");
      } catch (thrown) {
        // Such as a log that cannot be opened. Nobody has asked for this start who could be told otherwise.
        const failure = failureOf(thrown);
        const message = `node ${this.nodeId} did not start again: ${failure.message}`;
        this.#failure = new NodeFailure(this.nodeId, { ...failure, message }, []);
        return this.#enter("failed", failure.message);
      }
    }
    const [state, reason] = outcomeOf(exit);
    if (state === "failed") this.#failure = nodeFailure(this.plan, exit, this.#state === "starting");
    this.#enter(state, reason);
  }

  #enter(state: ProcessState, reason: string | null = null): void {
    if (this.#state === state && this.#reason === reason) return;
    this.#state = state;
    this.#reason = reason;
    this.#since = new Date();
    this.#options.onChanged(this);
  }
}

function outcomeOf({ exitCode, signal, failure, wasAsked }: NodeExit): [ProcessState, string | null] {
  if (signal === "SIGKILL") return ["killed", wasAsked ? "did not stop in time" : "SIGKILL"];
  if (signal === "SIGTERM" && wasAsked) return ["stopped", "did not stop in time"];
  if (exitCode === EXIT.OK) return ["stopped", null];
  return ["failed", failure?.message ?? signal ?? `exit code ${exitCode}`];
}

function nodeFailure({ nodeId, logFile }: NodePlan, exit: NodeExit, wasStarting: boolean): NodeFailure {
  const what = wasStarting ? "did not start" : "ended by itself";
  const said = [...lastLogLines(logFile, LOG_LINES_SHOWN), ...lastLogLines(stderrLogOf(logFile), LOG_LINES_SHOWN)];
  if (exit.failure !== undefined) {
    return new NodeFailure(
      nodeId,
      { ...exit.failure, ...hintFor(exit.failure), message: `node ${nodeId} ${what}: ${exit.failure.message}` },
      said,
    );
  }
  const message = `node ${nodeId} ${what}: ${exit.signal ?? `exit code ${exit.exitCode}`}`;
  const exitCode = exit.exitCode === null || exit.exitCode === EXIT.OK ? EXIT.FAILED : exit.exitCode;
  return new NodeFailure(nodeId, { code: "NODE_ENDED", message, hint: `its log: ${logFile}`, exitCode }, said);
}

/** What helps a node that runs by itself is not what helps one of a cluster file. */
export function hintFor({ code, hint }: Failure): Pick<Failure, "hint"> {
  if (code !== "PORT_IN_USE") return { hint };
  return {
    hint: "ottla cluster up --any-port takes free ports; or stop the other process, or write other listeners into the cluster file",
  };
}
