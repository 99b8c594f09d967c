// A numbered batch that is sent again: whoever leads, and whatever happened since, answers with the offset of the first (issue 5, item 1; P-2, P-9).
import { beforeEach, describe, expect, it } from "vitest";
import { type TopicId } from "../../src/model/ids.ts";
import { API } from "../../src/wire/native/apis.ts";
import { ClusterWorld } from "./cluster-world.ts";
import { batchOf } from "./support.ts";

const SEGMENT = { "segment.bytes": "4KiB", "max.message.bytes": "2KiB" };

let cluster: ClusterWorld;
let topicId: TopicId;
let producerId: number;

async function initProducer(nodeId: number): Promise<number> {
  const client = await cluster.client(nodeId);
  const { error, message, response } = await client.call(API.INIT_PRODUCER_ID, {
    name: null,
    producerId: -1,
    producerEpoch: -1,
  });
  if (error !== "NONE") throw new Error(`${error}: ${message}`);
  expect(response.producerEpoch).toBe(0);
  return response.producerId;
}

const numbered = (values: readonly string[], baseSequence: number, producerEpoch = 0): Uint8Array =>
  batchOf(values, { producer: { producerId, producerEpoch, baseSequence } });

async function leader(): Promise<number> {
  let found = -1;
  await cluster.until("a leader", async () => {
    const up = cluster.nodes.find(({ isUp }) => isUp)?.config["node.id"] ?? 0;
    [found = -1] = await cluster.leaders(up, "t");
    return found > 0 && cluster.node(found).isUp;
  });
  return found;
}

/** To whoever leads, until it says something for good. */
async function produce(batch: Uint8Array): Promise<{ error: string; baseOffset: number }> {
  let answer = { error: "none yet", baseOffset: -1 };
  await cluster.until("an answer of the leader", async () => {
    const client = await cluster.client(await leader());
    const { error, baseOffset } = await client.produce(topicId, batch.slice());
    answer = { error, baseOffset };
    return !["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT"].includes(error);
  });
  return answer;
}

const endOffset = async (): Promise<number> => {
  const client = await cluster.client(await leader());
  const entry = { topicId, partition: 0, timestamp: -1 };
  const { response } = await client.call(API.LIST_OFFSETS, { entries: [entry] });
  return response.entries[0]?.offset ?? -1;
};

beforeEach(async () => {
  cluster = await new ClusterWorld({ config: { "default.replication.factor": 3, ...SEGMENT } }).start();
  topicId = await cluster.createTopic("t");
  producerId = await initProducer(await cluster.follower());
});

describe("P-2: a batch that is sent again", () => {
  it("is answered with its offset, and is not in the log twice", async () => {
    await produce(batchOf(["before"]));
    expect(await produce(numbered(["a", "b"], 0))).toEqual({ error: "NONE", baseOffset: 1 });
    expect(await produce(numbered(["c"], 2))).toEqual({ error: "NONE", baseOffset: 3 });
    expect(await produce(numbered(["a", "b"], 0))).toEqual({ error: "NONE", baseOffset: 1 });
    expect(await endOffset()).toBe(4);
    const { values } = cluster.node(await leader()).metrics;
    expect(values.get("duplicate_batches_total")).toBe(1);
    expect(values.get("topic_records_in_total")).toBe(4);
    await cluster.world.runFor(600);
    expect(values.get("idempotent_producers")).toBe(1);
  });

  it("what is refused for its numbers says what is next", async () => {
    await produce(numbered(["a", "b"], 0));
    const client = await cluster.client(await leader());
    const told = async (batch: Uint8Array) => (await client.produce(topicId, batch)).message;
    expect(await told(numbered(["c"], 5))).toBe(`sequence 5 of producer ${producerId}; 2 is next`);
    expect(await told(numbered(["a", "x"], 0))).toBe(`sequence 0 of producer ${producerId}; 2 is next`);
    expect(await told(numbered(["c"], 1, 1))).toBe(
      `sequence 1 of producer ${producerId} in epoch 1, where epoch 0 is known; 0 is next`,
    );
    producerId += 500;
    expect(await told(numbered(["c"], 5))).toBe(`sequence 5 of producer ${producerId}, of which nothing is known`);
  });

  it("and other records under its numbers are refused, by the next leader and after a start of all, too", async () => {
    await produce(numbered(["a", "b"], 0));
    const other = { error: "SEQUENCE_NUMBER_TAKEN", baseOffset: -1 };
    expect(await produce(numbered(["a", "B"], 0))).toEqual(other);
    cluster.node(await leader()).crash("process death");
    expect(await produce(numbered(["a", "B"], 0))).toEqual(other);
    for (const node of cluster.nodes) if (node.isUp) node.crash("power loss");
    await cluster.start();
    expect(await produce(numbered(["a", "B"], 0))).toEqual(other);
    expect(await produce(numbered(["a", "b"], 0))).toEqual({ error: "NONE", baseOffset: 0 });
    expect(await produce(numbered(["c"], 2))).toEqual({ error: "NONE", baseOffset: 2 });
    expect(await endOffset()).toBe(3);
  });

  it("is answered so by the new leader when the old one was killed", async () => {
    for (const [index, value] of ["a", "b", "c", "d", "e"].entries()) await produce(numbered([value], index));
    const old = await leader();
    cluster.node(old).crash("process death");
    for (const [index, value] of ["a", "b", "c", "d", "e"].entries())
      expect(await produce(numbered([value], index))).toEqual({ error: "NONE", baseOffset: index });
    expect(await leader()).not.toBe(old);
    expect(await produce(numbered(["f"], 5))).toEqual({ error: "NONE", baseOffset: 5 });
    expect(await endOffset()).toBe(6);
  });

  it.each(["process death", "power loss", "stop"] as const)(
    "is answered so after a %s and a start of all nodes",
    async (how) => {
      for (const [index, value] of ["a", "b", "c", "d", "e", "f"].entries()) await produce(numbered([value], index));
      await cluster.world.runFor(100);
      for (const node of cluster.nodes) {
        if (how === "stop") await node.stop();
        else node.crash(how);
      }
      await cluster.start();
      for (const [index, value] of ["b", "c", "d", "e", "f"].entries())
        expect(await produce(numbered([value], index + 1))).toEqual({ error: "NONE", baseOffset: index + 1 });
      expect((await produce(numbered(["a"], 0))).error).toBe("OUT_OF_ORDER_SEQUENCE_NUMBER");
      expect(await endOffset()).toBe(6);
    },
  );

  it("is answered so when its segment was rolled since, also after a start", async () => {
    await produce(numbered(["a"], 0));
    for (let sent = 0; sent < 20; sent++) await produce(batchOf(["pad"], { padBytes: 1_500 }));
    expect(await produce(numbered(["a"], 0))).toEqual({ error: "NONE", baseOffset: 0 });
    for (const node of cluster.nodes) node.crash("process death");
    await cluster.start();
    expect(await produce(numbered(["a"], 0))).toEqual({ error: "NONE", baseOffset: 0 });
    expect(await endOffset()).toBe(21);
  });

  it("P-3: what does not follow is refused and not appended", async () => {
    await produce(numbered(["a"], 0));
    expect((await produce(numbered(["c"], 2))).error).toBe("OUT_OF_ORDER_SEQUENCE_NUMBER");
    expect(await produce(numbered(["new"], 0, 1))).toEqual({ error: "NONE", baseOffset: 1 });
    expect((await produce(numbered(["b"], 1))).error).toBe("INVALID_PRODUCER_EPOCH");
    expect(await endOffset()).toBe(2);
    expect(cluster.node(await leader()).metrics.values.get("out_of_order_batches_total")).toBe(1);
  });

  it("D-28: a producer id with less than acks=all is refused", async () => {
    const client = await cluster.client(await leader());
    const answer = await client.produce(topicId, numbered(["a"], 0), { acks: 1 });
    expect(answer).toMatchObject({ error: "INVALID_REQUIRED_ACKS", outcome: "not appended" });
    expect(await endOffset()).toBe(0);
  });
});
