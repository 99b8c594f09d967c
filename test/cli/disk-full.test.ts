// A disk that fills up under a real process: produce is refused, reads go on, and nothing acknowledged is lost.
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureBuilt, ottla, outputMatching, start, temporaryFolder } from "./support.ts";

const folder = temporaryFolder();
const disk = join(folder.path, "disk");
mkdirSync(disk);
const isMounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=96m", "tmpfs", disk]).status === 0;
if (!isMounted) console.warn("skipped: the test of a full disk needs the right to mount a small one");

beforeAll(ensureBuilt);
afterAll(() => {
  if (isMounted) spawnSync("umount", ["-l", disk]);
  folder.remove();
});

describe.skipIf(!isMounted)("a full disk", () => {
  it("refuses produce as STORAGE_FULL, serves reads, says so in `cluster health`, and keeps what it acknowledged", async () => {
    const settings = [
      "journal.bytes=4MiB",
      "segment.bytes=4MiB",
      "disk.low.space.bytes=64MiB",
      "disk.reserve.bytes=1MiB",
    ];
    const args = [
      "server",
      "start",
      "--node-id",
      "1",
      "--data-dir",
      join(disk, "d"),
      "--listeners",
      "ws://127.0.0.1:0",
    ];
    const node = start([...args, "-q", ...settings.flatMap((pair) => ["-X", pair])]);
    const [, address = ""] = await outputMatching(node, "stdout", /ready ws:\/\/(\S+)/);
    const run = (command: readonly string[], input = "") =>
      ottla(command, { input, env: { OTTLA_BOOTSTRAP: address } });
    expect((await run(["topic", "create", "t"])).code).toBe(0);

    // More than is written between two looks at the disk, however quick the machine is, and less than the disk holds.
    const lineCount = 90_000;
    const refused = await run(
      ["produce", "t", "--delivery-timeout", "6s", "--json"],
      `${"x".repeat(999)}\n`.repeat(lineCount),
    );
    expect(refused.stderr).toMatch(/records not appended .*free space is below/);
    expect(refused.code).toBe(1);
    const { recordsAcknowledged } = JSON.parse(refused.stdout) as { readonly recordsAcknowledged: number };
    expect(recordsAcknowledged).toBeGreaterThan(0);
    expect(recordsAcknowledged).toBeLessThan(lineCount);

    const read = await run(["consume", "t", "-e", "-q"]);
    expect(read.code).toBe(0);
    expect(read.stdout.length / 1000).toBeGreaterThanOrEqual(recordsAcknowledged);
    const health = await run(["cluster", "health"]);
    expect(health.stdout).toMatch(/^degraded\nnode 1 .*disk low on space/);
    expect(health.code).toBe(10);
    node.kill("SIGTERM");
    expect(await new Promise((resolve) => node.once("close", resolve))).toBe(0);
  });
});
