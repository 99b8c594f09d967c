// What a checkpoint writes, in this order (D-12): segments and indexes synced, then their directories, then the image.
// The superblock comes after all of it; only then may the journals and the image before go.
import { failpoint } from "../base/failpoint.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Files } from "../ports/files.ts";
import { encodeEpochCheckpoint } from "./epoch-checkpoint.ts";
import { datasync, isNotFound, runLimited, syncDirectory } from "./faults.ts";
import type { HandleCache } from "./handle-cache.ts";
import { encodeImage, type Image } from "./image.ts";
import {
  CHECKPOINT_DIR,
  DAMAGED_SUFFIX,
  EPOCH_CHECKPOINT,
  generationOf,
  imageName,
  JOURNAL_DIR,
  join,
  LOG_SUFFIX,
  SPARE_JOURNAL,
} from "./paths.ts";
import type { ReplicaLogImpl } from "./replica-log.ts";
import { orMark, unlinkIfThere, withFile } from "./file-work.ts";
import type { Segment } from "./segment.ts";
import type { Segments } from "./segments.ts";

/** At most half of a thread pool of four in syncs (D-12). */
const SYNCS_MAX = 2;
const SYNCS_ALONE_MAX = 8;

/** `isAlone`: nothing else wants the disk. */
export const syncsAtOnce = (isAlone: boolean): number => (isAlone ? SYNCS_ALONE_MAX : SYNCS_MAX);

export interface CheckpointDeps {
  readonly files: Files;
  readonly handles: HandleCache;
  readonly checksum: Checksum;
  readonly directory: string;
}

/** Syncs everything of these logs that the image will speak for. */
export async function syncLogs(
  deps: CheckpointDeps,
  logs: Iterable<ReplicaLogImpl>,
  { isAlone }: { readonly isAlone: boolean },
): Promise<void> {
  await runLimited(logs, syncsAtOnce(isAlone), (log) => ofLog(log, () => syncLog(deps, log)));
}

/** What is missing is no failure of the disk: it is one of its log, unless it went with it (S-57). */
async function ofLog(log: ReplicaLogImpl, work: () => Promise<void>): Promise<void> {
  try {
    if (!log.isDeleted) await work();
  } catch (thrown) {
    if (!isNotFound(thrown)) throw thrown;
    if (!log.isDeleted) log.markUnflushable(thrown);
  }
}

async function syncLog(deps: CheckpointDeps, log: ReplicaLogImpl): Promise<void> {
  for (const segment of [...log.segments.all]) {
    try {
      await syncSegment(deps, log.segments, segment);
    } catch (thrown) {
      // A segment that a truncation or a raised log start removed meanwhile is no failure of the disk (S-57); one that is missing is one of its log.
      if (!isNotFound(thrown)) throw thrown;
      if (!log.isDeleted && log.segments.all.includes(segment)) log.markUnflushable(thrown);
    }
  }
  log.segments.indexes.forgetIdle(log.segments.all);
  log.segments.identities.forgetIdle(log.segments.all);
  if (!log.segments.isDirectoryDirty || log.isDeleted) return;
  log.segments.isDirectoryDirty = false;
  await orMark(syncDirectory(deps.files, log.segments.directory), () => {
    log.segments.isDirectoryDirty = true;
  });
}

/** For people and tools only, so they cost no sync and no start waits for them; a crash may tear one. */
export async function writeEpochFiles(
  deps: Pick<CheckpointDeps, "files">,
  logs: Iterable<ReplicaLogImpl>,
  { isAlone }: { readonly isAlone: boolean },
): Promise<void> {
  const dirty = [...logs].filter((log) => log.isEpochsDirty);
  await runLimited(dirty, syncsAtOnce(isAlone), (log) => ofLog(log, () => writeEpochs(deps, log)));
}

async function writeEpochs(deps: Pick<CheckpointDeps, "files">, log: ReplicaLogImpl): Promise<void> {
  const bytes = encodeEpochCheckpoint(log.epochs);
  const path = join(log.segments.directory, EPOCH_CHECKPOINT);
  log.isEpochsDirty = false;
  const written = withFile(deps.files, { path, mode: "open-or-create" }, async (handle) => {
    await handle.write(0, [bytes]);
    await handle.truncate(bytes.length);
  });
  await orMark(written, () => {
    log.isEpochsDirty = true;
  });
}

async function syncSegment(deps: CheckpointDeps, segments: Segments, segment: Segment): Promise<void> {
  if (!segments.all.includes(segment)) return;
  if (segment.isDirty) {
    segment.isDirty = false;
    // Without a descriptor it is not synced: the next checkpoint must not take it for durable.
    await orMark(deps.handles.use(segment.path + LOG_SUFFIX, "write", datasync), () => {
      segment.isDirty = true;
    });
  }
  if (await segments.indexes.save(segment)) segments.isDirectoryDirty = true;
  if (await segments.saveIdentity(segment)) segments.isDirectoryDirty = true;
  if (!segments.all.includes(segment)) await segments.removeLeftBehind(segment);
}

/** Writes beside, syncs, renames: the file is the old or the new one, never a part (S-3). The directory is synced by the caller. */
export async function replaceFile(files: Files, path: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${path}.tmp`;
  await withFile(files, { path: temporary, mode: "open-or-create" }, async (handle) => {
    await handle.truncate(0);
    await handle.write(0, [bytes]);
    await datasync(handle);
  });
  failpoint("checkpoint-image-unnamed");
  await files.rename(temporary, path);
}

export async function writeImage(deps: CheckpointDeps, image: Image): Promise<void> {
  const directory = join(deps.directory, CHECKPOINT_DIR);
  await replaceFile(deps.files, join(directory, imageName(image.generation)), encodeImage(image, deps.checksum));
  await syncDirectory(deps.files, directory);
}

/** Removes the journals and images of other generations than the superblock's. */
export async function removeOld(deps: CheckpointDeps, image: Pick<Image, "generation" | "evidence">): Promise<void> {
  await removeOldJournals(deps, image);
  const directory = join(deps.directory, CHECKPOINT_DIR);
  for (const { name } of await deps.files.list(directory)) {
    if (generationOf(name, "image") !== image.generation) await unlinkIfThere(deps.files, join(directory, name));
  }
}

/** One stays as the next journal's spare, unless there is one; journals that are evidence of damage are put aside. */
export async function removeOldJournals(
  deps: CheckpointDeps,
  image: Pick<Image, "generation" | "evidence">,
): Promise<void> {
  const { files } = deps;
  const { generation, evidence } = image;
  const directory = join(deps.directory, JOURNAL_DIR);
  const names = (await files.list(directory)).map((entry) => entry.name);
  let hasSpare = names.includes(SPARE_JOURNAL);
  for (const name of names) {
    const found = generationOf(name, "journal");
    if (found === undefined || found >= generation) continue;
    const path = join(directory, name);
    if (evidence !== undefined && found >= evidence.from && found <= evidence.to) {
      await files.rename(path, path + DAMAGED_SUFFIX);
    } else if (hasSpare) {
      await unlinkIfThere(files, path);
    } else {
      await files.rename(path, join(directory, SPARE_JOURNAL));
      hasSpare = true;
    }
  }
}
