// A child process of a measurement that speaks in lines, from another file of this folder; it ends when its standard input does.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

const END_MS = 20_000;

export class LineChild {
  readonly #child: ChildProcess;
  readonly #name: string;
  #isOver = false;

  constructor(script: string, args: readonly string[], onLine: (line: string) => void) {
    this.#name = script;
    this.#child = spawn(process.execPath, ["--import", "tsx", join(import.meta.dirname, script), ...args], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#child.stdin?.on("error", () => undefined); // it has ended: seen by isOver
    if (this.#child.stdout !== null) createInterface({ input: this.#child.stdout }).on("line", onLine);
    this.#child.once("close", () => {
      this.#isOver = true;
    });
  }

  assertRunning(): void {
    if (this.#isOver) throw new Error(`${this.#name} ended by itself with ${this.#child.exitCode}`);
  }

  async stop(): Promise<void> {
    this.#child.stdin?.end();
    const limit = setTimeout(() => this.#child.kill("SIGKILL"), END_MS);
    if (!this.#isOver) await once(this.#child, "close");
    clearTimeout(limit);
  }
}

/** The machine's monotonic clock: the same in all of its processes. */
export function machineMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000 + nanoseconds / 1e6;
}
