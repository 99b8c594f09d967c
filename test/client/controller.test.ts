// Changes of the cluster: the controller is found, lost and found again; what a caller is told is true whatever became of single tries.
import { describe, expect, it } from "vitest";
import type { Admin } from "../../src/client/types.ts";
import type { OttlaError } from "../../src/model/errors.ts";
import { API, type ApiKey } from "../../src/wire/native/apis.ts";
import type { DecodedRequest } from "../../src/wire/native/protocol.ts";
import { FakeCluster, type Fate } from "./fake-cluster.ts";
import { createWorld } from "./world.ts";

async function setUp(options: { count?: number; brokers?: number[] } = {}) {
  const world = createWorld();
  const cluster = await FakeCluster.start(world, options.count ?? 3);
  const brokers = (options.brokers ?? [2]).map((nodeId) => cluster.node(nodeId).address);
  const client = await world.connect({ brokers });
  return { world, time: world.time, cluster, client, admin: client.admin() };
}

/** undefined when it succeeded. */
const errorOf = (promise: Promise<unknown>): Promise<OttlaError | undefined> =>
  promise.then(
    () => undefined,
    (error: OttlaError) => error,
  );

/** Of the topic that was created first under the name, or later. */
const madeId = (cluster: FakeCluster, name: string, at = 0) =>
  cluster.log.flatMap((change) => (change.kind === "create" && change.name === name ? [change.topicId] : []))[at];

/** The first `count` requests of the api meet this fate. */
function first(api: ApiKey, fate: Fate, count = 1): (request: DecodedRequest) => Fate {
  let left = count;
  return ({ header }) => (header.api === api && left-- > 0 ? fate : undefined);
}

const CHANGES: [string, ApiKey, (admin: Admin) => Promise<unknown>][] = [
  ["createTopic", API.CREATE_TOPICS, (admin) => admin.createTopic("t")],
  ["deleteTopic", API.DELETE_TOPICS, (admin) => admin.deleteTopic("old")],
  ["alterTopicConfigs", API.ALTER_CONFIGS, (admin) => admin.alterTopicConfigs("old", { "retention.ms": 5 })],
  ["alterBrokerConfigs", API.ALTER_CONFIGS, (admin) => admin.alterBrokerConfigs("default", { a: null })],
  ["addVoter", API.CHANGE_QUORUM, (admin) => admin.addVoter(4)],
  ["removeVoter", API.CHANGE_QUORUM, (admin) => admin.removeVoter(3)],
  ["electLeaders", API.ELECT_LEADERS, (admin) => admin.electLeaders("preferred")],
  ["unregisterBroker", API.UNREGISTER_BROKER, (admin) => admin.unregisterBroker(9)],
  ["raiseMetadataVersion", API.RAISE_METADATA_VERSION, (admin) => admin.raiseMetadataVersion(2)],
];

describe("a client that knows a broker cut off from the others", () => {
  it.each<[string, (cluster: FakeCluster) => void]>([
    ["knows no controller", (cluster) => (cluster.node(2).hint = -1)],
    ["takes one for it that is none any more", (cluster) => (cluster.node(2).hint = 1)],
    [
      "takes one for it that cannot be reached",
      (cluster) => {
        cluster.node(2).hint = 1;
        void cluster.node(1).kill();
      },
    ],
  ])("which %s: asks the others", async (_what, isolate) => {
    const { cluster, time, admin } = await setUp();
    cluster.controllerId = 3;
    isolate(cluster);
    await time.until(admin.createTopic("t", { partitions: 1 }), 5_000);
    expect(cluster.creationsOf("t")).toBe(1);
  });

  it("a cluster without any controller is described all the same, by the one that knows most", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.create("t");
    cluster.controllerId = -1;
    cluster.node(2).knownEnd = 0;
    cluster.addressAt = (nodeId, end) =>
      end === 0 && nodeId === 3 ? `before-${nodeId}:7070` : cluster.node(nodeId).address;
    const { brokers } = await time.until(admin.describeCluster(), 10_000);
    expect(brokers.map(({ address }) => address)).toEqual(cluster.addresses);
  });
});

describe.each(CHANGES)("%s", (_name, api, act) => {
  async function setUpWithTopic() {
    const made = await setUp();
    made.cluster.create("old");
    return made;
  }

  it("goes to the controller, and to nobody else", async () => {
    const { cluster, time, admin } = await setUpWithTopic();
    cluster.controllerId = 3;
    await time.until(act(admin));
    expect(cluster.nodes.map((node) => node.countOf(api))).toEqual([0, 0, 1]);
  });

  it("follows the controller, known or not, and takes no harm from a wrong hint", async () => {
    const { cluster, time, admin } = await setUpWithTopic();
    await time.until(admin.listTopics());
    cluster.controllerId = 3;
    cluster.node(2).hint = 1;
    cluster.node(1).hint = 2;
    const acting = act(admin);
    await time.pass(1_500);
    cluster.node(1).hint = cluster.node(2).hint = undefined;
    await time.until(acting);
    expect(cluster.node(3).countOf(api)).toBe(1);
  });

  it.each<[string, Fate]>([
    ["BUSY", "BUSY"],
    ["BROKER_NOT_AVAILABLE", "BROKER_NOT_AVAILABLE"],
    ["NOT_CONTROLLER", "NOT_CONTROLLER"],
    ["a try that never arrives", "drop"],
    ["a try whose answer is lost", "lose"],
    ["a try whose connection is cut", "cut"],
    ["a controller that does not know what became of it", "REQUEST_TIMED_OUT"],
  ])("comes through %s", async (_what, fate) => {
    const { cluster, time, admin } = await setUpWithTopic();
    cluster.node(1).onRequest = first(api, fate);
    await time.until(act(admin), 29_000);
    expect(cluster.node(1).countOf(api)).toBe(2);
  });

  it("waits for a controller until the deadline, and says for sure that nothing was changed", async () => {
    const { cluster, time, admin } = await setUpWithTopic();
    cluster.controllerId = -1;
    const startMs = time.nowMs;
    const error = await time.until(errorOf(act(admin)));
    expect(error).toMatchObject({ code: "NOT_CONTROLLER", outcome: undefined });
    expect(error?.hint).toContain("ottla cluster health");
    const tookMs = time.nowMs - startMs;
    expect(tookMs).toBeGreaterThan(25_000);
    expect(tookMs).toBeLessThanOrEqual(api === API.CHANGE_QUORUM ? 60_000 : 30_000);
    // With back-off: a cluster without a controller is not stormed.
    expect(cluster.nodes.reduce((sum, node) => sum + node.countOf(API.METADATA), 0)).toBeLessThan(tookMs / 200);
  });

  it("uses a controller that comes up meanwhile", async () => {
    const { cluster, time, admin } = await setUpWithTopic();
    cluster.controllerId = -1;
    const acting = act(admin);
    await time.pass(5_000);
    cluster.controllerId = 3;
    await time.until(acting, 2_500);
  });

  it("says that the outcome is unknown when no try was answered", async () => {
    const { cluster, time, admin } = await setUpWithTopic();
    for (const node of cluster.nodes) node.onRequest = first(api, "drop", 1_000);
    const error = await time.until(errorOf(act(admin)));
    expect(error).toMatchObject({ code: "REQUEST_TIMED_OUT", outcome: "unknown" });
    expect(error?.message).toContain("may have been carried out");
  });

  it("says so too when the client is closed meanwhile", async () => {
    const { cluster, time, admin, client } = await setUpWithTopic();
    cluster.node(1).onRequest = first(api, "drop", 1_000);
    const acting = errorOf(act(admin));
    await time.pass(100);
    await time.until(client.close());
    expect(await acting).toMatchObject({ code: "CLOSED", outcome: "unknown" });
  });
});

describe("exactly once", () => {
  it("a topic created by a try whose answer was lost is created: the next try is told so", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.node(1).onRequest = first(API.CREATE_TOPICS, "cut");
    const topic = await time.until(admin.createTopic("t"));
    expect(topic.topicId).toBe(cluster.topicsAt(Infinity).get("t"));
    expect(cluster.creationsOf("t")).toBe(1);
    const ids = cluster.node(1).requests.flatMap(({ request }) => ("requestId" in request ? [request.requestId] : []));
    expect(ids).toHaveLength(2);
    expect(new Set(ids).size).toBe(1);
  });

  it("a topic created, and deleted by somebody else before the next try, is not created again", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.node(1).onRequest = first(API.CREATE_TOPICS, "cut");
    const creating = admin.createTopic("t");
    await time.pass(1);
    cluster.remove("t");
    expect(await time.until(creating)).toMatchObject({ name: "t", topicId: madeId(cluster, "t"), partitions: [] });
    expect(cluster.creationsOf("t")).toBe(1);
    expect(cluster.topicsAt(Infinity).has("t")).toBe(false);
  });

  it("nor is one of the same name, made by somebody else before the next try, taken for it", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.node(1).onRequest = first(API.CREATE_TOPICS, "cut");
    const creating = admin.createTopic("t");
    await time.pass(1);
    cluster.remove("t");
    cluster.create("t");
    expect(await time.until(creating)).toMatchObject({ name: "t", topicId: madeId(cluster, "t"), partitions: [] });
  });

  it("each change has an id of its own; none that only validates", async () => {
    const { cluster, time, admin } = await setUp();
    await time.until(admin.createTopic("a"));
    await time.until(admin.createTopic("b"));
    await time.until(admin.deleteTopic("a"));
    await time.until(admin.createTopic("c", { validateOnly: true }));
    const ids = cluster.node(1).requests.flatMap(({ request }) => ("requestId" in request ? [request.requestId] : []));
    expect(new Set(ids).size).toBe(4);
    expect(ids[3]).toBeNull();
  });

  it("a refusal after a try without an answer proves nothing, and says so", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.node(1).onRequest = first(API.CREATE_TOPICS, "drop");
    const creating = errorOf(admin.createTopic("t"));
    await time.pass(1_000);
    cluster.create("t");
    const error = await time.until(creating);
    expect(error).toMatchObject({ code: "TOPIC_ALREADY_EXISTS", outcome: "unknown" });
    expect(error?.message).toMatch(/^t exists .*an earlier try of this call was not answered/);
  });

  it("a row that says the controller does not know what became of it is no proof either", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.node(1).onRequest = first(API.CREATE_TOPICS, { rows: "REQUEST_TIMED_OUT" });
    cluster.forgetsIds = true;
    expect(await time.until(errorOf(admin.createTopic("t")))).toMatchObject({
      code: "TOPIC_ALREADY_EXISTS",
      outcome: "unknown",
    });
    cluster.node(1).onRequest = first(API.CREATE_TOPICS, { rows: "STORAGE_FULL" });
    const refused = errorOf(admin.createTopic("u"));
    expect(await time.until(refused)).toMatchObject({ code: "STORAGE_FULL", outcome: undefined });
  });

  it("a topic made and deleted again by somebody else was made; one of the same name is not taken for it", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.create("t");
    cluster.remove("t");
    for (const node of cluster.nodes) node.knownEnd = 1;
    const creating = admin.createTopic("t");
    cluster.node(1).onRequest = ({ header }) => {
      if (header.api === API.METADATA && cluster.log.length === 3) cluster.remove("t");
      return undefined;
    };
    expect(await time.until(creating, 2_000)).toMatchObject({
      name: "t",
      topicId: madeId(cluster, "t", 1),
      partitions: [],
    });
    const again = admin.createTopic("u");
    cluster.node(1).onRequest = ({ header }) => {
      if (header.api !== API.METADATA || cluster.creationsOf("u") !== 1) return undefined;
      cluster.remove("u");
      cluster.create("u");
      return undefined;
    };
    expect(await time.until(again, 2_000)).toMatchObject({ name: "u", topicId: madeId(cluster, "u"), partitions: [] });
  });

  it("a refusal of the first try is certain", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.create("t");
    expect(await time.until(errorOf(admin.createTopic("t")))).toMatchObject({
      code: "TOPIC_ALREADY_EXISTS",
      outcome: undefined,
      message: "t exists",
    });
    expect(await time.until(errorOf(admin.deleteTopic("nope")))).toMatchObject({
      code: "UNKNOWN_TOPIC_OR_PARTITION",
      outcome: undefined,
    });
    expect(cluster.node(1).countOf(API.DELETE_TOPICS)).toBe(1);
  });

  it("a broker of the release before knows no ids: a try without an answer is the last", async () => {
    const { cluster, time, admin } = await setUp({ count: 1, brokers: [1] });
    cluster.node(1).isOld = true;
    await cluster.node(1).kill();
    await cluster.node(1).listen();
    await time.pass(100);
    cluster.node(1).onRequest = first(API.CREATE_TOPICS, "cut");
    expect(await time.until(errorOf(admin.createTopic("t")))).toMatchObject({
      code: "CONNECTION_LOST",
      outcome: "unknown",
    });
    expect(cluster.node(1).countOf(API.CREATE_TOPICS)).toBe(1);
    cluster.node(1).onRequest = first(API.DELETE_TOPICS, "BUSY", 2);
    await time.until(admin.deleteTopic("t"));
    expect(cluster.node(1).countOf(API.DELETE_TOPICS)).toBe(3);
  });

  it("a topic that was made but cannot be used in time was made: its error says appended", async () => {
    const { cluster, time, admin } = await setUp();
    for (const node of cluster.nodes) node.knownEnd = 0;
    cluster.node(1).onRequest = ({ header, request }) =>
      header.api === API.METADATA && "barrier" in request && request.barrier ? "drop" : undefined;
    const error = await time.until(errorOf(admin.createTopic("t", { timeoutMs: 9_000 })));
    expect(error).toMatchObject({ code: "REQUEST_TIMED_OUT", outcome: "appended" });
  });

  it("a quorum that is as wanted after a lost answer is a success; at the first try it is an error", async () => {
    const { cluster, time, admin } = await setUp();
    expect(await time.until(errorOf(admin.addVoter(3)))).toMatchObject({ code: "DUPLICATE_VOTER", outcome: undefined });
    expect(await time.until(errorOf(admin.removeVoter(9)))).toMatchObject({ code: "VOTER_NOT_FOUND" });
    expect(await time.until(errorOf(admin.raiseMetadataVersion(1)))).toMatchObject({ code: "INVALID_UPDATE_VERSION" });
    cluster.node(1).onRequest = first(API.RAISE_METADATA_VERSION, "cut");
    await time.until(admin.raiseMetadataVersion(2));
    expect(cluster.metadataVersion).toBe(2);
  });
});

describe("a controller that hangs", () => {
  it("is given up for its successor well before the deadline", async () => {
    const { cluster, time, admin } = await setUp({ brokers: [1] });
    await time.until(admin.listTopics());
    cluster.node(1).onRequest = () => "drop";
    const creating = admin.createTopic("t");
    await time.pass(2_000);
    cluster.controllerId = 3;
    await time.until(creating, 1_500);
    expect(cluster.creationsOf("t")).toBe(1);
  });

  it("is asked no more by the next call, where a call had no time to look for another one", async () => {
    const { cluster, time, admin } = await setUp({ brokers: [1, 2] });
    await time.until(admin.listTopics({ linearizable: true }));
    cluster.node(1).onRequest = () => "drop";
    cluster.controllerId = 3;
    const first = await time.until(errorOf(admin.listTopics({ linearizable: true, timeoutMs: 500 })));
    expect(first?.code).toBe("REQUEST_TIMED_OUT");
    expect(await time.until(errorOf(admin.listTopics({ linearizable: true, timeoutMs: 500 })))).toBeUndefined();
  });

  it("dies: its successor is asked as soon as it is known", async () => {
    const { cluster, time, admin } = await setUp({ brokers: [2, 3] });
    await time.until(admin.createTopic("a"));
    await cluster.node(1).kill();
    cluster.controllerId = -1;
    const creating = admin.createTopic("t");
    await time.pass(900);
    cluster.controllerId = 2;
    await time.until(creating, 1_100);
  });
});
