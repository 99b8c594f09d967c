// Single-node crashes, exhaustively (T7): for every prefix of a storage trace, what a power loss at that moment may leave on the
// disk is built, opened by real storage, and held against what the store had promised by then.
import { forEachBatch, baseOffsetAt, lastOffsetAt } from "../model/record-batch.ts";
import type { Offset } from "../model/ids.ts";
import { ProducerTable } from "../model/producer-table.ts";
import type { Codecs } from "../ports/codecs.ts";
import { openLogStore } from "../storage/log-store.ts";
import type { LogStore, ReplicaLog, StorageConfig } from "../storage/types.ts";
import { SimDisk } from "./disk.ts";
import {
  type CrashChoices,
  type DiskImage,
  DROP_ALL,
  type Fate,
  KEEP_ALL,
  type PendingOperation,
  SECTOR_BYTES,
} from "./disk-image.ts";
import { storageDepsIn } from "./platter.ts";
import type { LogPromise, TracedBatch, TracePoint } from "./storage-trace.ts";
import { type Incarnation, SimWorld, type WorldHost } from "./world.ts";
import { createRng, type Rng } from "../base/rng.ts";

export interface EnumeratorOptions {
  readonly seed: number;
  readonly host: WorldHost;
  readonly codecs: Codecs;
  readonly config: StorageConfig;
  /** Stop after this many distinct images. */
  readonly imagesMax: number;
  /** Random subsets of the unsynced operations for each prefix. */
  readonly subsets: number;
  readonly onProgress?: (progress: EnumeratorResult) => void;
}

export interface EnumeratorResult {
  prefixes: number;
  /** Crashes built, before equal disks were told apart. */
  crashes: number;
  distinct: number;
  /** Distinct ones whose recovery was crashed a second time. */
  doubleCrashes: number;
  /** Empty, or what the first broken crash was. */
  failures: string[];
}

interface Crash {
  readonly what: string;
  readonly choices: CrashChoices;
  /** Nothing was lost: what was written, though not synced, must be there too. */
  readonly keepsAll: boolean;
}

interface RecoveredBatch {
  readonly base: number;
  readonly last: number;
  readonly sum: number;
}

interface RecoveredLog {
  readonly topicId: string;
  readonly startOffset: number;
  readonly endOffset: number;
  readonly highWatermark: number;
  readonly damage: string | undefined;
  readonly batches: readonly RecoveredBatch[];
  /** The table of its producers, as bytes. */
  readonly producers: string;
}

/** By the start after the crash, and by one more. */
interface Recovered {
  readonly once: readonly RecoveredLog[];
  readonly again: readonly RecoveredLog[];
}

const FAST = { readMs: 0.001, writeMs: 0.001, syncMs: 0.001, directoryMs: 0.001 };
const FAILURES_MAX = 5;
const READ_BYTES = 1 << 20;
const DOUBLE_CRASH_CHANCE = 0.1;
const PROGRESS_PREFIXES = 50;

export async function enumerateCrashes(
  trace: readonly TracePoint[],
  options: EnumeratorOptions,
): Promise<EnumeratorResult> {
  return new Enumerator(options).run(trace);
}

class Enumerator {
  readonly #options: EnumeratorOptions;
  readonly #rng: Rng;
  readonly #recovered = new Map<string, Recovered | string>();
  readonly #result: EnumeratorResult = { prefixes: 0, crashes: 0, distinct: 0, doubleCrashes: 0, failures: [] };

  constructor(options: EnumeratorOptions) {
    this.#options = options;
    this.#rng = createRng(options.seed).fork("enumerator");
  }

  async run(trace: readonly TracePoint[]): Promise<EnumeratorResult> {
    const result = this.#result;
    for (const [index, point] of trace.entries()) {
      for (const crash of this.#crashes(point.image.pendingOperations())) {
        await this.#examine(point, crash, index);
        if (result.failures.length >= FAILURES_MAX || result.distinct >= this.#options.imagesMax) return result;
      }
      result.prefixes++;
      if (result.prefixes % PROGRESS_PREFIXES === 0) this.#options.onProgress?.(result);
    }
    return result;
  }

  /** All fates that are tried for these unsynced operations. */
  *#crashes(pending: readonly PendingOperation[]): Generator<Crash> {
    yield { what: "all unsynced kept", choices: KEEP_ALL, keepsAll: true };
    if (pending.length === 0) return;
    yield { what: "all unsynced dropped", choices: DROP_ALL, keepsAll: false };
    for (const { operation } of pending) {
      const { sequence } = operation;
      yield { what: `#${sequence} ${operation.kind} dropped`, choices: except(sequence, DROP_ALL), keepsAll: false };
      if (operation.kind !== "write") continue;
      if (operation.extends)
        yield {
          what: `#${sequence} length dropped`,
          choices: except(sequence, { ...KEEP_ALL, ofExtension: () => false }),
          keepsAll: false,
        };
      if (!spansSectors(operation)) continue;
      for (const half of ["first", "last"] as const) {
        const torn: CrashChoices = { ...KEEP_ALL, ofWrite: (write) => tear(write, half) };
        yield { what: `#${sequence} torn, ${half} sectors kept`, choices: except(sequence, torn), keepsAll: false };
      }
    }
    for (let count = 0; count < this.#options.subsets; count++)
      yield { what: `random subset ${count}`, choices: this.#randomSubset(), keepsAll: false };
  }

  #randomSubset(): CrashChoices {
    const keep = this.#rng.pick([0.1, 0.5, 0.9]);
    const rng = this.#rng;
    return {
      ofWrite: (write): Fate => {
        if (spansSectors(write) && rng.chance(0.2)) return tear(write, rng.pick(["first", "last"] as const));
        return { kind: rng.chance(keep) ? "kept" : "dropped" };
      },
      ofExtension: () => rng.chance(keep),
      ofTruncate: () => rng.chance(keep),
      ofDirectory: () => rng.chance(keep),
    };
  }

  async #examine(point: TracePoint, crash: Crash, index: number): Promise<void> {
    const image = point.image.clone();
    image.crash(crash.choices);
    this.#result.crashes++;
    const key = image.fingerprint(this.#options.host.checksum);
    let recovered = this.#recovered.get(key);
    if (recovered === undefined) {
      recovered = await this.#recover(image);
      this.#recovered.set(key, recovered);
      this.#result.distinct++;
    }
    const fault =
      typeof recovered === "string"
        ? recovered
        : (faultOf(recovered.once, point.promises, crash.keepsAll) ??
          faultOf(recovered.again, point.promises, crash.keepsAll));
    if (fault !== undefined) this.#result.failures.push(`prefix ${index}, ${crash.what}: ${fault}`);
  }

  /** What storage makes of a disk, or why it does not open, or does not come to the same when it is opened again. */
  async #recover(image: DiskImage): Promise<Recovered | string> {
    const seed = this.#rng.u32();
    let first = image;
    if (this.#rng.chance(DOUBLE_CRASH_CHANCE)) {
      first = await this.#crashInside(image, seed);
      this.#result.doubleCrashes++;
    }
    const once = await this.#open(first, seed);
    if (typeof once === "string") return once;
    // What recovery reported durable is there when everything that it left unsynced is lost.
    const left = once.image.clone();
    left.crash(DROP_ALL);
    const again = await this.#open(left, seed);
    if (typeof again === "string") return `opened again: ${again}`;
    const isSame = JSON.stringify(again.logs, contentOnly) === JSON.stringify(once.logs, contentOnly);
    return isSame
      ? { once: once.logs, again: again.logs }
      : `opened again: ${summary(again.logs)}, at first: ${summary(once.logs)}`;
  }

  async #open(
    image: DiskImage,
    seed: number,
  ): Promise<{ readonly logs: readonly RecoveredLog[]; readonly image: DiskImage } | string> {
    const { world, disk, opening } = this.#start(image, seed);
    try {
      const store = await world.settle(opening, 60_000);
      const logs = await world.settle(readLogs(store, (bytes) => this.#options.host.checksum.crc32c(bytes)));
      return { logs, image: disk.image };
    } catch (thrown) {
      return thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
    }
  }

  /** The disk after a power loss at some moment of the recovery. */
  async #crashInside(image: DiskImage, seed: number): Promise<DiskImage> {
    const { world, disk, opening, owner } = this.#start(image.clone(), seed);
    opening.catch(() => undefined);
    const lastEvent = this.#rng.between(1, 150);
    await world.runUntil(() => world.hash.events >= lastEvent, 1000);
    owner.end();
    disk.crash("power loss");
    return disk.image;
  }

  #start(
    image: DiskImage,
    seed: number,
  ): { world: SimWorld; disk: SimDisk; opening: Promise<LogStore>; owner: Incarnation } {
    const { host, codecs, config } = this.#options;
    const world = new SimWorld({ seed, host });
    const disk = new SimDisk(world, "disk", { latencies: FAST, capacityBytes: 2 ** 30 }, image);
    const owner = world.startIncarnation("store");
    return {
      world,
      disk,
      owner,
      opening: openLogStore(storageDepsIn(world, owner, { disk, codecs, bootId: "after the crash" }), config),
    };
  }
}

/** Of producers that wrote only below a raised log start, a start knows what the journals and images still tell: the next one may know less. */
const contentOnly = (key: string, value: unknown): unknown => (key === "producers" ? undefined : value);

function spansSectors(write: { readonly position: number; readonly bytes: Uint8Array }): boolean {
  return (
    Math.floor(write.position / SECTOR_BYTES) !== Math.floor((write.position + write.bytes.length - 1) / SECTOR_BYTES)
  );
}

function tear(write: { readonly position: number; readonly bytes: Uint8Array }, kept: "first" | "last"): Fate {
  const middle = Math.floor((write.position + write.bytes.length / 2) / SECTOR_BYTES);
  return { kind: "torn", keepsSector: (sector) => (kept === "first" ? sector < middle : sector >= middle) };
}

/** One operation meets its own fate, all others are kept. */
function except(sequence: number, its: CrashChoices): CrashChoices {
  const of = (operation: { readonly sequence: number }): CrashChoices =>
    operation.sequence === sequence ? its : KEEP_ALL;
  return {
    ofWrite: (operation) => of(operation).ofWrite(operation),
    ofExtension: (operation) => of(operation).ofExtension(operation),
    ofTruncate: (operation) => of(operation).ofTruncate(operation),
    ofDirectory: (operation) => of(operation).ofDirectory(operation),
  };
}

async function readLogs(store: LogStore, sum: (bytes: Uint8Array) => number): Promise<RecoveredLog[]> {
  const logs: RecoveredLog[] = [];
  for (const log of [...store.logs].sort((left, right) => (left.topicId < right.topicId ? -1 : 1))) {
    const { topicId, startOffset, endOffset, highWatermark, damage } = log;
    const batches = damage === undefined ? await readBatches(log, sum) : [];
    const producers = String(log.producers.encode());
    if (damage === undefined && log.producers.endOffset !== endOffset)
      throw new Error(`${log.topic}: producers of ${log.producers.endOffset} offsets, the log has ${endOffset}`);
    logs.push({ topicId, startOffset, endOffset, highWatermark, damage: damage?.reason, batches, producers });
  }
  return logs;
}

async function readBatches(log: ReplicaLog, sum: (bytes: Uint8Array) => number): Promise<RecoveredBatch[]> {
  const batches: RecoveredBatch[] = [];
  let offset = log.startOffset;
  while (offset < log.endOffset) {
    const read = await log.read(offset, { limitOffset: log.endOffset, maxBytes: READ_BYTES, atLeastOne: true });
    for (const chunk of read.chunks) {
      forEachBatch(chunk, (position, sizeBytes) => {
        const batch = chunk.subarray(position, position + sizeBytes);
        batches.push({ base: baseOffsetAt(batch, 0), last: lastOffsetAt(batch, 0), sum: sum(batch) });
      });
    }
    if (read.nextOffset <= offset)
      throw new Error(`${log.topic}: nothing to read at ${offset}, the end is ${log.endOffset}`);
    offset = read.nextOffset as Offset;
  }
  return batches;
}

/** Undefined when every promise is kept. */
function faultOf(
  recovered: readonly RecoveredLog[],
  promises: readonly LogPromise[],
  keepsAll: boolean,
): string | undefined {
  for (const promise of promises) {
    const log = recovered.find((candidate) => candidate.topicId === promise.topicId);
    if (log === undefined) {
      if (promise.mustExist) return `${promise.topic} is gone`;
      continue;
    }
    if (log.damage !== undefined) return `${promise.topic} is damaged: ${log.damage}`;
    if (!promise.mustExist) continue;
    const required = keepsAll ? promise.writtenEnd : promise.durableEnd;
    if (log.endOffset < required) return `${promise.topic} ends at ${log.endOffset}, ${required} was promised`;
    if (log.startOffset > promise.startOffset)
      return `${promise.topic} starts at ${log.startOffset}, only ${promise.startOffset} was asked for`;
    const fault = contentFault(log, promise) ?? highWatermarkFault(log, promise);
    if (fault !== undefined) return `${promise.topic}: ${fault}`;
  }
  return undefined;
}

/** D-7: never above what is there, nor above what was known; and what was in the journal for certain is known still. */
function highWatermarkFault(log: RecoveredLog, promise: LogPromise): string | undefined {
  const { highWatermark, startOffset, endOffset } = log;
  const known = Math.max(promise.highWatermark, promise.before?.highWatermark ?? 0, startOffset);
  const least = Math.max(promise.storedHighWatermark, startOffset);
  if (highWatermark >= least && highWatermark <= Math.min(known, endOffset)) return undefined;
  return `high watermark ${highWatermark} of ${startOffset} to ${endOffset}, known were ${least} to ${known}`;
}

function contentFault(log: RecoveredLog, promise: LogPromise): string | undefined {
  const now = mismatch(log, promise.batches, promise.count);
  if (now === undefined || promise.before === undefined) return now;
  return mismatch(log, promise.before.batches, promise.before.count);
}

/** The log must hold a run of the accepted batches, each byte-identical, without a gap up to its end. */
function mismatch(log: RecoveredLog, batches: readonly TracedBatch[], count: number): string | undefined {
  const byBase = new Map(batches.slice(0, count).map((batch) => [batch.base, batch]));
  let expected = log.batches[0]?.base ?? log.endOffset;
  if (expected > log.startOffset) return `begins with offset ${expected}, its start is ${log.startOffset}`;
  for (const batch of log.batches) {
    if (batch.base !== expected) return `offset ${expected} is missing`;
    const accepted = byBase.get(batch.base);
    if (accepted === undefined || accepted.last !== batch.last)
      return `a batch at ${batch.base} that was never accepted`;
    if (accepted.sum !== batch.sum) return `the batch at ${batch.base} has other bytes`;
    expected = batch.last + 1;
  }
  if (expected !== log.endOffset) return `offset ${expected} is missing, the end is ${log.endOffset}`;
  return producersFault(log, batches.slice(0, count));
}

/** Invariant 25: what is known of producers is what the log says, from its beginning or from some batch at or below its start. */
function producersFault(log: RecoveredLog, batches: readonly TracedBatch[]): string | undefined {
  const below = batches.filter(({ last }) => last < log.endOffset);
  const starts = below.findLastIndex(({ base }) => base <= log.startOffset);
  for (let from = 0; from <= Math.max(starts, 0); from++) {
    const table = new ProducerTable();
    for (const { sequenced } of below.slice(from)) table.observe(sequenced);
    if (String(table.encode()) === log.producers) return undefined;
  }
  return `its producers are not those of its batches up to ${log.endOffset}`;
}

function summary(logs: readonly RecoveredLog[]): string {
  return logs
    .map((log) => `${log.topicId}[${log.startOffset}, ${log.endOffset})${log.damage === undefined ? "" : " damaged"}`)
    .join(" ");
}
