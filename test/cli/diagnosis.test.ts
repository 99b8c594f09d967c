// What `cluster health` says of each state of a cluster, and what to do.
import { describe, expect, it } from "vitest";
import { diagnose } from "../../src/cli/cluster/diagnosis.ts";
import type { LocalFacts } from "../../src/cli/cluster/local-facts.ts";
import { gone, OK_CHECKS, quorum, seen, up, voter, WELL } from "./views.ts";

const brief = (diagnosis: ReturnType<typeof diagnose>) => ({
  condition: diagnosis.condition,
  codes: diagnosis.findings.map(({ code, nodeId }) => (nodeId === null ? code : `${code} ${nodeId}`)),
});

describe("a quorum of three", () => {
  it("all well", () => {
    expect(diagnose(WELL)).toEqual({
      condition: "healthy",
      findings: [],
      remarks: [],
      voters: { total: 3, up: 3 },
      nodes: 3,
    });
  });

  it("one voter gone: it works, and says how much more it can bear", () => {
    const diagnosis = diagnose(seen([up(1, "controller"), up(2, "follower"), gone(3)]));
    expect(brief(diagnosis)).toEqual({ condition: "degraded", codes: ["NODE_DOWN 3"] });
    expect(diagnosis.findings[0]).toMatchObject({
      message: "node 3 (127.0.0.1:7072) does not answer",
      means: "a voter: 0 more losses of voters can be borne",
      hint: expect.stringContaining("ottla cluster start 3") as string,
    });
    expect(diagnosis.voters).toEqual({ total: 3, up: 2 });
  });

  it("two gone: no quorum; what still works, what does not, what to do", () => {
    const last = up(1, "candidate", { leaderId: -1, waitingFor: "a quorum: 1 of 3 voters reachable" });
    const checks = { state: "running", quorum: "waiting for a quorum", controller: "none known" };
    const node = { ...last, readiness: { ready: true, checks } };
    const diagnosis = diagnose(seen([node, gone(2), gone(3)], { controllerId: -1 }));
    expect(brief(diagnosis)).toEqual({
      condition: "no-quorum",
      codes: ["NO_QUORUM", "NODE_DOWN 2", "NODE_DOWN 3", "PARTITIONS_LEADER_SILENT"],
    });
    expect(diagnosis.findings[3]?.message).toMatch(
      /^\d+ partitions led by a node that does not answer: node 2 leads \d+, node 3/,
    );
    const [first] = diagnosis.findings;
    expect(first?.message).toBe("no quorum: 1 of 3 voters up, missing nodes 2, 3");
    expect(first?.means).toMatch(/read as before; acks=all waits there in vain .*; topics cannot be created/);
    expect(first?.hint).toMatch(/ottla cluster start 2 3.*only when their disks are lost.*unsafe-recover/);
    expect(diagnosis.findings[1]?.means).toBe("");
  });

  it("a controller that does not know yet that two are gone does not hide it", () => {
    expect(diagnose(seen([up(1, "controller"), gone(2), gone(3)])).condition).toBe("no-quorum");
  });

  it("no leader for the moment is an election, not the loss of the quorum", () => {
    const nodes = [up(1, "candidate", { leaderId: -1 }), up(2, "follower", { leaderId: -1 }), gone(3)];
    const diagnosis = diagnose(seen(nodes, { controllerId: -1 }));
    expect(brief(diagnosis)).toEqual({ condition: "degraded", codes: ["NO_CONTROLLER", "NODE_DOWN 3"] });
    expect(diagnosis.findings[0]?.hint).toContain("--wait");
  });

  it("a full disk: the partitions that nobody else could take over are counted", () => {
    const checks = { ...OK_CHECKS, disk: "low on space: produce is refused until space is freed" };
    const full = { ...up(2, "follower"), readiness: { ready: true, checks } };
    const diagnosis = diagnose(seen([up(1, "controller"), full, up(3, "follower")]));
    expect(brief(diagnosis)).toEqual({ condition: "degraded", codes: ["NODE_TROUBLED 2", "PARTITIONS_FULL"] });
    expect(diagnosis.findings[1]?.message).toMatch(
      /^\d+ partitions led by a node whose disk is full: node 2 leads \d+$/,
    );
    expect(diagnosis.findings[1]?.means).toContain("STORAGE_FULL");
  });

  it("a fenced node", () => {
    const nodes = [up(1, "controller"), up(2, "follower"), { ...up(3, "follower"), isFenced: true }];
    const diagnosis = diagnose(seen(nodes));
    expect(brief(diagnosis)).toEqual({ condition: "degraded", codes: ["NODE_FENCED 3"] });
    expect(diagnosis.findings[0]?.means).toContain("leads no partition");
    const checks = { state: "running", registration: "fenced (session): leads nothing" };
    const bySelf = { ...up(3, "follower"), isFenced: null, readiness: { ready: false, checks } };
    expect(brief(diagnose(seen([up(1, "controller"), up(2, "follower"), bySelf]))).codes).toEqual(["NODE_FENCED 3"]);
  });

  it("a voter refused for its old disk counts as missing, and is told of once", () => {
    const voters = [voter(1), voter(2), voter(3, { isRefused: true })];
    const checks = { state: "running", quorum: "the disk of node 3 remembers less", controller: "node 1" };
    const tells = { ...up(1, "controller", { voters }), readiness: { ready: true, checks } };
    const own = { ready: false, checks: { state: "starting", quorum: "refused: node 1 remembers more" } };
    const diagnosis = diagnose(seen([tells, up(2, "follower"), { ...up(3, "follower"), readiness: own }]));
    expect(brief(diagnosis)).toEqual({ condition: "degraded", codes: ["VOTER_REFUSED 3"] });
    expect(diagnosis.voters).toEqual({ total: 3, up: 2 });
    expect(diagnosis.findings[0]?.hint).toBe(
      "stop it, ottla cluster wipe 3 --yes, start it, then ottla quorum replace 3",
    );
  });

  it("a wiped voter observes and waits to be let in", () => {
    const diagnosis = diagnose(seen([up(1, "controller"), up(2, "follower"), up(3, "observer")]));
    expect(brief(diagnosis)).toEqual({ condition: "degraded", codes: ["VOTER_DISK_REPLACED 3"] });
    expect(diagnosis.findings[0]?.hint).toBe("ottla quorum replace 3");
    expect(diagnosis.voters).toEqual({ total: 3, up: 2 });
  });

  it("a voter whose old disk still votes counts twice and is there once, whether it runs or not", () => {
    const voters = [1, 2, 3, 3].map((nodeId) => voter(nodeId));
    const [first, second, third] = [up(1, "controller", { voters }), up(2, "follower"), up(3, "follower")];
    const diagnosis = diagnose(seen([first, second, third]));
    expect(brief(diagnosis)).toEqual({ condition: "degraded", codes: ["VOTER_DISK_REPLACED 3"] });
    expect(diagnosis.findings[0]?.hint).toBe("ottla quorum replace 3 once more: it goes on where it stopped");
    expect(diagnosis.voters).toEqual({ total: 4, up: 3 });
    expect(diagnose(seen([first, gone(2), third])).condition).toBe("no-quorum");
    const down = diagnose(seen([first, second, gone(3)]));
    expect([down.condition, down.voters]).toEqual(["no-quorum", { total: 4, up: 2 }]);
    expect(down.findings[0]?.message).toBe("no quorum: 2 of 4 voters up, missing node 3");
    // Wiped again: its third disk votes not at all, and one word is enough.
    const again = diagnose(seen([first, second, up(3, "observer")]));
    expect(again.findings.filter(({ code }) => code === "VOTER_DISK_REPLACED")).toHaveLength(1);
  });

  it("a voter whose address nobody here knows counts when the others reach it", () => {
    expect(diagnose(seen([up(1, "controller"), up(2, "follower")])).voters).toEqual({ total: 3, up: 3 });
    const alone = [up(1, "controller", { reachable: [1, 2] }), up(2, "follower", { reachable: [1, 2] })];
    expect(diagnose(seen(alone)).voters).toEqual({ total: 3, up: 2 });
  });
});

describe("other states", () => {
  it("nobody answers", () => {
    expect(diagnose(seen([gone(1), gone(2)], { topics: null, controllerId: -1 })).condition).toBe("down");
    expect(diagnose(seen([], { topics: null, controllerId: -1 })).condition).toBe("down");
  });

  it("the first start waits for all founders", () => {
    const waiting = {
      ...up(1, "starting", { clusterId: null, voters: [], waitingFor: "waiting for node 3 at 127.0.0.1:7072" }),
      readiness: { ready: false, checks: { state: "starting" } },
    };
    const diagnosis = diagnose(seen([waiting, gone(3)], { clusterId: null, controllerId: -1, topics: null }));
    expect(brief(diagnosis)).toEqual({ condition: "forming", codes: ["FORMING", "NODE_DOWN 3"] });
    expect(diagnosis.findings[0]?.message).toBe(
      "the cluster is not founded yet, or its nodes begin to start: waiting for node 3 at 127.0.0.1:7072",
    );
  });

  it("a node that starts, and one whose disk is full", () => {
    const starting = { ...up(2, "follower"), readiness: { ready: false, checks: { state: "starting", disk: "ok" } } };
    const full = { ...up(3, "follower"), readiness: { ready: true, checks: { state: "running", disk: "low space" } } };
    const diagnosis = diagnose(seen([up(1, "controller"), starting, full]));
    expect(brief(diagnosis)).toEqual({ condition: "degraded", codes: ["NODE_NOT_READY 2", "NODE_TROUBLED 3"] });
    expect(diagnosis.findings.map(({ message }) => message)).toEqual([
      "node 2 (127.0.0.1:7071) is not ready: state starting",
      "node 3 (127.0.0.1:7072): disk low space",
    ]);
  });

  it("partitions in want of something, the first ones by name", () => {
    const { topics } = WELL;
    const offline = { count: 12, examples: ["a-0", "a-1"] };
    const under = { count: 1, examples: ["b-0 (1 of 3 replicas)"] };
    const tally = topics && { ...topics, offline, underReplicated: under };
    const { findings } = diagnose({ ...WELL, topics: tally });
    expect(findings.map(({ code, message }) => [code, message])).toEqual([
      ["PARTITIONS_OFFLINE", "12 partitions without a leader: a-0, a-1 and 10 more"],
      ["PARTITIONS_UNDER_REPLICATED", "1 partition under-replicated: b-0 (1 of 3 replicas)"],
    ]);
    expect(findings[0]?.means).toContain("write or read");
  });

  it("a cluster that grew from one node says how its new ones may vote", () => {
    const voters = [voter(1)];
    const nodes = [up(1, "controller", { voters }), up(2, "observer", { voters }), up(3, "observer", { voters })];
    expect(diagnose(seen(nodes))).toMatchObject({
      condition: "healthy",
      remarks: [
        "the metadata is held by 1 voter; to bear the loss of one node: ottla quorum add 2, ottla quorum add 3",
      ],
    });
    expect(diagnose(seen(nodes.slice(0, 2))).remarks).toEqual([]);
  });

  it("the view of the newest term counts", () => {
    const old = up(1, "controller", { term: 2, voters: [voter(1)] });
    const fresh = up(2, "controller", { term: 5 });
    expect(diagnose(seen([old, fresh, up(3, "follower", { term: 5 })], { controllerId: 2 })).voters.total).toBe(3);
    expect(quorum(1, "follower").term).toBe(3);
  });
});

describe("what the launcher knows", () => {
  const facts = (more: Partial<LocalFacts> = {}): LocalFacts => ({
    nodeIds: [1, 2, 3],
    pausedIds: [],
    endedIds: [],
    ...more,
  });

  it("nodes that it does not have cannot be started by it", () => {
    const last = up(1, "candidate", { leaderId: -1 });
    const alone = { ...last, quorum: quorum(1, "candidate", { leaderId: -1, reachable: [1] }) };
    const [finding] = diagnose(seen([alone], { controllerId: -1 }), facts({ nodeIds: [1] })).findings;
    expect(finding?.code).toBe("NO_QUORUM");
    expect(finding?.hint).toMatch(/^start nodes 2, 3: the running launcher does not have.*ottla cluster down, then/);
    expect(finding?.hint).not.toContain("cluster start");
  });

  it("a paused node goes on by resume", () => {
    const nodes = [up(1, "controller"), up(2, "follower"), gone(3)];
    expect(diagnose(seen(nodes), facts({ pausedIds: [3] })).findings[0]?.hint).toBe(
      "it is paused: ottla cluster resume 3",
    );
  });

  it("a broker that was killed and taken off the list is a remark, one that votes or failed is not", () => {
    const nodes = [up(1, "controller"), up(2, "follower"), up(3, "follower"), gone(4)];
    const diagnosis = diagnose(seen(nodes), facts({ nodeIds: [1, 2, 3, 4], endedIds: [4] }));
    expect(diagnosis).toMatchObject({
      condition: "healthy",
      findings: [],
      remarks: ["node 4 does not run, and is no broker of the cluster any more"],
      nodes: 3,
    });
    expect(brief(diagnose(seen(nodes), facts({ nodeIds: [1, 2, 3, 4] })))).toEqual({
      condition: "degraded",
      codes: ["NODE_DOWN 4"],
    });
    const registered = [...nodes.slice(0, 3), { ...gone(4), isFenced: true }];
    expect(diagnose(seen(registered), facts({ endedIds: [4] })).condition).toBe("degraded");
    const voterGone = [up(1, "controller"), up(2, "follower"), gone(3)];
    expect(diagnose(seen(voterGone), facts({ endedIds: [3] })).condition).toBe("degraded");
  });

  it("an address of which nobody knows whose it is", () => {
    const [finding] = diagnose(seen([up(1, "controller"), up(2, "follower"), gone(-1)])).findings;
    expect(finding?.message).toMatch(/^the node at 127\.0\.0\.1:\d+ does not answer$/);
    expect(finding?.hint).not.toContain("<");
  });
});
