// Brokers learn of changes one after another: what the client knows does not go back, and "no such topic" is believed of the controller only.
import { describe, expect, it } from "vitest";
import type { OttlaError } from "../../src/model/errors.ts";
import { API } from "../../src/wire/native/apis.ts";
import { FakeCluster } from "./fake-cluster.ts";
import { createWorld } from "./world.ts";

async function setUp(brokers = [2]) {
  const world = createWorld();
  const cluster = await FakeCluster.start(world);
  const client = await world.connect({ brokers: brokers.map((nodeId) => cluster.node(nodeId).address) });
  return { world, time: world.time, cluster, client, admin: client.admin() };
}

const errorOf = (promise: Promise<unknown>): Promise<OttlaError | undefined> =>
  promise.then(
    () => undefined,
    (error: OttlaError) => error,
  );
const barriers = (cluster: FakeCluster) =>
  cluster.nodes.flatMap(({ requests }) => requests).filter(({ request }) => "barrier" in request && request.barrier)
    .length;

describe("metadata that does not go back", () => {
  it("an older answer is asked of another broker", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.create("t");
    await time.until(admin.describeTopic("t"));
    cluster.node(2).knownEnd = 0;
    const { topicId } = await time.until(admin.describeTopic("t"));
    expect(topicId).toBe(cluster.topicsAt(Infinity).get("t"));
    expect(cluster.node(1).countOf(API.METADATA) + cluster.node(3).countOf(API.METADATA)).toBe(1);
  });

  it("an older answer does not replace what is known when nobody knows more", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.create("t");
    cluster.remove("t");
    const second = cluster.create("t");
    await time.until(admin.describeTopic("t"));
    for (const node of cluster.nodes) node.knownEnd = 1;
    expect((await time.until(admin.describeTopic("t"), 2_000)).topicId).toBe(second);
  });

  it("what was seen to be gone stays gone", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.create("t");
    await time.until(admin.describeTopic("t"));
    await time.until(admin.deleteTopic("t", { wait: true }));
    for (const node of cluster.nodes) node.knownEnd = 1;
    expect(await time.until(errorOf(admin.describeTopic("t")))).toMatchObject({ code: "UNKNOWN_TOPIC_OR_PARTITION" });
  });

  it("of what was gone and may have been made anew the controller is asked where all others know less than that", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.create("t");
    await time.until(admin.describeTopic("t"));
    await time.until(admin.deleteTopic("t", { wait: true }));
    const second = cluster.create("t");
    for (const node of cluster.nodes) node.knownEnd = 1;
    expect((await time.until(admin.describeTopic("t"), 5_000)).topicId).toBe(second);
  });

  it("of topics never heard of even an old answer is something", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.create("a");
    cluster.create("b");
    await time.until(admin.describeTopic("b"));
    for (const node of cluster.nodes) node.knownEnd = 1;
    expect((await time.until(admin.describeTopic("a"), 2_000)).name).toBe("a");
  });

  it("the address of a broker that has moved does not go back either", async () => {
    const { cluster, time, admin } = await setUp([1]);
    cluster.create("t");
    cluster.addressAt = (nodeId, end) =>
      nodeId === 3 && end < 1 ? "node-3-before:7070" : cluster.node(nodeId).address;
    await time.until(admin.listTopics());
    cluster.node(1).knownEnd = cluster.node(2).knownEnd = 0;
    await time.until(admin.describeCluster());
    expect((await time.until(admin.describeMetadata({ from: 3 }), 3_000)).metadataEnd).toBe(1);
  });

  it("another cluster under the same addresses is taken as it is", async () => {
    const { cluster, time, admin } = await setUp();
    for (let count = 0; count < 5; count++) cluster.create(`t${count}`);
    await time.until(admin.describeTopic("t4"));
    cluster.log.length = 0;
    (cluster as { clusterId: string }).clusterId = `D${cluster.clusterId.slice(1)}`;
    const fresh = cluster.create("t4");
    expect((await time.until(admin.describeTopic("t4"))).topicId).toBe(fresh);
  });

  it("after a change of configuration, brokers that lag behind it come last", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.create("t");
    cluster.node(1).knownEnd = cluster.node(2).knownEnd = 1;
    await time.until(admin.alterTopicConfigs("t", { "segment.bytes": 1 }));
    await time.until(admin.describeTopic("t"));
    expect(cluster.node(3).countOf(API.METADATA)).toBe(1);
  });
});

describe("a topic that a broker does not know yet", () => {
  it("right after its creation by somebody else is found at the controller", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.create("t");
    cluster.node(2).knownEnd = 0;
    expect((await time.until(admin.describeTopic("t"), 1_000)).name).toBe("t");
  });

  it("one that does not exist is refused at once, with one question more", async () => {
    const { cluster, time, admin, client } = await setUp();
    const startMs = time.nowMs;
    expect(await time.until(errorOf(admin.describeTopic("nope")))).toMatchObject({
      code: "UNKNOWN_TOPIC_OR_PARTITION",
    });
    expect(await time.until(errorOf(client.producer().send("nope", { value: "x" })))).toMatchObject({
      code: "UNKNOWN_TOPIC_OR_PARTITION",
      outcome: "not appended",
    });
    const consumer = client.consumer({ topics: ["nope"] });
    expect(await time.until(errorOf(consumer[Symbol.asyncIterator]().next()))).toMatchObject({
      code: "UNKNOWN_TOPIC_OR_PARTITION",
    });
    expect(time.nowMs - startMs).toBeLessThan(1_000);
    expect(barriers(cluster)).toBe(3);
  });

  it("without a controller nobody can say so: a send waits until its own deadline, and is sent if one comes up", async () => {
    const { cluster, time, client } = await setUp();
    cluster.create("t");
    cluster.controllerId = -1;
    for (const node of cluster.nodes) node.knownEnd = 0;
    const startMs = time.nowMs;
    const producer = client.producer({ deliveryTimeoutMs: 20_000 });
    expect(await time.until(errorOf(producer.send("t", { value: "x" })))).toMatchObject({
      code: "DELIVERY_TIMED_OUT",
      outcome: "not appended",
    });
    expect(time.nowMs - startMs).toBe(20_000);
    const preparing = client.producer().prepare("t");
    const failed = await time.until(errorOf(preparing));
    expect(failed).toMatchObject({ code: "UNKNOWN_TOPIC_OR_PARTITION" });
    expect(failed?.message).toContain("no controller could confirm it");
  });

  it("a consumer waits for it likewise", async () => {
    const { cluster, time, client } = await setUp();
    cluster.create("t");
    cluster.controllerId = -1;
    for (const node of cluster.nodes) node.knownEnd = 0;
    let ended: OttlaError | undefined;
    client
      .consumer({ topics: ["t"] })
      [Symbol.asyncIterator]()
      .next()
      .catch((error: OttlaError) => {
        ended = error;
      });
    await time.pass(12_000);
    expect(ended).toBeUndefined();
    for (const node of cluster.nodes) node.knownEnd = undefined;
    await time.pass(8_000);
    // Found: now it looks for offsets, which these brokers do not have.
    expect(cluster.node(1).countOf(API.LIST_OFFSETS)).toBeGreaterThan(0);
  });

  it("a broker of the release before is believed", async () => {
    const world = createWorld();
    const cluster = await FakeCluster.start(world, 1);
    cluster.node(1).isOld = true;
    const client = await world.connect({ brokers: cluster.addresses });
    const error = await world.time.until(errorOf(client.admin().describeTopic("nope")));
    expect(error).toMatchObject({ code: "UNKNOWN_TOPIC_OR_PARTITION", message: "nope: no such topic" });
    expect(await world.time.until(client.admin().listTopics())).toEqual([]);
    const described = await world.time.until(client.admin().describeCluster());
    expect(described).toMatchObject({ controllerId: 1, quorum: null, metadataVersion: 0 });
    const strict = errorOf(client.admin().describeTopic("nope", { linearizable: true }));
    expect(await world.time.until(strict)).toMatchObject({ code: "UNSUPPORTED_VERSION" });
  });
});

describe("linearizable reads", () => {
  it("are answered by the controller, with what it knows now", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.controllerId = 3;
    for (const node of cluster.nodes) node.knownEnd = 0;
    cluster.create("t");
    expect((await time.until(admin.listTopics())).length).toBe(0);
    expect((await time.until(admin.listTopics({ linearizable: true }))).map(({ name }) => name)).toEqual(["t"]);
    expect((await time.until(admin.describeTopic("t", { linearizable: true }))).name).toBe("t");
    const missing = admin.describeTopic("nope", { linearizable: true });
    expect(await time.until(errorOf(missing))).toMatchObject({ message: "nope: no such topic" });
  });

  it("show one state, however many pages it takes", async () => {
    const { cluster, time, admin } = await setUp();
    for (const name of ["a", "b", "c", "d", "e"]) cluster.create(name);
    let changesLeft = 3;
    // Between two pages "a" goes and "z" comes: a list that mixes both states would have neither or both.
    cluster.onPage = () => {
      if (changesLeft-- <= 0) return;
      cluster.remove(changesLeft % 2 === 0 ? "a" : "z");
      cluster.create(changesLeft % 2 === 0 ? "z" : "a");
    };
    const names = (await time.until(admin.listTopics({ linearizable: true }))).map(({ name }) => name);
    expect(names.filter((name) => name === "a" || name === "z")).toHaveLength(1);
    expect(names).toHaveLength(5);
    changesLeft = Infinity;
    const endless = errorOf(admin.listTopics({ linearizable: true, timeoutMs: 3_000 }));
    expect(await time.until(endless)).toMatchObject({ code: "REQUEST_TIMED_OUT", outcome: undefined });
  });

  it("without a controller fail with the reason", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.controllerId = -1;
    const { onRequest } = cluster.node(1);
    cluster.controllerId = 1;
    cluster.node(1).onRequest = ({ request }) => ("barrier" in request && request.barrier ? "drop" : undefined);
    const hanging = errorOf(admin.listTopics({ linearizable: true, timeoutMs: 2_000 }));
    expect(await time.until(hanging)).toMatchObject({ code: "REQUEST_TIMED_OUT", outcome: undefined });
    cluster.node(1).onRequest = onRequest;
    cluster.controllerId = -1;
    const reading = errorOf(admin.describeTopic("t", { linearizable: true, timeoutMs: 2_000 }));
    expect(await time.until(reading, 2_001)).toMatchObject({ code: "NOT_CONTROLLER", outcome: undefined });
    expect(await time.until(errorOf(admin.listTopics()))).toBeUndefined();
  });
});

describe("the view of one broker", () => {
  it("is that of this broker, however old, and of no other", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.create("a");
    cluster.create("b");
    await time.until(admin.listTopics());
    cluster.node(3).knownEnd = 1;
    const old = await time.until(admin.describeMetadata({ topics: ["a", "b"], from: 3 }));
    expect(old).toMatchObject({ metadataEnd: 1, controllerId: 1, topics: [{ name: "a" }] });
    expect(old.topics).toHaveLength(1);
    const now = await time.until(admin.describeMetadata());
    expect(now).toMatchObject({ metadataEnd: 2, topics: [{ name: "a" }, { name: "b" }] });
    expect((await time.until(admin.describeTopic("b"))).name).toBe("b");
    await cluster.node(3).kill();
    const failing = errorOf(admin.describeMetadata({ from: 3 }));
    expect((await time.until(failing, 3_000))?.code).toMatch(/^CONNECTION_/);
    expect(await time.until(errorOf(admin.describeMetadata({ from: 8 })))).toMatchObject({
      code: "BROKER_ID_NOT_REGISTERED",
    });
    await expect(admin.describeMetadata({ from: "x" as never })).rejects.toMatchObject({
      message: 'describeMetadata: from takes a node id or "controller", not "x"',
    });
  });
});

describe("several brokers to ask", () => {
  it("one that hangs is passed over", async () => {
    const { cluster, time, admin } = await setUp([1, 2, 3]);
    await time.until(admin.listTopics());
    const asked = cluster.nodes.find((node) => node.countOf(API.METADATA) > 0);
    if (asked !== undefined) asked.onRequest = () => "drop";
    await time.until(admin.listTopics(), 5_000);
  });

  it("one that is starting is passed over at once", async () => {
    const { cluster, time, admin } = await setUp([1, 2, 3]);
    await time.until(admin.listTopics());
    const asked = cluster.nodes.find((node) => node.countOf(API.METADATA) > 0);
    if (asked !== undefined) asked.onRequest = () => "BROKER_NOT_AVAILABLE";
    await time.until(admin.listTopics(), 100);
  });

  it("addresses that never answer do not hold up the others", async () => {
    const took: number[] = [];
    for (let seed = 1; seed <= 8; seed++) {
      const world = createWorld(seed);
      const cluster = await FakeCluster.start(world, 1);
      const holes = ["hole:1", "hole:2"];
      for (const hole of holes) world.network.blackHoles.add(hole);
      const startMs = world.time.nowMs;
      await world.connect({ brokers: [...holes, ...cluster.addresses] });
      took.push(world.time.nowMs - startMs);
    }
    expect(Math.max(...took)).toBe(600);
    expect(Math.min(...took)).toBe(0);
  });

  it("brokers are found through any one of them, and outlive it", async () => {
    const { cluster, time, admin } = await setUp([2]);
    await time.until(admin.listTopics());
    await cluster.node(2).kill();
    expect((await time.until(admin.describeCluster(), 2_000)).brokers).toHaveLength(3);
  });
});

describe("the cluster and its quorum", () => {
  it("are described as the leader sees them", async () => {
    const { time, admin } = await setUp();
    const described = await time.until(admin.describeCluster());
    expect(described.brokers).toEqual([
      { nodeId: 1, address: "node-1:7070", isFenced: false, role: "controller" },
      { nodeId: 2, address: "node-2:7070", isFenced: false, role: "voter" },
      { nodeId: 3, address: "node-3:7070", isFenced: false, role: "voter" },
    ]);
    expect(described).toMatchObject({
      controllerId: 1,
      metadataVersion: 1,
      quorum: { nodeId: 1, leaderId: 1, term: 4 },
    });
    expect(described.quorum?.voters[2]).toEqual({
      nodeId: 3,
      directoryId: "d3",
      isLearner: false,
      endOffset: 98,
      lagEntries: 2,
      lagMs: 20,
      isRefused: false,
    });
    expect(described.quorum?.supportedVersions).toEqual({ min: 1, max: 2 });
  });

  it("are described by whoever is left when the leader is gone", async () => {
    const { cluster, time, admin } = await setUp();
    await cluster.node(1).kill();
    const quorum = await time.until(admin.describeQuorum(), 3_000);
    expect(quorum).toMatchObject({ nodeId: 2, leaderId: 1, role: "follower" });
    expect(quorum.voters[0]).toMatchObject({ endOffset: -1, lagEntries: -1, lagMs: -1 });
    cluster.controllerId = -1;
    expect(await time.until(admin.describeQuorum())).toMatchObject({
      leaderId: -1,
      waitingFor: "a quorum: 1 of 3 voters reachable",
    });
  });

  it("are described by the leader also when the broker asked first knows none", async () => {
    const { cluster, time, admin } = await setUp();
    cluster.node(2).hint = -1;
    expect(await time.until(admin.describeQuorum())).toMatchObject({ nodeId: 1, leaderId: 1, role: "controller" });
    await cluster.node(1).kill();
    expect(await time.until(admin.describeQuorum())).toMatchObject({ nodeId: 3, leaderId: 1 });
  });

  it("a broker's configuration is asked of that broker, a topic's of anyone, strictly of the controller", async () => {
    const { cluster, time, admin } = await setUp();
    const answeredBy = async (reading: ReturnType<typeof admin.describeConfigs>) =>
      (await time.until(reading))[0]?.value;
    expect(await answeredBy(admin.describeConfigs({ broker: 3 }))).toBe("3");
    expect(await answeredBy(admin.describeConfigs({ topic: "t" }))).toBe("2");
    cluster.controllerId = 3;
    expect(await answeredBy(admin.describeConfigs({ topic: "t" }, { linearizable: true }))).toBe("3");
    expect(await time.until(errorOf(admin.describeConfigs({ broker: 9 })))).toMatchObject({
      code: "BROKER_ID_NOT_REGISTERED",
    });
  });
});
