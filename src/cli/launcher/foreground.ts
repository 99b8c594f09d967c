// `cluster up` in the foreground: the launcher, somebody to tell what goes on (live table, plain lines or JSON lines), signals and keys.
import { EXIT } from "../../model/exit-codes.ts";
import type { ClusterPlan } from "../cluster-file.ts";
import type { LocalCluster } from "../cluster/look.ts";
import { failureOf, outputFailure } from "../failure.ts";
import { type GlobalFlags, outliveOutput, type Output, wantsColour } from "../output.ts";
import { isInForeground, isPaused } from "../process-identity.ts";
import { firstSteps, ottlaFor, shortPath } from "../self.ts";
import { exitCodeOfSignal, onStopSignals, type StopSignal } from "../signals.ts";
import { counted } from "../values.ts";
import { checkDirectory } from "./claim.ts";
import type { ClusterKey } from "./keys.ts";
import { Launcher } from "./launcher.ts";
import { LiveScreen } from "./live-screen.ts";
import { NodeFailure } from "./managed-node.ts";
import { jsonPresenter, plainPresenter, type Presenter } from "./presenter.ts";
import { leftOut, leftOutRemark } from "./start-wait.ts";
import type { ClusterWatch } from "./watch.ts";

export class ForegroundSession {
  readonly #plan: ClusterPlan;
  readonly #output: Output;
  readonly #flags: GlobalFlags;
  readonly #launcher: Launcher;
  readonly #told = new Set<NodeFailure>();
  readonly #startedMs = performance.now();
  #presenter: Presenter | undefined;
  #screen: LiveScreen | undefined;
  #watch: Promise<ClusterWatch> | undefined;
  #phase: LocalCluster["phase"] = "starting";
  #stopSignal: StopSignal | undefined;

  constructor(plan: ClusterPlan, output: Output, flags: GlobalFlags) {
    this.#plan = plan;
    this.#output = output;
    this.#flags = flags;
    this.#launcher = new Launcher(plan, {
      verbosity: output.verbosity,
      note: (text) => this.#note(text),
      onChanged: () => this.#changed(),
    });
  }

  async run(): Promise<number> {
    this.#outliveOutput();
    const off = onStopSignals({
      onFirst: (signal) => {
        this.#stopSignal = signal;
        this.#stop();
      },
      onAgain: (signal) => {
        this.#launcher.kill();
        this.#presenter?.end();
        process.exit(exitCodeOfSignal(signal));
      },
    });
    try {
      const exitCode = await this.#run();
      await this.#end();
      this.#output.note("stopped; what was acknowledged is on disk");
      return exitCode;
    } catch (thrown) {
      await this.#end();
      if (thrown instanceof NodeFailure) for (const line of thrown.details) this.#output.note(`  | ${line}`);
      throw thrown;
    } finally {
      off();
    }
  }

  /** Nodes do not end because what goes on cannot be told, on a full disk say; who has had enough of it stops them in order. */
  #outliveOutput(): void {
    let isTold = false;
    outliveOutput((error) => {
      if (error.code === "EPIPE") return this.#stop();
      // A closed terminal: SIGHUP says so.
      if (!isTold && error.code !== "EIO") this.#output.note(`warning: ${outputFailure(error).message}`);
      isTold = true;
    });
  }

  async #run(): Promise<number> {
    const { cluster, dataDir, nodes } = this.#plan;
    checkDirectory(dataDir);
    const missing = leftOut(
      dataDir,
      nodes.map(({ nodeId }) => nodeId),
    );
    if (missing.length > 0) this.#output.note(leftOutRemark(missing));
    this.#output.note(`Starting ${counted(nodes.length, "node")} of cluster ${cluster} in ${shortPath(dataDir)}`);
    const failures = await this.#launcher.start();
    if (this.#phase === "starting") {
      this.#phase = "up";
      await this.#tellReady(failures);
    }
    await this.#launcher.finished();
    const wasReady = this.#told.size + this.#launcher.servedCount >= nodes.length;
    return this.#stopSignal === undefined || wasReady ? EXIT.OK : exitCodeOfSignal(this.#stopSignal);
  }

  async #tellReady(failures: readonly NodeFailure[]): Promise<void> {
    const seconds = (performance.now() - this.#startedMs) / 1000;
    for (const failure of failures) this.#tellFailure(failure);
    const watch = await this.#watch;
    await watch?.next();
    const failed = failures.map(({ nodeId }) => nodeId);
    this.#presenter?.ready(seconds, failed);
    if (this.#screen !== undefined) return;
    this.#output.note(`ready in ${seconds.toFixed(1)} s`);
    const steps = firstSteps(this.#ottla());
    this.#output.note(["Try, in another terminal:", ...steps, "Ctrl-C stops it."].join("\n"));
  }

  #ottla(): string {
    return ottlaFor(this.#plan.dataDir);
  }

  async #end(): Promise<void> {
    const watch = await this.#watch;
    await watch?.end();
    this.#presenter?.end();
    this.#presenter = undefined;
    this.#screen = undefined;
  }

  #stop(): void {
    if (this.#phase === "stopping") return;
    this.#phase = "stopping";
    this.#note("stopping in order (Ctrl-C again kills)");
    this.#presenter?.stopping();
    // Its outcome is seen by launcher.finished().
    void this.#launcher.stop();
    void this.#watch?.then((watch) => watch.poke());
  }

  #note(text: string): void {
    if (this.#presenter === undefined) this.#output.note(text);
    else this.#presenter.note(text);
  }

  /** The first time, all nodes have their processes: now there is something to show. */
  #changed(): void {
    if (this.#presenter === undefined) {
      this.#presenter = this.#choosePresenter();
      this.#presenter.started({ ...this.#plan, nodes: this.#launcher.nodes });
    }
    // Loaded after the nodes were started: it takes as much time as they do.
    this.#watch ??= import("./watch.ts").then(({ ClusterWatch: Watch }) => {
      const watch = new Watch(
        () => ({ cluster: this.#plan.cluster, nodes: this.#launcher.nodes, phase: this.#phase }),
        (view) => this.#presenter?.update(view),
      );
      watch.start();
      return watch;
    });
    void this.#watch.then((watch) => watch.poke());
    this.#tellFailures();
  }

  #choosePresenter(): Presenter {
    const output = this.#output;
    if (output.isJson || !output.isTerminal) return jsonPresenter(output);
    if (process.env["TERM"] === "dumb" || !isInForeground()) return plainPresenter(output);
    this.#screen = new LiveScreen({
      paint: wantsColour(true, this.#flags),
      dataDir: shortPath(this.#plan.dataDir),
      ottla: this.#ottla(),
      nodeIds: this.#plan.nodes.map(({ nodeId }) => nodeId),
      hasKeys: process.stdin.isTTY === true,
      logFileOf: (nodeId) => this.#plan.nodes.find((node) => node.nodeId === nodeId)?.logFile ?? "",
      onAction: (action) => void this.#act(action),
    });
    return this.#screen;
  }

  /** While others run; the failure that ends everything is the command's own. */
  #tellFailures(): void {
    if (this.#phase !== "up" || !this.#launcher.hasRunning) return;
    for (const failure of this.#launcher.failures) this.#tellFailure(failure);
  }

  #tellFailure(failure: NodeFailure): void {
    if (this.#told.has(failure)) return;
    this.#told.add(failure);
    this.#presenter?.fault(failure.fault);
  }

  async #act(action: ClusterKey): Promise<void> {
    try {
      const message = await this.#carryOut(action);
      if (message !== undefined) this.#screen?.say(message);
    } catch (thrown) {
      this.#screen?.say(failureOf(thrown).message);
    }
  }

  async #carryOut(action: ClusterKey): Promise<string | undefined> {
    switch (action.kind) {
      case "quit":
        return void this.#stop();
      case "interrupt":
        // As the terminal would have done it outside of raw mode.
        return void process.kill(process.pid, "SIGINT");
      case "kill":
        this.#launcher.killNode(action.nodeId);
        return `node ${action.nodeId}: kill -9`;
      case "pause":
        return this.#togglePause(action.nodeId);
      case "start":
        return await this.#startOrRestart(action.nodeId);
    }
  }

  #togglePause(nodeId: number): string {
    const node = this.#launcher.nodes.find((one) => one.nodeId === nodeId);
    const wasPaused = node !== undefined && isPaused(node.process);
    const isDone = this.#launcher.signalNode(nodeId, wasPaused ? "SIGCONT" : "SIGSTOP");
    void this.#watch?.then((watch) => watch.poke());
    if (!isDone) return `node ${nodeId} does not run: press r ${nodeId} to start it`;
    return `node ${nodeId}: ${wasPaused ? "goes on (SIGCONT)" : "paused (SIGSTOP)"}`;
  }

  async #startOrRestart(nodeId: number): Promise<string> {
    const node = this.#launcher.nodes.find((one) => one.nodeId === nodeId);
    const runs = node?.state === "running" && !isPaused(node.process);
    if (!runs) {
      await this.#launcher.startNode(nodeId);
      return `node ${nodeId}: starting`;
    }
    this.#screen?.say(`node ${nodeId}: stopping in order, then starting`);
    await this.#launcher.restart(nodeId);
    return `node ${nodeId}: starting again`;
  }
}
