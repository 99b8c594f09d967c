// D-16: what is read from a segment is what was written to it, and not what only looks like it (D6, M22).
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { concatBytes } from "../../src/base/bytes.ts";
import type { Offset, PartitionIndex } from "../../src/model/ids.ts";
import { assignOffsets, baseOffsetAt } from "../../src/model/record-batch.ts";
import { DROP_ALL } from "../../src/sim/disk-image.ts";
import { chainOver, segmentSeed } from "../../src/storage/identity.ts";
import {
  decodeIdentity,
  encodeIdentityHeader,
  encodeIdentityRows,
  IDENTITY_HEADER_BYTES,
  IDENTITY_ROW_BYTES,
} from "../../src/storage/identity-file.ts";
import { IdentityRows } from "../../src/storage/identity-rows.ts";
import { offsetName } from "../../src/storage/paths.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import type { Segment } from "../../src/storage/segment.ts";
import type { LogStoreImpl } from "../../src/storage/store.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, contentOf, makeBatch, opened, openStore, readAll, Recorder, specOf } from "./support.ts";

afterEach(() => activateMutants([]));

const owner = { topicId: specOf("a").topicId, partition: 0 as PartitionIndex, base: 70 };
const readU32 = (bytes: Uint8Array, at: number): number => new DataView(bytes.buffer, bytes.byteOffset).getUint32(at);

const rowsOf = (steps: readonly { readonly offsets: number; readonly bytes: number; readonly chain: number }[]) => {
  const rows = new IdentityRows(segmentSeed(owner.topicId, owner.partition, owner.base));
  let [relativeEnd, position] = [0, 0];
  for (const { offsets, bytes, chain } of steps) {
    relativeEnd += offsets;
    position += bytes;
    rows.add(relativeEnd, { position, chain });
  }
  return rows;
};

const listed = (rows: IdentityRows) =>
  Array.from({ length: rows.count }, (_, row) => [rows.relativeEndAt(row), rows.positionAt(row), rows.chainAt(row)]);

const encoded = (rows: IdentityRows, of = owner): Uint8Array => {
  const header = encodeIdentityHeader(of);
  return concatBytes([header, encodeIdentityRows(rows, { fromRow: 1, check: readU32(header, 8) }).bytes]);
};

const steps = fc.array(
  fc.record({
    offsets: fc.integer({ min: 1, max: 1000 }),
    bytes: fc.integer({ min: 61, max: 100_000 }),
    chain: fc.integer({ min: 0, max: 0xffffffff }),
  }),
  { maxLength: 30 },
);

test("D-16: a sidecar gives back its rows, in one piece or written on, and what a flipped bit leaves is a beginning of them", () => {
  fc.assert(
    fc.property(steps, fc.nat(), fc.nat(), (grown, split, flip) => {
      const rows = rowsOf(grown);
      const bytes = encoded(rows);
      const from = 1 + (split % rows.count);
      const before = encoded(rows.copyTo(from - 1));
      const check = readU32(before, from === 1 ? 8 : before.length - 4);
      expect(concatBytes([before, encodeIdentityRows(rows, { fromRow: from, check }).bytes])).toEqual(bytes);
      const found = decodeIdentity(bytes, owner);
      expect(typeof found === "string" ? found : listed(found.rows)).toEqual(listed(rows));
      const torn = bytes.slice();
      const bit = flip % (bytes.length * 8);
      torn[bit >> 3] = (torn[bit >> 3] as number) ^ (1 << (bit & 7));
      const left = decodeIdentity(torn, owner);
      if (bit >> 3 < IDENTITY_HEADER_BYTES) {
        expect(typeof left).toBe("string");
        return;
      }
      const whole = Math.floor(((bit >> 3) - IDENTITY_HEADER_BYTES) / IDENTITY_ROW_BYTES);
      expect(typeof left === "string" ? left : [listed(left.rows), left.fault !== undefined]).toEqual([
        listed(rows).slice(0, whole + 1),
        true,
      ]);
    }),
  );
});

test("D-16: a sidecar of another segment, topic or partition is none of this one", () => {
  const bytes = encoded(rowsOf([{ offsets: 1, bytes: 100, chain: 1 }]));
  expect(decodeIdentity(bytes, { ...owner, base: 71 })).toMatch(/another segment/);
  expect(decodeIdentity(bytes, { ...owner, partition: 1 as PartitionIndex })).toMatch(/another segment/);
  expect(decodeIdentity(bytes, { ...owner, topicId: specOf("a", 0, 9).topicId })).toMatch(/another segment/);
  expect(decodeIdentity(bytes.slice(0, 39), owner)).toMatch(/header/);
});

test("D-16: topic, partition, base, offset, length, epoch, checksum and order each change the chain", () => {
  const { topicId, partition } = owner;
  const batch = makeBatch(5, { epoch: 3 });
  const [other, moved, later] = [makeBatch(5, { epoch: 3, fill: 9 }), batch.slice(), batch.slice()];
  assignOffsets(moved, 6, 3);
  assignOffsets(later, 5, 4);
  const seeds = [
    segmentSeed(topicId, partition, 0),
    segmentSeed(topicId, partition, 5),
    segmentSeed(topicId, 1 as PartitionIndex, 0),
    segmentSeed(specOf("b", 0, 2).topicId, partition, 0),
  ];
  const chains = [
    ...seeds.map((seed) => chainOver(seed, batch, 0)),
    ...[other, moved, later].map((each) => chainOver(seeds[0] as number, each, 0)),
    chainOver(chainOver(seeds[0] as number, batch, 0), other, 0),
    chainOver(chainOver(seeds[0] as number, other, 0), batch, 0),
  ];
  expect(new Set(chains).size).toBe(chains.length);
});

// ---- a log whose segments hold what was never written to them

const PATH = "/data/a-0/00000000000000000000";
const BATCHES = 60;

/** A log of several segments, the batches that it took, and another one that took others of the same offsets, epochs and lengths. */
async function withLogs() {
  const files = new MemoryFiles();
  const { store, recorder } = await opened(files);
  const log = (await store.createLog(specOf("a", 0, 1))) as ReplicaLogImpl;
  const other = (await store.createLog(specOf("b", 0, 2))) as ReplicaLogImpl;
  const batches = Array.from({ length: BATCHES }, () => appendBatch(log));
  Array.from({ length: BATCHES }, () => appendBatch(other, { fill: 99 }));
  await recorder.until(() => log.durableEnd === BATCHES && other.durableEnd === BATCHES);
  await store.checkpoint();
  return { files, store, recorder, log, other, batches };
}

function content(files: MemoryFiles, path: string): Uint8Array {
  const node = files.image.find(path);
  if (node?.kind !== "file") throw new Error(`${path} is not there`);
  return node.live.view.slice(0, node.live.sizeBytes);
}

/** The batch of the other log, of the same place, is written here (D6). */
function misdirect(files: MemoryFiles, place: number): void {
  const sizeBytes = makeBatch(0).length;
  const from = content(files, PATH.replace("a-0", "b-0") + ".log");
  files.image.corrupt(`${PATH}.log`, place * sizeBytes, from.slice(place * sizeBytes, (place + 1) * sizeBytes));
}

const readAt = async (log: ReplicaLogImpl, offset: number, maxBytes = readAll.maxBytes) =>
  log.read(offset as Offset, { maxBytes, atLeastOne: true, limitOffset: log.endOffset });

const restart = async (files: MemoryFiles, store: LogStoreImpl) => {
  await store.close();
  const next = new MemoryFiles(files.image);
  const { store: again } = await opened(next);
  return {
    files: next,
    log: again.find(specOf("a", 0, 1).topicId, 0 as PartitionIndex) as ReplicaLogImpl,
    store: again,
  };
};

test("D6: a batch of another partition that matches checksum, offset and epoch is never given out", async () => {
  for (const isRestarted of [false, true]) {
    const { files, store, log, batches } = await withLogs();
    misdirect(files, 3);
    const read = isRestarted ? (await restart(files, store)).log : log;
    await expect(readAt(read, 3)).rejects.toMatchObject({ code: "STORAGE_ERROR" });
    expect(read.damage?.reason).toMatch(/not those that were written/);
    expect(batches).toHaveLength(BATCHES);
  }
});

test("M22: with the planted bug it is", async () => {
  const { files, log, batches } = await withLogs();
  misdirect(files, 3);
  activateMutants(["M22"]);
  const { chunks } = await readAt(log, 3, 1);
  expect(chunks[0]).not.toEqual(batches[3]);
  expect(baseOffsetAt(chunks[0] as Uint8Array, 0)).toBe(3);
});

test("D-16: whatever batch of a closed segment is another's, no read of the log gives it out", async () => {
  const sizeBytes = makeBatch(0).length;
  const inFirst = Math.floor(2000 / sizeBytes);
  for (let place = 0; place < inFirst; place++) {
    const { files, log, batches } = await withLogs();
    misdirect(files, place);
    let offset = 0;
    let error: unknown;
    while (offset < BATCHES && error === undefined) {
      const result = await readAt(log, offset, 200).catch((thrown: unknown) => void (error = thrown));
      for (const chunk of result?.chunks ?? [])
        expect(chunk).toEqual(concatBytes(batches.slice(offset, result?.nextOffset)));
      offset = result?.nextOffset ?? offset;
    }
    expect([place, (error as Error).message]).toEqual([place, expect.stringContaining("damaged")]);
    expect(offset).toBeLessThanOrEqual(place);
  }
});

test("D-16: a sidecar that is missing, empty, torn, rotten or of another segment costs a walk and no more", async () => {
  const spoil: Record<string, (files: MemoryFiles, bytes: Uint8Array) => void> = {
    missing: (files) => expect(files.image.vanish(`${PATH}.ident`)).toBe(true),
    empty: (files) => files.image.cutOff(`${PATH}.ident`, 0),
    torn: (files, bytes) => files.image.cutOff(`${PATH}.ident`, bytes.length - 5),
    rotten: (files, bytes) => files.image.flipBit(`${PATH}.ident`, bytes.length - 20, 3),
    foreign: (files) => files.image.corrupt(`${PATH}.ident`, 0, content(files, `${PATH.replace("a-0", "b-0")}.ident`)),
  };
  for (const [what, work] of Object.entries(spoil)) {
    const { files, store, batches } = await withLogs();
    await store.close();
    work(files, content(files, `${PATH}.ident`));
    const { store: again } = await opened(new MemoryFiles(files.image));
    const log = again.find(specOf("a", 0, 1).topicId, 0 as PartitionIndex) as ReplicaLogImpl;
    expect([what, await contentOf(log)]).toEqual([what, batches]);
    expect(log.damage).toBeUndefined();
  }
});

test("D-16: rows are never made from the log alone: without its sidecar a segment is still what was written or damaged", async () => {
  const { files, store } = await withLogs();
  await store.close();
  misdirect(files, 3);
  expect(files.image.vanish(`${PATH}.ident`)).toBe(true);
  const { store: again } = await opened(new MemoryFiles(files.image));
  const log = again.find(specOf("a", 0, 1).topicId, 0 as PartitionIndex) as ReplicaLogImpl;
  await expect(readAt(log, 3)).rejects.toMatchObject({ code: "STORAGE_ERROR" });
});

test("D-16: with the planted bug a segment is what its file says", async () => {
  const { files, store, batches } = await withLogs();
  await store.close();
  misdirect(files, 3);
  expect(files.image.vanish(`${PATH}.ident`)).toBe(true);
  activateMutants(["D-16"]);
  const { store: again } = await opened(new MemoryFiles(files.image));
  const log = again.find(specOf("a", 0, 1).topicId, 0 as PartitionIndex) as ReplicaLogImpl;
  expect((await readAt(log, 3, 1)).chunks[0]).not.toEqual(batches[3]);
});

test("D-16: the chain goes on where a log was cut, over a crash and without one", async () => {
  for (const isCrashed of [false, true])
    for (const to of [1, 7, 13, 20, 41, 59]) {
      const { files, store, recorder, log, batches } = await withLogs();
      await log.truncate(to as Offset);
      const expected = [
        ...batches.slice(0, to),
        ...Array.from({ length: 9 }, () => appendBatch(log, { epoch: 1, fill: 7 })),
      ];
      await recorder.until(() => log.durableEnd === to + 9);
      if (isCrashed) {
        files.kill();
        files.image.crash(DROP_ALL);
      } else await store.close();
      const { store: again } = await opened(new MemoryFiles(files.image));
      const found = again.find(log.topicId, 0 as PartitionIndex) as ReplicaLogImpl;
      expect([to, await contentOf(found)]).toEqual([to, expected]);
      expect(found.segments.all.map(({ chain }) => chain)).toEqual(chainsOf(found, expected));
      await again.close();
    }
});

test("D-16: a start that finds a cut in the journal goes by the log where the sidecar is of another time (seed 721132052)", async () => {
  for (const to of [3, 7, 13]) {
    const { files, recorder, log, batches } = await withLogs();
    await log.truncate(to as Offset);
    const expected = [...batches.slice(0, to), appendBatch(log, { epoch: 1, fill: 7 })];
    await recorder.until(() => log.durableEnd === to + 1);
    files.kill();
    files.image.crash(DROP_ALL);
    const { base } = log.segments.all.at(-1) as Segment;
    const own = { topicId: log.topicId, partition: log.partition, base };
    const rows = new IdentityRows(segmentSeed(own.topicId, own.partition, base));
    // Within a batch of today.
    rows.add(1, { position: (batches[base] as Uint8Array).length - 9, chain: 5 });
    const path = `/data/a-0/${offsetName(base)}.ident`;
    files.image.vanish(path);
    files.image.write(files.image.createFile(path), 0, encoded(rows, own));
    const { store } = await opened(new MemoryFiles(files.image));
    const found = store.find(log.topicId, log.partition) as ReplicaLogImpl;
    expect([to, found.damage]).toEqual([to, undefined]);
    expect(await contentOf(found)).toEqual(expected);
    await store.close();
  }
});

/** What is read first of another partition's batch below a cut, once the node died before a checkpoint and a start has found the cut in the journal. */
async function readBelowCut(to: number, place: number) {
  const { files, recorder, log, batches } = await withLogs();
  await log.truncate(to as Offset);
  appendBatch(log, { epoch: 1, fill: 7 });
  await recorder.until(() => log.durableEnd === to + 1);
  files.kill();
  files.image.crash(DROP_ALL);
  misdirect(files, place);
  const { store: again } = await opened(new MemoryFiles(files.image));
  const found = again.find(log.topicId, 0 as PartitionIndex) as ReplicaLogImpl;
  const read = await readAt(found, place, 1).then(
    ({ chunks }) => chunks[0],
    (thrown: { code: string }) => thrown.code,
  );
  await again.close();
  return { read, written: batches[place] };
}

const BELOW_CUTS = [3, 7, 13, 20].flatMap((to) => [0, to >> 1, to - 1].map((place) => [to, place] as const));

test("D-16: a start that finds a cut in the journal goes by what was proven when it was cut, not by what the file holds", async () => {
  for (const [to, place] of BELOW_CUTS)
    expect([to, place, (await readBelowCut(to, place)).read]).toEqual([to, place, "STORAGE_ERROR"]);
});

test("D-16c: with the planted bug another partition's batch below the cut is given out", async () => {
  activateMutants(["D-16c"]);
  const reads = await Promise.all(BELOW_CUTS.map(([to, place]) => readBelowCut(to, place)));
  const given = reads.filter(({ read }) => typeof read !== "string");
  expect(given.length).toBeGreaterThan(0);
  for (const { read, written } of given) expect(read).not.toEqual(written);
});

/** As they must be for these batches. */
function chainsOf(log: ReplicaLogImpl, batches: readonly Uint8Array[]): number[] {
  return log.segments.all.map(({ base }, place) => {
    const end = log.segments.endOf(place);
    const own = batches.filter((batch) => baseOffsetAt(batch, 0) >= base && baseOffsetAt(batch, 0) < end);
    return own.reduce((chain, batch) => chainOver(chain, batch, 0), segmentSeed(log.topicId, log.partition, base));
  });
}

test("S-20: whoever has no room for a long batch learns so from its header: it is not read", async () => {
  const files = new MemoryFiles();
  const store = await openStore(files, { tailCacheBytes: 0, segmentBytes: 1 << 22 });
  const recorder = new Recorder();
  store.listen(recorder);
  const log = (await store.createLog(specOf("a"))) as ReplicaLogImpl;
  appendBatch(log, { valueBytes: 20 });
  appendBatch(log, { valueBytes: 900_000 });
  await recorder.until(() => log.durableEnd === log.endOffset);
  await store.checkpoint();
  const lengths: number[] = [];
  const { handles } = store;
  const use = handles.use.bind(handles);
  handles.use = (path, mode, work) =>
    use(path, mode, (handle) =>
      work(
        Object.assign(Object.create(handle) as typeof handle, {
          read: (position: number, buffer: Uint8Array) => {
            lengths.push(buffer.length);
            return handle.read(position, buffer);
          },
        }),
      ),
    );
  const options = { limitOffset: log.endOffset, maxBytes: 10_000 };
  const none = await log.read(1 as Offset, { ...options, atLeastOne: false });
  expect([none.sizeBytes, Math.max(...lengths) < 100_000]).toEqual([0, true]);
  const whole = await log.read(1 as Offset, { ...options, atLeastOne: true });
  expect([whole.sizeBytes > 900_000, Math.max(...lengths) > 900_000]).toEqual([true, true]);
  await store.close();
});
