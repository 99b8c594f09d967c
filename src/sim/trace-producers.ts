// What a leader writes into a log of its producers before the log begins further up (D-15), for storage traces.
import type { LeaderEpoch } from "../model/ids.ts";
import { nextToTell } from "../model/producer-carry.ts";
import { buildToldProducers } from "../model/producer-records.ts";
import { sequencedAt } from "../model/producer-table.ts";
import { assignOffsets } from "../model/record-batch.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { ReplicaLog } from "../storage/types.ts";
import type { TracedBatch } from "./storage-trace.ts";

/** Short, so that producers expire in a trace. */
const EXPIRATION_MS = 3;

/** Appends it, and gives what was appended. */
export function tellProducers(
  log: ReplicaLog,
  parts: {
    readonly startOffset: number;
    readonly epoch: LeaderEpoch;
    readonly checksum: Checksum;
    readonly nowMs: number;
  },
): TracedBatch[] {
  const { startOffset, epoch, checksum, nowMs } = parts;
  const question = { startOffset, nowMs, expirationMs: EXPIRATION_MS, mayExpire: true };
  const batches: TracedBatch[] = [];
  for (let told = nextToTell(log.producers, question); told; told = nextToTell(log.producers, question)) {
    const { endOffset: base } = log;
    const batch = buildToldProducers(told, nowMs, checksum);
    assignOffsets(batch, base, epoch);
    const sequenced = sequencedAt(batch, 0);
    log.producers.observe(sequenced);
    log.append(batch, base, epoch);
    batches.push({ base, last: base, sum: checksum.crc32c(batch), sequenced, records: [] });
  }
  return batches;
}
