// What `npm run fuzz` feeds damaged files to: the reader of every file format of a data directory. What a reader takes is told in facts, one for
// each part that has a checksum of its own. Of bytes whose checksums were not repaired, every fact must be one that a sample has: anything else
// is damage taken for truth. With repaired checksums a reader may take what it likes, and refuse with a coded error, and nothing else.
import { bytesEqual, readI64, readU32, utf8Decode, utf8Encode, writeU32 } from "../src/base/bytes.ts";
import { toPartitionIndex, uuidFromBytes } from "../src/model/ids.ts";
import { OttlaError } from "../src/model/errors.ts";
import { ProducerTable } from "../src/model/producer-table.ts";
import { checkStoredBatch } from "../src/model/record-batch.ts";
import type { Checksum } from "../src/ports/checksum.ts";
import type { FileHandle } from "../src/ports/files.ts";
import { scanBatches } from "../src/storage/batch-scan.ts";
import { decodeEpochCheckpoint, encodeEpochCheckpoint } from "../src/storage/epoch-checkpoint.ts";
import { ByteReader, readChecked } from "../src/storage/format.ts";
import { rowsOf } from "../src/storage/high-watermark.ts";
import { decodeImage, readSpec } from "../src/storage/image.ts";
import { findProofOfSync, readJournal, readJournalHeader } from "../src/storage/journal-reader.ts";
import { FILE_HEADER_BYTES, type JournalRecord, KIND, RECORD_HEADER_BYTES } from "../src/storage/journal-record.ts";
import { decodeIdentity, IDENTITY_HEADER_BYTES, IDENTITY_ROW_BYTES } from "../src/storage/identity-file.ts";
import { OffsetIndex } from "../src/storage/offset-index.ts";
import { decodePartitionMetadata } from "../src/storage/partition-metadata.ts";
import { decodeProducerImage } from "../src/storage/producer-image.ts";
import { decodeSnapshot } from "../src/storage/producer-snapshot.ts";
import { QUORUM_STATE_FORMAT, readQuorumState } from "../src/storage/quorum-state.ts";
import { decodeEntry } from "../src/storage/raft-entries.ts";
import { BLOCK_BYTES, readSnapshotBytes, readSnapshotHead } from "../src/storage/snapshot-file.ts";
import { readSuperblock, SLOT_BYTES } from "../src/storage/superblock.ts";
import { TimeIndex } from "../src/storage/time-index.ts";
import type { FuzzTarget } from "./fuzz-targets.ts";
import type { SampleFile } from "./fuzz-samples.ts";

export interface FileFormat {
  readonly name: string;
  /** Of paths within a data directory. */
  readonly names: RegExp;
  /** What the reader takes these bytes for. Refuses with an OttlaError. */
  readonly read: (bytes: Uint8Array, checksum: Checksum) => Promise<readonly string[]> | readonly string[];
  /** Makes checksums match again; undefined: the format has none, and `read` tells itself whether what it took makes sense. */
  readonly repair?: (bytes: Uint8Array, checksum: Checksum) => void;
  /** Of a file of two slots: where one is not valid, what the other says is true. */
  readonly slotBytes?: number;
}

/** Files that nobody reads, or whose bytes say nothing. */
const NOT_READ = /^(reserve|metadata\/reserve|journal\/spare|lock\.\d+)$|\.(tmp|new|damaged)$/;
const BATCH_CRC_AT = 17;
const BATCH_CRC_START = 21;
const BATCH_LENGTH_AT = 8;
const LOG_OVERHEAD_BYTES = 12;

const refuse = (reason: string): never => {
  throw new OttlaError("DATA_DAMAGED", reason);
};

const told = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) =>
    each instanceof Map ? [...each] : each instanceof Uint8Array ? `${each.length}:${sumOf(each)}` : each,
  );

/** FNV-1a: of bytes that a checksum has been over, to tell them apart. */
function sumOf(bytes: Uint8Array): number {
  let sum = 0x811c9dc5;
  for (const byte of bytes) sum = Math.imul(sum ^ byte, 0x01000193);
  return sum >>> 0;
}

/** Magic, versions, then the CRC of all behind it. */
function repairPrefix(bytes: Uint8Array, checksum: Checksum): void {
  if (bytes.length > 12) writeU32(bytes, 8, checksum.crc32c(bytes.subarray(12)));
}

const repairSlots =
  (slotBytes: number) =>
  (bytes: Uint8Array, checksum: Checksum): void => {
    for (let start = 0; start + slotBytes <= bytes.length; start += slotBytes)
      repairPrefix(bytes.subarray(start, start + slotBytes), checksum);
  };

function repairBatches(bytes: Uint8Array, checksum: Checksum): void {
  for (let at = 0; at + BATCH_CRC_START < bytes.length; ) {
    const end = at + LOG_OVERHEAD_BYTES + readU32(bytes, at + BATCH_LENGTH_AT);
    if (end > bytes.length || end < at + BATCH_CRC_START) return;
    writeU32(bytes, at + BATCH_CRC_AT, checksum.crc32c(bytes.subarray(at + BATCH_CRC_START, end)));
    at = end;
  }
}

/** Header and records, each chained to the one before. */
function repairJournal(bytes: Uint8Array, checksum: Checksum): void {
  if (bytes.length < FILE_HEADER_BYTES) return;
  repairPrefix(bytes.subarray(0, FILE_HEADER_BYTES), checksum);
  const salt = readU32(bytes, 36);
  let before = readU32(bytes, 8);
  for (let at = FILE_HEADER_BYTES; at + RECORD_HEADER_BYTES <= bytes.length; ) {
    const end = at + RECORD_HEADER_BYTES + readU32(bytes, at + 68);
    if (end > bytes.length) return;
    writeU32(bytes, at + 8, before);
    before = checksum.crc32c(bytes.subarray(at + 8, end), salt);
    writeU32(bytes, at + 4, before);
    at = end;
  }
}

function repairSnapshot(bytes: Uint8Array, checksum: Checksum): void {
  const headBytes = bytes.length < 16 ? 0 : readU32(bytes, 12);
  if (headBytes <= 12 || headBytes > bytes.length) return;
  repairPrefix(bytes.subarray(0, headBytes), checksum);
  for (let at = headBytes; at + 4 < bytes.length; at += BLOCK_BYTES + 4) {
    const end = Math.min(at + BLOCK_BYTES, bytes.length - 4);
    writeU32(bytes, end, checksum.crc32c(bytes.subarray(at, end)));
  }
}

function repairText(bytes: Uint8Array, checksum: Checksum): void {
  const text = utf8Decode(bytes);
  const at = text.lastIndexOf("\ncrc32c: ") + 1;
  const sum = utf8Encode(
    `crc32c: ${checksum
      .crc32c(utf8Encode(text.slice(0, at)))
      .toString(16)
      .padStart(8, "0")}\n`,
  );
  if (at > 0 && utf8Encode(text.slice(0, at)).length + sum.length === bytes.length)
    bytes.set(sum, bytes.length - sum.length);
}

async function readBatches(
  bytes: Uint8Array,
  checksum: Checksum,
  fact: (batch: Uint8Array) => string,
): Promise<readonly string[]> {
  const facts: string[] = [];
  const end = await scanBatches(handleOf(bytes), {
    ...{ from: 0, end: bytes.length, checksum },
    visit: ({ bytes: buffer, at, sizeBytes }) => {
      facts.push(fact(buffer.subarray(at, at + sizeBytes)));
      return true;
    },
  });
  return end.kind === "end" || facts.length > 0 ? facts : refuse(end.reason);
}

/** Of what a batch's CRC covers: base offset, length and leader epoch are told by the identity sidecar. */
function batchFact(batch: Uint8Array, checksum: Checksum): string {
  const check = checkStoredBatch(batch, 0, { end: batch.length, checksum });
  if (check.kind !== "valid" || check.sizeBytes !== batch.length) throw new Error("a batch that is none was visited");
  return told(batch.subarray(BATCH_CRC_START));
}

async function readJournalFile(bytes: Uint8Array, checksum: Checksum): Promise<readonly string[]> {
  const handle = handleOf(bytes);
  const header = (await readJournalHeader(handle, checksum)) ?? refuse("no header");
  const facts = [told(header)];
  const visit = (record: JournalRecord): void => void facts.push(recordFact(record));
  const end = await readJournal(handle, { header, checksum, visit });
  await findProofOfSync(handle, { header, end, checksum });
  return facts;
}

function recordFact(record: JournalRecord): string {
  if (record.kind === KIND.CREATE)
    return told({ ...record, spec: readChecked("record", () => readSpec(new ByteReader(record.body))) });
  if (record.kind === KIND.HIGH_WATERMARKS) return told({ ...record, rows: [...rowsOf(record.body)] });
  return told(record);
}

async function readSnapshotFile(bytes: Uint8Array, checksum: Checksum): Promise<readonly string[]> {
  const handle = handleOf(bytes);
  const head = await readSnapshotHead(handle, checksum);
  const { sizeBytes } = head.meta;
  const facts = [told(head)];
  for (let position = 0; position < sizeBytes; position += BLOCK_BYTES)
    facts.push(told(await readSnapshotBytes(handle, head, { position, length: BLOCK_BYTES, checksum })));
  return facts;
}

/** Of the segment that the file names: each row is proven by all before it. */
function readIdentity(bytes: Uint8Array): readonly string[] {
  if (bytes.length < IDENTITY_HEADER_BYTES) return refuse("too short");
  const topicId = uuidFromBytes(bytes.subarray(12, 28));
  const [partition, base] = [readU32(bytes, 28), readI64(bytes, 32)];
  if (!Number.isSafeInteger(base) || base < 0) return refuse("no segment has this name");
  const found = decodeIdentity(bytes, { topicId, partition: toPartitionIndex(partition), base });
  if (typeof found === "string") return refuse(found);
  const { rows } = found;
  return Array.from({ length: rows.count }, (_, row) =>
    told([topicId, partition, base, rows.relativeEndAt(row), rows.positionAt(row), rows.chainAt(row)]),
  );
}

function repairIdentity(bytes: Uint8Array, checksum: Checksum): void {
  if (bytes.length < IDENTITY_HEADER_BYTES) return;
  let check = checksum.crc32c(bytes.subarray(12, IDENTITY_HEADER_BYTES));
  writeU32(bytes, 8, check);
  for (let at = IDENTITY_HEADER_BYTES; at + IDENTITY_ROW_BYTES <= bytes.length; at += IDENTITY_ROW_BYTES) {
    check = checksum.crc32c(bytes.subarray(at, at + 12), check);
    writeU32(bytes, at + 12, check);
  }
}

/** A format without a checksum: what was taken must be written as it was read. */
function rewritten(bytes: Uint8Array, again: Uint8Array | undefined): readonly string[] {
  if (again === undefined) return refuse("it is none");
  if (!bytesEqual(bytes, again)) throw new Error("taken for other bytes than there are");
  return [];
}

export const FILE_FORMATS: readonly FileFormat[] = [
  {
    name: "superblock",
    names: /^superblock$/,
    repair: repairSlots(SLOT_BYTES),
    slotBytes: SLOT_BYTES,
    read: async (bytes, checksum) => [told((await readSuperblock(handleOf(bytes), checksum)).block)],
  },
  { name: "journal", names: /^journal\/\d+\.journal$/, repair: repairJournal, read: readJournalFile },
  {
    name: "checkpoint image",
    names: /^checkpoint\/\d+\.image$/,
    repair: repairPrefix,
    read: (bytes, checksum) => [told(decodeImage(bytes, { path: "image", checksum }))],
  },
  {
    name: "partition.metadata",
    names: /\/partition\.metadata$/,
    repair: repairText,
    read: (bytes, checksum) => [
      told(decodePartitionMetadata(bytes, { path: "partition.metadata", checksum }) ?? refuse("it is none")),
    ],
  },
  {
    name: "segment",
    names: /^(?!metadata\/).*\/\d{20}\.log(\.cleaned)?$/,
    repair: repairBatches,
    read: (bytes, checksum) => readBatches(bytes, checksum, (batch) => batchFact(batch, checksum)),
  },
  {
    name: "offset index",
    names: /\/\d{20}\.index(\.cleaned)?$/,
    read: (bytes) => rewritten(bytes, OffsetIndex.decode(bytes)?.encode()),
  },
  {
    name: "time index",
    names: /\/\d{20}\.timeindex(\.cleaned)?$/,
    read: (bytes) => rewritten(bytes, TimeIndex.decode(bytes)?.encode()),
  },
  {
    name: "identity",
    names: /\/\d{20}\.ident(\.cleaned)?$/,
    repair: repairIdentity,
    read: readIdentity,
  },
  {
    name: "image of producers",
    names: /\/\d{20}\.producers$/,
    repair: repairPrefix,
    read: (bytes, checksum) => {
      const image = decodeProducerImage(bytes, checksum);
      if (typeof image === "string") return refuse(image);
      const table = ProducerTable.decode(image.table, image.endOffset) ?? refuse("no table of producers");
      return bytesEqual(table.encode(), image.table) ? [told(image)] : refuse("taken for another table");
    },
  },
  {
    name: "Kafka's file of producers",
    names: /\/\d{20}\.snapshot$/,
    repair: (bytes, checksum) => {
      if (bytes.length > 6) writeU32(bytes, 2, checksum.crc32c(bytes.subarray(6)));
    },
    read: (bytes, checksum) => {
      const entries = decodeSnapshot(bytes, checksum);
      return typeof entries === "string" ? refuse(entries) : [told(entries)];
    },
  },
  {
    name: "leader-epoch-checkpoint",
    names: /\/leader-epoch-checkpoint$/,
    read: (bytes) => {
      const epochs = decodeEpochCheckpoint(bytes) ?? refuse("it is none");
      return decodeEpochCheckpoint(encodeEpochCheckpoint(epochs)) === undefined ? refuse("taken for others") : [];
    },
  },
  {
    name: "quorum-state",
    names: /^metadata\/quorum-state$/,
    repair: repairSlots(QUORUM_STATE_FORMAT.slotBytes),
    slotBytes: QUORUM_STATE_FORMAT.slotBytes,
    read: (bytes, checksum) => [told(readQuorumState(bytes, "quorum-state", checksum).state)],
  },
  {
    name: "metadata log",
    names: /^metadata\/\d{20}\.log$/,
    repair: repairBatches,
    read: (bytes, checksum) =>
      readBatches(bytes, checksum, (batch) => {
        const entry = decodeEntry(batch.slice(), "metadata log", checksum);
        // The walk of recovery goes by the index; the term stands twice, and a batch's CRC covers one of them.
        return typeof entry === "string" ? refuse(entry) : told({ ...entry, entry: { ...entry.entry, index: 0 } });
      }),
  },
  {
    name: "metadata snapshot file",
    names: /^metadata\/\d{20}-\d{10}\.snapshot$/,
    repair: repairSnapshot,
    read: readSnapshotFile,
  },
];

/** A target for each format; throws where a file of the samples has no reader, or a format no sample. */
export function fileTargets(files: readonly SampleFile[], checksum: Checksum): Promise<FuzzTarget[]> {
  const strangers = files.filter(
    ({ path }) => !NOT_READ.test(path) && !FILE_FORMATS.some(({ names }) => names.test(path)),
  );
  if (strangers.length > 0) throw new Error(`no fuzz target reads ${strangers.map(({ path }) => path).join(", ")}`);
  return Promise.all(
    FILE_FORMATS.map((format) =>
      targetOf(
        format,
        files.filter(({ path }) => format.names.test(path)),
        checksum,
      ),
    ),
  );
}

async function targetOf(format: FileFormat, files: readonly SampleFile[], checksum: Checksum): Promise<FuzzTarget> {
  const { name, read, repair } = format;
  const samples = files.map(({ bytes }) => bytes).filter(({ length }) => length > 0);
  if (samples.length === 0) throw new Error(`no file to damage: ${name}`);
  const known = new Set<string>();
  for (const sample of samples.flatMap((bytes) => [bytes, ...slotsOf(bytes, format.slotBytes)]))
    for (const fact of await read(sample, checksum)) known.add(fact);
  return {
    name,
    isFile: true,
    samples,
    ...(repair === undefined ? {} : { repair: (bytes: Uint8Array) => repair(bytes, checksum) }),
    feed: async (bytes, isRepaired) => {
      const facts = await read(bytes, checksum);
      const wrong = isRepaired ? undefined : facts.find((fact) => !known.has(fact));
      return wrong === undefined ? undefined : `taken for what no file holds: ${wrong}`;
    },
  };
}

function slotsOf(bytes: Uint8Array, slotBytes: number | undefined): readonly Uint8Array[] {
  if (slotBytes === undefined) return [];
  return [0, slotBytes].map((start) => bytes.slice().fill(0, start, start + slotBytes));
}

/** A file to be read. */
export function handleOf(bytes: Uint8Array, path = "a file"): FileHandle {
  const readOnly = (): Promise<never> => Promise.reject(new Error("readers write nothing"));
  return {
    path,
    read: (position, target) => {
      const part = bytes.subarray(position, position + target.length);
      target.set(part);
      return Promise.resolve(part.length);
    },
    size: () => Promise.resolve(bytes.length),
    ...{ write: readOnly, datasync: readOnly, truncate: readOnly },
    close: () => Promise.resolve(),
  };
}
