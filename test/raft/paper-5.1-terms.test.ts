import { describe, expect, it } from "vitest";
import { Cluster } from "./cluster.ts";
import { append, heartbeat, voteRequest, voteResponse } from "./messages.ts";

describe("Raft paper 5.1: terms", () => {
  it("a follower takes over a later term and forgets its vote", () => {
    const cluster = new Cluster(3);
    cluster.step(heartbeat({ from: "2", to: "1", term: 4 }));
    expect(cluster.core("1").hardState).toEqual({ term: 4, votedFor: null });
    expect(cluster.core("1").leader).toBe("2:a");
  });

  it("a candidate and a leader that hear of a later term become followers", () => {
    const candidate = new Cluster(3);
    candidate.core("1").campaign();
    candidate.settle("1");
    candidate.step(heartbeat({ from: "2", to: "1", term: 4 }));
    expect(candidate.core("1").role).toBe("follower");

    const leader = new Cluster(3);
    leader.elect("1");
    leader.step(voteResponse({ from: "2", to: "1", term: 7 }, false));
    expect(leader.core("1").role).toBe("follower");
    expect(leader.core("1").term).toBe(7);
  });

  it("requests of an earlier term change nothing and are answered with the present one", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.sentBy("2");
    const before = cluster.describe("2");
    cluster.step(append({ from: "3", to: "2", term: 1 }, { start: 2, prevTerm: 2 }));
    cluster.step(voteRequest({ from: "3", to: "2", term: 1 }, { end: 9, lastTerm: 9 }));
    cluster.settle("2");
    expect(cluster.describe("2")).toBe(before);
    expect(cluster.sentBy("2").map(({ term }) => term)).toEqual([2, 2]);
  });

  it("Q-1: nothing of a new term leaves before the term is durable", () => {
    const cluster = new Cluster(3);
    cluster.step(heartbeat({ from: "2", to: "1", term: 4 }));
    const ready = cluster.take("1");
    expect(ready?.messages).toEqual([]);
    expect(ready?.write?.hardState).toEqual({ term: 4, votedFor: null });
    expect(ready?.write?.messagesAfterSync.map(({ kind, term }) => [kind, term])).toEqual([["heartbeatResponse", 4]]);
  });

  it("a message for the same node on another disk is not for this one (D-20)", () => {
    const cluster = new Cluster(3);
    const before = cluster.describe("1");
    const stray = { ...heartbeat({ from: "2", to: "1:z", term: 9 }) };
    cluster.core("1").step(stray);
    expect(cluster.describe("1")).toBe(before);
  });
});
