// What becomes of client processes: each that ends otherwise than it was told to is named.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createRng } from "../../src/base/rng.ts";
import { Children } from "../../src/chaos/children.ts";
import { type ClientSpec, Fleet } from "../../src/chaos/clients/fleet.ts";
import type { ClientOrder, TopicSpec } from "../../src/chaos/clients/order.ts";
import { workloadKind } from "../../src/chaos/workloads.ts";
import { identify, isAlive, signalProcess } from "../../src/cli/process-identity.ts";
import { ensureBuilt, MAIN } from "../cli/support.ts";

const directory = mkdtempSync(join(tmpdir(), "ottla-fleet-"));
const children = new Children();
beforeAll(ensureBuilt);
afterAll(async () => {
  await children.close();
  rmSync(directory, { recursive: true, force: true });
});

/** One client, of which a program takes the place; its own command is what that does not look at. */
function fleetOf(
  program: readonly string[],
  { topics, client }: { readonly topics: readonly TopicSpec[]; readonly client: ClientSpec } = {
    topics: [],
    client: { name: "reader-1", role: { kind: "reader", sessionMs: [1, 2], rereadChance: 0 } },
  },
): Fleet {
  const parts = { children, directory, brokers: [], topics, rng: createRng(1), nextLife: () => 0 };
  return new Fleet({ ...parts, prefix: program }, [client]);
}

/** As a client does: it ends when it is told to. */
const OBEDIENT = [process.execPath, "-e", 'process.once("message", () => process.exit(0))'];

describe("a fleet", () => {
  it("names a client that ends by itself, also where that calls it a good end", async () => {
    const fleet = fleetOf(["sh", "-c", "exit 0"]);
    await expect.poll(() => fleet.bugs).toEqual(["reader-1: ended by itself: {}"]);
    await fleet.stop();
  });

  it("names one that ends with an error", async () => {
    const fleet = fleetOf(["sh", "-c", "exit 3"]);
    await expect.poll(() => fleet.bugs).toEqual(["reader-1: reader-1 ended with 3"]);
    await fleet.stop();
  });

  it("names those that do nothing, from their start and from each mark on", async () => {
    const reads = (count: number) => `process.send({ kind: "counts", counts: { read: ${count} } });`;
    const script = `setTimeout(() => {${reads(3)}}, 100); process.on("message", () => process.exit(0));`;
    const fleet = fleetOf([process.execPath, "-e", script]);
    expect({ isGoing: fleet.isGoing, idle: fleet.idle }).toEqual({ isGoing: false, idle: ["reader-1"] });
    await expect.poll(() => fleet.isGoing).toBe(true);
    fleet.mark();
    expect(fleet.idle).toEqual(["reader-1"]);
    await fleet.stop();
  });

  it("names partitions that acknowledge nothing, from the start and from each mark on, also while others do", async () => {
    const script = `let sent = 0;
      const counts = () => ({ acknowledged: ++sent, "acknowledged by t-0": sent, "acknowledged by t-1": 1 });
      setInterval(() => process.send({ kind: "counts", counts: counts() }), 50);
      process.on("message", () => process.exit(0));`;
    const topics = [{ name: "t", partitions: 2 }];
    const [sender] = workloadKind("acks-all")?.clients([1]) ?? [];
    if (sender === undefined) throw new Error("nobody sends");
    const fleet = fleetOf([process.execPath, "-e", script], { topics, client: sender });
    expect(fleet.silent).toEqual(["t-0", "t-1"]);
    await expect.poll(() => fleet.silent, { timeout: 10_000 }).toEqual([]);
    fleet.mark();
    expect(fleet.silent).toEqual(["t-0", "t-1"]);
    await expect.poll(() => fleet.silent, { timeout: 10_000 }).toEqual(["t-1"]);
    expect(fleet.isGoing).toBe(true);
    await fleet.stop();
  });

  it("leaves no client behind that was being loaded when the run was killed", async () => {
    const order: ClientOrder = {
      ...{ process: "reader-1", name: "reader-1", life: 0, firstOperation: 0, seed: 1, topics: [] },
      ...{ brokers: ["127.0.0.1:1"], historyFile: join(directory, "reader-1.jsonl") },
      role: { kind: "reader", sessionMs: [1, 2], rereadChance: 0 },
    };
    // Killed in the moment after it has written down whose parent it is.
    const script = `const { fork } = require("node:child_process");
      const child = fork(process.argv[1], [process.argv[2]], { stdio: ["ignore", "ignore", "ignore", "ipc"] });
      process.stdout.write(String(child.pid), () => process.kill(process.pid, "SIGKILL"));`;
    const args = ["-e", script, join(dirname(MAIN), "../chaos/clients/main.js"), JSON.stringify(order)];
    const { stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
    const client = identify(Number(stdout));
    onTestFinished(() => void signalProcess(client, "SIGKILL"));
    expect(isAlive(client)).toBe(true);
    await expect.poll(() => isAlive(client), { timeout: 15_000 }).toBe(false);
  });

  it("has nothing to say of one that ends when it is told to", async () => {
    const fleet = fleetOf(OBEDIENT);
    expect(await fleet.stop()).toEqual([]);
    expect(fleet.bugs).toEqual([]);
  });
});
