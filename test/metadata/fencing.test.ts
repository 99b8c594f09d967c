// Fencing and unfencing of brokers, and the elections that come with them (D-1, D-6, D-17, R-64, R-66).
import { describe, expect, test } from "vitest";
import { decideFence, ELECTIONS_PER_COMMAND } from "../../src/metadata/controller.ts";
import { History, faultsOf, node, topicIdOf } from "./support.ts";

const NOTHING = { kind: "records", records: [] };

describe("fencing", () => {
  test("takes every leadership of the broker in one command and raises those leader epochs; ISRs stay", () => {
    const history = History.started([1, 2, 3]);
    history.create("a", { partitions: 6 });
    const before = history.image.endOffset;
    history.fence(2);
    expect(history.image.endOffset).toBe(before + 1);
    expect(history.leaders("a")).toEqual([1, null, 3, 1, null, 3]);
    expect(history.epochs("a")).toEqual([0, 1, 0, 0, 1, 0]);
    expect(history.topic("a").partitions.map(({ isr }) => isr)).toEqual([[1], [2], [3], [1], [2], [3]]);
    expect([history.image.ledCount(node(2)), history.image.heldCount(node(2))]).toEqual([0, 2]);
    history.unfence(2);
    expect(history.leaders("a")).toEqual([1, 2, 3, 1, 2, 3]);
    expect(history.epochs("a")).toEqual([0, 2, 0, 0, 2, 0]);
  });

  test("many brokers go in one command", () => {
    const history = History.started([1, 2, 3]);
    history.create("a", { partitions: 3 });
    const before = history.image.endOffset;
    expect(history.fence(3, 1).map(({ type }) => type)).toEqual(["fence-broker", "fence-broker"]);
    expect(history.image.endOffset).toBe(before + 1);
    expect(history.leaders("a")).toEqual([null, 2, null]);
  });

  test("those that are fenced already, unknown, named twice or registered again meanwhile are left out", () => {
    const history = History.started([1, 2]);
    history.fence(2);
    expect(history.wishFence([2, 9])).toEqual(NOTHING);
    expect(history.wishFence([1, 1, 2])).toMatchObject({ records: [{ nodeId: 1 }] });
    const { brokerEpoch } = history.broker(1);
    history.join(1);
    expect(decideFence(history.image, [{ nodeId: node(1), brokerEpoch, reason: "session" }])).toEqual(NOTHING);
  });

  test("D-31: the reason is written and kept from metadata.version 2 on, and not before", () => {
    const [older, newer] = [1, 2].map((version) => {
      const history = History.started([1], version);
      history.take(history.wishFence([1], "refused"));
      return history;
    });
    const { brokerEpoch } = older?.broker(1) ?? {};
    expect(older?.broker(1)).toMatchObject({ isFenced: true, fencedFor: null });
    expect(newer?.broker(1)).toMatchObject({ isFenced: true, fencedFor: "refused", brokerEpoch });
    newer?.unfence(1);
    expect(newer?.broker(1)).toMatchObject({ isFenced: false, fencedFor: null });
  });

  test("touches the partitions of that broker only", () => {
    const history = History.started([1, 2, 3]);
    history.create("a", { partitions: 3_000 });
    const before = [...history.topic("a").partitions];
    history.fence(1);
    const after = history.topic("a").partitions;
    expect(after.every((partition, at) => (partition === before[at]) === (at % 3 !== 0))).toBe(true);
  });

  test("a deleting topic loses its leader too, and has no election any more", () => {
    const history = History.started([1, 2]);
    history.create("a", { partitions: 2 });
    history.delete("a");
    history.fence(1);
    expect(history.leaders("a")).toEqual([null, 2]);
    history.unfence(1);
    expect(history.leaders("a")).toEqual([null, 2]);
    expect(faultsOf(history.image)).toEqual([]);
  });
});

describe("unfencing", () => {
  test("D-6, R-64: only once the present epoch is confirmed and the registration applied", () => {
    const history = History.started([]);
    history.register(1);
    const { brokerEpoch } = history.broker(1);
    expect(history.wishUnfence(1, { isConfirmed: false })).toEqual(NOTHING);
    expect(history.wishUnfence(1, { appliedEnd: brokerEpoch })).toEqual(NOTHING);
    expect(history.wishUnfence(1, { appliedEnd: brokerEpoch + 1 })).toEqual({
      kind: "records",
      records: [{ type: "unfence-broker", version: 1, nodeId: 1, brokerEpoch }],
    });
    history.unfence(1);
    expect(history.broker(1)).toMatchObject({ isFenced: false, confirmedEpoch: brokerEpoch });
    expect(history.wishUnfence(1)).toEqual(NOTHING);
    expect(history.wishUnfence(1, { isConfirmed: false })).toEqual(NOTHING);
  });

  test("Q-22: a heartbeat in another broker epoch, or of nobody, is told so", () => {
    const history = History.started([1]);
    const stale = history.broker(1).brokerEpoch;
    history.register(1);
    expect(history.wishUnfence(1, { brokerEpoch: stale })).toMatchObject({ error: "STALE_BROKER_EPOCH" });
    expect(history.wishUnfence(1, { brokerEpoch: stale + 100 })).toMatchObject({ error: "STALE_BROKER_EPOCH" });
    expect(history.wishUnfence(2, { brokerEpoch: 0 })).toMatchObject({
      error: "STALE_BROKER_EPOCH",
      message: "node 2 is not registered, not in 0",
    });
  });

  test("D-17: a replica whose log is damaged is never elected, and is once it is whole", () => {
    const history = History.started([1]);
    history.create("a", { partitions: 3, topicId: 7 });
    history.register(1);
    const damaged = new Set([1]);
    const isWhole = (topicId: string, partition: number): boolean =>
      topicId !== topicIdOf(7) || !damaged.has(partition);
    history.take(history.wishUnfence(1, { isWhole }));
    expect(history.leaders("a")).toEqual([1, null, 1]);
    expect(history.wishUnfence(1, { isWhole })).toEqual(NOTHING);
    damaged.clear();
    history.take(history.wishUnfence(1, { isWhole }));
    expect(history.leaders("a")).toEqual([1, 1, 1]);
    expect(history.epochs("a")).toEqual([2, 2, 2]);
  });

  test("elections are bounded: what one command does not take, the next ones do", () => {
    const history = History.started([1]);
    const partitions = ELECTIONS_PER_COMMAND + 5;
    history.create("a", { partitions });
    history.create("b", { partitions: 3 });
    history.register(1);
    const counts: number[] = [];
    for (;;) {
      const records = history.unfence(1);
      if (records.length === 0) break;
      const changes = records.map((record) => (record.type === "partition-change" ? record.changes.length : 0));
      counts.push(changes.reduce((sum, count) => sum + count));
    }
    expect(counts).toEqual([ELECTIONS_PER_COMMAND, 8]);
    expect(new Set([...history.leaders("a"), ...history.leaders("b")])).toEqual(new Set([1]));
  });
});

describe("records that nobody should have written", () => {
  test("fencing or unfencing in another epoch", () => {
    for (const type of ["fence-broker", "unfence-broker"] as const) {
      const history = History.started([1]);
      const record = { type, version: 1, nodeId: node(1), brokerEpoch: history.broker(1).brokerEpoch + 1 } as const;
      expect(() => history.force(record as never)).toThrow(/not in broker epoch/);
    }
  });

  test.each([
    ["a fenced leader", 2, [2], 1, /may not lead/],
    ["a leader outside the ISR", 1, [], 0, /may not lead/],
    ["an ISR outside the replicas", 1, [1, 2], 0, /no part of the replicas/],
    ["an ISR with a replica twice", 1, [1, 1], 0, /no part of the replicas/],
    ["an old partition epoch", 1, [1], 5, /partition epoch 5 has passed/],
  ])("%s", (_what, leader, isr, partitionEpoch, reason) => {
    const history = History.started([1, 2]);
    history.create("a", { topicId: 3, partitions: 2 });
    history.fence(2);
    const change = { partition: leader - 1, leader: node(leader), isr: isr.map(node), partitionEpoch };
    const record = { type: "partition-change", version: 1, topicId: topicIdOf(3), changes: [change] } as const;
    expect(() => history.force(record)).toThrow(reason);
  });

  test("an ISR change under the same leader keeps its leader epoch", () => {
    const history = History.started([1]);
    history.create("a", { topicId: 3 });
    const change = { partition: 0, leader: node(1), isr: [node(1)], partitionEpoch: 0 };
    history.force({ type: "partition-change", version: 1, topicId: topicIdOf(3), changes: [change] });
    expect(history.topic("a").partitions[0]).toMatchObject({ leaderEpoch: 0, partitionEpoch: 1 });
  });
});
