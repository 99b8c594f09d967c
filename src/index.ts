// The package: `connect()` to a cluster, `startNode()` for a broker in this process. Both load what they need when called.
import type { Broker } from "./broker/types.ts";
import { CONNECT_CHECKS } from "./client/connect-options.ts";
import { anObject, aSignal, aText, type Checks, checkOptions } from "./client/options.ts";
import type { Client, ConnectOptions } from "./client/types.ts";
import type { BrokerConfig } from "./model/config.ts";
import { OttlaError } from "./model/errors.ts";
import { clearInterval, clearTimeout, setImmediate, setInterval, setTimeout } from "./platform/host-time.ts";
import type { Logger } from "./ports/logger.ts";
import type { Timers } from "./ports/timers.ts";
import type { TestCluster, TestClusterOptions } from "./test-cluster/types.ts";

export type {
  Acks,
  Admin,
  AlterOptions,
  BatchReport,
  BrokerInfo,
  BrokerName,
  CallOptions,
  Client,
  ClusterInfo,
  ConfigChanges,
  ConfigInfo,
  ConfigOwner,
  ConnectOptions,
  ConsumedRecord,
  Consumer,
  ConsumerOptions,
  CreateTopicOptions,
  DeletedRecords,
  DeleteRecordsOptions,
  DeleteTopicOptions,
  DescribePartitionsOptions,
  Election,
  Elections,
  ElectOptions,
  Headers,
  MetadataQuery,
  MetadataView,
  OffsetsOptions,
  OutgoingRecord,
  PartitionInfo,
  PartitionOffsets,
  PartitionState,
  Producer,
  ProducerOptions,
  QuorumInfo,
  ReadOptions,
  RecordBatchView,
  ReplicaProgress,
  SendOptions,
  SendResult,
  StartPosition,
  TopicInfo,
  VoterInfo,
  UnregisterOptions,
  VoterOptions,
} from "./client/types.ts";
export { murmur2, partitionOfKey } from "./client/partitioner.ts";
export type { TopicConfigKey } from "./model/config.ts";
export { ERRORS, OttlaError } from "./model/errors.ts";
export type { ErrorName, ErrorRow, Outcome } from "./model/errors.ts";
export type { CompressionName } from "./ports/codecs.ts";
export type { Logger } from "./ports/logger.ts";
export type {
  TestBroker,
  TestBrokerState,
  TestCluster,
  TestClusterOptions,
  WaitOptions,
} from "./test-cluster/types.ts";

export interface LibraryOptions {
  /** Default: says nothing. */
  readonly logger?: Logger;
}

/** A client of a running cluster. Rejects with OttlaError CONNECTION_FAILED when no broker answers in time. */
export async function connect(options: ConnectOptions & LibraryOptions = {}): Promise<Client> {
  return connectUntil(options, () => undefined);
}

/** `onClosed`: whoever keeps the client has no more use for it. */
async function connectUntil(options: ConnectOptions & LibraryOptions, onClosed: () => void): Promise<Client> {
  checkOptions("connect", options, { ...CONNECT_CHECKS, logger: anObject });
  const [{ openClient }, { createChecksum }, { createClock }, { createEntropy }, websocket, { rngFromSystem }, codecs] =
    await Promise.all([
      import("./client/client.ts"),
      import("./platform/checksum.ts"),
      import("./platform/clock.ts"),
      import("./platform/entropy.ts"),
      import("./platform/websocket.ts"),
      import("./cli/rng.ts"),
      codecsOfProcess(),
    ]);
  const deps = {
    clock: createClock(),
    timers: timersThatKeepAlive(),
    transport: websocket.createWebSocketTransport(),
    checksum: createChecksum(),
    codecs,
    logger: options.logger ?? silentLogger,
    rng: rngFromSystem(createEntropy()),
  };
  const { logger: _, ...connectOptions } = options;
  return openClient(deps, connectOptions, onClosed);
}

/** A broker's configuration keys (docs/configuration.md); sizes and durations also as "64MiB" and "5s". */
export type BrokerConfigInput = { readonly [Key in keyof BrokerConfig]: string | number };

export interface NodeOptions extends LibraryOptions {
  /** Default "./ottla-data". One directory, never shared. */
  readonly dataDir?: string;
  /** Default "ws://127.0.0.1:7070"; port 0 picks a free one. */
  readonly listeners?: string;
  /** Any other configuration key of a broker. `node.id` (default 1) and `controller.quorum.voters` make it one node of several. */
  readonly config?: Partial<BrokerConfigInput>;
  /** Ends a start that waits for other nodes, which may be for ever: startNode rejects with ABORTED then. */
  readonly signal?: AbortSignal;
}

const NODE_CHECKS: Checks<NodeOptions> = {
  dataDir: aText,
  listeners: aText,
  config: anObject,
  logger: anObject,
  signal: aSignal,
};
const { brokers: _, ...NODE_CONNECT_CHECKS } = CONNECT_CHECKS;

/** A broker in this process. */
export interface OttlaNode {
  /** host:port of the native protocol and of HTTP. */
  readonly address: string;
  /** A client of this node; closed with it. */
  connect(options?: Omit<ConnectOptions, "brokers">): Promise<Client>;
  /** Called once if the node can go on no more (DISK_FAILED, METADATA_DIVERGED, DATA_DIR_NEWER and the like): it serves nothing then; close it. */
  onFatal(callback: (error: OttlaError) => void): void;
  /** Closes its clients, then stops in order. Always ends. */
  close(): Promise<void>;
}

/**
 * Starts a broker on a directory of its own, and resolves when it serves. One of several (`controller.quorum.voters`) waits for the others as long as it
 * takes: at the very first start for all that are listed, later for a majority of the voters. Start them side by side. Rejects with OttlaError:
 * PORT_IN_USE, DATA_DIR_LOCKED, CONFIG_UNREADABLE and the like.
 */
export async function startNode(options: NodeOptions = {}): Promise<OttlaNode> {
  checkOptions("startNode", options, NODE_CHECKS);
  const [{ composeNode }, { resolveConfig }] = await Promise.all([
    import("./cli/compose.ts"),
    import("./cli/config-file.ts"),
  ]);
  const given = {
    "node.id": 1,
    "data.dir": options.dataDir ?? "./ottla-data",
    ...(options.listeners === undefined ? {} : { listeners: options.listeners }),
    ...options.config,
  };
  const settings = Object.entries(given).map(([key, value]) => [key, { value, origin: "startNode" }] as const);
  const { config } = resolveConfig([new Map(settings)]);
  const logging = options.logger === undefined ? {} : { logger: options.logger };
  const { broker } = await composeNode(config, options.logger ?? silentLogger);
  await keepingAlive(startUnless(options.signal, broker));
  const clients = new Set<Client>();
  /** Of those that are on their way. */
  const ending = new AbortController();
  let closing: Promise<void> | undefined;
  const stop = async () => {
    ending.abort();
    await Promise.allSettled([...clients].map((client) => client.close()));
    await broker.stop();
  };
  return {
    address: broker.address,
    connect: async (connectOptions = {}) => {
      checkOptions("connect", connectOptions, NODE_CONNECT_CHECKS);
      const refuseClosed = () => {
        if (closing !== undefined) throw new OttlaError("CLOSED", "the node was closed");
      };
      refuseClosed();
      const { signal } = connectOptions;
      const given = {
        ...logging,
        ...connectOptions,
        brokers: [broker.address],
        signal: signal === undefined ? ending.signal : AbortSignal.any([ending.signal, signal]),
      };
      const forget = () => void clients.delete(client);
      const client: Client = await connectUntil(given, forget).catch((thrown: unknown) => {
        refuseClosed();
        throw thrown;
      });
      // The node that was closed meanwhile closed those that it knew.
      if (closing !== undefined) await client.close({ timeoutMs: 0 });
      refuseClosed();
      clients.add(client);
      return client;
    },
    onFatal: (callback) => broker.onFatal(callback),
    close: () => {
      closing ??= keepingAlive(stop());
      return closing;
    },
  };
}

/**
 * A whole cluster in this process, for tests: real brokers on free ports of 127.0.0.1, in memory unless a directory is given, that can be killed,
 * paused and started again. Resolves when all of them serve.
 */
export async function testCluster(options: TestClusterOptions = {}): Promise<TestCluster> {
  const { openTestCluster } = await import("./test-cluster/test-cluster.ts");
  return openTestCluster(options, { connect: connectUntil, silentLogger });
}

async function startUnless(signal: AbortSignal | undefined, broker: Pick<Broker, "start" | "stop">): Promise<void> {
  const isAborted = () => signal?.aborted === true;
  const aborted = () => new OttlaError("ABORTED", "startNode was aborted", { cause: signal?.reason });
  if (isAborted()) throw aborted();
  const onAbort = () => void broker.stop();
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    await broker.start();
    // It may have begun to serve just before it heard of it.
    if (isAborted()) await broker.stop();
  } catch (thrown) {
    throw isAborted() ? aborted() : thrown;
  } finally {
    signal?.removeEventListener("abort", onAbort);
  }
  if (isAborted()) throw aborted();
}

/**
 * The process goes on until the promise settles: a broker's timers alone do not keep it alive, and a node that waits for its peers has
 * nothing but timers.
 */
async function keepingAlive<T>(promise: Promise<T>): Promise<T> {
  const alive = setInterval(() => undefined, 2 ** 30);
  try {
    return await promise;
  } finally {
    clearInterval(alive);
  }
}

/** All clients of a process share one set: the zstd module must not be started again while it is in use. */
const codecsOfProcess = once(async () => (await import("./platform/codecs.ts")).loadCodecs());

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

/** Unlike a broker's, a client's timers keep the process alive: each of them is for somebody who waits. */
function timersThatKeepAlive(): Timers {
  return {
    after: (delayMs, callback) => {
      const timer = setTimeout(callback, Math.min(Math.ceil(delayMs), 2 ** 31 - 1));
      return { cancel: () => clearTimeout(timer) };
    },
    defer: (callback) => {
      setImmediate(callback);
    },
  };
}

const silentLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  child: () => silentLogger,
};
