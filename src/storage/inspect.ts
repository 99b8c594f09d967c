// Looks at the files of a stopped node from outside: reads only, takes no lock, changes nothing. For `ottla log dump|verify`.
import { asOttlaError, OttlaError } from "../model/errors.ts";
import {
  compressionAt,
  isControlBatchAt,
  leaderEpochAt,
  maxTimestampAt,
  producerAt,
  recordCountAt,
} from "../model/record-batch.ts";
import { type ScannedBatch, scanBatches } from "./batch-scan.ts";
import { decodeEpochCheckpoint } from "./epoch-checkpoint.ts";
import { epochBefore } from "./epochs.ts";
import { isNotFound } from "./faults.ts";
import { decodeImage, type Image, type LogImage } from "./image.ts";
import { OffsetIndex } from "./offset-index.ts";
import {
  baseOffsetOf,
  CHECKPOINT_DIR,
  EPOCH_CHECKPOINT,
  imageName,
  INDEX_SUFFIX,
  join,
  LOG_SUFFIX,
  METADATA_DIR,
  partitionDirectory,
  SUPERBLOCK,
} from "./paths.ts";
import { type LogHistory, surveyJournals } from "./replay.ts";
import { slotRemark, verifyMetadata } from "./inspect-metadata.ts";
import { ProducersCheck } from "./inspect-producers.ts";
import type {
  BatchSummary,
  DirectoryReport,
  Fault,
  InspectDeps,
  LogReport,
  MetadataReport,
  Remark,
} from "./inspect-types.ts";
import { QUORUM_STATE } from "./quorum-state.ts";
import { readPartitionMetadata } from "./log-directory.ts";
import { readWhole, withFile } from "./file-work.ts";
import type { RaftOwner } from "./raft-types.ts";
import type { EpochEntry } from "./types.ts";
import { readSuperblock, type Superblock } from "./superblock.ts";

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
    ...producerAt(bytes, at),
    codec: compressionAt(bytes, at) ?? "unknown",
  };
}

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
interface Expectation {
  /** Bytes that a checkpoint proves; undefined: all of them, apart from a torn tail if `mayBeTorn`. */
  readonly provenBytes: number | undefined;
  readonly mayBeTorn: boolean;
  /** What a checkpoint says of the epochs of the offsets in [from, to). */
  readonly epochs: { readonly entries: readonly EpochEntry[]; readonly from: number; readonly to: number } | undefined;
  readonly producers: ProducersCheck | undefined;
}

/** Checks CRC, offsets, epochs and the index of one `.log` file. */
export function verifyLog(deps: InspectDeps, path: string): Promise<LogReport> {
  return verifyFile(deps, path, { provenBytes: undefined, mayBeTorn: false, epochs: undefined, producers: undefined });
}

async function verifyFile(deps: InspectDeps, path: string, expected: Expectation): Promise<LogReport> {
  const baseOffset = baseOffsetOf(path.slice(path.lastIndexOf("/") + 1))?.base;
  const index = await loadIndex(deps, path);
  const { epochs, producers } = expected;
  const check = new LogCheck(path, baseOffset, { index: index.entries, epochs, producers });
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
  check.finish();
  return check.report(size, index.fault);
}

async function loadIndex(
  deps: InspectDeps,
  path: string,
): Promise<{ entries: OffsetIndex | undefined; fault: Fault | undefined }> {
  const file = path.slice(0, -LOG_SUFFIX.length) + INDEX_SUFFIX;
  try {
    const entries = OffsetIndex.decode(await withFile(deps.files, { path: file, mode: "read" }, readWhole));
    if (entries !== undefined) return { entries, fault: undefined };
    const reason = "the entries do not increase, or the size is no multiple of 8";
    return { entries: undefined, fault: { file, position: undefined, offset: undefined, reason } };
  } catch (thrown) {
    if (!isNotFound(thrown)) throw thrown;
    return { entries: undefined, fault: undefined };
  }
}

/** Follows the batches of one file. */
class LogCheck {
  readonly #path: string;
  readonly #baseOffset: number;
  readonly #index: OffsetIndex | undefined;
  readonly #epochs: Expectation["epochs"];
  readonly #producers: Expectation["producers"];
  readonly #faults: Fault[] = [];
  #nextEntry = 0;
  #nextOffset: number | undefined;
  #epoch = -1;
  #batchCount = 0;
  #recordCount = 0;
  #sizeBytes = 0;

  constructor(
    path: string,
    baseOffset: number | undefined,
    known: Pick<Expectation, "epochs" | "producers"> & { readonly index: OffsetIndex | undefined },
  ) {
    this.#path = path;
    this.#baseOffset = baseOffset ?? 0;
    this.#nextOffset = baseOffset;
    this.#index = known.index;
    this.#epochs = known.epochs;
    this.#producers = known.producers;
  }

  fault(position: number, reason: string): void {
    this.#faults.push({ file: this.#path, position, offset: this.#nextOffset, reason });
  }

  visit(batch: ScannedBatch): boolean {
    const epoch = leaderEpochAt(batch.bytes, batch.at);
    if (this.#nextOffset !== undefined && batch.base !== this.#nextOffset) {
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
    this.#checkIndex(batch);
    this.#producers?.visit(batch);
    this.#epoch = epoch;
    this.#nextOffset = batch.last + 1;
    this.#batchCount++;
    this.#recordCount += recordCountAt(batch.bytes, batch.at);
    this.#sizeBytes += batch.sizeBytes;
    return true;
  }

  #checkIndex(batch: ScannedBatch): void {
    const index = this.#index;
    if (index === undefined || this.#nextEntry >= index.count) return;
    const position = index.positionAt(this.#nextEntry);
    if (position > batch.position) return;
    const last = this.#baseOffset + index.relativeAt(this.#nextEntry);
    if (position !== batch.position || last !== batch.last) {
      this.#indexFault(`entry ${this.#nextEntry} says that a batch up to offset ${last} starts at ${position}`);
    }
    this.#nextEntry++;
  }

  #indexFault(reason: string): void {
    const file = this.#path.slice(0, -LOG_SUFFIX.length) + INDEX_SUFFIX;
    this.#faults.push({ file, position: this.#nextEntry * 8, offset: undefined, reason });
  }

  /** All batches were visited. */
  finish(): void {
    if (this.#faults.length > 0 || this.#index === undefined || this.#nextEntry === this.#index.count) return;
    this.#indexFault(`${this.#index.count - this.#nextEntry} entries point behind the last batch`);
  }

  report(fileBytes: number, indexFault: Fault | undefined): LogReport {
    return {
      file: this.#path,
      baseOffset: this.#baseOffset,
      endOffset: this.#nextOffset ?? this.#baseOffset,
      batchCount: this.#batchCount,
      recordCount: this.#recordCount,
      sizeBytes: this.#sizeBytes,
      tailBytes: fileBytes - this.#sizeBytes,
      faults: indexFault === undefined ? this.#faults : [...this.#faults, indexFault],
    };
  }
}

/** Checks a data directory, a partition's directory or the metadata log's. Rejects with OttlaError when it is none of these. */
export async function verifyDirectory(deps: InspectDeps, directory: string): Promise<DirectoryReport> {
  const names = (await deps.files.list(directory)).map((entry) => entry.name);
  if (names.includes(SUPERBLOCK)) return verifyDataDirectory(deps, directory);
  if (names.includes(QUORUM_STATE)) return { kind: "metadata", directory, ...(await verifyMetadata(deps, directory)) };
  if (!names.some((name) => baseOffsetOf(name) !== undefined)) {
    throw new OttlaError("DATA_DIR_FOREIGN", `${directory} is no data directory of Ottla and holds no log`);
  }
  const found = await verifyPartition(deps, directory, undefined);
  return { kind: "partition", directory, metadata: undefined, ...found };
}

type Findings = Pick<DirectoryReport, "logs" | "faults">;

async function verifyPartition(
  deps: InspectDeps,
  directory: string,
  image: LogImage | undefined,
): Promise<Findings & { readonly remarks: readonly Remark[] }> {
  const faults: Fault[] = [];
  const logs: LogReport[] = [];
  const names = (await deps.files.list(directory)).map((entry) => entry.name);
  const found = names.flatMap((name) => (name.endsWith(LOG_SUFFIX) ? (baseOffsetOf(name)?.base ?? []) : []));
  const bases = image?.segments.map((segment) => segment.base) ?? found;
  const nameOf = (base: number): string => join(directory, String(base).padStart(20, "0") + LOG_SUFFIX);
  const epochs = image && { entries: image.epochs, from: image.startOffset, to: image.endOffset };
  const producers = await ProducersCheck.of(deps, directory, { found: names, named: image?.producerImages });
  let nextOffset: number | undefined;
  for (const [place, base] of bases.entries()) {
    const file = nameOf(base);
    if (!found.includes(base)) {
      faults.push({ file, position: undefined, offset: base, reason: "the file is missing" });
      continue;
    }
    const provenBytes = image?.segments[place]?.sizeBytes;
    const mayBeTorn = place === bases.length - 1;
    const report = await verifyFile(deps, file, { provenBytes, mayBeTorn, epochs, producers });
    logs.push(report);
    if (nextOffset !== undefined && base !== nextOffset) {
      faults.push({
        file,
        position: 0,
        offset: nextOffset,
        reason: `the segment starts at ${base} where ${nextOffset} should come`,
      });
    }
    // Behind a fault nothing can be said of what should come next.
    nextOffset = report.faults.length === 0 ? report.endOffset : undefined;
  }
  if (image !== undefined && nextOffset !== undefined && nextOffset !== image.endOffset) {
    faults.push({
      file: directory,
      position: undefined,
      offset: nextOffset,
      reason: `the log ends at ${nextOffset}, the checkpoint says ${image.endOffset}`,
    });
  }
  if (logs.every((log) => log.faults.length === 0)) producers.finish();
  faults.push(...producers.faults);
  const remarks = names.includes(EPOCH_CHECKPOINT) ? await verifyEpochs(deps, join(directory, EPOCH_CHECKPOINT)) : [];
  return { logs, faults, remarks: [...remarks, ...producers.remarks] };
}

/** Nothing reads this file, and it is not synced. */
async function verifyEpochs(deps: InspectDeps, file: string): Promise<Remark[]> {
  const epochs = decodeEpochCheckpoint(await withFile(deps.files, { path: file, mode: "read" }, readWhole));
  const isRising = epochs?.every((entry, place) => {
    const before = epochs[place - 1];
    return before === undefined || (entry.epoch > before.epoch && entry.startOffset > before.startOffset);
  });
  if (isRising === true) return [];
  return [{ file, position: 0, reason: "the leader epochs do not rise, or the text is damaged" }];
}

async function verifyDataDirectory(deps: InspectDeps, directory: string): Promise<DirectoryReport> {
  const faults: Fault[] = [];
  const logs: LogReport[] = [];
  const { owner, remarks, checkpointed } = await readCheckpoint(deps, directory, faults);
  for (const { image, history } of checkpointed) {
    const path = join(directory, partitionDirectory(image.spec.topic, image.spec.partition));
    try {
      if (image.damage !== undefined)
        faults.push({
          file: path,
          position: undefined,
          offset: image.damage.fromOffset,
          reason: `known as damaged: ${image.damage.reason}`,
        });
      const metadata = await readPartitionMetadata(deps, path);
      if (metadata?.logId !== image.logId)
        faults.push({ file: path, position: undefined, offset: undefined, reason: `does not hold log ${image.logId}` });
      else {
        const found = await verifyPartition(deps, path, expectedOf(image, history));
        merge({ logs, faults }, found);
        remarks.push(...found.remarks);
      }
    } catch (thrown) {
      faults.push({ file: path, position: undefined, offset: undefined, reason: asOttlaError(thrown).message });
    }
  }
  let metadata: MetadataReport | undefined;
  if ((await deps.files.list(directory)).some((entry) => entry.name === METADATA_DIR)) {
    const found = await verifyMetadata(deps, join(directory, METADATA_DIR), owner);
    merge({ logs, faults }, found);
    remarks.push(...found.remarks);
    metadata = found.metadata;
  }
  return { kind: "data directory", directory, logs, metadata, faults, remarks };
}

function merge(into: { readonly logs: LogReport[]; readonly faults: Fault[] }, found: Findings): void {
  into.logs.push(...found.logs);
  into.faults.push(...found.faults);
}

/** Undefined: the journal has cut the log since the checkpoint, which therefore says nothing of its files any more. */
function expectedOf(image: LogImage, history: LogHistory): LogImage | undefined {
  if (history.lowestCut !== undefined) return undefined;
  const segments = image.segments.filter(
    (_, place) => (image.segments[place + 1]?.base ?? image.endOffset) > history.startOffset,
  );
  return { ...image, segments };
}

interface CheckpointedLog {
  readonly image: LogImage;
  readonly history: LogHistory;
}

interface Checkpoint {
  /** Undefined: the superblock is damaged. */
  readonly owner: RaftOwner | undefined;
  readonly remarks: Remark[];
  readonly checkpointed: readonly CheckpointedLog[];
}

/** What superblock, image and journals say; their own faults are added to the list. */
async function readCheckpoint(deps: InspectDeps, directory: string, faults: Fault[]): Promise<Checkpoint> {
  const file = join(directory, SUPERBLOCK);
  try {
    const { block, passedOver } = await withFile(deps.files, { path: file, mode: "read" }, (handle) =>
      readSuperblock(handle, deps.checksum),
    );
    const remarks = passedOver === undefined ? [] : [slotRemark(file, passedOver)];
    return { owner: block, remarks, checkpointed: await readLogs(deps, { directory, superblock: block, faults }) };
  } catch (thrown) {
    faults.push({ file, position: undefined, offset: undefined, reason: asOttlaError(thrown).message });
    return { owner: undefined, remarks: [], checkpointed: [] };
  }
}

async function readLogs(
  deps: InspectDeps,
  known: { readonly directory: string; readonly superblock: Superblock; readonly faults: Fault[] },
): Promise<CheckpointedLog[]> {
  const { directory, superblock, faults } = known;
  let file = directory;
  try {
    file = join(join(directory, CHECKPOINT_DIR), imageName(superblock.generation));
    const image: Image = decodeImage(await withFile(deps.files, { path: file, mode: "read" }, readWhole), {
      path: file,
      checksum: deps.checksum,
    });
    file = join(directory, "journal");
    const { directoryId } = superblock;
    const survey = await surveyJournals({ ...deps, mode: "read" }, { root: directory, image, directoryId });
    for (const journal of survey.files) await journal.handle.close();
    if (survey.damage !== undefined)
      faults.push({ file, position: undefined, offset: undefined, reason: survey.damage });
    for (const logId of survey.strangers)
      faults.push({
        file,
        position: undefined,
        offset: undefined,
        reason: `the journal appends to log ${logId}, of which nothing speaks`,
      });
    return [...survey.histories.values()].flatMap((history) => {
      if (history.isDeleted || history.image === undefined) return [];
      if (history.damage !== undefined && history.image.damage === undefined) {
        faults.push({ file, position: undefined, offset: history.damage.fromOffset, reason: history.damage.reason });
      }
      return [{ image: history.image, history }];
    });
  } catch (thrown) {
    faults.push({ file, position: undefined, offset: undefined, reason: asOttlaError(thrown).message });
    return [];
  }
}
