// Clients that keep no rule, on a cluster in which nothing breaks: they do all that they are meant to, and what they may not get they are refused.
import { expect, it } from "vitest";
import { createSimHost } from "../../../scripts/sim-host.ts";
import { CheckerSet } from "../../../src/checkers/checker-set.ts";
import type { HistoryEvent } from "../../../src/checkers/history.ts";
import { MARK } from "../../../src/sim/marks.ts";
import { BadClient } from "../../../src/sim/workload/bad-client.ts";
import { scanTopic } from "../../../src/sim/workload/scanner.ts";
import { TopicBoard } from "../../../src/sim/workload/topics.ts";
import { Fleet } from "../../broker/fleet.ts";

const RUN_MS = 20_000;

it("break nothing, and are known again", async () => {
  const { codecs } = await createSimHost();
  const fleet = new Fleet({ seed: 11 });
  await fleet.start();
  const { admin, client } = await fleet.open("good");
  const board = new TopicBoard();
  const topic = { name: board.nextName(), partitions: 2 };
  await fleet.settle(admin.createTopic(topic.name, { partitions: 2, replicationFactor: 3 }));
  board.add(topic);
  const checkers = new CheckerSet(() => "several");
  const types = new Map<string, number>();
  const record = (event: HistoryEvent): void => {
    types.set(event.type, (types.get(event.type) ?? 0) + 1);
    checkers.observe(event);
  };
  let operations = 0;
  const { world, network } = fleet;
  const parts = {
    world,
    network,
    codecs,
    board,
    record,
    nextOperation: () => operations++,
    brokers: fleet.nodes.map(({ address }) => address),
    isLost: () => false,
  };
  const clients = ["one", "two", "three"].map((name) => new BadClient(name, parts, { mayBeForgotten: false }));
  const running = Promise.all(clients.map((each) => each.run()));
  await fleet.run(RUN_MS);
  for (const each of clients) each.isStopping = true;
  await fleet.settle(running);
  await fleet.settle(scanTopic(client, topic, { world, record, isLost: () => false }));
  checkers.conclude();
  expect(checkers.violations).toEqual([]);
  for (const mark of [MARK.BAD_GAP, MARK.BAD_ACKS, MARK.BAD_EPOCH, MARK.BAD_HALF, MARK.BAD_SOCKET, MARK.ANSWERED_AGAIN])
    expect([...world.marks.keys()]).toContain(mark);
  expect(types.get("send ok")).toBeGreaterThan(30);
  expect(types.get("read")).toBeGreaterThan(30);
});
