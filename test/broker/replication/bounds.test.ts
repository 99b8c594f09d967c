// What replication costs and keeps: idle partitions nothing, answers in bounded parts, hostile slots little.
import { describe, expect, it } from "vitest";
import type { ReplicaManager } from "../../../src/broker/replica-manager.ts";
import { ReplicatingNodes, TOPIC } from "./nodes.ts";
import { RawFollower } from "./raw-follower.ts";

/** Events that the node's cores were stepped with from now on, by kind. */
function stepsOf(replicas: ReplicaManager): Map<string, number> {
  const counts = new Map<string, number>();
  const own = replicas.step.bind(replicas);
  Object.assign(replicas, {
    step: (...args: Parameters<ReplicaManager["step"]>) => {
      counts.set(args[1].kind, (counts.get(args[1].kind) ?? 0) + 1);
      return own(...args);
    },
  });
  return counts;
}

/** True from when it has been true of each, one after the other. */
function eachWas(partitions: readonly number[], condition: (partition: number) => boolean): () => boolean {
  let next = 0;
  return () => {
    while (next < partitions.length && condition(partitions[next] as number)) next++;
    return next === partitions.length;
  };
}

describe("what replication costs", () => {
  it("nothing for idle partitions: a busy one among 500 is fetched alone", async () => {
    const nodes = await ReplicatingNodes.start({ count: 2 });
    const partitions = Array.from({ length: 500 }, (_, index) => index);
    await nodes.apply({ leader: 1, leaderEpoch: 1 }, partitions);
    const { replicas } = nodes.node(1).parts;
    const isPlaced = (partition: number): boolean => nodes.node(1).replica(partition).core.followers[0]?.position === 0;
    await nodes.until("all asked", eachWas(partitions, isPlaced), 20_000);
    await nodes.world.runFor(1_000);
    const [leader, follower] = [stepsOf(replicas), stepsOf(nodes.node(2).parts.replicas)];
    await nodes.world.runFor(2_000);
    for (const counts of [leader, follower]) {
      counts.delete("tick");
      expect(counts).toEqual(new Map());
    }
    for (let index = 0; index < 10; index++) await nodes.node(1).settled("a", { partition: 456 });
    await nodes.world.runFor(100);
    expect(leader.get("follower-fetch")).toBeLessThanOrEqual(10);
    // Batches and, where nothing came with them, the mark.
    expect(follower.get("fetched")).toBeLessThanOrEqual(20);
    expect(nodes.node(2).replica(456).core.highWatermark).toBe(10);
  });

  it("more partitions than fit into one fetch are asked for in several, at once", async () => {
    const nodes = await ReplicatingNodes.start({ count: 2 });
    const partitions = Array.from({ length: 2_050 }, (_, index) => index);
    await nodes.apply({ leader: 1, leaderEpoch: 1 }, partitions);
    const startMs = nodes.world.nowMs;
    nodes.network.cutOne("both");
    const isBack = (): boolean => nodes.node(1).replication.counts.sessions === 1;
    await nodes.until("a new session", () => !isBack());
    await nodes.until("a new session", isBack);
    const isPlaced = (partition: number): boolean => nodes.node(1).replica(partition).core.followers[0]?.position === 0;
    await nodes.until("all asked", eachWas(partitions, isPlaced), 5_000);
    expect(nodes.world.nowMs - startMs).toBeLessThan(200);
  });

  it("an answer stays under the bytes that were asked for, by at most one batch", async () => {
    const partitions = Array.from({ length: 12 }, (_, index) => index);
    const nodes = await ReplicatingNodes.start({ count: 2 });
    await nodes.apply({ leader: 1, leaderEpoch: 1, isr: [nodes.node(1).nodeId], minIsr: 1 }, partitions, [
      nodes.node(1),
    ]);
    for (const partition of partitions)
      for (let index = 0; index < 4; index++) await nodes.node(1).settled("x", { partition, sizeBytes: 200_000 });
    const follower = await RawFollower.open(nodes, 1, { nodeId: 2, brokerEpoch: 12, sessionId: 1 });
    const added = partitions.map((partition) => ({ slot: partition, topicId: TOPIC, partition }));
    const positions = partitions.flatMap((partition) => [partition, 1, 0, -1]);
    const maxBytes = 2 * 1024 * 1024;
    let slots = 0;
    for (let round = 0; slots < partitions.length; round++) {
      const answer = await follower.answer(round === 0 ? { added, positions, maxBytes } : { maxBytes });
      const sizeBytes = answer.parts.reduce((sum, part) => sum + part, 0);
      expect(sizeBytes).toBeGreaterThan(0);
      expect(sizeBytes).toBeLessThan(maxBytes + 200_200);
      for (const part of answer.parts) expect(part).toBeLessThanOrEqual(1024 * 1024);
      slots += new Set(answer.rows.map(({ slot }) => slot)).size;
    }
    // Nobody is served twice before all are.
    expect(slots).toBe(partitions.length);
    await nodes.world.runFor(10);
    expect(nodes.node(1).parts.accountant.unsent.usedBytes).toBe(0);
    expect(nodes.node(1).parts.accountant.peers.usedBytes).toBe(0);
  });

  it("slots of partitions that are not here are kept up to a bound, and the connection's end frees them", async () => {
    const nodes = await ReplicatingNodes.start({ count: 2 });
    const follower = await RawFollower.open(nodes, 1, { nodeId: 2, brokerEpoch: 12, sessionId: 1 });
    let slot = 0;
    let refused = 0;
    for (let round = 0; round < 12; round++) {
      const added = Array.from({ length: 2_000 }, () => ({ slot: slot++, topicId: TOPIC, partition: slot }));
      const positions = added.flatMap((row) => [row.slot, 1, 0, -1]);
      const answer = await follower.answer({ added, positions, maxWaitMs: 1 });
      refused += answer.rows.filter(({ error }) => error === "FETCH_SESSION_ID_NOT_FOUND").length;
    }
    expect(refused).toBe(4_000);
    await nodes.world.settle(follower.connection.close(new Error("bye") as never));
    await nodes.until("no session", () => nodes.node(1).replication.counts.sessions === 0);
  });

  it("slots that are gone are told of in as many parts as that takes (D-24)", async () => {
    const nodes = await ReplicatingNodes.start({ count: 2 });
    const partitions = [0, 1, 2];
    await nodes.apply({ leader: 1, leaderEpoch: 2 }, partitions, [nodes.node(1)]);
    const follower = await RawFollower.open(nodes, 1, { nodeId: 2, brokerEpoch: 12, sessionId: 1 });
    const slotOf = (partition: number) => ({ slot: partition, topicId: TOPIC, partition });
    // An older leader epoch is refused: after that it is the follower's turn, which does not come.
    const fenced = await follower.answer({ added: [0, 1].map(slotOf), positions: [0, 1, 0, -1, 1, 1, 0, -1] });
    expect(fenced.rows).toMatchObject([{ error: "FENCED_LEADER_EPOCH" }, { error: "FENCED_LEADER_EPOCH" }]);
    await nodes.world.runFor(2_100);
    const unknown = Array.from({ length: 1_999 }, (_, index) => 10 + index);
    const positions = [2, 2, 0, -1, ...unknown.flatMap((slot) => [slot, 2, 0, -1])];
    const answer = await follower.answer({ added: [slotOf(2)], positions });
    expect(answer.error).toBe("NONE");
    expect(answer.parts.length).toBe(2);
    const gone = answer.rows.filter(({ error }) => error === "FETCH_SESSION_ID_NOT_FOUND").map(({ slot }) => slot);
    expect(gone.toSorted((left, right) => left - right)).toEqual([0, 1, ...unknown]);
    expect(answer.rows.at(-1)).toMatchObject({ slot: 2, error: "NONE" });
  });

  it("a partition has one slot in a session, whatever it was called before", async () => {
    const nodes = await ReplicatingNodes.start({ count: 2 });
    await nodes.apply({ leader: 1, leaderEpoch: 1 }, [0], [nodes.node(1)]);
    const follower = await RawFollower.open(nodes, 1, { nodeId: 2, brokerEpoch: 12, sessionId: 1 });
    const ask = (slot: number, partition: number) =>
      follower.answer({ added: [{ slot, topicId: TOPIC, partition }], positions: [slot, 1, 0, -1], maxWaitMs: 1 });
    for (const partition of [0, 9]) {
      await ask(1, partition);
      await ask(2, partition);
      expect((await follower.answer({ positions: [1, 1, 0, -1], maxWaitMs: 1 })).rows).toMatchObject([
        { slot: 1, error: "FETCH_SESSION_ID_NOT_FOUND" },
      ]);
    }
  });

  it("acknowledges though clients fill every account", async () => {
    const nodes = await ReplicatingNodes.start({ count: 2 });
    await nodes.apply({ leader: 1, leaderEpoch: 1 });
    await nodes.node(1).settled("warm");
    const { accountant } = nodes.node(1).parts;
    for (const account of [accountant.produce, accountant.control, accountant.unsent]) account.add(account.capBytes);
    nodes.network.setLink({ delayMs: 0.1, bandwidth: 2_000, windowBytes: 64 * 1024 });
    const startMs = nodes.world.nowMs;
    const answers = Array.from({ length: 8 }, () => nodes.node(1).produce("x", { sizeBytes: 300_000 }));
    // Half a second for each MiB: what the follower says of the first is heard while the second is on its way.
    await nodes.world.settle(answers[0] as Promise<unknown>);
    expect(nodes.world.nowMs - startMs).toBeLessThan(700);
    await nodes.world.settle(Promise.all(answers));
    expect(nodes.world.nowMs - startMs).toBeLessThan(1_500);
  });
});
