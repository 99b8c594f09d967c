// Runs the nodes of a local cluster as child processes and stays their parent: starts them, waits until they serve, starts again what
// was killed, stops them in order, and ends by itself only when every node has.
import { EXIT } from "../../model/exit-codes.ts";
import type { ClusterPlan } from "../cluster-file.ts";
import { unusable } from "../data-dir.ts";
import { CommandFailure } from "../failure.ts";
import { boundFile, stderrLogOf } from "../log-tail.ts";
import { askReadiness } from "../cluster/readiness.ts";
import { identify, isPaused } from "../process-identity.ts";
import {
  type ClusterState,
  launcherLogOf,
  type NodeState,
  readState,
  removeState,
  stateFileOf,
  writeState,
} from "../state-file.ts";
import { type Claim, claimDirectory } from "./claim.ts";
import { type ControlDoor, type ControlRequest, openControl, removeSocket } from "./control.ts";
import { ManagedNode, type NodeFailure } from "./managed-node.ts";

/** So long the others have to serve without a node whose disk or process failed at the start. */
const DEGRADED_START_MS = 10_000;
const FILE_CHECK_MS = 10_000;
const CONTROLLER_ANSWER_MS = 300;
/** What is wrong with how the cluster was set up, not with one disk: nothing of it is left running. */
const SET_UP_FAULTS = [
  "PORT_IN_USE",
  "CONFIG_UNREADABLE",
  "DATA_DIR_LOCKED",
  "DATA_DIR_FOREIGN",
  "DATA_DIR_NEWER",
  "DATA_DIR_READ_ONLY",
];

export interface LauncherOptions {
  readonly verbosity: number;
  /** Remarks on the progress of a stop. */
  note(text: string): void;
  /** Something about a node's process is new; first called when all have one. */
  onChanged(): void;
}

export class Launcher {
  readonly #plan: ClusterPlan;
  readonly #options: LauncherOptions;
  readonly #nodes: ManagedNode[] = [];
  readonly #startedAt = new Date().toISOString();
  #claim: Claim | undefined;
  #door: ControlDoor | undefined;
  #fileCheck: NodeJS.Timeout | undefined;
  #isStateOld = false;
  readonly #served = new Set<number>();
  #isStopping = false;
  #isReleased = false;
  /** Looked at again whenever a node changes. */
  #onNodeChanged: () => void = () => undefined;

  constructor(plan: ClusterPlan, options: LauncherOptions) {
    this.#plan = plan;
    this.#options = options;
  }

  get nodes(): readonly NodeState[] {
    return this.#nodes.map((node) => node.state);
  }

  /** Nodes that have served since the start. */
  get servedCount(): number {
    return this.#served.size;
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  get hasRunning(): boolean {
    return this.#nodes.some((node) => node.isRunning);
  }

  /** Of nodes that ended by themselves and were not started again. */
  get failures(): readonly NodeFailure[] {
    return this.#nodes.flatMap((node) => node.failure ?? []);
  }

  get state(): Omit<ClusterState, "version"> {
    return {
      cluster: this.#plan.cluster,
      startedAt: this.#startedAt,
      launcher: identify(process.pid),
      socket: this.#door?.path ?? "",
      nodes: this.nodes,
    };
  }

  /**
   * Resolves when every node serves, or was stopped on purpose meanwhile. A node whose disk failed does not keep the others from serving:
   * it is told as a failure. Rejects with a NodeFailure after stopping all.
   */
  async start(): Promise<readonly NodeFailure[]> {
    const { dataDir } = this.#plan;
    this.#claim = await claimDirectory(dataDir);
    const before = readState(dataDir);
    if (before.kind === "found") removeSocket(before.state.socket);
    this.#door = await openControl(dataDir, (request) => this.#carryOut(request));
    // Told meanwhile to stop: there was nothing yet that the stop could end.
    if (this.#isStopping) return [];
    this.#fileCheck = setInterval(() => this.#checkFiles(), FILE_CHECK_MS);
    try {
      this.#startAll();
      return await this.#untilServing();
    } catch (thrown) {
      await this.stop();
      await this.#release();
      throw thrown;
    }
  }

  #startAll(): void {
    const { logBytesMax, dataDir, nodes } = this.#plan;
    const options = { verbosity: this.#options.verbosity, logBytesMax, onChanged: () => this.#changed() };
    for (const plan of nodes) this.#nodes.push(new ManagedNode(plan, options));
    try {
      writeState(dataDir, this.state);
    } catch (thrown) {
      throw unusable(stateFileOf(dataDir), thrown);
    }
    this.#changed();
  }

  #untilServing(): Promise<readonly NodeFailure[]> {
    return new Promise((resolve, reject) => {
      let limit: NodeJS.Timeout | undefined;
      const settle = (end: () => void) => {
        clearTimeout(limit);
        this.#onNodeChanged = () => undefined;
        end();
      };
      this.#onNodeChanged = () => {
        const failures = this.failures;
        const first = failures[0];
        const isWaiting = this.#nodes.some((node) => node.state.state === "starting");
        if (!isWaiting && first !== undefined && failures.length === this.#nodes.length) settle(() => reject(first));
        else if (!isWaiting || this.#isStopping) settle(() => resolve(failures));
        else if (first === undefined) return;
        else if (!this.#canGoOnWithout(failures)) settle(() => reject(first));
        else limit ??= setTimeout(() => settle(() => reject(first)), DEGRADED_START_MS);
      };
      this.#onNodeChanged();
    });
  }

  #canGoOnWithout(failures: readonly NodeFailure[]): boolean {
    return failures.length * 2 < this.#nodes.length && failures.every(({ code }) => !SET_UP_FAULTS.includes(code));
  }

  #changed(): void {
    for (const { nodeId, state } of this.nodes) if (state === "running") this.#served.add(nodeId);
    if (!this.#isReleased) this.#writeState();
    this.#options.onChanged();
    this.#onNodeChanged();
  }

  /** A full disk must not end the nodes: until it can be written again, other shells see an older state. */
  #writeState(): void {
    const { dataDir } = this.#plan;
    try {
      writeState(dataDir, this.state);
      this.#isStateOld = false;
    } catch (thrown) {
      const why = (thrown as NodeJS.ErrnoException).code ?? String(thrown);
      if (!this.#isStateOld)
        this.#options.note(`${stateFileOf(dataDir)} cannot be written (${why}): other shells see an older state`);
      this.#isStateOld = true;
    }
  }

  /** Until all nodes have ended: resolves after an ordered stop, rejects with a NodeFailure when the last one failed by itself. */
  async finished(): Promise<void> {
    const failures = await new Promise<readonly NodeFailure[]>((resolve) => {
      this.#onNodeChanged = () => {
        const failed = this.failures;
        const isOver = this.#nodes.every((node) => !node.isRunning);
        // A node that somebody killed may be started again; those that failed all by themselves would only fail again.
        if (isOver && (this.#isStopping || failed.length === this.#nodes.length)) resolve(failed);
      };
      this.#onNodeChanged();
    });
    await this.#release();
    const last = failures.at(-1);
    if (last !== undefined && !this.#isStopping) throw last;
  }

  async #release(): Promise<void> {
    this.#isReleased = true;
    clearInterval(this.#fileCheck);
    this.#door?.close();
    removeState(this.#plan.dataDir);
    await this.#claim?.release();
  }

  #find(nodeId: number): ManagedNode {
    const node = this.#nodes.find((one) => one.nodeId === nodeId);
    if (node !== undefined) return node;
    const known = this.#nodes.map((one) => one.nodeId).join(", ");
    throw new CommandFailure({
      code: "UNKNOWN_NODE",
      message: `this cluster has no node ${nodeId}`,
      hint: `its nodes are ${known}`,
      exitCode: EXIT.NOT_FOUND,
    });
  }

  async #carryOut({ kind, nodeIds }: ControlRequest): Promise<readonly NodeState[]> {
    const nodes = nodeIds.map((nodeId) => this.#find(nodeId));
    if (kind === "start") await Promise.all(nodes.map((node) => this.#startAgain(node)));
    else for (const node of nodes) await this.restart(node.nodeId);
    return nodes.map((node) => node.state);
  }

  async #startAgain(node: ManagedNode): Promise<void> {
    await node.settled();
    // Looked at after the wait: nobody would stop what is started behind the stop.
    if (this.#isStopping) throw isStopping();
    node.start();
  }

  /** What does not run is started, what is paused goes on. */
  async startNode(nodeId: number): Promise<void> {
    await this.#startAgain(this.#find(nodeId));
  }

  /** In order, then again. */
  async restart(nodeId: number): Promise<void> {
    const node = this.#find(nodeId);
    if (this.#isStopping) throw isStopping();
    await node.stop();
    await this.#startAgain(node);
  }

  killNode(nodeId: number): void {
    this.#find(nodeId).kill();
  }

  /** False: it does not run. */
  signalNode(nodeId: number, signal: "SIGSTOP" | "SIGCONT"): boolean {
    return this.#find(nodeId).signal(signal);
  }

  /** Ordered, with progress; always ends. The controller is last, so that the others are taken out of the cluster by it. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    const controllerId = await this.#askForController();
    const isLast = (node: ManagedNode) => node.nodeId === controllerId;
    await Promise.all(this.#nodes.filter((node) => !isLast(node)).map((node) => this.#stopNode(node)));
    await Promise.all(this.#nodes.filter(isLast).map((node) => this.#stopNode(node)));
    this.#onNodeChanged();
  }

  /** Undefined: no node says it in time, which does not matter much. */
  async #askForController(): Promise<number | undefined> {
    const running = this.nodes.filter(({ state, process: identity }) => state === "running" && !isPaused(identity));
    if (this.#nodes.length === 1) return undefined;
    const answers = await Promise.all(
      running.map(({ address }) => askReadiness(address.replace(/^ws:\/\//, ""), CONTROLLER_ANSWER_MS)),
    );
    const said = answers.flatMap((answer) => /^node (\d+)$/.exec(answer?.checks["controller"] ?? "")?.[1] ?? []);
    return said[0] === undefined ? undefined : Number(said[0]);
  }

  async #stopNode(node: ManagedNode): Promise<void> {
    if (!node.isRunning) return;
    const startedMs = performance.now();
    this.#options.note(`node ${node.nodeId} stopping`);
    await node.stop();
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
    const { state, reason } = node.state;
    const how = state === "stopped" && reason === null ? "stopped" : `ended (${reason ?? state})`;
    this.#options.note(`node ${node.nodeId} ${how} in ${seconds} s`);
  }

  /** At once; the process is to end after it. */
  kill(): void {
    for (const node of this.#nodes) node.kill();
    this.#door?.close();
    removeState(this.#plan.dataDir);
  }

  #checkFiles(): void {
    if (this.#isStateOld) this.#writeState();
    const { logBytesMax, dataDir, nodes } = this.#plan;
    for (const file of [launcherLogOf(dataDir), ...nodes.map((node) => stderrLogOf(node.logFile))]) {
      try {
        boundFile(file, logBytesMax);
      } catch {
        // A full disk: it is tried again.
      }
    }
  }
}

function isStopping(): CommandFailure {
  const hint = "wait until it is down, then ottla cluster up";
  return new CommandFailure({ code: "STOPPING", message: "the cluster is being stopped", hint, exitCode: EXIT.FAILED });
}
