// `partition.metadata`: says, in text, whose log a directory holds and in which format version its files in Kafka's layout are
// written (D-14, D-31). Written and synced before the log's CREATE record. Directory names are for people.
import { utf8Decode, utf8Encode } from "../base/bytes.ts";
import { type LogId, type PartitionIndex, type TopicId, toLogId, toPartitionIndex, uuidToBytes } from "../model/ids.ts";
import { FORMAT_VERSION, MIN_READER_VERSION, refuseNewer } from "./format.ts";

export interface PartitionMetadata {
  readonly topicId: TopicId;
  readonly topic: string;
  readonly partition: PartitionIndex;
  readonly logId: LogId;
}

export function encodePartitionMetadata(metadata: PartitionMetadata): Uint8Array {
  const lines = [
    "ottla.partition.metadata",
    `version: ${FORMAT_VERSION}`,
    `min_reader_version: ${MIN_READER_VERSION}`,
    `topic_id: ${metadata.topicId}`,
    `topic: ${metadata.topic}`,
    `partition: ${metadata.partition}`,
    `log_id: ${metadata.logId}`,
  ];
  return utf8Encode(`${lines.join("\n")}\n`);
}

/** Undefined when the text is not one. Throws DATA_DIR_NEWER. */
export function decodePartitionMetadata(bytes: Uint8Array, path: string): PartitionMetadata | undefined {
  const [head, ...lines] = utf8Decode(bytes).split("\n");
  if (head !== "ottla.partition.metadata") return undefined;
  const fields = new Map(lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
  const number = (key: string): number => (/^\d+$/.test(fields.get(key) ?? "") ? Number(fields.get(key)) : Number.NaN);
  const version = number("version");
  if (Number.isNaN(version)) return undefined;
  refuseNewer(path, { version, minReader: number("min_reader_version") });
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
