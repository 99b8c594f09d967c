// Registration of brokers: incarnations, disks, sessions, versions (D-1, D-6, R-63).
import { describe, expect, test } from "vitest";
import type { ClusterId, DirectoryId } from "../../src/model/ids.ts";
import { BROKERS_MAX, decideCluster } from "../../src/metadata/controller.ts";
import { MetadataImage } from "../../src/metadata/image.ts";
import { CLUSTER, History, directoryOf, node, replayed, uuid } from "./support.ts";

const OTHER_DISK = uuid(2900) as DirectoryId;

describe("the cluster record", () => {
  test("D-20: it is the first record, and the only one of its kind", () => {
    const image = new MetadataImage();
    const wish = { clusterId: CLUSTER, metadataVersion: 2, nowMs: 5 };
    expect(decideCluster(image, wish)).toEqual({
      kind: "records",
      records: [{ type: "cluster", version: 1, clusterId: CLUSTER, metadataVersion: 2, timestampMs: 5 }],
    });
    const history = History.started([]);
    expect(history.image.cluster).toEqual({ clusterId: CLUSTER, metadataVersion: 1, createdMs: 1 });
    expect(decideCluster(history.image, wish)).toEqual({ kind: "records", records: [] });
    const other = { ...wish, clusterId: uuid(1) as ClusterId };
    expect(decideCluster(history.image, other)).toMatchObject({ error: "INCONSISTENT_CLUSTER_ID" });
  });

  test("before it nothing can be registered", () => {
    const history = new History();
    expect(history.wishRegistration(1)).toMatchObject({ kind: "refused", error: "BROKER_NOT_AVAILABLE" });
  });
});

describe("a registration", () => {
  test("its broker epoch is the index of its command, and it begins fenced", () => {
    const history = History.started([]);
    history.skip();
    const index = history.image.endOffset;
    history.register(1, { restart: "first" });
    expect(history.broker(1)).toMatchObject({ brokerEpoch: index, isFenced: true, fencedFor: null, restart: "first" });
    expect(history.broker(1)).toMatchObject({ address: "host1:7070", confirmedEpoch: null, registeredMs: 3 });
  });

  test("D-1: a new incarnation takes every leadership in one record, raises the epochs, and the election raises them again", () => {
    const history = History.started([1, 2]);
    history.create("a", { partitions: 4 });
    expect(history.leaders("a")).toEqual([1, 2, 1, 2]);
    const before = history.broker(1).brokerEpoch;
    expect(history.register(1, { hasLiveSession: true }).map(({ type }) => type)).toEqual(["register-broker"]);
    expect(history.leaders("a")).toEqual([null, 2, null, 2]);
    expect(history.epochs("a")).toEqual([1, 0, 1, 0]);
    expect(history.broker(1).isFenced).toBe(true);
    expect(history.broker(1).brokerEpoch).toBeGreaterThan(before);
    history.unfence(1);
    expect(history.leaders("a")).toEqual([1, 2, 1, 2]);
    expect(history.epochs("a")).toEqual([2, 0, 2, 0]);
    expect(history.topic("a").partitions.map(({ isr }) => isr)).toEqual([[1], [2], [1], [2]]);
  });

  test("there are only so many, so that one answer can list them; those that are registered may come back", () => {
    const history = History.started([]);
    for (let nodeId = 1; nodeId <= BROKERS_MAX; nodeId++) history.register(nodeId);
    expect(history.wishRegistration(BROKERS_MAX + 1)).toMatchObject({ kind: "refused", error: "INVALID_REGISTRATION" });
    expect(history.wishRegistration(BROKERS_MAX)).toMatchObject({ kind: "records" });
  });

  test.each([
    { min: -1, max: 2 },
    { min: -2, max: -1 },
    { min: 2, max: 1 },
  ])("I-39: its versions are a range, not $min to $max: a record of that nobody could read", (metadataVersions) => {
    const wish = History.started([]).wishRegistration(1, { metadataVersions });
    expect(wish).toMatchObject({ kind: "refused", error: "INVALID_REGISTRATION" });
  });

  test.each([
    "",
    "host",
    "host:0",
    "host:65536",
    "a b:1",
    "€".repeat(1000),
    `${"h".repeat(254)}:1`,
    "::1:7070",
    "host:1\n",
  ])("its address is host:port, not %j", (address) => {
    const wish = History.started([]).wishRegistration(1, { address });
    expect(wish).toMatchObject({ kind: "refused", error: "INVALID_REGISTRATION" });
  });

  test.each(["host_1.example-2.org:65535", "192.0.2.1:1", "[::1]:7070", "[fe80::1%eth0]:7070"])(
    "its address may be %j",
    (address) => {
      expect(History.started([]).wishRegistration(1, { address })).toMatchObject({ kind: "records" });
    },
  );

  test("R-63: the same incarnation again keeps its epoch and its leaderships, and needs no record", () => {
    const history = History.started([]);
    history.join(1, { incarnation: 42 });
    history.create("a");
    const { brokerEpoch } = history.broker(1);
    expect(history.wishRegistration(1, { incarnation: 42, hasLiveSession: true })).toEqual({
      kind: "records",
      records: [],
    });
    history.register(1, { incarnation: 42, address: "elsewhere:1", metadataVersions: { min: 1, max: 3 } });
    expect(history.broker(1)).toMatchObject({ brokerEpoch, isFenced: false, address: "elsewhere:1" });
    expect(history.broker(1).metadataVersions).toEqual({ min: 1, max: 3 });
    expect([history.leaders("a"), history.epochs("a")]).toEqual([[1], [0]]);
  });

  test("R-63: one incarnation has one disk", () => {
    const history = History.started([]);
    history.join(1, { incarnation: 42 });
    const wish = history.wishRegistration(1, { incarnation: 42, directoryId: OTHER_DISK });
    expect(wish).toMatchObject({ kind: "refused", error: "DUPLICATE_BROKER_REGISTRATION" });
  });

  test("D-1: another disk is refused while the old session lives, and let in when it has ended", () => {
    const history = History.started([1, 2]);
    const wish = history.wishRegistration(1, { directoryId: OTHER_DISK, hasLiveSession: true });
    expect(wish).toMatchObject({ kind: "refused", error: "DUPLICATE_BROKER_REGISTRATION" });
    expect(wish).toMatchObject({ message: expect.stringContaining(directoryOf(1)) });
    history.register(1, { directoryId: OTHER_DISK, restart: "first", storedBrokerEpoch: null });
    expect(history.broker(1)).toMatchObject({ directoryId: OTHER_DISK, restart: "changed-disk", confirmedEpoch: null });
    expect(history.image.brokerOfDirectory(directoryOf(1))).toBeUndefined();
    expect(history.image.brokerOfDirectory(OTHER_DISK)?.nodeId).toBe(1);
  });

  test("a disk that is another node's is refused, whoever lives", () => {
    const history = History.started([1, 2]);
    const wish = history.wishRegistration(3, { directoryId: directoryOf(1) });
    expect(wish).toMatchObject({ kind: "refused", error: "DATA_DIR_FOREIGN" });
    expect(wish).toMatchObject({ message: expect.stringContaining("of node 1") });
    expect(history.wishRegistration(2, { directoryId: directoryOf(1) })).toMatchObject({ error: "DATA_DIR_FOREIGN" });
  });

  test("R-63: a broker of another cluster is refused", () => {
    const wish = History.started([]).wishRegistration(1, { clusterId: uuid(9) as ClusterId });
    expect(wish).toMatchObject({ kind: "refused", error: "INCONSISTENT_CLUSTER_ID" });
  });

  test("D-31: a build that does not know the finalised version is refused by name of the versions", () => {
    const history = History.started([], 2);
    const wish = history.wishRegistration(1, { metadataVersions: { min: 1, max: 1 } });
    expect(wish).toMatchObject({ kind: "refused", error: "UNSUPPORTED_VERSION" });
    expect(wish).toMatchObject({ message: "metadata.version is 2, node 1 knows 1 to 1" });
  });
});

describe("D-6: what a restart may have lost", () => {
  test.each(["first", "clean", "process-death", "power-loss"] as const)(
    "%s: the replicas are eligible, and lead again when the broker is back",
    (restart) => {
      const history = History.started([1, 2]);
      history.create("a", { partitions: 2 });
      history.register(1, { restart });
      expect(history.broker(1).restart).toBe(restart);
      expect([history.standing("a", 0), history.standing("a", 1)]).toEqual(["-@1 [] [1]", "2@0 [2] []"]);
      history.unfence(1);
      expect([history.standing("a", 0), history.standing("a", 1)]).toEqual(["1@2 [1] []", "2@0 [2] []"]);
    },
  );

  test("changed disk: its replicas leave ISR and ELR, and partitions that nobody else holds stay without a leader", () => {
    const history = History.started([1, 2]);
    history.create("a", { partitions: 4 });
    history.register(1, { directoryId: OTHER_DISK });
    expect(history.topic("a").partitions.map(({ isr }) => isr)).toEqual([[], [2], [], [2]]);
    expect(history.topic("a").partitions.map(({ elr }) => elr)).toEqual([[], [], [], []]);
    history.unfence(1);
    expect(history.leaders("a")).toEqual([null, 2, null, 2]);
    history.create("b", { partitions: 2 });
    expect(new Set(history.leaders("b"))).toEqual(new Set([1, 2]));
    expect(replayed(history.entries).encode()).toEqual(history.image.encode());
  });

  test("a whole cluster that lost its power has every partition back by itself", () => {
    const history = History.started([1, 2, 3]);
    history.create("a", { partitions: 9 });
    for (const nodeId of [1, 2, 3]) history.register(nodeId, { restart: "power-loss" });
    expect(new Set(history.leaders("a"))).toEqual(new Set([null]));
    for (const nodeId of [3, 1, 2]) history.unfence(nodeId);
    expect(history.leaders("a")).toEqual([1, 2, 3, 1, 2, 3, 1, 2, 3]);
  });

  test("an older copy of the disk is a changed one: its broker epoch is below the confirmed one", () => {
    const history = History.started([1]);
    const confirmed = history.broker(1).brokerEpoch;
    history.create("a");
    for (const storedBrokerEpoch of [confirmed - 1, null]) {
      const old = { storedBrokerEpoch };
      expect(history.wishRegistration(1, old)).toMatchObject({ records: [{ restart: "changed-disk" }] });
      const refused = history.wishRegistration(1, { ...old, hasLiveSession: true });
      expect(refused).toMatchObject({ error: "DUPLICATE_BROKER_REGISTRATION" });
    }
    for (const storedBrokerEpoch of [confirmed, confirmed + 1])
      expect(history.wishRegistration(1, { storedBrokerEpoch })).toMatchObject({ records: [{ restart: "clean" }] });
  });

  test("an epoch that was not confirmed is never held against a disk", () => {
    const history = History.started([1]);
    const confirmed = history.broker(1).brokerEpoch;
    history.create("a");
    history.register(1);
    history.register(1, { storedBrokerEpoch: confirmed });
    expect(history.broker(1)).toMatchObject({ restart: "clean", confirmedEpoch: confirmed });
    history.unfence(1);
    expect(history.leaders("a")).toEqual([1]);
    expect(history.wishRegistration(1, { storedBrokerEpoch: confirmed })).toMatchObject({
      records: [{ restart: "changed-disk" }],
    });
  });

  test("a new disk has confirmed nothing yet: dying before that is no second change", () => {
    const history = History.started([1]);
    history.register(1, { directoryId: OTHER_DISK, storedBrokerEpoch: null });
    history.register(1, { directoryId: OTHER_DISK, storedBrokerEpoch: null, restart: "process-death" });
    expect(history.broker(1).restart).toBe("process-death");
  });
});

describe("an unsafe recovery", () => {
  const record = { type: "unsafe-recovery", version: 1, epochsRaisedBy: 1_000_000, timestampMs: 1 } as const;

  test("fences everybody and raises every epoch beyond what was lost; who is heard of again leads again", () => {
    const history = History.started([1, 2]);
    history.create("a", { partitions: 2 });
    history.fence(2);
    const epochs = [1, 2].map((nodeId) => history.broker(nodeId).brokerEpoch);
    history.take({ kind: "records", records: [record] });
    expect(history.leaders("a")).toEqual([null, null]);
    expect(history.epochs("a")).toEqual([1_000_000, 1_000_001]);
    expect(history.topic("a").partitions.map(({ partitionEpoch }) => partitionEpoch)).toEqual([1_000_000, 1_000_001]);
    expect([1, 2].map((nodeId) => history.broker(nodeId).isFenced)).toEqual([true, true]);
    for (const nodeId of [1, 2]) history.unfence(nodeId);
    expect(history.leaders("a")).toEqual([1, 2]);
    expect(history.epochs("a")).toEqual([1_000_001, 1_000_002]);
    expect([1, 2].map((nodeId) => history.broker(nodeId).brokerEpoch)).toEqual(epochs);
    expect(replayed(history.entries).encode()).toEqual(history.image.encode());
  });

  test("of a log that ends before the cluster record says nothing", () => {
    const history = new History();
    history.skip();
    history.force(record);
    const wish = { clusterId: CLUSTER, metadataVersion: 1, nowMs: 1 };
    history.take(decideCluster(history.image, wish));
    history.join(1);
    expect(history.broker(1).isFenced).toBe(false);
  });
});

describe("records that nobody should have written", () => {
  test.each([
    ["another node's directory", { nodeId: node(2), directoryId: directoryOf(1) }, /is of node 1/],
    ["another directory without saying so", { nodeId: node(1), directoryId: OTHER_DISK }, /another directory/],
  ])("%s", (_what, identity, reason) => {
    const history = History.started([1, 2]);
    const more = { incarnationId: uuid(1), restart: "clean", address: "x:1", timestampMs: 1 } as const;
    const record = { type: "register-broker", version: 1, ...identity, ...more } as const;
    expect(() => history.force({ ...record, metadataVersions: { min: 1, max: 2 } })).toThrow(reason);
  });

  test("an incarnation that changes its directory", () => {
    const history = History.started([]);
    history.join(1, { incarnation: 42 });
    const [record] = History.started([]).register(1, { incarnation: 42, directoryId: OTHER_DISK });
    expect(() => history.force(record as never)).toThrow(/changed its directory/);
  });
});
