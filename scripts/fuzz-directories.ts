// What `npm run fuzz` does to whole data directories: one file of one is damaged, and then the real storage opens it, as a start does, and
// `ottla log verify` looks at it. The start may refuse with a coded error, or give up the logs that are damaged; whatever it serves is what was
// written, and all that a disk proves, unless the damage is in a journal, whose end may pass for torn.
import { OttlaError } from "../src/model/errors.ts";
import { SimDisk } from "../src/sim/disk.ts";
import type { DiskImage } from "../src/sim/disk-image.ts";
import { storageDepsIn } from "../src/sim/platter.ts";
import { contentFault, readLogs, type RecoveredLog } from "../src/sim/recovered-logs.ts";
import type { LogPromise } from "../src/sim/storage-trace.ts";
import { SimWorld } from "../src/sim/world.ts";
import { verifyDirectory } from "../src/storage/inspect.ts";
import { openLogStore } from "../src/storage/log-store.ts";
import {
  batchName,
  filesOf,
  METADATA_ROOT,
  openMetadata,
  recordName,
  type SampleDirectory,
  type SampleOptions,
} from "./fuzz-samples.ts";
import { FILE_FORMATS } from "./fuzz-files.ts";
import type { FuzzTarget } from "./fuzz-targets.ts";
import { ENUMERATOR_CONFIG } from "./sim-host.ts";

const FAST = { readMs: 0.001, writeMs: 0.001, syncMs: 0.001, directoryMs: 0.001 };
const SETTLE_MS = 60_000;
const JOURNAL = /^journal\//;
/** Can be made again from the log: no log is given up for them. */
const CACHE = /\.(index|timeindex|ident|producers|snapshot)$|\/leader-epoch-checkpoint$/;

interface Victim {
  readonly path: string;
  readonly bytes: Uint8Array;
  /** A copy of the directory in which this file has these bytes. */
  readonly withBytes: (bytes: Uint8Array) => DiskImage;
}

function victimsOf(image: DiskImage, root: string): readonly Victim[] {
  return filesOf(image, root)
    .filter(({ bytes }) => bytes.length > 0)
    .map(({ path, bytes }) => ({
      path,
      bytes,
      withBytes: (damaged) => {
        const copy = image.clone();
        const node = copy.find(`${root}/${path}`);
        if (node?.kind !== "file") throw new Error(`${path} is no file`);
        copy.truncate(node, 0);
        copy.write(node, 0, damaged);
        copy.sync(node, copy.sequence);
        return copy;
      },
    }));
}

/** Directories of logs at some moments of a store's life. */
export function directoryTargets(points: readonly SampleDirectory[], options: SampleOptions): FuzzTarget[] {
  return points.flatMap((point) =>
    victimsOf(point.image, ENUMERATOR_CONFIG.directory).map((victim) => ({
      name: `directory: ${formatOf(victim.path)}`,
      isDirectory: true,
      samples: [victim.bytes],
      feed: async (bytes) => {
        const logs = await openDamaged(victim.withBytes(bytes), options);
        const lost = CACHE.test(victim.path) ? logs.find(({ damage }) => damage !== undefined) : undefined;
        if (lost !== undefined) return `a log was given up for ${victim.path}: ${lost.damage}`;
        return JOURNAL.test(victim.path) ? faultOfOlder(logs, point.ever) : faultIn(logs, point.promises);
      },
    })),
  );
}

async function openDamaged(image: DiskImage, { seed, host }: SampleOptions): Promise<readonly RecoveredLog[]> {
  const world = new SimWorld({ seed, host });
  const disk = new SimDisk(world, "disk", { latencies: FAST, capacityBytes: 2 ** 30 }, image);
  const deps = storageDepsIn(world, world.startIncarnation("store"), { disk, codecs: host.codecs, bootId: "other" });
  await world.settle(verifyDirectory(deps, ENUMERATOR_CONFIG.directory).catch(onlyCoded), SETTLE_MS);
  const store = await world.settle(openLogStore(deps, ENUMERATOR_CONFIG), SETTLE_MS);
  const logs: RecoveredLog[] = [];
  for (const log of store.logs) {
    const reading = readLogs({ logs: [log] }, host).catch((thrown: unknown) => {
      onlyCoded(thrown);
      // Damage that a read met: from then on the log gives nothing (D-17).
      if (log.damage === undefined) throw new Error(`refused, and not known as damaged: ${String(thrown)}`);
      return readLogs({ logs: [log] }, host);
    });
    logs.push(...(await world.settle(reading, SETTLE_MS)));
  }
  return logs;
}

const formatOf = (path: string): string => FILE_FORMATS.find(({ names }) => names.test(path))?.name ?? path;

/** Verify may refuse a directory that the start does not, and the other way round. */
function onlyCoded(thrown: unknown): void {
  if (!(thrown instanceof OttlaError)) throw thrown;
}

/** Damage of a journal may pass for its torn end: then a log is as it was some time before, with batches that a lost record had cut. */
function faultOfOlder(logs: readonly RecoveredLog[], ever: ReadonlySet<string>): string | undefined {
  for (const { topicId, batches, startOffset, endOffset } of logs) {
    let next = batches[0]?.base ?? endOffset;
    if (next > startOffset && batches.length > 0) return `${topicId} begins at ${next}, its start is ${startOffset}`;
    for (const batch of batches) {
      if (batch.base !== next) return `${topicId}: offset ${next} is missing`;
      // Compaction was at it: what is left must be of what there was.
      const isKnown = batch.records?.every((record) => ever.has(recordName(topicId, record)));
      if (!(isKnown ?? ever.has(batchName(topicId, batch))))
        return `${topicId}: the batch at ${batch.base} was never accepted`;
      next = batch.last + 1;
    }
  }
  return undefined;
}

function faultIn(logs: readonly RecoveredLog[], promises: readonly LogPromise[]): string | undefined {
  for (const log of logs) {
    const promise = promises.find(({ topicId }) => topicId === log.topicId);
    if (promise === undefined) return `a log that was never made: ${log.topicId}`;
    if (log.damage !== undefined || !promise.mustExist) continue;
    const fault = contentFault(log, promise);
    if (fault !== undefined) return `${promise.topic}: ${fault}`;
    if (log.endOffset < promise.durableEnd)
      return `${promise.topic} ends at ${log.endOffset}, ${promise.durableEnd} was promised, and nothing is said to be damaged`;
  }
  const gone = promises.find(
    ({ topicId, mustExist }) => mustExist && !logs.some((candidate) => candidate.topicId === topicId),
  );
  return gone === undefined ? undefined : `${gone.topic} is gone, and nothing is said`;
}

/** A directory of the metadata quorum: its vote, term and entries are those that were written, or it is refused. */
export async function metadataTargets(image: DiskImage, options: SampleOptions): Promise<FuzzTarget[]> {
  const { store: whole } = await openMetadata(image.clone(), options);
  const { hardState, log } = whole.restored;
  const known = new Set(log.entries.map((entry) => JSON.stringify({ ...entry, bytes: [...entry.bytes] })));
  return victimsOf(image, METADATA_ROOT).map((victim) => ({
    name: `metadata directory: ${formatOf(`metadata/${victim.path}`)}`,
    isDirectory: true,
    samples: [victim.bytes],
    feed: async (bytes) => {
      const { store } = await openMetadata(victim.withBytes(bytes), options);
      const { restored } = store;
      if (JSON.stringify(restored.hardState) !== JSON.stringify(hardState)) return "another term or vote";
      const wrong = restored.log.entries.find(
        (entry) => !known.has(JSON.stringify({ ...entry, bytes: [...entry.bytes] })),
      );
      return wrong === undefined ? undefined : `entry ${wrong.index} is another`;
    },
  }));
}
