// Kafka's own dump tool reads what lies in a log's directory, and finds nothing wrong with it; and it does find what we plant.
import { closeSync, cpSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { assignOffsets } from "../../src/model/record-batch.ts";
import { RecordBatchBuilder } from "../../src/model/records.ts";
import { buildToldProducers } from "../../src/model/producer-records.ts";
import type { LeaderEpoch, Offset } from "../../src/model/ids.ts";
import { sequencedAt } from "../../src/model/producer-table.ts";
import { loadCodecs } from "../../src/platform/codecs.ts";
import { createFiles } from "../../src/platform/files.ts";
import type { Codecs, CompressionName } from "../../src/ports/codecs.ts";
import { verifyDirectory } from "../../src/storage/inspect.ts";
import { faultsOf } from "../../src/storage/inspect-types.ts";
import type { ReplicaLog } from "../../src/storage/types.ts";
import { compactedLog } from "./compacted.ts";
import { hasKafka, runJava } from "./kafka-classpath.ts";
import { checksum, openStore, Recorder, specOf } from "./support.ts";

const TIMEOUT_MS = 240_000;
const BATCHES = 1200;
/** What Kafka's tool says of what it does not like. */
const COMPLAINT = /isvalid: false|mismatch|out of order|not found in the log|do not match|Exception|corrupt|Error/i;

let folder = "";
let batchCount = 0;

function batchOf(place: number, base: number, codecs: Codecs): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: 1 << 20 });
  const compressions: readonly CompressionName[] = ["none", "gzip", "snappy", "lz4", "zstd"];
  for (let index = 0; index < 1 + (place % 4); index++) {
    builder.tryAppend({
      key: place % 3 === 0 ? null : new Uint8Array(8).fill(place),
      value: place % 11 === 0 ? null : new Uint8Array(120).fill(index),
      headers: place % 5 === 0 ? [["h", new Uint8Array([1])]] : [],
      // Rising, equal and decreasing.
      timestamp: 1_700_000_000_000 + Math.floor(place / 20) * 1000 - (place % 20) * 30,
    });
  }
  const compression = compressions[place % 7] ?? "none";
  const producer = { producerId: 5 + (place % 3), producerEpoch: 0, baseSequence: 0 };
  const batch = builder.build({ compression, codecs, checksum, ...(place < 3 ? { producer } : {}) });
  assignOffsets(batch, base, Math.floor(place / 500));
  return batch;
}

async function append(log: ReplicaLog, batch: Uint8Array, count: number, epoch: number): Promise<void> {
  log.append(batch, (log.endOffset + count - 1) as Offset, epoch as LeaderEpoch);
  log.producers.observe(sequencedAt(batch, 0));
  log.noteHighWatermark(log.durableEnd);
  log.producers.settle(log.durableEnd);
  batchCount++;
}

async function fill(codecs: Codecs): Promise<void> {
  const store = await openStore(createFiles(), { directory: folder, segmentBytes: 40_000, indexIntervalBytes: 1000 });
  const recorder = new Recorder();
  store.listen(recorder);
  const log = await store.createLog(specOf("a"));
  for (let place = 0; place < BATCHES; place++) {
    const epoch = Math.floor(place / 500);
    await append(log, batchOf(place, log.endOffset, codecs), 1 + (place % 4), epoch);
    if (place % 100 === 99) await recorder.until(() => log.durableEnd === log.endOffset);
  }
  const told = buildToldProducers(
    { kind: "expired", producers: [{ producerId: 5, producerEpoch: 0 }] },
    1_700_000_000_000,
    checksum,
  );
  assignOffsets(told, log.endOffset, 2);
  await append(log, told, 1, 2);
  await recorder.until(() => log.durableEnd === log.endOffset);
  log.noteHighWatermark(log.durableEnd);
  log.producers.settle(log.durableEnd);
  await store.close();
}

const directory = (): string => join(folder, "a-0");
const filesOf = (suffix: string, within = directory()): string[] =>
  readdirSync(within)
    .filter((name) => name.endsWith(suffix))
    .sort()
    .map((name) => join(within, name));

function dump(files: readonly string[], ...flags: string[]): string {
  return runJava("kafka.tools.DumpLogSegments", ["--files", files.join(","), ...flags]).said;
}

const linesWith = (said: string, pattern: RegExp): number =>
  said.split("\n").filter((line) => pattern.test(line)).length;

describe.skipIf(!hasKafka)("Kafka's dump tool", () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "ottla-kafka-"));
    const codecs = await loadCodecs();
    await fill(codecs);
    const { store } = await compactedLog(createFiles(), { directory: join(folder, "compacted"), codecs });
    await store.close();
  }, TIMEOUT_MS);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test(
    "reads every segment, also within compressed batches",
    () => {
      const said = dump(filesOf(".log"), "--deep-iteration");
      expect(said).not.toMatch(COMPLAINT);
      expect(filesOf(".log").length).toBeGreaterThan(3);
      expect(linesWith(said, /^baseOffset: .* isvalid: true/)).toBe(batchCount);
    },
    TIMEOUT_MS,
  );

  test(
    "finds every entry of both indexes as it should be",
    () => {
      for (const [suffix, entryBytes, line] of [
        [".index", 8, /^offset: \d+ position: \d+/],
        [".timeindex", 12, /^timestamp: \d+ offset: \d+/],
      ] as const) {
        const files = filesOf(suffix);
        const said = dump(files);
        expect(said).not.toMatch(COMPLAINT);
        const entries = files.reduce((sum, file) => sum + readFileSync(file).length / entryBytes, 0);
        expect(entries).toBeGreaterThan(40);
        expect(linesWith(said, line)).toBe(entries);
      }
    },
    TIMEOUT_MS,
  );

  test(
    "reads the leader epochs",
    () => {
      const { said } = runJava("ReadEpochs.java", [join(directory(), "leader-epoch-checkpoint")]);
      const lines = said.split("\n").filter((line) => /^\d+ \d+$/.test(line));
      expect(lines.map((line) => line.split(" ")[0])).toEqual(["0", "1", "2"]);
    },
    TIMEOUT_MS,
  );

  test(
    "reads the producers",
    () => {
      const files = filesOf(".snapshot");
      expect(files.length).toBeGreaterThan(0);
      const said = dump(files);
      expect(said).not.toMatch(COMPLAINT);
      // The first of three is forgotten: the last record says so.
      const lines = said.split("\n").filter((line) => /^producerId: \d+ /.test(line));
      expect(lines.length).toBe(files.length * 2);
      for (const id of [6, 7])
        expect(lines.some((line) => line.startsWith(`producerId: ${id} producerEpoch: 0 `))).toBe(true);
    },
    TIMEOUT_MS,
  );

  test(
    "reads what compaction leaves: batches without records, tombstones that wait for their horizon, and the indexes of it",
    async () => {
      const report = await verifyDirectory({ files: createFiles(), checksum }, join(folder, "compacted"));
      expect([faultsOf(report), report.remarks]).toEqual([[], []]);
      const within = join(folder, "compacted", "c-0");
      const said = dump(filesOf(".log", within), "--deep-iteration");
      expect(said).not.toMatch(COMPLAINT);
      expect(linesWith(said, /^baseOffset: .* count: 0 .* isvalid: true/)).toBeGreaterThan(0);
      expect(
        linesWith(said, /^baseOffset: .* deleteHorizonMs: OptionalLong\[18\d+\] .* isvalid: true/),
      ).toBeGreaterThan(0);
      const indexes = dump([...filesOf(".index", within), ...filesOf(".timeindex", within)]);
      expect(indexes).not.toMatch(COMPLAINT);
      expect(linesWith(indexes, /^timestamp: \d+ offset: \d+/)).toBeGreaterThan(5);
    },
    TIMEOUT_MS,
  );

  test(
    "complains when an entry of an index is wrong: the checks above can fail",
    () => {
      const spoilt = join(folder, "spoilt");
      cpSync(directory(), spoilt, { recursive: true });
      for (const [suffix, position] of [
        [".index", 7],
        [".timeindex", 7],
      ] as const) {
        const file = filesOf(suffix, spoilt)[0] as string;
        const handle = openSync(file, "r+");
        writeSync(handle, Uint8Array.of((readFileSync(file)[position] as number) ^ 1), 0, 1, position);
        closeSync(handle);
        expect(dump([file])).toMatch(COMPLAINT);
      }
    },
    TIMEOUT_MS,
  );
});
