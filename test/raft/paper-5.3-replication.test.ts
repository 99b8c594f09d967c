import { describe, expect, it } from "vitest";
import { Cluster } from "./cluster.ts";
import { append, command, heartbeat } from "./messages.ts";

describe("Raft paper 5.3: log replication", () => {
  it("a command is committed once a majority has it durably, and then applied by all", () => {
    const cluster = new Cluster(5);
    cluster.elect("1");
    cluster.propose("1", "x");
    cluster.stabilize(["1", "2"]);
    expect(cluster.core("1").log.commitEnd).toBe(2);
    cluster.tick("1", 4);
    cluster.stabilize(["1", "2", "3"]);
    expect(cluster.core("1").log.commitEnd).toBe(3);
    cluster.tick("1", 4);
    cluster.stabilize();
    for (const name of ["1", "2", "3", "4", "5"]) expect(cluster.node(name).applied).toEqual(["x"]);
  });

  it("what is accepted is not yet acknowledged: the answer waits for the sync (D-34)", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.propose("1", "x");
    cluster.take("1");
    cluster.deliver();
    cluster.take("2");
    const { log } = cluster.core("2");
    expect([log.end, log.durableEnd]).toEqual([3, 2]);
    expect(cluster.sentBy("2")).toEqual([]);
    const [batch] = cluster.node("2").pending;
    cluster.core("2").advance({ id: batch?.id ?? 0, stage: "written" });
    expect([log.end, log.writtenEnd, log.durableEnd]).toEqual([3, 3, 2]);
    cluster.sync("2");
    expect(log.durableEnd).toBe(3);
    expect(cluster.sentBy("2").map(({ kind }) => kind)).toEqual(["appendMatched"]);
  });

  it("a leader counts itself only up to what is durable on its own disk", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.propose("1", "x");
    cluster.take("1");
    cluster.deliver();
    cluster.settle("2");
    cluster.deliver();
    expect(cluster.core("1").log.commitEnd).toBe(2);
    cluster.sync("1");
    expect(cluster.core("1").log.commitEnd).toBe(3);
  });

  it("consistency check: an append that does not fit is refused and leaves the log alone", () => {
    const cluster = new Cluster(3);
    cluster.step(append({ from: "2", to: "1", term: 3 }, { start: 5, prevTerm: 3, entries: [command(5, 3)] }));
    cluster.step(append({ from: "2", to: "1", term: 3 }, { start: 1, prevTerm: 2, entries: [command(1, 3)] }));
    cluster.settle("1");
    expect(cluster.core("1").log.end).toBe(1);
    expect(cluster.sentBy("1").map(({ kind }) => kind)).toEqual(["appendRefused", "appendRefused"]);
  });

  it("only from the first conflict on entries are cut; an old append cuts nothing", () => {
    const cluster = new Cluster(3);
    const sender = { from: "2", to: "1", term: 3 };
    const entries = [command(1, 2), command(2, 2), command(3, 3)];
    cluster.step(append(sender, { start: 1, prevTerm: 1, entries }));
    cluster.settle("1");
    cluster.step(append(sender, { start: 1, prevTerm: 1, entries: entries.slice(0, 1) }));
    expect(cluster.core("1").log.end).toBe(4);
    cluster.step(append({ ...sender, term: 4 }, { start: 2, prevTerm: 2, entries: [command(2, 4)] }));
    const ready = cluster.take("1");
    expect(ready?.write?.cutSuffixTo).toBe(2);
    expect(ready?.write?.entries.map(({ index, term }) => `${index}:${term}`)).toEqual(["2:4"]);
    cluster.sync("1");
    expect(cluster.logOnDisk("1")).toBe("0:1 1:2 2:4");
  });

  it("a late completion does not speak for entries that took the place of its own", () => {
    const cluster = new Cluster(3);
    const sender = { from: "2", to: "1", term: 3 };
    cluster.step(append(sender, { start: 1, prevTerm: 1, entries: [command(1, 3), command(2, 3), command(3, 3)] }));
    cluster.take("1");
    cluster.step(append({ ...sender, from: "3", term: 4 }, { start: 2, prevTerm: 3, entries: [command(2, 4)] }));
    cluster.take("1");
    const [first, second] = cluster.node("1").pending.map((batch) => batch.id);
    cluster.core("1").advance({ id: first ?? 0, stage: "durable" });
    expect(cluster.core("1").log.durableEnd).toBe(2);
    cluster.core("1").advance({ id: second ?? 0, stage: "durable" });
    expect(cluster.core("1").log.durableEnd).toBe(3);
  });

  it("figure 7: every shape of follower log is brought to the leader's", () => {
    // Terms of the entries from index 1 on; the leader's first.
    const leader = [1, 1, 1, 4, 4, 5, 5, 6, 6, 6];
    const followers = [
      leader.slice(0, 9),
      leader.slice(0, 4),
      [...leader, 6],
      [...leader, 7, 7],
      [1, 1, 1, 4, 4, 4, 4],
      [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3],
    ];
    for (const terms of followers) {
      const cluster = new Cluster(3);
      for (const [name, log] of [
        ["1", leader],
        ["2", terms],
        ["3", leader.slice(0, 1)],
      ] as const) {
        const { disk } = cluster.node(name);
        for (const [at, term] of log.entries()) disk.entries.push(command(at + 1, term));
        disk.hardState = { term: 7 as never, votedFor: null };
        cluster.restart(name);
      }
      cluster.elect("1", ["1", "3"]);
      cluster.tick("1", 4);
      cluster.stabilize();
      cluster.tick("1", 4);
      cluster.stabilize();
      expect(cluster.logOnDisk("2")).toBe(cluster.logOnDisk("1"));
      expect(cluster.node("2").applied).toEqual(cluster.node("1").applied);
    }
  });

  it("one question skips a whole term of conflicting entries", () => {
    const cluster = new Cluster(3);
    for (let index = 1; index <= 200; index++) cluster.node("2").disk.entries.push(command(index, 2));
    for (let index = 1; index <= 200; index++) cluster.node("1").disk.entries.push(command(index, 3));
    for (const name of ["1", "2", "3"]) {
      cluster.node(name).disk.hardState = { term: 3 as never, votedFor: null };
      cluster.restart(name);
    }
    cluster.elect("1", ["1", "3"]);
    cluster.tick("1", 4);
    const refusals = cluster.stabilize().filter(({ from, kind }) => from === "2:a" && kind === "appendRefused");
    expect(cluster.logOnDisk("2")).toBe(cluster.logOnDisk("1"));
    expect(refusals.length).toBeLessThanOrEqual(2);
  });

  it("lost appends and lost answers are found by the next heartbeat", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    for (const lost of ["append", "appendMatched"]) {
      cluster.propose("1", lost);
      cluster.take("1");
      cluster.drop(({ kind, to }) => kind === "append" && to === "3:a");
      if (lost === "append") cluster.drop();
      cluster.deliver();
      cluster.settle("2");
      cluster.drop();
      cluster.sync("1");
      cluster.tick("1", 4);
      cluster.stabilize();
      expect(cluster.node("3").applied.at(-1)).toBe(lost);
    }
  });

  it("limits hold: entries per message, messages in flight, proposals that wait", () => {
    const cluster = new Cluster(3, { entriesPerMessageMax: 2, inFlightMessagesMax: 3, uncommittedEntriesMax: 20 });
    cluster.elect("1");
    for (let count = 0; count < 20; count++) cluster.propose("1", `${count}`);
    expect(cluster.core("1").propose({ bytes: new Uint8Array(1) }).kind).toBe("busy");
    cluster.take("1");
    const appends = cluster.network.flatMap((message) =>
      message.kind === "append" && message.to === "2:a" ? [message.entries.length] : [],
    );
    expect(appends).toEqual([2, 2, 2]);
    cluster.stabilize();
    expect(cluster.node("3").applied.length).toBe(20);
  });

  it("a follower knows only what the leader says is committed, and never beyond its own log", () => {
    const cluster = new Cluster(3);
    cluster.step(
      append({ from: "2", to: "1", term: 3 }, { start: 1, prevTerm: 1, entries: [command(1, 3)], commitEnd: 9 }),
    );
    cluster.settle("1");
    expect(cluster.core("1").log.commitEnd).toBe(2);
    cluster.step(heartbeat({ from: "2", to: "1", term: 3 }, 9));
    expect(cluster.core("1").log.commitEnd).toBe(2);
  });
});
