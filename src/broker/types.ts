// The broker as its composition roots see it: what it is built from, and what it can be asked.
import type { Rng } from "../base/rng.ts";
import type { OttlaError } from "../model/errors.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Clock } from "../ports/clock.ts";
import type { Codecs } from "../ports/codecs.ts";
import type { Entropy } from "../ports/entropy.ts";
import type { Files } from "../ports/files.ts";
import type { Logger } from "../ports/logger.ts";
import type { Metrics } from "../ports/metrics.ts";
import type { Timers } from "../ports/timers.ts";
import type { MessageTransport } from "../ports/transport.ts";
import type { RaftSettings } from "../raft/settings.ts";
import type { ClusterId, DirectoryId, NodeId } from "../model/ids.ts";
import type { QuorumProbe } from "./quorum/probe.ts";
import type { ReplicaProbe } from "./replica-probe.ts";

export interface BrokerDeps {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly files: Files;
  readonly transport: MessageTransport;
  readonly checksum: Checksum;
  readonly codecs: Codecs;
  readonly entropy: Entropy;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly rng: Rng;
  /** The kernel's boot id (D-6). */
  readonly bootId: string;
  /** Metadata versions that this build takes part in; default: all that it knows. Tests run an older build with it. */
  readonly metadataVersions?: { readonly min: number; readonly max: number };
  /** Watches this node's quorum; for simulators. */
  readonly probe?: QuorumProbe;
  /** Watches this node's replicas; for simulators. */
  readonly replicaProbe?: ReplicaProbe;
  /** In place of the defaults; for simulators and tests. */
  readonly raftSettings?: Partial<RaftSettings>;
}

export type BrokerState = "starting" | "running" | "stopping" | "stopped" | "failed";

export interface Health {
  /** False: restarting the process is the only help. */
  readonly live: boolean;
  /** True: requests are served. */
  readonly ready: boolean;
  readonly checks: Readonly<Record<string, string>>;
}

/** Who a broker is. */
export interface BrokerIdentity {
  readonly clusterId: ClusterId;
  readonly nodeId: NodeId;
  readonly directoryId: DirectoryId;
}

export interface Broker {
  /**
   * Resolves when requests are served: when there is a quorum, and its controller has let this broker in. Until then it waits, and health() says
   * for what. Rejects with the OttlaError that forbids it, everything released again: PORT_IN_USE, CONFIG_UNREADABLE, DATA_DIR_*, DATA_DAMAGED,
   * DISK_FAILED, DUPLICATE_BROKER_REGISTRATION, UNSUPPORTED_VERSION; CLOSED when it is stopped meanwhile.
   */
  start(): Promise<void>;
  /** host:port that clients are told; known once listening. */
  readonly address: string;
  /** Known once started. */
  readonly identity: BrokerIdentity;
  readonly state: BrokerState;
  /** Called once, when a broker that was started must not go on: DISK_FAILED, or a bug (its cause is an AssertionFailure). */
  onFatal(callback: (error: OttlaError) => void): void;
  /** Ordered stop. Always ends, within shutdown.timeout.ms; calling it again waits for the same stop. */
  stop(): Promise<void>;
  health(): Health;
}

/** What the CLI and logs call this software. */
export const SOFTWARE = "ottla/0.1.0";
