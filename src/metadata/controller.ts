// The controller's decisions, pure: from an image and a wish to the records of one command that fulfils it, or to an error. Nothing is
// changed here.
export { type Decision } from "./decision.ts";
export {
  BROKERS_MAX,
  ELECTIONS_PER_COMMAND,
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
  minIsrOf,
} from "./topic-decisions.ts";
export { decideBrokerConfigs, decideTopicConfigs } from "./config-decisions.ts";
