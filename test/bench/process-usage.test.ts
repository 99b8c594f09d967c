// What a process used, as the kernel counts it: a child that burns time, writes and opens files shows all three.
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { footprintOf, listenerOf, usageOf } from "../../src/bench/process-usage.ts";

let folder = "";

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "ottla-usage-"));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Does this at each message, and says when it is done. */
function child(program: string) {
  const file = join(folder, "child.mjs");
  writeFileSync(
    file,
    `import fs from "node:fs"; const folder = ${JSON.stringify(folder)}; const kept = [];
     process.on("message", () => { ${program}; process.send("done"); }); process.send("up");`,
  );
  return fork(file, [], { execArgv: [] });
}

describe.runIf(process.platform === "linux")("usage of a process", () => {
  it("counts its processor time, its written bytes and its descriptors", async () => {
    const busy = child(`
      const spent = () => process.cpuUsage().user; const until = spent() + 100_000; while (spent() < until);
      const file = fs.openSync(folder + "/data", "w"); kept.push(file);
      for (let at = 0; at < 64; at++) fs.writeSync(file, Buffer.alloc(65536, at));
      for (let at = 0; at < 30; at++) kept.push(fs.openSync(folder + "/data", "r"))`);
    try {
      await once(busy, "message");
      const pid = busy.pid ?? 0;
      const [before, footprint] = [usageOf(pid), footprintOf(pid)];
      busy.send("go");
      await once(busy, "message");
      const [after, grown] = [usageOf(pid), footprintOf(pid)];
      // The kernel counts in ticks.
      expect((after?.cpuSeconds ?? 0) - (before?.cpuSeconds ?? 0)).toBeGreaterThan(0.05);
      expect((grown?.openFiles ?? 0) - (footprint?.openFiles ?? 0)).toBeGreaterThanOrEqual(31);
      expect(grown?.rssBytes).toBeGreaterThan(10_000_000);
      expect((after?.writtenBytes ?? 0) - (before?.writtenBytes ?? 0)).toBeGreaterThanOrEqual(64 * 65_536);
    } finally {
      busy.kill("SIGKILL");
    }
  });

  it("is unknown of a process that is not there", () => {
    expect(usageOf(2 ** 22 + 1)).toBeUndefined();
    expect(footprintOf(2 ** 22 + 1)).toBeUndefined();
  });

  it("finds who listens at an address of this machine, and nobody elsewhere", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    expect(listenerOf(`127.0.0.1:${port}`)).toBe(process.pid);
    expect(listenerOf(`localhost:${port}`)).toBe(process.pid);
    expect(listenerOf(`broker.example:${port}`)).toBeUndefined();
    server.close();
    await once(server, "close");
    expect(listenerOf(`127.0.0.1:${port}`)).toBeUndefined();
  });
});
