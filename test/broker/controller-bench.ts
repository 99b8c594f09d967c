// A controller against a log that commits at once, with its brokers' words by hand.
import { Controller, type ControllerDeps } from "../../src/broker/controller/controller.ts";
import type { OwnReplica } from "../../src/broker/own-replica.ts";
import type { Applied } from "../../src/broker/quorum/types.ts";
import type { PeerWatcher } from "../../src/broker/quorum/peers.ts";
import type { Decision } from "../../src/metadata/controller.ts";
import { MetadataImage } from "../../src/metadata/image.ts";
import type { MetadataRecord } from "../../src/metadata/records.ts";
import { OttlaError } from "../../src/model/errors.ts";
import { toNodeId, type ClusterId, type DirectoryId, type IncarnationId, type TopicId } from "../../src/model/ids.ts";
import { present } from "../../src/base/assert.ts";
import type { Logger } from "../../src/ports/logger.ts";
import { createSimClock, createSimTimers } from "../../src/sim/world.ts";
import type { BrokerHeartbeatRequest } from "../../src/wire/native/quorum-apis.ts";
import type {
  AlterPartitionRequest,
  DescribePartitionsRequest,
  DescribePartitionsResponse,
} from "../../src/wire/native/replication-apis.ts";
import { live, makeWorld } from "./support.ts";

export const CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ" as ClusterId;
export const idOf = (number: number) => `AAAAAAAAAAAAAAAAAAA${String(number).padStart(2, "0")}A`;
export const TOPIC = idOf(77) as TopicId;
export const SESSION_MS = 3_000;

export class Bench {
  readonly world = makeWorld().world;
  readonly image = new MetadataImage();
  readonly commands: (readonly MetadataRecord[])[] = [];
  readonly controller: Controller;
  readonly probed: number[] = [];
  wanted: number[] = [];
  /** Warnings of the controller. */
  readonly events: Record<string, unknown>[] = [];
  isController = true;
  /** What the replicas of node 1, which is the controller, have. */
  own: OwnReplica | undefined;
  /** By node, of all its replicas: the epoch of the last batch, and the end. Who is not here does not answer. */
  readonly ends = new Map<number, readonly [number, number]>();
  /** Nodes that were asked what they have. */
  readonly described: number[] = [];
  /** In place of every decision. */
  refuseWith: Decision | undefined;
  readonly #watchers = new Set<PeerWatcher>();
  readonly #epochs = new Map<number, number>();

  constructor() {
    const incarnation = this.world.startIncarnation("node1");
    this.#commit([{ type: "cluster", version: 1, clusterId: CLUSTER, metadataVersion: 2, timestampMs: 0 }]);
    const quorum = live<ControllerDeps["quorum"]>({
      image: () => this.image,
      controllerId: () => toNodeId(1),
      isController: () => this.isController,
      propose: () => (decide) => this.#propose(decide),
      barrier: () => () => Promise.resolve(null),
    });
    this.controller = new Controller(
      {
        quorum,
        links: {
          want: (_owner, nodes) => {
            this.wanted = [...nodes];
          },
          probe: (nodeId) => {
            this.probed.push(nodeId);
            return Promise.resolve("failed");
          },
          whoIsAt: () => Promise.resolve(undefined),
          call: (nodeId, _api, request) => this.#described(nodeId, request as DescribePartitionsRequest) as never,
          watch: (watcher) => {
            this.#watchers.add(watcher);
            return () => this.#watchers.delete(watcher);
          },
        },
        clock: createSimClock(this.world, incarnation),
        timers: createSimTimers(this.world, incarnation),
        logger: this.#logger(),
        ownReplica: () => this.own,
        onDefect: (defect) => this.world.fail(defect as Error),
      },
      { nodeId: toNodeId(1), heartbeatMs: 500, sessionMs: SESSION_MS },
    );
  }

  async #described(nodeId: number, { entries }: DescribePartitionsRequest): Promise<DescribePartitionsResponse> {
    this.described.push(nodeId);
    await Promise.resolve();
    const end = this.ends.get(nodeId);
    if (end === undefined) throw new OttlaError("REQUEST_TIMED_OUT");
    const [leaderEpoch, endOffset] = end;
    const known = { highWatermark: endOffset, durableEnd: endOffset, logStartOffset: 0, partitionEpoch: 0 };
    return {
      entries: entries.map(() => ({
        error: "NOT_LEADER_OR_FOLLOWER",
        leaderEpoch,
        endOffset,
        ...known,
        replicas: [],
      })),
    };
  }

  #logger(): Logger {
    const warn = (name: string, more: object = {}) => void this.events.push({ name, ...more });
    const logger: Logger = { debug: () => {}, info: () => {}, warn, error: () => {}, child: () => logger };
    return logger;
  }

  #commit(records: readonly MetadataRecord[]): void {
    const applied: Applied = { index: this.image.endOffset, records, isReset: false };
    this.image.apply(applied.index, records);
    this.commands.push(records);
    this.controller?.onApplied(applied);
  }

  async #propose(decide: (image: MetadataImage) => Decision): Promise<Decision> {
    await Promise.resolve();
    if (this.refuseWith !== undefined) return this.refuseWith;
    const decision = decide(this.image);
    if (decision.kind === "records" && decision.records.length > 0) this.#commit(decision.records);
    return decision;
  }

  apply(...records: MetadataRecord[]): void {
    this.#commit(records);
  }

  async register(nodeId: number, incarnation = nodeId): Promise<number> {
    const { brokerEpoch } = await this.controller.register({
      clusterId: CLUSTER,
      nodeId: toNodeId(nodeId),
      directoryId: idOf(nodeId) as DirectoryId,
      incarnationId: idOf(incarnation) as IncarnationId,
      restart: "clean",
      address: `node${nodeId}:7070`,
      versionsMin: 1,
      versionsMax: 2,
      lastBrokerEpoch: this.#epochs.get(nodeId) ?? -1,
    });
    this.#epochs.set(nodeId, brokerEpoch);
    return brokerEpoch;
  }

  heartbeatOf(nodeId: number, more: Partial<BrokerHeartbeatRequest> = {}): BrokerHeartbeatRequest {
    return {
      nodeId: toNodeId(nodeId),
      brokerEpoch: this.#epochs.get(nodeId) ?? -1,
      incarnationId: idOf(nodeId) as IncarnationId,
      appliedEnd: this.image.endOffset,
      epochStored: true,
      wantsShutdown: false,
      isLowOnSpace: false,
      droppedTopics: [],
      damaged: [],
      ...more,
    };
  }

  async beat(nodeId: number, more: Partial<BrokerHeartbeatRequest> = {}) {
    const answer = await this.controller.heartbeat(this.heartbeatOf(nodeId, more));
    await this.world.runFor(1);
    return answer;
  }

  /** Registered and unfenced. */
  async join(...nodeIds: number[]): Promise<void> {
    for (const nodeId of nodeIds) {
      await this.register(nodeId);
      await this.beat(nodeId);
    }
    this.commands.length = 0;
  }

  /** A partition for each entry: the broker that has it, or all that do. */
  createTopic(replicas: readonly (number | readonly number[])[], topicId = TOPIC): void {
    const lists = replicas.map((nodeIds) => [nodeIds].flat().map(toNodeId));
    const replicationFactor = lists[0]?.length ?? 1;
    const identity = { type: "topic", version: 1, topicId, name: `t${topicId}`, configs: {} } as const;
    this.apply({ ...identity, replicationFactor, replicas: lists, timestampMs: 0 });
    this.commands.length = 0;
  }

  /** "leader epoch, ISR, ELR": `1@0 [1 2 3] []`. */
  standing(partition = 0): string {
    const { leader, leaderEpoch, isr, elr } = present(this.image.topic(TOPIC)?.partitions[partition], "a partition");
    return `${leader ?? "-"}@${leaderEpoch} [${isr.join(" ")}] [${elr.join(" ")}]`;
  }

  /** From the leader, as of now. */
  alter(partition: number, isr: readonly number[], more: Partial<AlterPartitionRequest["entries"][number]> = {}) {
    const { leader, leaderEpoch, partitionEpoch } = present(
      this.image.topic(TOPIC)?.partitions[partition],
      "a partition",
    );
    const nodeId = present(leader, "a leader");
    const members = isr.map((member) => ({ nodeId: member, brokerEpoch: this.#epochs.get(member) ?? -1 }));
    const entry = { topicId: TOPIC, partition, leaderEpoch, partitionEpoch, isr: members, wantsMove: false, ...more };
    return this.controller.alterPartition({
      nodeId,
      brokerEpoch: this.#epochs.get(nodeId) ?? -1,
      entries: [entry],
    });
  }

  refused(nodeId: number, address = `node${nodeId}:7070`): void {
    for (const watcher of this.#watchers) watcher.onRefused?.(toNodeId(nodeId), address);
  }

  isFenced(nodeId: number): boolean | undefined {
    return this.image.broker(toNodeId(nodeId))?.isFenced;
  }

  /** What was decided since the last call: `fence 2 session, unfence 3`. */
  decided(): string[] {
    return this.commands.splice(0).map((records) =>
      records
        .map((record) => {
          if (record.type === "fence-broker")
            return `fence ${record.nodeId}${record.version === 2 ? ` ${record.reason}` : ""}`;
          if (record.type === "unfence-broker") return `unfence ${record.nodeId}`;
          if (record.type === "partition-change")
            return `change ${record.changes.map(({ partition, leader }) => `${partition}:${leader}`).join(" ")}`;
          if (record.type === "topic-removed") return `remove, owed ${record.owed.join(" ")}`;
          if (record.type === "tombstone-settled") return `settled by ${record.nodeId}`;
          return record.type;
        })
        .join(", "),
    );
  }
}

export async function active(...nodeIds: number[]): Promise<Bench> {
  const bench = new Bench();
  bench.controller.onControllerChanged(true);
  await bench.join(...nodeIds);
  return bench;
}
