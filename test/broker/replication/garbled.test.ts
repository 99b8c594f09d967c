// What comes of followers that lie, and of messages that were garbled, lost or repeated on their way: nobody is locked out, nothing stands still.
import { describe, expect, it } from "vitest";
import { toNodeId } from "../../../src/model/ids.ts";
import type { MessageConnection } from "../../../src/ports/transport.ts";
import { API } from "../../../src/wire/native/apis.ts";
import { encodeRequest } from "../../../src/wire/native/codec.ts";
import { packPlain } from "../../../src/wire/native/msgpack.ts";
import type { ReplicaManager } from "../../../src/broker/replica-manager.ts";
import { ReplicatingNodes, TOPIC } from "./nodes.ts";
import { RawFollower } from "./raw-follower.ts";

const slot = (id: number, partition = 0) => ({ slot: id, topicId: TOPIC, partition });
const FORGED = { nodeId: 2, brokerEpoch: 12, sessionId: Number.MAX_SAFE_INTEGER };

async function replicating(count = 2): Promise<ReplicatingNodes> {
  const nodes = await ReplicatingNodes.start({ count });
  await nodes.apply({ leader: 1, leaderEpoch: 1 });
  await nodes.node(1).settled("a");
  return nodes;
}

/** Node 1 leads, node 2 is only what the test sends. */
async function ledAlone(): Promise<ReplicatingNodes> {
  const nodes = await ReplicatingNodes.start({ count: 2 });
  await nodes.apply({ leader: 1, leaderEpoch: 1, isr: [nodes.node(1).nodeId], minIsr: 1 }, [0], [nodes.node(1)]);
  await nodes.node(1).settled("a");
  return nodes;
}

/** A connection to node 1 that sends whatever bytes it is given. */
async function rawPeer(nodes: ReplicatingNodes): Promise<MessageConnection> {
  const { world, network } = nodes;
  const messages = network.messages(world.startIncarnation("raw peer"));
  const opening = messages.connect(nodes.node(1).address).then((peer) => {
    peer.start({ onReceive: () => undefined, onClose: () => undefined, onDrain: () => undefined });
    return peer;
  });
  return world.settle(opening);
}

/** The next batches that come for a follower here never reach it. */
function loseNextRow(replicas: ReplicaManager): void {
  const own = replicas.step.bind(replicas);
  let isLost = false;
  Object.assign(replicas, {
    step: (...args: Parameters<ReplicaManager["step"]>) => {
      const [, event] = args;
      if (isLost || event.kind !== "fetched" || event.batches.length === 0) return own(...args);
      isLost = true;
      return undefined;
    },
  });
}

describe("a follower that lies", () => {
  it("and reports a durable end below nothing is cut off, and its leader goes on", async () => {
    const nodes = await ledAlone();
    const { nodeId, brokerEpoch } = FORGED;
    const peer = await rawPeer(nodes);
    const header = { version: 0, deadlineMs: 0 } as const;
    const added = [slot(7)];
    const fetch = { nodeId: toNodeId(nodeId), brokerEpoch, sessionId: 1, maxWaitMs: 1, maxBytes: 1, removed: [] };
    const hello = { clientId: "node 2", software: "test" };
    peer.send(encodeRequest({ ...header, api: API.HELLO, correlationId: 1 }, hello, []));
    const whole = { ...fetch, added, positions: [7, 1, 1, 1] };
    peer.send(encodeRequest({ ...header, api: API.REPLICA_FETCH, correlationId: 2 }, whole, []));
    await nodes.until("a session", () => nodes.node(1).replica().core.followers[0]?.position === 1);
    peer.send([packPlain([API.DURABLE_REPORT, 0, 3, 0, [], [nodeId, brokerEpoch, 1, [7, 1, -5]]])]);
    await nodes.until("cut off", () => nodes.node(1).replication.counts.sessions === 0);
    expect(nodes.node(1).replica().core.followers[0]?.durableEnd).toBe(-1);
    expect((await nodes.node(1).settled("b")).error).toBe("NONE");
  });

  it("and takes the highest session there is locks nobody out", async () => {
    const nodes = await replicating();
    const forger = await RawFollower.open(nodes, 1, FORGED);
    await forger.answer({ added: [slot(1)], positions: [1, 1, 0, -1], maxWaitMs: 1 });
    const startMs = nodes.world.nowMs;
    expect((await nodes.node(1).settled("b")).error).toBe("NONE");
    expect(nodes.world.nowMs - startMs).toBeLessThan(2_000);
    // It has gone on in a session of its own, and the forger's connection is closed.
    expect((await forger.answer({})).error).toBe("CONNECTION_LOST");
    await nodes.node(1).settled("c");
    await nodes.until("all of it", () => nodes.node(2).replica().core.highWatermark === 3);
  });

  it("is told that it is late as often as it asks in an older session, and taken in a newer one once it has heard", async () => {
    const nodes = await ledAlone();
    const forger = await RawFollower.open(nodes, 1, FORGED);
    await forger.answer({ added: [slot(1)], positions: [1, 1, 0, -1] });
    const real = await RawFollower.open(nodes, 1, { ...FORGED, sessionId: 5 });
    const ask = (sessionId: number) =>
      real.answer({ sessionId, added: [slot(1)], positions: [1, 1, 0, -1], maxWaitMs: 1 });
    for (const sessionId of [5, 5, 4]) expect((await ask(sessionId)).error).toBe("FETCH_SESSION_ID_NOT_FOUND");
    const taken = await ask(6);
    expect(taken.rows).toMatchObject([{ slot: 1, error: "NONE" }]);
    // From here on as if nothing had been: what is older is late, what is higher is newer.
    expect((await ask(5)).error).toBe("FETCH_SESSION_ID_NOT_FOUND");
    expect((await ask(7)).error).toBe("NONE");
    expect(nodes.node(1).replication.counts.sessions).toBe(1);
  });
});

describe("memory of followers", () => {
  it("is that of one connection each: a newer session closes the connection of the one before", async () => {
    const nodes = await ledAlone();
    for (let index = 0; index < 8; index++) await nodes.node(1).settled("x", { sizeBytes: 200_000 });
    nodes.network.setLink({ delayMs: 0.1, bandwidth: 20, windowBytes: 1024 });
    const { unsent } = nodes.node(1).parts.accountant;
    const held: number[] = [];
    for (let sessionId = 1; sessionId <= 6; sessionId++) {
      const follower = await RawFollower.open(nodes, 1, { ...FORGED, sessionId });
      void follower.fetch({ added: [slot(1)], positions: [1, 1, 0, -1] });
      await nodes.world.runFor(500);
      expect(unsent.usedBytes).toBeGreaterThan(500_000);
      held.push(unsent.usedBytes);
    }
    expect(Math.max(...held)).toBeLessThan(1.2 * (held[0] as number));
  });
});

describe("a row that was lost", () => {
  it("is not waited for by both sides for ever", async () => {
    const nodes = await replicating();
    await nodes.node(1).settled("b");
    const { core } = nodes.node(1).replica();
    await nodes.world.runFor(1_000);
    // The leader has answered, as it believes; the follower waits for the answer to a position that it has asked with.
    loseNextRow(nodes.node(2).parts.replicas);
    const startMs = nodes.world.nowMs;
    expect((await nodes.node(1).settled("c")).error).toBe("NONE");
    expect(nodes.world.nowMs - startMs).toBeGreaterThan(1_500);
    expect(nodes.world.nowMs - startMs).toBeLessThan(4_000);
    expect(core.highWatermark).toBe(3);
  });
});
