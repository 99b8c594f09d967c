// How a node ends is judged by how it was asked to: a stop in order that ends with an error is no stop in order.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { Children } from "../../src/chaos/children.ts";
import { RealNode } from "../../src/chaos/node.ts";

const directory = mkdtempSync(join(tmpdir(), "ottla-node-"));
const children = new Children();
afterAll(async () => {
  await children.close();
  rmSync(directory, { recursive: true, force: true });
});

/** A shell in its place, which is ready at once; the command of the node is what it does not look at. */
function nodeThat(script: string): RealNode {
  return new RealNode({
    nodeId: 1,
    setting: {
      env: {},
      prefix: ["sh", "-c", `${script}; echo ready x; while :; do sleep 0.02; done`],
      dataDir: directory,
      listeners: "127.0.0.1:1",
      advertised: "127.0.0.1:1",
    },
    configs: [],
    logFile: join(directory, "log"),
    cwd: directory,
    preload: undefined,
    shutdownTimeoutMs: 10_000,
    children,
    onExit: () => undefined,
  });
}

describe("an exit", () => {
  it.each([
    ["0", "trap 'exit 0' TERM", true],
    ["an error", "trap 'exit 70' TERM", false],
    ["the signal of a stop that took all its time", ":", true],
    ["another signal", "trap 'kill -ABRT $$' TERM", false],
  ])("with %s after a stop in order", async (_, script, isExpected) => {
    const node = nodeThat(script);
    expect(await node.start()).toBe(true);
    await node.stop();
    expect(node.exits.map((exit) => exit.isExpected)).toEqual([isExpected]);
  });

  it("by a kill is what was asked for, one by itself just before is not", async () => {
    const killed = nodeThat(":");
    await killed.start();
    await killed.kill();
    expect(killed.exits).toMatchObject([{ signal: "SIGKILL", isExpected: true }]);
    const crashed = nodeThat("trap 'exit 70' HUP");
    await crashed.start();
    await crashed.kill("SIGHUP");
    expect(crashed.exits).toMatchObject([{ code: 70, isExpected: false }]);
  });

  it("of any kind is none by surprise where a fault wants one", async () => {
    const node = nodeThat("trap 'exit 30' TERM");
    await node.start();
    const withdraw = node.expectExit("its disk fails");
    await node.stop();
    withdraw();
    expect(node.exits).toMatchObject([{ code: 30, isExpected: true, says: "its disk fails" }]);
  });
});
