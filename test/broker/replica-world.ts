// Several brokers in one simulated world, with partitions that have several replicas, and a look at each of these from within.
import type { TopicId } from "../../src/model/ids.ts";
import type { Replica } from "../../src/broker/replica.ts";
import type { ReplicaProbe } from "../../src/broker/replica-probe.ts";
import { API, type PartitionMetadata } from "../../src/wire/native/apis.ts";
import { type ClusterSettings, ClusterWorld } from "./cluster-world.ts";

export class ReplicaWorld extends ClusterWorld {
  /** By node, topic and partition: of the process that runs there now. */
  readonly #replicas = new Map<string, Replica>();

  constructor(settings: ClusterSettings = {}) {
    super(settings);
    for (const node of this.nodes) node.replicaProbe = this.#probeOf(node.config["node.id"]);
  }

  #probeOf(nodeId: number): ReplicaProbe {
    const keyOf = ({ log }: Replica) => `${nodeId} ${log.topicId} ${log.partition}`;
    return {
      onOpened: (replica) => void this.#replicas.set(keyOf(replica), replica),
      onDamaged: () => undefined,
      onStepped: () => undefined,
      onAppended: () => undefined,
      onClosed: (replica) => void this.#replicas.delete(keyOf(replica)),
    };
  }

  replica(nodeId: number, topicId: TopicId, partition = 0): Replica {
    const replica = this.#replicas.get(`${nodeId} ${topicId} ${partition}`);
    if (replica === undefined) throw new Error(`node ${nodeId} has no replica of partition ${partition}`);
    return replica;
  }

  isHosted(nodeId: number, topicId: TopicId, partition = 0): boolean {
    return this.#replicas.has(`${nodeId} ${topicId} ${partition}`);
  }

  ends(nodeId: number, topicId: TopicId, partition = 0) {
    const { endOffset, durableEnd, highWatermark } = this.replica(nodeId, topicId, partition).core;
    return { endOffset, durableEnd, highWatermark };
  }

  async createReplicated(
    name: string,
    options: { partitions?: number; configs?: Record<string, string>; replicationFactor?: number } = {},
  ): Promise<TopicId> {
    const client = await this.client(await this.controller());
    const topicId = await client.createTopic(name, { replicationFactor: 3, ...options });
    await this.until(`every broker that is up knows ${name}`, async () => {
      const known = await Promise.all(
        this.nodes.filter(({ isUp }) => isUp).map(({ config }) => this.leaders(config["node.id"], name)),
      );
      return known.every((leaders) => leaders.length > 0 && leaders.every((leader) => leader > 0));
    });
    return topicId;
  }

  /** As the controller, or this node, tells it. */
  async partition(topic: string, index = 0, nodeId?: number): Promise<PartitionMetadata> {
    const at = nodeId ?? (await this.controller());
    const { topics } = await this.metadata(at);
    const found = topics.find(({ name }) => name === topic)?.partitions[index];
    if (found === undefined) throw new Error(`node ${at} knows no partition ${index} of ${topic}`);
    return found;
  }

  async untilIsr(topic: string, isr: readonly number[], limitMs?: number, index = 0): Promise<PartitionMetadata> {
    let found: PartitionMetadata | undefined;
    await this.until(
      `ISR ${isr.join(",")} of ${topic}`,
      async () => {
        found = await this.partition(topic, index);
        return found.isr.length === isr.length && found.isr.every((nodeId) => isr.includes(nodeId));
      },
      limitMs,
    );
    return found as PartitionMetadata;
  }

  /** As the controller of now tells it: that may be another one meanwhile. */
  async untilLeader(topic: string, holds: (leader: number) => boolean, limitMs?: number): Promise<PartitionMetadata> {
    let found: PartitionMetadata | undefined;
    await this.until(
      `a leader of ${topic}`,
      async () => {
        found = await this.partition(topic);
        return holds(found.leader);
      },
      limitMs,
    );
    return found as PartitionMetadata;
  }

  async alterTopic(name: string, changes: Readonly<Record<string, string | null>>): Promise<void> {
    const client = await this.client(await this.controller());
    const rows = Object.entries(changes).map(([key, value]) => ({ key, value }));
    const request = { resource: "topic", name, changes: rows, validateOnly: false, requestId: null } as const;
    const { error, message } = await client.call(API.ALTER_CONFIGS, request);
    if (error !== "NONE") throw new Error(`${error}: ${message}`);
  }

  /** A bit of the first segment of a partition is another one from now on. */
  rot(nodeId: number, topic: string, position: number, partition = 0): void {
    this.node(nodeId).disk.image.flipBit(`/data/${topic}-${partition}/${"0".repeat(20)}.log`, position, 3);
  }
}
