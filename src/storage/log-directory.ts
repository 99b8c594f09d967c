// Making and removing the directory of a log. The directory says whose it is before the log's CREATE is in the journal (S-2).
import { failpoint } from "../base/failpoint.ts";
import type { LogId } from "../model/ids.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Files } from "../ports/files.ts";
import { datasync, isNotFound, isUnreadable, syncDirectory } from "./faults.ts";
import { deletedDirectory, join, PARTITION_METADATA, partitionDirectory } from "./paths.ts";
import { decodePartitionMetadata, encodePartitionMetadata, type PartitionMetadata } from "./partition-metadata.ts";
import { readWhole, withFile } from "./file-work.ts";

export interface DirectoryDeps {
  readonly files: Files;
  readonly checksum: Checksum;
}

/** Whose directory it is; undefined when it does not exist, cannot be read or does not say. */
export async function readPartitionMetadata(
  { files, checksum }: DirectoryDeps,
  directory: string,
): Promise<PartitionMetadata | undefined> {
  const path = join(directory, PARTITION_METADATA);
  try {
    return decodePartitionMetadata(await withFile(files, { path, mode: "read" }, readWhole), { path, checksum });
  } catch (thrown) {
    if (isUnreadable(thrown)) return undefined;
    throw thrown;
  }
}

/** Makes the directory of a new log; one that is left over under its name moves aside, under `spareId` when it does not say whose it is. */
export async function openLogDirectory(
  deps: DirectoryDeps,
  options: { readonly root: string; readonly metadata: PartitionMetadata; readonly spareId: LogId },
): Promise<void> {
  const { files, checksum } = deps;
  const { root, metadata } = options;
  const directory = join(root, partitionDirectory(metadata.topic, metadata.partition));
  await moveAside(deps, directory, options);
  await files.makeDirectory(directory);
  await withFile(files, { path: join(directory, PARTITION_METADATA), mode: "open-or-create" }, async (handle) => {
    await handle.truncate(0);
    await handle.write(0, [encodePartitionMetadata(metadata, checksum)]);
    await datasync(handle);
  });
  await syncDirectory(files, directory);
  await syncDirectory(files, root);
  failpoint("log-directory-made");
}

async function moveAside(
  deps: DirectoryDeps,
  directory: string,
  options: { readonly root: string; readonly metadata: PartitionMetadata; readonly spareId: LogId },
): Promise<void> {
  const { root, metadata, spareId } = options;
  const { files } = deps;
  try {
    await files.list(directory);
  } catch (thrown) {
    if (isNotFound(thrown)) return;
    throw thrown;
  }
  const found = await readPartitionMetadata(deps, directory);
  // Of nobody: it goes like a deleted log at the next start. Under the id of the new log it would be in the way when that one is deleted.
  const name = deletedDirectory(metadata.topic, metadata.partition, found?.logId ?? spareId);
  await files.rename(directory, join(root, name));
}

/** Renames the directory away, so that its name is free; gives its name from then on. */
export async function moveLogDirectory(
  files: Files,
  options: { readonly root: string; readonly log: Pick<PartitionMetadata, "topic" | "partition" | "logId"> },
): Promise<string> {
  const { root, log } = options;
  const deleted = join(root, deletedDirectory(log.topic, log.partition, log.logId));
  await files.rename(join(root, partitionDirectory(log.topic, log.partition)), deleted);
  await syncDirectory(files, root);
  failpoint("log-directory-renamed");
  return deleted;
}

/** Renames the directory away, then removes it. */
export async function removeLogDirectory(files: Files, options: Parameters<typeof moveLogDirectory>[1]): Promise<void> {
  await removeTree(files, await moveLogDirectory(files, options));
}

/** Removes a directory of plain files. */
export async function removeTree(files: Files, directory: string): Promise<void> {
  for (const entry of await files.list(directory)) await files.unlink(join(directory, entry.name));
  await files.removeDirectory(directory);
}
