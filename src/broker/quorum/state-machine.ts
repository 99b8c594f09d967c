// The image that the log makes, whoever brings the entries: the Raft core of a voter, or an observer's pulls.
import { assert } from "../../base/assert.ts";
import { decodeCommand } from "../../metadata/codec.ts";
import { MetadataImage } from "../../metadata/image.ts";
import type { MetadataRecord, VersionRange } from "../../metadata/records.ts";
import { OttlaError } from "../../model/errors.ts";
import { type Configuration, type Entry, entrySizeBytes, type SnapshotMeta } from "../../raft/types.ts";
import type { QuorumProbe } from "./probe.ts";
import type { Applied } from "./types.ts";

const NO_RECORDS: readonly MetadataRecord[] = [];

export interface StateMachineParts {
  readonly versions: VersionRange;
  readonly probe: QuorumProbe | undefined;
  readonly onApplied: (applied: Applied) => void;
}

interface Waiter {
  readonly end: number;
  readonly resolve: () => void;
  readonly reject: (error: OttlaError) => void;
}

/**
 * Shape:     everything below `end` is applied, each index once and in order.
 * Invariant: only committed entries come here, so what the core and a pull bring for one index is the same: the later one is skipped.
 */
export class StateMachine {
  readonly #parts: StateMachineParts;
  #image = new MetadataImage();
  #configuration: { readonly index: number; readonly configuration: Configuration } | null = null;
  #lastTerm = 0;
  /** Bytes of entries since the last snapshot that this node holds. */
  bytesSinceSnapshot = 0;
  #waiters: Waiter[] = [];
  #stopped: OttlaError | undefined;

  constructor(parts: StateMachineParts) {
    this.#parts = parts;
  }

  get image(): MetadataImage {
    return this.#image;
  }
  get end(): number {
    return this.#image.endOffset;
  }
  /** Term of the last entry applied; 0 = none. */
  get lastTerm(): number {
    return this.#lastTerm;
  }
  /** The newest committed configuration known here, and the index that it was in force from. */
  get configuration(): { readonly index: number; readonly configuration: Configuration } | null {
    return this.#configuration;
  }

  /** Throws DATA_DIR_NEWER or DATA_DAMAGED for what this build cannot apply (D-31): then this node must stop. */
  apply(entry: Entry): void {
    const { index } = entry;
    if (index < this.end) return;
    assert(index === this.end, `entry ${index} applied at ${this.end}`);
    const records = this.#recordsOf(entry);
    if (records.length === 0) this.#image.skip(index);
    else this.#image.apply(index, records);
    if (entry.kind === "configuration") this.#configuration = { index, configuration: entry.configuration };
    this.#lastTerm = entry.term;
    this.bytesSinceSnapshot += entrySizeBytes(entry);
    this.#tell({ index, records, isReset: false });
  }

  #recordsOf(entry: Entry): readonly MetadataRecord[] {
    switch (entry.kind) {
      case "command":
        return decodeCommand(entry.bytes, entry.index, this.#parts.versions);
      case "leaderStart":
      case "configuration":
        return NO_RECORDS;
    }
  }

  /** from scratch, so that what is not in the snapshot is gone. One that is not ahead changes nothing. */
  load(meta: Omit<SnapshotMeta, "sizeBytes">, bytes: Uint8Array): void {
    if (meta.end <= this.end) return;
    this.#image = this.check(meta, bytes);
    this.#lastTerm = meta.lastTerm;
    this.#configuration = { index: meta.end - 1, configuration: meta.configuration };
    this.bytesSinceSnapshot = 0;
    this.#tell({ index: meta.end - 1, records: NO_RECORDS, isReset: true });
  }

  /** The image that the snapshot holds. Throws as `load` does. */
  check({ end }: Pick<SnapshotMeta, "end">, bytes: Uint8Array): MetadataImage {
    const image = MetadataImage.load(bytes, this.#parts.versions);
    if (image.endOffset !== end)
      throw new OttlaError("DATA_DAMAGED", `the metadata snapshot of ${end} holds ${image.endOffset}`);
    return image;
  }

  /** Rejects when the quorum ends first. */
  waitForApplied(end: number): Promise<void> {
    if (end <= this.end) return Promise.resolve();
    if (this.#stopped !== undefined) return Promise.reject(this.#stopped);
    return new Promise((resolve, reject) => void this.#waiters.push({ end, resolve, reject }));
  }

  /** Nothing is applied after this. */
  stop(error: OttlaError): void {
    this.#stopped = error;
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const { reject } of waiters) reject(error);
  }

  #tell(applied: Applied): void {
    this.#parts.probe?.onApplied(this.#image);
    this.#parts.onApplied(applied);
    if (this.#waiters.length === 0) return;
    const due = this.#waiters.filter(({ end }) => end <= this.end);
    this.#waiters = this.#waiters.filter(({ end }) => end > this.end);
    for (const { resolve } of due) resolve();
  }
}
