import { describe, expect, it } from "vitest";
import { RaftLog } from "../../src/raft/raft-log.ts";
import type { Term } from "../../src/raft/types.ts";
import { Cluster, id } from "./cluster.ts";
import { command } from "./messages.ts";

const SETTINGS = { retainedEntries: 0, snapshotChunkBytes: 4 };

/** Node 3 was away, and what it needs is only in a snapshot of node 1. */
function behind(): Cluster {
  const cluster = new Cluster(3, SETTINGS);
  cluster.elect("1");
  cluster.crash("3");
  for (const text of ["a", "b", "c"]) cluster.propose("1", text);
  cluster.stabilize();
  cluster.snapshot("1");
  cluster.settle("1");
  cluster.restart("3");
  cluster.tick("1", 4);
  return cluster;
}

/** Until all chunks are at node 3, and nothing is durable there. */
function transfer(cluster: Cluster): void {
  for (let step = 0; step < 100 && !cluster.arrived.includes(id("3")); step++) {
    cluster.settle("1");
    cluster.settle("2");
    cluster.settle("3");
    cluster.deliver();
    if (cluster.network.length === 0) cluster.tick("1", 4);
  }
  expect(cluster.arrived).toEqual(["3:a"]);
}

describe("Raft paper 7: snapshots", () => {
  it("named by what is applied; the log below it goes only after it is durable (Q-13, M19)", () => {
    const cluster = new Cluster(1, SETTINGS);
    cluster.elect("1");
    cluster.propose("1", "x");
    cluster.stabilize();
    const named = cluster.core("1").beginSnapshot();
    expect(named).toEqual({ end: 3, lastTerm: 2, configuration: { voters: ["1:a"], learners: [] } });
    cluster.settle("1");
    expect(cluster.node("1").disk.start).toBe(0);
    cluster.snapshot("1");
    const ready = cluster.take("1");
    expect(ready?.write?.cutPrefixTo).toBe(3);
    expect(cluster.core("1").beginSnapshot()).toBeUndefined();
  });

  it("some entries stay for followers that are a little behind", () => {
    const cluster = new Cluster(1, { retainedEntries: 2 });
    cluster.elect("1");
    for (const text of ["a", "b", "c"]) cluster.propose("1", text);
    cluster.stabilize();
    cluster.snapshot("1");
    expect(cluster.core("1").log.start).toBe(3);
  });

  it("arrives in pieces, is installed once durable, and acknowledged after the log began anew", () => {
    const cluster = behind();
    transfer(cluster);
    expect(cluster.core("3").log.commitEnd).toBeLessThan(5);
    expect(cluster.core("1").peers().get(id("3"))?.matchEnd).toBeLessThan(5);
    cluster.keepArrived("3");
    const ready = cluster.take("3");
    expect(ready?.write?.resetLogTo).toEqual({ start: 5, startTerm: 2 });
    expect(ready?.loadSnapshot?.end).toBe(5);
    expect(ready?.messages.filter(({ kind }) => kind === "appendMatched")).toEqual([]);
    expect(cluster.node("3").applied).toEqual(["a", "b", "c"]);
    cluster.stabilize();
    expect(cluster.core("1").peers().get(id("3"))).toMatchObject({ kind: "replicate", matchEnd: 5 });
    cluster.propose("1", "d");
    cluster.stabilize();
    expect(cluster.node("3").applied).toEqual(["a", "b", "c", "d"]);
  });

  it("a crash between the durable snapshot and the cut of the log ends in the same place", () => {
    const cluster = behind();
    transfer(cluster);
    cluster.keepArrived("3");
    cluster.crash("3");
    cluster.restart("3");
    expect(cluster.core("3").log).toMatchObject({ start: 5, end: 5, commitEnd: 5 });
    expect(cluster.take("3")?.write?.resetLogTo).toEqual({ start: 5, startTerm: 2 });
  });

  it("a crash of the receiver in the middle starts the transfer over, and late chunks do no harm", () => {
    const cluster = behind();
    for (let step = 0; step < 6; step++) {
      cluster.settle("1");
      cluster.settle("3");
      cluster.deliver();
    }
    cluster.crash("3");
    cluster.restart("3");
    for (let round = 0; round < 4; round++) {
      cluster.tick("1", 39);
      cluster.stabilize();
    }
    expect(cluster.node("3").applied).toEqual(["a", "b", "c"]);
  });

  it("a spoilt snapshot is fetched again", () => {
    const cluster = behind();
    transfer(cluster);
    cluster.arrived.pop();
    cluster.core("3").snapshotSpoilt();
    for (let round = 0; round < 4; round++) {
      cluster.tick("1", 39);
      cluster.stabilize();
    }
    expect(cluster.node("3").applied).toEqual(["a", "b", "c"]);
  });

  it("the configuration in the snapshot is in force where the log does not say otherwise", () => {
    const cluster = new Cluster(3, SETTINGS);
    cluster.elect("1");
    cluster.add(id("4"));
    cluster.core("1").proposeConfChange({ kind: "addLearner", replica: id("4") });
    cluster.stabilize(["1", "2", "3"]);
    cluster.snapshot("1");
    for (let round = 0; round < 4; round++) {
      cluster.tick("1", 39);
      cluster.stabilize();
    }
    expect(cluster.core("4").configuration).toEqual({ voters: ["1:a", "2:a", "3:a"], learners: ["4:a"] });
    expect(cluster.core("4").log.start).toBe(3);
  });

  it("Q-14: a log whose beginning no snapshot covers is refused", () => {
    const log = { start: 5, startTerm: 2 as Term, entries: [command(5, 2)] };
    expect(() => new RaftLog({ snapshot: null, log })).toThrow("the log starts at 5, the snapshot ends at 0 (Q-14)");
  });

  it("Q-14: a log that does not continue its snapshot is dropped, one that does is kept", () => {
    const configuration = { voters: [], learners: [] };
    const entries = [command(0, 1), command(1, 2), command(2, 2)];
    const log = { start: 0, startTerm: 0 as Term, entries };
    const kept = new RaftLog({ snapshot: { end: 2, lastTerm: 2 as Term, configuration, sizeBytes: 1 }, log });
    expect([kept.start, kept.end, kept.commitEnd]).toEqual([0, 3, 2]);
    const dropped = new RaftLog({ snapshot: { end: 2, lastTerm: 3 as Term, configuration, sizeBytes: 1 }, log });
    expect([dropped.start, dropped.end, dropped.lastTerm]).toEqual([2, 2, 3]);
  });
});
