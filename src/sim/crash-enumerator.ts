// Single-node crashes, exhaustively (T7): for every prefix of a storage trace, what a power loss at that moment may leave on the
// disk is built, opened by real storage, and held against what the store had promised by then.
import type { Codecs } from "../ports/codecs.ts";
import { openLogStore } from "../storage/log-store.ts";
import type { LogStore, StorageConfig } from "../storage/types.ts";
import { CLEANED_SUFFIX } from "../storage/paths.ts";
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
import { faultOf, readLogs, type RecoveredLog, summary } from "./recovered-logs.ts";
import type { TracePoint } from "./storage-trace.ts";
import type { PlacedBatch } from "./traced-records.ts";
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
  /** Of each prefix only so many, the first two of which are that everything unsynced is kept, or dropped. */
  readonly crashesPerPrefix?: number;
  /** Only crashes that come into this. */
  readonly only?: UnderWay | undefined;
  readonly onProgress?: (progress: EnumeratorResult) => void;
}

export interface EnumeratorResult {
  prefixes: number;
  /** Crashes built, before equal disks were told apart. */
  crashes: number;
  distinct: number;
  /** Distinct ones whose recovery was crashed a second time. */
  doubleCrashes: number;
  /** Distinct ones by what was under way. */
  readonly during: Record<UnderWay, number>;
  /** Empty, or what the first broken crash was. */
  failures: string[];
}

/** What a crash came into. One disk may be of several. */
export const UNDER_WAY = ["retention", "compaction", "swap", "truncation", "deletion", "checkpoint"] as const;
export type UnderWay = (typeof UNDER_WAY)[number];

function underWay({ image, works }: TracePoint, directory: string): readonly UnderWay[] {
  const paths = image.filesBelow(directory).map(({ path }) => path);
  const is = {
    retention: works.has("retention"),
    compaction: paths.some((path) => path.endsWith(CLEANED_SUFFIX)),
    // Files of a compaction take their places, and no sync of the directory has covered it yet.
    swap: image
      .pendingOperations()
      .some(({ operation }) => operation.kind === "rename" && operation.name.endsWith(CLEANED_SUFFIX)),
    truncation: works.has("truncate"),
    deletion: works.has("delete") || works.has("reset"),
    checkpoint: paths.filter((path) => /\/checkpoint\/\d+\.image(\.tmp)?$/.test(path)).length > 1,
  };
  return UNDER_WAY.filter((each) => is[each]);
}

interface Crash {
  readonly what: string;
  readonly choices: CrashChoices;
  /** Nothing was lost: what was written, though not synced, must be there too. */
  readonly keepsAll: boolean;
}

/** By the start after the crash, and by one more. */
interface Recovered {
  readonly once: readonly RecoveredLog[];
  readonly again: readonly RecoveredLog[];
}

const FAST = { readMs: 0.001, writeMs: 0.001, syncMs: 0.001, directoryMs: 0.001 };
const FAILURES_MAX = 5;
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
  readonly #batches = new Map<string, PlacedBatch>();
  readonly #result: EnumeratorResult = {
    ...{ prefixes: 0, crashes: 0, distinct: 0, doubleCrashes: 0, failures: [] },
    during: { retention: 0, compaction: 0, swap: 0, truncation: 0, deletion: 0, checkpoint: 0 },
  };

  constructor(options: EnumeratorOptions) {
    this.#options = options;
    this.#rng = createRng(options.seed).fork("enumerator");
  }

  async run(trace: readonly TracePoint[]): Promise<EnumeratorResult> {
    const result = this.#result;
    for (const [index, point] of trace.entries()) {
      const during = underWay(point, this.#options.config.directory);
      const { only } = this.#options;
      if (only !== undefined && !during.includes(only)) continue;
      let left = this.#options.crashesPerPrefix ?? Number.POSITIVE_INFINITY;
      for (const crash of this.#crashes(point.image.pendingOperations())) {
        if (left-- === 0) break;
        const before = result.distinct;
        await this.#examine(point, crash, index);
        if (result.distinct > before) for (const each of during) result.during[each]++;
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
      ? { once: this.#interned(once.logs), again: this.#interned(again.logs) }
      : `opened again: ${summary(again.logs)}, at first: ${summary(once.logs)}`;
  }

  /** Most disks hold the same batches: one object for each. Bound: the batches of the trace, and what compaction made of them. */
  #interned(logs: readonly RecoveredLog[]): readonly RecoveredLog[] {
    return logs.map((log) => ({
      ...log,
      batches: log.batches.map((batch) => {
        const name = `${batch.base} ${batch.last} ${batch.sum}`;
        const known = this.#batches.get(name) ?? batch;
        this.#batches.set(name, known);
        return known;
      }),
    }));
  }

  async #open(
    image: DiskImage,
    seed: number,
  ): Promise<{ readonly logs: readonly RecoveredLog[]; readonly image: DiskImage } | string> {
    const { world, disk, opening } = this.#start(image, seed);
    try {
      const store = await world.settle(opening, 60_000);
      const logs = await world.settle(
        readLogs(store, { checksum: this.#options.host.checksum, codecs: this.#options.codecs }),
      );
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
