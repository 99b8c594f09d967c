// For a cluster that has lost its quorum for ever: makes a stopped node the only voter of what its own log holds. What the others had
// committed and this one has not is given up, which is why nothing but an operator does it.
import { OttlaError } from "../model/errors.ts";
import { openingFailure } from "./faults.ts";
import { join, METADATA_DIR, SUPERBLOCK } from "./paths.ts";
import { openRaftStore } from "./raft-store.ts";
import type { RaftStore, StoredEntry } from "./raft-types.ts";
import { readSuperblockAt } from "./superblock.ts";
import type { StorageDeps, StoreIdentity } from "./types.ts";

/** The metadata store of a node that does not run. */
export interface StoppedNode {
  readonly identity: StoreIdentity;
  readonly store: RaftStore;
  /** Also releases the lock on the directory. */
  close(): Promise<void>;
}

/** Locks the data directory. Rejects with OttlaError: DATA_DIR_LOCKED, DATA_DIR_FOREIGN, DATA_DAMAGED, DATA_DIR_NEWER, ... */
export async function openStoppedNode(
  deps: StorageDeps,
  options: { readonly directory: string; readonly segmentBytes: number },
): Promise<StoppedNode> {
  const { directory, segmentBytes } = options;
  try {
    const lock = await deps.files.lockDirectory(directory);
    if (lock.kind === "held")
      throw new OttlaError("DATA_DIR_LOCKED", `${directory} is in use by the process with pid ${lock.ownerPid}`);
    try {
      const { clusterId, nodeId, directoryId } = await identityOf(deps, directory);
      const store = await openRaftStore(deps, {
        directory: join(directory, METADATA_DIR),
        segmentBytes,
        owner: { nodeId, directoryId },
      });
      const close = async (): Promise<void> => {
        await store.close();
        await lock.release();
      };
      return { identity: { clusterId, nodeId, directoryId }, store, close };
    } catch (thrown) {
      await lock.release().catch(() => undefined);
      throw thrown;
    }
  } catch (thrown) {
    throw openingFailure(thrown, directory);
  }
}

async function identityOf(deps: StorageDeps, directory: string): Promise<StoreIdentity> {
  const path = join(directory, SUPERBLOCK);
  const names = (await deps.files.list(directory)).map(({ name }) => name);
  if (!names.includes(SUPERBLOCK)) throw new OttlaError("DATA_DIR_FOREIGN", `${directory} has no ${SUPERBLOCK}`);
  const found = await readSuperblockAt(deps, path);
  if (found.passedOver !== undefined) deps.logger.warn("superblock_slot_damaged", { file: path, ...found.passedOver });
  return found.block;
}

/**
 * Appends `configuration`, which names this node as the only voter, and `command`, which says what was done, in a term of their own: at its
 * next start the node elects itself and commits everything below. Durable when it resolves. Rejects with INVALID_REQUEST when the store
 * knows no cluster.
 */
export async function rewriteForUnsafeRecovery(
  store: RaftStore,
  configuration: Uint8Array,
  command: Uint8Array,
): Promise<StoredEntry> {
  if (store.isEmpty)
    throw new OttlaError("INVALID_REQUEST", "this node's metadata log is empty: there is nothing to recover");
  const { hardState, log } = store.restored;
  const last = log.entries.at(-1);
  const term = Math.max(hardState.term, last?.term ?? log.startTerm) + 1;
  const index = log.start + log.entries.length;
  const entry: StoredEntry = { index, term, kind: "configuration", bytes: configuration };
  await store.write({
    hardState: { term, votedFor: null },
    resetLogTo: null,
    cutSuffixTo: null,
    entries: [entry, { index: index + 1, term, kind: "command", bytes: command }],
    cutPrefixTo: null,
  });
  return entry;
}
