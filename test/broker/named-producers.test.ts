// Named producers: whoever takes a name over is told so once nothing of its predecessor can be appended anywhere any more (invariant 24).
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { TopicId } from "../../src/model/ids.ts";
import { API, type InitProducerIdResponse } from "../../src/wire/native/apis.ts";
import { ClusterWorld } from "./cluster-world.ts";
import { type Answer, batchOf } from "./support.ts";

const NAMED = 2 ** 40;
const NOBODY: InitProducerIdResponse = { producerId: -1, producerEpoch: -1 };

afterEach(() => activateMutants([]));

/** A topic with a partition of one replica on each node: whoever leads can commit alone, whatever the others think of it. */
async function started(config: Readonly<Record<string, unknown>> = {}, seed?: number) {
  const world = new ClusterWorld({
    config: { "default.replication.factor": 1, ...config },
    ...(seed === undefined ? {} : { seed }),
  });
  const cluster = await world.start();
  const topicId = await cluster.createTopic("t", 3);
  await cluster.until("every node leads", () =>
    cluster.nodes.every(({ metrics }) => metrics.values.get("leader_partitions") === 1),
  );
  return { cluster, topicId };
}

type Init = Answer<typeof API.INIT_PRODUCER_ID>;

async function ask(
  cluster: ClusterWorld,
  name: string,
  present = NOBODY,
  { deadlineMs = 20_000, except = -1 } = {},
): Promise<Promise<Init>[]> {
  const client = await cluster.client(await cluster.controller(except));
  return [client.send(API.INIT_PRODUCER_ID, { name, ...present }, { deadlineMs })];
}

async function init(cluster: ClusterWorld, name: string, present = NOBODY): Promise<InitProducerIdResponse> {
  const [asked] = await ask(cluster, name, present);
  const { error, message, response } = await cluster.world.settle(asked as Promise<Init>);
  if (error !== "NONE") throw new Error(`${error}: ${message}`);
  return response;
}

/** Straight to a node, about the partition that it leads or led. */
async function produceAt(
  cluster: ClusterWorld,
  where: { readonly nodeId: number; readonly topicId: TopicId; readonly partition: number },
  producer: InitProducerIdResponse,
  baseSequence = 0,
): Promise<string> {
  const client = await cluster.client(where.nodeId);
  const batch = batchOf(["x"], { producer: { ...producer, baseSequence } });
  const { error } = await client.produce(where.topicId, batch, { partition: where.partition });
  return error;
}

async function placesOf(cluster: ClusterWorld, topicId: TopicId) {
  let leaders: readonly number[] = [];
  await cluster.until("leaders", async () => {
    leaders = await cluster.leaders(await cluster.controller(), "t");
    return leaders.every((leader) => leader >= 0);
  });
  return leaders.map((nodeId, partition) => ({ nodeId, topicId, partition }));
}

describe("a name that is taken over", () => {
  test("keeps its id in a higher epoch; nobody takes anything of the one before, from the answer on", async () => {
    const { cluster, topicId } = await started();
    const first = await init(cluster, "billing");
    expect(first).toEqual({ producerId: NAMED, producerEpoch: 0 });
    const places = await placesOf(cluster, topicId);
    for (const place of places) expect(await produceAt(cluster, place, first)).toBe("NONE");
    const askedMs = cluster.world.nowMs;
    const second = await init(cluster, "billing");
    expect(cluster.world.nowMs - askedMs, "it does not wait for the next heartbeats").toBeLessThan(200);
    expect(second).toEqual({ producerId: NAMED, producerEpoch: 1 });
    for (const place of places) {
      expect(await produceAt(cluster, place, first, 1)).toBe("PRODUCER_FENCED");
      expect(await produceAt(cluster, place, first, 0), "a duplicate, too").toBe("PRODUCER_FENCED");
      expect(await produceAt(cluster, place, second)).toBe("NONE");
    }
  });

  test("another node than the controller does not answer", async () => {
    const { cluster } = await started();
    const client = await cluster.client(await cluster.follower());
    const answer = await client.call(API.INIT_PRODUCER_ID, { name: "billing", ...NOBODY });
    expect(answer.error).toBe("NOT_CONTROLLER");
  });

  test("survives a start of all nodes; who was fenced stays fenced", async () => {
    const { cluster, topicId } = await started();
    const first = await init(cluster, "billing");
    const second = await init(cluster, "billing");
    for (const node of cluster.nodes) node.crash("power loss");
    await cluster.start();
    const [place = { nodeId: 1, topicId, partition: 0 }] = await placesOf(cluster, topicId);
    expect(await produceAt(cluster, place, first)).toBe("PRODUCER_FENCED");
    // Its leader has to hear first that it is not fenced any more.
    let answer = "";
    await cluster.until("it is taken", async () => (answer = await produceAt(cluster, place, second)) !== "BUSY", 600);
    expect(answer).toBe("NONE");
    expect(await init(cluster, "billing", first).catch((thrown: Error) => thrown.message)).toContain("PRODUCER_FENCED");
    expect(await init(cluster, "billing", second)).toEqual({ producerId: NAMED, producerEpoch: 2 });
  });

  test("an epoch that a broker has not heard of is put off", async () => {
    const { cluster, topicId } = await started();
    const { producerId } = await init(cluster, "billing");
    const [place = { nodeId: 1, topicId, partition: 0 }] = await placesOf(cluster, topicId);
    expect(await produceAt(cluster, place, { producerId, producerEpoch: 1 })).toBe("BUSY");
    expect(await produceAt(cluster, place, { producerId: producerId + 1, producerEpoch: 0 })).toBe("BUSY");
  });
});

/** A leader that is cut off while its name is taken over: what it says to the predecessor before and after the successor has its answer. */
async function takenOverWhileCutOff(
  ...bugs: string[]
): Promise<{ readonly waitedMs: number; readonly answers: readonly string[] }> {
  const { cluster, topicId } = await started();
  return cutOff({ cluster, topicId, nodeId: await cluster.follower() }, bugs);
}

/** As above: the controller itself, which goes on telling itself that it is not fenced until it notices. */
async function takenOverFromController(
  seed: number,
  ...bugs: string[]
): Promise<{ readonly waitedMs: number; readonly answers: readonly string[] }> {
  const { cluster, topicId } = await started({ "broker.session.timeout.ms": 1_000 }, seed);
  return cutOff({ cluster, topicId, nodeId: await cluster.controller() }, bugs);
}

async function cutOff(
  { cluster, topicId, nodeId }: { cluster: ClusterWorld; topicId: TopicId; nodeId: number },
  bugs: readonly string[],
) {
  const first = await init(cluster, "billing");
  const place = { nodeId, topicId, partition: await cluster.partitionOf(nodeId, "t") };
  const client = await cluster.client(nodeId);
  activateMutants(bugs);
  cluster.isolate(nodeId);
  const askedMs = cluster.world.nowMs;
  let answeredMs = -1;
  const [takeover] = await ask(cluster, "billing", NOBODY, { except: nodeId });
  void takeover?.then(() => {
    answeredMs = cluster.world.nowMs;
  });
  const answers: string[] = [];
  for (let baseSequence = 0; answeredMs < 0 || cluster.world.nowMs < answeredMs + 2_000; ) {
    const isAfter = answeredMs >= 0;
    const batch = batchOf(["x"], { producer: { ...first, baseSequence } });
    const { error } = await client.produce(topicId, batch, { partition: place.partition });
    if (error === "NONE") baseSequence++;
    answers.push(`${error} ${isAfter ? "after" : "before"}`);
    await cluster.world.runFor(50);
  }
  return { waitedMs: answeredMs - askedMs, answers: [...new Set(answers)] };
}

describe("a leader that is cut off while a name is taken over", () => {
  test("is waited for until it is fenced, and takes nothing of the predecessor by then", async () => {
    const { waitedMs, answers } = await takenOverWhileCutOff();
    expect(waitedMs).toBeGreaterThan(1_000);
    expect(waitedMs).toBeLessThan(4_500);
    expect(answers).toEqual(["NONE before", "BUSY before", "BUSY after"]);
  });

  test.each(["I24w", "I24h"])("the test finds the bug %s", async (bug) => {
    const { answers } = await takenOverWhileCutOff(bug);
    expect(answers).toContain("NONE after");
  });

  test("also when it was the controller, and has not noticed that it is none any more", async () => {
    for (let seed = 1; seed <= 8; seed++) {
      const { answers } = await takenOverFromController(seed);
      expect([seed, answers]).not.toEqual([seed, expect.arrayContaining(["NONE after"])]);
      expect(answers).toContain("BUSY after");
    }
  });

  test("the test finds the bug I24d: a controller speaks of sessions without knowing that it is one still", async () => {
    const all: string[] = [];
    for (let seed = 1; seed <= 8; seed++) all.push(...(await takenOverFromController(seed, "I24d")).answers);
    expect(all).toContain("NONE after");
  });

  test("that stood still wakes up with what its clients sent meanwhile, and takes nothing of it", async () => {
    const { cluster, topicId } = await started();
    const first = await init(cluster, "billing");
    const nodeId = await cluster.follower();
    const place = { nodeId, topicId, partition: await cluster.partitionOf(nodeId, "t") };
    expect(await produceAt(cluster, place, first, 0)).toBe("NONE");
    cluster.pause(nodeId);
    const client = await cluster.client(nodeId);
    const batch = batchOf(["late"], { producer: { ...first, baseSequence: 1 } });
    const late = client.sendProduce(topicId, batch, { partition: place.partition, timeoutMs: 30_000 });
    expect((await init(cluster, "billing")).producerEpoch).toBe(1);
    cluster.resume(nodeId);
    const { response } = await cluster.world.settle(late);
    expect(response.entries[0]?.error).not.toBe("NONE");
    await cluster.until("it is back", async () => !(await cluster.fenced(await cluster.controller())).includes(nodeId));
    expect(await produceAt(cluster, place, first, 1)).toBe("PRODUCER_FENCED");
  });
});

test("a controller that dies before it answers: asked again, the next one gives the same", async () => {
  const { cluster } = await started();
  const first = await init(cluster, "billing");
  const held = await init(cluster, "billing", first);
  const old = await cluster.controller();
  cluster.node(old).crash("process death");
  await cluster.controller(old);
  expect(await init(cluster, "billing", first)).toEqual(held);
  expect(await init(cluster, "billing", held)).toEqual({ producerId: NAMED, producerEpoch: 2 });
});

test("P-17: ids of all brokers, before and after a start, are different ones; a block is asked for before the last is used up", async () => {
  const { cluster } = await started();
  const seen = new Set<number>();
  const draw = async (count: number): Promise<void> => {
    for (const node of cluster.nodes) {
      const client = await cluster.client(node.config["node.id"]);
      const asked = Array.from({ length: count }, () => client.send(API.INIT_PRODUCER_ID, { name: null, ...NOBODY }));
      for (const answer of await cluster.world.settle(Promise.all(asked))) {
        expect(answer.error).toBe("NONE");
        expect(seen.has(answer.response.producerId)).toBe(false);
        seen.add(answer.response.producerId);
      }
    }
  };
  await draw(700);
  for (const node of cluster.nodes) node.crash("power loss");
  await cluster.start();
  await draw(1_300);
  expect(seen.size).toBe(6_000);
  expect(Math.max(...seen)).toBeLessThan(12_000);
});

test("without a controller ids are handed out while there are any; then the request waits, and is told why", async () => {
  const { cluster } = await started();
  const [node = cluster.node(1)] = cluster.nodes;
  const client = await cluster.client(1);
  const ask = () => client.send(API.INIT_PRODUCER_ID, { name: null, ...NOBODY }, { deadlineMs: 2_000 });
  expect((await cluster.world.settle(ask())).error).toBe("NONE");
  for (const other of cluster.nodes) if (other !== node) other.crash("process death");
  await cluster.world.runFor(2_000);
  const answers = await cluster.world.settle(Promise.all(Array.from({ length: 1_001 }, ask)));
  expect(answers.filter(({ error }) => error === "NONE")).toHaveLength(999);
  const { error, message } = answers.at(-1) ?? { error: undefined, message: "" };
  expect(error).toBe("REQUEST_TIMED_OUT");
  expect(message).toContain("it waited for producer ids: ");
});
