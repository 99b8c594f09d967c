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
} as const;

/** Reached in less than one seed of a hundred: the run proves too little. */
export const NAMED_STATES: readonly string[] = Object.values(MARK);

/** What an operation on a file of a data directory means, by the file's name. */
export function markOfFile(operation: "read" | "write", path: string): string | undefined {
  if (operation === "write") return path.includes("/checkpoint/") ? MARK.CHECKPOINT : undefined;
  return path.endsWith(".log") && !path.includes("/metadata/") ? MARK.SEGMENT_READ : undefined;
}
