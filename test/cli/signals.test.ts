// Ctrl-C, SIGTERM and a closed terminal, through a real pseudo-terminal: with npm between and without.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { isAlive } from "../../src/cli/process-identity.ts";
import { readState } from "../../src/cli/state-file.ts";
import {
  cleanEnvironment,
  ensureBuilt,
  MAIN,
  ROOT,
  temporaryFolder,
  upArguments,
  writeClusterFile,
  writeThreeNodesFile,
} from "./support.ts";

const PYTHON = ["python3", "python"].find((name) => spawnSync(name, ["-c", "import pty"]).status === 0);
if (PYTHON === undefined) console.warn("skipped: the tests of signals need Python 3 for a pseudo-terminal");

interface PtyResult {
  readonly output: string;
  readonly code: number | null;
  readonly signal: number | null;
  readonly seconds: number;
  readonly failed: string | null;
  /** Whether the terminal shows at the end what is typed. */
  readonly echo: boolean | null;
}

type Step =
  | { readonly expect: string }
  | { readonly send: string }
  | { readonly signal: string }
  | { readonly pause: number }
  | { readonly resize: readonly [rows: number, columns: number] }
  | { readonly hangup: true };

const CTRL_C = "\u0003";
/** Where the terminal's signal and npm's are to count as one, the machine must not stand still for half a second between them. */
const TWO_SIGNALS = { retry: 2 };

function onTerminal(argv: readonly string[], steps: readonly Step[], term = "dumb"): PtyResult {
  const plan = JSON.stringify({ argv, cwd: ROOT, steps, timeout: 150 });
  const run = spawnSync(PYTHON ?? "python3", [join(import.meta.dirname, "terminal.py"), plan], {
    encoding: "utf8",
    env: cleanEnvironment({ TERM: term }),
  });
  if (run.status !== 0) throw new Error(run.stderr);
  return JSON.parse(run.stdout) as PtyResult;
}

describe.skipIf(PYTHON === undefined)("on a terminal", () => {
  let folder = temporaryFolder();
  let up: string[] = [];

  beforeAll(ensureBuilt);
  beforeEach(() => {
    folder = temporaryFolder();
    up = upArguments(folder.path, writeClusterFile(folder.path));
  });
  afterEach(() => {
    const outcome = readState(join(folder.path, "data"));
    // Nothing of a failed test is left running.
    if (outcome.kind === "found")
      for (const node of outcome.state.nodes) if (isAlive(node.process)) process.kill(node.process.pid, "SIGKILL");
    folder.remove();
  });

  const direct = () => [process.execPath, MAIN, ...up];
  const throughNpm = () => ["npm", "start", "--ignore-scripts", "--", ...up.slice(2)];

  it("one Ctrl-C stops in order and ends with 0", () => {
    const { output, code, failed } = onTerminal(direct(), [{ expect: "Ctrl-C stops it" }, { send: CTRL_C }]);
    expect({ failed, code }, output).toEqual({ failed: null, code: 0 });
    expect(output).toMatch(/node 1 stopped in \d+\.\d s/);
    expect(existsSync(join(folder.path, "data", "cluster-state.json"))).toBe(false);
  });

  it.skipIf(process.env["OTTLA_TEST_DIST"] !== undefined)(
    "Ctrl-C through npm arrives twice, counts once, and ends with 0",
    TWO_SIGNALS,
    () => {
      const { output, code, failed } = onTerminal(throughNpm(), [{ expect: "Ctrl-C stops it" }, { send: CTRL_C }]);
      expect({ failed, code }, output).toEqual({ failed: null, code: 0 });
      expect(output).toMatch(/node 1 stopped in \d+\.\d s/);
    },
  );

  it.skipIf(process.env["OTTLA_TEST_DIST"] !== undefined)("SIGTERM to npm stops in order and ends with 0", () => {
    const { output, code, failed } = onTerminal(throughNpm(), [{ expect: "Ctrl-C stops it" }, { signal: "SIGTERM" }]);
    expect({ failed, code }, output).toEqual({ failed: null, code: 0 });
    expect(output).toMatch(/node 1 stopped in \d+\.\d s/);
  });

  it("SIGTERM to the launcher stops in order and ends with 0", () => {
    const { output, code, failed } = onTerminal(direct(), [{ expect: "Ctrl-C stops it" }, { signal: "SIGTERM" }]);
    expect({ failed, code }, output).toEqual({ failed: null, code: 0 });
    expect(output).toMatch(/node 1 stopped in \d+\.\d s/);
  });

  it("a closed terminal stops in order", () => {
    const { code, failed } = onTerminal(direct(), [{ expect: "Ctrl-C stops it" }, { hangup: true }]);
    expect({ failed, code }).toEqual({ failed: null, code: 0 });
    expect(existsSync(join(folder.path, "data", "cluster-state.json"))).toBe(false);
  });

  it("a second Ctrl-C after 500 ms kills and ends with 130", () => {
    // The node is stopped by the kernel, so that its ordered stop cannot end.
    const script = `
      const { spawn } = require("node:child_process");
      const child = spawn(process.execPath, ${JSON.stringify([MAIN, ...up])}, { stdio: "inherit" });
      process.on("SIGINT", () => {});
      const { readFileSync } = require("node:fs");
      const watch = setInterval(() => {
        try {
          const state = JSON.parse(readFileSync(${JSON.stringify(join(folder.path, "data", "cluster-state.json"))}, "utf8"));
          process.kill(state.nodes[0].process.pid, "SIGSTOP");
          clearInterval(watch);
          console.log("the node hangs");
        } catch {}
      }, 20);
      child.on("exit", (code) => process.exit(code));`;
    const steps: Step[] = [
      { expect: "the node hangs" },
      { send: CTRL_C },
      { expect: "stopping in order" },
      { pause: 0.7 },
      { send: CTRL_C },
    ];
    const { output, code, failed } = onTerminal([process.execPath, "-e", script], steps);
    expect({ failed, code }, output).toEqual({ failed: null, code: 130 });
  });

  const live = () => [
    process.execPath,
    MAIN,
    ...upArguments(folder.path, writeThreeNodesFile(folder.path)),
    "--any-port",
    "--no-color",
  ];

  it("the live table is driven by keys, redraws after a change of size, and gives the terminal back", () => {
    const steps: Step[] = [
      { expect: "healthy  3/3 voters" },
      { send: "k" },
      { expect: "kill -9 which node (1, 2, 3; q or Esc: none)?" },
      { send: "3" },
      { expect: "degraded  2/3 voters" },
      { expect: "press r 3 to start it again" },
      { resize: [20, 70] },
      { expect: "\u001b[2J\u001b[H" },
      { expect: "   3  killed" },
      { send: "r3" },
      { expect: "healthy  3/3 voters" },
      { send: "p2" },
      { expect: "   2  paused" },
      { send: "p2" },
      { expect: "healthy  3/3 voters" },
      { send: "l1" },
      { expect: "node_ready" },
      { send: "q" },
      { expect: "node 1 stopped in" },
    ];
    const { output, code, failed, echo } = onTerminal(live(), steps, "xterm");
    expect({ failed, code, echo }, output).toEqual({ failed: null, code: 0, echo: true });
    expect(output.lastIndexOf("\u001b[?25h")).toBeGreaterThan(output.lastIndexOf("\u001b[?25l"));
    expect(output.trimEnd().split("\r\n").at(-1)).toMatch(/stopped; what was acknowledged is on disk$/);
  });

  it.skipIf(process.env["OTTLA_TEST_DIST"] !== undefined)(
    "Ctrl-C at the live table, through npm, ends with 0",
    TWO_SIGNALS,
    () => {
      const argv = ["npm", "start", "--ignore-scripts", "--", ...live().slice(4)];
      const steps: Step[] = [{ expect: "healthy" }, { send: CTRL_C }, { expect: "stopping in order" }];
      const { output, code, failed, echo } = onTerminal(argv, steps, "xterm");
      expect({ failed, code, echo }, output).toEqual({ failed: null, code: 0, echo: true });
    },
  );

  it("a closed terminal at the live table stops in order", () => {
    const { code, failed } = onTerminal(live(), [{ expect: "healthy" }, { hangup: true }], "xterm");
    expect({ failed, code }).toEqual({ failed: null, code: 0 });
    expect(existsSync(join(folder.path, "data", "cluster-state.json"))).toBe(false);
  });

  it("`server start` stops in order on Ctrl-C", () => {
    const argv = [process.execPath, MAIN, "server", "start", "--node-id", "1", "--data-dir", join(folder.path, "d")];
    argv.push("--listeners", "ws://127.0.0.1:0", "-X", "disk.low.space.bytes=0", "-X", "journal.bytes=8MiB");
    const { output, code, failed } = onTerminal(argv, [{ expect: "ready ws://" }, { send: CTRL_C }]);
    expect({ failed, code }, output).toEqual({ failed: null, code: 0 });
    expect(output).toContain("node_stopped");
  });
});
