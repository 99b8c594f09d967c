// What faults, cells and benchmarks see of a cluster of real processes.
import type { Client } from "../client/types.ts";
import type { PartitionInfo } from "../client/admin-types.ts";
import type { ProxyCounts } from "./faults/proxy-counts.ts";
import type { ShimControl } from "./shim/control.ts";

/** "loopback": all on 127.0.0.1. "namespaces": each node in a network of its own behind a bridge. "proxied": each node behind a proxy for clients and peers. */
export type ClusterPlace = "loopback" | "namespaces" | "proxied";

export interface NodeExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The machine's monotonic clock. */
  readonly timeMs: number;
  /** It was killed, stopped or brought to its end by a fault that said so. */
  readonly isExpected: boolean;
  /** What was expected; of an unexpected one the last lines of its log. */
  readonly says: string;
}

/** A node's network: what is cut here is cut in silence. */
export interface NodeNetwork {
  readonly ip: string;
  /** What this node sends to those goes nowhere; the other way stays open. */
  dropTo(ips: readonly string[]): Promise<void>;
  /** Nothing leaves it and nothing reaches it. */
  isolate(): Promise<void>;
  /** Everything passes again. */
  heal(): Promise<void>;
  /** Packets that were dropped since the start, as the kernel counts them; undefined: it does not. */
  dropped(): Promise<number | undefined>;
}

/** A TCP proxy in front of a node: clients and other nodes reach it only through it. */
export interface NodeProxy {
  readonly address: string;
  /** Of all connections, also those to come; in force when it resolves. Undefined: bytes pass as they come, those first that were held back. */
  set(fault: ProxyFault | undefined): Promise<void>;
  /** What it did since the start. */
  readonly counts: ProxyCounts;
}

export type ProxyDirection = "to node" | "from node" | "both";

export type ProxyFault =
  | { readonly kind: "delay"; readonly delayMs: number; readonly direction: ProxyDirection }
  | { readonly kind: "stall"; readonly direction: ProxyDirection }
  | { readonly kind: "chunk"; readonly bytesMax: number; readonly direction: ProxyDirection }
  /** One bit in about so many bytes; `only`: bytes of record batches, which have a CRC of their own. */
  | {
      readonly kind: "flip";
      readonly everyBytes: number;
      readonly only?: "records";
      readonly direction: ProxyDirection;
    }
  /** Both sides hear a reset after that many bytes of a connection's direction. */
  | { readonly kind: "reset"; readonly afterBytes: number; readonly direction: ProxyDirection }
  /** The receiver hears that the sender is done; the other direction stays open. */
  | { readonly kind: "half-close"; readonly afterBytes: number; readonly direction: ProxyDirection };

export interface ChaosNode {
  readonly nodeId: number;
  /** host:port that clients and other nodes use. */
  readonly address: string;
  readonly dataDir: string;
  readonly logFile: string;
  /** Undefined while it is down. */
  readonly pid: number | undefined;
  /** Counts its starts; 0 = never started. */
  readonly incarnation: number;
  /** Of all its lives, the oldest first. */
  readonly exits: readonly NodeExit[];
  /** At once; resolves when the process has ended. Default SIGKILL. Nothing to do when it is down. */
  kill(signal?: NodeJS.Signals): Promise<void>;
  /**
   * In order (SIGTERM); after `shutdown.timeout.ms` and some grace it is killed. That counts as an unexpected exit, and so does an end with an error
   * on the way.
   */
  stop(): Promise<void>;
  /** Resolves with true when it is ready (its log says so), with false when it ended before. Nothing to do when it is up. */
  start(extra?: Readonly<Record<string, string>>): Promise<boolean>;
  /** Pauses and goes on: SIGSTOP, SIGCONT. No exit. */
  signal(signal: NodeJS.Signals): void;
  /** An exit by itself is what a fault wants until the returned function is called. */
  expectExit(says: string): () => void;
  /** Resolves when its process has ended. */
  untilEnd(timeoutMs: number): Promise<boolean>;
  readonly shim?: ShimControl;
  readonly network?: NodeNetwork;
  readonly proxy?: NodeProxy;
}

/** What a node is started with; places, shim and mounts each contribute. */
export interface NodeSetting {
  readonly env: Readonly<Record<string, string>>;
  /** Put before the command: `nsenter ...`. */
  readonly prefix: readonly string[];
  readonly dataDir: string;
  /** host:port. */
  readonly listeners: string;
  /** host:port that clients and peers are told. */
  readonly advertised: string;
}

/** Where the nodes stand, and how they reach each other. */
export interface Place {
  nodes: ReadonlyMap<number, NodePlace>;
  /** Put before the command of a client's process. */
  readonly clientPrefix: readonly string[];
  /** Resolves when a node's process runs outside of nothing of it. */
  close(): Promise<void>;
}

export interface NodePlace {
  readonly prefix: readonly string[];
  readonly listeners: string;
  readonly advertised: string;
  readonly network?: NodeNetwork;
  readonly proxy?: NodeProxy;
}

/** A file system for a node's data directory. */
export interface NodeMount {
  readonly kind: "tmpfs" | "loop";
  readonly sizeBytes: number;
}

export interface ClusterOptions {
  readonly nodes: number;
  /** Everything of the cluster is below; removed by `close` only where `keepFiles` is not set. */
  readonly directory: string;
  /** Configuration keys of every node. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** Default "loopback". */
  readonly place?: ClusterPlace;
  readonly shim?: boolean;
  readonly mounts?: ReadonlyMap<number, NodeMount>;
  /** A module that each node loads first (`--import`). */
  readonly preload?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly keepFiles?: boolean;
  readonly onExit?: (nodeId: number, exit: NodeExit) => void;
}

export interface ChaosCluster {
  readonly nodes: readonly ChaosNode[];
  readonly brokers: readonly string[];
  readonly directory: string;
  readonly place: ClusterPlace;
  readonly clientPrefix: readonly string[];
  node(nodeId: number): ChaosNode;
  partition(topic: string, partition: number): Promise<PartitionInfo | undefined>;
  /** Undefined: nobody, or nobody says. */
  leaderOf(topic: string, partition: number): Promise<number | undefined>;
  isr(topic: string, partition: number): Promise<readonly number[]>;
  /** Undefined: none. */
  controller(): Promise<number | undefined>;
  /** Every node is ready, every partition has a leader and all replicas in sync; rejects with what is wanting. */
  untilHealthy(timeoutMs: number): Promise<void>;
  /** One for the cluster's life; closed with it. */
  client(): Promise<Client>;
  /** Ends all processes, unmounts, and removes what it made. Never rejects; what could not be removed is told. */
  close(): Promise<readonly string[]>;
}
