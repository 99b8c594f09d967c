// Data directories for the fuzzer to damage: what the real storage left on a simulated disk, at a few moments of its work.
import type { DirectoryId } from "../src/model/ids.ts";
import { toNodeId } from "../src/model/ids.ts";
import type { Codecs } from "../src/ports/codecs.ts";
import { SimDisk } from "../src/sim/disk.ts";
import { type DiskImage, KEEP_ALL } from "../src/sim/disk-image.ts";
import { storageDepsIn } from "../src/sim/platter.ts";
import { recordStorageTrace, type TracePoint } from "../src/sim/storage-trace.ts";
import type { PlacedBatch, TracedRecord } from "../src/sim/traced-records.ts";
import { SimWorld, type WorldHost } from "../src/sim/world.ts";
import { openRaftStore } from "../src/storage/raft-store.ts";
import type { RaftStore, RaftWrite, StoredEntry } from "../src/storage/raft-types.ts";
import { ENUMERATOR_CONFIG } from "./sim-host.ts";

export interface SampleFile {
  /** From the data directory on: `journal/0000000001.journal`. */
  readonly path: string;
  readonly bytes: Uint8Array;
}

export interface SampleOptions {
  readonly seed: number;
  readonly host: WorldHost & { readonly codecs: Codecs };
}

const OPERATIONS = 900;
/** Shares of the trace at which the directory is taken. */
const MOMENTS = [0.3, 0.45, 0.6, 0.8, 1] as const;
const ROOT = ENUMERATOR_CONFIG.directory;
export const OWNER = { nodeId: toNodeId(1), directoryId: "AAAAAAAAAAAAAAAAAAAAAQ" as DirectoryId };
export const METADATA_ROOT = "metadata";
const LANE = { directory: METADATA_ROOT, segmentBytes: 900, owner: OWNER };
const FAST = { readMs: 0.001, writeMs: 0.001, syncMs: 0.001, directoryMs: 0.001 };

export interface SampleDirectory extends TracePoint {
  /** Every batch and every record with a key that was accepted by then, also what was cut since. */
  readonly ever: ReadonlySet<string>;
}

export const batchName = (topicId: string, { base, sum }: { readonly base: number; readonly sum: number }): string =>
  `${topicId} ${base} ${sum}`;

export const recordName = (topicId: string, { offset, key, sum }: TracedRecord): string =>
  `${topicId} ${offset} ${key} ${sum}`;

const namesOf = (topicId: string, batch: PlacedBatch): readonly string[] => [
  batchName(topicId, batch),
  ...(batch.records ?? []).map((record) => recordName(topicId, record)),
];

/** A directory of logs at some moments, each with all that was written on the platter, and what the store had promised by then. */
export async function sampleDirectories({ seed, host }: SampleOptions): Promise<readonly SampleDirectory[]> {
  const options = { seed, host, codecs: host.codecs, config: ENUMERATOR_CONFIG };
  const trace = await recordStorageTrace({ ...options, operations: OPERATIONS });
  return MOMENTS.map((share) => {
    const moment = Math.floor((trace.length - 1) * share);
    const point = trace[moment] as TracePoint;
    const image = point.image.clone();
    image.crash(KEEP_ALL);
    const promises = trace.slice(0, moment + 1).flatMap((each) => each.promises);
    const ever = new Set(
      promises.flatMap(({ topicId, batches, count }) =>
        batches.slice(0, count).flatMap((each) => namesOf(topicId, each)),
      ),
    );
    return { ...point, image, ever };
  });
}

/** A directory of the metadata quorum: several files of entries, a snapshot, marks, a vote. */
export async function sampleMetadata({ seed, host }: SampleOptions): Promise<DiskImage> {
  const world = new SimWorld({ seed, host });
  const disk = new SimDisk(world, "disk", { latencies: FAST, capacityBytes: 2 ** 30 });
  const deps = storageDepsIn(world, world.startIncarnation("lane"), { disk, codecs: host.codecs, bootId: "boot" });
  const store = await world.settle(openRaftStore(deps, LANE));
  await world.settle(fillLane(store));
  await world.settle(store.close());
  disk.image.crash(KEEP_ALL);
  return disk.image;
}

export async function openMetadata(
  image: DiskImage,
  { seed, host }: SampleOptions,
): Promise<{ readonly store: RaftStore; readonly world: SimWorld }> {
  const world = new SimWorld({ seed, host });
  const disk = new SimDisk(world, "disk", { latencies: FAST, capacityBytes: 2 ** 30 }, image);
  const deps = storageDepsIn(world, world.startIncarnation("lane"), { disk, codecs: host.codecs, bootId: "other" });
  return { store: await world.settle(openRaftStore(deps, LANE)), world };
}

async function fillLane(store: RaftStore): Promise<void> {
  const write = (parts: Partial<RaftWrite>): Promise<void> =>
    store.write({ hardState: null, resetLogTo: null, cutSuffixTo: null, entries: [], cutPrefixTo: null, ...parts });
  await write({ hardState: { term: 3, votedFor: `1:${OWNER.directoryId}` } });
  for (let index = 0; index < 24; index++) await write({ entries: [entryOf(index)] });
  await store.writeMarks(new Map([2, 3].map((id) => [`${id}:${OWNER.directoryId}`, { boots: 4, term: 3, end: 20 }])));
  const bytes = Uint8Array.from({ length: 70_000 }, (_, at) => (at * 31) & 0xff);
  const sink = await store.beginSnapshot({
    end: 6,
    lastTerm: 3,
    sizeBytes: bytes.length,
    configuration: Uint8Array.of(1, 2),
  });
  for (let at = 0; at < bytes.length; at += 50_000) await sink.write(at, bytes.subarray(at, at + 50_000));
  await sink.finish();
  await write({ cutPrefixTo: 5 });
}

function entryOf(index: number): StoredEntry {
  const kind = index % 7 === 3 ? "leaderStart" : index % 5 === 4 ? "configuration" : "command";
  const bytes = new Uint8Array(kind === "leaderStart" ? 0 : 20 + (index % 30)).fill(index);
  return { index, term: 3, kind, bytes };
}

export function filesOf(image: DiskImage, root: string = ROOT): readonly SampleFile[] {
  return image.filesBelow(root).map(({ path }) => ({ path: path.slice(root.length + 1), bytes: bytesOf(image, path) }));
}

function bytesOf(image: DiskImage, path: string): Uint8Array {
  const node = image.find(path);
  if (node?.kind !== "file") throw new Error(`${path} is no file`);
  return node.live.view.slice();
}
