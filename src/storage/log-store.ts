// Opening a data directory: lock it, refuse what is not this node's (touching nothing), recover, and only then serve.
import { OttlaError } from "../model/errors.ts";
import { UUID_BYTES, type Uuid, uuidFromBytes } from "../model/ids.ts";
import { FileError, type FileHandle } from "../ports/files.ts";
import { datasync, isNoSpace, openingFailure, syncDirectory } from "./faults.ts";
import { CHECKPOINT_DIR, JOURNAL_DIR, join, RESERVE, SUPERBLOCK } from "./paths.ts";
import type { JournalFile } from "./journal.ts";
import { commitState, recover } from "./recovery.ts";
import { emptyFile, listOrEmpty, orClose, unlinkIfThere, withFile } from "./file-work.ts";
import { LogStoreImpl } from "./store.ts";
import {
  encodeSuperblock,
  type FoundSuperblock,
  readSuperblockAt,
  SLOT_BYTES,
  type Superblock,
  twinOf,
  writeSlot,
  writeSuperblock,
} from "./superblock.ts";
import type { LogStore, RestartKind, StorageConfig, StorageDeps } from "./types.ts";

const SUPERBLOCK_NEW = `${SUPERBLOCK}.new`;
/** What may be in a directory whose first start was cut short. */
const OWN_NAMES = new Set([JOURNAL_DIR, CHECKPOINT_DIR, RESERVE, SUPERBLOCK_NEW, "lost+found"]);
const isLockName = (name: string): boolean => /^\.?lock\b/.test(name);

/** Rejects with OttlaError: DATA_DIR_*, DATA_DAMAGED, STORAGE_FULL, DISK_FAILED ("during recovery: ..."). */
export async function openLogStore(deps: StorageDeps, config: StorageConfig): Promise<LogStore> {
  try {
    return await openOnce(deps, config);
  } catch (thrown) {
    if (!isNoSpace(thrown) || !(await giveUpReserve(deps, config))) throw openingFailure(thrown, config.directory);
  }
  try {
    return await openOnce(deps, config);
  } catch (thrown) {
    throw openingFailure(thrown, config.directory);
  }
}

async function giveUpReserve(deps: StorageDeps, config: StorageConfig): Promise<boolean> {
  try {
    return (await emptyFile(deps.files, join(config.directory, RESERVE))) > 0;
  } catch {
    return false;
  }
}

async function openOnce(deps: StorageDeps, config: StorageConfig): Promise<LogStore> {
  await inspect(deps, config);
  await deps.files.makeDirectory(config.directory);
  const lock = await deps.files.lockDirectory(config.directory);
  if (lock.kind === "held") {
    throw new OttlaError("DATA_DIR_LOCKED", `${config.directory} is in use by the process with pid ${lock.ownerPid}`);
  }
  try {
    const found = await inspect(deps, config);
    const store = new LogStoreImpl(deps, config);
    const { superblockFile, restart, superblock, journalFile } =
      found === undefined ? await initialise(store) : await reopen(store, found);
    await store.start({ superblock, superblockFile, journalFile, restart, releaseLock: () => lock.release() });
    return store;
  } catch (thrown) {
    await lock.release().catch(() => undefined);
    throw thrown;
  }
}

/** What the directory is, without touching it: the superblock, or undefined when it is empty or was never finished. */
async function inspect(deps: StorageDeps, config: StorageConfig): Promise<FoundSuperblock | undefined> {
  const entries = await listOrEmpty(deps.files, config.directory);
  if (!entries.some((entry) => entry.name === SUPERBLOCK)) {
    const foreign = entries.find((entry) => !OWN_NAMES.has(entry.name) && !isLockName(entry.name));
    if (foreign === undefined) return undefined;
    if (entries.some((entry) => entry.name === JOURNAL_DIR) && foreign.kind === "directory") {
      throw new OttlaError("DATA_DAMAGED", `${config.directory} has lost its ${SUPERBLOCK}: it holds ${foreign.name}`);
    }
    throw new OttlaError(
      "DATA_DIR_FOREIGN",
      `${config.directory} is not empty and no data directory of Ottla: it holds ${foreign.name}`,
    );
  }
  const path = join(config.directory, SUPERBLOCK);
  const found = await readSuperblockAt(deps, path);
  const superblock = found.block;
  if (superblock.nodeId !== config.nodeId) {
    throw new OttlaError(
      "DATA_DIR_FOREIGN",
      `${config.directory} belongs to node ${superblock.nodeId}, this is node ${config.nodeId}`,
    );
  }
  const { clusterId } = superblock;
  if (config.clusterId !== undefined && clusterId !== null && clusterId !== config.clusterId) {
    throw new OttlaError(
      "DATA_DIR_FOREIGN",
      `${config.directory} belongs to cluster ${clusterId}, not ${config.clusterId}`,
    );
  }
  return found;
}

interface Opened {
  readonly superblock: Superblock;
  readonly journalFile: JournalFile;
  readonly superblockFile: FileHandle;
  readonly restart: RestartKind;
}

function newUuid(deps: StorageDeps): Uuid {
  const bytes = new Uint8Array(UUID_BYTES);
  deps.entropy.fill(bytes);
  return uuidFromBytes(bytes);
}

/** A new directory: its superblock appears last and whole. */
async function initialise(store: LogStoreImpl): Promise<Opened> {
  const { deps, config } = store;
  const { files } = deps;
  for (const name of [JOURNAL_DIR, CHECKPOINT_DIR]) await files.makeDirectory(join(config.directory, name));
  const superblock: Superblock = {
    counter: 0,
    generation: 0,
    clusterId: null,
    nodeId: config.nodeId,
    directoryId: newUuid(deps),
    nextLogId: 1,
    bootId: deps.bootId,
    isClean: false,
    brokerEpoch: null,
  };
  const path = join(config.directory, SUPERBLOCK);
  let committed = superblock;
  const journalFile = await commitState(store, {
    superblock,
    generation: 1,
    evidence: undefined,
    commit: async (next) => {
      committed = twinOf(next);
      const fresh = join(config.directory, SUPERBLOCK_NEW);
      await unlinkIfThere(files, fresh);
      await withFile(files, { path: fresh, mode: "open-or-create" }, async (handle) => {
        const slots: Uint8Array[] = [new Uint8Array(SLOT_BYTES), new Uint8Array(SLOT_BYTES)];
        for (const block of [next, committed]) slots[block.counter % 2] = encodeSuperblock(block, deps.checksum);
        await handle.write(0, slots);
        await datasync(handle);
      });
      await files.rename(fresh, path);
      await syncDirectory(files, config.directory);
    },
  });
  return orClose(journalFile.handle, async () => {
    await syncParent(store);
    return { superblock: committed, journalFile, superblockFile: await files.open(path, "write"), restart: "first" };
  });
}

/** The directory itself may be new in its parent. A parent that may not be opened is not ours to sync. */
async function syncParent(store: LogStoreImpl): Promise<void> {
  const { directory } = store.config;
  const slash = directory.lastIndexOf("/");
  const parent = slash < 0 ? "." : directory.slice(0, slash) || "/";
  try {
    await store.deps.files.syncDirectory(parent);
  } catch (thrown) {
    if (!(thrown instanceof FileError) || thrown.kind === "io") throw thrown;
  }
}

async function reopen(store: LogStoreImpl, { block: found, passedOver }: FoundSuperblock): Promise<Opened> {
  const { deps, config } = store;
  const path = join(config.directory, SUPERBLOCK);
  if (passedOver !== undefined) deps.logger.warn("superblock_slot_damaged", { file: path, ...passedOver });
  const superblockFile = await deps.files.open(path, "write");
  try {
    const superblock: Superblock = { ...found, bootId: deps.bootId, isClean: false };
    let committed = superblock;
    const journalFile = await recover(store, {
      superblock,
      prove: () => writeSlot(superblockFile, found, deps.checksum),
      commit: async (next) => {
        // The slot found may be in the page cache only, after a sync that failed (D-13): the next write goes to the other slot, which must
        // not be the last good one on the disk.
        await writeSlot(superblockFile, found, deps.checksum);
        committed = await writeSuperblock(superblockFile, next, deps.checksum);
      },
    });
    return { superblock: committed, journalFile, superblockFile, restart: restartOf(found, deps.bootId) };
  } catch (thrown) {
    await superblockFile.close().catch(() => undefined);
    await store.handles.closeAll();
    throw thrown;
  }
}

/** D-6: what the last incarnation may have lost. */
function restartOf(found: Superblock, bootId: string): RestartKind {
  if (found.isClean) return "clean";
  return found.bootId === bootId ? "process-death" : "power-loss";
}
