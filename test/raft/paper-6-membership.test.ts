import { describe, expect, it } from "vitest";
import type { ConfChange } from "../../src/raft/configuration.ts";
import { Cluster, id } from "./cluster.ts";

const add = (replica: string): ConfChange => ({ kind: "addLearner", replica: id(replica) });
const promote = (replica: string): ConfChange => ({ kind: "promote", replica: id(replica) });
const remove = (replica: string): ConfChange => ({ kind: "remove", replica: id(replica) });

describe("Raft paper 6, thesis 4: membership, one voter at a time (Q-16)", () => {
  it("a new member is a learner first: it gets everything and decides nothing", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.add(id("4"));
    expect(cluster.core("1").proposeConfChange(add("4")).kind).toBe("accepted");
    cluster.stabilize();
    cluster.propose("1", "x");
    cluster.stabilize(["1", "4"]);
    expect(cluster.core("1").log.commitEnd).toBe(3);
    cluster.tick("1", 4);
    cluster.stabilize();
    expect(cluster.node("4").applied).toEqual(["x"]);
    cluster.tick("4", 200);
    expect(cluster.core("4").role).toBe("follower");
  });

  it("a configuration is in force as soon as it is appended, and commits by its own majority", () => {
    const cluster = new Cluster(2);
    cluster.elect("1");
    cluster.core("1").proposeConfChange(remove("2"));
    expect(cluster.core("1").configuration.voters).toEqual(["1:a"]);
    cluster.crash("2");
    cluster.stabilize();
    expect(cluster.core("1").log.commitEnd).toBe(3);
  });

  it("the next change only when the previous one is committed, and none before an entry of the own term", () => {
    const cluster = new Cluster(3);
    cluster.core("1").campaign();
    cluster.stabilize(["1"]);
    cluster.elect("2", ["2", "3"]);
    expect(cluster.core("2").proposeConfChange(add("4")).kind).toBe("accepted");
    expect(cluster.core("2").proposeConfChange(add("5"))).toMatchObject({ kind: "busy" });
    cluster.stabilize(["2", "3"]);
    expect(cluster.core("2").proposeConfChange(add("5")).kind).toBe("accepted");

    const fresh = new Cluster(3);
    fresh.core("1").campaign();
    while (fresh.core("1").role !== "leader") {
      fresh.settle("1");
      fresh.deliver();
      fresh.settle("2");
      fresh.deliver();
    }
    expect(fresh.core("1").proposeConfChange(add("4"))).toEqual({
      kind: "busy",
      reason: "nothing of term 2 is committed yet",
    });
  });

  it("a learner is promoted only when it has caught up", () => {
    const cluster = new Cluster(3, { promotionLagMax: 0 });
    cluster.elect("1");
    cluster.add(id("4"));
    cluster.core("1").proposeConfChange(add("4"));
    cluster.stabilize(["1", "2", "3"]);
    expect(cluster.core("1").proposeConfChange(promote("4"))).toMatchObject({
      kind: "busy",
      reason: "4:a lacks 3 entries",
    });
    cluster.tick("1", 4);
    cluster.stabilize();
    expect(cluster.core("1").proposeConfChange(promote("4")).kind).toBe("accepted");
  });

  it("D-20: a learner with nothing in its log is not promoted, however short the leader's is", () => {
    const cluster = new Cluster(3, { promotionLagMax: 64 });
    cluster.elect("1");
    cluster.add(id("4"));
    cluster.core("1").proposeConfChange(add("4"));
    cluster.stabilize(["1", "2", "3"]);
    expect(cluster.core("1").proposeConfChange(promote("4"))).toMatchObject({
      kind: "busy",
      reason: "4:a lacks 3 entries",
    });
  });

  it("what makes no sense is refused by name", () => {
    const cluster = new Cluster(1);
    cluster.elect("1");
    expect(cluster.core("1").proposeConfChange(remove("1"))).toEqual({
      kind: "refused",
      reason: "1:a is the only voter",
    });
    expect(cluster.core("1").proposeConfChange(remove("7"))).toEqual({ kind: "refused", reason: "7:a is no member" });
    expect(cluster.core("1").proposeConfChange(add("1"))).toEqual({
      kind: "refused",
      reason: "1:a is a member already",
    });
    expect(cluster.core("1").proposeConfChange(promote("1"))).toEqual({ kind: "refused", reason: "1:a is no learner" });
  });

  it("a quorum of one grows to three without losing anything, and goes on when its founder dies", () => {
    const cluster = new Cluster(1);
    cluster.elect("1");
    cluster.propose("1", "x");
    cluster.stabilize();
    for (const name of ["2", "3"]) {
      cluster.add(id(name));
      for (const change of [add(name), promote(name)]) {
        expect(cluster.core("1").proposeConfChange(change).kind).toBe("accepted");
        cluster.stabilize();
        cluster.tick("1", 4);
        cluster.stabilize();
      }
    }
    cluster.crash("1");
    cluster.elect("2");
    expect(cluster.node("3").applied).toEqual(["x"]);
    expect(cluster.core("2").configuration.voters).toEqual(["1:a", "2:a", "3:a"]);
  });

  it("a cut of the entry brings the configuration before it back, also across a restart", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.core("1").proposeConfChange(remove("3"));
    cluster.settle("1");
    cluster.drop();
    cluster.crash("1");
    cluster.restart("1");
    expect(cluster.core("1").configuration.voters).toEqual(["1:a", "2:a"]);
    cluster.elect("2", ["2", "3"]);
    cluster.tick("2", 4);
    cluster.stabilize();
    expect(cluster.core("1").configuration.voters).toEqual(["1:a", "2:a", "3:a"]);
  });

  it("a removed leader goes on without its own vote, and steps down once its removal is committed", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.core("1").proposeConfChange(remove("1"));
    cluster.settle("1");
    cluster.deliver(({ to }) => to === "2:a");
    cluster.settle("2");
    cluster.deliver(({ to }) => to === "1:a");
    expect(cluster.core("1").role).toBe("leader");
    expect(cluster.core("1").log.commitEnd).toBe(2);
    cluster.stabilize();
    expect(cluster.core("1").role).toBe("follower");
    expect(["2", "3"].filter((name) => cluster.core(name).role === "leader").length).toBe(1);
    cluster.tick("1", 500);
    expect(cluster.core("1").role).toBe("follower");
  });

  it("one that an uncommitted change leaves out still campaigns: its log may be the only one that can win (thesis 4.2.2)", () => {
    const cluster = new Cluster(2);
    cluster.elect("1");
    cluster.core("1").proposeConfChange(remove("1"));
    cluster.settle("1");
    cluster.drop();
    for (const name of ["1", "2"]) {
      cluster.crash(name);
      cluster.restart(name);
    }
    cluster.core("2").campaign();
    cluster.stabilize();
    expect(cluster.core("2").role).not.toBe("leader");
    cluster.core("1").campaign();
    cluster.stabilize();
    cluster.tick("2", 100);
    cluster.stabilize();
    expect(cluster.core("2").role).toBe("leader");
    expect(cluster.core("2").configuration.voters).toEqual(["2:a"]);
  });

  it("a removed node that does not know it disturbs nobody", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.crash("3");
    cluster.core("1").proposeConfChange(remove("3"));
    cluster.stabilize();
    cluster.restart("3");
    for (let round = 0; round < 5; round++) {
      cluster.tick("3", 50);
      cluster.stabilize();
    }
    expect(cluster.core("1").role).toBe("leader");
    expect(cluster.core("1").term).toBe(2);
  });

  it("D-20: votes of an old pair do not count, and a node without anything in its log gives none", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.crash("3");
    cluster.crash("1");
    cluster.add(id("3:b"));
    cluster.core("2").peerUnreachable(id("1"));
    cluster.core("2").campaign();
    cluster.settle("2");
    const asked = cluster.sentBy("2").map(({ to }) => to);
    expect(asked).toEqual(["1:a", "3:a"]);
    for (const isPreVote of [true, false])
      cluster.step({
        kind: "voteRequest",
        from: id("2"),
        to: id("3:b"),
        term: 3 as never,
        isPreVote,
        isTransfer: false,
        end: 2,
        lastTerm: 2 as never,
      });
    cluster.settle("3:b");
    expect(cluster.sentBy("3:b")).toMatchObject([{ isGranted: false }, { isGranted: false }]);
  });
});
