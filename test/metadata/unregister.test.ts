// A dead broker off the list: when that is refused, and what is left of it.
import { describe, expect, test } from "vitest";
import { decideMetadataVersion, decideRemoval, decideUnregistration } from "../../src/metadata/controller.ts";
import { MetadataImage } from "../../src/metadata/image.ts";
import { History, faultsOf, node, replayed } from "./support.ts";

const wished = (
  history: History,
  nodeId: number,
  more: { isForced?: boolean; members?: number[]; isLive?: boolean } = {},
) =>
  decideUnregistration(history.image, {
    nodeId: node(nodeId),
    members: (more.members ?? []).map(node),
    hasLiveSession: more.isLive ?? false,
    isForced: more.isForced ?? false,
  });

describe("unregistering", () => {
  test("is refused while the broker is there, votes, or holds anything", () => {
    const history = History.started([1, 2, 3]);
    expect(wished(history, 9)).toMatchObject({ error: "BROKER_ID_NOT_REGISTERED" });
    expect(wished(history, 3)).toMatchObject({ error: "INVALID_REQUEST", message: expect.stringContaining("fenced") });
    history.create("a", { partitions: 3 });
    history.fence(3);
    expect(wished(history, 3, { members: [1, 3] })).toMatchObject({
      message: expect.stringContaining("quorum remove 3"),
    });
    expect(wished(history, 3, { isLive: true, isForced: true })).toMatchObject({
      message: expect.stringContaining("alive"),
    });
    expect(wished(history, 3)).toMatchObject({ error: "INVALID_REQUEST", message: expect.stringContaining("a-2") });
  });

  test("says of how much nobody else has a whole copy", () => {
    const history = History.started([1, 2, 3]);
    history.create("a", { partitions: 3, replicationFactor: 3 });
    history.create("b", { partitions: 3 });
    history.fence(3);
    expect(wished(history, 3)).toMatchObject({
      message: expect.stringContaining("holds 4 partitions, 1 of which nobody else has whole (one is b-2)"),
    });
  });

  test("of one that holds nothing: its name, its settings and what it owes are gone; an upgrade does not wait for it", () => {
    const history = History.started([1, 2]);
    history.join(3, { metadataVersions: { min: 1, max: 1 } });
    history.create("a", { partitions: 3, topicId: 77 });
    history.force({ type: "broker-config", version: 1, nodeId: node(3), configs: { "segment.bytes": 4096 } });
    history.fence(3);
    const { topicId } = history.topic("a");
    history.delete("a");
    history.take(decideRemoval(history.image, topicId, [node(1), node(2)]));
    expect([...history.image.tombstones]).toMatchObject([{ owed: [3] }]);
    expect(decideMetadataVersion(history.image, { version: 2 })).toMatchObject({ error: "UNSUPPORTED_VERSION" });
    history.take(wished(history, 3));
    expect(history.image.broker(node(3))).toBeUndefined();
    expect(history.image.tombstoneCount).toBe(0);
    expect(history.image.brokerConfigs(node(3))).toEqual({});
    expect(decideMetadataVersion(history.image, { version: 2 })).toMatchObject({ kind: "records" });
    expect(faultsOf(history.image)).toEqual([]);
    history.join(3, { storedBrokerEpoch: null });
    expect(history.broker(3)).toMatchObject({ isFenced: false });
  });

  test("by force: it leaves every ISR, and back on the same disk it has none of its partitions; a deletion does not wait for it", () => {
    const history = History.started([1, 2]);
    const { topicId } = history.create("a", { partitions: 2 });
    history.fence(2);
    history.take(wished(history, 2, { isForced: true }));
    const [, lost] = history.topic("a").partitions;
    expect(lost).toMatchObject({ replicas: [2], isr: [], leader: null });
    const reloaded = MetadataImage.load(history.image.encode());
    expect(reloaded.stateHash()).toBe(history.image.stateHash());
    history.join(2);
    expect(history.leaders("a")).toEqual([1, null]);
    history.fence(2);
    history.take(wished(history, 2, { isForced: true }));
    history.delete("a");
    expect(decideRemoval(history.image, topicId, [node(1)])).toMatchObject({ records: [{ owed: [] }] });
    expect(faultsOf(history.image)).toEqual([]);
    expect(history.entries.length).toBeGreaterThan(0);
    expect(replayed(history.entries).stateHash()).toBe(history.image.stateHash());
  });

  test("a record of it that does not fit stops the state machine", () => {
    const history = History.started([1]);
    const { brokerEpoch } = history.broker(1);
    const record = { type: "unregister-broker", version: 1, nodeId: node(1), brokerEpoch } as const;
    expect(() => history.force(record)).toThrow("is not fenced");
  });
});
