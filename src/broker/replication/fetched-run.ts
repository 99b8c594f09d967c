// What a follower got for one partition, checked before anything is appended (B-18, B-19): each batch by its own checksum, over views of the
// message that brought it. What passes is handed on as runs, one piece of consecutive batches of one leader epoch each, so that the log takes many
// small batches for the price of one.
import { keepable } from "../../base/bytes.ts";
import type { LeaderEpoch, Offset } from "../../model/ids.ts";
import { baseOffsetAt, checkStoredBatch, type Crc32c, lastOffsetAt, leaderEpochAt } from "../../model/record-batch.ts";
import { concernsProducersAt, type SequencedBatch, sequencedAt } from "../../model/producer-table.ts";
import type { FetchedBatch } from "../../replication/types.ts";

/** Longest run of several batches: what one read of the log then finds in one piece. A longer single batch is a run of its own. */
const RUN_BYTES_MAX = 128 * 1024;

/** A view of the message that brought it; what covered less than half of that was copied (D-26). */
type FetchedRun = FetchedBatch<Uint8Array>;

/** A run under construction: where it begins in the bytes, and what its batches say. */
interface OpenRun {
  startsAt: number;
  baseOffset: number;
  lastOffset: number;
  epoch: number;
  sequenced: SequencedBatch[];
}

/**
 * Adds the runs of `body` to `runs`. Returns why it cannot be taken, or undefined. Whether each run begins where the one before ended, and the epochs
 * are none above the leader's, is for the core to say.
 */
export function addRuns(runs: FetchedRun[], body: Uint8Array, checksum: Crc32c): string | undefined {
  const bytes = keepable(body);
  const end = bytes.length;
  let open: OpenRun | undefined;
  let at = 0;
  while (at < end) {
    const check = checkStoredBatch(bytes, at, { end, checksum });
    if (check.kind === "incomplete") return `${end - at} bytes at ${at} are no whole batch`;
    if (check.kind === "corrupt") return check.reason;
    const baseOffset = baseOffsetAt(bytes, at);
    const lastOffset = lastOffsetAt(bytes, at);
    const epoch = leaderEpochAt(bytes, at);
    if (open !== undefined && baseOffset !== open.lastOffset + 1)
      return `offset ${baseOffset} follows ${open.lastOffset}`;
    if (open !== undefined && epoch < open.epoch) return `leader epoch ${epoch} follows ${open.epoch}`;
    const next = at + check.sizeBytes;
    if (open !== undefined && open.epoch === epoch && next - open.startsAt <= RUN_BYTES_MAX) {
      open.lastOffset = lastOffset;
    } else {
      if (open !== undefined) runs.push(closed(open, bytes, at));
      open = { startsAt: at, baseOffset, lastOffset, epoch, sequenced: [] };
    }
    if (concernsProducersAt(bytes, at)) open.sequenced.push(sequencedAt(bytes, at));
    at = next;
  }
  if (open !== undefined) runs.push(closed(open, bytes, end));
  return undefined;
}

function closed(run: OpenRun, bytes: Uint8Array, end: number): FetchedRun {
  const isWhole = run.startsAt === 0 && end === bytes.length;
  return {
    baseOffset: run.baseOffset as Offset,
    lastOffset: run.lastOffset as Offset,
    epoch: run.epoch as LeaderEpoch,
    sequenced: run.sequenced,
    body: isWhole ? bytes : bytes.subarray(run.startsAt, end),
  };
}
