// The client that the commands use: the library's client over the real network, closed at the end whatever happened.
import { openClient } from "../client/client.ts";
import type { Client } from "../client/types.ts";
import { OttlaError } from "../model/errors.ts";
import { createChecksum } from "../platform/checksum.ts";
import { createClock } from "../platform/clock.ts";
import { loadCodecs } from "../platform/codecs.ts";
import { createEntropy } from "../platform/entropy.ts";
import { createTimers } from "../platform/timers.ts";
import { createWebSocketTransport } from "../platform/websocket.ts";
import type { CompressionName } from "../ports/codecs.ts";
import type { Logger } from "../ports/logger.ts";
import { clusterDataDir } from "./data-dir.ts";
import { rngFromSystem } from "./rng.ts";
import { oneLine } from "./failure.ts";
import { type GlobalFlags, remarkText } from "./output.ts";
import { liveState } from "./state-file.ts";
import { parseBootstrap, parseWait } from "./values.ts";

const DEFAULT_BOOTSTRAP = "127.0.0.1:7070";
const DEFAULT_TIMEOUT = "10s";
/** Without --timeout nobody should wait long for a node that is not up. */
const DEFAULT_CONNECT_TIMEOUT = "3s";
const TELL_AFTER_MS = 1000;

const givenBootstrap = (flags: GlobalFlags) =>
  flags.bootstrap ?? flags.bootstrapServer ?? process.env["OTTLA_BOOTSTRAP"];

/** The person says which brokers; else it is the cluster that runs here. */
export const isNamed = (flags: GlobalFlags) => givenBootstrap(flags) !== undefined;

/** `dataDir`: of a local cluster that is asked where none is named. */
export function bootstrapOf(flags: GlobalFlags, dataDir = clusterDataDir(undefined)): string[] {
  return parseBootstrap(givenBootstrap(flags) ?? localAddresses(dataDir) ?? DEFAULT_BOOTSTRAP);
}

/** All nodes of the cluster that runs from there, so that commands work while one of them is killed. */
function localAddresses(dataDir: string): string | undefined {
  const state = liveState(dataDir);
  return state?.nodes.map(({ address }) => address).join(",");
}

export const timeoutOf = (flags: GlobalFlags) => parseWait(flags.timeout ?? DEFAULT_TIMEOUT, "--timeout");

export interface RealClientOptions {
  readonly brokers: readonly string[];
  readonly clientId: string;
  readonly connectTimeoutMs: number;
  /** Those that the client may meet. */
  readonly codecs: readonly CompressionName[];
  readonly logger: Logger;
}

/** The library's client over this machine's network. */
export async function openRealClient({ codecs, logger, ...options }: RealClientOptions): Promise<Client> {
  const deps = {
    clock: createClock(),
    timers: createTimers(),
    transport: createWebSocketTransport(),
    checksum: createChecksum(),
    codecs: await loadCodecs(codecs),
    logger,
    rng: rngFromSystem(createEntropy()),
  };
  return openClient(deps, options);
}

async function openCliClient(flags: GlobalFlags, codecs: readonly CompressionName[]): Promise<Client> {
  const brokers = bootstrapOf(flags);
  const logger = stderrLogger({
    verbosity: flags.quiet === true ? -1 : (flags.verbose ?? 0),
    isJson: flags.json === true,
  });
  const connectTimeoutMs = parseWait(flags.timeout ?? DEFAULT_CONNECT_TIMEOUT, "--timeout");
  const remark = setTimeout(() => {
    const text = `waiting for a broker at ${brokers.join(", ")}`;
    if (flags.quiet !== true) process.stderr.write(remarkText(text, flags.json === true));
  }, TELL_AFTER_MS);
  try {
    return await openRealClient({ brokers, clientId: "ottla-cli", connectTimeoutMs, codecs, logger });
  } catch (thrown) {
    throw withAddresses(thrown, brokers);
  } finally {
    clearTimeout(remark);
  }
}

/** A broker that says nothing at all leaves a failure without a place. */
function withAddresses(thrown: unknown, brokers: readonly string[]): unknown {
  const isPlaced = !(thrown instanceof OttlaError) || brokers.some((address) => thrown.message.includes(address));
  if (isPlaced) return thrown;
  return new OttlaError(thrown.code, `${brokers.join(", ")}: ${thrown.message}`, { cause: thrown });
}

/** `codecs`: those that the command may meet; loading all costs start time. */
export async function withClient<T>(
  flags: GlobalFlags,
  use: (client: Client) => Promise<T>,
  codecs: readonly CompressionName[] = [],
): Promise<T> {
  const client = await openCliClient(flags, codecs);
  try {
    return await use(client);
  } finally {
    await client.close({ timeoutMs: 2000 });
  }
}

type Fields = Readonly<Record<string, unknown>>;

/** What a person should know without -v, in words; everything else keeps its name. */
const WORDED: Readonly<Record<string, (fields: Fields) => string>> = {
  broker_lost: ({ address }) => `lost the broker at ${textOf(address)}, trying again`,
  broker_back: ({ address }) => `the broker at ${textOf(address)} is back`,
  partitions_wait: (fields) => `waiting for ${partitionsOf(fields)}: ${textOf(fields["reason"])}`,
  partitions_go_on: (fields) => `${partitionsOf(fields)}: going on`,
};

const PARTITIONS_TOLD_MAX = 12;

function partitionsOf({ topic, partitions }: Fields): string {
  const all = Array.isArray(partitions) ? (partitions as readonly unknown[]) : [];
  const more = all.length > PARTITIONS_TOLD_MAX ? ` and ${all.length - PARTITIONS_TOLD_MAX} partitions more` : "";
  const names = all.slice(0, PARTITIONS_TOLD_MAX).map((partition) => `${textOf(topic)}-${String(partition)}`);
  return `${names.join(", ")}${more}`;
}

export interface RemarkStyle {
  /** Below 0: quiet. */
  readonly verbosity: number;
  readonly isJson: boolean;
}

/** The client's own remarks: warnings always, the rest for -v and -vv. pino would cost 20 ms of start. */
export function stderrLogger(
  style: RemarkStyle,
  bound: Fields = {},
  say: (text: string) => void = (text) => void process.stderr.write(text),
): Logger {
  const write = (level: string, floor: number) => (event: string, fields?: Fields) => {
    const all = { ...bound, ...fields };
    const worded = WORDED[event];
    if (style.verbosity < (worded === undefined ? floor : 0)) return;
    const details = Object.entries(all).map(([key, value]) => `${key}=${textOf(value)}`);
    say(remarkText(worded?.(all) ?? [`${level}: ${event}`, ...details].join(" "), style.isJson));
  };
  return {
    debug: write("debug", 2),
    info: write("info", 1),
    warn: write("warning", 0),
    error: write("warning", 0),
    child: (fields) => stderrLogger(style, { ...bound, ...fields }, say),
  };
}

const textOf = (value: unknown) => (typeof value === "string" ? oneLine(value) : JSON.stringify(value));
