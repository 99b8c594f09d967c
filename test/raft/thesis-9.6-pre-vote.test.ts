import { describe, expect, it } from "vitest";
import { Cluster, id } from "./cluster.ts";
import { voteRequest } from "./messages.ts";

describe("Raft thesis 9.6: pre-vote (Q-6)", () => {
  it("a node that was cut off comes back without raising anybody's term", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    for (let round = 0; round < 20; round++) {
      cluster.tick("3", 40);
      cluster.settle("3");
      cluster.drop();
    }
    expect(cluster.core("3").term).toBe(2);
    cluster.tick("3", 40);
    cluster.stabilize();
    expect(cluster.core("1").role).toBe("leader");
    cluster.tick("1", 4);
    cluster.stabilize();
    expect(cluster.core("3").leader).toBe("1:a");
  });

  it("followers and the leader refuse while the leader is alive, real votes too", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    for (const to of ["1", "2"])
      for (const isPreVote of [true, false])
        cluster.step(voteRequest({ from: "3", to, term: 9 }, { end: 9, lastTerm: 8 }, { isPreVote }));
    expect(cluster.core("2").term).toBe(2);
    cluster.settle("1");
    cluster.settle("2");
    const granted = cluster.network.filter((message) => message.kind === "voteResponse" && message.isGranted);
    expect(granted).toEqual([]);
  });

  it("does not stop a legal election: when the leader is gone, the first that asks wins", () => {
    const cluster = new Cluster(5);
    cluster.elect("1");
    cluster.crash("1");
    cluster.crash("2");
    for (let tick = 0; tick < 120 && cluster.up.every(({ node }) => node.role !== "leader"); tick++) {
      for (const { id: name } of cluster.up) cluster.tick(name);
      cluster.stabilize();
    }
    expect(cluster.up.filter(({ node }) => node.role === "leader").length).toBe(1);
  });

  it("a pre-vote binds nobody: the one that grants it may still vote for another", () => {
    const cluster = new Cluster(3);
    cluster.step(voteRequest({ from: "2", to: "1", term: 2 }, { end: 1, lastTerm: 1 }, { isPreVote: true }));
    cluster.settle("1");
    expect(cluster.sentBy("1")).toMatchObject([{ isPreVote: true, isGranted: true }]);
    expect(cluster.core("1").hardState).toEqual({ term: 1, votedFor: null });
    cluster.step(voteRequest({ from: "3", to: "1", term: 2 }, { end: 1, lastTerm: 1 }));
    cluster.settle("1");
    expect(cluster.sentBy("1")).toMatchObject([{ to: "3:a", isPreVote: false, isGranted: true }]);
  });

  it("is refused to a log that could not win", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.core("2").peerUnreachable(id("1"));
    cluster.step(voteRequest({ from: "3", to: "2", term: 3 }, { end: 1, lastTerm: 1 }, { isPreVote: true }));
    cluster.settle("2");
    expect(cluster.sentBy("2").at(-1)).toMatchObject({ isGranted: false });
  });
});
