// One compaction of one log: a map of the keys of its dirty part, then every group of segments up to there written anew without what the map has
// a later record of (S-35, S-36). What comes of it takes the place of the segments with the next checkpoint.
import { assert } from "../../base/assert.ts";
import { mutant } from "../../base/mutant.ts";
import { CLEANUP } from "../../model/config-values.ts";
import {
  attributesAt,
  baseOffsetAt,
  CONTROL_BIT,
  DECOMPRESSED_BYTES_MAX,
  lastOffsetAt,
  recordCountAt,
} from "../../model/record-batch.ts";
import { decodeRecords } from "../../model/records.ts";
import type { ReplicaLogImpl } from "../replica-log.ts";
import { ReplacementWriter } from "../replacement-writer.ts";
import type { SegmentView, StorageDeps } from "../types.ts";
import { type FilterRules, type Filtered, filterBatch } from "./batch-filter.ts";
import { emptied } from "./empty-batch.ts";
import { EmptyMerger } from "./empty-merger.ts";
import { KeyMap } from "./key-map.ts";
import { type Cleanable, groupSegments, type SegmentGroup } from "./plan.ts";

/** Read at a time: what is held of a log beside its keys, one batch and its records. */
const STEP_BYTES = 1024 * 1024;
/** So long others wait for batches that are opened, at most, but for a single one: few bytes may be many when they are decompressed. */
const TURN_MS = 5;

export interface PassHost {
  readonly deps: Pick<StorageDeps, "files" | "checksum" | "codecs" | "clock" | "entropy">;
  readonly dedupeBytes: number;
  /** Waits for what was read or written; throws when the store ends. */
  pace(sizeBytes: number): Promise<void>;
  /** Lets others have their turn. */
  breathe(): Promise<void>;
}

export interface PassResult {
  /** The last offset that was looked at. */
  readonly mapEnd: number;
  readonly keys: number;
  readonly readBytes: number;
  readonly writtenBytes: number;
  readonly removed: number;
  readonly keyless: number;
  readonly unreadable: number;
  readonly segmentsBefore: number;
  readonly segmentsAfter: number;
  /** Whether all of it took its place. */
  readonly isDone: Promise<boolean>;
}

type Tally = { -readonly [Key in Exclude<keyof PassResult, "isDone" | "mapEnd">]: number };

export function compact(log: ReplicaLogImpl, cleanable: Cleanable, host: PassHost): Promise<PassResult> {
  return new Pass(log, cleanable, host).run();
}

const isControl = (batch: Uint8Array): boolean => (attributesAt(batch, 0) & CONTROL_BIT) !== 0;

class Pass {
  readonly #log: ReplicaLogImpl;
  readonly #cleanable: Cleanable;
  readonly #host: PassHost;
  readonly #map: KeyMap;
  /** Batches that leave a window meanwhile keep their header until the next pass. */
  readonly #inWindow: ReadonlySet<number>;
  /** As it was when `#inWindow` was: who is forgotten meanwhile still has his headers. */
  readonly #forgottenMaxId: number;
  readonly #truncations: number;
  readonly #tally: Tally = {
    keys: 0,
    readBytes: 0,
    writtenBytes: 0,
    removed: 0,
    keyless: 0,
    unreadable: 0,
    segmentsBefore: 0,
    segmentsAfter: 0,
  };

  constructor(log: ReplicaLogImpl, cleanable: Cleanable, host: PassHost) {
    this.#log = log;
    this.#cleanable = cleanable;
    this.#host = host;
    this.#truncations = log.truncations;
    this.#inWindow = log.producers.windowOffsets();
    this.#forgottenMaxId = log.producers.settledForgottenMaxId;
    const drawn = new Uint8Array(4);
    host.deps.entropy.fill(drawn);
    const seed = new DataView(drawn.buffer).getUint32(0);
    this.#map = new KeyMap({ maxBytes: host.dedupeBytes, seed });
  }

  async run(): Promise<PassResult> {
    const log = this.#log;
    const mapEnd = await this.#mapKeys();
    this.#tally.keys = this.#map.size;
    const settled: Promise<boolean>[] = [];
    const closed = log.segmentViews().filter(({ endOffset }) => endOffset <= this.#cleanable.endOffset);
    const rules = this.#rules(mapEnd);
    for (const group of groupSegments(closed, log.segments.settings, mapEnd)) {
      // S-44: another policy now: nothing more is taken from it.
      if ((log.segments.settings.cleanupPolicy & CLEANUP.COMPACT) === 0) settled.push(Promise.resolve(false));
      else settled.push((await this.#group(group, rules)).isDone);
    }
    const isDone = Promise.all(settled).then((all) => {
      const isWhole = all.every((each) => each) && log.truncations === this.#truncations;
      if (isWhole) log.noteCleaned(mapEnd + 1);
      return isWhole;
    });
    return { ...this.#tally, mapEnd, isDone };
  }

  #rules(mapEnd: number): FilterRules {
    const { clock } = this.#host.deps;
    const { firstDirty } = this.#cleanable;
    return {
      lastOffsetOf: (key) => this.#map.get(key),
      mapEnd,
      firstDirty,
      nowMs: clock.wallMs(),
      deleteRetentionMs: this.#log.segments.settings.deleteRetentionMs,
    };
  }

  /** The batches of [offset, endOffset), some at a time. */
  async *#batches(offset: number, endOffset: number): AsyncGenerator<Uint8Array> {
    const { deps } = this.#host;
    const breathe = (): Promise<void> => this.#host.breathe();
    let turnMs = deps.clock.monoMs();
    for (let next = offset; next < endOffset; ) {
      const batches = await this.#log.copyBatches(next, { endOffset, maxBytes: STEP_BYTES });
      assert(batches.length > 0, `nothing of the log at ${next}, below ${endOffset}`);
      let sizeBytes = 0;
      for (const batch of batches) {
        sizeBytes += batch.length;
        next = lastOffsetAt(batch, 0) + 1;
        if (deps.clock.monoMs() - turnMs >= TURN_MS) {
          await breathe();
          turnMs = deps.clock.monoMs();
        }
        yield batch;
      }
      this.#tally.readBytes += sizeBytes;
      await this.#host.pace(sizeBytes);
      turnMs = deps.clock.monoMs();
    }
  }

  /** S-35: the last offset whose key is in the map, or has none; all of the dirty part unless the map is full. */
  async #mapKeys(): Promise<number> {
    const { firstDirty, endOffset } = this.#cleanable;
    let mapEnd = firstDirty - 1;
    for await (const batch of this.#batches(firstDirty, endOffset)) {
      const full = this.#mapBatch(batch, firstDirty);
      if (full !== undefined) return full - 1;
      mapEnd = lastOffsetAt(batch, 0);
    }
    return mapEnd;
  }

  /** Undefined: all of it is in; else the offset that is not. */
  #mapBatch(batch: Uint8Array, firstDirty: number): number | undefined {
    if (isControl(batch) || recordCountAt(batch, 0) === 0) return undefined;
    const { checksum, codecs } = this.#host.deps;
    try {
      const records = decodeRecords(batch, { checksum, codecs, decompressedBytesMax: DECOMPRESSED_BYTES_MAX });
      const cursor = records.cursor();
      while (cursor.next()) {
        const { key, offset } = cursor;
        if (key === null || offset < firstDirty) continue;
        if (!this.#map.put(key, offset)) return offset;
      }
    } catch {
      // It stays as it is: nobody can read it, nor its keys.
    }
    return undefined;
  }

  async #group(group: SegmentGroup, rules: FilterRules): Promise<Pick<PassResult, "isDone">> {
    const log = this.#log;
    const { base, endOffset, segments } = group;
    const { createdMs } = segments.at(-1) as SegmentView;
    this.#tally.segmentsBefore += segments.length;
    this.#tally.segmentsAfter++;
    const writer = await ReplacementWriter.open(this.#host.deps.files, log.segments, { base, createdMs });
    try {
      const isChanged = await this.#write(group, rules, writer);
      if (!isChanged && segments.length === 1) {
        await writer.discard();
        return { isDone: Promise.resolve(true) };
      }
      const state = await writer.finish(endOffset);
      // What was cut may have come back as other records, in segments of the same bounds.
      if (log.truncations !== this.#truncations) {
        await writer.discard();
        return { isDone: Promise.resolve(false) };
      }
      this.#tally.writtenBytes += state.sizeBytes;
      return { isDone: log.replace({ fromBase: base, endOffset, state }) };
    } catch (thrown) {
      await writer.discard().catch(() => undefined);
      throw thrown;
    }
  }

  /** True: something is not as it was. */
  async #write({ base, endOffset }: SegmentGroup, rules: FilterRules, writer: ReplacementWriter): Promise<boolean> {
    const { checksum } = this.#host.deps;
    let unpacedBytes = 0;
    let isChanged = false;
    const merger = new EmptyMerger({ checksum, forgottenMaxId: this.#forgottenMaxId }, async (batch) => {
      unpacedBytes += batch.length;
      await writer.append(batch);
    });
    for await (const batch of this.#batches(base, endOffset)) {
      const isNeeded = this.#inWindow.has(baseOffsetAt(batch, 0)) && !mutant("S-38");
      const filtered = filterBatch(batch, rules, this.#host.deps);
      this.#count(filtered);
      if (filtered.kind === "some") await merger.batch(filtered.batch);
      else if (filtered.kind === "whole" && (recordCountAt(batch, 0) > 0 || isControl(batch)))
        await merger.batch(batch);
      else await merger.empty(emptied(batch), isNeeded);
      isChanged ||= filtered.kind !== "whole";
      if (unpacedBytes < STEP_BYTES) continue;
      await this.#host.pace(unpacedBytes);
      unpacedBytes = 0;
    }
    await merger.flush();
    return isChanged;
  }

  #count(filtered: Filtered): void {
    const tally = this.#tally;
    if (filtered.kind === "whole") tally.unreadable += filtered.isUnreadable ? 1 : 0;
    else {
      tally.removed += filtered.removed;
      tally.keyless += filtered.keyless;
    }
  }
}
