// A node that is killed while it recovers, killed under `ottla produce`, and stopped in order: nothing acknowledged is lost.
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Rng } from "../../src/base/rng.ts";
import type { Client } from "../../src/client/types.ts";
import { collect, ensureBuilt, outputMatching, start } from "../cli/support.ts";
import { KillWorld, Load, turn } from "./load.ts";

const START_KILLS = Number(process.env["OTTLA_KILLS"] ?? 4);
/** About as long as a small node takes from its first log line to being ready. */
const RECOVERY_MS = 80;
const LINES_MAX = 400_000;

let world: KillWorld;
beforeAll(ensureBuilt);
afterEach(() => world.end());

describe("kill -9 while the node starts", () => {
  it("keeps what was acknowledged when recovery itself is killed, again and again", {
    timeout: 300_000 + START_KILLS * 40_000,
  }, async () => {
    // A long journal without checkpoints: there is something to recover.
    world = await KillWorld.start("recovery", ["journal.bytes=16MiB", "checkpoint.interval.ms=60s"]);
    const { client, ledger, rng } = world;
    const loads = (["all", 1] as const).map(
      (acks) => new Load(ledger, client, { acks, rng, firstNumber: acks === 1 ? 1e9 : 0 }),
    );
    let killedInRecovery = 0;
    for (let round = 0; round < 2; round++) {
      const stop = new AbortController();
      const done = Promise.all(loads.map((load) => load.run(stop.signal)));
      await world.killInMidStream();
      // On until one hit: what takes its time between two kills is as much this process as the node.
      for (let kill = 0; kill < START_KILLS || (killedInRecovery === 0 && kill < 4 * START_KILLS); kill++) {
        const child = world.node.spawn();
        if (kill % 2 === 1) await outputMatching(child, "stderr", /node_starting/);
        await delay(kill % 2 === 1 ? rng.below(RECOVERY_MS) : 50 + rng.below(250));
        await world.node.kill();
        ledger.killed();
        if (/node_starting/.test(world.node.log) && !/node_ready/.test(world.node.log)) killedInRecovery++;
      }
      await world.node.start();
      stop.abort();
      await done;
      await world.audit();
    }
    console.log(`${killedInRecovery} kills between the beginning of the start and its end`);
    expect(killedInRecovery).toBeGreaterThan(0);
    expect(ledger.refusals).toEqual([]);
    world.expectAlarms();
  });
});

describe("kill -9 under `ottla produce`", () => {
  it("its summary tells the truth, and nothing is there twice", async () => {
    world = await KillWorld.start("lines");
    const { client, rng } = world;
    for (const [index, acks] of ["all", "1"].entries()) {
      const topic = await world.node.createTopic(`lines-${index}`, { partitions: 3 });
      const child = start(["produce", topic, "--acks", acks, "-z", index === 0 ? "none" : "lz4", "--json"], {
        env: { OTTLA_BOOTSTRAP: world.node.address },
      });
      const done = collect(child);
      const lines = await feed(child, {
        rng,
        restart: async () => {
          await expect.poll(async () => endOf(client, topic)).toBeGreaterThan(0);
          await world.node.killAfter(rng.below(40));
          await world.node.start();
        },
      });
      const { code, stdout, stderr } = await done;
      const summary = JSON.parse(stdout) as Record<string, number>;
      const { recordsAcknowledged = 0, recordsUnknown = 0, recordsRead } = summary;
      const out = await world.node.run(["consume", topic, "-e", "-q"]);
      const found = out.stdoutBytes.toString("latin1").split("\n").slice(0, -1);
      console.log(
        `produce --acks ${acks}: ${recordsAcknowledged} of ${recordsRead} acknowledged, ${recordsUnknown} unknown, ${found.length} there`,
      );
      expect(recordsRead).toBe(lines.length);
      expect(recordsAcknowledged + recordsUnknown, stderr).toBe(lines.length);
      expect(new Set(found).size, "lines that are there twice").toBe(found.length);
      const sent = new Set(lines);
      expect(found.filter((line) => !sent.has(line))).toEqual([]);
      expect(found.length).toBeGreaterThanOrEqual(recordsAcknowledged);
      expect(code, stderr).toBe(recordsUnknown === 0 ? 0 : 1);
    }
  });
});

async function endOf(client: Client, topic: string): Promise<number> {
  return (await client.admin().offsets(topic)).reduce((sum, { endOffset }) => sum + endOffset, 0);
}

/** Writes numbered lines before, while and after the node is killed and started again. */
async function feed(
  child: ChildProcess,
  { rng, restart }: { readonly rng: Rng; readonly restart: () => Promise<void> },
): Promise<string[]> {
  const lines: string[] = [];
  let isRestarted = false;
  const restarted = restart().finally(() => {
    isRestarted = true;
  });
  const write = async () => {
    const more = Array.from({ length: 100 }, (_, index) => `${lines.length + index} ${"x".repeat(rng.below(300))}`);
    lines.push(...more);
    if (child.stdin?.write(`${more.join("\n")}\n`) === false) await once(child.stdin, "drain");
    await turn();
  };
  while (!isRestarted && lines.length < LINES_MAX) await write();
  await restarted;
  for (let more = 0; more < 20; more++) await write();
  child.stdin?.end();
  return lines;
}

describe("a stop in order", () => {
  it("loses nothing, refuses nothing without saying so, and starts again", async () => {
    world = await KillWorld.start("stops");
    const { client, ledger, rng } = world;
    const load = new Load(ledger, client, { acks: 1, rng });
    for (let round = 0; round < 3; round++) {
      const stop = new AbortController();
      const done = load.run(stop.signal);
      const until = ledger.acknowledged + 200 + rng.below(500);
      while (ledger.acknowledged < until) await turn();
      await world.node.stop();
      await world.node.start();
      stop.abort();
      await done;
      await world.audit();
    }
    console.log(
      `clean stops: ${ledger.acknowledged} acknowledged, ${ledger.unknown} unknown, ${ledger.failed} refused`,
    );
    expect(ledger.refusals).toEqual([]);
  });
});
