// A client process of a failover measurement by itself: it ends with its parent, also when that is gone before a broker has answered.
import { fork } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import type { ClientPlan } from "../../src/bench/failover/messages.ts";
import { testCluster } from "../../src/index.ts";
import { ensureBuilt, MAIN } from "./support.ts";

const ENTRY = join(dirname(MAIN), "..", "bench", "failover", "client-process.js");

beforeAll(ensureBuilt);

it("ends when its parent lets go of it before it is connected", async () => {
  await using cluster = await testCluster({ nodes: 1, topics: { t: { partitions: 1 } } });
  const child = fork(ENTRY, [], { stdio: "ignore" });
  try {
    await once(child, "message");
    const plan: ClientPlan = {
      kind: "probe",
      topic: "t",
      partition: 0,
      brokers: cluster.brokers.map(({ address }) => address),
    };
    const ended = once(child, "exit");
    child.send(plan, () => child.disconnect());
    expect(await ended).toEqual([0, null]);
  } finally {
    child.kill("SIGKILL");
  }
});
