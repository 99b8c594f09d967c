// A metadata store over memory: opened, written, crashed, and what it is said to hold.
import type { DiskImage } from "../../src/sim/disk-image.ts";
import { type DirectoryId, toNodeId, UUID_BYTES, uuidFromBytes } from "../../src/model/ids.ts";
import { openRaftStore } from "../../src/storage/raft-store.ts";
import type {
  RaftOwner,
  RaftStore,
  RaftWrite,
  StoredEntry,
  StoredHardState,
  StoredSnapshotMeta,
} from "../../src/storage/raft-types.ts";
import type { StorageDeps } from "../../src/storage/types.ts";
import { MemoryFiles } from "./memory-files.ts";
import { makeDeps } from "./support.ts";

/** The node and directory that `openStore` makes, whose entropy begins anew each time. */
export const OWNER: RaftOwner = { nodeId: toNodeId(1), directoryId: firstDrawn() };
function firstDrawn(): DirectoryId {
  const bytes = new Uint8Array(UUID_BYTES);
  makeDeps(new MemoryFiles()).entropy.fill(bytes);
  return uuidFromBytes(bytes);
}

export const METADATA = "/data/metadata";
export const STATE = `${METADATA}/quorum-state`;
export const logPath = (base: number): string => `${METADATA}/${String(base).padStart(20, "0")}.log`;
export const snapshotPath = (end: number, term: number): string =>
  `${METADATA}/${String(end).padStart(20, "0")}-${String(term).padStart(10, "0")}.snapshot`;

/** The data directory is the log store's to make durable. */
export async function freshFiles(): Promise<MemoryFiles> {
  const files = new MemoryFiles();
  await files.makeDirectory("/data");
  await files.syncDirectory("/");
  return files;
}

export function openRaft(
  files: MemoryFiles,
  deps: StorageDeps = makeDeps(files),
  segmentBytes = 480,
  owner: RaftOwner = OWNER,
): Promise<RaftStore> {
  return openRaftStore(deps, { directory: METADATA, segmentBytes, owner });
}

/** The next process on the same disk. */
export const reopen = (image: DiskImage): Promise<RaftStore> => openRaft(new MemoryFiles(image));

const NOTHING: RaftWrite = { hardState: null, resetLogTo: null, cutSuffixTo: null, entries: [], cutPrefixTo: null };
export const writeOf = (parts: Partial<RaftWrite>): RaftWrite => ({ ...NOTHING, ...parts });
export const vote = (term: number, votedFor: string | null = null): StoredHardState => ({ term, votedFor });

/** Entries [from, to) of one term; `fill` tells those of different histories apart. */
export function entriesOf(from: number, to: number, term: number, fill = term): StoredEntry[] {
  return Array.from({ length: to - from }, (_, at) => {
    const index = from + at;
    if (index % 7 === 3) return { index, term, kind: "leaderStart", bytes: new Uint8Array(0) };
    const kind = index % 5 === 4 ? "configuration" : "command";
    return { index, term, kind, bytes: new Uint8Array(10 + (index % 3)).fill(fill) };
  });
}

export const append = (store: RaftStore, entries: readonly StoredEntry[]): Promise<void> =>
  store.write(writeOf({ entries }));

export function metaOf(end: number, lastTerm: number, sizeBytes: number): StoredSnapshotMeta {
  return { end, lastTerm, sizeBytes, configuration: Uint8Array.of(1, 2, end) };
}

export function snapshotBytes(meta: StoredSnapshotMeta): Uint8Array {
  return Uint8Array.from({ length: meta.sizeBytes }, (_, at) => (at * 31 + meta.end) & 0xff);
}

/** Written in pieces of `pieceBytes`. */
export async function saveSnapshot(store: RaftStore, meta: StoredSnapshotMeta, pieceBytes = 50_000): Promise<void> {
  const sink = await store.beginSnapshot(meta);
  const bytes = snapshotBytes(meta);
  for (let at = 0; at < bytes.length; at += pieceBytes) await sink.write(at, bytes.subarray(at, at + pieceBytes));
  await sink.finish();
}

/** "index/term kind fill", one per entry. */
export function textOf(entries: readonly StoredEntry[]): string[] {
  return entries.map(({ index, term, kind, bytes }) => `${index}/${term} ${kind} ${bytes.length}x${bytes[0] ?? "-"}`);
}
