// The topic ids of logs of which nobody knows whose they are (D-17): in a directory that does not say so, of a journal that may have lost it.
import { type TopicId, UUID_BYTES, uuidFromBytes } from "../model/ids.ts";

/** Half of the bytes are 0, which no random id has. */
const PREFIX = "A".repeat(10);

/** Unlike those of topics, and unlike each other. */
export function nobodysTopicId(logId: number): TopicId {
  const bytes = new Uint8Array(UUID_BYTES);
  new DataView(bytes.buffer).setFloat64(UUID_BYTES - 8, logId);
  return uuidFromBytes(bytes) as TopicId;
}

export const isNobodys = (topicId: TopicId): boolean => topicId.startsWith(PREFIX);
