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
} as const;

/** States that are counted and need not be reached. */
export const RARE_MARK = {
  CORE_OF_ALL: "no node could stay broken",
  NO_CORE: "too much was lost for any core",
} as const;

/** Reached in less than one seed of a hundred: the run proves too little. */
export const NAMED_STATES: readonly string[] = Object.values(MARK);

/** What an operation on a file of a data directory means, by the file's name. */
export function markOfFile(operation: "read" | "write", path: string): string | undefined {
  if (operation === "write") return path.includes("/checkpoint/") ? MARK.CHECKPOINT : undefined;
  return path.endsWith(".log") && !path.includes("/metadata/") ? MARK.SEGMENT_READ : undefined;
}
