// What the request handlers work with: the parts of this node that are there from the first moment, and those of a running broker.
import type { Deadlines } from "../base/deadlines.ts";
import type { VersionRange } from "../metadata/records.ts";
import type { BrokerConfig } from "../model/config.ts";
import type { NodeId, Uuid } from "../model/ids.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Clock } from "../ports/clock.ts";
import type { Codecs } from "../ports/codecs.ts";
import type { Entropy } from "../ports/entropy.ts";
import type { Logger } from "../ports/logger.ts";
import type { LogStore } from "../storage/types.ts";
import type { Accountant } from "./accountant.ts";
import type { ClientConnection } from "./connection.ts";
import type { Controller } from "./controller/controller.ts";
import type { FetchPurgatory } from "./fetch-purgatory.ts";
import type { Membership } from "./membership.ts";
import type { MetadataAnswers } from "./metadata-answers.ts";
import type { BrokerMetrics } from "./metrics.ts";
import type { ProduceIntake } from "./produce-intake.ts";
import type { ProducerIdSource } from "./producer-ids.ts";
import type { HostedQuorum } from "./quorum/types.ts";
import type { ReadLanes } from "./read-lanes.ts";
import type { ReplicaManager } from "./replica-manager.ts";
import type { Replication } from "./replication/replication.ts";
import type { ScanGate } from "./scan-gate.ts";
import type { TopicReconciler } from "./topic-reconciler.ts";

/** From the moment the port listens. The quorum comes with the data directory; it may take long to become one. */
export interface NodeServices {
  readonly config: BrokerConfig;
  readonly nodeId: NodeId;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: BrokerMetrics;
  readonly accountant: Accountant;
  /** Of this build. */
  readonly metadataVersions: VersionRange;
  /** Largest single message that is taken. */
  readonly messageBytesMax: number;
  /** Searches, and pulls of metadata: one of each connection at a time. */
  readonly scans: ScanGate;
  readonly quorum: HostedQuorum | undefined;
  readonly controller: Controller | undefined;
  /** A connection has said who it is; false: there is no place for it. */
  named(connection: ClientConnection, clientId: string): boolean;
  /** For people: what the start waits for, or what is wrong; null = nothing. */
  waitingFor(): string | null;
}

/** Of a running broker. */
export interface Services extends NodeServices {
  readonly entropy: Entropy;
  readonly checksum: Checksum;
  /** All of them: a compacted topic takes what is compressed in any way, and looks for keys in it. */
  readonly codecs: Codecs;
  readonly deadlines: Deadlines;
  readonly store: LogStore;
  readonly quorum: HostedQuorum;
  readonly controller: Controller;
  readonly replicas: ReplicaManager;
  readonly topics: TopicReconciler;
  readonly membership: Pick<Membership, "heardUntilMs">;
  readonly producerIds: Pick<ProducerIdSource, "next">;
  readonly replication: Replication;
  readonly intake: ProduceIntake;
  readonly purgatory: FetchPurgatory;
  readonly readLanes: ReadLanes;
  readonly metadataAnswers: MetadataAnswers;
  /** Runs the work in a later turn. */
  readonly defer: (work: () => void) => void;
}

/** Stands for "none" where a topic id or cluster id must be given. */
export const ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA" as Uuid;
