// Producers outlive the batches that told of them (D-15, P-5, KAFKA-7190), on several brokers: after records were deleted, after every node lost its
// power, and from a replica that has never had those batches.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { TopicId } from "../../src/model/ids.ts";
import { toldProducersAt } from "../../src/model/producer-records.ts";
import { API } from "../../src/wire/native/apis.ts";
import { ReplicaWorld } from "./replica-world.ts";
import { batchOf } from "./support.ts";

afterEach(() => activateMutants([]));

const PRODUCER = 77;

const numbered = (baseSequence: number): Uint8Array =>
  batchOf([`r${baseSequence}`, "second"], { producer: { producerId: PRODUCER, producerEpoch: 0, baseSequence } });

class Ground {
  readonly cluster: ReplicaWorld;
  readonly topicId: TopicId;

  constructor(cluster: ReplicaWorld, topicId: TopicId) {
    this.cluster = cluster;
    this.topicId = topicId;
  }

  static async start(config: Record<string, number> = {}): Promise<Ground> {
    const cluster = await new ReplicaWorld({ config }).start();
    const topicId = await cluster.createReplicated("t", { configs: { "segment.bytes": "2KiB" } });
    await cluster.untilIsr("t", [1, 2, 3]);
    return new Ground(cluster, topicId);
  }

  /** To whoever leads, until it says something for good. */
  async send(batch: Uint8Array): Promise<{ error: string; baseOffset: number }> {
    let answer = { error: "none yet", baseOffset: -1 };
    await this.cluster.until("an answer of the leader", async () => {
      const { leader } = await this.cluster.partition("t");
      if (leader < 0 || !this.cluster.node(leader).isUp) return false;
      const client = await this.cluster.client(leader);
      const { error, baseOffset } = await client.produce(this.topicId, batch.slice());
      answer = { error, baseOffset };
      return !["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT"].includes(error);
    });
    return answer;
  }

  async deleteAll(): Promise<number> {
    const { leader } = await this.cluster.partition("t");
    const client = await this.cluster.client(leader);
    const entries = [{ topicId: this.topicId, partition: 0, offset: -1 }];
    const { response, error } = await client.call(API.DELETE_RECORDS, { timeoutMs: 20_000, entries });
    expect([error, response.entries[0]?.error]).toEqual(["NONE", "NONE"]);
    return response.entries[0]?.lowWatermark ?? -1;
  }

  async lead(nodeId: number): Promise<void> {
    const wish = { kind: "preferred", topic: "t", partitions: [0], nodeId, isForced: false } as const;
    await this.cluster.until(`node ${nodeId} leads`, async () => {
      if ((await this.cluster.partition("t")).leader === nodeId) return true;
      const operator = await this.cluster.client(await this.cluster.controller());
      await operator.call(API.ELECT_LEADERS, wish);
      return false;
    });
  }
}

const duplicate = (baseOffset: number) => ({ error: "NONE", baseOffset });

describe("an idempotent producer whose records were deleted", () => {
  test("P-5, 23: goes on, and what it sends again is where it was; also after all nodes lost their power", async () => {
    const ground = await Ground.start();
    for (const sequence of [0, 2, 4]) expect(await ground.send(numbered(sequence))).toEqual(duplicate(sequence));
    expect(await ground.deleteAll()).toBe(6);
    // What was told of it took an offset.
    expect(await ground.send(numbered(2))).toEqual(duplicate(2));
    expect(await ground.send(numbered(6))).toEqual(duplicate(7));
    for (const node of ground.cluster.nodes) node.crash("power loss");
    await ground.cluster.start();
    await ground.cluster.untilIsr("t", [1, 2, 3]);
    expect(await ground.send(numbered(4))).toEqual(duplicate(4));
    expect(await ground.send(numbered(6))).toEqual(duplicate(7));
    expect((await ground.send(numbered(20))).error).toBe("OUT_OF_ORDER_SEQUENCE_NUMBER");
    expect(await ground.send(numbered(8))).toEqual(duplicate(9));
    const [one, ...others] = [1, 2, 3].map((nodeId) => ground.cluster.replica(nodeId, ground.topicId).core);
    for (const other of others)
      await ground.cluster.until("all know the same", () => one?.producers.equals(other.producers) === true);
  });

  /** Node 3 was away while records were written and deleted: its log begins anew where the leader's does (S-32). */
  async function ledByNewcomer(ground: Ground): Promise<void> {
    await ground.lead(1);
    ground.cluster.node(3).crash("process death");
    await ground.cluster.untilIsr("t", [1, 2]);
    for (const sequence of [0, 2, 4]) expect(await ground.send(numbered(sequence))).toEqual(duplicate(sequence));
    await ground.deleteAll();
    await ground.cluster.node(3).start();
    await ground.cluster.untilIsr("t", [1, 2, 3]);
    expect(ground.cluster.replica(3, ground.topicId).log.startOffset).toBe(6);
    await ground.lead(3);
  }

  test("25: is known to a leader whose log never had its batches", async () => {
    const ground = await Ground.start();
    await ledByNewcomer(ground);
    expect(await ground.send(numbered(2))).toEqual(duplicate(2));
    expect(await ground.send(numbered(6))).toEqual(duplicate(7));
  });

  test("M24: the planted bug makes a stranger of it", async () => {
    activateMutants(["M24"]);
    const ground = await Ground.start();
    await ledByNewcomer(ground);
    expect((await ground.send(numbered(6))).error).toBe("UNKNOWN_PRODUCER_ID");
  });

  test("a log that has nothing but what was told of it is left as it is: deleted again, nothing is told again", async () => {
    const ground = await Ground.start();
    expect(await ground.send(numbered(0))).toEqual(duplicate(0));
    expect(await ground.deleteAll()).toBe(2);
    const { leader } = await ground.cluster.partition("t");
    const { core } = ground.cluster.replica(leader, ground.topicId);
    expect(core.endOffset).toBe(3);
    for (let round = 0; round < 3; round++) expect(await ground.deleteAll()).toBe(2);
    expect([core.startOffset, core.endOffset]).toEqual([2, 3]);
    expect(await ground.send(numbered(0))).toEqual(duplicate(0));
    expect(await ground.send(numbered(2))).toEqual(duplicate(3));
    expect(await ground.deleteAll()).toBe(5);
  });

  test("P-8: expires by a record when its time is over, and is refused then", async () => {
    const ground = await Ground.start({ "producer.id.expiration.ms": 60_000 });
    expect(await ground.send(numbered(0))).toEqual(duplicate(0));
    expect(await ground.deleteAll()).toBe(2);
    await ground.cluster.world.runFor(61_000);
    expect(await ground.send(batchOf(["of nobody"]))).toEqual(duplicate(3));
    expect(await ground.deleteAll()).toBe(4);
    expect((await ground.send(numbered(2))).error).toBe("UNKNOWN_PRODUCER_ID");
    const { leader } = await ground.cluster.partition("t");
    const client = await ground.cluster.client(leader);
    const { bytes, error } = await client.fetch(ground.topicId, 4);
    expect(error).toBe("NONE");
    expect(toldProducersAt(bytes, 0)).toEqual({
      kind: "expired",
      producers: [{ producerId: PRODUCER, producerEpoch: 0 }],
    });
    for (const nodeId of [1, 2, 3])
      await ground.cluster.until(`node ${nodeId} has forgotten it`, () => {
        const { producers } = ground.cluster.replica(nodeId, ground.topicId).core;
        return producers.size === 0 && producers.forgottenMaxId === PRODUCER;
      });
  });
});
