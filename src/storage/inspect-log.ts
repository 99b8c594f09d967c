// Looks at one segment from outside: its batches, and what lies beside it.
import {
  attributesAt,
  baseTimestampAt,
  compressionAt,
  DELETE_HORIZON_BIT,
  isControlBatchAt,
  leaderEpochAt,
  maxTimestampAt,
  producerAt,
  recordCountAt,
} from "../model/record-batch.ts";
import { type ToldProducers, toldProducersAt } from "../model/producer-records.ts";
import { type ScannedBatch, scanBatches } from "./batch-scan.ts";
import { epochBefore } from "./epochs.ts";
import { withFile } from "./file-work.ts";
import type { ProducersCheck } from "./inspect-producers.ts";
import { type KnownSegment, SidecarCheck } from "./inspect-sidecars.ts";
import type { BatchSummary, Fault, InspectDeps, LogReport, Remark } from "./inspect-types.ts";
import { readPartitionMetadata } from "./log-directory.ts";
import { baseOffsetOf, LOG_SUFFIX } from "./paths.ts";
import type { EpochEntry } from "./types.ts";

function summaryOf(batch: ScannedBatch): BatchSummary {
  const { bytes, at, position, sizeBytes } = batch;
  return {
    position,
    sizeBytes,
    baseOffset: batch.base,
    lastOffset: batch.last,
    leaderEpoch: leaderEpochAt(bytes, at),
    recordCount: recordCountAt(bytes, at),
    maxTimestamp: maxTimestampAt(bytes, at),
    isControl: isControlBatchAt(bytes, at),
    deleteHorizonMs: horizonOf(bytes, at),
    told: toldOf(toldProducersAt(bytes, at)),
    ...producerAt(bytes, at),
    codec: compressionAt(bytes, at) ?? "unknown",
  };
}

const horizonOf = (bytes: Uint8Array, at: number): number | undefined =>
  (attributesAt(bytes, at) & DELETE_HORIZON_BIT) === 0 ? undefined : baseTimestampAt(bytes, at);

const toldOf = (told: ToldProducers | undefined): BatchSummary["told"] =>
  told && { kind: told.kind, producers: told.producers.length };

/** Visits the batches of a `.log` file up to the first that is not whole and intact, which is the fault returned. */
export async function dumpLog(
  deps: InspectDeps,
  path: string,
  visit: (batch: BatchSummary, bytes: Uint8Array) => void,
): Promise<Fault | undefined> {
  let nextOffset = baseOffsetOf(path.slice(path.lastIndexOf("/") + 1))?.base;
  const end = await withFile(deps.files, { path, mode: "read" }, async (handle) =>
    scanBatches(handle, {
      from: 0,
      end: await handle.size(),
      checksum: deps.checksum,
      visit: (batch) => {
        nextOffset = batch.last + 1;
        visit(summaryOf(batch), batch.bytes.subarray(batch.at, batch.at + batch.sizeBytes));
        return true;
      },
    }),
  );
  return end.kind === "end"
    ? undefined
    : { file: path, position: end.position, offset: nextOffset, reason: end.reason };
}

/** What is known of a file from elsewhere. */
export interface Expectation {
  /** Bytes that a checkpoint proves; undefined: all of them, apart from a torn tail if `mayBeTorn`. */
  readonly provenBytes: number | undefined;
  readonly mayBeTorn: boolean;
  /** What a checkpoint says of the epochs of the offsets in [from, to). */
  readonly epochs: { readonly entries: readonly EpochEntry[]; readonly from: number; readonly to: number } | undefined;
  readonly producers: ProducersCheck | undefined;
}

const baseOf = (path: string): number | undefined => baseOffsetOf(path.slice(path.lastIndexOf("/") + 1))?.base;

/** Checks CRC, offsets and epochs of one `.log` file, and what lies beside it. */
export async function verifyLog(
  deps: InspectDeps,
  path: string,
): Promise<LogReport & { readonly remarks: readonly Remark[] }> {
  const metadata = await readPartitionMetadata(deps, path.slice(0, Math.max(path.lastIndexOf("/"), 0)) || ".").catch(
    () => undefined,
  );
  const stem = path.slice(0, -LOG_SUFFIX.length);
  const expected = { provenBytes: undefined, mayBeTorn: false, epochs: undefined, producers: undefined };
  return verifySegment(
    deps,
    { stem, suffix: "", base: baseOf(path) ?? 0, state: undefined, owner: metadata },
    expected,
  );
}

export async function verifySegment(
  deps: InspectDeps,
  known: KnownSegment,
  expected: Expectation,
): Promise<LogReport & { readonly remarks: readonly Remark[] }> {
  const path = known.stem + LOG_SUFFIX + known.suffix;
  const sidecars = await SidecarCheck.of(deps, known);
  const check = new LogCheck(path, known.base, { ...expected, sidecars });
  const size = await withFile(deps.files, { path, mode: "read" }, async (handle) => {
    const fileBytes = await handle.size();
    const proven = expected.provenBytes ?? fileBytes;
    if (fileBytes < proven) check.fault(fileBytes, `the file has ${fileBytes} bytes, the checkpoint proves ${proven}`);
    const end = Math.min(fileBytes, proven);
    const options = { from: 0, end, checksum: deps.checksum, visit: (batch: ScannedBatch) => check.visit(batch) };
    const result = await scanBatches(handle, options);
    const isTorn = result.kind === "incomplete" && expected.mayBeTorn && expected.provenBytes === undefined;
    if (result.kind !== "end" && !isTorn) check.fault(result.position, result.reason);
    return fileBytes;
  });
  return { ...check.report(size), remarks: sidecars.remarks };
}

/** Follows the batches of one file. */
class LogCheck {
  readonly #path: string;
  readonly #baseOffset: number;
  readonly #sidecars: SidecarCheck;
  readonly #epochs: Expectation["epochs"];
  readonly #producers: Expectation["producers"];
  readonly #faults: Fault[] = [];
  #nextOffset: number;
  #epoch = -1;
  #batchCount = 0;
  #recordCount = 0;
  #sizeBytes = 0;

  constructor(
    path: string,
    base: number,
    known: Pick<Expectation, "epochs" | "producers"> & { readonly sidecars: SidecarCheck },
  ) {
    this.#path = path;
    this.#baseOffset = base;
    this.#nextOffset = base;
    this.#sidecars = known.sidecars;
    this.#epochs = known.epochs;
    this.#producers = known.producers;
  }

  fault(position: number, reason: string): void {
    this.#faults.push({ file: this.#path, position, offset: this.#nextOffset, reason });
  }

  visit(batch: ScannedBatch): boolean {
    const epoch = leaderEpochAt(batch.bytes, batch.at);
    if (batch.base !== this.#nextOffset) {
      this.fault(batch.position, `offset ${batch.base} where ${this.#nextOffset} should be`);
      return false;
    }
    if (epoch < this.#epoch) {
      this.fault(batch.position, `leader epoch ${epoch} after ${this.#epoch}`);
      return false;
    }
    const known = this.#epochs;
    if (known !== undefined && batch.last >= known.from && batch.last < known.to) {
      const expected = epochBefore(known.entries, batch.last + 1);
      if (epoch !== expected) {
        this.fault(batch.position, `leader epoch ${epoch}, the checkpoint says ${expected}`);
        return false;
      }
    }
    this.#sidecars.visit(batch);
    this.#producers?.visit(batch);
    this.#epoch = epoch;
    this.#nextOffset = batch.last + 1;
    this.#batchCount++;
    this.#recordCount += recordCountAt(batch.bytes, batch.at);
    this.#sizeBytes += batch.sizeBytes;
    return true;
  }

  /** All batches were visited. */
  report(fileBytes: number): LogReport {
    if (this.#faults.length === 0) this.#sidecars.finish();
    return {
      file: this.#path,
      baseOffset: this.#baseOffset,
      endOffset: this.#nextOffset,
      batchCount: this.#batchCount,
      recordCount: this.#recordCount,
      sizeBytes: this.#sizeBytes,
      tailBytes: fileBytes - this.#sizeBytes,
      faults: [...this.#faults, ...this.#sidecars.faults],
    };
  }
}
