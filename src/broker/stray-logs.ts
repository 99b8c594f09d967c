// Logs of topics that are not there. Rot in the journal brings them back, damaged, or hides that the log of a partition was ever made.
import type { MetadataImage, TopicImage } from "../metadata/image.ts";
import type { PartitionIndex, TopicId } from "../model/ids.ts";
import type { Logger } from "../ports/logger.ts";
import { isNobodys } from "../storage/nobodys-log.ts";
import type { LogStore, ReplicaLog } from "../storage/types.ts";
import { logSpecOf } from "./effective-configs.ts";

interface Deps {
  readonly store: LogStore;
  readonly image: () => MetadataImage;
  readonly logger: Logger;
}

/**
 * D-17: a log of nobody in the directory of a partition that has none may be what is left of that partition's, and that held what was acknowledged:
 * made anew as an empty one, with nobody told, it would count for a whole one. At the start only: a topic that is made while the node runs has nothing to lose.
 */
export function adoptStrays(
  { store, image, logger }: Deps,
  isHere: (topicId: TopicId, partition: PartitionIndex) => boolean,
): void {
  for (const log of [...store.logs]) {
    const { topic: name, partition, damage } = log;
    const topicId = isNobodys(log.topicId) ? image().topicByName(name)?.topicId : undefined;
    if (topicId === undefined || !isHere(topicId, partition) || store.find(topicId, partition) !== undefined) continue;
    logger.error("stray_log_adopted", { topic: name, topicId, partition, reason: damage?.reason });
    store.adoptLog(log, topicId);
  }
}

/** S-2: nobody is owed word of the log of a deleted topic that rot brought back: when a new topic has its name it goes. */
export async function createLog(
  { store, image, logger }: Deps,
  topic: TopicImage,
  index: PartitionIndex,
): Promise<ReplicaLog> {
  try {
    return await store.createLog(logSpecOf(topic, index));
  } catch (thrown) {
    const stray = [...store.logs].find((log) => log.topic === topic.name && log.partition === index);
    if (stray === undefined || image().topic(stray.topicId) !== undefined) throw thrown;
    logger.warn("stray_log_dropped", { topic: stray.topic, topicId: stray.topicId, partition: stray.partition });
    await store.deleteLog(stray);
    return await store.createLog(logSpecOf(topic, index));
  }
}
