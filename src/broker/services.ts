// What the request handlers work with: the parts of a running broker.
import type { Uuid } from "../model/ids.ts";
import type { BrokerConfig } from "../model/config.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Clock } from "../ports/clock.ts";
import type { Entropy } from "../ports/entropy.ts";
import type { Logger } from "../ports/logger.ts";
import type { LogStore } from "../storage/types.ts";
import type { Accountant } from "./accountant.ts";
import type { Deadlines } from "../base/deadlines.ts";
import type { FetchPurgatory } from "./fetch-purgatory.ts";
import type { MetadataAnswers } from "./metadata-answers.ts";
import type { MetadataLog } from "./metadata-log.ts";
import type { BrokerMetrics } from "./metrics.ts";
import type { ProduceIntake } from "./produce-intake.ts";
import type { ReplicaManager } from "./replica-manager.ts";
import type { ScanGate } from "./scan-gate.ts";
import type { TopicReconciler } from "./topic-reconciler.ts";

export interface Services {
  readonly config: BrokerConfig;
  readonly clock: Clock;
  readonly entropy: Entropy;
  readonly checksum: Checksum;
  readonly logger: Logger;
  readonly metrics: BrokerMetrics;
  readonly accountant: Accountant;
  readonly deadlines: Deadlines;
  readonly store: LogStore;
  readonly metadata: MetadataLog;
  readonly replicas: ReplicaManager;
  readonly topics: TopicReconciler;
  readonly intake: ProduceIntake;
  readonly purgatory: FetchPurgatory;
  readonly metadataAnswers: MetadataAnswers;
  readonly scans: ScanGate;
  /** Runs the work in a later turn. */
  readonly defer: (work: () => void) => void;
  /** Largest single message that is taken. */
  readonly messageBytesMax: number;
}

/** Stands for "none" where a topic id must be given. */
export const ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA" as Uuid;
