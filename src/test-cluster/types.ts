// The public types of testCluster(): a whole cluster in the caller's process, for tests of one's own producers and consumers.
import type { Client, ConnectOptions, CreateTopicOptions } from "../client/types.ts";
import type { BrokerConfig } from "../model/config.ts";
import type { OttlaError } from "../model/errors.ts";
import type { Logger } from "../ports/logger.ts";

export interface TestClusterOptions {
  /** Default 3, at most 9; all of them vote. Their ids are 1, 2, 3 and so on. */
  readonly nodes?: number;
  /**
   * Where `node-1`, `node-2` and so on are kept, as of any other node: they stay there after `close()`, and a later test cluster goes on with them.
   * Default: in memory, at most 1 GiB a node, gone with the cluster.
   */
  readonly directory?: string;
  /** Configuration keys of every broker (docs/configuration.md), over those that a test cluster sets itself (docs/testing.md). */
  readonly config?: Readonly<Partial<Record<keyof BrokerConfig, string | number>>>;
  /** Created before it is handed out: `{ orders: { partitions: 6 } }`. */
  readonly topics?: Readonly<Record<string, CreateTopicOptions>>;
  /** What the brokers log, each with its `node`. Default: nothing. */
  readonly logger?: Logger;
}

/**
 * starting: not ready yet. running. paused: by `pause`. stopping: by `stop` or `restart`. stopped: by `stop`. killed: by `kill`. failed: it gave up by
 * itself, see `failure`.
 */
export type TestBrokerState = "starting" | "running" | "paused" | "stopping" | "stopped" | "killed" | "failed";

/** A node as it is at the moment of asking. */
export interface TestBroker {
  readonly id: number;
  /** host:port, the same over restarts. */
  readonly address: string;
  readonly state: TestBrokerState;
  /** Why it gave up or did not start. */
  readonly failure: OttlaError | undefined;
}

export interface WaitOptions {
  /** Default 30,000. */
  readonly timeoutMs?: number;
}

/**
 * Calls that name a node reject with INVALID_REQUEST for one that there is not, with WRONG_NODE_STATE for one that cannot be treated so now (killed
 * already, say), all with CLOSED after `close()`.
 */
export interface TestCluster extends AsyncDisposable {
  /** In the order of their ids. */
  readonly brokers: readonly TestBroker[];
  /** A client that knows all nodes; closed with the cluster. */
  connect(options?: Omit<ConnectOptions, "brokers">): Promise<Client>;
  /** As `kill -9`: connections break, its port refuses new ones, what it wrote is kept. Resolves when nothing of it runs any more. */
  kill(nodeId: number): Promise<void>;
  /**
   * As SIGSTOP: connections stay open, and nothing is read, answered, written or timed. The others take it for dead after
   * `broker.session.timeout.ms`.
   */
  pause(nodeId: number): Promise<void>;
  /** As SIGCONT. */
  resume(nodeId: number): Promise<void>;
  /** In order: what it leads goes to others first. */
  stop(nodeId: number): Promise<void>;
  /**
   * One that was killed or stopped, with what is on its disk. Resolves when it serves: for that a majority of the nodes must
   * run. REQUEST_TIMED_OUT after 30 s without; then it is failed. */
  start(nodeId: number): Promise<void>;
  /** `stop`, unless it is killed, stopped or failed, then `start`. */
  restart(nodeId: number): Promise<void>;
  /** The running node that leads the partition; waits for one. REQUEST_TIMED_OUT when there is none for so long. */
  leaderOf(topic: string, partition?: number, options?: WaitOptions): Promise<number>;
  /** The running node that is controller; waits for one. */
  controller(options?: WaitOptions): Promise<number>;
  /** Every partition has a leader, and all its replicas are in sync. REQUEST_TIMED_OUT, naming those that are not. */
  waitUntilInSync(options?: WaitOptions): Promise<void>;
  /** Closes its clients and ends all nodes; nothing of it is left in the process, nor, unless a directory was given, on the disk. Always ends. */
  close(): Promise<void>;
}
