// Networks of their own: a cut is silent, goes in the direction that it says, is counted, and ends. Real bytes between real processes in them.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { NodeNetwork, NodePlace } from "../../../src/chaos/cluster-types.ts";
import { noNetworks, openNamespaces } from "../../../src/chaos/faults/network-place.ts";

const missing = await noNetworks();
if (missing !== undefined) console.warn(`NOT RUN: cut networks: ${missing}`);

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

/** Lines that a program in the place prints. */
function program(place: NodePlace, code: string): string[] {
  const [command = "", ...prefix] = place.prefix;
  const child = spawn(command, [...prefix, process.execPath, "-e", code], { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => void lines.push(line));
  return lines;
}

const server = (ip: string): string =>
  `require("net").createServer((s) => { s.on("error", () => {}); s.on("data", (d) => { console.log(String(d)); s.write("heard " + d + ";"); }); }).listen(7070, "${ip}", () => console.log("listens"))`;
const client = (ip: string): string =>
  `const s = require("net").connect(7070, "${ip}").setNoDelay(true); let n = 0; setInterval(() => s.write(String(n++) + ","), 50); s.on("data", (d) => console.log(String(d))); s.on("error", (e) => console.log("ERROR " + e.code))`;

const SOON = { timeout: 60_000, interval: 20 };
const grows = async (lines: readonly string[]): Promise<void> => {
  const { length } = lines;
  await vi.waitFor(() => expect(lines.length).toBeGreaterThan(length + 2), SOON);
};
const rises = async (network: NodeNetwork | undefined): Promise<void> => {
  const before = (await network?.dropped()) ?? 0;
  await vi.waitFor(async () => expect(await network?.dropped()).toBeGreaterThan(before), SOON);
};

/** What had passed before the cut may still be on its way through pipes and busy programs while the first packets are dropped. */
const untilOnlyDrops = async (network: NodeNetwork | undefined): Promise<void> => {
  for (let count = 0; count < 3; count++) await rises(network);
};

/** Of this process: others on the machine have networks, too. */
const holders = (): number =>
  readdirSync("/proc").filter((name) => {
    try {
      const isHolder =
        /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, "utf8").startsWith("sleep\0infinity");
      return isHolder && readFileSync(`/proc/${name}/status`, "utf8").includes(`\nPPid:\t${process.pid}\n`);
    } catch {
      return false;
    }
  }).length;

describe.skipIf(missing !== undefined)("networks of their own", () => {
  it("cut one way in silence, then both ways, and pass everything again", async () => {
    const place = await openNamespaces([1, 2]);
    try {
      const [one, two] = [place.nodes.get(1), place.nodes.get(2)];
      if (one?.network === undefined || two?.network === undefined) throw new Error("no network");
      const asked = program(two, server(two.network.ip));
      await vi.waitFor(() => expect(asked).toEqual(["listens"]), SOON);
      const answered = program(one, client(two.network.ip));
      await grows(answered);

      await two.network.dropTo([one.network.ip]);
      const heard = asked.length;
      await untilOnlyDrops(two.network);
      const known = answered.length;
      // As far as a sender goes that hears no acknowledgement.
      await vi.waitFor(() => expect(asked.length).toBeGreaterThan(heard), SOON);
      await rises(two.network);
      expect(answered.length).toBeLessThanOrEqual(known + 1);
      expect(await one.network.dropped()).toBe(0);

      await two.network.heal();
      await grows(answered);

      await one.network.isolate();
      await untilOnlyDrops(one.network);
      const [before, dropped] = [asked.length, await one.network.dropped()];
      await rises(one.network);
      expect(asked.length).toBeLessThanOrEqual(before + 1);
      await one.network.heal();
      await grows(answered);
      expect(await one.network.dropped()).toBeGreaterThan(dropped ?? 0);
      expect(answered.join("\n")).not.toContain("ERROR");
    } finally {
      await place.close();
    }
  });

  it("is reached from this process, and leaves nothing behind", async () => {
    const before = holders();
    const place = await openNamespaces([1]);
    const node = place.nodes.get(1);
    if (node?.network === undefined) throw new Error("no network");
    expect(holders()).toBe(before + 2);
    const lines = program(node, server(node.network.ip));
    await vi.waitFor(() => expect(lines).toEqual(["listens"]), SOON);
    const { connect } = await import("node:net");
    const socket = connect(7070, node.network.ip);
    await once(socket, "connect");
    socket.destroy();
    await place.close();
    expect(holders()).toBe(before);
  });
});
