// Configuration changed while brokers run: keys, bounds, scopes, and which value counts.
import { describe, expect, test } from "vitest";
import { brokerConfigKeys, runtimeTopicConfigKeys, topicConfigKeys } from "../../src/model/config.ts";
import { parsedValue } from "../../src/model/config-keys.ts";
import { effectiveConfig, keysOf, parseTopicConfigs, RUNTIME_CONFIGS } from "../../src/metadata/configs.ts";
import type { RuntimeConfigKey } from "../../src/metadata/configs.ts";
import { decideBrokerConfigs, decideTopicConfigs } from "../../src/metadata/controller.ts";
import { History, node } from "./support.ts";

const NOTHING = { kind: "records", records: [] };
const KEYS = Object.keys(RUNTIME_CONFIGS) as RuntimeConfigKey[];

const TOPIC_KEYS = { ...topicConfigKeys, ...runtimeTopicConfigKeys };
const ALL_KEYS = { ...brokerConfigKeys, ...TOPIC_KEYS };

type Changes = readonly (readonly [string, string | null])[];
const changesOf = (changes: Changes) => changes.map(([key, value]) => ({ key, value }));

function alterTopic(history: History, name: string, ...changes: Changes) {
  return decideTopicConfigs(history.image, { name, changes: changesOf(changes) });
}

function alterBroker(history: History, nodeId: number | null, ...changes: Changes) {
  const wish = { nodeId: nodeId === null ? null : node(nodeId), changes: changesOf(changes) };
  return decideBrokerConfigs(history.image, wish);
}

describe("the table", () => {
  test("has exactly the model's topic keys for topics, and only keys of the model", () => {
    expect(keysOf("topic").toSorted()).toEqual(Object.keys(TOPIC_KEYS).toSorted());
    expect(KEYS.filter((key) => !Object.hasOwn(ALL_KEYS, key))).toEqual([]);
    expect(keysOf("cluster")).toEqual(KEYS.filter((key) => key !== "allow.acks.below.min.isr"));
    expect(keysOf("node")).toEqual(["segment.bytes", "index.interval.bytes", "segment.index.bytes"]);
  });

  test.each(KEYS)("%s takes what the model says, and keeps it as the model does", (key) => {
    const { min, max } = ALL_KEYS[key];
    const history = History.started();
    history.create("a");
    const isOfCluster = RUNTIME_CONFIGS[key].scopes.includes("cluster");
    const values = [
      ...[min, min - 1, max, max + 1, 1.5].map(String),
      "64KiB",
      "7d",
      "true",
      "0.25",
      "delete",
      "half",
      "",
    ];
    for (const value of values) {
      const kept = parsedValue(ALL_KEYS[key], value);
      const own = isOfCluster ? alterBroker(history, null, [key, value]) : alterTopic(history, "a", [key, value]);
      expect([value, own.kind]).toEqual([value, kept === undefined ? "refused" : "records"]);
      if (own.kind === "records") expect(own.records).toMatchObject([{ configs: { [key]: kept } }]);
    }
  });
});

describe("a topic's configuration", () => {
  test("is set and taken away key by key; the record holds all of it, keys in order", () => {
    const history = History.started();
    history.create("a", { configs: [{ key: "segment.bytes", value: "1MiB" }] });
    const [record] = history.take(alterTopic(history, "a", ["max.message.bytes", "1kB"], ["segment.bytes", "2MiB"]));
    expect(record).toMatchObject({ configs: { "max.message.bytes": 1000, "segment.bytes": 2_097_152 } });
    expect(Object.keys(history.topic("a").configs)).toEqual(["max.message.bytes", "segment.bytes"]);
    history.take(alterTopic(history, "a", ["segment.bytes", null], ["index.interval.bytes", null]));
    expect(history.topic("a").configs).toEqual({ "max.message.bytes": 1000 });
  });

  test("what is so already needs no record", () => {
    const history = History.started();
    history.create("a", { configs: [{ key: "segment.bytes", value: "1MiB" }] });
    expect(alterTopic(history, "a")).toEqual(NOTHING);
    expect(alterTopic(history, "a", ["segment.bytes", "1024KiB"], ["max.message.bytes", null])).toEqual(NOTHING);
  });

  test("one bad change refuses all of them, and the message names the key and what it takes", () => {
    const history = History.started();
    history.create("a");
    const messageOf = (...changes: Changes): unknown => {
      const decision = alterTopic(history, "a", ["max.message.bytes", "1kB"], ...changes);
      return decision.kind === "refused" ? [decision.error, decision.message] : decision;
    };
    const known =
      "a topic takes min.insync.replicas, allow.acks.below.min.isr, max.message.bytes, segment.bytes, index.interval.bytes, " +
      "segment.ms, segment.jitter.ms, segment.index.bytes, cleanup.policy, retention.ms, retention.bytes, delete.retention.ms, " +
      "min.cleanable.dirty.ratio, min.compaction.lag.ms, max.compaction.lag.ms, message.timestamp.type";
    expect(messageOf(["segment.bytes", "many"])).toEqual([
      "INVALID_CONFIG",
      "segment.bytes: takes 1024 to 2147483647 bytes (also 64MiB), not many",
    ]);
    expect(messageOf(["no.such", null])).toEqual(["INVALID_CONFIG", `no.such: no such topic configuration; ${known}`]);
    expect(messageOf(["toString", "1"])).toEqual(["INVALID_CONFIG", expect.stringMatching(/^toString: no such/)]);
    expect(messageOf(["num.partitions", "3"])).toEqual([
      "INVALID_CONFIG",
      `num.partitions: is set for the cluster; ${known}`,
    ]);
    expect(messageOf(["max.message.bytes", "2kB"])).toEqual(["INVALID_CONFIG", "max.message.bytes: given twice"]);
  });

  test("of a topic that is not there or is going: unknown", () => {
    const history = History.started();
    history.create("a");
    history.delete("a");
    for (const name of ["a", "b"])
      expect(alterTopic(history, name, ["segment.bytes", "1MiB"])).toMatchObject({
        error: "UNKNOWN_TOPIC_OR_PARTITION",
      });
  });

  test("at creation: units and a key given twice", () => {
    expect(parseTopicConfigs([{ key: "segment.bytes", value: "1.5MiB" }])).toEqual({
      kind: "valid",
      configs: { "segment.bytes": 1_572_864 },
    });
    const twice = [1, 2].map(() => ({ key: "segment.bytes", value: "1MiB" }));
    expect(parseTopicConfigs(twice)).toEqual({ kind: "invalid", message: "segment.bytes: given twice" });
  });
});

test("a switch takes true and false as well, and is kept as a number", () => {
  const history = History.started();
  history.create("a");
  const key = "allow.acks.below.min.isr";
  for (const [value, kept] of [
    ["true", 1],
    ["0", 0],
    ["True", 1],
    ["false", 0],
    ["1", 1],
  ] as const) {
    history.take(alterTopic(history, "a", [key, value]));
    expect(history.topic("a").configs).toEqual({ [key]: kept });
  }
  for (const value of ["yes", "2", "", "-1", "truee"])
    expect(alterTopic(history, "a", [key, value])).toMatchObject({
      error: "INVALID_CONFIG",
      message: `${key}: takes 1 or true, 0 or false, not ${value}`,
    });
});

describe("a broker's configuration", () => {
  test("of one broker and of all: set and taken away", () => {
    const history = History.started([1, 2]);
    history.take(alterBroker(history, null, ["num.partitions", "3"], ["segment.bytes", "1MiB"]));
    history.take(alterBroker(history, 2, ["segment.bytes", "2MiB"]));
    expect(history.image.brokerConfigs(null)).toEqual({ "num.partitions": 3, "segment.bytes": 1_048_576 });
    expect(history.image.brokerConfigs(node(2))).toEqual({ "segment.bytes": 2_097_152 });
    expect(history.image.brokerConfigs(node(1))).toEqual({});
    expect(alterBroker(history, 2, ["segment.bytes", "2MiB"])).toEqual(NOTHING);
    history.take(alterBroker(history, 2, ["segment.bytes", null]));
    expect(history.image.brokerConfigs(node(2))).toEqual({});
  });

  test("what means the whole cluster is not set for one broker, what is fixed at start not at all", () => {
    const history = History.started([1]);
    expect(alterBroker(history, 1, ["max.message.bytes", "1kB"])).toMatchObject({
      error: "INVALID_CONFIG",
      message:
        "max.message.bytes: is set for a topic or the cluster; one broker takes segment.bytes, index.interval.bytes, segment.index.bytes",
    });
    expect(alterBroker(history, null, ["listeners", "ws://x:1"])).toMatchObject({
      error: "INVALID_CONFIG",
      message: expect.stringMatching(
        /^listeners: cannot be changed while brokers run; the cluster takes num\.partitions, /,
      ),
    });
    expect(alterBroker(history, 9, ["segment.bytes", "1MiB"])).toMatchObject({ error: "INVALID_REQUEST" });
    expect(alterBroker(new History(), null, ["segment.bytes", "1MiB"])).toMatchObject({
      error: "BROKER_NOT_AVAILABLE",
    });
    const record = { type: "broker-config", version: 1, nodeId: node(9), configs: {} } as const;
    expect(() => history.force(record)).toThrow(/no broker 9/);
  });

  test("a count is digits only", () => {
    for (const value of ["", "1.0", "1e1", "3KiB", "-1", "99999999999999999999"])
      expect(alterBroker(History.started(), null, ["num.partitions", value])).toMatchObject({
        message: `num.partitions: takes 1 to 10000, not ${value}`,
      });
  });
});

test("the value that counts: the topic's, else the broker's, else the cluster's, else the file's", () => {
  const history = History.started([1, 2]);
  history.create("a");
  const valueAt = (nodeId: number) =>
    effectiveConfig(history.image, "segment.bytes", {
      topic: history.topic("a"),
      nodeId: node(nodeId),
      fileValue: 9_999,
    });
  expect(valueAt(1)).toEqual({ value: 9_999, source: "file" });
  history.take(alterBroker(history, null, ["segment.bytes", "3000"]));
  history.take(alterBroker(history, 2, ["segment.bytes", "2000"]));
  expect([valueAt(1), valueAt(2)]).toEqual([
    { value: 3_000, source: "cluster" },
    { value: 2_000, source: "node" },
  ]);
  history.take(alterTopic(history, "a", ["segment.bytes", "1500"]));
  expect([valueAt(1), valueAt(2)]).toEqual(Array(2).fill({ value: 1_500, source: "topic" }));
});
