// The active controller, against a log that commits at once: who is fenced, elected and removed when.
import { describe, expect, test } from "vitest";
import { Controller, type ControllerDeps } from "../../src/broker/controller/controller.ts";
import type { Applied } from "../../src/broker/quorum/types.ts";
import type { PeerWatcher } from "../../src/broker/quorum/peers.ts";
import { ELECTIONS_PER_COMMAND, type Decision } from "../../src/metadata/controller.ts";
import { MetadataImage } from "../../src/metadata/image.ts";
import type { MetadataRecord } from "../../src/metadata/records.ts";
import {
  toNodeId,
  type ClusterId,
  type DirectoryId,
  type IncarnationId,
  type NodeId,
  type TopicId,
} from "../../src/model/ids.ts";
import { createSimClock, createSimTimers } from "../../src/sim/world.ts";
import type { BrokerHeartbeatRequest } from "../../src/wire/native/quorum-apis.ts";
import { live, makeWorld } from "./support.ts";

const CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ" as ClusterId;
const idOf = (number: number) => `AAAAAAAAAAAAAAAAAAA${String(number).padStart(2, "0")}A`;
const TOPIC = idOf(77) as TopicId;
const SESSION_MS = 3_000;
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => silent };

class Bench {
  readonly world = makeWorld().world;
  readonly image = new MetadataImage();
  readonly commands: (readonly MetadataRecord[])[] = [];
  readonly controller: Controller;
  readonly probed: number[] = [];
  wanted: number[] = [];
  isController = true;
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
          watch: (watcher) => {
            this.#watchers.add(watcher);
            return () => this.#watchers.delete(watcher);
          },
        },
        clock: createSimClock(this.world, incarnation),
        timers: createSimTimers(this.world, incarnation),
        logger: silent,
        onDefect: (defect) => this.world.fail(defect as Error),
      },
      { nodeId: toNodeId(1), heartbeatMs: 500, sessionMs: SESSION_MS },
    );
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

  async beat(nodeId: number, more: Partial<BrokerHeartbeatRequest> = {}) {
    const answer = await this.controller.heartbeat({
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
    });
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

  createTopic(replicas: readonly number[], topicId = TOPIC): void {
    this.apply({
      type: "topic",
      version: 1,
      topicId,
      name: `t${topicId}`,
      configs: {},
      replicationFactor: 1,
      minIsr: 1,
      replicas: replicas.map((nodeId) => [toNodeId(nodeId)]),
      timestampMs: 0,
    });
    this.commands.length = 0;
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
            return `elect ${record.changes.map(({ partition, leader }) => `${partition}:${leader}`).join(" ")}`;
          if (record.type === "topic-removed") return `remove, owed ${record.owed.join(" ")}`;
          if (record.type === "tombstone-settled") return `settled by ${record.nodeId}`;
          return record.type;
        })
        .join(", "),
    );
  }
}

async function active(...nodeIds: number[]): Promise<Bench> {
  const bench = new Bench();
  bench.controller.onControllerChanged(true);
  await bench.join(...nodeIds);
  return bench;
}

describe("sessions", () => {
  test("brokers that are not heard of are fenced when their sessions end, all in one command", async () => {
    const bench = await active(1, 2, 3);
    for (let beatMs = 0; beatMs < SESSION_MS; beatMs += 500) {
      await bench.beat(1);
      await bench.world.runFor(499);
    }
    await bench.beat(1);
    await bench.world.runFor(300);
    expect(bench.decided()).toEqual(["fence 2 session, fence 3 session"]);
    await bench.world.runFor(300);
    expect(bench.decided()).toEqual([]);
  });

  test("a fencing that could not be decided is tried again; a broker that was heard of meanwhile is left alone", async () => {
    const bench = await active(1, 2, 3);
    bench.refuseWith = { kind: "refused", error: "STORAGE_FULL", message: "full" };
    await bench.world.runFor(SESSION_MS + 500);
    expect(bench.decided()).toEqual([]);
    await bench.beat(2);
    bench.refuseWith = undefined;
    await bench.world.runFor(300);
    expect(bench.decided()).toEqual(["fence 1 session, fence 3 session"]);
  });

  test("D-22: a new controller asks all brokers at once and gives each a fresh session", async () => {
    const bench = new Bench();
    bench.controller.onControllerChanged(true);
    await bench.join(1, 2, 3);
    bench.controller.onControllerChanged(false);
    bench.isController = false;
    await expect(bench.beat(2)).rejects.toMatchObject({ code: "NOT_CONTROLLER" });
    await bench.world.runFor(2 * SESSION_MS);
    expect(bench.decided(), "it decides nothing while it is none").toEqual([]);
    bench.isController = true;
    bench.controller.onControllerChanged(true);
    expect(new Set(bench.probed)).toEqual(new Set([2, 3]));
    expect(new Set(bench.wanted)).toEqual(new Set([1, 2, 3]));
    await bench.world.runFor(SESSION_MS - 300);
    expect(bench.decided()).toEqual([]);
    await bench.world.runFor(600);
    expect(bench.decided()).toEqual(["fence 1 session, fence 2 session, fence 3 session"]);
  });
});

describe("a refused connection (D-22)", () => {
  test("fences at once, at the registered address only", async () => {
    const bench = await active(1, 2);
    bench.refused(2, "elsewhere:1");
    bench.refused(9);
    await bench.world.runFor(1);
    expect(bench.decided()).toEqual([]);
    bench.refused(2);
    await bench.world.runFor(1);
    expect(bench.decided()).toEqual(["fence 2 refused"]);
  });

  test("proves nothing any more of an incarnation that lived on after one; of its next one it does", async () => {
    const bench = await active(1, 2);
    bench.refused(2);
    await bench.world.runFor(1);
    await bench.beat(2);
    expect(bench.decided()).toEqual(["fence 2 refused", "unfence 2"]);
    bench.refused(2);
    await bench.world.runFor(1);
    expect(bench.decided()).toEqual([]);
    await bench.register(2, 22);
    await bench.beat(2, { incarnationId: idOf(22) as IncarnationId });
    bench.refused(2);
    await bench.world.runFor(1);
    expect(bench.decided()).toEqual(["register-broker", "unfence 2", "fence 2 refused"]);
  });
});

describe("heartbeats", () => {
  test("of another epoch or incarnation are answered STALE_BROKER_EPOCH and are no sign of life", async () => {
    const bench = await active(1, 2);
    await bench.world.runFor(SESSION_MS - 300);
    await bench.beat(1);
    await expect(bench.beat(2, { brokerEpoch: 99 })).rejects.toMatchObject({ code: "STALE_BROKER_EPOCH" });
    await expect(bench.beat(2, { incarnationId: idOf(9) as IncarnationId })).rejects.toMatchObject({
      code: "STALE_BROKER_EPOCH",
    });
    await expect(bench.beat(8)).rejects.toMatchObject({ code: "STALE_BROKER_EPOCH" });
    await bench.world.runFor(600);
    expect(bench.decided()).toEqual(["fence 2 session"]);
  });

  test("D-6, R-64: a broker is unfenced when its epoch is stored and its registration applied there, and leads what waits for it", async () => {
    const bench = await active(1, 2);
    bench.createTopic([2, 1, 2]);
    const epoch = await bench.register(2, 22);
    const incarnationId = idOf(22) as IncarnationId;
    bench.commands.length = 0;
    expect(await bench.beat(2, { incarnationId, epochStored: false })).toEqual({ isFenced: true, mayShutDown: false });
    expect(await bench.beat(2, { incarnationId, appliedEnd: epoch })).toEqual({ isFenced: true, mayShutDown: false });
    expect(bench.decided()).toEqual([]);
    await bench.beat(2, { incarnationId, appliedEnd: epoch + 1 });
    expect(bench.decided()).toEqual(["unfence 2, elect 0:2 2:2"]);
    expect(await bench.beat(2, { incarnationId })).toEqual({ isFenced: false, mayShutDown: false });
    expect(bench.decided()).toEqual([]);
  });

  test("D-17: what is told as damaged is not elected, until it is not told any more", async () => {
    const bench = await active(1, 2);
    bench.createTopic([2, 2]);
    await bench.register(2, 22);
    const more = { incarnationId: idOf(22) as IncarnationId };
    const damaged = [{ topicId: TOPIC, partitions: [1] }];
    bench.commands.length = 0;
    await bench.beat(2, { ...more, damaged });
    await bench.beat(2, { ...more, damaged });
    expect(bench.decided()).toEqual(["unfence 2, elect 0:2"]);
    await bench.beat(2, more);
    expect(bench.decided()).toEqual(["elect 1:2"]);
  });

  test("more partitions than one command takes are given one command after another", async () => {
    const bench = await active(1, 2);
    bench.createTopic(new Array(ELECTIONS_PER_COMMAND + 1).fill(2));
    await bench.register(2, 22);
    bench.commands.length = 0;
    await bench.beat(2, { incarnationId: idOf(22) as IncarnationId });
    expect(bench.commands).toHaveLength(2);
    expect(bench.image.ledCount(toNodeId(2))).toBe(ELECTIONS_PER_COMMAND + 1);
  });

  test("R-62: who wants to go is fenced before it is told that it may, and is not unfenced by asking on", async () => {
    const bench = await active(1, 2);
    expect(await bench.beat(2, { wantsShutdown: true })).toEqual({ isFenced: true, mayShutDown: true });
    expect(await bench.beat(2, { wantsShutdown: true })).toEqual({ isFenced: true, mayShutDown: true });
    expect(bench.decided()).toEqual(["fence 2 shutdown"]);
    bench.refuseWith = { kind: "refused", error: "STORAGE_FULL", message: "full" };
    expect(await bench.beat(1, { wantsShutdown: true })).toEqual({ isFenced: false, mayShutDown: false });
  });
});

describe("deletions", () => {
  const mark = (bench: Bench) => bench.apply({ type: "delete-topic", version: 1, topicId: TOPIC });

  test("wait for every live broker with a replica, and for no other", async () => {
    const bench = await active(1, 2, 3);
    bench.createTopic([1, 2]);
    mark(bench);
    bench.commands.length = 0;
    await bench.beat(1, { droppedTopics: [TOPIC] });
    await bench.beat(3, { droppedTopics: [TOPIC] });
    expect(bench.decided()).toEqual([]);
    await bench.beat(2, { droppedTopics: [TOPIC] });
    expect(bench.decided()).toEqual(["remove, owed "]);
  });

  test("end when those that are waited for are fenced; these settle it when they are back, and nobody asks twice", async () => {
    const bench = await active(1, 2, 3);
    bench.createTopic([1, 2]);
    mark(bench);
    await bench.beat(1, { droppedTopics: [TOPIC] });
    bench.commands.length = 0;
    bench.refused(2);
    await bench.world.runFor(1);
    expect(bench.decided()).toEqual(["fence 2 refused", "remove, owed 2"]);
    await bench.beat(3, { droppedTopics: [TOPIC] });
    await bench.beat(2);
    expect(bench.decided()).toEqual(["unfence 2"]);
    await bench.beat(2, { droppedTopics: [TOPIC] });
    expect(bench.decided()).toEqual(["settled by 2"]);
    await bench.beat(2, { droppedTopics: [TOPIC] });
    expect(bench.decided()).toEqual([]);
    expect(bench.image.tombstoneCount).toBe(0);
  });

  test("of a topic without a live replica end as soon as it is marked", async () => {
    const bench = await active(1, 2);
    bench.createTopic([2]);
    bench.refused(2);
    await bench.world.runFor(1);
    bench.commands.length = 0;
    mark(bench);
    await bench.world.runFor(1);
    expect(bench.decided()).toEqual(["delete-topic", "remove, owed 2"]);
  });

  test("a new controller finds what the one before has begun", async () => {
    const bench = await active(1, 2);
    bench.createTopic([1, 2]);
    bench.controller.onControllerChanged(false);
    mark(bench);
    bench.commands.length = 0;
    bench.controller.onControllerChanged(true);
    await bench.beat(1, { droppedTopics: [TOPIC] });
    await bench.beat(2, { droppedTopics: [TOPIC] });
    expect(bench.decided()).toEqual(["remove, owed "]);
  });
});

describe("registrations", () => {
  test("D-6: another disk is let in when the session has ended, not before", async () => {
    const bench = await active(1, 2);
    const rival = {
      clusterId: CLUSTER,
      nodeId: toNodeId(2),
      directoryId: idOf(50) as DirectoryId,
      incarnationId: idOf(51) as IncarnationId,
      restart: "first" as const,
      address: "rival:7070",
      versionsMin: 1,
      versionsMax: 2,
      lastBrokerEpoch: -1,
    };
    await expect(bench.controller.register(rival)).rejects.toMatchObject({ code: "DUPLICATE_BROKER_REGISTRATION" });
    await bench.world.runFor(SESSION_MS + 300);
    await bench.controller.register(rival);
    const known: NodeId = toNodeId(2);
    expect(bench.image.broker(known)).toMatchObject({ address: "rival:7070", restart: "changed-disk" });
    await expect(bench.beat(2)).rejects.toMatchObject({ code: "STALE_BROKER_EPOCH" });
  });

  test("nobody is let in by a node that is not the controller, nor by one that lost it meanwhile", async () => {
    const bench = await active(1);
    bench.refuseWith = { kind: "refused", error: "REQUEST_TIMED_OUT", message: "nobody knows" };
    await expect(bench.register(2)).rejects.toMatchObject({ code: "REQUEST_TIMED_OUT" });
    bench.isController = false;
    bench.controller.onControllerChanged(false);
    await expect(bench.register(2)).rejects.toMatchObject({ code: "NOT_CONTROLLER" });
  });
});
