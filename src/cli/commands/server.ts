// ottla server start: one broker in the foreground, its log on stderr.
import { EXIT } from "../../model/exit-codes.ts";
import { parseVoters } from "../../model/quorum-voters.ts";
import { createLogger } from "../../platform/logger.ts";
import {
  type EffectiveConfig,
  environmentRemarks,
  readDocument,
  resolveConfig,
  settingsOf,
  settingsOfEnvironment,
  settingsOfFlags,
  settingsOfPairs,
} from "../config-file.ts";
import { CommandFailure, type Failure, outputFailure } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import { outliveOutput, type Output } from "../output.ts";
import { endBySignal, onStopSignals, type StopSignal } from "../signals.ts";

export interface StartFlags {
  readonly config?: string;
  readonly nodeId?: string;
  readonly dataDir?: string;
  readonly listeners?: string;
  readonly set?: readonly string[];
  readonly check?: boolean;
}

/** A stop that takes all its time still gets to say how it ended. */
const STOP_GRACE_MS = 500;

function effectiveConfig(flags: StartFlags): EffectiveConfig {
  const document = flags.config === undefined ? undefined : readDocument(flags.config);
  const effective = resolveConfig([
    document === undefined ? new Map() : settingsOf(document, document.root),
    settingsOfEnvironment(process.env),
    settingsOfPairs(flags.set ?? []),
    settingsOfFlags({
      "node.id": { flag: "--node-id", value: flags.nodeId },
      "data.dir": { flag: "--data-dir", value: flags.dataDir },
      listeners: { flag: "--listeners", value: flags.listeners },
    }),
  ]);
  const voters = effective.config["controller.quorum.voters"];
  // What no pattern of one value can say; --check has to find it as a start would.
  if (voters !== undefined) parseVoters(voters);
  return effective;
}

export async function serverStart({ flags, output }: Invocation<StartFlags>): Promise<number> {
  const effective = effectiveConfig(flags);
  for (const remark of environmentRemarks(process.env)) output.note(remark);
  if (flags.check === true) return printConfig(effective, output);
  outliveOutput((error) => output.note(`warning: ${outputFailure(error).message}`));
  const { runNode, startFailureOf } = await import("../node-runner.ts");
  const { config } = effective;
  const logger = createLogger({ name: String(config["node.id"]), level: logLevel(output, flags.quiet === true) });
  const startAbort = new AbortController();
  const stopAsked = new Promise<StopSignal>((resolve) => {
    onStopSignals({ onFirst: resolve, onAgain: endBySignal });
  });
  void stopAsked.then(() => startAbort.abort());
  const timeoutMs = config["shutdown.timeout.ms"];
  const stopWatch = watchStop(stopAsked, timeoutMs, output);
  const fatal = (failure: Failure) => {
    output.failure(failure);
    process.exit(failure.exitCode);
  };
  const { signal: abort } = startAbort;
  const node = await runNode({ config, logger, signal: abort, onFatal: fatal }).catch((thrown: unknown) => {
    if (abort.aborted) return undefined;
    throw new CommandFailure(startFailureOf(thrown, config), thrown);
  });
  if (node === undefined) return EXIT.OK;
  if (output.isJson)
    output.json("server.start", {
      nodeId: config["node.id"],
      address: node.address,
      clusterId: node.clusterId,
      pid: process.pid,
    });
  else output.line(`ready ${node.address}`);
  const signal = await stopAsked;
  const stoppingMs = performance.now();
  await node.stop();
  // What made it take all its time may hold up the exit too.
  if (performance.now() - stoppingMs >= timeoutMs) endBySignal(signal);
  stopWatch.done();
  return EXIT.OK;
}

/** An ordered stop has its own limit; a start that hangs, or a disk that does, must not keep the process for longer. */
function watchStop(stopAsked: Promise<StopSignal>, timeoutMs: number, output: Output): { done(): void } {
  let limit: NodeJS.Timeout | undefined;
  void stopAsked.then((signal) => {
    limit = setTimeout(() => {
      output.note(`not stopped within ${timeoutMs} ms (shutdown.timeout.ms): ended at once`);
      endBySignal(signal);
    }, timeoutMs + STOP_GRACE_MS);
  });
  return { done: () => clearTimeout(limit) };
}

const logLevel = (output: Output, isQuiet: boolean) => (output.verbosity > 0 ? "debug" : isQuiet ? "warn" : "info");

function printConfig({ config, origins }: EffectiveConfig, output: Output): number {
  const values: Readonly<Record<string, string | number | undefined>> = config;
  const keys = Object.keys(origins);
  if (output.isJson) {
    const entries = keys.map((key) => [key, { value: values[key] ?? null, origin: origins[key] }]);
    output.json("server.start", { config: Object.fromEntries(entries) });
  } else {
    const rows = keys.map((key) => [key, String(values[key] ?? ""), origins[key] ?? ""]);
    output.table({ headers: ["KEY", "VALUE", "ORIGIN"], rows });
  }
  return EXIT.OK;
}
