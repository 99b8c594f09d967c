// Processes of a run: each ends with the run, whatever ends that - an error, Ctrl-C, or a kill of this process where the kernel can see to it.
import { type ChildProcess, spawn, spawnSync, type StdioOptions } from "node:child_process";
import { once } from "node:events";

export interface ChildOptions {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly stdio: StdioOptions;
  readonly cwd: string;
}

/** setpriv asks the kernel to kill a child whose parent is gone (util-linux). */
function deathSignalPrefix(): readonly string[] {
  if (process.platform !== "linux") return [];
  return spawnSync("setpriv", ["--pdeathsig", "KILL", "true"]).status === 0 ? ["setpriv", "--pdeathsig", "KILL"] : [];
}

/** Settings of the machine and of a test run are none of a child's business. */
export function plainEnvironment(): Record<string, string> {
  const kept = Object.entries(process.env).filter(([name]) => !/^(OTTLA_|NODE_OPTIONS|VITEST|LD_PRELOAD)/.test(name));
  return Object.fromEntries(kept.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
}

export class Children {
  readonly #running = new Set<ChildProcess>();
  readonly #prefix = deathSignalPrefix();
  readonly #onExit = () => this.killNow();
  #isClosed = false;

  constructor() {
    process.on("exit", this.#onExit);
  }

  /**
   * `command` may begin with programs that enter a namespace; they go on as the same process. Throws once it is closed: what an interrupted run still
   * does by itself, such as healing a fault, starts nothing that nobody ends.
   */
  spawn({ command, env, stdio, cwd }: ChildOptions): ChildProcess {
    if (this.#isClosed) throw new Error("the run has ended: nothing is started any more");
    const [program = "", ...args] = [...this.#prefix, ...command];
    // In a group of its own: the terminal's Ctrl-C is for the harness, which ends its children when it is through.
    const child = spawn(program, args, { cwd, env: { ...plainEnvironment(), ...env }, stdio, detached: true });
    this.#running.add(child);
    const forget = () => this.#running.delete(child);
    child.once("exit", forget);
    child.once("error", forget);
    return child;
  }

  killNow(): void {
    for (const child of this.#running) child.kill("SIGKILL");
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const ends = [...this.#running].map((child) => once(child, "exit"));
    this.killNow();
    await Promise.all(ends);
    process.off("exit", this.#onExit);
  }
}
