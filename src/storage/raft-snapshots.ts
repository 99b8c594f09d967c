// The snapshots of one metadata directory: several may be kept, since one that is being sent must stay; the newest always is.
import { failpoint } from "../base/failpoint.ts";
import { assert } from "../base/assert.ts";
import type { FileHandle } from "../ports/files.ts";
import { asOttlaError, OttlaError } from "../model/errors.ts";
import {
  datasync,
  diskFailed,
  isNoSpace,
  isNotFound,
  isPassing,
  storageError,
  storageFull,
  syncDirectory,
} from "./faults.ts";
import { unlinkIfThere, withFile } from "./file-work.ts";
import { join } from "./paths.ts";
import { checkOwner } from "./quorum-state.ts";
import type { RaftOwner, RaftStoreOptions, SnapshotSink, StoredSnapshotMeta } from "./raft-types.ts";
import {
  BLOCK_BYTES,
  encodeSnapshotHead,
  isTemporary,
  readSnapshotBytes,
  readSnapshotHead,
  sealBlock,
  snapshotName,
  snapshotOf,
  temporaryName,
  verifySnapshot,
} from "./snapshot-file.ts";
import type { StorageDeps } from "./types.ts";

/** One of its own and one that arrives; more would be a host that forgets to abandon. */
const SINKS_MAX = 4;

type NamedSnapshot = Pick<StoredSnapshotMeta, "end" | "lastTerm">;

export class RaftSnapshots {
  readonly #deps: StorageDeps;
  readonly #directory: string;
  readonly owner: RaftOwner;
  /** By end. */
  readonly #kept = new Map<number, NamedSnapshot>();
  #sinks = 0;
  #nextNumber = 1;
  #newest: StoredSnapshotMeta | null = null;

  /** Called with a failure that is final. */
  onFailed: (error: OttlaError) => void = () => undefined;

  private constructor(deps: StorageDeps, { directory, owner }: RaftStoreOptions) {
    this.#deps = deps;
    this.#directory = directory;
    this.owner = owner;
  }

  /** Reads the newest one whole: damage of it refuses the start (DATA_DAMAGED), as does one of another disk (DATA_DIR_FOREIGN). Changes nothing. */
  static async open(deps: StorageDeps, options: RaftStoreOptions): Promise<RaftSnapshots> {
    const snapshots = new RaftSnapshots(deps, options);
    for (const { name } of await deps.files.list(options.directory)) {
      const found = snapshotOf(name);
      if (found !== undefined) snapshots.#kept.set(found.end, found);
    }
    const last = Math.max(...snapshots.#kept.keys());
    const newest = snapshots.#kept.get(last);
    if (newest !== undefined) snapshots.#newest = await snapshots.#verified(newest);
    return snapshots;
  }

  /** What an earlier process did not finish. */
  async removeTemporary(): Promise<void> {
    for (const { name } of await this.#deps.files.list(this.#directory))
      if (isTemporary(name)) await unlinkIfThere(this.#deps.files, join(this.#directory, name));
  }

  async #verified(named: NamedSnapshot): Promise<StoredSnapshotMeta> {
    const path = this.#path(named);
    const { meta, owner } = await withFile(this.#deps.files, { path, mode: "read" }, (handle) =>
      verifySnapshot(handle, this.#deps.checksum),
    );
    if (meta.end !== named.end || meta.lastTerm !== named.lastTerm)
      throw new OttlaError("DATA_DAMAGED", `${path} says that it ends at ${meta.end} in term ${meta.lastTerm}`);
    checkOwner(path, owner, this.owner);
    return meta;
  }

  get newest(): StoredSnapshotMeta | null {
    return this.#newest;
  }

  #path(named: NamedSnapshot): string {
    return join(this.#directory, snapshotName(named));
  }

  async begin(meta: StoredSnapshotMeta): Promise<SnapshotSink> {
    assert(this.#sinks < SINKS_MAX, `${this.#sinks} snapshots are being written`);
    this.#sinks++;
    const path = join(this.#directory, temporaryName(meta, this.#nextNumber++));
    try {
      const handle = await this.#deps.files.open(path, "open-or-create");
      return new Sink(this, { meta, path, handle });
    } catch (thrown) {
      this.#sinks--;
      throw this.failed(thrown);
    }
  }

  get deps(): StorageDeps {
    return this.#deps;
  }

  async publish(meta: StoredSnapshotMeta, temporary: string): Promise<void> {
    failpoint("snapshot-unnamed");
    await this.#deps.files.rename(temporary, this.#path(meta));
    failpoint("snapshot-named");
    await syncDirectory(this.#deps.files, this.#directory);
    this.#kept.set(meta.end, meta);
    if (meta.end >= (this.#newest?.end ?? 0)) this.#newest = meta;
  }

  onSinkEnded(): void {
    this.#sinks--;
  }

  /** What a failure of a file operation means for the one who asked; a final one is the store's, too. */
  failed(thrown: unknown): OttlaError {
    if (isNoSpace(thrown)) return storageFull(thrown);
    if (isPassing(thrown)) return storageError(`a snapshot could not be written: ${String(thrown)}`, thrown);
    const error = diskFailed(thrown);
    this.onFailed(error);
    return error;
  }

  async read(end: number, position: number, length: number): Promise<Uint8Array | undefined> {
    const named = this.#kept.get(end);
    if (named === undefined) return undefined;
    const { checksum, files, logger } = this.#deps;
    try {
      return await withFile(files, { path: this.#path(named), mode: "read" }, async (handle) =>
        readSnapshotBytes(handle, await readSnapshotHead(handle, checksum), { position, length, checksum }),
      );
    } catch (thrown) {
      if (isNotFound(thrown)) return undefined;
      if (isPassing(thrown)) throw storageError(`a snapshot could not be read: ${String(thrown)}`, thrown);
      logger.error("snapshot_damaged", { end, error: asOttlaError(thrown).message });
      return undefined;
    }
  }

  /** A crash in it leaves files that the next call removes. */
  async retain(ends: readonly number[]): Promise<void> {
    for (const named of [...this.#kept.values()]) {
      if (named.end === this.#newest?.end || ends.includes(named.end)) continue;
      this.#kept.delete(named.end);
      try {
        await unlinkIfThere(this.#deps.files, this.#path(named));
      } catch (thrown) {
        throw this.failed(thrown);
      }
    }
  }
}

class Sink implements SnapshotSink {
  readonly #snapshots: RaftSnapshots;
  readonly #meta: StoredSnapshotMeta;
  readonly #path: string;
  readonly #handle: FileHandle;
  #filePosition = 0;
  #position = 0;
  #block = new Uint8Array(BLOCK_BYTES);
  #blockBytes = 0;
  #state: "writing" | "failed" | "finished" | "abandoned" = "writing";

  constructor(
    snapshots: RaftSnapshots,
    opened: { readonly meta: StoredSnapshotMeta; readonly path: string; readonly handle: FileHandle },
  ) {
    this.#snapshots = snapshots;
    this.#meta = opened.meta;
    this.#path = opened.path;
    this.#handle = opened.handle;
  }

  async write(position: number, bytes: Uint8Array): Promise<void> {
    assert(this.#state === "writing", `a write to a snapshot that is ${this.#state}`);
    assert(position === this.#position, `bytes at ${position} of a snapshot that ends at ${this.#position}`);
    assert(position + bytes.length <= this.#meta.sizeBytes, "more bytes than the snapshot has");
    this.#position += bytes.length;
    try {
      for (let at = 0; at < bytes.length; ) {
        const count = Math.min(BLOCK_BYTES - this.#blockBytes, bytes.length - at);
        this.#block.set(bytes.subarray(at, at + count), this.#blockBytes);
        this.#blockBytes += count;
        at += count;
        if (this.#blockBytes === BLOCK_BYTES) await this.#flush();
      }
    } catch (thrown) {
      this.#state = "failed";
      throw this.#snapshots.failed(thrown);
    }
  }

  async #flush(): Promise<void> {
    const { checksum } = this.#snapshots.deps;
    const chunks: Uint8Array[] =
      this.#filePosition === 0 ? [encodeSnapshotHead(this.#meta, this.#snapshots.owner, checksum)] : [];
    if (this.#blockBytes > 0) chunks.push(sealBlock(this.#block.subarray(0, this.#blockBytes), checksum));
    this.#blockBytes = 0;
    if (chunks.length === 0) return;
    await this.#handle.write(this.#filePosition, chunks);
    for (const chunk of chunks) this.#filePosition += chunk.length;
  }

  async finish(): Promise<void> {
    assert(this.#state === "writing", `a snapshot that is ${this.#state} cannot be finished`);
    assert(this.#position === this.#meta.sizeBytes, `${this.#position} bytes of ${this.#meta.sizeBytes}`);
    try {
      await this.#flush();
      await datasync(this.#handle);
      await this.#snapshots.publish(this.#meta, this.#path);
    } catch (thrown) {
      this.#state = "failed";
      throw this.#snapshots.failed(thrown);
    }
    this.#end("finished");
    await this.#handle.close().catch(() => undefined);
  }

  async abandon(): Promise<void> {
    if (this.#state === "finished" || this.#state === "abandoned") return;
    this.#end("abandoned");
    await this.#handle.close().catch(() => undefined);
    // What cannot be removed now goes at the next start.
    await unlinkIfThere(this.#snapshots.deps.files, this.#path).catch(() => undefined);
  }

  #end(state: "finished" | "abandoned"): void {
    this.#state = state;
    this.#block = new Uint8Array(0);
    this.#snapshots.onSinkEnded();
  }
}
