// Runs one broker in this process, whoever asked: `server start` in the foreground or a launcher's child. Every way to end has its exit code.
import { existsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { AssertionFailure, present } from "../base/assert.ts";
import { asOttlaError, OttlaError } from "../model/errors.ts";
import { EXIT } from "../model/exit-codes.ts";
import type { BrokerConfig } from "../model/config.ts";
import type { Logger } from "../ports/logger.ts";
import { TransportError } from "../ports/transport.ts";
import { composeNode } from "./compose.ts";
import { type Failure, failureOf, stackOf } from "./failure.ts";

export interface RunningNode {
  /** As a client would write it: ws://host:port. */
  readonly address: string;
  readonly clusterId: string;
  readonly directoryId: string;
  readonly startMs: number;
  /** Ordered; always ends. */
  stop(): Promise<void>;
}

export interface RunOptions {
  readonly config: BrokerConfig;
  readonly logger: Logger;
  /** Ends a start that waits for a quorum, which may be for ever; runNode rejects then. */
  readonly signal?: AbortSignal;
  /** The node cannot go on; the process is to end with the failure's exit code. Called once at most. */
  onFatal(failure: Failure): void;
}

/** Rejects with what kept the node from starting; `startFailureOf` words it. */
export async function runNode({ config, logger, signal, onFatal }: RunOptions): Promise<RunningNode> {
  const startedMs = performance.now();
  const fatal = once((failure: Failure, thrown: unknown) => {
    logger.error("node_failed", {
      code: failure.code,
      message: failure.message,
      exitCode: failure.exitCode,
      stack: stackOf(thrown),
    });
    onFatal(failure);
  });
  const onBug = (thrown: unknown) => fatal(bugFailure(thrown), thrown);
  process.on("uncaughtException", onBug);
  process.on("unhandledRejection", onBug);
  logger.info("node_starting", {
    nodeId: config["node.id"],
    dataDir: config["data.dir"],
    listeners: config.listeners,
    pid: process.pid,
  });
  const { broker } = await composeNode(config, logger);
  broker.onFatal((error) => fatal(isBug(error) ? bugFailure(error.cause ?? error) : failureOf(error), error));
  signal?.throwIfAborted();
  const onAbort = () => void broker.stop();
  signal?.addEventListener("abort", onAbort, { once: true });
  await broker.start();
  signal?.removeEventListener("abort", onAbort);
  const startMs = Math.round(performance.now() - startedMs);
  const address = `ws://${broker.address.replace(/^ws:\/\//, "")}`;
  logger.info("node_ready", { address, startMs });
  return {
    address,
    clusterId: present(broker.identity.clusterId, "cluster id"),
    directoryId: broker.identity.directoryId,
    startMs,
    stop: async () => {
      logger.info("node_stopping");
      await broker.stop();
      logger.info("node_stopped");
    },
  };
}

function once<Arguments extends unknown[]>(
  call: (...parameters: Arguments) => void,
): (...parameters: Arguments) => void {
  let isDone = false;
  return (...parameters) => {
    if (isDone) return;
    isDone = true;
    call(...parameters);
  };
}

function bugFailure(thrown: unknown): Failure {
  const message = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
  return { code: "BUG", message, hint: "this is a bug in Ottla: the node's log has the stack", exitCode: EXIT.BUG };
}

/** A broker gives what it has no name for as UNKNOWN_SERVER_ERROR, with the cause kept. */
function isBug(thrown: unknown): boolean {
  const cause = thrown instanceof OttlaError && thrown.code === "UNKNOWN_SERVER_ERROR" ? thrown.cause : thrown;
  return [AssertionFailure, TypeError, RangeError, ReferenceError].some((kind) => cause instanceof kind);
}

/** What a rejected start means: a disk that fails during recovery has an exit code of its own (D-13). */
export function startFailureOf(thrown: unknown, config: BrokerConfig): Failure {
  if (isBug(thrown)) return bugFailure(thrown instanceof OttlaError ? thrown.cause : thrown);
  const failure = aboutDirectory(failureOf(transportAsOttla(thrown, config)), config["data.dir"]);
  return failure.code === "DISK_FAILED" ? { ...failure, exitCode: EXIT.RECOVERY_FAILED } : failure;
}

/** A file where a directory should be is told as such. */
function aboutDirectory(failure: Failure, dataDir: string): Failure {
  if (failure.code !== "DATA_DIR_READ_ONLY") return failure;
  let path = resolve(dataDir);
  while (!existsSync(path) && dirname(path) !== path) path = dirname(path);
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== false) return failure;
  const hint = "point data.dir at a directory, or at one that can be made";
  return { ...failure, message: `${dataDir} cannot be the data directory: ${path} is not a directory`, hint };
}

function transportAsOttla(thrown: unknown, config: BrokerConfig): OttlaError {
  if (!(thrown instanceof TransportError)) return asOttlaError(thrown);
  const { listeners } = config;
  switch (thrown.kind) {
    case "address-in-use":
      return new OttlaError("PORT_IN_USE", `${listeners} is taken by another process`, { cause: thrown });
    case "address-not-available":
      return new OttlaError("CONFIG_UNREADABLE", `listeners ${listeners}: this machine has no such address`, {
        cause: thrown,
      });
    case "denied":
      return new OttlaError("CONFIG_UNREADABLE", `listeners ${listeners}: not permitted to listen there`, {
        cause: thrown,
      });
    case "refused":
    case "busy":
    case "unreachable":
    case "timed-out":
    case "not-ottla":
    case "other":
      return asOttlaError(thrown);
  }
}
