// The configuration of a broker: every key, its default, its bounds and what it means. Keys are Kafka's where Kafka has one;
// a key that a topic may override has the topic's name for it. Sizes take 64MiB beside numbers, durations take 5s.
import { CLEANUP, CONFIG_WORDS, TIMESTAMP_TYPE } from "./config-values.ts";
import {
  bytes,
  checkedConfig,
  type ConfigOf,
  count,
  duration,
  limited,
  NOT_EMPTY,
  onOff,
  optionalCount,
  optionalText,
  ratio,
  requiredCount,
  requiredText,
  text,
  words,
} from "./config-keys.ts";
import { OttlaError } from "./errors.ts";

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;

/** 0 to 65535. */
const PORT = String.raw`(?:[0-5]?\d{1,4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])`;
const ADDRESS = { pattern: new RegExp(String.raw`^(ws://)?[^\s/:]+:${PORT}$`), takes: "ws://host:port" };
const VOTER = String.raw`\s*\d{1,5}@[^\s,@]+:${PORT}\s*`;
const VOTERS = { pattern: new RegExp(`^${VOTER}(,${VOTER})*$`), takes: "1@host:port,2@host:port,..." };
const CLUSTER_ID = { pattern: /^[\w-]{22}$/, takes: "22 characters of base64url" };

const DAY = 86_400_000;
const FOREVER = Number.MAX_SAFE_INTEGER;

/** Keys that a topic may set for itself and a broker's configuration for all others; absent means the broker's value. */
export const topicConfigKeys = {
  "max.message.bytes": bytes(1_048_588, 128, 64 * MiB, "Largest record batch accepted."),
  "segment.bytes": bytes(1 * GiB, 1 * KiB, 2 * GiB - 1, "A segment file is rolled before it would grow past this."),
  "index.interval.bytes": bytes(
    4096,
    16,
    16 * MiB,
    "An entry of the offset index, and of the time index, is written after this much log.",
  ),
  "segment.ms": duration(
    7 * DAY,
    1,
    FOREVER,
    "A segment file is rolled when a batch comes whose time is later than that of its first by more than this.",
  ),
  "segment.jitter.ms": duration(
    0,
    0,
    FOREVER,
    "Bound of a random time taken off segment.ms, drawn for each segment, so that not all partitions roll at once.",
  ),
  "segment.index.bytes": bytes(
    10 * MiB,
    64,
    1 * GiB,
    "Bound: a segment file is rolled when one of its indexes is this long.",
  ),
  "cleanup.policy": words(
    CLEANUP.DELETE,
    CONFIG_WORDS["cleanup.policy"],
    "What becomes of old segments: deleted by age and size, compacted to the last value of each key, or both.",
  ),
  "retention.ms": limited(
    "duration",
    7 * DAY,
    FOREVER,
    "A segment whose newest record is older than this is deleted, where cleanup.policy has delete.",
  ),
  "retention.bytes": limited(
    "bytes",
    -1,
    FOREVER,
    "The oldest segments of a partition are deleted while at least this much remains, where cleanup.policy has delete.",
  ),
  "delete.retention.ms": duration(
    DAY,
    0,
    FOREVER,
    "How long compaction keeps a record without a value, so that a reader who begins at the start learns of it.",
  ),
  "min.cleanable.dirty.ratio": ratio(
    0.5,
    "A log is compacted when this part of it, or more, was never compacted. 0 to 1.",
  ),
  "min.compaction.lag.ms": duration(0, 0, FOREVER, "A record is not compacted away before it is this old."),
  "max.compaction.lag.ms": duration(
    FOREVER,
    1,
    FOREVER,
    "A log with a record older than this that was never compacted is compacted, whatever part of it is.",
  ),
  "message.timestamp.type": words(
    TIMESTAMP_TYPE.CREATE_TIME,
    CONFIG_WORDS["message.timestamp.type"],
    "Whose time a record has: the producer's, or that of the leader's clock when it takes the batch.",
  ),
} as const;

/** Keys that are set while brokers run only, for a topic or for all: they decide what is committed, so no broker may have a value of its own (D-5). */
export const runtimeTopicConfigKeys = {
  "min.insync.replicas": optionalCount(
    1,
    32_767,
    "What acks=all promises to be on, and the fewest replicas in sync with which a partition takes anything; a topic takes no more than its replication factor, and what the cluster says is capped by it. Default: a majority of the replicas.",
  ),
  "allow.acks.below.min.isr": onOff(
    0,
    "1: acks 0 and 1 are taken although fewer than min.insync.replicas are in sync. They can be lost, and nobody reads them before enough are in sync again.",
  ),
} as const;

/** All keys of a broker's own configuration. */
export const brokerConfigKeys = {
  "node.id": requiredCount(1, 65_535, "This node's id, unique in the cluster."),
  "cluster.id": optionalText(
    CLUSTER_ID,
    "The only cluster that this node may belong to; one that it founds gets this id. 22 characters of base64url. Default: what the data directory says; an empty one takes the cluster that it finds.",
  ),
  "data.dir": requiredText(NOT_EMPTY, "Where this node keeps everything. One directory, never shared."),
  listeners: text(
    "ws://127.0.0.1:7070",
    ADDRESS,
    "Address to listen on, native protocol and HTTP. Port 0 picks a free one.",
  ),
  "advertised.listeners": optionalText(
    ADDRESS,
    "Address that clients and other nodes are told. Default: this node's entry in controller.quorum.voters, else the one listened on, with 127.0.0.1 for all interfaces (0.0.0.0).",
  ),
  "controller.quorum.voters": optionalText(
    VOTERS,
    "Where the voters of the metadata quorum are found: id@host:port, separated by commas, the same on every node. At the very first start those listed found the cluster; later it is an address list only: who votes stands in the quorum's own log. Default: this node alone.",
  ),
  "num.partitions": count(1, 1, 10_000, "Partitions of a topic created without a number."),
  "default.replication.factor": count(
    3,
    1,
    32_767,
    "Replicas of each partition of a topic created without a number; never more than there are brokers, nor than 64.",
  ),
  "max.partitions.per.topic": count(10_000, 1, 100_000, "Most partitions that one topic may have."),
  "max.partitions": count(20_000, 1, 1_000_000, "Most partitions in the cluster."),
  ...topicConfigKeys,
  "fetch.max.bytes": bytes(55 * MiB, 1 * KiB, 256 * MiB, "Most bytes of batches in one fetch answer."),
  "fetch.max.wait.ms": duration(30_000, 1, 300_000, "Longest wait that a fetch may ask for."),
  "journal.bytes": bytes(256 * MiB, 16 * KiB, 8 * GiB, "A checkpoint starts when the journal has grown by this much."),
  "checkpoint.interval.ms": duration(
    60_000,
    10,
    3_600_000,
    "A checkpoint starts at least this often when anything was written.",
  ),
  "journal.pinned.bytes": bytes(
    64 * MiB,
    64 * KiB,
    4 * GiB,
    "Bound: batches held in memory until they are in their segment. Appends wait when it is full.",
  ),
  "tail.cache.bytes": bytes(
    64 * MiB,
    0,
    16 * GiB,
    "Bound: recently appended batches kept in memory for readers near the tail.",
  ),
  "disk.low.space.bytes": bytes(
    512 * MiB,
    0,
    1024 * GiB,
    "While the disk has less free space than this, produce is refused and the node is given no new partitions; reads go on.",
  ),
  "disk.reserve.bytes": bytes(
    16 * MiB,
    0,
    4 * GiB,
    "A file kept to be given up when the disk is full, so that checkpoints still fit.",
  ),
  "log.retention.check.interval.ms": duration(
    300_000,
    10,
    DAY,
    "How often each leader looks for segments that retention lets go.",
  ),
  "log.cleaner.backoff.ms": duration(15_000, 10, DAY, "How long compaction rests when no log needs it."),
  "log.cleaner.dedupe.buffer.size": bytes(
    128 * MiB,
    64 * KiB,
    8 * GiB,
    "Bound: memory for the keys of one compaction; a log with more of them is compacted in several passes.",
  ),
  "log.cleaner.io.max.bytes.per.second": bytes(
    64 * MiB,
    4 * KiB,
    64 * GiB,
    "Bound: bytes that compaction reads and writes in a second.",
  ),
  "log.scrub.period.ms": duration(
    7 * DAY,
    100,
    365 * DAY,
    "Everything in segment files is read again and checked at least this often, as far as log.scrub.io.max.bytes.per.second allows.",
  ),
  "log.scrub.io.max.bytes.per.second": bytes(
    16 * MiB,
    4 * KiB,
    64 * GiB,
    "Bound: bytes that the scrub reads in a second.",
  ),
  "producer.id.expiration.ms": duration(
    DAY,
    1,
    FOREVER,
    "An idempotent producer whose last batch was deleted is forgotten when it wrote nothing for this long.",
  ),
  "open.files.max": count(1024, 8, 1_000_000, "Bound: segment files held open."),
  "connections.max": count(10_000, 1, 100_000, "Bound: open connections."),
  "connection.inflight.bytes": bytes(
    64 * MiB,
    1 * MiB,
    1 * GiB,
    "Bound: bytes of requests being worked on, per connection. Reading pauses when it is full.",
  ),
  "connection.unsent.bytes": bytes(
    32 * MiB,
    64 * KiB,
    1 * GiB,
    "Bound: bytes of answers not yet taken by the peer, per connection.",
  ),
  "unsent.bytes": bytes(256 * MiB, 1 * MiB, 4 * GiB, "Bound: bytes of answers not yet taken by the peers, per broker."),
  "produce.inflight.bytes": bytes(
    256 * MiB,
    1 * MiB,
    4 * GiB,
    "Bound: produced bytes not yet answered, per broker. Reading pauses when it is full.",
  ),
  "delayed.requests.max": count(100_000, 1, 10_000_000, "Bound: requests waiting for an event (long polls, acks=all)."),
  "request.timeout.ms": duration(30_000, 100, 600_000, "Longest that a request may wait when it names no deadline."),
  "shutdown.timeout.ms": duration(10_000, 100, 600_000, "An ordered stop ends after this, done or not."),
  "broker.heartbeat.interval.ms": duration(
    500,
    10,
    60_000,
    "Each broker tells the controller this often that it lives.",
  ),
  "broker.session.timeout.ms": duration(
    3_000,
    50,
    600_000,
    "A broker that the controller has not heard of for this long leads nothing until it is heard of again.",
  ),
  "replica.lag.time.max.ms": duration(
    3_000,
    100,
    600_000,
    "A follower that was not caught up for this long, counted on what is durable there, leaves the ISR.",
  ),
  "replica.fetch.wait.max.ms": duration(500, 1, 60_000, "Longest wait of a follower's fetch for something new."),
  "replica.fetch.max.bytes": bytes(
    1 * MiB,
    1 * KiB,
    64 * MiB,
    "Most bytes of one partition in one answer to a follower; a larger batch comes alone.",
  ),
  "replica.fetch.response.max.bytes": bytes(8 * MiB, 1 * KiB, 64 * MiB, "Most bytes in one answer to a follower."),
  "replica.fetch.backoff.ms": duration(
    1_000,
    1,
    60_000,
    "How long a follower leaves a partition alone whose fetch failed.",
  ),
  "auto.leader.rebalance.enable": onOff(
    1,
    "1: the first replica of a partition leads it again once it is in sync; 0: only when told to.",
  ),
  "leader.imbalance.check.interval.seconds": count(
    2,
    1,
    86_400,
    "How often the controller looks for partitions that their first replica could lead again. Seconds.",
  ),
  "producer.names.max": count(10_000, 1, 100_000, "Bound: named producers that the cluster remembers."),
  "producer.name.expiration.ms": duration(
    7 * 86_400_000,
    1_000,
    365 * 86_400_000,
    "A named producer that did not begin for this long makes room for a new name when there are producer.names.max of them; one that still runs is then fenced.",
  ),
  "metadata.log.max.record.bytes.between.snapshots": bytes(
    20 * MiB,
    1 * KiB,
    4 * GiB,
    "A snapshot of the metadata is taken when its log has grown by this much.",
  ),
  "controller.proposals.max": count(
    1_000,
    1,
    1_000_000,
    "Bound: metadata changes of clients waiting at the controller, at most an eighth of one connection, and as many of the cluster's own, which go first.",
  ),
} as const;

export type BrokerConfig = ConfigOf<typeof brokerConfigKeys>;

/** That of a broker with these keys and the defaults. Throws when a key cannot be used. */
export function brokerConfigOf(given: Readonly<Record<string, unknown>>): BrokerConfig {
  const checked = checkedConfig(brokerConfigKeys, given);
  if (checked.kind === "invalid") throw new OttlaError("CONFIG_UNREADABLE", checked.names.join(", "));
  return checked.config;
}

/** A key of a topic that a broker's own configuration has a value for, too. */
export type LocalTopicConfigKey = keyof typeof topicConfigKeys;
export type TopicConfigKey = LocalTopicConfigKey | keyof typeof runtimeTopicConfigKeys;
export type TopicConfig = Readonly<Partial<Record<TopicConfigKey, number>>>;

/** host:port of a listeners value. */
export function addressOf(listener: string): string {
  return listener.replace(/^ws:\/\//, "");
}
