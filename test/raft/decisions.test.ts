import { describe, expect, it } from "vitest";
import { createRng } from "../../src/base/rng.ts";
import { emptyState, RaftNode } from "../../src/raft/raft-node.ts";
import { DEFAULT_SETTINGS } from "../../src/raft/settings.ts";
import type { Term } from "../../src/raft/types.ts";
import { Cluster, id } from "./cluster.ts";
import { command, voteRequest } from "./messages.ts";

describe("what Ottla decided beyond the papers", () => {
  it("D-1: a leader that restarts is a follower, its term spent: it neither leads nor votes in it", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.crash("1");
    cluster.restart("1");
    expect(cluster.core("1").role).toBe("follower");
    cluster.step(voteRequest({ from: "2", to: "1", term: 2 }, { end: 9, lastTerm: 2 }));
    cluster.settle("1");
    expect(cluster.sentBy("1")).toMatchObject([{ kind: "voteResponse", isGranted: false }]);
    cluster.elect("1");
    expect(cluster.core("1").term).toBe(3);
  });

  it("Q-11: a term known only from the log is spent: no vote in it", () => {
    const restored = {
      ...emptyState(),
      log: { start: 0, startTerm: 0 as Term, entries: [command(0, 4)] },
    };
    const node = new RaftNode({ rng: createRng(1) }, { self: id("1"), settings: DEFAULT_SETTINGS, restored });
    expect(node.hardState).toEqual({ term: 4, votedFor: "1:a" });
    node.step(voteRequest({ from: "2", to: "1", term: 4 }, { end: 9, lastTerm: 4 }));
    expect(node.ready()?.write?.messagesAfterSync).toMatchObject([{ isGranted: false }]);
  });

  it("D-19: a leader that cannot write hands over and falls silent", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.core("1").storageFailed();
    expect(cluster.core("1").role).toBe("follower");
    cluster.settle("1");
    expect(cluster.sentBy("1").map(({ kind }) => kind)).toEqual(["timeoutNow"]);
    cluster.step(voteRequest({ from: "2", to: "1", term: 3 }, { end: 2, lastTerm: 2 }));
    cluster.tick("1", 200);
    cluster.settle("1");
    expect(cluster.sentBy("1")).toEqual([]);
    expect(cluster.core("1").term).toBe(2);
  });

  it("D-19: what was under way when the disk failed is written again, and only then acknowledged", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.propose("1", "x");
    cluster.take("1");
    cluster.deliver();
    cluster.take("2");
    const [lost] = cluster.node("2").pending.splice(0);
    cluster.core("2").storageFailed();
    cluster.core("2").storageRecovered();
    cluster.core("2").advance({ id: lost?.id ?? 0, stage: "durable" });
    expect(cluster.core("2").log.durableEnd).toBe(2);
    const write = cluster.take("2")?.write;
    expect(write).toMatchObject({ cutSuffixTo: 2, hardState: { term: 2 } });
    expect(write?.entries.map(({ index }) => index)).toEqual([2]);
    cluster.sync("1");
    cluster.sync("2");
    cluster.tick("1", 4);
    cluster.stabilize();
    expect(cluster.node("2").applied).toEqual(["x"]);
  });

  it("D-20: an empty node neither campaigns nor votes, but follows", () => {
    const cluster = new Cluster(3);
    cluster.add(id("4"));
    cluster.core("4").campaign();
    cluster.tick("4", 500);
    expect(cluster.core("4").role).toBe("follower");
    expect(cluster.core("4").term).toBe(0);
  });

  it("D-21: observers get what is committed from any voter, within limits, or are sent to the snapshot", () => {
    const cluster = new Cluster(3, { retainedEntries: 1 });
    cluster.elect("1");
    for (const text of ["a", "b", "c"]) cluster.propose("1", text);
    cluster.stabilize();
    cluster.propose("1", "open");
    const limits = { entriesMax: 2, bytesMax: 1000 };
    expect(
      cluster
        .core("1")
        .committedFrom(2, limits)
        ?.map(({ index }) => index),
    ).toEqual([2, 3]);
    expect(
      cluster
        .core("2")
        .committedFrom(4, limits)
        ?.map(({ index }) => index),
    ).toEqual([4]);
    expect(cluster.core("1").committedFrom(5, limits)).toEqual([]);
    cluster.snapshot("1");
    expect(cluster.core("1").committedFrom(2, limits)).toBeUndefined();
    expect(
      cluster
        .core("1")
        .committedFrom(4, limits)
        ?.map(({ index }) => index),
    ).toEqual([4]);
  });

  it("D-22: a refused connection to the leader is leader loss, one to anybody else is not", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.crash("1");
    cluster.core("2").peerUnreachable(id("3"));
    expect(cluster.core("2").leader).toBe("1:a");
    cluster.core("2").peerUnreachable(id("1"));
    cluster.core("3").peerUnreachable(id("1"));
    let ticks = 0;
    for (; ticks < 40 && cluster.up.every(({ node }) => node.role !== "leader"); ticks++) {
      cluster.tick("2");
      cluster.tick("3");
      cluster.stabilize();
    }
    // Far below the 20 ticks of the shortest election timeout.
    expect(ticks).toBeLessThanOrEqual(DEFAULT_SETTINGS.coldTicksMin + DEFAULT_SETTINGS.coldTicksMax);
    expect(cluster.up.filter(({ node }) => node.role === "leader").length).toBe(1);
  });

  it("the leader itself asking for votes is leader loss as well: it restarted", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.crash("1");
    cluster.restart("1");
    cluster.core("1").campaign();
    cluster.stabilize();
    expect(cluster.core("1").role).toBe("leader");
  });

  it("Q-24: one that cannot campaign does not send others to a leader that is silent for long", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.add(id("4"));
    cluster.core("1").proposeConfChange({ kind: "addLearner", replica: id("4") });
    cluster.stabilize();
    expect(cluster.core("4").leader).toBe("1:a");
    cluster.tick("4", DEFAULT_SETTINGS.electionTicksMax);
    expect(cluster.core("4").leader).toBeNull();
    expect(cluster.core("4").propose({ bytes: new Uint8Array(1) })).toEqual({ kind: "notLeader", leader: null });
  });

  it("Q-18: a proposal decided in another term is refused", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    const proposal = { bytes: new Uint8Array(1), term: 1 as Term };
    expect(cluster.core("1").propose(proposal)).toEqual({ kind: "notLeader", leader: "1:a" });
  });
});
