// Writes the files that take a segment's place: `.cleaned` beside it, every one that a segment can have, synced with their directory.
import { assert } from "../base/assert.ts";
import type { FileHandle, Files } from "../ports/files.ts";
import { datasync, syncDirectory } from "./faults.ts";
import { withFile } from "./file-work.ts";
import { CLEANED_SUFFIX, IDENT_SUFFIX, LOG_SUFFIX, SIDECAR_SUFFIXES } from "./paths.ts";
import { giveUpCleaned } from "./replacement.ts";
import { emptyIndexes, replaceContent } from "./segment-indexes.ts";
import { newSegmentState, openSegment, type Segment, type SegmentState, stateOf } from "./segment.ts";
import type { Segments } from "./segments.ts";

/** Bytes held before they are written. */
const BUFFER_BYTES = 256 * 1024;

async function emptyFile(files: Files, path: string): Promise<FileHandle> {
  const handle = await files.open(path, "open-or-create");
  try {
    await handle.truncate(0);
    return handle;
  } catch (thrown) {
    handle.close().catch(() => undefined);
    throw thrown;
  }
}

export class ReplacementWriter {
  readonly #files: Files;
  readonly #segments: Segments;
  readonly #segment: Segment;
  readonly #handle: FileHandle;
  #chunks: Uint8Array[] = [];
  #heldBytes = 0;
  #writtenBytes = 0;
  #nextOffset: number;

  private constructor(files: Files, parts: { segments: Segments; segment: Segment; handle: FileHandle }) {
    this.#files = files;
    this.#segments = parts.segments;
    this.#segment = parts.segment;
    this.#handle = parts.handle;
    this.#nextOffset = parts.segment.base;
  }

  /**
   * Waits until no other replacement has the name. What follows is `finish` and `replace`, or `discard`, also after a rejection of `append` or `finish`.
   * `createdMs`: of the segment whose place it takes.
   */
  static async open(
    files: Files,
    segments: Segments,
    { base, createdMs }: { readonly base: number; readonly createdMs: number },
  ): Promise<ReplacementWriter> {
    await segments.cleanedNames.take(base);
    const segment = openSegment(segments.pathOf(base), newSegmentState(base, createdMs));
    emptyIndexes(segment);
    segments.identities.start(segment);
    const handle = await emptyFile(files, segment.path + LOG_SUFFIX + CLEANED_SUFFIX).catch((thrown: unknown) => {
      segments.cleanedNames.free(base);
      throw thrown;
    });
    return new ReplacementWriter(files, { segments, segment, handle });
  }

  get sizeBytes(): number {
    return this.#segment.sizeBytes;
  }

  /** One batch, or a run, that begins where the one before ended. The bytes must not change until `finish`. */
  async append(run: Uint8Array): Promise<void> {
    this.#nextOffset = this.#segments.note(this.#segment, run);
    this.#chunks.push(run);
    this.#heldBytes += run.length;
    if (this.#heldBytes >= BUFFER_BYTES) await this.#write();
  }

  async #write(): Promise<void> {
    const chunks = this.#chunks;
    const position = this.#writtenBytes;
    this.#writtenBytes += this.#heldBytes;
    this.#chunks = [];
    this.#heldBytes = 0;
    if (chunks.length > 0) await this.#handle.write(position, chunks);
  }

  /** Everything is durable under the `.cleaned` names: what `replace` takes. */
  async finish(endOffset: number): Promise<SegmentState> {
    assert(this.#nextOffset === endOffset, `a replacement that ends at ${this.#nextOffset}, not ${endOffset}`);
    await this.#write();
    await datasync(this.#handle);
    await this.#handle.close();
    this.#segments.indexes.seal(this.#segment);
    const contents = [
      ...this.#segments.indexes.encoded(this.#segment),
      { suffix: IDENT_SUFFIX, bytes: this.#segments.identities.encoded(this.#segment, endOffset) },
    ];
    for (const suffix of SIDECAR_SUFFIXES) {
      const bytes = contents.find((each) => each.suffix === suffix)?.bytes ?? new Uint8Array();
      const path = this.#segment.path + suffix + CLEANED_SUFFIX;
      await withFile(this.#files, { path, mode: "open-or-create" }, (handle) => replaceContent(handle, bytes));
    }
    await syncDirectory(this.#files, this.#segments.directory);
    return stateOf(this.#segment);
  }

  /** Instead of `finish`. */
  async discard(): Promise<void> {
    await this.#handle.close().catch(() => undefined);
    await giveUpCleaned(this.#files, this.#segments, this.#segment.base);
  }
}
