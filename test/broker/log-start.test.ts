// Where logs start, on several brokers: records deleted on demand (S-30), retention by size and time (S-26 to S-29, D-23), followers that begin inside a
// batch (S-32), and batches that have the leader's time.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { TopicId } from "../../src/model/ids.ts";
import { API, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP } from "../../src/wire/native/apis.ts";
import { ReplicaWorld } from "./replica-world.ts";
import { batchOf } from "./support.ts";

afterEach(() => activateMutants([]));

interface Ground {
  readonly cluster: ReplicaWorld;
  readonly topicId: TopicId;
  readonly leader: number;
  readonly followers: readonly number[];
}

/** A topic of three replicas with so many batches of five records. */
async function started(batches: number, settings: Parameters<typeof ground>[0] = {}): Promise<Ground> {
  const made = await ground(settings);
  const producer = await made.cluster.client(made.leader);
  for (let count = 0; count < batches; count++)
    expect(await producer.produce(made.topicId, batchOf(["a", "b", "c", "d", "e"], { padBytes: 100 }))).toMatchObject({
      error: "NONE",
    });
  return made;
}

async function ground({
  configs = {},
  config = {},
}: {
  readonly configs?: Record<string, string>;
  readonly config?: Record<string, number>;
}): Promise<Ground> {
  const cluster = await new ReplicaWorld({ config }).start();
  const topicId = await cluster.createReplicated("t", { configs: { "segment.bytes": "2KiB", ...configs } });
  const { leader, replicas } = await cluster.untilIsr("t", [1, 2, 3]);
  return { cluster, topicId, leader, followers: replicas.filter((nodeId) => nodeId !== leader) };
}

/** A follower that lost its power, and is out of the ISR. */
async function losing({ cluster, followers: [lost = 0] }: Ground): Promise<number> {
  cluster.node(lost).crash("power loss");
  await cluster.untilIsr(
    "t",
    [1, 2, 3].filter((nodeId) => nodeId !== lost),
  );
  return lost;
}

async function deleted({ cluster, topicId, leader }: Ground, offset: number, timeoutMs = 5_000) {
  const client = await cluster.client(leader);
  const { response, error } = await client.call(API.DELETE_RECORDS, {
    timeoutMs,
    entries: [{ topicId, partition: 0, offset }],
  });
  return error === "NONE" ? response.entries[0] : { error, lowWatermark: -1 };
}

async function boundsAt(nodeId: number, { cluster, topicId }: Ground) {
  const client = await cluster.client(nodeId);
  const entries = [EARLIEST_TIMESTAMP, LATEST_TIMESTAMP].map((timestamp) => ({ topicId, partition: 0, timestamp }));
  const { response } = await client.call(API.LIST_OFFSETS, { entries });
  return response.entries.map(({ offset }) => offset);
}

const startsOf = ({ cluster, topicId }: Ground) =>
  [1, 2, 3].map((nodeId) => cluster.replica(nodeId, topicId).core.startOffset);
const durableStart = ({ cluster, topicId }: Ground, nodeId: number) => cluster.replica(nodeId, topicId).log.startOffset;

describe("DeleteRecords (S-30)", () => {
  test("goes from every replica before it is answered; whoever reads below is told; a restart of all brings nothing back", async () => {
    const all = await started(8);
    expect(await deleted(all, 12)).toMatchObject({ error: "NONE", lowWatermark: 12 });
    expect(startsOf(all)).toEqual([12, 12, 12]);
    expect(await boundsAt(all.leader, all)).toEqual([12, 40]);
    const reader = await all.cluster.client(all.leader);
    expect(await reader.fetch(all.topicId, 11)).toMatchObject({ error: "OFFSET_OUT_OF_RANGE", logStartOffset: 12 });
    // The batch that holds it comes whole.
    expect(await reader.fetch(all.topicId, 12)).toMatchObject({ error: "NONE", logStartOffset: 12 });
    for (const node of all.cluster.nodes) node.crash("power loss");
    await all.cluster.start();
    await all.cluster.untilIsr("t", [1, 2, 3]);
    expect(startsOf(all)).toEqual([12, 12, 12]);
  });

  test("-1 is all that is committed; a smaller offset later is done already; offsets go on", async () => {
    const all = await started(4);
    expect(await deleted(all, -1)).toMatchObject({ error: "NONE", lowWatermark: 20 });
    expect(await deleted(all, 7)).toMatchObject({ error: "NONE", lowWatermark: 20 });
    const producer = await all.cluster.client(all.leader);
    expect(await producer.produce(all.topicId, batchOf(["x"]))).toMatchObject({ error: "NONE", baseOffset: 20 });
    for (const nodeId of [1, 2, 3])
      await all.cluster.until(`node ${nodeId} has it alone`, () => {
        const { log } = all.cluster.replica(nodeId, all.topicId);
        return log.segmentViews().every(({ base }) => base >= 20) && log.endOffset === 21;
      });
  });

  test("is refused above the high watermark, below -1, without delete in cleanup.policy, and by who does not lead", async () => {
    const all = await started(2);
    expect(await deleted(all, 11)).toMatchObject({ error: "OFFSET_OUT_OF_RANGE" });
    expect(await deleted(all, -2)).toMatchObject({ error: "OFFSET_OUT_OF_RANGE" });
    const [follower = 0] = all.followers;
    expect(await deleted({ ...all, leader: follower }, 3)).toMatchObject({ error: "NOT_LEADER_OR_FOLLOWER" });
    await all.cluster.alterTopic("t", { "cleanup.policy": "compact" });
    await all.cluster.until(
      "it is known",
      () => all.cluster.replica(all.leader, all.topicId).limits.cleanupPolicy === 2,
    );
    expect(await deleted(all, 3)).toMatchObject({ error: "POLICY_VIOLATION" });
    expect(startsOf(all)).toEqual([0, 0, 0]);
  });

  test("waits for a replica that is cut off while it counts as living, not for one that is fenced", async () => {
    const all = await started(4);
    const lost = await losing(all);
    const { cluster, topicId } = all;
    expect(await deleted(all, 13)).toMatchObject({ error: "NONE", lowWatermark: 13 });
    await cluster.world.settle(cluster.node(lost).begin(), 60_000);
    await cluster.untilIsr("t", [1, 2, 3]);
    await cluster.until("it follows", () => cluster.replica(lost, topicId).core.startOffset === 13);
  });

  test.each([
    { mutants: [], isDurable: true },
    { mutants: ["S-30w"], isDurable: false },
  ])("is answered when it is durable everywhere, not before ($mutants)", async ({ mutants, isDurable }) => {
    const all = await started(4);
    activateMutants(mutants);
    const answer = await deleted(all, 13);
    activateMutants([]);
    expect(answer).toMatchObject({ error: "NONE" });
    expect(all.followers.every((nodeId) => durableStart(all, nodeId) === 13)).toBe(isDurable);
  });
});

test("S-32: a replica with an empty disk begins inside the batch of the log start, and comes into the ISR", async () => {
  const all = await started(8);
  expect(await deleted(all, 12)).toMatchObject({ lowWatermark: 12 });
  const fresh = await losing(all);
  const { cluster, topicId } = all;
  cluster.node(fresh).replaceDisk();
  await cluster.world.settle(cluster.node(fresh).begin(), 60_000);
  await cluster.untilIsr("t", [1, 2, 3], 60_000);
  const { core, log } = cluster.replica(fresh, topicId);
  expect(core).toMatchObject({ startOffset: 12, endOffset: 40 });
  expect(log.segmentViews()[0]?.base).toBe(10);
});

test("R-17: a topic that is deleted while a replica of it begins anew leaves no log behind", async () => {
  const all = await started(8);
  const lost = await losing(all);
  const { cluster, topicId } = all;
  const producer = await cluster.client(all.leader);
  for (let count = 0; count < 4; count++) await producer.produce(topicId, batchOf(["a", "b", "c", "d", "e"]));
  expect(await deleted(all, 55)).toMatchObject({ lowWatermark: 55 });
  await cluster.world.settle(cluster.node(lost).begin(), 60_000);
  cluster.node(lost).latencies.syncMs = 500;
  await cluster.until("it begins anew", () => cluster.replica(lost, topicId).core.isCutting);
  const admin = await cluster.client(await cluster.controller());
  await admin.call(API.DELETE_TOPICS, { names: ["t"], requestId: null });
  await cluster.until("it is not hosted", () => !cluster.isHosted(lost, topicId));
  await cluster.world.runFor(10_000);
  for (const { disk } of cluster.nodes) expect(disk.image.find("/data/t-0")).toBeUndefined();
});

describe("retention", () => {
  /** What is in the journal alone is no segment yet. */
  const often = { "log.retention.check.interval.ms": 500, "checkpoint.interval.ms": 200 };

  test("by size: the oldest segments of every replica go, at least retention.bytes stay", async () => {
    const all = await started(30, { configs: { "retention.bytes": "5000", "retention.ms": "-1" }, config: often });
    await all.cluster.until("something went", () => startsOf(all).every((start) => start > 0));
    const { log } = all.cluster.replica(all.leader, all.topicId);
    await all.cluster.until("the files are gone", () => log.segmentViews()[0]?.base === log.startOffset);
    const keptBytes = log.segmentViews().reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    expect(keptBytes).toBeGreaterThanOrEqual(5_000);
    expect(keptBytes).toBeLessThan(5_000 + 2 * 2_048);
    expect(new Set(startsOf(all)).size).toBe(1);
  });

  test("S-26: what waited for what is told of producers is decided anew when it can be done: by then the topic may be kept", async () => {
    const all = await ground({ configs: { "retention.ms": "-1" }, config: often });
    const { cluster, topicId, leader, followers } = all;
    const producer = await cluster.client(leader);
    for (let count = 0; count < 30; count++) {
      const [producerId, baseSequence] = count === 0 ? [77, 0] : [78, 2 * count - 2];
      const batch = batchOf(["a", "b"], { padBytes: 300, producer: { producerId, producerEpoch: 0, baseSequence } });
      expect(await producer.produce(topicId, batch)).toMatchObject({ error: "NONE" });
    }
    const { core, log } = cluster.replica(leader, topicId);
    await cluster.until("they are in segments", () => log.segmentViews().length > 4);
    // In the ISR until its session is over: what is told is not committed so long.
    cluster.isolate(followers[0] as number);
    await cluster.alterTopic("t", { "retention.bytes": "5000" });
    await cluster.until("something is to go", () => core.endOffset > 60);
    await cluster.alterTopic("t", { "retention.bytes": "-1" });
    expect(core.startOffset).toBe(0);
    await cluster.until("what was told is committed", () => core.highWatermark === core.endOffset);
    await cluster.world.runFor(2_000);
    expect(core.startOffset).toBe(0);
    await cluster.alterTopic("t", { "retention.bytes": "5000" });
    await cluster.until("it goes", () => core.startOffset > 0);
  });

  test("by time: what is older goes, the segment being written too; nothing goes of a log that is only compacted (S-29)", async () => {
    const all = await ground({ configs: { "retention.ms": "10000" }, config: often });
    const { cluster, topicId } = all;
    const producer = await cluster.client(all.leader);
    const timestamp = cluster.world.machine("node1").wallMs;
    await producer.produce(topicId, batchOf(["a", "b"], { timestamp }));
    await cluster.world.runFor(8_000);
    expect(startsOf(all)).toEqual([0, 0, 0]);
    await cluster.until("all of it went", () => startsOf(all).every((start) => start === 2));
    await cluster.alterTopic("t", { "cleanup.policy": "compact" });
    await producer.produce(topicId, batchOf(["c"], { timestamp }));
    await cluster.world.runFor(5_000);
    expect(startsOf(all)).toEqual([2, 2, 2]);
  });

  const jumps: readonly (readonly [string, { readonly leadsLater: boolean }])[] = [
    ["the leader's clock", { leadsLater: false }],
    ["the clock of one that leads later (seed 641000002)", { leadsLater: true }],
  ];
  test.each(jumps)(
    "D-23: after a jump of %s one segment of a log goes in a pass, so that there is time to see it",
    async (_, { leadsLater }) => {
      const all = await ground({ configs: { "retention.ms": "3600000" }, config: often });
      const { cluster, topicId } = all;
      const producer = await cluster.client(all.leader);
      const timestamp = cluster.world.machine("node1").wallMs;
      for (let count = 0; count < 20; count++)
        await producer.produce(topicId, batchOf(["a", "b", "c", "d", "e"], { padBytes: 100, timestamp }));
      const { log } = cluster.replica(all.leader, topicId);
      await cluster.until("they are in segments", () => log.segmentViews().length > 4);
      await cluster.world.runFor(1_000);
      const jumping = leadsLater ? all.followers : [all.leader];
      for (const nodeId of jumping) cluster.world.machine(`node${nodeId}`).setWall(10 * 3_600_000, 1);
      if (leadsLater) {
        await cluster.world.runFor(1_000);
        cluster.isolate(all.leader);
        await cluster.untilLeader("t", (leader) => leader !== all.leader);
      }
      const seen = new Set<number>();
      await cluster.until("all went but what is being written", () => {
        const starts = jumping.map((nodeId) => cluster.replica(nodeId, topicId).core.startOffset);
        for (const start of starts) seen.add(start);
        return starts.every((start) => start === 100);
      });
      expect(seen.size).toBeGreaterThan(4);
    },
  );
});

test("LogAppendTime: batches have the leader's time, whatever the producer said; a retry is the same batch all the same", async () => {
  const all = await ground({ configs: { "message.timestamp.type": "LogAppendTime" } });
  const { cluster, topicId } = all;
  const producer = await cluster.client(all.leader);
  const batch = () =>
    batchOf(["a", "b"], { timestamp: 5, producer: { producerId: 7, producerEpoch: 0, baseSequence: 0 } });
  const before = cluster.world.machine("node1").wallMs;
  expect(await producer.produce(topicId, batch())).toMatchObject({ error: "NONE", baseOffset: 0 });
  expect(await producer.produce(topicId, batch())).toMatchObject({ error: "NONE", baseOffset: 0 });
  const query = { entries: [{ topicId, partition: 0, timestamp: before }] };
  const { response } = await producer.call(API.LIST_OFFSETS, query);
  expect(response.entries[0]).toMatchObject({ error: "NONE", offset: 0 });
  expect(response.entries[0]?.timestamp).toBeGreaterThanOrEqual(before);
});
