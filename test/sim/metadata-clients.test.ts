// The metadata workload on a cluster in which nothing breaks: it does all that it is meant to do, and what it writes down is sound.
import { describe, expect, it } from "vitest";
import { createSimHost } from "../../scripts/sim-host.ts";
import { MetadataLinearizabilityChecker } from "../../src/checkers/metadata-linearizability.ts";
import { MetadataVisibilityChecker } from "../../src/checkers/metadata-visibility.ts";
import type { HistoryEvent } from "../../src/checkers/history.ts";
import { MetadataWorkload } from "../../src/sim/workload/metadata-clients.ts";
import { Fleet } from "../broker/fleet.ts";

const RUN_MS = 8_000;

/** `isStuck`: one node hears nothing of the others from the middle on, though it is told to be whole. */
async function historyOf(seed: number, isStuck = false): Promise<readonly HistoryEvent[]> {
  const { codecs } = await createSimHost();
  const fleet = new Fleet({ seed });
  await fleet.start();
  const events: HistoryEvent[] = [];
  let operations = 0;
  const { world, network } = fleet;
  const workload = new MetadataWorkload(
    {
      world,
      network,
      codecs,
      record: (event) => void events.push(event),
      nextOperation: () => operations++,
      brokers: fleet.nodes.map(({ address }) => address),
      nodes: [1, 2, 3],
    },
    { clients: 4, thinkMs: 40 },
  );
  const running = workload.run();
  await fleet.run(RUN_MS / 2);
  if (isStuck) fleet.isolate(await fleet.follower());
  await fleet.run(RUN_MS / 2);
  workload.isStopping = true;
  await fleet.settle(running);
  events.push({ type: "metadata healed", timeMs: world.nowMs, nodes: [1, 2, 3] });
  await fleet.settle(workload.finish(world.nowMs));
  await fleet.settle(workload.close());
  expect(workload.operations).toBeGreaterThan(200);
  return events;
}

describe("clients that quarrel about a few names", () => {
  it("do everything, agree in the end, and find nothing wrong", async () => {
    const events = await historyOf(7);
    const linear = new MetadataLinearizabilityChecker();
    const visible = new MetadataVisibilityChecker();
    for (const event of events) {
      linear.observe(event);
      expect(visible.observe(event)).toBeUndefined();
    }
    expect(linear.conclude()).toBeUndefined();
    expect(visible.conclude()).toBeUndefined();
    const wishes = new Map<number, string>();
    const done = new Set<string>();
    for (const event of events) {
      if (event.type === "metadata invoked") wishes.set(event.operation, event.wish.kind);
      else if (event.type === "metadata ok") done.add(wishes.get(event.operation) ?? "");
      else if (event.type === "metadata refused") done.add(event.code);
      else done.add(event.type);
    }
    expect([...done].sort()).toEqual(
      expect.arrayContaining([
        "TOPIC_ALREADY_EXISTS",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "alter broker configs",
        "alter topic configs",
        "create topic",
        "delete topic",
        "describe broker configs",
        "describe topic",
        "list topics",
        "mark acknowledged",
        "mark read",
        "metadata seen",
      ]),
    );
    // Nothing breaks, so hardly anything is uncertain.
    const unknown = events.filter(({ type }) => type === "metadata unknown").length;
    expect(unknown).toBeLessThan(wishes.size / 20);
  });

  it("find a node that stays behind", async () => {
    const visible = new MetadataVisibilityChecker();
    for (const event of await historyOf(8, true)) expect(visible.observe(event)).toBeUndefined();
    const found = visible.conclude();
    expect(found?.invariant).toBe(40);
    expect(found?.message).toMatch(/was (created|deleted).* but node \d/);
  });
});
