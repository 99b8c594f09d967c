// What a look into a long log costs: the files that it touches, the batches that it reads, and the room that the indexes take (S-12, S-13, S-24).
import { afterEach, describe, expect, test } from "vitest";
import { concatBytes } from "../../src/base/bytes.ts";
import { activateMutants } from "../../src/base/mutant.ts";
import type { LeaderEpoch, Offset } from "../../src/model/ids.ts";
import { stampAppendTime } from "../../src/model/record-batch.ts";
import { decodeRecords } from "../../src/model/records.ts";
import { loadCodecs } from "../../src/platform/codecs.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import type { StorageConfig } from "../../src/storage/types.ts";
import { MemoryFiles } from "./memory-files.ts";
import { compactedLog } from "./compacted.ts";
import { checksum, contentOf, makeBatch, openStore, readAll, Recorder, specOf } from "./support.ts";

afterEach(() => activateMutants([]));

async function opened(files: MemoryFiles, config: Partial<StorageConfig>) {
  const store = await openStore(files, { tailCacheBytes: 0, ...config });
  const recorder = new Recorder();
  store.listen(recorder);
  const log = (await store.createLog(specOf("a"))) as ReplicaLogImpl;
  const settled = (): Promise<void> => recorder.until(() => log.durableEnd === log.endOffset);
  return { store, log, settled };
}

type Opened = Awaited<ReturnType<typeof opened>>;

/** A batch for each time, in runs. */
async function fill({ log, settled }: Opened, times: readonly number[], valueBytes: number): Promise<void> {
  const RUN = 50;
  for (let start = 0; start < times.length; start += RUN) {
    const base = log.endOffset;
    const run = times
      .slice(start, start + RUN)
      .map((timestamp, place) => makeBatch(base + place, { timestamp, valueBytes }));
    log.append(concatBytes(run), (base + run.length - 1) as Offset, 0 as LeaderEpoch);
    if (log.producers.endOffset === base) log.producers.advance(log.endOffset);
    await settled();
  }
}

/** Files that the work opened or read. */
async function touched(files: MemoryFiles, work: () => Promise<void>): Promise<Set<string>> {
  const paths = new Set<string>();
  files.onOperation = ({ kind, path }) => {
    if (kind === "open" || kind === "read") paths.add(path.slice(path.lastIndexOf("/") + 1));
  };
  await work();
  files.onOperation = () => undefined;
  return paths;
}

const stemOf = (name: string): string => name.slice(0, 20);

describe("a log of a thousand segments that was just opened", () => {
  const SEGMENTS = 1000;
  const config = { segmentBytes: 600, indexIntervalBytes: 100, openFilesMax: 8 };

  async function thousand(): Promise<{ files: MemoryFiles; log: ReplicaLogImpl }> {
    const files = new MemoryFiles();
    const first = await opened(files, config);
    await fill(
      first,
      Array.from({ length: SEGMENTS * 5 }, (_, place) => 1000 + place),
      40,
    );
    await first.store.close();
    const { log } = await opened(files, config);
    expect(log.segments.all.length).toBeGreaterThanOrEqual(SEGMENTS);
    return { files, log };
  }

  test("is sought by an offset in two files of one segment", async () => {
    const { files, log } = await thousand();
    for (const offset of [0, 17, 2500, 3333, log.endOffset - 9]) {
      const paths = await touched(files, async () => {
        const found = await log.read(offset as Offset, { ...readAll, maxBytes: 1, limitOffset: log.endOffset });
        expect(found.nextOffset).toBe(offset + 1);
      });
      expect(paths.size).toBeLessThanOrEqual(2);
      expect(new Set([...paths].map(stemOf)).size).toBe(1);
    }
  });

  test("S-24: is sought by a time in the files of one segment", async () => {
    const { files, log } = await thousand();
    for (const offset of [0, 17, 2500, 3333, log.endOffset - 9]) {
      const paths = await touched(files, async () => {
        expect((await log.findTimestamp(1000 + offset, log.endOffset))?.offset).toBe(offset);
      });
      expect(paths.size).toBeLessThanOrEqual(4);
      expect(new Set([...paths].map(stemOf)).size).toBe(1);
    }
  });
});

describe("S-24: by time, in a segment of a megabyte", () => {
  const config = { segmentBytes: 1024 * 1024, indexIntervalBytes: 4096, tailCacheBytes: 0 };
  const COUNT = 3000;
  const series: Readonly<Record<string, (place: number) => number>> = {
    rising: (place) => place,
    "equal, one newer near the end": (place) => (place === COUNT - 100 ? 20 : 10),
    "decreasing, one newer in the middle": (place) => (place === 1500 ? 5000 : COUNT - place),
    "by waves": (place) => Math.floor(place / 100) * 90 + (place % 100),
  };

  for (const [name, timeOf] of Object.entries(series)) {
    test(`as a scan finds it: ${name}`, async () => {
      const files = new MemoryFiles();
      const times = Array.from({ length: COUNT }, (_, place) => timeOf(place));
      const first = await opened(files, config);
      await fill(first, times, 200);
      await first.store.close();
      const { log } = await opened(files, config);
      for (const wanted of new Set([0, ...times.filter((_, place) => place % 97 === 0), 15, 20, 5000, 5001])) {
        const expected = times.findIndex((time) => time >= wanted);
        const found = await log.findTimestamp(wanted, log.endOffset);
        expect(found?.offset).toBe(expected < 0 ? undefined : expected);
        if (expected >= 0) expect(found?.timestamp).toBe(times[expected]);
      }
    });
  }

  test("S-24: also what lies before the batch that an entry names; the planted bug does not", async () => {
    const files = new MemoryFiles();
    const first = await opened(files, config);
    const times = Array.from({ length: 200 }, (_, place) => (place === 4 ? 60 : place === 5 ? 100 : 1));
    await fill(first, times, 200);
    await first.store.close();
    const { log } = await opened(files, config);
    expect((await log.findTimestamp(50, log.endOffset))?.offset).toBe(4);
    activateMutants(["S-24"]);
    expect((await log.findTimestamp(50, log.endOffset))?.offset).toBe(5);
  });
});

test("S-24: with LogAppendTime every record is of the time at which its batch was appended", async () => {
  const files = new MemoryFiles();
  const { store, log, settled } = await opened(files, { segmentBytes: 4000, indexIntervalBytes: 300 });
  const COUNT = 100;
  for (let place = 0; place < COUNT; place++) {
    const base = log.endOffset;
    const batch = makeBatch(base, { count: 3, timestamp: 1_000_000 - place });
    stampAppendTime(batch, 2000 + Math.floor(place / 4) * 10, checksum);
    log.append(batch, (base + 2) as Offset, 0 as LeaderEpoch);
    if (log.producers.endOffset === base) log.producers.advance(log.endOffset);
  }
  await settled();
  await store.close();
  const again = await opened(files, { segmentBytes: 4000, indexIntervalBytes: 300 });
  expect(again.log.segments.all.length).toBeGreaterThan(2);
  for (let wanted = 1990; wanted < 2260; wanted += 5) {
    const place = Math.max(0, Math.ceil((wanted - 2000) / 10)) * 4;
    const found = await again.log.findTimestamp(wanted, again.log.endOffset);
    if (place >= COUNT) expect(found).toBeUndefined();
    else expect(found).toMatchObject({ offset: place * 3, timestamp: 2000 + (place / 4) * 10 });
  }
});

test("S-24: in a compacted log as a scan of what is left finds it", async () => {
  const files = new MemoryFiles();
  const codecs = await loadCodecs();
  const { store, log, firstMs } = await compactedLog(files, { directory: "/data", codecs });
  const left: { readonly offset: number; readonly timestamp: number }[] = [];
  for (const batch of await contentOf(log))
    for (const { offset, timestamp } of decodeRecords(batch, { checksum, codecs, decompressedBytesMax: 1 << 20 }))
      left.push({ offset, timestamp });
  expect(left.length).toBeLessThan(log.endOffset / 2);
  for (let wanted = firstMs - 50; wanted < firstMs + 4100; wanted += 7) {
    const expected = left.find(({ timestamp }) => timestamp >= wanted);
    const found = await log.findTimestamp(wanted, log.endOffset);
    expect(found && { offset: found.offset, timestamp: found.timestamp }).toEqual(expected);
  }
  await store.close();
});

test("S-12, S-13: the indexes take half a percent of the log at most", async () => {
  for (const valueBytes of [100, 1000, 4000]) {
    const files = new MemoryFiles();
    const { store, log, settled } = await opened(files, { segmentBytes: 512 * 1024, indexIntervalBytes: 4096 });
    await fill(
      { store, log, settled },
      Array.from({ length: 2_000_000 / valueBytes }, (_, place) => place),
      valueBytes,
    );
    await store.close();
    const sizes = new Map<string, number>();
    const directory = files.image.find("/data/a-0");
    if (directory?.kind === "directory")
      for (const [name, node] of directory.live) {
        const suffix = name.slice(name.indexOf("."));
        if (node.kind === "file") sizes.set(suffix, (sizes.get(suffix) ?? 0) + node.live.sizeBytes);
      }
    const sizeOf = (suffix: string): number => sizes.get(suffix) ?? 0;
    expect(sizeOf(".timeindex")).toBeGreaterThan(0);
    expect(sizeOf(".index") + sizeOf(".timeindex")).toBeLessThanOrEqual(sizeOf(".log") * 0.005);
  }
});
