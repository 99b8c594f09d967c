// size: one table of all errors.
// The one table of errors: native code, Kafka's code, whether a client may retry, what it means, what to do next.
// docs/errors.md is checked against it both ways, `ottla errors` prints it.

export interface ErrorRow {
  /** Native code on the wire; never reused. */
  readonly code: number;
  /** The code that a Kafka client is told. */
  readonly kafkaCode: number;
  /** What the client library does by itself with the same request. */
  readonly retriable: boolean;
  readonly meaning: string;
  readonly hint: string;
}

const row = (code: number, kafkaCode: number, retriable: boolean, meaning: string, hint: string): ErrorRow => ({
  code,
  kafkaCode,
  retriable,
  meaning,
  hint,
});

export const ERRORS = {
  NONE: row(0, 0, false, "success", ""),
  UNKNOWN_SERVER_ERROR: row(1, -1, false, "the broker met an error it has no name for", "look at the broker's log"),
  OFFSET_OUT_OF_RANGE: row(
    2,
    1,
    false,
    "the offset is below the log start or above the log end",
    "ottla topic describe <topic> shows the start and end offsets; consume also takes -o start and -o end",
  ),
  CORRUPT_MESSAGE: row(
    3,
    2,
    true,
    "a record batch does not match its checksum or its length",
    "the bytes were damaged on the way: send the batch again",
  ),
  UNKNOWN_TOPIC_OR_PARTITION: row(
    4,
    3,
    true,
    "this broker knows no such topic or partition",
    "ottla topic ls shows the topics, ottla topic describe <topic> the partitions of one",
  ),
  NOT_LEADER_OR_FOLLOWER: row(
    5,
    6,
    true,
    "this broker does not lead the partition, or nobody does",
    "clients look for the leader by themselves; ottla topic describe <topic> shows it, ottla cluster health why there is none",
  ),
  REQUEST_TIMED_OUT: row(
    6,
    7,
    true,
    "the request was not done by its deadline",
    "the outcome may be unknown: see the error's `outcome`",
  ),
  MESSAGE_TOO_LARGE: row(
    7,
    10,
    false,
    "a record batch is larger than the topic's max.message.bytes",
    "send smaller records or raise max.message.bytes",
  ),
  INVALID_TOPIC_EXCEPTION: row(
    8,
    17,
    false,
    "the topic name is not allowed",
    "use 1 to 249 of a-z A-Z 0-9 . _ - and neither . nor .. alone",
  ),
  RECORD_LIST_TOO_LARGE: row(
    9,
    18,
    false,
    "a record batch is larger than a segment of the topic",
    "lower the batch size or raise segment.bytes",
  ),
  NOT_ENOUGH_REPLICAS: row(
    10,
    19,
    true,
    "fewer replicas are in sync than min.insync.replicas",
    "ottla topic describe <topic> shows the missing ones",
  ),
  INVALID_REQUIRED_ACKS: row(
    11,
    21,
    false,
    "acks is none of 0, 1 and all, or a batch with a producer id asks for less than all",
    "use --acks 0, 1 or all; batches of an idempotent producer ask for all",
  ),
  UNSUPPORTED_VERSION: row(
    12,
    35,
    false,
    "the peer does not speak this version of the request",
    "use a client and a broker of neighbouring releases",
  ),
  TOPIC_ALREADY_EXISTS: row(
    13,
    36,
    false,
    "a topic of this name exists",
    "ottla topic create --if-not-exists takes it as it is; a deleted topic frees its name when ottla topic ls no longer shows it",
  ),
  INVALID_PARTITIONS: row(
    14,
    37,
    false,
    "the number of partitions is not allowed",
    "use 1 to max.partitions.per.topic",
  ),
  INVALID_REPLICATION_FACTOR: row(
    15,
    38,
    false,
    "the replication factor is not allowed on this cluster",
    "use 1 to the number of brokers, at most 64",
  ),
  INVALID_CONFIG: row(
    16,
    40,
    false,
    "a configuration key or value is not allowed",
    "the message names the key and what it takes; docs/configuration.md lists the keys that a topic may set",
  ),
  INVALID_REQUEST: row(
    17,
    42,
    false,
    "the request is well formed, but makes no sense or is not allowed now",
    "the message says what is wrong with it",
  ),
  INVALID_TIMESTAMP: row(18, 32, false, "a record's timestamp is not allowed", "check the producer's clock"),
  STORAGE_ERROR: row(
    19,
    56,
    true,
    "the log of the partition cannot be used on this broker",
    "the broker's log says why; ottla log verify shows the damage",
  ),
  STORAGE_FULL: row(
    20,
    56,
    true,
    "free space is below the broker's low-space mark: writes are refused, reads go on",
    "free space on the broker's disk; writes resume by themselves",
  ),
  UNSUPPORTED_COMPRESSION_TYPE: row(
    21,
    76,
    false,
    "the batch names a compression codec that does not exist",
    "use none, gzip, snappy, lz4 or zstd",
  ),
  INVALID_RECORD: row(
    22,
    87,
    false,
    "a record batch is not built as its header says, or a record of a compacted topic has no key",
    "the message says which: give each record of a compacted topic a key; a batch that is not well formed is a fault of the client that built it",
  ),
  FENCED_LEADER_EPOCH: row(
    23,
    74,
    true,
    "the request carries an older leader epoch than the broker's",
    "refresh the metadata",
  ),
  UNKNOWN_LEADER_EPOCH: row(
    24,
    75,
    true,
    "the request carries a newer leader epoch than the broker's",
    "retry: the broker is catching up",
  ),
  UNKNOWN_TOPIC_ID: row(
    25,
    100,
    true,
    "no topic has this id here: it was deleted, or deleted and created again",
    "refresh the metadata",
  ),
  OFFSET_NOT_AVAILABLE: row(
    26,
    78,
    true,
    "the new leader does not know the end offset yet",
    "retry; while fewer than min.insync.replicas are in sync it cannot: ottla topic describe <topic> shows the missing ones",
  ),
  BROKER_NOT_AVAILABLE: row(
    27,
    8,
    true,
    "the broker is starting or stopping",
    "retry; ottla cluster health says what a starting node waits for",
  ),
  BUSY: row(28, 89, true, "a queue or byte budget of the broker is full", "retry with back-off"),
  NOT_CONTROLLER: row(
    29,
    41,
    true,
    "this node is not the controller",
    "clients look for the controller by themselves; while there is none, ottla cluster health says what is missing",
  ),
  STALE_BROKER_EPOCH: row(
    30,
    77,
    true,
    "the request carries another broker epoch than the one registered",
    "the broker registers again by itself",
  ),
  DUPLICATE_BROKER_REGISTRATION: row(
    31,
    101,
    true,
    "a living broker with another disk is registered under this node id",
    "is node.id given twice? A node whose disk was replaced is let in when the session of the old one has ended",
  ),
  INVALID_UPDATE_VERSION: row(
    32,
    95,
    false,
    "what is to be changed has a newer version than the request knows, or cannot go to the version asked for",
    "metadata.version is raised only, to one that every registered broker supports; changes of partitions are made anew by themselves",
  ),
  INCONSISTENT_CLUSTER_ID: row(
    33,
    104,
    false,
    "the peer belongs to another cluster",
    "check controller.quorum.voters and data.dir of this node",
  ),
  BROKER_ID_NOT_REGISTERED: row(
    34,
    102,
    false,
    "no broker of this node id is registered",
    "ottla broker ls shows the brokers",
  ),
  INVALID_VOTER_KEY: row(
    35,
    125,
    false,
    "the node is in the quorum with another disk than the one meant, or with several",
    "ottla quorum status shows each voter with its directory id; ottla quorum replace <node> takes the new disk, --directory-id names one",
  ),
  DUPLICATE_VOTER: row(36, 126, false, "the node is a voter already", "ottla quorum status shows the voters"),
  VOTER_NOT_FOUND: row(37, 127, false, "the node is no voter", "ottla quorum status shows the voters"),
  INCONSISTENT_VOTER_SET: row(
    38,
    94,
    false,
    "the change of the quorum is not allowed",
    "the message says why; voters are changed one at a time, and one always stays",
  ),
  METADATA_DIVERGED: row(
    39,
    -1,
    false,
    "the metadata that this node has applied is not the quorum's any more: that was recovered by force",
    "start the node again: it fetches the metadata anew; one that was a voter before the recovery is wiped first",
  ),
  // Connection level: the sender of such bytes is told once and cut off.
  BAD_ENVELOPE: row(
    40,
    42,
    false,
    "an envelope breaks the protocol's structure",
    "docs/protocol.md; the connection is closed",
  ),
  UNKNOWN_API: row(
    41,
    35,
    false,
    "the request's api key does not exist",
    "docs/protocol.md lists the apis; the connection is closed",
  ),
  BODY_MISMATCH: row(
    42,
    42,
    false,
    "a body is missing, unannounced or of another length than announced",
    "docs/protocol.md; the connection is closed",
  ),
  FRAME_TOO_LARGE: row(
    43,
    10,
    false,
    "a message is longer than its kind allows",
    "docs/protocol.md lists the limits; the connection is closed",
  ),
  HANDSHAKE_REQUIRED: row(
    44,
    35,
    false,
    "the first request of a connection must be Hello",
    "docs/protocol.md; the connection is closed",
  ),
  // Client side only: never on the wire.
  CONNECTION_FAILED: row(
    60,
    -1,
    true,
    "no broker could be reached",
    "is the node up? ottla cluster status; check --bootstrap",
  ),
  CONNECTION_LOST: row(
    61,
    -1,
    true,
    "the connection closed before the answer came",
    "a produce whose answer was lost has an unknown outcome",
  ),
  DELIVERY_TIMED_OUT: row(
    62,
    -1,
    false,
    "a record was not acknowledged within delivery.timeout.ms",
    "see the error's `outcome`",
  ),
  CLOSED: row(63, -1, false, "the client or node has been closed", "create a new one"),
  ABORTED: row(64, -1, false, "the caller's AbortSignal fired", ""),
  PROTOCOL_ERROR: row(
    65,
    -1,
    false,
    "the peer's answer breaks the protocol",
    "is this the native port of an Ottla broker? check --bootstrap",
  ),
  WRONG_NODE_STATE: row(
    66,
    -1,
    false,
    "a node of a test cluster cannot be treated so in its present state",
    "the message names the node, its state and what it takes",
  ),
  // Start-up and command line.
  CONFIG_UNREADABLE: row(
    80,
    -1,
    false,
    "a configuration file or flag cannot be used",
    "ottla server start --check with the same flags shows every key with its value and where it comes from",
  ),
  PORT_IN_USE: row(
    81,
    -1,
    false,
    "the listen address is taken",
    "stop the other process or choose another address: --listeners ws://127.0.0.1:7171 (or -X listeners=...)",
  ),
  DATA_DIR_LOCKED: row(
    82,
    -1,
    false,
    "another live process uses the data directory",
    "stop that process first (kill <pid>, or ottla cluster down), or give this node a data.dir of its own",
  ),
  DATA_DIR_FOREIGN: row(
    83,
    -1,
    false,
    "the data directory is not an Ottla one, or another cluster's or node's",
    "point data.dir at this node's own directory",
  ),
  DATA_DIR_NEWER: row(
    84,
    -1,
    false,
    "the data directory was written by a newer format than this build reads",
    "start the newer build",
  ),
  DATA_DIR_READ_ONLY: row(85, -1, false, "the data directory cannot be written", "check the mount and its permissions"),
  DISK_FAILED: row(
    86,
    -1,
    false,
    "the disk failed a write or a sync: the process stops, nothing unsynced was acknowledged",
    "check the disk, then start again",
  ),
  DATA_DAMAGED: row(
    87,
    -1,
    false,
    "files of the data directory are damaged below what was durable",
    "ottla log verify shows where",
  ),
  // Answers to one request again: 0 to 39 are used up.
  INVALID_REGISTRATION: row(
    100,
    119,
    false,
    "a broker cannot be registered as it asks: its address is none, or there are too many brokers",
    "the message says which; ottla broker ls shows the registered brokers, ottla broker unregister <id> takes a dead one off the list",
  ),
  NO_INTACT_REPLICA: row(
    101,
    5,
    false,
    "every replica of the partition has lost its disk or is damaged: nobody is left who has all that was acknowledged",
    "bring back a disk with a good copy, or give up what is lost: ottla partition elect <topic> <partition> --unclean lets one lead that is not damaged and has some of it. Where all are damaged none can: bring back a disk with a good copy, or delete the topic; ottla log dump shows what can still be read",
  ),
  LEADER_NOT_AVAILABLE: row(
    102,
    5,
    true,
    "nobody leads the partition: none of the replicas that have all of it is up",
    "ottla topic describe <topic> shows the replicas that may lead: start one of them",
  ),
  NOT_ENOUGH_REPLICAS_AFTER_APPEND: row(
    103,
    20,
    true,
    "the batch is in the leader's log, but fewer replicas than min.insync.replicas are in sync: whether it stays is not known",
    "ottla topic describe <topic> shows the missing replicas; see the error's `outcome`",
  ),
  ELECTION_NOT_NEEDED: row(104, 84, false, "the partition is led as asked already", "nothing is left to do"),
  PREFERRED_LEADER_NOT_AVAILABLE: row(
    105,
    80,
    false,
    "the replica that is to lead, the first or the one that was named, is not up, or not in sync",
    "ottla topic describe <topic> shows the replicas; leadership goes back to the first one by itself when it is in sync",
  ),
  ELIGIBLE_LEADERS_NOT_AVAILABLE: row(
    106,
    83,
    false,
    "no replica of the partition that could lead is up, or all are damaged",
    "the message says which. Down: start a node that holds a replica (ottla broker ls). All damaged: bring back a disk with a good copy, or delete the topic; ottla log dump shows what can still be read of one, on its stopped node",
  ),
  ELIGIBLE_LEADER_DOWN: row(
    110,
    83,
    false,
    "a replica that has everything is only down: an unclean election would lose what only that one has",
    "start its node; ottla partition elect --unclean --force gives up what only it has",
  ),
  INELIGIBLE_REPLICA: row(
    107,
    107,
    false,
    "a replica cannot be in sync: its broker is fenced, unregistered or another incarnation",
    "the leader tries again by itself when the broker is back",
  ),
  NEW_LEADER_ELECTED: row(
    108,
    108,
    false,
    "the change is made, and another replica leads the partition now",
    "nothing is left to do",
  ),
  FETCH_SESSION_ID_NOT_FOUND: row(
    109,
    70,
    true,
    "the leader knows no such session of replication",
    "the follower begins a new one by itself",
  ),
  OUT_OF_ORDER_SEQUENCE_NUMBER: row(
    111,
    45,
    false,
    "the batch's sequence number does not follow on the last one of its producer in this partition",
    "an earlier batch is missing, or this one is older than the five last ones: the client sorts that out by itself; of a send that ends so look in the partition before you repeat it",
  ),
  INVALID_PRODUCER_EPOCH: row(
    112,
    47,
    false,
    "the batch is of an older epoch of its producer than the partition knows",
    "the producer has gone on in a newer epoch: nothing of the older one is taken any more",
  ),
  UNKNOWN_PRODUCER_ID: row(
    113,
    59,
    false,
    "the partition knows nothing of the producer any more, and the batch may be there already or come after others",
    "10,000 others wrote since the producer did last: the client goes on in a new epoch by itself; look in the partition for a send that ended unknown",
  ),
  PRODUCER_FENCED: row(
    114,
    90,
    false,
    "another producer of the same name has taken over",
    "one process at a time may produce under a name: end this one, or give it another name",
  ),
  PRODUCER_NAMES_FULL: row(
    115,
    44,
    false,
    "there are as many named producers as the cluster remembers",
    "use fewer names, the same ones again after a restart; producer.names.max raises the bound, producer.name.expiration.ms says when an unused one makes room",
  ),
  SEQUENCE_NUMBER_TAKEN: row(
    116,
    45,
    false,
    "other records are in the partition under the numbers of this batch",
    "somebody else writes under this producer's id, or the producer made the batch anew before it sent it again: the client goes on in a new epoch by itself; look in the partition for a send that ended unknown",
  ),
  POLICY_VIOLATION: row(
    117,
    44,
    false,
    "the topic's settings do not allow it",
    "records are deleted from topics whose cleanup.policy has delete: ottla topic alter <topic> -c cleanup.policy=compact,delete",
  ),
} as const satisfies Record<string, ErrorRow>;

export type ErrorName = keyof typeof ERRORS;

const byCode = new Map<number, ErrorName>(
  Object.entries(ERRORS).map(([name, entry]) => [entry.code, name as ErrorName]),
);

/** The name of a native code; a code of a newer peer reads as UNKNOWN_SERVER_ERROR. */
export function errorNameOf(code: number): ErrorName {
  return byCode.get(code) ?? "UNKNOWN_SERVER_ERROR";
}

/** What became of a produced batch that was answered with an error (D-28). */
export type Outcome = "not appended" | "unknown" | "appended";

export interface OttlaErrorDetails {
  readonly outcome?: Outcome;
  readonly cause?: unknown;
  readonly hint?: string;
}

/** The error that every caller meets. `name` is always "OttlaError"; tell them apart by `code`. */
export class OttlaError extends Error {
  override readonly name = "OttlaError";
  readonly code: ErrorName;
  readonly retriable: boolean;
  readonly hint: string;
  /**
   * On errors of produce, what became of the batch. On errors of admin changes (create, delete, alter, quorum): "unknown" when a try of
   * the call may have taken effect all the same, "appended" when it did and what was waited for afterwards did not come, not set when
   * nothing was changed for sure.
   */
  readonly outcome: Outcome | undefined;

  constructor(code: ErrorName, message?: string, details: OttlaErrorDetails = {}) {
    super(message ?? ERRORS[code].meaning, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.retriable = ERRORS[code].retriable;
    this.hint = details.hint ?? ERRORS[code].hint;
    this.outcome = details.outcome;
  }
}

/** Any thrown thing as an OttlaError; one that is none already becomes UNKNOWN_SERVER_ERROR with its cause kept. */
export function asOttlaError(thrown: unknown): OttlaError {
  if (thrown instanceof OttlaError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new OttlaError("UNKNOWN_SERVER_ERROR", message, { cause: thrown });
}
