// Nothing that a run started outlives it: not its end, and, where the kernel can see to it, not a kill -9 either.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { createInterface } from "node:readline";
import { expect, it } from "vitest";
import { Children } from "../../src/chaos/children.ts";
import { processState } from "../../src/chaos/faults/pause.ts";

const SLEEP = { command: ["sleep", "300"], env: {}, stdio: "ignore", cwd: tmpdir() } as const;

it("ends all of them when it is closed", async () => {
  const children = new Children();
  const pids = [children.spawn(SLEEP).pid ?? 0, children.spawn(SLEEP).pid ?? 0];
  expect(pids.every((pid) => processState(pid) !== undefined)).toBe(true);
  await children.close();
  expect(pids.map(processState)).toEqual([undefined, undefined]);
});

it("starts none once it is closed, for nobody would end it", async () => {
  const children = new Children();
  await children.close();
  expect(() => children.spawn(SLEEP)).toThrow("the run has ended");
});

const canSetpriv = spawnSync("setpriv", ["--pdeathsig", "KILL", "true"]).status === 0;

it.skipIf(!canSetpriv)(
  "has the kernel end them when their parent is killed",
  async () => {
    const module = new URL("../../src/chaos/children.ts", import.meta.url).href;
    const script = `import { Children } from ${JSON.stringify(module)};
    const child = new Children().spawn(${JSON.stringify(SLEEP)});
    console.log(child.pid); setInterval(() => undefined, 1000);`;
    const parent = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = (await once(createInterface({ input: parent.stdout }), "line")) as [string];
    const pid = Number(line);
    await expect.poll(() => processState(pid)).toBe("S");
    parent.kill("SIGKILL");
    await once(parent, "exit");
    await expect.poll(() => processState(pid) ?? "Z").toBe("Z");
  },
  60_000,
);
