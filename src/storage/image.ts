// The checkpoint image: the state of every log at the point where a journal generation begins. Written whole, synced, and valid
// only once the superblock names its generation.
import { present } from "../base/assert.ts";
import { readU16, readU32 } from "../base/bytes.ts";
import { OttlaError } from "../model/errors.ts";
import {
  type LogId,
  type TopicId,
  toLogId,
  toOffset,
  toPartitionIndex,
  UUID_BYTES,
  type LeaderEpoch,
  uuidFromBytes,
  uuidToBytes,
} from "../model/ids.ts";
import type { Checksum } from "../ports/checksum.ts";
import { ByteReader, ByteWriter, MAGIC, readChecked, refuseNewer, refuseUnreleased } from "./format.ts";
import type { IndexCheck } from "./saved-entries.ts";
import type { SegmentState } from "./segment.ts";
import type { Damage, EpochEntry, LogSpec } from "./types.ts";

/** 2: the high watermark of each log. 3: what is known of its producers. 4: the life of its segments. */
const VERSION = 4;
const PREFIX_BYTES = 12;
const NONE = -1;

/** D-7: true only of a log in which the record before `offset` is of `epoch`; -1: there is no such record. */
export interface StoredHighWatermark {
  readonly offset: number;
  readonly epoch: number;
}

export interface LogImage {
  readonly logId: LogId;
  readonly spec: LogSpec;
  readonly startOffset: number;
  readonly endOffset: number;
  readonly truncations: number;
  readonly epochs: readonly EpochEntry[];
  readonly highWatermark: StoredHighWatermark;
  readonly segments: readonly SegmentState[];
  /** Everything below was compacted; at most the base of the last segment. */
  readonly cleanedTo: number;
  readonly isPlain: boolean;
  /** Ends of the images of its producers, newest first, all at or below `endOffset` (D-15). */
  readonly producerImages: readonly number[];
  readonly damage: Damage | undefined;
}

/** State of a log where a checkpoint cuts it; `layout` comes once the segments hold everything below `endOffset`. */
export interface LogCapture {
  readonly startOffset: number;
  readonly endOffset: number;
  readonly truncations: number;
  readonly epochs: readonly EpochEntry[];
  readonly highWatermark: StoredHighWatermark;
  /** No batch of it has a producer: a start need not look. */
  readonly isPlain: boolean;
  /** As in LogImage; of the layout. */
  cleanedTo: number;
  layout: readonly SegmentState[] | undefined;
}

/** A log that was just created: its first record will have this offset. */
export function emptyLogImage(logId: LogId, spec: LogSpec, startOffset: number): LogImage {
  return {
    logId,
    spec,
    startOffset,
    endOffset: startOffset,
    truncations: 0,
    epochs: [],
    highWatermark: { offset: startOffset, epoch: NONE },
    segments: [],
    cleanedTo: startOffset,
    isPlain: true,
    producerImages: [],
    damage: undefined,
  };
}

export interface Image {
  readonly generation: number;
  readonly nextLogId: number;
  /** Journals of these generations, both inclusive, are kept as evidence of damage. */
  readonly evidence: { readonly from: number; readonly to: number } | undefined;
  readonly logs: readonly LogImage[];
}

/** Topic id, topic, partition and overrides: also the body of a CREATE record. */
export function writeSpec(writer: ByteWriter, spec: LogSpec): void {
  writer.raw(present(uuidToBytes(spec.topicId), "topic id"));
  writer.u32(spec.partition);
  writer.i64(spec.segmentBytes ?? NONE);
  writer.i64(spec.indexIntervalBytes ?? NONE);
  writer.text(spec.topic);
}

export function readSpec(reader: ByteReader): LogSpec {
  const topicId: TopicId = uuidFromBytes(reader.raw(UUID_BYTES));
  const partition = toPartitionIndex(reader.u32());
  const segmentBytes = reader.i64();
  const indexIntervalBytes = reader.i64();
  return {
    topicId,
    topic: reader.text(),
    partition,
    ...(segmentBytes === NONE ? {} : { segmentBytes }),
    ...(indexIntervalBytes === NONE ? {} : { indexIntervalBytes }),
  };
}

function writeLog(writer: ByteWriter, log: LogImage): void {
  writer.i64(log.logId);
  writeSpec(writer, log.spec);
  writer.i64(log.startOffset);
  writer.i64(log.endOffset);
  writer.i64(log.truncations);
  writer.i64(log.highWatermark.offset);
  writer.i64(log.highWatermark.epoch);
  writer.u32(log.epochs.length);
  for (const entry of log.epochs) {
    writer.u32(entry.epoch);
    writer.i64(entry.startOffset);
  }
  writer.u32(log.segments.length);
  for (const segment of log.segments) writeSegment(writer, segment);
  writer.i64(log.cleanedTo);
  writer.u8(log.isPlain ? 1 : 0);
  writer.u32(log.producerImages.length);
  for (const endOffset of log.producerImages) writer.i64(endOffset);
  writer.u8(log.damage === undefined ? 0 : 1);
  if (log.damage === undefined) return;
  writer.text(log.damage.reason);
  writer.i64(log.damage.fromOffset ?? NONE);
}

function readLog(reader: ByteReader): LogImage {
  const logId = toLogId(reader.i64());
  const spec = readSpec(reader);
  const [startOffset, endOffset, truncations] = [reader.i64(), reader.i64(), reader.i64()];
  const highWatermark = { offset: reader.i64(), epoch: reader.i64() };
  const epochs: EpochEntry[] = [];
  for (let left = reader.u32(); left > 0; left--)
    epochs.push({ epoch: reader.i32() as LeaderEpoch, startOffset: toOffset(reader.i64()) });
  const segments: SegmentState[] = [];
  for (let left = reader.u32(); left > 0; left--) segments.push(readSegment(reader));
  const cleanedTo = reader.i64();
  const isPlain = reader.u8() === 1;
  const producerImages: number[] = [];
  for (let left = reader.u32(); left > 0; left--) producerImages.push(reader.i64());
  const damage = reader.u8() === 0 ? undefined : readDamage(reader);
  return {
    logId,
    spec,
    startOffset,
    endOffset,
    truncations,
    epochs,
    highWatermark,
    segments,
    cleanedTo,
    isPlain,
    producerImages,
    damage,
  };
}

function writeSegment(writer: ByteWriter, segment: SegmentState): void {
  writer.i64(segment.base);
  writer.i64(segment.sizeBytes);
  writer.i64(segment.maxTimestamp);
  writer.i64(segment.newestTimestamp);
  writer.u32(segment.newestRelative);
  writer.i64(segment.firstTimestamp);
  writer.i64(segment.createdMs);
  writer.i64(segment.chain);
  writeCheck(writer, segment.indexCheck);
  writeCheck(writer, segment.timesCheck);
  writer.u8(segment.isSwapped ? 1 : 0);
}

function readSegment(reader: ByteReader): SegmentState {
  return {
    base: reader.i64(),
    sizeBytes: reader.i64(),
    maxTimestamp: reader.i64(),
    newestTimestamp: reader.i64(),
    newestRelative: reader.i32(),
    firstTimestamp: reader.i64(),
    createdMs: reader.i64(),
    chain: reader.i64(),
    indexCheck: readCheck(reader),
    timesCheck: readCheck(reader),
    isSwapped: reader.u8() === 1,
  };
}

function writeCheck(writer: ByteWriter, { entries, crc }: IndexCheck): void {
  writer.u32(entries);
  writer.u32(crc);
}

const readCheck = (reader: ByteReader): IndexCheck => ({ entries: reader.u32(), crc: reader.u32() });

function readDamage(reader: ByteReader): Damage {
  const reason = reader.text();
  const fromOffset = reader.i64();
  return { reason, fromOffset: fromOffset === NONE ? undefined : toOffset(fromOffset) };
}

export function encodeImage(image: Image, checksum: Checksum): Uint8Array {
  const writer = new ByteWriter();
  writer.u32(MAGIC.IMAGE);
  writer.u16(VERSION);
  writer.u16(VERSION);
  writer.u32(0);
  writer.i64(image.generation);
  writer.i64(image.nextLogId);
  writer.i64(image.evidence?.from ?? NONE);
  writer.i64(image.evidence?.to ?? NONE);
  writer.u32(image.logs.length);
  for (const log of image.logs) writeLog(writer, log);
  writer.setU32(8, checksum.crc32c(writer.bytes().subarray(PREFIX_BYTES)));
  return writer.bytes();
}

/** Throws DATA_DIR_NEWER, DATA_DIR_FOREIGN or DATA_DAMAGED: the superblock says that this image was synced. */
export function decodeImage(bytes: Uint8Array, options: { readonly path: string; readonly checksum: Checksum }): Image {
  const damaged = (): OttlaError =>
    new OttlaError("DATA_DAMAGED", `${options.path} is damaged: no log's end can be told`);
  if (bytes.length < PREFIX_BYTES || readU32(bytes, 0) !== MAGIC.IMAGE) throw damaged();
  const version = readU16(bytes, 4);
  refuseNewer(options.path, { version, minReader: readU16(bytes, 6) }, VERSION);
  if (options.checksum.crc32c(bytes.subarray(PREFIX_BYTES)) !== readU32(bytes, 8)) throw damaged();
  refuseUnreleased(options.path, version, VERSION);
  return readChecked(options.path, () => readImage(new ByteReader(bytes, PREFIX_BYTES)));
}

function readImage(reader: ByteReader): Image {
  const generation = reader.i64();
  const nextLogId = reader.i64();
  const [from, to] = [reader.i64(), reader.i64()];
  const logs: LogImage[] = [];
  for (let left = reader.u32(); left > 0; left--) logs.push(readLog(reader));
  return { generation, nextLogId, evidence: from === NONE ? undefined : { from, to }, logs };
}
