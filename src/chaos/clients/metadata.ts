// A client process that changes topics and configuration and reads them back, quarrelling with others about the same names.
import { setTimeout as sleep } from "node:timers/promises";
import { MetadataClient, type MetadataHost, NamePool } from "../../checkers/metadata-client.ts";
import { VISIBLE_WITHIN_MS } from "../../checkers/metadata-visibility.ts";
import { machineMs } from "../machine-clock.ts";
import { type ClientLife, tell } from "./life.ts";
import type { MetadataRole } from "./order.ts";

const LOOK_AGAIN_MS = 200;

/** In the end, when nobody changes anything any more, each node is asked what it knows. */
export async function runMetadata(life: ClientLife, { thinkMs, nodes }: MetadataRole): Promise<void> {
  const used = new Set<string>();
  const client = new MetadataClient(hostOf(life, { thinkMs, nodes, pool: new NamePool(machineMs, used) }));
  await client.run(() => life.isStopping);
  await sleep(VISIBLE_WITHIN_MS);
  const names = [...used].sort();
  for (const node of nodes) while (!(await client.look(node, names))) await sleep(LOOK_AGAIN_MS);
  for (const topic of await client.list()) await client.readMarks(topic);
}

function hostOf(life: ClientLife, parts: Pick<MetadataHost, "thinkMs" | "nodes" | "pool">): MetadataHost {
  const { order, rng } = life;
  return {
    ...parts,
    name: order.process,
    rng,
    nowMs: machineMs,
    wait: (delayMs) => life.wait(delayMs),
    after: (delayMs, act) => {
      const timer = setTimeout(act, delayMs);
      return { cancel: () => clearTimeout(timer) };
    },
    connect: () => life.client(),
    record: (event) => void life.record(event),
    nextOperation: () => life.nextOperation(),
    sometimes: (what) => {
      life.count(what);
      if (what.endsWith(" ok")) life.count("operations");
    },
    fail: ({ message }) => tell({ kind: "bug", message }),
  };
}
