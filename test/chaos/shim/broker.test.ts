// A real broker under the preload shim: every call by which it changes files passes the shim, and no power loss takes what it has
// acknowledged with acks=all; a broker that acknowledges too early is found out by the same loss.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { createRng } from "../../../src/base/rng.ts";
import { distDirectory } from "../../../src/chaos/build.ts";
import { type ChaosCluster, type ChaosNode, startCluster } from "../../../src/chaos/cluster.ts";
import type { PowerLoss, ShimControl } from "../../../src/chaos/shim/control.ts";
import { canPreload } from "./can-preload.ts";

const TOPIC = "t";
const PARTITIONS = 2;
const LOSSES = Number(process.env["SHIM_LOSSES"] ?? 3);
const SEED = Number(process.env["SHIM_FIRST_SEED"] ?? 1);
/** Records acknowledged before each loss. */
const ACKED_MIN = 300;

interface Rig {
  readonly cluster: ChaosCluster;
  readonly node: ChaosNode;
  readonly shim: ShimControl;
}

async function openRig(mutants: readonly string[] = []): Promise<Rig> {
  const directory = mkdtempSync(join(tmpdir(), "ottla-shim-broker-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const preload = join(directory, "planted.mjs");
  const mutantModule = pathToFileURL(join(distDirectory(), "base/mutant.js")).href;
  writeFileSync(
    preload,
    `import { activateMutants } from "${mutantModule}";\nactivateMutants(${JSON.stringify(mutants)});\n`,
  );
  const settings = { "segment.bytes": 1_048_576 };
  const cluster = await startCluster({
    nodes: 1,
    directory: join(directory, "run"),
    shim: true,
    settings,
    ...(mutants.length === 0 ? {} : { preload }),
  });
  onTestFinished(async () => void (await cluster.close()));
  const node = cluster.node(1);
  if (node.shim === undefined) throw new Error("no shim");
  const admin = (await cluster.client()).admin();
  await admin.createTopic(TOPIC, { partitions: PARTITIONS, replicationFactor: 1 });
  return { cluster, node, shim: node.shim };
}

/** Value by partition and offset. */
type Log = Map<string, string>;

/** Sends until so many are acknowledged, then kills the broker in the midst of it. */
async function sendAndKill({ cluster, node }: Rig, acked: Log, run: number): Promise<void> {
  const producer = (await cluster.client()).producer({
    acks: "all",
    lingerMs: 0,
    requestTimeoutMs: 1_000,
    deliveryTimeoutMs: 1_000,
  });
  const before = acked.size;
  let sequence = 0;
  let killed: Promise<void> | undefined;
  const sendOn = async (): Promise<void> => {
    while (killed === undefined) {
      const value = `${run}-${sequence++}-${"x".repeat((sequence * 37) % 700)}`;
      const result = await producer.send(TOPIC, { value, partition: sequence % PARTITIONS }).catch(() => undefined);
      if (result?.offset !== undefined) acked.set(`${result.partition}:${result.offset}`, value);
      if (acked.size - before >= ACKED_MIN) killed ??= node.kill();
    }
  };
  await Promise.all(Array.from({ length: 16 }, sendOn));
  await killed;
  await producer.close({ timeoutMs: 0 }).catch(() => undefined);
}

async function readAll({ cluster }: Rig): Promise<Log> {
  const log: Log = new Map();
  const consumer = (await cluster.client()).consumer({ topics: [TOPIC], untilEnd: true });
  for await (const { partition, offset, value } of consumer)
    log.set(`${partition}:${offset}`, Buffer.from(value ?? []).toString());
  return log;
}

interface Outcome {
  readonly lost: number;
  readonly losses: readonly PowerLoss[];
}

/** `wasStarted` false at the first loss after which the broker does not come up. */
async function loseAgainAndAgain(rig: Rig, times: number, untilLost: boolean): Promise<Outcome> {
  const acked: Log = new Map();
  const losses: PowerLoss[] = [];
  const rng = createRng(SEED);
  for (let run = 0; run < times; run++) {
    await sendAndKill(rig, acked, run);
    losses.push(await rig.shim.powerLoss(rng.fork(`loss ${run}`)));
    expect(await rig.node.start(), rig.node.logFile).toBe(true);
    const found = await readAll(rig);
    const lost = [...acked].filter(([at, value]) => found.get(at) !== value).length;
    if (lost > 0 || (untilLost && run === times - 1)) return { lost, losses };
  }
  return { lost: 0, losses };
}

describe.runIf(canPreload)("a broker under the preload shim", () => {
  test("loses nothing acknowledged by power losses", { timeout: 120_000 }, async () => {
    const { lost, losses } = await loseAgainAndAgain(await openRig(), LOSSES, false);
    expect(losses.flatMap(({ problems }) => problems)).toEqual([]);
    expect(losses.reduce((sum, { dropped, torn }) => sum + dropped + torn, 0)).toBeGreaterThan(0);
    expect(lost).toBe(0);
  });

  test("is found out when it acknowledges before the sync (planted bug M2)", { timeout: 120_000 }, async () => {
    const { lost } = await loseAgainAndAgain(await openRig(["M2"]), 12, true);
    expect(lost).toBeGreaterThan(0);
  });
});
