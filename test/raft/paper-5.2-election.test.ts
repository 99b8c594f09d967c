import { describe, expect, it } from "vitest";
import { DEFAULT_SETTINGS, TICK_MS } from "../../src/raft/settings.ts";
import { Cluster } from "./cluster.ts";
import { heartbeat, voteRequest } from "./messages.ts";

/** Ticks until a node that hears nothing more begins to campaign. */
function ticksUntilCampaign(cluster: Cluster, name: string): number {
  for (let ticks = 1; ticks < 1000; ticks++) {
    cluster.tick(name);
    if (cluster.core(name).role !== "follower") return ticks;
  }
  return Number.POSITIVE_INFINITY;
}

describe("Raft paper 5.2: leader election", () => {
  it("a leader sends heartbeats, and a follower that hears them stays one", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    for (let round = 0; round < 100; round++) {
      for (const name of ["1", "2", "3"]) cluster.tick(name);
      cluster.stabilize();
    }
    expect(cluster.core("1").role).toBe("leader");
    expect(cluster.core("1").term).toBe(2);
  });

  it("D-37: waits are random, 500 to 1,000 ms with a leader known, 150 to 300 ms at a cold start", () => {
    const warm = new Set<number>();
    const cold = new Set<number>();
    const cluster = new Cluster(5);
    for (const name of ["2", "3", "4", "5"]) {
      for (let life = 0; life < 10; life++) {
        cluster.crash(name);
        cluster.restart(name);
        cold.add(ticksUntilCampaign(cluster, name) * TICK_MS);
        cluster.crash(name);
        cluster.restart(name);
        cluster.step(heartbeat({ from: "1", to: name, term: 2 }));
        warm.add(ticksUntilCampaign(cluster, name) * TICK_MS);
      }
    }
    expect(Math.min(...cold)).toBeGreaterThanOrEqual(150);
    expect(Math.max(...cold)).toBeLessThanOrEqual(300);
    expect(Math.min(...warm)).toBeGreaterThanOrEqual(500);
    expect(Math.max(...warm)).toBeLessThanOrEqual(1000);
    expect(warm.size).toBeGreaterThan(5);
  });

  it("wins with votes of a majority, its own counted only once it is durable", () => {
    const cluster = new Cluster(3);
    cluster.core("1").campaign();
    cluster.take("1");
    cluster.deliver();
    cluster.settle("2");
    cluster.deliver();
    cluster.take("1");
    expect(cluster.core("1").role).toBe("candidate");
    expect(cluster.network.filter((message) => message.kind === "voteRequest" && !message.isPreVote)).toEqual([]);
    cluster.sync("1");
    cluster.deliver();
    cluster.settle("2");
    cluster.deliver();
    expect(cluster.core("1").role).toBe("leader");
  });

  it("one vote per term, first come first served, also after a crash", () => {
    const cluster = new Cluster(3);
    const log = { end: 1, lastTerm: 1 };
    cluster.step(voteRequest({ from: "2", to: "1", term: 5 }, log));
    cluster.settle("1");
    cluster.step(voteRequest({ from: "3", to: "1", term: 5 }, log));
    cluster.settle("1");
    cluster.crash("1");
    cluster.restart("1");
    cluster.step(voteRequest({ from: "3", to: "1", term: 5 }, log));
    cluster.step(voteRequest({ from: "2", to: "1", term: 5 }, log));
    cluster.settle("1");
    const votes = cluster
      .sentBy("1")
      .flatMap((message) => (message.kind === "voteResponse" ? [[message.to, message.isGranted]] : []));
    expect(votes).toEqual([
      ["2:a", true],
      ["3:a", false],
      ["3:a", false],
      ["2:a", true],
    ]);
  });

  it("a candidate that hears from a leader of its term follows it", () => {
    const cluster = new Cluster(3);
    cluster.step(voteRequest({ from: "2", to: "1", term: 3 }, { end: 1, lastTerm: 1 }));
    cluster.step(heartbeat({ from: "3", to: "1", term: 3 }));
    expect(cluster.core("1").role).toBe("follower");
    expect(cluster.core("1").leader).toBe("3:a");
  });

  it("a split vote ends with a new wait, not with a leader", () => {
    const cluster = new Cluster(4);
    cluster.core("1").campaign();
    cluster.core("2").campaign();
    cluster.stabilize();
    const leaders = ["1", "2", "3", "4"].filter((name) => cluster.core(name).role === "leader");
    expect(leaders.length).toBeLessThanOrEqual(1);
    expect(cluster.core("1").term).toBeLessThanOrEqual(3);
  });

  it("Q-3: a later term does not put off the election timer of a node that waits", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    const { electionTicksMax } = DEFAULT_SETTINGS;
    for (let tick = 0; tick < electionTicksMax; tick++) {
      cluster.tick("2");
      if (tick % 5 === 0) cluster.step(voteRequest({ from: "3", to: "2", term: 10 + tick }, { end: 0, lastTerm: 0 }));
    }
    expect(cluster.sent.some(({ from, kind }) => from === "2:a" && kind === "voteRequest")).toBe(false);
    cluster.settle("2");
    expect(cluster.sentBy("2").some(({ kind }) => kind === "voteRequest")).toBe(true);
  });

  it("Q-5: a leader without contact to a majority steps down, with one voter never", () => {
    const three = new Cluster(3);
    three.elect("1");
    three.tick("1", DEFAULT_SETTINGS.electionTicksMax);
    expect(three.core("1").role).toBe("follower");
    const one = new Cluster(1);
    one.elect("1");
    one.tick("1", 1000);
    expect(one.core("1").role).toBe("leader");
  });
});
