// `partition.metadata`: says, in text, whose log a directory holds and in which format version its files in Kafka's layout are
// written (D-14, D-31). Written and synced before the log's CREATE record. Directory names are for people. The last line is a checksum of those
// before it, in this and every later version: rot is damage of one log, not a newer format.
import { utf8Decode, utf8Encode } from "../base/bytes.ts";
import { type LogId, type PartitionIndex, type TopicId, toLogId, toPartitionIndex, uuidToBytes } from "../model/ids.ts";
import type { Checksum } from "../ports/checksum.ts";
import { refuseNewer } from "./format.ts";

export interface PartitionMetadata {
  readonly topicId: TopicId;
  readonly topic: string;
  readonly partition: PartitionIndex;
  readonly logId: LogId;
}

/** Of the format of this file. 2: the checksum. */
const VERSION = 2;
const CHECKSUM_KEY = "crc32c: ";

const sumOf = (text: string, checksum: Checksum): string =>
  `${CHECKSUM_KEY}${checksum.crc32c(utf8Encode(text)).toString(16).padStart(8, "0")}\n`;

export function encodePartitionMetadata(metadata: PartitionMetadata, checksum: Checksum): Uint8Array {
  const lines = [
    "ottla.partition.metadata",
    `version: ${VERSION}`,
    `min_reader_version: ${VERSION}`,
    `topic_id: ${metadata.topicId}`,
    `topic: ${metadata.topic}`,
    `partition: ${metadata.partition}`,
    `log_id: ${metadata.logId}`,
  ];
  const text = `${lines.join("\n")}\n`;
  return utf8Encode(text + sumOf(text, checksum));
}

/** Undefined when the text is not one, or damaged. Throws DATA_DIR_NEWER. */
export function decodePartitionMetadata(
  bytes: Uint8Array,
  options: { readonly path: string; readonly checksum: Checksum },
): PartitionMetadata | undefined {
  const whole = utf8Decode(bytes);
  const text = whole.slice(0, Math.max(0, whole.lastIndexOf(`\n${CHECKSUM_KEY}`) + 1));
  if (whole !== text + sumOf(text, options.checksum)) return undefined;
  const [head, ...lines] = text.split("\n");
  if (head !== "ottla.partition.metadata") return undefined;
  const fields = new Map(lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
  const number = (key: string): number =>
    /^\d{1,15}$/.test(fields.get(key) ?? "") ? Number(fields.get(key)) : Number.NaN;
  const version = number("version");
  if (Number.isNaN(version)) return undefined;
  refuseNewer(options.path, { version, minReader: number("min_reader_version") }, VERSION);
  const topicId = fields.get("topic_id") ?? "";
  const partition = number("partition");
  const logId = number("log_id");
  if (uuidToBytes(topicId) === undefined || Number.isNaN(partition) || Number.isNaN(logId)) return undefined;
  return {
    topicId: topicId as TopicId,
    topic: fields.get("topic") ?? "",
    partition: toPartitionIndex(partition),
    logId: toLogId(logId),
  };
}
