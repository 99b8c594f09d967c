// ISR changes on their way to the controller.
import { describe, expect, it } from "vitest";
import type { ErrorName } from "../../../src/model/errors.ts";
import { OttlaError } from "../../../src/model/errors.ts";
import { uuidFromBytes } from "../../../src/model/ids.ts";
import { IsrChanges } from "../../../src/broker/replication/isr-changes.ts";
import { encodeRequest } from "../../../src/wire/native/codec.ts";
import { API } from "../../../src/wire/native/apis.ts";
import { LIMITS } from "../../../src/wire/native/protocol.ts";
import type { AlterPartitionRequest, AlterPartitionResponse } from "../../../src/wire/native/replication-apis.ts";
import { type NodesSettings, ReplicatingNodes } from "./nodes.ts";

const TOPIC_ID = uuidFromBytes(new Uint8Array(16).fill(255));
const CONFIG = { "replica.lag.time.max.ms": 500 };

/** Node 1 leads; of the others only node 2 runs, so that node 3 falls out of sync in half a second. */
async function shrinking(partitions: readonly number[], settings: NodesSettings = {}) {
  const nodes = await ReplicatingNodes.start({ config: CONFIG, ...settings });
  await nodes.apply({ leader: 1, leaderEpoch: 1 }, partitions);
  for (const partition of partitions) await nodes.node(1).settled("a", { partition });
  await nodes.world.runFor(500);
  nodes.node(3).crash();
  return nodes;
}

function produceAll(nodes: ReplicatingNodes, partitions: readonly number[]) {
  return Promise.all(partitions.map((partition) => nodes.node(1).produce("b", { partition })));
}

const answering = (error: ErrorName) => (request: { readonly entries: readonly unknown[] }) =>
  Promise.resolve({ entries: request.entries.map(() => ({ error })) });

const proposed = (nodes: ReplicatingNodes) =>
  nodes.proposals.flatMap(({ entries }) => entries.map(({ partition }) => partition));

describe("ISR changes", () => {
  it("go together in one request, with the epochs that they were seen in", async () => {
    const partitions = [0, 1, 2, 3, 4];
    const nodes = await shrinking(partitions);
    const answers = produceAll(nodes, partitions);
    await nodes.until("proposed", () => nodes.proposals.length > 0);
    await nodes.world.runFor(2_000);
    // Answered: the record is awaited, nothing is asked again.
    expect(nodes.proposals).toHaveLength(1);
    expect(nodes.proposals[0]).toMatchObject({ nodeId: 1, brokerEpoch: 11 });
    expect(new Set(proposed(nodes))).toEqual(new Set(partitions));
    for (const { leaderEpoch, partitionEpoch, isr, wantsMove } of nodes.proposals[0]?.entries ?? []) {
      expect({ leaderEpoch, partitionEpoch, wantsMove }).toEqual({
        leaderEpoch: 1,
        partitionEpoch: 1,
        wantsMove: false,
      });
      expect(new Set(isr.map(({ nodeId }) => nodeId))).toEqual(new Set([1, 2]));
    }
    expect(nodes.node(1).replication.counts.isrChanges).toBe(0);
    // The records come: what waits is committed.
    const isr = [1, 2].map((id) => nodes.node(id).nodeId);
    await nodes.apply({ leader: 1, leaderEpoch: 1, partitionEpoch: 2, isr }, partitions);
    const settled = await nodes.world.settle(answers);
    expect(new Set(settled.map(({ error }) => error))).toEqual(new Set(["NONE"]));
  });

  it("are asked again until they are answered, one request at a time", async () => {
    const nodes = await shrinking([0]);
    let under = 0;
    let most = 0;
    nodes.alter = async () => {
      most = Math.max(most, ++under);
      await new Promise<void>((resolve) => nodes.world.schedule({ delayMs: 30, kind: "controller" }, resolve));
      under--;
      throw new OttlaError("REQUEST_TIMED_OUT");
    };
    void produceAll(nodes, [0]);
    await nodes.until("several tries", () => nodes.proposals.length > 4);
    expect(most).toBe(1);
    nodes.alter = answering("NONE");
    const tries = nodes.proposals.length;
    await nodes.world.runFor(3_000);
    expect(nodes.proposals.length).toBeLessThanOrEqual(tries + 1);
  });

  it("are asked again where the controller itself was not sure", async () => {
    const nodes = await shrinking([0]);
    nodes.alter = answering("NOT_CONTROLLER");
    void produceAll(nodes, [0]);
    await nodes.until("several tries", () => nodes.proposals.length > 3);
    nodes.alter = answering("NONE");
    const tries = nodes.proposals.length;
    await nodes.world.runFor(3_000);
    expect(nodes.proposals.length).toBeLessThanOrEqual(tries + 1);
  });

  it("that metadata will answer are not asked again", async () => {
    for (const error of [
      "INVALID_UPDATE_VERSION",
      "FENCED_LEADER_EPOCH",
      "INVALID_REQUEST",
      "NEW_LEADER_ELECTED",
    ] as const) {
      const nodes = await shrinking([0]);
      nodes.alter = answering(error);
      void produceAll(nodes, [0]);
      await nodes.until("proposed", () => nodes.proposals.length > 0);
      await nodes.world.runFor(3_000);
      expect(nodes.proposals).toHaveLength(1);
    }
  });

  it("that are void by a newer record are dropped", async () => {
    const nodes = await shrinking([0]);
    nodes.alter = () => Promise.reject(new OttlaError("CONNECTION_FAILED"));
    void produceAll(nodes, [0]);
    await nodes.until("tried", () => nodes.proposals.length > 1);
    const isr = [1, 2].map((id) => nodes.node(id).nodeId);
    await nodes.apply({ leader: 1, leaderEpoch: 1, partitionEpoch: 5, isr });
    const tries = nodes.proposals.length;
    await nodes.world.runFor(3_000);
    expect(nodes.proposals).toHaveLength(tries);
    expect(nodes.node(1).replication.counts.isrChanges).toBe(0);
  });

  it("that are refused are told to the core, which may wish again", async () => {
    const nodes = await shrinking([0]);
    nodes.alter = answering("INELIGIBLE_REPLICA");
    void produceAll(nodes, [0]);
    await nodes.until("wished twice", () => nodes.proposals.length > 1);
    expect(nodes.node(1).replication.counts.isrChanges).toBeLessThanOrEqual(1);
  });

  it("wait while this broker is not registered, and go with its new epoch", async () => {
    const nodes = await shrinking([0]);
    const { nodeId } = nodes.node(1);
    nodes.brokerEpochs.delete(nodeId);
    void produceAll(nodes, [0]);
    await nodes.world.runFor(2_000);
    expect(nodes.proposals).toHaveLength(0);
    nodes.brokerEpochs.set(nodeId, 77);
    await nodes.until("proposed", () => nodes.proposals.length > 0);
    expect(nodes.proposals[0]?.brokerEpoch).toBe(77);
  });
});

/** Bytes of each request for `count` partitions that all ask for the longest ISR of `members` at once. */
async function requestBytes(count: number, members: number): Promise<number[]> {
  const [INT, FAR] = [0x7fffffff, Number.MAX_SAFE_INTEGER];
  const core = { isLeader: true, leaderEpoch: INT, record: { partitionEpoch: INT } };
  const isr = Array.from({ length: members }, (_, place) => ({ nodeId: INT - place, brokerEpoch: FAR }));
  const sizes: number[] = [];
  let left = count;
  const alterPartition = async (request: AlterPartitionRequest): Promise<AlterPartitionResponse> => {
    const header = { api: API.ALTER_PARTITION, version: 0, correlationId: INT, deadlineMs: INT };
    sizes.push(encodeRequest(header, request, [])[0]?.length ?? 0);
    left -= request.entries.length;
    return { entries: request.entries.map(() => ({ error: "NONE" as const })) };
  };
  const deps = {
    controller: { alterPartition },
    brokerEpoch: () => FAR,
    defer: setImmediate,
    guard: (work: () => void) => work(),
  };
  const changes = new IsrChanges(deps as never, { nodeId: INT } as never);
  for (let partition = INT - count; partition < INT; partition++) {
    const replica = { core, log: { topicId: TOPIC_ID, partition } } as never;
    changes.propose(replica, {
      kind: "propose-isr",
      leaderEpoch: INT,
      partitionEpoch: INT,
      isr,
      wantsMove: true,
    } as never);
  }
  while (left > 0) await new Promise((resolve) => setImmediate(resolve));
  return sizes;
}

it.each([
  [3_000, 3],
  [1_000, 16],
  [300, 64],
])(
  "D-38: the request of %d partitions of %d replicas is no longer than one that a connection lets in before it knows what comes",
  async (count, members) => {
    const sizes = await requestBytes(count, members);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(LIMITS.ENVELOPE_BYTES);
    // As few as that takes.
    expect(Math.min(...sizes.slice(0, -1))).toBeGreaterThan(LIMITS.ENVELOPE_BYTES * 0.9);
  },
);
