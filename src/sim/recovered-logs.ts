// What a store made of a disk, log by log, and whether it is what was promised of that log.
import { bytesEqual } from "../base/bytes.ts";
import type { Offset } from "../model/ids.ts";
import { ProducerTable } from "../model/producer-table.ts";
import { baseOffsetAt, forEachBatch, lastOffsetAt } from "../model/record-batch.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Codecs } from "../ports/codecs.ts";
import type { LogStore, ReplicaLog } from "../storage/types.ts";
import type { LogPromise, TracedBatch } from "./storage-trace.ts";
import { compactionFault, isCleaned, type PlacedBatch, recordsOf } from "./traced-records.ts";

export interface RecoveredLog {
  readonly topicId: string;
  readonly startOffset: number;
  readonly endOffset: number;
  readonly highWatermark: number;
  readonly damage: string | undefined;
  readonly batches: readonly PlacedBatch[];
  /** The table of its producers, as bytes. */
  readonly producers: Uint8Array;
}

const READ_BYTES = 1 << 20;

interface ReadDeps {
  readonly checksum: Checksum;
  readonly codecs: Codecs;
}

export async function readLogs(store: Pick<LogStore, "logs">, deps: ReadDeps): Promise<RecoveredLog[]> {
  const logs: RecoveredLog[] = [];
  for (const log of [...store.logs].sort((left, right) => (left.topicId < right.topicId ? -1 : 1))) {
    const { topicId, startOffset, endOffset, highWatermark, damage } = log;
    const batches = damage === undefined ? await readBatches(log, deps) : [];
    const producers = log.producers.encode();
    if (damage === undefined && log.producers.endOffset !== endOffset)
      throw new Error(`${log.topic}: producers of ${log.producers.endOffset} offsets, the log has ${endOffset}`);
    logs.push({ topicId, startOffset, endOffset, highWatermark, damage: damage?.reason, batches, producers });
  }
  return logs;
}

async function readBatches(log: ReplicaLog, deps: ReadDeps): Promise<PlacedBatch[]> {
  const batches: PlacedBatch[] = [];
  let offset = log.startOffset;
  while (offset < log.endOffset) {
    const read = await log.read(offset, { limitOffset: log.endOffset, maxBytes: READ_BYTES, atLeastOne: true });
    for (const chunk of read.chunks) {
      forEachBatch(chunk, (position, sizeBytes) => {
        const batch = chunk.subarray(position, position + sizeBytes);
        const records = isCleaned(batch) ? recordsOf(batch, deps) : undefined;
        const sum = deps.checksum.crc32c(batch);
        batches.push({ base: baseOffsetAt(batch, 0), last: lastOffsetAt(batch, 0), sum, records });
      });
    }
    if (read.nextOffset <= offset)
      throw new Error(`${log.topic}: nothing to read at ${offset}, the end is ${log.endOffset}`);
    offset = read.nextOffset as Offset;
  }
  return batches;
}

/** Undefined when every promise is kept. */
export function faultOf(
  recovered: readonly RecoveredLog[],
  promises: readonly LogPromise[],
  keepsAll: boolean,
): string | undefined {
  for (const promise of promises) {
    const log = recovered.find((candidate) => candidate.topicId === promise.topicId);
    if (log === undefined) {
      if (promise.mustExist) return `${promise.topic} is gone`;
      continue;
    }
    if (log.damage !== undefined) return `${promise.topic} is damaged: ${log.damage}`;
    if (!promise.mustExist) continue;
    const required = keepsAll ? promise.writtenEnd : promise.durableEnd;
    if (log.endOffset < required) return `${promise.topic} ends at ${log.endOffset}, ${required} was promised`;
    if (log.startOffset > promise.startOffset)
      return `${promise.topic} starts at ${log.startOffset}, only ${promise.startOffset} was asked for`;
    const fault = contentFault(log, promise) ?? highWatermarkFault(log, promise);
    if (fault !== undefined) return `${promise.topic}: ${fault}`;
  }
  return undefined;
}

/** D-7: never above what is there, nor above what was known; and what was in the journal for certain is known still. */
function highWatermarkFault(log: RecoveredLog, promise: LogPromise): string | undefined {
  const { highWatermark, startOffset, endOffset } = log;
  const known = Math.max(promise.highWatermark, promise.before?.highWatermark ?? 0, startOffset);
  const least = Math.max(promise.storedHighWatermark, startOffset);
  if (highWatermark >= least && highWatermark <= Math.min(known, endOffset)) return undefined;
  return `high watermark ${highWatermark} of ${startOffset} to ${endOffset}, known were ${least} to ${known}`;
}

export function contentFault(log: RecoveredLog, promise: LogPromise): string | undefined {
  const of = promise.isCompacted ? compactedMismatch : mismatch;
  const now = of(log, promise.batches.slice(0, promise.count));
  if (now === undefined || promise.before === undefined) return now;
  return of(log, promise.before.batches.slice(0, promise.before.count));
}

function compactedMismatch(log: RecoveredLog, accepted: readonly TracedBatch[]): string | undefined {
  return gapIn(log) ?? compactionFault(log.batches, accepted, log) ?? producersFault(log, accepted);
}

/** Invariant 4: also where compaction was. */
function gapIn(log: RecoveredLog): string | undefined {
  let expected = log.batches[0]?.base ?? log.endOffset;
  if (expected > log.startOffset) return `begins with offset ${expected}, its start is ${log.startOffset}`;
  for (const batch of log.batches) {
    if (batch.base !== expected) return `offset ${expected} is missing`;
    expected = batch.last + 1;
  }
  return expected === log.endOffset ? undefined : `offset ${expected} is missing, the end is ${log.endOffset}`;
}

/** The log must hold a run of the accepted batches, each byte-identical, without a gap up to its end. */
function mismatch(log: RecoveredLog, accepted: readonly TracedBatch[]): string | undefined {
  const byBase = new Map(accepted.map((batch) => [batch.base, batch]));
  const gap = gapIn(log);
  if (gap !== undefined) return gap;
  for (const batch of log.batches) {
    const original = byBase.get(batch.base);
    if (original === undefined || original.last !== batch.last)
      return `a batch at ${batch.base} that was never accepted`;
    if (original.sum !== batch.sum) return `the batch at ${batch.base} has other bytes`;
  }
  return producersFault(log, accepted);
}

/** Invariant 25: what is known of producers is what all batches say that were ever in the log, also of those below its start (D-15). */
function producersFault(log: RecoveredLog, batches: readonly TracedBatch[]): string | undefined {
  const table = new ProducerTable();
  for (const { last, sequenced } of batches) if (last < log.endOffset) table.observe(sequenced);
  if (bytesEqual(table.encode(), log.producers)) return undefined;
  // Of a batch that compaction was at a start does not know the content that its producer sent.
  const found = ProducerTable.decode(log.producers, log.endOffset);
  return found?.equals(table) === true
    ? undefined
    : `its producers are not those of its batches up to ${log.endOffset}`;
}

export function summary(logs: readonly RecoveredLog[]): string {
  return logs
    .map((log) => `${log.topicId}[${log.startOffset}, ${log.endOffset})${log.damage === undefined ? "" : " damaged"}`)
    .join(" ");
}
