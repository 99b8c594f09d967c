// Clients that ask the controller for more changes than it can make: they wait for themselves, not the cluster's own changes, nor other clients.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { toNodeId } from "../../src/model/ids.ts";
import { createSimTimers } from "../../src/sim/world.ts";
import { API } from "../../src/wire/native/apis.ts";
import { ClusterWorld } from "./cluster-world.ts";
import type { TestClient } from "./support.ts";

const CONNECTIONS = 4;
const AT_ONCE = 300;
/** So few that one metadata answer lists them all. */
const REMOVED = 150;
const CREATED_AT_ONCE = 100;

afterEach(() => activateMutants([]));

interface Flood {
  readonly counts: Map<string, number>;
  end(): void;
}

/** As many names as the connections take, again as soon as each is answered; after BUSY a little later. */
async function flood(cluster: ClusterWorld, nodeId: number): Promise<Flood> {
  const counts = new Map<string, number>();
  const timers = createSimTimers(cluster.world, cluster.world.startIncarnation("flood"));
  let isOver = false;
  let asked = 0;
  const busy: TestClient[] = [];
  const ask = (client: TestClient): void => {
    if (isOver) return;
    const name = `flood-${asked++ % 5_000}`;
    const wish = { name, producerId: -1, producerEpoch: -1 };
    void client.send(API.INIT_PRODUCER_ID, wish, { deadlineMs: 30_000 }).then(({ error }) => {
      counts.set(error, (counts.get(error) ?? 0) + 1);
      if (error === "BUSY") busy.push(client);
      else ask(client);
    });
  };
  const again = (): void => {
    for (const client of busy.splice(0)) ask(client);
    if (!isOver) timers.after(500, again);
  };
  for (let at = 0; at < CONNECTIONS; at++) {
    const client = await cluster.node(nodeId).connect();
    for (let call = 0; call < AT_ONCE; call++) ask(client);
  }
  again();
  return {
    counts,
    end: () => {
      isOver = true;
    },
  };
}

/** How long it takes, under a flood at the controller, that another client's topic is created, and that a broker that stops is fenced. */
async function underFlood(): Promise<{ topicMs: number; fencedMs: number; flood: Flood }> {
  const cluster = await new ClusterWorld({ seed: 6 }).start();
  const controller = await cluster.controller();
  const victim = await cluster.follower();
  const other = await cluster.node(controller).connect();
  const flooding = await flood(cluster, controller);
  await cluster.world.runFor(200);
  const beganMs = cluster.world.nowMs;
  await other.createTopic("other");
  const topicMs = cluster.world.nowMs - beganMs;
  const askedMs = cluster.world.nowMs;
  // It asks to be fenced: a death that nobody notices before the session ends would say nothing of the queue.
  const stopping = cluster.node(victim).broker.stop();
  await cluster.until("it is fenced", async () => (await cluster.fenced(controller)).includes(victim));
  const fencedMs = cluster.world.nowMs - askedMs;
  flooding.end();
  await cluster.world.settle(stopping);
  return { topicMs, fencedMs, flood: flooding };
}

describe("names that are asked for without end, by a few connections", () => {
  test("put off neither that a broker is fenced nor a topic of another client", async () => {
    const { topicMs, fencedMs, flood: flooding } = await underFlood();
    expect(fencedMs).toBeLessThan(200);
    expect(topicMs).toBeLessThan(200);
    expect(flooding.counts.get("BUSY"), "it was one").toBeGreaterThan(100);
    expect(flooding.counts.get("NONE")).toBeGreaterThan(100);
  });

  test("the tests find the bug Q18-fifo: one queue for all", async () => {
    activateMutants(["Q18-fifo"]);
    const outcome = await underFlood().catch((thrown: unknown) => thrown as Error);
    if (outcome instanceof Error) expect(outcome.message).toMatch(/BUSY/);
    else expect(Math.max(outcome.topicMs, outcome.fencedMs)).toBeGreaterThan(500);
  });
});

/** How long it takes that a broker that stops is fenced while names of topics become free that a third one had kept, until now, from being removed. */
async function besideRemovals(): Promise<number> {
  const cluster = await new ClusterWorld({ seed: 6 }).start();
  const controller = await cluster.controller();
  const victim = await cluster.follower();
  const late = 6 - controller - victim;
  const client = await cluster.node(controller).connect();
  const names = Array.from({ length: REMOVED }, (_, at) => `t${at}`);
  for (let from = 0; from < REMOVED; from += CREATED_AT_ONCE)
    await Promise.all(
      names.slice(from, from + CREATED_AT_ONCE).map((name) => client.createTopic(name, { replicationFactor: 3 })),
    );
  const left = async (): Promise<number> => (await cluster.metadata(controller)).topics.length;
  cluster.pause(late);
  expect((await client.call(API.DELETE_TOPICS, { names, requestId: null })).error).toBe("NONE");
  await cluster.world.runFor(1_300);
  expect(await left(), "the late one is waited for").toBe(REMOVED);
  cluster.resume(late);
  // Its first word names a few of them, the next one all others.
  await cluster.until("many are being removed", async () => (await left()) < REMOVED - 20);
  const askedMs = cluster.world.nowMs;
  const stopping = cluster.node(victim).broker.stop();
  await cluster.until("it is fenced", async () => (await cluster.fenced(controller)).includes(victim));
  const fencedMs = cluster.world.nowMs - askedMs;
  await cluster.world.settle(stopping);
  await cluster.until("all are removed", async () => (await left()) === 0);
  return fencedMs;
}

describe("many topics that were deleted", () => {
  test("do not put off that a broker is fenced", async () => {
    expect(await besideRemovals()).toBeLessThan(60);
  });

  test("the test finds the bug Q18-fifo: one queue for all", async () => {
    activateMutants(["Q18-fifo"]);
    expect(await besideRemovals()).toBeGreaterThan(100);
  });
});

test("blocks of producer ids are given on a connection of the broker only", async () => {
  const cluster = await new ClusterWorld().start();
  const controller = await cluster.controller();
  const stranger = await cluster.node(controller).connect();
  const { brokerEpoch } = (await stranger.call(API.HELLO, { clientId: "test", software: "test/1" })).response;
  const wish = { nodeId: toNodeId(controller), brokerEpoch };
  expect((await stranger.call(API.ALLOCATE_PRODUCER_IDS, wish)).error).toBe("INVALID_REQUEST");
  const named = await cluster.node(controller).dial();
  await named.call(API.HELLO, { clientId: `node ${controller}`, software: "test/1" });
  expect((await named.call(API.ALLOCATE_PRODUCER_IDS, wish)).error).toBe("NONE");
});
