// Topics: creation and placement, deletion, removal and tombstones.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { topicNamesCollide } from "../../src/model/topic-name.ts";
import {
  decideDeletion,
  decideRemoval,
  decideSettled,
  minIsrOf,
  TOMBSTONES_MAX,
} from "../../src/metadata/controller.ts";
import { REPLICAS_MAX } from "../../src/metadata/topic-decisions.ts";
import { FIELD_LIMITS } from "../../src/wire/native/layout.ts";
import { metricNameOf, type MetadataImage } from "../../src/metadata/image.ts";
import { History, faultsOf, node, topicIdOf, uuid } from "./support.ts";

const NOTHING = { kind: "records", records: [] };

describe("creation", () => {
  test.each([
    ["", {}, "INVALID_TOPIC_EXCEPTION"],
    ["a/b", {}, "INVALID_TOPIC_EXCEPTION"],
    ["..", {}, "INVALID_TOPIC_EXCEPTION"],
    ["x", { partitions: 0 }, "INVALID_PARTITIONS"],
    ["x", { partitions: -2 }, "INVALID_PARTITIONS"],
    ["x", { partitions: 1.5 }, "INVALID_PARTITIONS"],
    ["x", { partitions: 11 }, "INVALID_PARTITIONS"],
    ["x", { partitions: 20_001, partitionsPerTopicMax: 100_000 }, "INVALID_PARTITIONS"],
    ["x", { replicationFactor: 2 }, "INVALID_REPLICATION_FACTOR"],
    ["x", { replicationFactor: 0 }, "INVALID_REPLICATION_FACTOR"],
    ["x", { configs: [{ key: "no.such.key", value: "1" }] }, "INVALID_CONFIG"],
    ["x", { configs: [{ key: "num.partitions", value: "1" }] }, "INVALID_CONFIG"],
    ["x", { configs: [{ key: "segment.bytes", value: "1" }] }, "INVALID_CONFIG"],
    ["x", { configs: [{ key: "toString", value: "1" }] }, "INVALID_CONFIG"],
  ] as const)("%s %j -> %s", (name, options, error) => {
    expect(History.started().wishTopic(name, options)).toMatchObject({ kind: "refused", error });
  });

  test("more replicas than registered brokers are refused in words; fenced ones count", () => {
    const history = History.started([1, 2]);
    history.fence(2);
    expect(history.wishTopic("a", { replicationFactor: 3 })).toMatchObject({
      message: "replication factor 3: 2 brokers are registered, and each takes one replica",
    });
    expect(history.create("b", { replicationFactor: 2 }).partitions).toMatchObject([
      { replicas: [1, 2], isr: [1], elr: [], leader: 1, minIsr: 2 },
    ]);
  });

  test("without a replication factor: the default, or as many as there are brokers", () => {
    const history = History.started([1, 2]);
    const replicasOf = (name: string) =>
      history.create(name, { replicationFactorDefault: 3 }).partitions.map(({ replicas }) => replicas);
    expect(replicasOf("a")).toEqual([[1, 2]]);
    for (const nodeId of [3, 4]) history.join(nodeId);
    expect(replicasOf("b")).toEqual([[3, 4, 1]]);
  });

  test("D-38: no more replicas than an answer can list, however many brokers there are", () => {
    const history = History.started(Array.from({ length: REPLICAS_MAX + 1 }, (_, index) => index + 1));
    expect(REPLICAS_MAX).toBe(FIELD_LIMITS.REPLICAS);
    expect(history.wishTopic("a", { replicationFactor: REPLICAS_MAX + 1 })).toMatchObject({
      error: "INVALID_REPLICATION_FACTOR",
      message: "a topic has at most 64 replicas, not 65",
    });
    expect(history.create("b", { replicationFactor: REPLICAS_MAX }).partitions[0]?.replicas.length).toBe(REPLICAS_MAX);
    const byDefault = history.create("c", { replicationFactorDefault: 32_767 });
    expect(byDefault.partitions[0]?.replicas.length).toBe(REPLICAS_MAX);
  });

  test("D-38: a topic whose description is too long for one answer is refused", () => {
    const history = History.started([1, 2, 3]);
    const more = { partitionsPerTopicMax: 100_000, replicationFactor: 3 };
    expect(history.wishTopic("a", { ...more, partitions: 14_286 })).toMatchObject({ error: "INVALID_PARTITIONS" });
    expect(history.wishTopic("a", { ...more, partitions: 14_285 })).toMatchObject({ kind: "records" });
  });

  test("the cluster's partitions are bounded", () => {
    const history = History.started();
    history.create("a", { partitions: 10 });
    expect(history.wishTopic("b", { partitions: 6, partitionsMax: 15 })).toMatchObject({ error: "INVALID_PARTITIONS" });
    expect(history.wishTopic("b", { partitions: 5, partitionsMax: 15 })).toMatchObject({ kind: "records" });
  });

  test("names that are one in metric names collide", () => {
    const history = History.started();
    history.create("a.b_c");
    expect(history.wishTopic("a_b.c")).toMatchObject({ error: "INVALID_TOPIC_EXCEPTION" });
    fc.assert(
      fc.property(fc.stringMatching(/^[ab._]{1,6}$/), fc.stringMatching(/^[ab._]{1,6}$/), (left, right) => {
        expect(metricNameOf(left) === metricNameOf(right)).toBe(topicNamesCollide(left, right));
      }),
    );
  });

  test("a name is taken once, and names come sorted by code unit", () => {
    const history = History.started();
    for (const name of ["b", "a", "C", "a1"]) history.create(name);
    expect(history.wishTopic("a")).toMatchObject({ error: "TOPIC_ALREADY_EXISTS", message: "topic a exists" });
    expect(history.image.topicNames).toEqual(["C", "a", "a1", "b"]);
  });

  test("D-5: min ISR is in the partition's record, the majority of the declared replication factor", () => {
    expect([1, 2, 3, 4, 5].map(minIsrOf)).toEqual([1, 2, 2, 3, 3]);
    const history = History.started();
    expect(history.create("a").partitions[0]).toEqual({
      index: 0,
      replicas: [1],
      isr: [1],
      elr: [],
      minIsr: 1,
      leader: 1,
      leaderEpoch: 0,
      partitionEpoch: 0,
      uncleanEpoch: -1,
    });
  });

  test("without a number: the cluster's num.partitions set at run time, else the controller's own", () => {
    const history = History.started();
    expect(history.create("a", { partitionsDefault: 4 }).partitions.length).toBe(4);
    history.force({ type: "broker-config", version: 1, nodeId: null, configs: { "num.partitions": 6 } });
    expect(history.create("b", { partitionsDefault: 4 }).partitions.length).toBe(6);
  });
});

/** One partition after another on the unfenced broker with fewest of this topic, then fewest of all, then the lowest id. */
function naivePlacement(image: MetadataImage, partitions: number): number[] {
  const brokers = [...image.brokers].filter(({ isFenced }) => !isFenced).map(({ nodeId }) => nodeId);
  const all = new Map<number, number>(brokers.map((nodeId) => [nodeId, 0]));
  for (const topic of image.topics) {
    if (topic.isDeleting) continue;
    for (const { replicas } of topic.partitions)
      for (const replica of replicas) if (all.has(replica)) all.set(replica, (all.get(replica) ?? 0) + 1);
  }
  const own = new Map<number, number>(brokers.map((nodeId) => [nodeId, 0]));
  return Array.from({ length: partitions }, () => {
    let best = brokers[0] ?? -1;
    for (const nodeId of brokers) {
      const key = (of: number): readonly number[] => [own.get(of) ?? 0, all.get(of) ?? 0, of];
      const [left, right] = [key(nodeId), key(best)];
      const at = left.findIndex((value, index) => value !== right[index]);
      if (at >= 0 && (left[at] ?? 0) < (right[at] ?? 0)) best = nodeId;
    }
    own.set(best, (own.get(best) ?? 0) + 1);
    return best;
  });
}

describe("placement", () => {
  test("spreads over the unfenced brokers, those with fewest partitions first", () => {
    const history = History.started([2, 1, 3]);
    expect(history.create("a", { partitions: 4 }).partitions.map(({ replicas }) => replicas)).toEqual([
      [1],
      [2],
      [3],
      [1],
    ]);
    expect(history.create("b", { partitions: 2 }).partitions.map(({ replicas }) => replicas)).toEqual([[2], [3]]);
    history.fence(1);
    expect(history.create("c", { partitions: 3 }).partitions.map(({ replicas }) => replicas)).toEqual([[2], [3], [2]]);
    history.delete("a");
    history.unfence(1);
    expect(history.create("d", { partitions: 1 }).partitions.map(({ replicas }) => replicas)).toEqual([[1]]);
  });

  test("gives nothing to brokers that are low on space; when all are, STORAGE_FULL", () => {
    const history = History.started([1, 2, 3]);
    const [a, b] = [{ low: [1, 2] }, { low: [3] }].map((options, at) =>
      history.create(`t${at}`, { partitions: 3, ...options }).partitions.map(({ replicas }) => replicas),
    );
    expect([a, b]).toEqual([
      [[3], [3], [3]],
      [[1], [2], [1]],
    ]);
    expect(history.wishTopic("c", { low: [3, 2, 1] })).toMatchObject({ kind: "refused", error: "STORAGE_FULL" });
    history.fence(2);
    expect(history.wishTopic("c", { low: [3, 1] })).toMatchObject({ kind: "refused", error: "STORAGE_FULL" });
  });

  test("with replicas: STORAGE_FULL when too few brokers have space, fenced and quiet ones only where they are needed", () => {
    const history = History.started([1, 2, 3, 4]);
    const placed = (name: string, options: object) =>
      history.create(name, { replicationFactor: 2, ...options }).partitions.map(({ replicas }) => replicas);
    expect(history.wishTopic("a", { replicationFactor: 3, low: [1, 2] })).toMatchObject({
      error: "STORAGE_FULL",
      message: "2 brokers have disk space for new partitions, not 3",
    });
    history.fence(1);
    expect(placed("b", { partitions: 4, quiet: [3] })).toEqual([
      [2, 4],
      [4, 2],
      [2, 4],
      [4, 2],
    ]);
    expect(placed("c", { partitions: 2, quiet: [2, 3] })).toEqual([
      [4, 3],
      [4, 2],
    ]);
    expect(placed("d", { replicationFactor: 4, partitions: 1 })).toEqual([[3, 2, 4, 1]]);
    expect(history.partition("d")).toMatchObject({ isr: [3, 2, 4], leader: 3, minIsr: 3 });
  });

  test("gives nothing to brokers that may be dead, unless there is no other", () => {
    const history = History.started([1, 2, 3]);
    const placed = (name: string, quiet: readonly number[], low: readonly number[] = []) =>
      history.create(name, { partitions: 2, quiet, low }).partitions.map(({ replicas }) => replicas);
    expect(placed("a", [1, 3])).toEqual([[2], [2]]);
    expect(placed("b", [1, 2, 3])).toEqual([[1], [3]]);
    expect(placed("c", [1, 3], [2])).toEqual([[1], [3]]);
  });

  test("with no unfenced broker a topic has to wait", () => {
    const history = History.started([1]);
    history.fence(1);
    expect(history.wishTopic("a")).toMatchObject({ kind: "refused", error: "BROKER_NOT_AVAILABLE" });
  });

  test("equals a naive twin, in any state; brokers that are level stay level within one partition", () => {
    const step = fc.record({
      kind: fc.constantFrom("create", "create", "create", "delete", "fence", "unfence"),
      which: fc.nat(4),
      partitions: fc.integer({ min: 1, max: 7 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
        const history = History.started([5, 3, 1, 4]);
        let isLevel = true;
        steps.forEach(({ kind, which, partitions }, at) => {
          const nodeId = [5, 3, 1, 4][which % 4] ?? 1;
          if (kind === "create") {
            const expected = naivePlacement(history.image, partitions);
            if (expected[0] === -1) return;
            const topic = history.create(`t${at}`, { partitions });
            expect(topic.partitions.map(({ leader }) => leader)).toEqual(expected);
          } else if (kind === "delete") {
            const name = history.image.topicNames[which];
            if (name !== undefined) history.delete(name);
          } else if (kind === "fence") history.fence(nodeId);
          else history.unfence(nodeId);
          isLevel &&= kind === "create" || kind === "unfence";
          const counts = [5, 3, 1, 4].map((each) => history.image.heldCount(node(each)));
          if (isLevel) expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
        });
      }),
      { numRuns: 150 },
    );
  });
});

describe("placement of replicas", () => {
  test("is as one would write it down", () => {
    const replicasOf = (nodeIds: readonly number[], replicationFactor: number, partitions: number) =>
      History.started(nodeIds)
        .create("a", { replicationFactor, partitions })
        .partitions.map(({ replicas }) => replicas.join(" "));
    expect(replicasOf([1, 2, 3], 3, 6)).toEqual(["1 2 3", "2 3 1", "3 1 2", "1 3 2", "2 1 3", "3 2 1"]);
    expect(replicasOf([1, 2, 3], 2, 6)).toEqual(["1 2", "2 3", "3 1", "1 3", "2 1", "3 2"]);
  });

  test("of any topics: distinct brokers; leaders, replicas and those who take over are level within a topic, and over topics", () => {
    const topic = fc.record({
      partitions: fc.integer({ min: 1, max: 40 }),
      replicationFactor: fc.integer({ min: 1, max: 5 }),
    });
    fc.assert(
      fc.property(
        fc.integer({ min: 5, max: 8 }),
        fc.array(topic, { minLength: 1, maxLength: 6 }),
        (brokers, topics) => {
          const nodeIds = Array.from({ length: brokers }, (_, at) => at + 1);
          const history = History.started(nodeIds);
          topics.forEach((options, at) => {
            const lists = history.create(`t${at}`, options).partitions.map(({ replicas }) => replicas);
            expect(lists.every((list) => new Set(list).size === options.replicationFactor)).toBe(true);
            expect(
              spread(
                nodeIds,
                lists.map(([first]) => first ?? -1),
              ),
            ).toBeLessThanOrEqual(1);
            expect(spread(nodeIds, lists.flat())).toBeLessThanOrEqual(2);
          });
          const firsts = nodeIds.map((nodeId) => history.image.firstCount(node(nodeId)));
          expect(Math.max(...firsts) - Math.min(...firsts)).toBeLessThanOrEqual(1);
          const held = nodeIds.map((nodeId) => history.image.heldCount(node(nodeId)));
          expect(Math.max(...held) - Math.min(...held)).toBeLessThanOrEqual(topics.length + 1);
        },
      ),
      { numRuns: 100 },
    );
  });

  test("when a broker goes, what it led is spread over the others", () => {
    const history = History.started([1, 2, 3, 4, 5]);
    history.create("a", { partitions: 60, replicationFactor: 3 });
    history.fence(1);
    const led = [2, 3, 4, 5].map((nodeId) => history.image.ledCount(node(nodeId)));
    expect(led.reduce((sum, count) => sum + count)).toBe(60);
    expect(Math.max(...led) - Math.min(...led)).toBeLessThanOrEqual(2);
  });
});

/** How far apart the most and the least named are. */
function spread(nodeIds: readonly number[], named: readonly number[]): number {
  const counts = nodeIds.map((nodeId) => named.filter((each) => each === nodeId).length);
  return Math.max(...counts) - Math.min(...counts);
}

describe("deletion", () => {
  test("marked, then removed, and only then is the name free", () => {
    const history = History.started();
    history.create("a", { topicId: 1 });
    history.delete("a");
    expect(history.topic("a").isDeleting).toBe(true);
    expect([history.image.partitionCount, history.image.livePartitionCount]).toEqual([1, 0]);
    expect(history.wishTopic("a")).toMatchObject({
      error: "TOPIC_ALREADY_EXISTS",
      message: "topic a is being deleted",
    });
    expect(decideDeletion(history.image, "a")).toEqual(NOTHING);
    history.take(decideRemoval(history.image, topicIdOf(1), [node(1)]));
    expect([history.image.topicCount, history.image.partitionCount, history.image.tombstoneCount]).toEqual([0, 0, 0]);
    expect(history.create("a", { topicId: 2 }).topicId).toBe(topicIdOf(2));
  });

  test("what is not there cannot be deleted; what is not marked is not removed", () => {
    const history = History.started();
    expect(decideDeletion(history.image, "a")).toMatchObject({ error: "UNKNOWN_TOPIC_OR_PARTITION" });
    history.create("a", { topicId: 1 });
    expect(decideRemoval(history.image, topicIdOf(1), [node(1)])).toEqual(NOTHING);
    expect(decideRemoval(history.image, topicIdOf(9), [node(1)])).toEqual(NOTHING);
    const removal = { type: "topic-removed", version: 1, topicId: topicIdOf(1), owed: [] } as const;
    expect(() => history.force(removal)).toThrow(/not marked/);
  });

  test("waits for every unfenced broker with a replica, and for nobody else", () => {
    const history = History.started([1, 2, 3, 4]);
    history.create("a", { partitions: 3, topicId: 1 });
    history.delete("a");
    const removal = (...dropped: number[]) => decideRemoval(history.image, topicIdOf(1), dropped.map(node));
    expect(removal(1, 2, 4)).toEqual(NOTHING);
    expect(removal(3, 2, 1)).toMatchObject({ records: [{ type: "topic-removed", owed: [] }] });
    history.fence(3, 1);
    expect(removal(1)).toEqual(NOTHING);
    expect(removal(2)).toMatchObject({ records: [{ owed: [1, 3] }] });
    expect(removal(2, 3)).toMatchObject({ records: [{ owed: [1] }] });
  });

  test("a tombstone remembers who owes, until each has settled", () => {
    const history = History.started([1, 2, 3]);
    history.create("a", { partitions: 3, topicId: 1 });
    history.create("b", { partitions: 3, topicId: 2 });
    for (const name of ["a", "b"]) history.delete(name);
    history.fence(1, 3);
    for (const id of [1, 2]) history.take(decideRemoval(history.image, topicIdOf(id), [node(2)]));
    expect([...history.image.tombstones].map(({ name, owed }) => [name, owed])).toEqual([
      ["a", [1, 3]],
      ["b", [1, 3]],
    ]);
    const settled = (nodeId: number, ...ids: number[]) =>
      history.take(decideSettled(history.image, { nodeId: node(nodeId), topicIds: ids.map(topicIdOf) }));
    expect(settled(2, 1, 2)).toEqual([]);
    expect(settled(3, 9, 2, 2)).toEqual([
      { type: "tombstone-settled", version: 1, nodeId: 3, topicIds: [topicIdOf(2)] },
    ]);
    expect(history.image.tombstone(topicIdOf(2))?.owed).toEqual([1]);
    settled(1, 1, 2);
    expect([...history.image.tombstones]).toEqual([{ topicId: topicIdOf(1), name: "a", owed: [3] }]);
    settled(3, 1);
    expect(history.image.tombstoneCount).toBe(0);
    expect(settled(3, 1)).toEqual([]);
    expect(faultsOf(history.image)).toEqual([]);
  });

  test("the name is free while it is owed, and the new topic's id is another", () => {
    const history = History.started([1, 2]);
    history.create("a", { partitions: 2, topicId: 1 });
    history.delete("a");
    history.fence(2);
    history.take(decideRemoval(history.image, topicIdOf(1), [node(1)]));
    expect(history.create("a", { topicId: 2 }).topicId).toBe(topicIdOf(2));
    const [again] = history.take(history.wishTopic("b", { topicId: 3 }));
    expect(() => history.force({ ...(again as object), topicId: topicIdOf(1), name: "c" } as never)).toThrow(/exists/);
  });

  test("tombstones are bounded: at the bound a deleted topic keeps its name", () => {
    const history = History.started([1]);
    history.fence(1);
    history.unfence(1);
    for (let id = 1; id <= TOMBSTONES_MAX; id++) {
      const topicId = topicIdOf(id);
      const topic = { topicId, name: `t${id}`, configs: {}, replicationFactor: 1, replicas: [[node(1)]] };
      history.force(
        { type: "topic", version: 1, ...topic, timestampMs: 1 },
        { type: "delete-topic", version: 1, topicId },
        { type: "topic-removed", version: 1, topicId, owed: [node(1)] },
      );
    }
    history.create("last", { topicId: TOMBSTONES_MAX + 1 });
    history.delete("last");
    history.fence(1);
    expect(decideRemoval(history.image, topicIdOf(TOMBSTONES_MAX + 1), [])).toEqual(NOTHING);
    history.take(decideSettled(history.image, { nodeId: node(1), topicIds: [topicIdOf(1)] }));
    expect(decideRemoval(history.image, topicIdOf(TOMBSTONES_MAX + 1), [])).toMatchObject({ records: [{ owed: [1] }] });
  });
});

describe("records that nobody should have written", () => {
  const topic = { type: "topic", version: 1, topicId: topicIdOf(1), name: "a", configs: {} } as const;
  const more = { replicationFactor: 1, timestampMs: 1 };

  test.each([
    ["no replica", [[]]],
    ["an unknown broker", [[1, 9]]],
    ["a replica twice", [[1, 1]]],
    ["a fenced leader", [[2]]],
  ])("a partition with %s", (_what, replicas) => {
    const history = History.started([1, 2]);
    history.fence(2);
    expect(() => history.force({ ...topic, ...more, replicas: replicas.map((list) => list.map(node)) })).toThrow(
      /cannot be on/,
    );
  });

  test.each([
    ["out of order", [2, 1]],
    ["twice", [1, 1]],
    ["by an unknown broker", [9]],
  ])("a removed topic owed %s", (_what, owed) => {
    const history = History.started([1, 2]);
    history.create("a", { topicId: 1 });
    history.delete("a");
    const record = { type: "topic-removed", version: 1, topicId: topicIdOf(1), owed: owed.map(node) } as const;
    expect(() => history.force(record)).toThrow(/cannot be owed/);
  });

  test("a debt that is none, a topic that is none, a request twice", () => {
    const settled = { type: "tombstone-settled", version: 1, nodeId: node(1), topicIds: [topicIdOf(1)] } as const;
    expect(() => History.started().force(settled)).toThrow(/owes nothing/);
    const config = { type: "topic-config", version: 1, topicId: topicIdOf(1), configs: {} } as const;
    expect(() => History.started().force(config)).toThrow(/no topic/);
    const request = { type: "request", version: 1, requestId: uuid(1), topicId: null } as const;
    expect(() => History.started().force(request, request)).toThrow(/made before/);
  });
});
