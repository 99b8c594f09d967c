import { describe, expect, it } from "vitest";
import { createSimHost } from "../../scripts/sim-host.ts";
import { createRng } from "../../src/base/rng.ts";
import type { NodeId } from "../../src/model/ids.ts";
import { foundingState, type RaftNode } from "../../src/raft/raft-node.ts";
import type { Configuration, ReplicaId } from "../../src/raft/types.ts";
import { SimCluster } from "../../src/sim/cluster.ts";
import { chooseCore, cutOffTheRest } from "../../src/sim/core-heal.ts";
import { DiskImage } from "../../src/sim/disk-image.ts";
import { SimNetwork } from "../../src/sim/network.ts";
import { QuorumWatch } from "../../src/sim/quorum-watch.ts";
import { ReplicaWatch } from "../../src/sim/replicas/replica-watch.ts";
import { drawSwarm } from "../../src/sim/swarm.ts";
import { SimWorld } from "../../src/sim/world.ts";

const host = await createSimHost();
const replica = (node: number): ReplicaId => `${node}:a` as ReplicaId;
const voters = (...nodes: number[]): Configuration => ({ voters: nodes.map(replica), learners: [] });

/** Nodes that are not started; what their cores go by is said by hand. */
function clusterOf(founders: Configuration, observers = 0) {
  const world = new SimWorld({ seed: 1, host });
  const drawn = drawSwarm(createRng(1), host.baseConfig);
  const network = new SimNetwork(world, { link: drawn.link });
  const watch = new QuorumWatch({ world, onViolation: () => undefined });
  const swarm = { ...drawn, cluster: { voters: founders.voters.length, observers } };
  const record = (): void => undefined;
  const life = { codecs: host.codecs, imageOf: () => new DiskImage(), hasTrueClocks: true };
  const replicas = new ReplicaWatch({ world, onViolation: () => undefined, record, life });
  const parts = { world, host, network, codecs: host.codecs, watch, replicas, record, onDown: () => undefined };
  const cluster = new SimCluster(parts, swarm);
  const goesBy = (node: number, configuration: Configuration): void => {
    const core = { self: replica(node), role: "follower", term: 1, configuration, snapshot: null };
    watch
      .probeOf(node as NodeId)
      .onRaftStarted({ ...core, log: { start: 0, commitEnd: 0 } } as unknown as RaftNode, foundingState(founders));
  };
  for (const id of founders.voters) goesBy(Number.parseInt(id, 10), founders);
  return { cluster, network, goesBy };
}

function cores(cluster: SimCluster): string[] {
  const found = new Set<string>();
  for (let seed = 0; seed < 60; seed++)
    found.add(
      chooseCore(cluster, createRng(seed))
        ?.nodes.map(({ id }) => id)
        .join(" ") ?? "none",
    );
  return [...found].sort((left, right) => (left < right ? -1 : 1));
}

describe("a core that heals alone", () => {
  it("is any majority of the voters, or more of them; observers are in it or not", () => {
    const { cluster } = clusterOf(voters(1, 2, 3), 1);
    const found = cores(cluster);
    expect(found).toContain("1 2");
    expect(found).toContain("2 3");
    expect(found.every((core) => core.split(" ").filter((node) => node !== "4").length >= 2)).toBe(true);
  });

  it("is enough by every configuration that any replica may go by", () => {
    const { cluster, goesBy } = clusterOf(voters(1, 2, 3), 2);
    goesBy(3, voters(1, 2, 3, 4));
    for (const core of cores(cluster)) expect(core.split(" ").filter((node) => node !== "5").length).toBeGreaterThan(2);
  });

  it("is without nodes whose disk is lost, and there is none without a majority", () => {
    const { cluster } = clusterOf(voters(1, 2, 3));
    const [first, second] = cluster.nodes;
    if (first === undefined || second === undefined) throw new Error("no nodes");
    cluster.diskLost(first);
    expect(cores(cluster).every((core) => core.includes("2 3"))).toBe(true);
    expect(cluster.wouldLive(() => true)).toBe(true);
    expect(cluster.mayLose(second)).toBe(false);
    cluster.diskLost(second);
    expect(cores(cluster)).toEqual(["none"]);
  });

  it("a disk may be lost only when every node's configuration is known", () => {
    const { cluster } = clusterOf(voters(1, 2, 3), 1);
    const [first] = cluster.nodes;
    if (first === undefined) throw new Error("no nodes");
    expect(cluster.mayLose(first)).toBe(false);
    const known = clusterOf(voters(1, 2, 3));
    expect(known.cluster.nodes.map((node) => known.cluster.mayLose(node))).toEqual([true, true, true]);
  });

  it("the rest is cut off by its fate", () => {
    const { cluster, network } = clusterOf(voters(1, 2, 3));
    const [first, second, third] = cluster.nodes;
    if (first === undefined || second === undefined || third === undefined) throw new Error("no nodes");
    cutOffTheRest(network, {
      nodes: [first],
      rest: new Map([
        [second, "deaf"],
        [third, "mute"],
      ]),
    });
    const cut = ["node-1 node-2", "node-2 node-1", "node-1 node-3", "node-3 node-1"].filter((pair) => {
      const [from = "", to = ""] = pair.split(" ");
      return network.path(from, to).isCut;
    });
    expect(cut).toEqual(["node-1 node-2", "node-3 node-1"]);
  });
});
