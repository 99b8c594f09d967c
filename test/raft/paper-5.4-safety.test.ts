import { describe, expect, it } from "vitest";
import { Cluster } from "./cluster.ts";
import { append, command, voteRequest } from "./messages.ts";

describe("Raft paper 5.4: safety", () => {
  it.each([
    { log: { end: 2, lastTerm: 3 }, isGranted: true, about: "a later last term wins over a longer log" },
    { log: { end: 3, lastTerm: 2 }, isGranted: true, about: "the same log" },
    { log: { end: 4, lastTerm: 2 }, isGranted: true, about: "a longer log" },
    { log: { end: 2, lastTerm: 2 }, isGranted: false, about: "a shorter log" },
    { log: { end: 9, lastTerm: 1 }, isGranted: false, about: "an earlier last term, however long the log" },
  ])("5.4.1: $about: vote granted $isGranted", ({ log, isGranted }) => {
    const cluster = new Cluster(3);
    cluster.step(
      append({ from: "2", to: "1", term: 2 }, { start: 1, prevTerm: 1, entries: [command(1, 2), command(2, 2)] }),
    );
    cluster.settle("1");
    cluster.core("1").peerUnreachable("2:a" as never);
    cluster.sentBy("1");
    cluster.step(voteRequest({ from: "3", to: "1", term: 5 }, log));
    cluster.settle("1");
    expect(cluster.sentBy("1")).toMatchObject([{ kind: "voteResponse", isGranted, term: 5 }]);
  });

  it("5.4.2: entries of earlier terms commit only through one of the leader's own (Q-7)", () => {
    const cluster = new Cluster(3, { entriesPerMessageMax: 1, inFlightMessagesMax: 1 });
    for (const name of ["1", "2"]) {
      cluster.node(name).disk.entries.push(command(1, 2, "old"));
      cluster.node(name).disk.hardState = { term: 2 as never, votedFor: null };
      cluster.restart(name);
    }
    cluster.core("1").campaign();
    cluster.settle("1");
    while (cluster.core("1").role !== "leader") {
      cluster.deliver();
      cluster.settle("2");
      cluster.settle("1");
    }
    cluster.drop();
    // Node 3 gets the old entry: three of three have it, and it is not committed.
    cluster.tick("1", 4);
    for (
      let step = 0;
      step < 6 &&
      cluster
        .core("1")
        .peers()
        .get("3:a" as never)?.matchEnd !== 2;
      step++
    ) {
      cluster.take("1");
      cluster.deliver(({ to }) => to === "3:a");
      cluster.settle("3");
      cluster.deliver(({ to }) => to === "1:a");
    }
    expect(
      cluster
        .core("1")
        .peers()
        .get("3:a" as never)?.matchEnd,
    ).toBe(2);
    expect(cluster.core("1").log.commitEnd).toBe(0);
    cluster.tick("1", 4);
    cluster.stabilize();
    expect(cluster.node("3").applied).toEqual(["old"]);
  });

  it("Q-10: committed entries are never cut: a leader that wants it is a bug, and stops the process", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.propose("1", "x");
    cluster.stabilize();
    expect(cluster.core("2").log.commitEnd).toBe(3);
    const forged = append({ from: "3", to: "2", term: 9 }, { start: 2, prevTerm: 2, entries: [command(2, 9)] });
    expect(() => cluster.step(forged)).toThrow("3:a has term 9 at 2, committed here up to 3 is term 2");
  });

  it("two leaders in one term are a bug that an assertion names", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    const forged = append({ from: "3", to: "1", term: 2 }, { start: 2, prevTerm: 2 });
    expect(() => cluster.step(forged)).toThrow("two leaders in term 2: 1:a and 3:a");
  });
});
