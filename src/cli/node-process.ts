// The process of one node of a local cluster. Forked by the launcher, which sends the configuration; ends when the launcher does.
import { EXIT } from "../model/exit-codes.ts";
import { createLogger } from "../platform/logger.ts";
import type { Logger } from "../ports/logger.ts";
import { unusable } from "./data-dir.ts";
import { failureOf } from "./failure.ts";
import type { FromNode, ToNode } from "./ipc.ts";
import { type RunningNode, runNode, startFailureOf } from "./node-runner.ts";
import { endBySignal, onStopSignals } from "./signals.ts";

type StartOrder = Extract<ToNode, { kind: "start" }>;

function tell(message: FromNode): void {
  // The callback takes the error of a launcher that ends just now; without it the error would be an uncaught one.
  if (process.connected) process.send?.(message, undefined, {}, () => undefined);
}

/** Ends the process after the launcher had the message; a launcher that is gone does not hold it up. */
function endAfter(message: FromNode, exitCode: number): void {
  setTimeout(() => process.exit(exitCode), 1000).unref();
  if (!process.connected) process.exit(exitCode);
  process.send?.(message, undefined, {}, () => process.exit(exitCode));
}

/** Undefined: its file cannot be opened, and the process ends. */
function loggerOf({ config, logFile, logBytesMax, verbosity }: StartOrder): Logger | undefined {
  try {
    return createLogger({
      destination: logFile,
      name: String(config["node.id"]),
      level: verbosity > 0 ? "debug" : "info",
      fileBytesMax: logBytesMax,
    });
  } catch (thrown) {
    const failure = failureOf(unusable(logFile, thrown));
    endAfter({ kind: "failed", failure }, failure.exitCode);
    return undefined;
  }
}

class NodeProcess {
  #node: RunningNode | undefined;
  #isStopping = false;
  #isStarting = false;
  #shutdownTimeoutMs = 0;
  readonly #startAbort = new AbortController();

  async start(order: StartOrder): Promise<void> {
    if (this.#isStopping) process.exit(EXIT.OK);
    const { config } = order;
    this.#isStarting = true;
    this.#shutdownTimeoutMs = config["shutdown.timeout.ms"];
    const logger = loggerOf(order);
    if (logger === undefined) return;
    try {
      this.#node = await runNode({
        config,
        logger,
        signal: this.#startAbort.signal,
        onFatal: (failure) => endAfter({ kind: "failed", failure }, failure.exitCode),
      });
    } catch (thrown) {
      if (this.#isStopping) process.exit(EXIT.OK);
      const failure = startFailureOf(thrown, config);
      logger.error("node_start_failed", { code: failure.code, message: failure.message });
      logger.debug("node_start_failed_at", { err: thrown });
      endAfter({ kind: "failed", failure }, failure.exitCode);
      return;
    } finally {
      this.#isStarting = false;
    }
    const { address, clusterId, startMs } = this.#node;
    tell({ kind: "ready", address, clusterId, startMs });
    if (this.#isStopping) await this.#finish();
  }

  stop(): void {
    if (this.#isStopping) return;
    this.#isStopping = true;
    if (!this.#isStarting) return void this.#finish();
    // A recovery is let finish, a wait for a quorum ends at once; what hangs is not waited for.
    this.#startAbort.abort();
    setTimeout(() => endBySignal("SIGTERM"), this.#shutdownTimeoutMs);
  }

  async #finish(): Promise<void> {
    const stoppingMs = performance.now();
    await this.#node?.stop();
    // What made it take all its time may hold up the exit too.
    if (this.#node !== undefined && performance.now() - stoppingMs >= this.#shutdownTimeoutMs) endBySignal("SIGTERM");
    process.exit(EXIT.OK);
  }
}

// A broker's timers do not keep a process alive, and without the launcher's channel nothing else might; an ordered stop must get to its end.
setInterval(() => undefined, 0x7fffffff);

const node = new NodeProcess();
process.on("message", (message: ToNode) => {
  if (message.kind === "start") void node.start(message);
  else node.stop();
});
process.on("disconnect", () => node.stop());
onStopSignals({ onFirst: () => node.stop(), onAgain: endBySignal });
// A launcher that ended while this file was loaded: nobody has heard of that, and nobody will.
if (process.connected) tell({ kind: "hello" });
else node.stop();
