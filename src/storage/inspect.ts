// Looks at the files of a stopped node from outside: reads only, takes no lock, changes nothing. For `ottla log dump|verify`.
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { PartitionIndex, TopicId } from "../model/ids.ts";
import { decodeEpochCheckpoint } from "./epoch-checkpoint.ts";
import { decodeImage, type Image, type LogImage } from "./image.ts";
import {
  baseOffsetOf,
  CHECKPOINT_DIR,
  EPOCH_CHECKPOINT,
  CLEANED_SUFFIX,
  imageName,
  join,
  LOG_SUFFIX,
  METADATA_DIR,
  offsetName,
  partitionDirectory,
  SUPERBLOCK,
} from "./paths.ts";
import { closeJournals, type LogHistory, surveyJournals } from "./replay.ts";
import { verifySegment } from "./inspect-log.ts";
import { slotRemark, verifyMetadata } from "./inspect-metadata.ts";
import { ProducersCheck } from "./inspect-producers.ts";
import type { DirectoryReport, Fault, InspectDeps, LogReport, MetadataReport, Remark } from "./inspect-types.ts";
import { QUORUM_STATE } from "./quorum-state.ts";
import { readPartitionMetadata } from "./log-directory.ts";
import { readWhole, withFile } from "./file-work.ts";
import type { RaftOwner } from "./raft-types.ts";
import { readSuperblockAt, type Superblock } from "./superblock.ts";

/** Checks a data directory, a partition's directory or the metadata log's. Rejects with OttlaError when it is none of these. */
export async function verifyDirectory(deps: InspectDeps, directory: string): Promise<DirectoryReport> {
  const names = (await deps.files.list(directory)).map((entry) => entry.name);
  if (names.includes(SUPERBLOCK)) return verifyDataDirectory(deps, directory);
  if (names.includes(QUORUM_STATE)) return { kind: "metadata", directory, ...(await verifyMetadata(deps, directory)) };
  if (!names.some((name) => baseOffsetOf(name) !== undefined)) {
    throw new OttlaError("DATA_DIR_FOREIGN", `${directory} is no data directory of Ottla and holds no log`);
  }
  const owner = await readPartitionMetadata(deps, directory).catch(() => undefined);
  const found = await verifyPartition(deps, { directory, owner, image: undefined });
  return { kind: "partition", directory, metadata: undefined, ...found };
}

type Findings = Pick<DirectoryReport, "logs" | "faults">;

async function verifyPartition(
  deps: InspectDeps,
  partition: {
    readonly directory: string;
    readonly owner: { readonly topicId: TopicId; readonly partition: PartitionIndex } | undefined;
    readonly image: LogImage | undefined;
  },
): Promise<Findings & { readonly remarks: readonly Remark[] }> {
  const { directory, owner, image } = partition;
  const remarks: Remark[] = [];
  const faults: Fault[] = [];
  const logs: LogReport[] = [];
  const names = (await deps.files.list(directory)).map((entry) => entry.name);
  const found = names.flatMap((name) => (name.endsWith(LOG_SUFFIX) ? (baseOffsetOf(name)?.base ?? []) : []));
  const bases = image?.segments.map((segment) => segment.base) ?? found;
  const stemOf = (base: number): string => join(directory, offsetName(base));
  const epochs = image && { entries: image.epochs, from: image.startOffset, to: image.endOffset };
  const producers = await ProducersCheck.of(deps, directory, { found: names, named: image?.producerImages });
  let nextOffset: number | undefined;
  for (const [place, base] of bases.entries()) {
    const state = image?.segments[place];
    const file = stemOf(base) + LOG_SUFFIX;
    // The checkpoint that names it may be younger than its own name.
    const cleaned = offsetName(base) + LOG_SUFFIX + CLEANED_SUFFIX;
    const suffix = state?.isSwapped === true && names.includes(cleaned) ? CLEANED_SUFFIX : "";
    if (suffix === "" && !found.includes(base)) {
      faults.push({ file, position: undefined, offset: base, reason: "the file is missing" });
      continue;
    }
    const expected = { provenBytes: state?.sizeBytes, mayBeTorn: place === bases.length - 1, epochs, producers };
    const { remarks: beside, ...report } = await verifySegment(
      deps,
      { stem: stemOf(base), suffix, base, state, owner },
      expected,
    );
    remarks.push(...beside);
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
  if (names.includes(EPOCH_CHECKPOINT)) remarks.push(...(await verifyEpochs(deps, join(directory, EPOCH_CHECKPOINT))));
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
        const found = await verifyPartition(deps, {
          directory: path,
          owner: image.spec,
          image: expectedOf(image, history),
        });
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
    const { block, passedOver } = await readSuperblockAt(deps, file);
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
    await closeJournals(survey.files);
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
