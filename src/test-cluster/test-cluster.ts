// testCluster(): several brokers in the caller's process, over real sockets on loopback, on disks in memory or in a directory.
import { readdir } from "node:fs/promises";
import { present } from "../base/assert.ts";
import { resolveConfig } from "../cli/config-file.ts";
import { CREATE_CHECKS } from "../client/admin.ts";
import { aText, anInteger, anObject, type Checks, checkOptions, invalid } from "../client/options.ts";
import { checkTopicName } from "../client/outgoing.ts";
import type { Client, ConnectOptions } from "../client/types.ts";
import { asOttlaError, OttlaError } from "../model/errors.ts";
import { createFiles } from "../platform/files.ts";
import { isFaked } from "../platform/host-time.ts";
import { createMemoryFiles } from "../platform/memory-files.ts";
import type { Logger } from "../ports/logger.ts";
import type { RaftSettings } from "../raft/settings.ts";
import { Outlook } from "./outlook.ts";
import { drawPorts, HOST } from "./ports.ts";
import { TestNode } from "./test-node.ts";
import type { TestBroker, TestCluster, TestClusterOptions, WaitOptions } from "./types.ts";

const MiB = 1024 * 1024;
const MEMORY_BYTES = 1024 * MiB;
const NODES = 3;
const NODES_MAX = 9;
/** Another program may take a port between the look and the start. */
const STARTS_MAX = 5;

/** Under what the caller gives. docs/testing.md explains them. */
const DEFAULTS = {
  "broker.heartbeat.interval.ms": 100,
  "broker.session.timeout.ms": 1_500,
  "replica.fetch.backoff.ms": 100,
  "leader.imbalance.check.interval.seconds": 1,
  "shutdown.timeout.ms": 5_000,
  "connections.max": 1_000,
  "open.files.max": 256,
};
const MEMORY_DEFAULTS = { "disk.low.space.bytes": 16 * MiB, "disk.reserve.bytes": 0 };

const OWN_KEYS = ["node.id", "data.dir", "listeners", "advertised.listeners", "controller.quorum.voters"];

const CHECKS: Checks<TestClusterOptions> = {
  nodes: anInteger(1, NODES_MAX),
  directory: aText,
  config: anObject,
  topics: anObject,
  logger: anObject,
};

/** Many times what it takes on a slow machine. */
const START_MS = 30_000;

export interface TestClusterParts {
  readonly connect: (options: ConnectOptions, onClosed: () => void) => Promise<Client>;
  readonly silentLogger: Logger;
  /** How long a start may take. Default 30,000. */
  readonly startMs?: number;
}

export async function openTestCluster(options: TestClusterOptions, parts: TestClusterParts): Promise<TestCluster> {
  checkOptions("testCluster", options, CHECKS);
  checkKeys(options.config ?? {});
  checkTopics(options.topics ?? {});
  if (isFaked) throw timersAreFaked();
  await checkDirectory(options);
  const nodes = await startedNodes(options, parts);
  const cluster = new InProcessCluster(nodes, parts);
  try {
    await cluster.createTopics(options.topics ?? {});
    return cluster;
  } catch (thrown) {
    await cluster.close();
    throw thrown;
  }
}

function checkKeys(config: NonNullable<TestClusterOptions["config"]>): void {
  const own = OWN_KEYS.find((key) => Object.hasOwn(config, key));
  if (own === undefined) return;
  throw new OttlaError("INVALID_REQUEST", `testCluster: config takes no ${own}, which a test cluster sets itself`);
}

function checkTopics(topics: NonNullable<TestClusterOptions["topics"]>): void {
  for (const [name, topic] of Object.entries(topics)) {
    checkTopicName(name);
    checkOptions(`testCluster: topics.${name}`, topic, CREATE_CHECKS);
  }
}

const timersAreFaked = (): OttlaError =>
  new OttlaError(
    "INVALID_REQUEST",
    "the timers of this process were faked before ottla was loaded: nothing would end",
    {
      hint: "import ottla before vi.useFakeTimers() or its like: then the cluster keeps the real ones",
    },
  );

/** What is there was written by as many voters: fewer may be no majority of them. */
async function checkDirectory({ directory, nodes = NODES }: TestClusterOptions): Promise<void> {
  if (directory === undefined) return;
  const ids = (await listed(directory)).map((name) => Number(/^node-([1-9])$/.exec(name)?.[1] ?? 0));
  const found = Math.max(0, ...ids);
  if (found <= nodes) return;
  throw new OttlaError("INVALID_REQUEST", `testCluster: ${directory} holds ${found} nodes, and nodes is ${nodes}`, {
    hint: `give nodes: ${found}, or another directory`,
  });
}

async function listed(directory: string): Promise<string[]> {
  try {
    return await readdir(directory);
  } catch {
    // Not there yet; what else is wrong with it the nodes say.
    return [];
  }
}

async function startedNodes(options: TestClusterOptions, parts: TestClusterParts): Promise<TestNode[]> {
  const logger = options.logger ?? parts.silentLogger;
  for (let attempt = 1; ; attempt++) {
    const nodes = makeNodes(options, logger, await drawPorts(options.nodes ?? NODES));
    try {
      await Promise.all(nodes.map((node) => node.start(parts.startMs ?? START_MS)));
      return nodes;
    } catch (thrown) {
      // The others would wait for it as long as it takes.
      await Promise.all(nodes.map((node) => node.cut()));
      const error = asOttlaError(thrown);
      if (error.code !== "PORT_IN_USE" || attempt === STARTS_MAX) throw error;
    }
  }
}

function makeNodes(options: TestClusterOptions, logger: Logger, ports: readonly number[]): TestNode[] {
  const { directory } = options;
  const addressOf = (port: number) => `${HOST}:${port}`;
  const voters = ports.map((port, index) => `${index + 1}@${addressOf(port)}`).join(",");
  return ports.map((port, index) => {
    const id = index + 1;
    const settings = {
      ...DEFAULTS,
      ...(directory === undefined ? MEMORY_DEFAULTS : {}),
      ...options.config,
      "node.id": id,
      "data.dir": `${directory ?? "memory"}/node-${id}`,
      listeners: `ws://${addressOf(port)}`,
      "controller.quorum.voters": voters,
    };
    const origin = "testCluster: config";
    const { config } = resolveConfig([
      new Map(Object.entries(settings).map(([key, value]) => [key, { value, origin }] as const)),
    ]);
    return new TestNode({
      config,
      address: addressOf(port),
      files: directory === undefined ? createMemoryFiles(MEMORY_BYTES) : createFiles(),
      logger: logger.child({ node: id }),
      raftSettings: raftSettings(id),
    });
  });
}

/** The first node asks for votes before the others would: no election is split at the start. */
function raftSettings(id: number): Partial<RaftSettings> {
  return id === 1 ? { coldTicksMin: 1, coldTicksMax: 1 } : {};
}

class InProcessCluster implements TestCluster {
  readonly #nodes: readonly TestNode[];
  readonly #connect: TestClusterParts["connect"];
  readonly #startMs: number;
  readonly #clients = new Set<Client>();
  readonly #outlook: Outlook;
  #closing: Promise<void> | undefined;

  constructor(nodes: readonly TestNode[], { connect, startMs = START_MS }: TestClusterParts) {
    this.#nodes = nodes;
    this.#connect = connect;
    this.#startMs = startMs;
    this.#outlook = new Outlook(nodes, () => this.connect({ clientId: "test-cluster" }));
  }

  get brokers(): readonly TestBroker[] {
    return this.#nodes.map(({ id, address, state, failure }) => ({ id, address, state, failure }));
  }

  async createTopics(topics: NonNullable<TestClusterOptions["topics"]>): Promise<void> {
    await this.#outlook.createTopics(topics);
  }

  async connect(options: Omit<ConnectOptions, "brokers"> = {}): Promise<Client> {
    this.#checkOpen();
    const brokers = this.#nodes.map(({ address }) => address);
    const forget = () => void this.#clients.delete(client);
    const client: Client = await this.#connect({ ...options, brokers }, forget);
    if (this.#closing !== undefined) await client.close({ timeoutMs: 0 });
    this.#checkOpen();
    this.#clients.add(client);
    return client;
  }

  async kill(nodeId: number): Promise<void> {
    await this.#node(nodeId).kill();
  }

  async pause(nodeId: number): Promise<void> {
    this.#node(nodeId).pause();
  }

  async resume(nodeId: number): Promise<void> {
    this.#node(nodeId).resume();
  }

  async stop(nodeId: number): Promise<void> {
    await this.#node(nodeId).stop();
  }

  async start(nodeId: number): Promise<void> {
    await this.#node(nodeId).start(this.#startMs);
  }

  async restart(nodeId: number): Promise<void> {
    const node = this.#node(nodeId);
    if (!["killed", "stopped", "failed"].includes(node.state)) await node.stop();
    await node.start(this.#startMs);
  }

  async leaderOf(topic: string, partition = 0, options: WaitOptions = {}): Promise<number> {
    this.#checkOpen();
    return this.#outlook.leaderOf(topic, partition, options);
  }

  async controller(options: WaitOptions = {}): Promise<number> {
    this.#checkOpen();
    return this.#outlook.controller(options);
  }

  async waitUntilInSync(options: WaitOptions = {}): Promise<void> {
    this.#checkOpen();
    await this.#outlook.waitUntilInSync(options);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#outlook.close();
    await Promise.allSettled([...this.#clients].map((client) => client.close({ timeoutMs: 0 })));
    await Promise.all(this.#nodes.map((node) => node.cut()));
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw new OttlaError("CLOSED", "the test cluster has been closed");
  }

  #node(nodeId: number): TestNode {
    this.#checkOpen();
    const isKnown = Number.isInteger(nodeId) && nodeId >= 1 && nodeId <= this.#nodes.length;
    if (!isKnown) throw invalid("nodeId", `a node of the test cluster, 1 to ${this.#nodes.length}`, nodeId);
    return present(this.#nodes[nodeId - 1], "the node");
  }
}
