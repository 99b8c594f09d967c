// ottla server start: one broker in the foreground, its log on stderr.
import { EXIT } from "../../model/exit-codes.ts";
import { createLogger } from "../../platform/logger.ts";
import {
  type EffectiveConfig,
  readDocument,
  resolveConfig,
  settingsOf,
  settingsOfEnvironment,
  settingsOfFlags,
  settingsOfPairs,
} from "../config-file.ts";
import { CommandFailure, type Failure } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import type { Output } from "../output.ts";
import { onStopSignals } from "../signals.ts";

export interface StartFlags {
  readonly config?: string;
  readonly nodeId?: string;
  readonly dataDir?: string;
  readonly listeners?: string;
  readonly set?: readonly string[];
  readonly check?: boolean;
}

function effectiveConfig(flags: StartFlags): EffectiveConfig {
  const document = flags.config === undefined ? undefined : readDocument(flags.config);
  return resolveConfig([
    document === undefined ? new Map() : settingsOf(document, document.root),
    settingsOfEnvironment(process.env),
    settingsOfPairs(flags.set ?? []),
    settingsOfFlags({
      "node.id": { flag: "--node-id", value: flags.nodeId },
      "data.dir": { flag: "--data-dir", value: flags.dataDir },
      listeners: { flag: "--listeners", value: flags.listeners },
    }),
  ]);
}

export async function serverStart({ flags, output }: Invocation<StartFlags>): Promise<number> {
  const effective = effectiveConfig(flags);
  if (flags.check === true) return printConfig(effective, output);
  const { runNode, startFailureOf } = await import("../node-runner.ts");
  const { config } = effective;
  const logger = createLogger({ name: String(config["node.id"]), level: logLevel(output, flags.quiet === true) });
  let onStop = (): void => undefined;
  const stopAsked = new Promise<void>((resolve) => {
    onStop = resolve;
  });
  onStopSignals({ onFirst: () => onStop(), onAgain: () => process.exit(EXIT.SIGINT) });
  const fatal = (failure: Failure) => {
    output.failure(failure);
    process.exit(failure.exitCode);
  };
  const node = await runNode({ config, logger, onFatal: fatal }).catch((thrown: unknown) => {
    throw new CommandFailure(startFailureOf(thrown, config), thrown);
  });
  if (output.isJson)
    output.json("server.start", {
      nodeId: config["node.id"],
      address: node.address,
      clusterId: node.clusterId,
      pid: process.pid,
    });
  else output.line(`ready ${node.address}`);
  await stopAsked;
  await node.stop();
  return EXIT.OK;
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
