// Fencing and unfencing of brokers, and the elections that come with them (D-1, D-6, D-17, R-64, R-66).
import { describe, expect, test } from "vitest";
import { decideFence } from "../../src/metadata/controller.ts";
import { processorMs, slowness } from "../speed.ts";
import { History, faultsOf, node, replayed, topicIdOf } from "./support.ts";

const NOTHING = { kind: "records", records: [] };

describe("fencing", () => {
  test("takes every leadership of the broker in one command and raises those leader epochs; alone it stays eligible", () => {
    const history = History.started([1, 2, 3]);
    history.create("a", { partitions: 6 });
    const before = history.image.endOffset;
    history.fence(2);
    expect(history.image.endOffset).toBe(before + 1);
    expect(history.leaders("a")).toEqual([1, null, 3, 1, null, 3]);
    expect(history.epochs("a")).toEqual([0, 1, 0, 0, 1, 0]);
    expect(history.topic("a").partitions.map(({ isr }) => isr)).toEqual([[1], [], [3], [1], [], [3]]);
    expect(history.topic("a").partitions.map(({ elr }) => elr)).toEqual([[], [2], [], [], [2], []]);
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

  test("a deleting topic follows the same rules, and is nobody's to choose a leader for", () => {
    const history = History.started([1, 2]);
    history.create("a", { partitions: 2 });
    history.delete("a");
    history.fence(1);
    expect(history.leaders("a")).toEqual([null, 2]);
    expect([...history.image.leaderless()]).toEqual([]);
    history.unfence(1);
    expect(history.leaders("a")).toEqual([1, 2]);
    expect(faultsOf(history.image)).toEqual([]);
  });

  test("a broker with 10,000 partitions is fenced by one small record, applied at once", () => {
    const history = History.started([1, 2, 3]);
    for (let at = 0; at < 200; at++) history.create(`t${at}`, { partitions: 50, replicationFactor: 3 });
    expect(history.image.heldCount(node(1))).toBe(10_000);
    const records = history.fence(1);
    expect([records.length, JSON.stringify(records).length < 200]).toEqual([1, true]);
    expect(history.image.touched.size).toBe(10_000);
    expect(history.image.ledCount(node(1))).toBe(0);
    expect(history.image.ledCount(node(2)) + history.image.ledCount(node(3))).toBe(10_000);
    // Applied anew, without the tests' own work: of a broker that is in every ISR.
    const applyMs = [1, 2, 3].map(() => {
      const image = replayed(history.entries.slice(0, -1));
      return processorMs(() => void image.apply(image.endOffset, records));
    });
    expect(Math.min(...applyMs) / slowness()).toBeLessThan(50);
    expect(replayed(history.entries).stateHash()).toBe(history.image.stateHash());
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

  test("10,000 partitions that only this broker has come back with it, by one record", () => {
    const history = History.started([1]);
    history.create("a", { partitions: 10_000 });
    history.register(1);
    expect(history.image.ledCount(node(1))).toBe(0);
    const tookMs = processorMs(() => {
      expect(history.unfence(1).map(({ type }) => type)).toEqual(["unfence-broker"]);
    });
    expect(tookMs / slowness()).toBeLessThan(100);
    expect(history.image.ledCount(node(1))).toBe(10_000);
    expect(new Set(history.epochs("a"))).toEqual(new Set([2]));
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
    ["a fenced leader", { leader: 3, isr: [1, 3] }, /fenced broker in the ISR/],
    ["a fenced broker in the ISR", { isr: [1, 3] }, /fenced broker in the ISR/],
    ["a leader outside the ISR", { leader: 2, isr: [1] }, /2 may not lead/],
    ["an ISR that nobody leads", { leader: null }, /nobody may not lead/],
    ["an ISR outside the replicas", { isr: [1, 4] }, /no part of the replicas/],
    ["an ELR outside the replicas", { isr: [1], elr: [4] }, /no part of the replicas/],
    ["an ISR with a replica twice", { isr: [1, 1] }, /twice/],
    ["one in ISR and ELR", { isr: [1], elr: [1] }, /twice/],
    ["an ELR beside an ISR that is large enough", { elr: [3] }, /large enough/],
    ["an old partition epoch", { partitionEpoch: 5 }, /partition epoch 5 has passed/],
    ["no such partition", { partition: 1 }, /no partition 1/],
  ])("%s", (_what, wrong, reason) => {
    const history = History.started([1, 2, 3, 4]);
    history.create("a", { topicId: 3, replicationFactor: 3 });
    history.fence(3);
    const sound = {
      partition: 0,
      leader: 1,
      isr: [1, 2],
      elr: [],
      isUnclean: false,
      isNewEpoch: false,
      partitionEpoch: 1,
    };
    const change = (more: object) =>
      ({ type: "partition-change", version: 1, topicId: topicIdOf(3), changes: [{ ...sound, ...more }] }) as never;
    expect(() => history.force(change(wrong))).toThrow(reason);
    const other = History.started([1, 2, 3, 4]);
    other.create("a", { topicId: 3, replicationFactor: 3 });
    other.fence(3);
    other.force(change({}));
    expect(other.standing("a")).toBe("1@0 [1 2] []");
    expect(other.partition("a").partitionEpoch).toBe(2);
  });
});
