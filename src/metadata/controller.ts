// The controller's decisions, pure: from an image and a wish to the records of one command that fulfils it, or to an error. Nothing is
// changed here.
export { type Decision } from "./decision.ts";
export {
  BROKERS_MAX,
  type FenceWish,
  type RegistrationWish,
  type UnfenceWish,
  type UnregisterWish,
  decideCluster,
  decideFence,
  decideMetadataVersion,
  decideRegistration,
  decideUnfence,
  decideUnregistration,
} from "./broker-decisions.ts";
export {
  TOMBSTONES_MAX,
  type TopicContext,
  type TopicWish,
  decideDeletion,
  decideRemoval,
  decideSettled,
  decideTopic,
} from "./topic-decisions.ts";
export { effectiveMinIsr, minIsrOf } from "./partition-rules.ts";
export {
  type AlterContext,
  type BalanceWish,
  type DamageKnown,
  type DamageWish,
  type IsrSender,
  type IsrWish,
  PartitionChanges,
  type PartitionRef,
  type Verdict,
  alterPartition,
  decideAlterPartition,
  decideBalance,
  decideRelief,
  decideDamage,
  isCounted,
} from "./partition-decisions.ts";
export {
  type Elections,
  type ElectionsDecision,
  type ElectionVerdict,
  type ReplicaEnd,
  decideElections,
} from "./election-decisions.ts";
export {
  type NamedProducerWish,
  type ProducerIdsWish,
  decideNamedProducer,
  decideProducerIds,
} from "./producer-decisions.ts";
export { decideBrokerConfigs, decideTopicConfigs } from "./config-decisions.ts";
