// Producer ids: blocks for brokers, and named producers, whose epochs only rise (P-17, invariant 24).
import { PRODUCER_EPOCH_MAX } from "../../src/model/batch-header.ts";
import { describe, expect, test } from "vitest";
import { decideNamedProducer, decideProducerIds, type NamedProducerWish } from "../../src/metadata/controller.ts";
import { MetadataImage } from "../../src/metadata/image.ts";
import { EPOCHS_RAISED_BY_RECOVERY, NAMED_PRODUCER_IDS_START as NAMED } from "../../src/metadata/records.ts";
import { History, node } from "./support.ts";

const NAMES = { namesMax: 2, expirationMs: 100 };

function block(history: History, nodeId = 1): number | undefined {
  const { brokerEpoch } = history.broker(nodeId);
  const [record] = history.take(decideProducerIds(history.image, { nodeId: node(nodeId), brokerEpoch }));
  return record?.type === "producer-ids" ? record.firstId : undefined;
}

const wishOf = (name: string, more: Partial<NamedProducerWish> = {}): NamedProducerWish => ({
  name,
  producerId: -1,
  producerEpoch: -1,
  nowMs: 1_000,
  ...NAMES,
  ...more,
});

/** What the caller is told: "id epoch" above the first named id, or the error. */
function init(history: History, name: string, more: Partial<NamedProducerWish> = {}): string {
  const { decision, granted } = decideNamedProducer(history.image, wishOf(name, more));
  if (decision.kind === "refused" || granted === undefined)
    return decision.kind === "refused" ? decision.error : "nothing";
  if (decision.records.length > 0) history.take(decision);
  return `${granted.producerId - NAMED} ${granted.producerEpoch}`;
}

describe("P-17: blocks of producer ids", () => {
  test("follow one another, whoever asks, also over a snapshot", () => {
    const history = History.started([1, 2]);
    expect([block(history), block(history, 2), block(history)]).toEqual([0, 1_000, 2_000]);
    history.image = MetadataImage.load(history.image.encode());
    expect(block(history)).toBe(3_000);
  });

  test("are given to a registered broker in its present epoch only", () => {
    const history = History.started([1]);
    const { brokerEpoch } = history.broker(1);
    expect(decideProducerIds(history.image, { nodeId: node(1), brokerEpoch: brokerEpoch - 1 })).toMatchObject({
      error: "STALE_BROKER_EPOCH",
    });
    expect(decideProducerIds(history.image, { nodeId: node(9), brokerEpoch })).toMatchObject({
      error: "STALE_BROKER_EPOCH",
    });
  });

  test("a block that is not the next one, or of nothing, does not fit", () => {
    const history = History.started([1]);
    const { brokerEpoch } = history.broker(1);
    const record = { type: "producer-ids", version: 1, nodeId: node(1), brokerEpoch, count: 10 } as const;
    for (const wrong of [
      { ...record, firstId: 5 },
      { ...record, firstId: 0, count: 0 },
      { ...record, firstId: 0, count: NAMED + 1 },
    ]) {
      const image = MetadataImage.load(history.image.encode());
      expect(() => image.apply(image.endOffset, [wrong])).toThrow(expect.objectContaining({ code: "DATA_DAMAGED" }));
    }
  });
});

describe("invariant 24: named producers", () => {
  test("keep their id, in an epoch higher than any before", () => {
    const history = History.started([1]);
    expect([init(history, "a"), init(history, "b"), init(history, "a"), init(history, "a")]).toEqual([
      "0 0",
      "1 0",
      "0 1",
      "0 2",
    ]);
    const { producerIds } = MetadataImage.load(history.image.encode());
    expect([1, 2, 3].map((epoch) => producerIds.verdictOn(NAMED, epoch))).toEqual(["fenced", "taken", "ahead"]);
    expect(producerIds.verdictOn(NAMED + 2, 0)).toBe("ahead");
    expect(producerIds.verdictOn(5, 0)).toBe("taken");
  });

  test("go on from what they have; whoever was fenced may not", () => {
    const history = History.started([1]);
    init(history, "a");
    expect(init(history, "a", { producerId: NAMED, producerEpoch: 0 })).toBe("0 1");
    init(history, "a");
    expect(init(history, "a", { producerId: NAMED, producerEpoch: 1 })).toBe("PRODUCER_FENCED");
    expect(init(history, "unknown", { producerId: NAMED + 7, producerEpoch: 0 })).toBe("PRODUCER_FENCED");
  });

  test("one that asks again, because the answer was lost, is given the same epoch, unless another came between", () => {
    const history = History.started([1]);
    init(history, "a");
    const from = { producerId: NAMED, producerEpoch: 0 };
    expect(init(history, "a", from)).toBe("0 1");
    const { endOffset } = history.image;
    expect(init(history, "a", from)).toBe("0 1");
    expect(history.image.endOffset).toBe(endOffset);
    history.image = MetadataImage.load(history.image.encode());
    expect(init(history, "a", from)).toBe("0 1");
    expect(init(history, "a")).toBe("0 2");
    expect(init(history, "a", from)).toBe("PRODUCER_FENCED");
  });

  test("one that is through with its epochs goes on under another id; the old one is fenced for good", () => {
    const history = History.started([1]);
    init(history, "a");
    const spent = { name: "a", producerId: NAMED, producerEpoch: PRODUCER_EPOCH_MAX } as const;
    history.force({
      type: "named-producer",
      version: 1,
      ...spent,
      fromId: -1,
      fromEpoch: -1,
      forgets: null,
      timestampMs: 1,
    });
    const { producerId, producerEpoch } = spent;
    expect(init(history, "a", { producerId, producerEpoch })).toBe("1 0");
    expect(init(history, "a", { producerId, producerEpoch })).toBe("1 0");
    expect(history.image.producerIds.verdictOn(NAMED, PRODUCER_EPOCH_MAX)).toBe("fenced");
    expect(history.image.producerIds.size).toBe(1);
  });

  test("the bound: only one that was not used for long makes room, the one that is unused for longest", () => {
    const history = History.started([1]);
    init(history, "a");
    init(history, "b", { nowMs: 1_050 });
    init(history, "a", { nowMs: 1_060 });
    expect(init(history, "c", { nowMs: 1_149 })).toBe("PRODUCER_NAMES_FULL");
    expect(init(history, "b", { nowMs: 1_149 })).toBe("1 1");
    expect(init(history, "c", { nowMs: 1_160 })).toBe("2 0");
    expect([...history.image.producerIds.named].map(({ name }) => name)).toEqual(["b", "c"]);
    expect(history.image.producerIds.verdictOn(NAMED, 1)).toBe("fenced");
    expect(init(history, "a", { nowMs: 1_160 })).toBe("PRODUCER_NAMES_FULL");
  });

  test.each([
    ["", -1, -1],
    ["x".repeat(250), -1, -1],
    ["a", 5, -1],
    ["a", -1, 5],
  ])("%j with id %d and epoch %d makes no sense", (name, producerId, producerEpoch) => {
    expect(init(History.started([1]), name, { producerId, producerEpoch })).toBe("INVALID_REQUEST");
  });

  test("a record that takes an id or an epoch back does not fit", () => {
    const history = History.started([1]);
    init(history, "a");
    init(history, "a");
    const from = { fromId: -1, fromEpoch: -1, forgets: null, timestampMs: 1 } as const;
    const record = { type: "named-producer", version: 1, name: "a", producerId: NAMED, ...from } as const;
    for (const wrong of [
      { ...record, producerEpoch: 1 },
      { ...record, producerEpoch: PRODUCER_EPOCH_MAX + 1 },
      { ...record, name: "b", producerEpoch: 2 },
      { ...record, name: "b", producerId: NAMED + 2, producerEpoch: 0 },
      { ...record, name: "b", producerId: NAMED + 1, producerEpoch: 1 },
      { ...record, producerEpoch: 2, forgets: "nobody" },
    ]) {
      const image = MetadataImage.load(history.image.encode());
      expect(() => image.apply(image.endOffset, [wrong])).toThrow(expect.objectContaining({ code: "DATA_DAMAGED" }));
    }
  });
});

test("an unsafe recovery: what the lost voters may have given is never given again, and every name has to be taken anew", () => {
  const history = History.started([1]);
  block(history);
  init(history, "a");
  history.force({
    type: "unsafe-recovery",
    version: 1,
    epochsRaisedBy: EPOCHS_RAISED_BY_RECOVERY,
    timestampMs: 1,
  });
  expect(history.image.producerIds.verdictOn(NAMED, 0)).toBe("fenced");
  expect(init(history, "a")).toBe(`${1 + EPOCHS_RAISED_BY_RECOVERY} 0`);
  expect(block(history)).toBe(1_000 + EPOCHS_RAISED_BY_RECOVERY * 1_000);
});
