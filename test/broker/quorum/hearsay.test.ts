// What anybody can say in the name of a member: it changes nothing, however often it is said.
import { afterEach, describe, expect, it } from "vitest";
import { activateMutants } from "../../../src/base/mutant.ts";
import { MEMBERS_MAX } from "../../../src/broker/quorum/membership.ts";
import type { RaftMessage } from "../../../src/wire/native/quorum-apis.ts";
import { toReplicaId } from "../../../src/raft/types.ts";
import { idOf, nodeId, QuorumCluster, type QuorumNode, registers } from "./support.ts";

afterEach(() => activateMutants([]));

const termsOf = (cluster: QuorumCluster): number[] => cluster.nodes.map((node) => node.quorum.status.term);

async function formed() {
  const cluster = new QuorumCluster();
  await cluster.start();
  const leader = await cluster.controller();
  await cluster.propose(leader, registers(1));
  await cluster.converged();
  return { cluster, leader };
}

const liesOf = {
  "a hello of another disk": (at: QuorumNode, as: QuorumNode) => {
    const lie = { voters: "", address: "n9:7", boots: 0, isRefused: true };
    at.quorum.voterHello({ ...lie, nodeId: as.id, directoryId: idOf(999) as never });
  },
  "a hello of its disk, started again": (at: QuorumNode, as: QuorumNode) => {
    const lie = { voters: "", address: "n9:7", boots: 99, isRefused: false };
    at.quorum.voterHello({ ...lie, nodeId: as.id, directoryId: as.directoryId as never });
  },
  "Raft of another start": (at: QuorumNode, as: QuorumNode) => {
    const message: RaftMessage = { kind: "heartbeat", term: 1, commitEnd: 0, round: 0 };
    const clusterId = at.quorum.clusterId as never;
    at.quorum.receiveRaft({ clusterId, from: as.replica, to: at.replica, boots: 0, message }, []);
  },
};

describe("somebody else in a member's name", () => {
  for (const [what, lie] of Object.entries(liesOf))
    it.each([{ mutants: [] }, { mutants: ["D20h"] }])(
      `${what}, many times a second: nobody loses a connection or calls an election ($mutants)`,
      async ({ mutants }) => {
        const { cluster, leader } = await formed();
        const terms = termsOf(cluster);
        let isTorn = false;
        for (const node of cluster.nodes) node.quorum.links.watch({ onLost: () => (isTorn = true) });
        activateMutants(mutants);
        for (let round = 0; round < 250; round++) {
          for (const at of cluster.nodes) for (const as of cluster.nodes) if (at !== as) lie(at, as);
          await cluster.run(20);
        }
        expect(isTorn).toBe(mutants.length > 0);
        if (mutants.length > 0) return;
        expect(termsOf(cluster)).toEqual(terms);
        expect(leader.isController).toBe(true);
        expect(cluster.nodes.map((node) => node.quorum.status.trouble)).toEqual([null, null, null]);
      },
    );

  it("a term that no election has led to is dropped: it would be everybody's for ever", async () => {
    const { cluster, leader } = await formed();
    const terms = termsOf(cluster);
    const [at, as] = cluster.nodes.filter((node) => node !== leader) as [QuorumNode, QuorumNode];
    for (const term of [2 ** 53 - 4, 2 ** 53 - 1]) {
      const message: RaftMessage = { kind: "heartbeatResponse", term, round: 0 };
      const clusterId = at.quorum.clusterId as never;
      at.quorum.receiveRaft({ clusterId, from: as.replica, to: at.replica, boots: 1, message }, []);
    }
    await cluster.run(1_000);
    expect(termsOf(cluster)).toEqual(terms);
    expect(cluster.nodes.map(({ failure }) => failure)).toEqual([undefined, undefined, undefined]);
  });
});

describe("an append of what is no command", () => {
  it.each([{ mutants: [] }, { mutants: ["Q19w"] }])(
    "is dropped: it would stop the node when it is applied, and at each start ($mutants)",
    async ({ mutants }) => {
      const { cluster, leader } = await formed();
      const at = cluster.nodes.find((node) => node !== leader) as QuorumNode;
      const { term, logEnd } = at.quorum.status;
      activateMutants(mutants);
      const message: RaftMessage = {
        kind: "append",
        term,
        start: logEnd,
        prevTerm: term,
        entries: [{ term, kind: "command" }],
        commitEnd: logEnd + 1,
      };
      const clusterId = at.quorum.clusterId as never;
      const bodies = [new TextEncoder().encode("garbage")];
      at.quorum.receiveRaft({ clusterId, from: leader.replica, to: at.replica, boots: 1, message }, bodies);
      await cluster.run(1_000);
      expect(at.failure?.code).toBe(mutants.length > 0 ? "DATA_DAMAGED" : undefined);
    },
  );
});

describe("voters that never come", () => {
  it("are taken out again when their addition ran out of time", async () => {
    const { cluster, leader } = await formed();
    for (let label = 0; label < 5; label++) {
      const wish = { op: "add", nodeId: nodeId(100 + label), directoryId: idOf(500 + label) as never } as const;
      const outcome = await cluster.settle(leader.quorum.change(wish, 60));
      expect(outcome).toMatchObject({ kind: "refused", error: "REQUEST_TIMED_OUT" });
    }
    expect(leader.quorum.status.voters.map((voter) => voter.nodeId)).toEqual([1, 2, 3]);
  });

  it("are not more than every message can list", async () => {
    const { cluster, leader } = await formed();
    for (let label = 3; label < MEMBERS_MAX; label++) {
      const replica = toReplicaId(nodeId(100 + label), idOf(500 + label) as never);
      await cluster.until(() => leader.core?.proposeConfChange({ kind: "addLearner", replica }).kind === "accepted");
    }
    await cluster.until(() => leader.quorum.status.voters.length === MEMBERS_MAX);
    const wish = { op: "add", nodeId: nodeId(99), directoryId: idOf(99) as never } as const;
    const outcome = await cluster.settle(leader.quorum.change(wish, 1_000));
    expect(outcome).toMatchObject({ kind: "refused", error: "INCONSISTENT_VOTER_SET" });
  });
});
