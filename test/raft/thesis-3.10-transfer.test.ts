import { describe, expect, it } from "vitest";
import { DEFAULT_SETTINGS } from "../../src/raft/settings.ts";
import { Cluster, id } from "./cluster.ts";
import { timeoutNow } from "./messages.ts";

describe("Raft thesis 3.10: leadership transfer", () => {
  it("brings the target up to date first, then tells it to campaign, and a live leader is no reason to refuse it", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.propose("1", "x");
    expect(cluster.core("1").transferLeadership(id("3")).kind).toBe("started");
    cluster.stabilize();
    expect(cluster.core("3").role).toBe("leader");
    expect(cluster.core("3").term).toBe(3);
    expect(cluster.node("3").applied).toEqual(["x"]);
  });

  it("takes no proposals meanwhile, and gives up after an election timeout", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.crash("3");
    cluster.propose("1", "x");
    cluster.core("1").transferLeadership(id("3"));
    expect(cluster.core("1").propose({ bytes: new Uint8Array(1) })).toMatchObject({ kind: "busy" });
    expect(cluster.core("1").proposeConfChange({ kind: "addLearner", replica: id("4") })).toMatchObject({
      kind: "busy",
    });
    for (let tick = 0; tick < DEFAULT_SETTINGS.electionTicksMax; tick++) {
      cluster.tick("1");
      cluster.stabilize();
    }
    expect(cluster.core("1").transferTarget).toBeNull();
    cluster.propose("1", "y");
  });

  it("only to another voter, one at a time, and only by the leader", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.propose("1", "x");
    expect(cluster.core("1").transferLeadership(id("1"))).toEqual({ kind: "refused", reason: "1:a leads already" });
    expect(cluster.core("1").transferLeadership(id("8"))).toEqual({ kind: "refused", reason: "8:a is no voter" });
    expect(cluster.core("2").transferLeadership(id("3"))).toEqual({ kind: "notLeader", leader: "1:a" });
    cluster.core("1").transferLeadership(id("2"));
    expect(cluster.core("1").transferLeadership(id("3"))).toMatchObject({ kind: "busy" });
  });

  it("a request to campaign counts only from the present leader", () => {
    const cluster = new Cluster(3);
    cluster.elect("1");
    cluster.step(timeoutNow({ from: "3", to: "2", term: 2 }));
    cluster.step(timeoutNow({ from: "1", to: "2", term: 1 }));
    expect(cluster.core("2").role).toBe("follower");
  });
});
