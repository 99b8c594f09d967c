import { describe, expect, it } from "vitest";
import { Cluster } from "./cluster.ts";

describe("Raft paper 8: clients", () => {
  it("whoever does not lead names the leader that it knows, and takes nothing", () => {
    const cluster = new Cluster(3);
    const bytes = new Uint8Array([1]);
    expect(cluster.core("2").propose({ bytes })).toEqual({ kind: "notLeader", leader: null });
    cluster.elect("1");
    expect(cluster.core("2").propose({ bytes })).toEqual({ kind: "notLeader", leader: "1:a" });
    expect(cluster.core("2").log.end).toBe(cluster.core("1").log.end);
  });

  it("a leader begins its term with an entry of its own: then it knows what was committed before", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.propose("1", "a");
    // Committed, but only the leader of the time knows it.
    cluster.settle("1");
    cluster.deliver();
    cluster.settle("2");
    cluster.settle("3");
    cluster.deliver();
    expect(cluster.core("1").log.commitEnd).toBe(3);
    cluster.drop();
    cluster.crash("1");
    expect(cluster.core("2").log.commitEnd).toBe(2);
    cluster.elect("2", ["2", "3"]);
    expect(cluster.logOnDisk("2")).toBe("0:1 1:2 2:2 3:3");
    expect(cluster.core("2").isLeaderReady).toBe(true);
    expect(cluster.node("2").applied).toEqual(["a"]);
  });

  it("a command that is sent twice is carried out twice: telling them apart is the state machine's work", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.propose("1", "a");
    cluster.settle("1");
    cluster.deliver();
    cluster.settle("2");
    cluster.settle("3");
    cluster.crash("1");
    cluster.drop();
    // The client heard nothing and asks the next leader.
    cluster.elect("3", ["2", "3"]);
    cluster.propose("3", "a");
    cluster.stabilize(["2", "3"]);
    expect(cluster.node("3").applied).toEqual(["a", "a"]);
  });

  it("a read is no entry: it is answered after a majority was heard from, at what is committed then", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.propose("1", "a");
    cluster.stabilize();
    const before = cluster.logOnDisk("1");
    cluster.core("1").readIndex(7);
    cluster.settle("1");
    expect(cluster.node("1").reads).toEqual([]);
    cluster.stabilize(["1", "2"]);
    expect(cluster.node("1").reads).toEqual([{ kind: "readable", token: 7, end: 3 }]);
    expect(cluster.logOnDisk("1")).toBe(before);
  });
});
