// Small builders for metadata tests.
import type { ClusterId, DirectoryId, IncarnationId, NodeId, TopicId, Uuid } from "../../src/model/ids.ts";
import { uuidFromBytes } from "../../src/model/ids.ts";
import {
  type Decision,
  decideCluster,
  decideElections,
  decideRegistration,
  decideTopic,
} from "../../src/metadata/controller.ts";
import { MetadataImage } from "../../src/metadata/image.ts";
import type { MetadataRecord } from "../../src/metadata/records.ts";

export const NODE = 1 as NodeId;

/** A uuid from a small number. */
export function uuid(value: number): Uuid {
  const bytes = new Uint8Array(16);
  bytes[15] = value & 0xff;
  bytes[14] = value >> 8;
  return uuidFromBytes(bytes);
}

export const CLUSTER = uuid(1000) as ClusterId;
export const DIRECTORY = uuid(2000) as DirectoryId;

export interface History {
  readonly image: MetadataImage;
  readonly records: MetadataRecord[];
  /** Applies the records of a decision; throws when it is a refusal. */
  take(decision: Decision): void;
}

export function emptyHistory(): History {
  const image = new MetadataImage();
  const records: MetadataRecord[] = [];
  const take = (decision: Decision) => {
    if (decision.kind === "refused") throw new Error(`${decision.error}: ${decision.message}`);
    for (const record of decision.records) {
      image.apply(records.length, record);
      records.push(record);
    }
  };
  return { image, records, take };
}

export function register(history: History, incarnation: number): void {
  history.take(
    decideRegistration(history.image, {
      nodeId: NODE,
      directoryId: DIRECTORY,
      incarnationId: uuid(incarnation) as IncarnationId,
      restart: "clean",
      address: "127.0.0.1:7070",
      nowMs: 1,
    }),
  );
}

export function elect(history: History): void {
  history.take(decideElections(history.image, { nodeId: NODE, isWhole: () => true }));
}

/** A cluster of one, node 1 registered and unfenced. */
export function startedHistory(): History {
  const history = emptyHistory();
  history.take(decideCluster({ clusterId: CLUSTER, nodeId: NODE, directoryId: DIRECTORY, nowMs: 1 }));
  register(history, 1);
  elect(history);
  return history;
}

export interface TopicOptions {
  readonly partitions?: number;
  readonly replicationFactor?: number;
  readonly configs?: readonly { readonly key: string; readonly value: string }[];
  readonly topicId?: number;
}

export function wishTopic(history: History, name: string, options: TopicOptions = {}): Decision {
  const { partitions = -1, replicationFactor = -1, configs = [], topicId = 1 } = options;
  return decideTopic(
    history.image,
    { name, partitions, replicationFactor, configs },
    {
      topicId: uuid(topicId) as TopicId,
      nowMs: 7,
      nodeId: NODE,
      partitionsDefault: 1,
      partitionsPerTopicMax: 10,
      partitionsMax: 15,
    },
  );
}
