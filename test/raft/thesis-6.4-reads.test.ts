import { describe, expect, it } from "vitest";
import { Cluster } from "./cluster.ts";

describe("Raft thesis 6.4: read index", () => {
  it("is confirmed by a round of heartbeats that began after the read", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.tick("1", 4);
    cluster.take("1");
    cluster.core("1").readIndex(1);
    cluster.deliver();
    cluster.settle("2");
    cluster.settle("3");
    cluster.deliver();
    cluster.take("1");
    expect(cluster.node("1").reads).toEqual([]);
    cluster.stabilize();
    expect(cluster.node("1").reads).toEqual([{ kind: "readable", token: 1, end: 2 }]);
  });

  it("reads that come together share a round", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    for (let token = 0; token < 50; token++) cluster.core("1").readIndex(token);
    const heartbeats = cluster.stabilize().filter(({ kind }) => kind === "heartbeat");
    expect(heartbeats.length).toBe(2);
    expect(cluster.node("1").reads.length).toBe(50);
  });

  it("a leader that does not know of its successor cannot answer", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.elect("2", ["2", "3"]);
    cluster.propose("2", "new");
    cluster.stabilize(["2", "3"]);
    expect(cluster.core("1").role).toBe("leader");
    cluster.core("1").readIndex(1);
    cluster.stabilize();
    expect(cluster.node("1").reads).toEqual([{ kind: "failed", token: 1 }]);
  });

  it("a new leader answers only after an entry of its own term is committed, at or above it", () => {
    const cluster = new Cluster(3);
    cluster.core("1").campaign();
    while (cluster.core("1").role !== "leader") {
      cluster.settle("1");
      cluster.deliver();
      cluster.settle("2");
      cluster.deliver();
    }
    expect(cluster.core("1").isLeaderReady).toBe(false);
    cluster.core("1").readIndex(5);
    cluster.stabilize();
    expect(cluster.core("1").isLeaderReady).toBe(true);
    expect(cluster.node("1").reads).toEqual([{ kind: "readable", token: 5, end: 2 }]);
  });

  it("a quorum of one answers at once; others say who leads; the queue is bounded", () => {
    const one = new Cluster(1);
    one.elect("1");
    one.core("1").readIndex(1);
    one.take("1");
    expect(one.node("1").reads.length).toBe(1);
    const three = new Cluster(3, { waitingReadsMax: 1 });
    three.elect("1");
    expect(three.core("2").readIndex(1)).toEqual({ kind: "notLeader", leader: "1:a" });
    three.core("1").readIndex(1);
    expect(three.core("1").readIndex(2)).toEqual({ kind: "busy", reason: "1 reads wait" });
  });
});
