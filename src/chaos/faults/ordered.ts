// Faults that are a sequence over several nodes: who goes first and who comes back first is what makes them.
import { setTimeout as sleep } from "node:timers/promises";
import type { Rng } from "../../base/rng.ts";
import type { HistoryEvent } from "../../checkers/history.ts";
import type { ChaosCluster, ChaosNode } from "../cluster-types.ts";
import { faultEvent, listed, startAll, targetsOf } from "./parts.ts";
import type { ActiveFault, FaultKind } from "./types.ts";

/** For a leader by itself to take what it should not acknowledge. */
const ALONE_MS = 1_000;
/** For the rest to go on without the one that is down. */
const BEHIND_MS = 1_500;
const ROLL_MS = 30_000;

export async function dies(node: ChaosNode, history: (event: HistoryEvent) => void): Promise<void> {
  await node.kill();
  history(faultEvent(node.nodeId, "process death"));
}

const othersOf = (cluster: ChaosCluster, target: readonly number[]): readonly ChaosNode[] =>
  cluster.nodes.filter(({ nodeId }) => !target.includes(nodeId));

const wasKilled = (node: ChaosNode): boolean => node.exits.at(-1)?.signal === "SIGKILL";

export const ROLLING_RESTART: FaultKind = {
  name: "rolling-restart",
  says: "stopped in order and started again, one after the other, the next one when all is well",
  needs: ["signals"],
  tolerates: "writes",
  atOnce: 1,
  inject(cluster, target): Promise<ActiveFault> {
    const restarted: number[] = [];
    const work = (async () => {
      for (const node of targetsOf(cluster, target)) {
        await node.stop();
        await startAll([node]);
        restarted.push(node.nodeId);
        await cluster.untilHealthy(ROLL_MS);
      }
    })();
    // Whoever heals hears of it.
    work.catch(() => undefined);
    return Promise.resolve({
      description: `${listed(target)} stopped in order and started again`,
      observed: () =>
        Promise.resolve(restarted.length < target.length ? undefined : `${listed(restarted)} restarted in this order`),
      heal: () => work,
    });
  },
};

export const LONE_LEADER: FaultKind = {
  name: "lone-leader",
  says: "all other nodes stand still, the target is killed meanwhile, the others go on, it comes back later",
  needs: ["signals"],
  tolerates: "nothing",
  async inject(cluster, target, _rng: Rng, history): Promise<ActiveFault> {
    const others = othersOf(cluster, target);
    const killed = targetsOf(cluster, target);
    for (const node of others) node.signal("SIGSTOP");
    await sleep(ALONE_MS);
    await Promise.all(killed.map((node) => dies(node, history)));
    for (const node of others) node.signal("SIGCONT");
    return {
      description: `${listed(target)} killed while all others stood still`,
      observed: () => Promise.resolve(killed.every(wasKilled) ? "killed while the others were stopped" : undefined),
      heal: () => startAll(killed),
    };
  },
};

export const RETURN_STALE: FaultKind = {
  name: "return-stale",
  says: "a replica's node dies, more is written, the target dies, and the first one is back before it",
  needs: ["signals"],
  tolerates: "nothing",
  async inject(cluster, target, rng, history): Promise<ActiveFault> {
    const leaders = targetsOf(cluster, target);
    const stale = cluster.node(await followerOf(cluster, target, rng));
    await dies(stale, history);
    await sleep(BEHIND_MS);
    await Promise.all(leaders.map((node) => dies(node, history)));
    const isBack = await stale.start();
    return {
      description: `node ${stale.nodeId} died, then node ${target.join(", ")}; node ${stale.nodeId} was back first`,
      observed: () =>
        Promise.resolve(
          isBack && leaders.every(wasKilled)
            ? `node ${stale.nodeId} was back while ${target.join(", ")} was dead`
            : undefined,
        ),
      heal: () => startAll([stale, ...leaders]),
    };
  },
};

/** Of a partition that the target leads: another replica, of the one with the fewest. */
async function followerOf(cluster: ChaosCluster, target: readonly number[], rng: Rng): Promise<number> {
  const { topics } = await (await cluster.client()).admin().describeMetadata();
  const led = topics.flatMap(({ partitions }) => partitions).filter(({ leader }) => target.includes(leader));
  const fewest = Math.min(...led.map(({ replicas }) => replicas.length));
  const [partition] = led.filter(({ replicas }) => replicas.length === fewest);
  const others = partition?.replicas.filter((nodeId) => !target.includes(nodeId)) ?? [];
  if (others.length === 0) throw new Error(`node ${target.join(", ")} leads nothing that has another replica`);
  return rng.pick(others);
}

export const ORDERED_KINDS: readonly FaultKind[] = [ROLLING_RESTART, LONE_LEADER, RETURN_STALE];
