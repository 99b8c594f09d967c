import { describe, expect, it } from "vitest";
import { Cluster } from "./cluster.ts";

describe("Raft paper 5.5: crashes of followers and candidates", () => {
  it("a follower that is down is asked again until it is back, and gets all that it missed", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.crash("3");
    for (const text of ["a", "b", "c"]) {
      cluster.propose("1", text);
      cluster.tick("1", 8);
      cluster.stabilize();
    }
    expect(cluster.node("2").applied).toEqual(["a", "b", "c"]);
    cluster.restart("3");
    cluster.tick("1", 8);
    cluster.stabilize();
    expect(cluster.node("3").applied).toEqual(["a", "b", "c"]);
    expect(cluster.logOnDisk("3")).toBe(cluster.logOnDisk("1"));
  });

  it("one that wrote and crashed before it answered is sent the same again, and has it once", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.crash("2");
    cluster.propose("1", "a");
    cluster.settle("1");
    cluster.deliver();
    cluster.settle("3");
    cluster.drop();
    cluster.crash("3");
    const before = cluster.logOnDisk("3");
    cluster.restart("3");
    cluster.tick("1", 8);
    cluster.stabilize();
    expect(cluster.logOnDisk("3")).toBe(before);
    expect(cluster.node("1").applied).toEqual(["a"]);
  });

  it("a message that arrives twice changes nothing the second time, and is answered alike", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.propose("1", "a");
    cluster.settle("1");
    const [append] = cluster.network.filter(({ to, kind }) => to === "2:a" && kind === "append");
    if (append === undefined) throw new Error("no append");
    cluster.drop();
    const answers = [1, 2].map(() => {
      cluster.step(append);
      cluster.settle("2");
      return cluster.sentBy("2").map(({ kind, to, term }) => ({ kind, to, term }));
    });
    expect(answers[0]).toHaveLength(1);
    expect(answers[1]).toEqual(answers[0]);
    expect(cluster.logOnDisk("2")).toBe("0:1 1:2 2:2");
  });

  it("a candidate that crashes in its election keeps its vote, and leaves the others free to elect", () => {
    const cluster = new Cluster(3);
    cluster.core("1").campaign();
    // Pre-votes come and go; then its own vote is durable, and nobody has heard of it.
    cluster.settle("1");
    cluster.deliver();
    cluster.settle("2");
    cluster.deliver();
    cluster.settle("1");
    cluster.drop();
    expect(cluster.core("1").hardState).toEqual({ term: 2, votedFor: "1:a" });
    cluster.crash("1");
    cluster.elect("2", ["2", "3"]);
    cluster.propose("2", "a");
    cluster.stabilize(["2", "3"]);
    cluster.restart("1");
    expect(cluster.core("1").role).toBe("follower");
    expect(cluster.core("1").hardState).toEqual({ term: 2, votedFor: "1:a" });
    cluster.tick("2", 8);
    cluster.stabilize();
    expect(cluster.node("1").applied).toEqual(["a"]);
    expect(cluster.core("1").leader).toBe("2:a");
  });
});
