// Work on the logs of many partitions at once, and what must not wait for what.
import { expect, test } from "vitest";
import type { ReplicaManager } from "../../src/broker/replica-manager.ts";
import type { Replica } from "../../src/broker/replica.ts";
import { type ReconcilerDeps, TopicReconciler } from "../../src/broker/topic-reconciler.ts";
import type { MetadataImage, PartitionImage, TopicImage } from "../../src/metadata/image.ts";
import { brokerConfigOf } from "../../src/model/config.ts";
import type { IncarnationId, NodeId, TopicId } from "../../src/model/ids.ts";
import type { Logger } from "../../src/ports/logger.ts";
import { nobodysTopicId } from "../../src/storage/nobodys-log.ts";
import type { LogStore, ReplicaLog } from "../../src/storage/types.ts";

const SELF = { nodeId: 1 as NodeId, incarnationId: "here" as IncarnationId };
const nothing = () => undefined;
const quiet: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing, child: () => quiet };
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Led by another node, which has all of them. */
function topicOf(name: string, partitions: number): TopicImage {
  const partition = { replicas: [1, 2], isr: [2], elr: [], leader: 2, leaderEpoch: 3 } as unknown as PartitionImage;
  return {
    topicId: name as TopicId,
    name,
    isDeleting: false,
    configs: {},
    partitions: Array.from({ length: partitions }, (_, index) => ({ ...partition, index })),
  } as unknown as TopicImage;
}

const logOf = (topicId: string, partition: number) => ({ topicId, topic: topicId, partition }) as ReplicaLog;

/** Every replica of "rotten" is damaged, and no repair of one ends. */
function setUp(partitions: number) {
  const topics = new Map([topicOf("rotten", partitions)].map((topic) => [topic.name, topic]));
  const replicas = new Map<string, Replica>();
  for (let index = 0; index < partitions; index++)
    replicas.set(`rotten/${index}`, { log: logOf("rotten", index), damage: "rot" } as Replica);
  const made: string[] = [];
  const image = {
    topic: (topicId: string) => topics.get(topicId),
    topicByName: (name: string) => topics.get(name),
    topics: topics.values(),
    tombstones: [],
    touched: [],
    broker: () => ({ ...SELF, isFenced: false }),
    brokerConfigs: () => ({}),
    partitionsOn: () =>
      [...topics.values()].flatMap((topic) => topic.partitions.map((partition) => ({ topic, partition }))),
  };
  const manager = {
    find: (topicId: string, index: number) => replicas.get(`${topicId}/${index}`),
    led: new Set(),
    topicIds: [],
    damaged: new Set(replicas.values()),
    configure: nothing,
    standBy: nothing,
    open: (log: ReplicaLog) => {
      const replica = { log, damage: undefined, record: topics.get(log.topicId)?.partitions[log.partition] } as Replica;
      replicas.set(`${log.topicId}/${log.partition}`, replica);
      return replica;
    },
  };
  const logs: ReplicaLog[] = [];
  const adopted: string[] = [];
  const store = {
    logs,
    adoptLog: (log: ReplicaLog, topicId: string) => adopted.push(`${log.topicId}/${log.partition} as ${topicId}`),
    find: (topicId: string, index: number) => replicas.get(`${topicId}/${index}`)?.log,
    createLog: ({ topic, partition }: { readonly topic: string; readonly partition: number }) => {
      made.push(topic);
      return Promise.resolve(logOf(topic, partition));
    },
  };
  const deps: ReconcilerDeps = {
    store: store as unknown as LogStore,
    image: () => image as unknown as MetadataImage,
    replicas: manager as unknown as ReplicaManager,
    timers: { after: () => ({ cancel: nothing }), defer: nothing },
    logger: quiet,
    onChanged: nothing,
    onNews: nothing,
    onDefect: (defect) => {
      throw defect;
    },
    isDamageKnown: () => true,
    damageEnded: nothing,
    repair: () => new Promise(nothing),
  };
  return {
    topics,
    made,
    logs,
    adopted,
    reconciler: new TopicReconciler(deps, SELF, { nodeId: SELF.nodeId, config: configOf() }),
  };
}

const configOf = () => brokerConfigOf({ "node.id": 1, "data.dir": "/data", listeners: "node1:7070" });

test("D-17: logs of other topics are made, however many damaged ones are being repaired", async () => {
  const { topics, made, reconciler } = setUp(300);
  void reconciler.start();
  await turn();
  topics.set("new", topicOf("new", 2));
  expect(
    await Promise.race([reconciler.reconcile("new" as TopicId), turn().then(() => "still at it")]),
  ).toBeUndefined();
  expect(made).toEqual(["new", "new"]);
});

test("D-17: at the start a log of nobody is that of the partition whose directory it has, if that should be here and has none", async () => {
  const { topics, made, logs, adopted, reconciler } = setUp(1);
  topics.set("lost", topicOf("lost", 2));
  const nobody = nobodysTopicId(9);
  const stray = (topicId: string, topic: string, partition: number) =>
    logs.push({ topicId, topic, partition, damage: { reason: "rot" } } as unknown as ReplicaLog);
  stray(nobody, "lost", 1);
  stray(nobody, "lost", 2);
  stray(nobody, "rotten", 0);
  stray(nobody, "unheard of", 0);
  // Of a topic that was deleted, and had the name before (seed 720071044).
  stray("gone", "lost", 0);
  void reconciler.start();
  expect(adopted).toEqual([`${nobody}/1 as lost`]);
  await turn();
  // A topic that comes later has nothing to lose.
  topics.set("unheard of", topicOf("unheard of", 1));
  await reconciler.reconcile("unheard of" as TopicId);
  expect(adopted).toHaveLength(1);
  expect(made).toContain("unheard of");
});
