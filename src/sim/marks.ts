// Names of states that a good run of many seeds must reach: the guard against a workload that never gets anywhere (T3).

export const MARK = {
  CHECKPOINT: "a checkpoint image was written",
  SEGMENT_READ: "records were read from a segment file",
  UNSYNCED_LOST: "a power loss met unsynced operations",
  TORN: "a write was torn at a power loss",
  PARTIAL_WRITE: "a write under way was left in part",
  EXCUSED_LOSS: "a record acknowledged with acks=1 was lost, as the atlas allows",
  STOPPED_ITSELF: "stopped itself: DISK_FAILED",
  STOPPED_IN_ORDER: "stopped in order",
  TOPIC_DELETED: "topic deleted",
  FULL: "an operation found the disk full",
  CONTROLLER_MOVED: "another node became controller",
  TWO_LEADERS: "two nodes led the quorum at once, in different terms",
  METADATA_CUT: "a suffix of a metadata log was cut",
  SNAPSHOT_INSTALLED: "a metadata log was replaced by a snapshot",
  ROT_SURVIVED: "a node went on with a bit of its metadata log turned over",
  CORE_ALONE: "only a core of the nodes healed",
  VOTER_ADDED: "a voter was added",
  VOTER_REMOVED: "a voter was removed",
  VOTER_REPLACED: "a voter was replaced by the same node on another disk",
  TRANSFERRED: "the leadership of the quorum was transferred",
  VERSION_RAISED: "metadata.version was raised after a rolling upgrade",
  SPOILT_REFUSED: "a node refused its spoilt disk",
  LEADER_MOVED: "another replica leads a partition",
  ELECTED_FROM_ELR: "a leader was elected from the ELR",
  UNCLEAN: "an operator had a replica lead that was not eligible",
  NO_INTACT_REPLICA: "a partition has no intact replica",
  ISR_SHRANK: "an ISR shrank",
  ISR_GREW: "an ISR grew",
  MIN_ISR_CHANGED: "min ISR changed",
  PREFERRED_AGAIN: "the first replica leads again",
  TRUNCATED: "a follower cut records",
  TWO_PARTITION_LEADERS: "two brokers led a partition at once, in different epochs",
  LOG_DAMAGED: "a damaged replica was found",
  UNCLEAN_WISH: "an unclean election was done as asked",
  PREFERRED_WISH: "preferred elections were done as asked",
  NAMED_WISH: "a replica that was named was elected",
  TRIM_WISH: "records were deleted as asked",
  MIN_ISR_WISH: "min.insync.replicas was changed",
  READ_IN_TURNS: "all was read while each node in turn was away",
  REPLICAS_COMPARED: "replicas were compared byte for byte",
  PRODUCERS_COMPARED: "the producers of a replica were compared with its log",
  PRODUCERS_OUTLIVE: "producers of a log that begins further up were compared with all that was ever in it",
  ANSWERED_AGAIN: "a batch that was sent again by hand was answered as before",
  BAD_GAP: "a bad client was refused a batch behind a gap in its sequence",
  BAD_EPOCH: "a bad client was refused a batch of epoch N",
  BAD_ACKS: "a bad client was refused a numbered batch with acks=N",
  BAD_CONTENT: "a bad client was refused other records under the numbers of an acknowledged batch",
  BAD_HALF: "a bad client sent half a message",
  BAD_SOCKET: "a bad client left a socket",
  STAYS_LED: "a quorum kept its leader, and who was cut off its term",
  TAKEN_OVER: "a producer's name was taken over while the one before went on",
  SENT_AGAIN: "a batch was sent again and acknowledged",
  RETAINED: "a leader let old segments go",
  TRIMMED: "a leader began its log where it was asked to",
  COMPACTED: "records were compacted away",
  EMPTIED: "a compacted segment has a batch without records",
  TOMBSTONE_GONE: "the last record of a key, without a value, was compacted away",
  ROT_HEALED: "what was wrong with a closed segment was put right while its node ran",
  STARTED_LATER: "what a reader wanted next was deleted",
  BELOW_MIN_ISR: "produce answered NOT_ENOUGH_REPLICAS, not appended",
} as const;

/** States that are counted and need not be reached. */
export const RARE_MARK = {
  CORE_OF_ALL: "no node could stay broken",
  NO_CORE: "too much was lost for any core",
  LOG_RESTARTED: "a follower began anew from its leader's log start",
  WHOLE_DROPPED: "a replica would have had to cut what it knew to be committed",
  WANTS_MOVE: "a leader asked to be relieved: its disk is too slow",
  FENCED_BY_NOBODY: "a named producer was fenced and nobody had taken its name: a claim of before came late",
  BELOW_AFTER_APPEND: "produce answered NOT_ENOUGH_REPLICAS_AFTER_APPEND, unknown",
} as const;

/** Reached in less than one seed of a hundred: the run proves too little. */
export const NAMED_STATES: readonly string[] = Object.values(MARK);

/** What an operation on a file of a data directory means, by the file's name. */
export function markOfFile(operation: "read" | "write", path: string): string | undefined {
  if (operation === "write") return path.includes("/checkpoint/") ? MARK.CHECKPOINT : undefined;
  return path.endsWith(".log") && !path.includes("/metadata/") ? MARK.SEGMENT_READ : undefined;
}
