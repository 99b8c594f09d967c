// The metadata state machine: apply, replay, decisions, encoding.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { utf8Encode } from "../../src/base/bytes.ts";
import { topicConfigShape } from "../../src/model/config.ts";
import type { DirectoryId, IncarnationId, NodeId, TopicId } from "../../src/model/ids.ts";
import { topicNamesCollide } from "../../src/model/topic-name.ts";
import { decodeMetadataRecord, encodeMetadataRecord } from "../../src/metadata/codec.ts";
import { decideDeletion, decideRegistration, decideRemoval, minIsrOf } from "../../src/metadata/controller.ts";
import { MetadataImage, metricNameOf } from "../../src/metadata/image.ts";
import { TOPIC_CONFIG_BOUNDS, parseTopicConfigs } from "../../src/metadata/topic-configs.ts";
import { elect, emptyHistory, NODE, register, startedHistory, uuid, wishTopic } from "./support.ts";

describe("apply", () => {
  test("D-20: the first record is the cluster record, and no later one is", () => {
    const { records } = startedHistory();
    expect(records[0]?.type).toBe("cluster");
    const image = new MetadataImage();
    expect(() => image.apply(0, { type: "delete-topic", version: 1, topicId: uuid(1) as TopicId })).toThrow(
      /cannot stand here/,
    );
    const started = startedHistory();
    const again = started.records[0];
    expect(() => started.image.apply(started.records.length, again as never)).toThrow(/cannot stand here/);
  });

  test("D-1: registering again takes every leadership, raises the leader epochs, and the election raises them again", () => {
    const history = startedHistory();
    history.take(wishTopic(history, "a", { partitions: 3 }));
    const before = history.image.topicByName("a")?.partitions.map((partition) => partition.leaderEpoch);
    expect(before).toEqual([0, 0, 0]);
    const oldEpoch = history.image.broker(NODE)?.brokerEpoch ?? -1;
    register(history, 2);
    const fenced = history.image.topicByName("a")?.partitions ?? [];
    expect(fenced.map(({ leader, leaderEpoch }) => [leader, leaderEpoch])).toEqual(Array(3).fill([null, 1]));
    expect(history.image.broker(NODE)?.isFenced).toBe(true);
    expect(history.image.broker(NODE)?.brokerEpoch).toBeGreaterThan(oldEpoch);
    elect(history);
    const elected = history.image.topicByName("a")?.partitions ?? [];
    expect(elected.map(({ leader, leaderEpoch, isr }) => [leader, leaderEpoch, isr])).toEqual(
      Array(3).fill([NODE, 2, [NODE]]),
    );
  });

  test("D-1: another directory may not take over a node id", () => {
    const history = startedHistory();
    const decision = decideRegistration(history.image, {
      nodeId: NODE,
      directoryId: uuid(9) as DirectoryId,
      incarnationId: uuid(9) as IncarnationId,
      restart: "first",
      address: "x:1",
      nowMs: 1,
    });
    expect(decision).toMatchObject({ kind: "refused", error: "DATA_DIR_FOREIGN" });
  });

  test("a fenced broker may not be made leader, nor one outside the ISR, nor on an old partition epoch", () => {
    const history = startedHistory();
    history.take(wishTopic(history, "a"));
    register(history, 2);
    const topicId = uuid(1) as TopicId;
    const change = (leader: number, isr: number[], partitionEpoch: number) => () =>
      history.image.apply(history.records.length, {
        type: "partition-change",
        version: 1,
        topicId,
        changes: [{ partition: 0, leader: leader as NodeId, isr: isr as NodeId[], partitionEpoch }],
      });
    expect(change(1, [1], 1)).toThrow(/may not lead/);
    elect(history);
    expect(change(1, [2], 2)).toThrow(/may not lead/);
    expect(change(1, [1], 1)).toThrow(/partition epoch/);
    expect(change(1, [1], 2)).not.toThrow();
  });

  test("D-5: min ISR is in the partition's record, the majority of the declared replication factor", () => {
    expect([1, 2, 3, 4, 5].map(minIsrOf)).toEqual([1, 2, 2, 3, 3]);
    const history = startedHistory();
    history.take(wishTopic(history, "a"));
    expect(history.image.topicByName("a")?.partitions[0]?.minIsr).toBe(1);
  });

  test("deletion: marked, then removed, and only then is the name free", () => {
    const history = startedHistory();
    history.take(wishTopic(history, "a"));
    history.take(decideDeletion(history.image, "a"));
    expect(history.image.topicByName("a")?.isDeleting).toBe(true);
    expect(wishTopic(history, "a", { topicId: 2 })).toMatchObject({
      error: "TOPIC_ALREADY_EXISTS",
      message: expect.stringContaining("being deleted"),
    });
    expect(decideDeletion(history.image, "a")).toEqual({ kind: "records", records: [] });
    history.take(decideRemoval(history.image, uuid(1) as TopicId));
    expect(history.image.topicCount).toBe(0);
    expect(history.image.partitionCount).toBe(0);
    history.take(wishTopic(history, "a", { topicId: 2 }));
    expect(history.image.topicByName("a")?.topicId).toBe(uuid(2));
  });

  test("a topic that was not marked cannot be removed", () => {
    const history = startedHistory();
    history.take(wishTopic(history, "a"));
    const removal = { type: "topic-removed", version: 1, topicId: uuid(1) as TopicId } as const;
    expect(() => history.image.apply(history.records.length, removal)).toThrow(/not marked/);
  });

  test("D-23, Q-19, invariant 39: replaying the encoded records gives the same image, at every offset", () => {
    const step = fc.constantFrom("create", "delete", "remove", "restart");
    fc.assert(
      fc.property(fc.array(fc.tuple(step, fc.nat(4)), { maxLength: 30 }), (steps) => {
        const history = startedHistory();
        const dumps = [history.image.dump()];
        let nextId = 1;
        for (const [kind, which] of steps) {
          const name = `t${which}`;
          if (kind === "create") {
            const wish = wishTopic(history, name, { partitions: which + 1, topicId: nextId++ });
            if (wish.kind === "records") history.take(wish);
          } else if (kind === "delete" && history.image.topicByName(name) !== undefined)
            history.take(decideDeletion(history.image, name));
          else if (kind === "remove")
            history.take(
              decideRemoval(history.image, history.image.topicByName(name)?.topicId ?? (uuid(999) as TopicId)),
            );
          else if (kind === "restart") {
            register(history, 100 + nextId++);
            elect(history);
          }
          dumps.push(history.image.dump());
        }
        const replayed = new MetadataImage();
        const seen = new Set<string>();
        history.records.forEach((record, offset) => {
          replayed.apply(offset, decodeMetadataRecord(encodeMetadataRecord(record), offset));
          seen.add(replayed.dump());
        });
        for (const dump of dumps) expect(seen.has(dump)).toBe(true);
        expect(replayed.dump()).toBe(history.image.dump());
      }),
      { numRuns: 60 },
    );
  });

  test("names come sorted by code unit", () => {
    const history = startedHistory();
    ["b", "a", "C", "a1"].forEach((name, index) => history.take(wishTopic(history, name, { topicId: index + 1 })));
    expect(history.image.topicNames).toEqual(["C", "a", "a1", "b"]);
  });
});

describe("decideTopic", () => {
  test.each([
    ["", {}, "INVALID_TOPIC_EXCEPTION"],
    ["a/b", {}, "INVALID_TOPIC_EXCEPTION"],
    ["..", {}, "INVALID_TOPIC_EXCEPTION"],
    ["x", { partitions: 0 }, "INVALID_PARTITIONS"],
    ["x", { partitions: -2 }, "INVALID_PARTITIONS"],
    ["x", { partitions: 11 }, "INVALID_PARTITIONS"],
    ["x", { replicationFactor: 2 }, "INVALID_REPLICATION_FACTOR"],
    ["x", { replicationFactor: 0 }, "INVALID_REPLICATION_FACTOR"],
    ["x", { configs: [{ key: "no.such.key", value: "1" }] }, "INVALID_CONFIG"],
    ["x", { configs: [{ key: "segment.bytes", value: "1" }] }, "INVALID_CONFIG"],
    ["x", { configs: [{ key: "toString", value: "1" }] }, "INVALID_CONFIG"],
  ] as const)("%s %j -> %s", (name, options, error) => {
    expect(wishTopic(startedHistory(), name, options)).toMatchObject({ kind: "refused", error });
  });

  test("an invalid configuration names the key and what it takes", () => {
    const decision = wishTopic(startedHistory(), "x", { configs: [{ key: "segment.bytes", value: "many" }] });
    expect(decision).toMatchObject({
      message: expect.stringMatching(/^segment\.bytes: takes 1024 to 2147483647 bytes, not many$/),
    });
  });

  test("the cluster's partitions are bounded", () => {
    const history = startedHistory();
    history.take(wishTopic(history, "a", { partitions: 10 }));
    expect(wishTopic(history, "b", { partitions: 6, topicId: 2 })).toMatchObject({ error: "INVALID_PARTITIONS" });
    expect(wishTopic(history, "b", { partitions: 5, topicId: 2 })).toMatchObject({ kind: "records" });
  });

  test("names that are one in metric names collide", () => {
    const history = startedHistory();
    history.take(wishTopic(history, "a.b_c"));
    expect(wishTopic(history, "a_b.c", { topicId: 2 })).toMatchObject({ error: "INVALID_TOPIC_EXCEPTION" });
    fc.assert(
      fc.property(fc.stringMatching(/^[ab._]{1,6}$/), fc.stringMatching(/^[ab._]{1,6}$/), (left, right) => {
        expect(metricNameOf(left) === metricNameOf(right)).toBe(topicNamesCollide(left, right));
      }),
    );
  });
});

describe("topic configuration", () => {
  test("knows exactly the model's keys, with their bounds and units", () => {
    expect(Object.keys(TOPIC_CONFIG_BOUNDS).sort()).toEqual(Object.keys(topicConfigShape).sort());
    for (const [key, schema] of Object.entries(topicConfigShape)) {
      const { min, max } = TOPIC_CONFIG_BOUNDS[key as keyof typeof topicConfigShape];
      const values = [min, min - 1, max, max + 1]
        .map(String)
        .concat("64KiB", "1.5MiB", "2 kB", "1XB", "", "-1", "1e9", "0x10");
      for (const value of values) {
        const model = schema.safeParse(value);
        const own = parseTopicConfigs([{ key, value }]);
        expect([key, value, own.kind]).toEqual([key, value, model.success ? "valid" : "invalid"]);
        if (own.kind === "valid") expect(own.configs).toEqual({ [key]: model.data });
      }
    }
  });

  test("a key given twice is refused", () => {
    const twice = [1, 2].map(() => ({ key: "segment.bytes", value: "1MiB" }));
    expect(parseTopicConfigs(twice)).toMatchObject({ kind: "invalid", message: "segment.bytes: given twice" });
  });
});

describe("codec", () => {
  const encode = (value: unknown) => utf8Encode(JSON.stringify(value));

  test("D-31: an unknown type or version stops the state machine", () => {
    for (const value of [
      { type: "new-thing", version: 1 },
      { type: "delete-topic", version: 2, topicId: uuid(1) },
      { type: "toString", version: 1 },
    ]) {
      expect(() => decodeMetadataRecord(encode(value), 5)).toThrow(expect.objectContaining({ code: "DATA_DIR_NEWER" }));
    }
  });

  test.each([
    ["no JSON", utf8Encode("{")],
    ["no object", utf8Encode("[]")],
    ["no type", encode({ version: 1 })],
    ["a missing field", encode({ type: "delete-topic", version: 1 })],
    ["a wrong field", encode({ type: "delete-topic", version: 1, topicId: "x" })],
    ["an unknown field", encode({ type: "delete-topic", version: 1, topicId: uuid(1), more: 1 })],
  ])("%s is damage", (_what, bytes) => {
    expect(() => decodeMetadataRecord(bytes, 5)).toThrow(expect.objectContaining({ code: "DATA_DAMAGED" }));
  });

  test("an out-of-order offset is damage", () => {
    const history = emptyHistory();
    const [first] = startedHistory().records;
    expect(() => history.image.apply(1, first as never)).toThrow(/expected offset 0/);
  });
});
