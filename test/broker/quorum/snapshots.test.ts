// Snapshots: taken by size, sent to who is behind, installed from scratch, pulled by observers; and what cannot be applied.
import { afterEach, describe, expect, it } from "vitest";
import { activateMutants } from "../../../src/base/mutant.ts";
import { utf8Encode } from "../../../src/base/bytes.ts";
import { QuorumCluster, type QuorumNode, registeredIn, registers } from "./support.ts";

const SMALL = { snapshotBytes: 2_000, raft: { retainedEntries: 4, snapshotChunkBytes: 700 } };
const count = (end: number): number[] => Array.from({ length: end }, (_, at) => at + 1);

async function fill(cluster: QuorumCluster, leader: QuorumNode, from: number, to: number): Promise<void> {
  for (let id = from; id <= to; id++)
    expect(await cluster.propose(leader, registers(id)), cluster.describe()).toMatchObject({ kind: "records" });
}

function rotSnapshot(node: QuorumNode): void {
  const [name] = node.metadataFiles.filter((file) => file.endsWith(".snapshot"));
  node.machine.disk.image.flipBit(`/data/metadata/${name}`, 600, 3);
}

afterEach(() => activateMutants([]));

describe("snapshots", () => {
  it("are taken when the log has grown by the bytes of the configuration, and the log is cut", async () => {
    const cluster = new QuorumCluster({ nodes: [1], ...SMALL });
    await cluster.start();
    const node = await cluster.controller();
    await fill(cluster, node, 1, 60);
    await cluster.until(() => node.quorum.status.snapshotEnd > 50);
    const { snapshotEnd, logStart } = node.quorum.status;
    expect(logStart).toBe(snapshotEnd - 4);
    await cluster.run(100);
    expect(node.metadataFiles.filter((name) => name.endsWith(".snapshot"))).toHaveLength(1);
    const { endOffset } = node.quorum.image;
    node.crash("power loss");
    await cluster.start(1);
    await cluster.controller();
    await cluster.until(() => node.quorum.image.endOffset >= endOffset);
    expect(registeredIn(node)).toEqual(count(60));
    expect(node.quorum.status.logStart).toBeGreaterThan(0);
  });

  /** A voter is away, and missed more than the leader's log still has. */
  async function leftBehind() {
    const cluster = new QuorumCluster(SMALL);
    await cluster.start();
    const leader = await cluster.controller();
    await fill(cluster, leader, 1, 5);
    await cluster.converged();
    const away = cluster.nodes.find((node) => node !== leader) as QuorumNode;
    away.crash("power loss");
    await fill(cluster, leader, 6, 80);
    await cluster.until(() => leader.quorum.status.logStart > 20);
    return { cluster, leader, away };
  }

  it("are sent in pieces to a voter that missed more than the log still has, and replace its image whole", async () => {
    const { cluster, away } = await leftBehind();
    await cluster.start(away.id);
    await cluster.converged();
    expect(registeredIn(away)).toEqual(count(80));
    expect(away.applied.filter(({ isReset }) => isReset).length).toBeGreaterThan(0);
    expect(away.quorum.status.snapshotEnd).toBeGreaterThan(20);
    // It goes on by entries, and starts again from what it was sent.
    await fill(cluster, await cluster.controller(), 81, 82);
    await cluster.converged();
    away.crash("power loss");
    await cluster.start(away.id);
    await cluster.converged();
    expect(registeredIn(away)).toEqual(count(82));
  });

  /** A voter is back that missed more than the leader's log has, and the leader's snapshot has rotted. Nothing is changed any more. */
  async function rotted() {
    const { cluster, leader, away } = await leftBehind();
    await cluster.run(100);
    rotSnapshot(leader);
    await cluster.start(away.id);
    await cluster.run(5_000);
    return { cluster, leader, away };
  }

  it("that rotted on the disk of the leader is taken anew when a voter needs it", async () => {
    const { cluster, leader, away } = await rotted();
    expect(registeredIn(away)).toEqual(count(80));
    expect(leader.isController).toBe(true);
    leader.crash("power loss");
    await cluster.start(leader.id);
    expect(leader.refusal).toBeUndefined();
    await cluster.converged();
  });

  it("mutant Q15r, it is not taken anew: the voter waits for the next one, and the leader cannot start again", async () => {
    activateMutants(["Q15r"]);
    const { cluster, leader, away } = await rotted();
    expect(registeredIn(away).length).toBeLessThanOrEqual(5);
    leader.crash("power loss");
    await cluster.start(leader.id);
    expect(leader.refusal?.code).toBe("DATA_DAMAGED");
  });

  it("a crash at any moment of an installation leaves a voter that starts and catches up", async () => {
    const cluster = new QuorumCluster({ ...SMALL, seed: 3 });
    await cluster.start();
    const leader = await cluster.controller();
    const away = cluster.nodes.find((node) => node !== leader) as QuorumNode;
    let next = 1;
    for (let round = 0; round < 12; round++) {
      away.crash("power loss");
      await fill(cluster, leader, next, next + 39);
      next += 40;
      await cluster.start(away.id);
      await cluster.run(30 + round * 25);
    }
    expect(away.refusal).toBeUndefined();
    await cluster.converged();
    expect(registeredIn(away)).toEqual(count(next - 1));
  });
});

describe("observers", () => {
  async function withObserver(): Promise<{ cluster: QuorumCluster; leader: QuorumNode; observer: QuorumNode }> {
    const cluster = new QuorumCluster({ nodes: [1, 2, 3, 4], listed: [1, 2, 3], ...SMALL });
    await cluster.start(1, 2, 3);
    const leader = await cluster.controller();
    return { cluster, leader, observer: cluster.node(4) };
  }

  it("pull what is committed soon after it is", async () => {
    const { cluster, leader, observer } = await withObserver();
    await cluster.start(4);
    await cluster.settle(observer.quorum.waitForImage());
    await fill(cluster, leader, 1, 3);
    const beganMs = cluster.world.nowMs;
    await cluster.settle(observer.quorum.waitForApplied(leader.quorum.image.endOffset));
    expect(cluster.world.nowMs - beganMs).toBeLessThan(200);
    expect(observer.quorum.status).toMatchObject({ role: "observer", leaderId: leader.id, trouble: null });
    expect(observer.quorum.image.stateHash()).toBe(leader.quorum.image.stateHash());
  });

  it("far behind get a snapshot also of the only voter, where it has rotted: it is taken anew", async () => {
    const cluster = new QuorumCluster({ nodes: [1, 2], listed: [1], ...SMALL });
    await cluster.start(1);
    const voter = await cluster.controller();
    await fill(cluster, voter, 1, 60);
    await cluster.until(() => voter.quorum.status.logStart > 20);
    await cluster.run(100);
    rotSnapshot(voter);
    await cluster.start(2);
    await cluster.settle(cluster.node(2).quorum.waitForImage(), 5_000);
    expect(registeredIn(cluster.node(2))).toEqual(count(60));
  });

  it("far behind get a snapshot, then entries", async () => {
    const { cluster, leader, observer } = await withObserver();
    await fill(cluster, leader, 1, 100);
    await cluster.until(() => cluster.nodes.slice(0, 3).every((node) => node.quorum.status.logStart > 20));
    await cluster.start(4);
    await cluster.settle(observer.quorum.waitForImage());
    expect(registeredIn(observer)).toEqual(count(100));
    expect(observer.applied[0]).toMatchObject({ isReset: true });
    await fill(cluster, leader, 101, 103);
    await cluster.converged();
  });

  it("go on when the voter that they pull from dies, and start again from nothing", async () => {
    const { cluster, leader, observer } = await withObserver();
    await cluster.start(4);
    await cluster.settle(observer.quorum.waitForImage());
    for (const node of cluster.nodes.slice(0, 3).filter((voter) => voter !== leader)) {
      node.crash();
      await cluster.run(50);
      await cluster.start(node.id);
      await cluster.run(500);
    }
    await fill(cluster, await cluster.controller(), 1, 3);
    await cluster.settle(observer.quorum.waitForApplied(leader.quorum.image.endOffset), 5_000);
    observer.crash("power loss");
    await cluster.start(4);
    expect(observer.refusal).toBeUndefined();
    await cluster.settle(observer.quorum.waitForImage());
    expect(registeredIn(observer)).toEqual([1, 2, 3]);
  });

  it("Q-24: leave a voter that is cut off from the others", async () => {
    const { cluster, leader, observer } = await withObserver();
    await cluster.start(4);
    await cluster.settle(observer.quorum.waitForImage());
    cluster.cut(2, 3);
    cluster.cut(1, 2);
    cluster.cut(1, 3);
    await cluster.run(3_000);
    const lonely = leader.id;
    const [one, other] = [1, 2, 3].filter((id) => id !== lonely) as [number, number];
    cluster.mend(one, other);
    const next = await cluster.controller(cluster.nodes.filter((node) => node.id === one || node.id === other));
    await fill(cluster, next, 1, 2);
    await cluster.settle(observer.quorum.waitForApplied(next.quorum.image.endOffset), 10_000);
  });
});

describe("a recovery by force", () => {
  /** Node 1 alone is left, without what the others had committed last; the observer has that. */
  async function recovered(): Promise<{ cluster: QuorumCluster; observer: QuorumNode }> {
    const cluster = new QuorumCluster({ nodes: [1, 2, 3, 4], listed: [1, 2, 3] });
    await cluster.start();
    const observer = cluster.node(4);
    await fill(cluster, await cluster.controller(), 1, 3);
    await cluster.converged();
    cluster.node(1).crash("power loss");
    const next = await cluster.controller();
    await fill(cluster, next, 4, 9);
    await cluster.converged([next, observer]);
    cluster.node(2).crash("power loss");
    cluster.node(3).crash("power loss");
    await cluster.settle(cluster.node(1).recover());
    await cluster.start(1);
    return { cluster, observer };
  }

  it("an observer that is ahead of the recovered log stops, and starts again with what is true now", async () => {
    const { cluster, observer } = await recovered();
    await cluster.until(() => observer.failure !== undefined);
    expect(observer.failure?.code).toBe("METADATA_DIVERGED");
    observer.crash();
    await cluster.start(4);
    await cluster.settle(observer.quorum.waitForImage());
    expect(registeredIn(observer)).toEqual([1, 2, 3]);
    await cluster.converged();
  });

  it("also when the recovered log has grown beyond it meanwhile", async () => {
    const { cluster, observer } = await recovered();
    for (const voter of [1, 2, 3]) cluster.cut(voter, 4);
    await fill(cluster, await cluster.controller([cluster.node(1)]), 20, 40);
    cluster.network.heal();
    await cluster.until(() => observer.failure !== undefined);
    expect(observer.failure?.code).toBe("METADATA_DIVERGED");
  });
});

describe("what this build cannot apply (Q-19, D-31)", () => {
  const unknown = utf8Encode(
    JSON.stringify({ version: 1, records: [{ type: "of-tomorrow", version: 1, what: "ever" }] }),
  );

  it("stops voters that meet it, by name, and what is before it stays", async () => {
    const cluster = new QuorumCluster();
    await cluster.start();
    const leader = await cluster.controller();
    await fill(cluster, leader, 1, 2);
    await cluster.converged();
    // Put into the leader's core behind the back of the decisions, as a newer build would have decided it.
    leader.core?.propose({ bytes: unknown });
    await cluster.until(() => cluster.nodes.every((node) => node.failure !== undefined));
    for (const node of cluster.nodes) {
      expect(node.failure?.code).toBe("DATA_DIR_NEWER");
      expect(node.failure?.message).toContain("of-tomorrow");
      node.crash();
    }
    await cluster.start();
    // Two of them elect a leader and meet it again; the third one alone does not get that far.
    const failed = () => cluster.nodes.filter((node) => node.failure?.code === "DATA_DIR_NEWER");
    await cluster.until(() => failed().length >= 2, 10_000);
    for (const node of failed()) expect(registeredIn(node)).toEqual([1, 2]);
  });

  it("stops an observer of an older build, and nobody else", async () => {
    const cluster = new QuorumCluster({ nodes: [1, 2, 3, 4], listed: [1, 2, 3] });
    cluster.node(4).options = { metadataVersions: { min: 1, max: 1 } };
    await cluster.start();
    const observer = cluster.node(4);
    await cluster.until(() => observer.failure !== undefined);
    expect(observer.failure?.code).toBe("DATA_DIR_NEWER");
    await expect(cluster.settle(observer.quorum.waitForImage())).rejects.toMatchObject({ code: "DATA_DIR_NEWER" });
    await fill(cluster, await cluster.controller(), 1, 2);
  });
});
