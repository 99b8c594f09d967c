// Nodes in a process that has nothing else to do: starting and closing them keeps it alive.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeAll, expect, it } from "vitest";
import { drawFreePorts } from "../../src/cli/free-ports.ts";
import { cleanEnvironment, ensureBuilt, MAIN, temporaryFolder } from "./support.ts";

let folder: ReturnType<typeof temporaryFolder> | undefined;

beforeAll(ensureBuilt);
afterEach(() => folder?.remove());

it("three nodes of a quorum start, and all close at once", async () => {
  folder = temporaryFolder();
  const ports = await drawFreePorts(3);
  const voters = ports.map((port, index) => `${index + 1}@127.0.0.1:${port}`).join(",");
  const script = join(folder.path, "nodes.mjs");
  writeFileSync(
    script,
    `import { startNode } from ${JSON.stringify(join(dirname(MAIN), "../index.js"))};
     const nodes = await Promise.all(${JSON.stringify(ports)}.map((port, index) => startNode({
       dataDir: ${JSON.stringify(folder.path)} + "/node-" + index,
       listeners: "ws://127.0.0.1:" + port,
       config: { "node.id": index + 1, "controller.quorum.voters": ${JSON.stringify(voters)}, "journal.bytes": "8MiB",
         "disk.low.space.bytes": "1MiB", "disk.reserve.bytes": "1MiB" },
     })));
     console.log("started");
     await Promise.all(nodes.map((node) => node.close()));
     console.log("closed");`,
  );
  const run = spawnSync(process.execPath, [script], { encoding: "utf8", env: cleanEnvironment(), timeout: 200_000 });
  expect(run).toMatchObject({ status: 0, stdout: "started\nclosed\n", stderr: "" });
});
