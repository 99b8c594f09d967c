// A cluster of three real processes, started by the command line as a user does: free ports, a directory of its own, `cluster up` in the
// foreground as their parent. What it says comes as JSON lines.
import type { ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { ottla, spawnOttla } from "./shell.ts";

const SAID_MAX = 2000;

interface Line {
  readonly event: string;
  readonly time: string;
  readonly condition?: string;
  readonly controllerId?: number | null;
  readonly nodes?: readonly { readonly nodeId: number; readonly address: string }[];
}

export interface LocalClusterOptions {
  readonly nodes?: number;
  /** `key=value` of every node. */
  readonly settings?: readonly string[];
}

export class LocalCluster {
  readonly dataDir: string;
  /** `host:port` by node id; known once the nodes were started. */
  readonly addresses = new Map<number, string>();
  readonly #child: ChildProcess;
  readonly #startedMs = Date.now();
  readonly #said: string[] = [];
  readonly #waiters = new Set<() => void>();
  #condition = "starting";
  #healthyMs: number | undefined;
  #isOver = false;

  constructor({ nodes = 3, settings = [] }: LocalClusterOptions = {}) {
    this.dataDir = mkdtempSync(join(tmpdir(), "ottla-cluster-"));
    const flags = ["-n", String(nodes), "--any-port", "--json", ...settings.flatMap((pair) => ["-X", pair])];
    this.#child = spawnOttla(["cluster", "up", "--data-dir", this.dataDir, ...flags]);
    for (const stream of [this.#child.stdout, this.#child.stderr])
      if (stream !== null) createInterface({ input: stream }).on("line", (line) => this.#onLine(line));
    this.#child.once("close", () => {
      this.#isOver = true;
      this.#wake();
    });
  }

  /** From the start of `cluster up` to its word that all is well. */
  get healthyMs(): number | undefined {
    return this.#healthyMs;
  }

  /** For the first time, by what `cluster up` says. */
  async untilUp(timeoutMs = 60_000): Promise<void> {
    await this.#until(() => this.#healthyMs !== undefined, timeoutMs, "the cluster is not healthy");
  }

  /** Now, by what every node says when it is asked. */
  async untilHealthy(): Promise<void> {
    const brokers = [...this.addresses.values()].join(",");
    await ottla(["cluster", "health", "--wait", "--timeout", "60s", "-b", brokers]);
  }

  /** kill -9. */
  async kill(nodeId: number): Promise<void> {
    await ottla(["cluster", "kill", String(nodeId), "--data-dir", this.dataDir]);
  }

  /** SIGSTOP, and SIGCONT. */
  async pause(nodeId: number): Promise<void> {
    await ottla(["cluster", "pause", String(nodeId), "--data-dir", this.dataDir]);
  }

  async resume(nodeId: number): Promise<void> {
    await ottla(["cluster", "resume", String(nodeId), "--data-dir", this.dataDir]);
  }

  /** Stopped in order, and started again. */
  async restart(nodeId: number): Promise<void> {
    await ottla(["cluster", "restart", String(nodeId), "--data-dir", this.dataDir, "--timeout", "80s"]);
  }

  async start(nodeId: number): Promise<void> {
    await ottla(["cluster", "start", String(nodeId), "--data-dir", this.dataDir, "--timeout", "80s"]);
  }

  /** In order; after it nothing runs. */
  async down(): Promise<void> {
    if (this.#isOver) return;
    this.#child.kill("SIGINT");
    await this.#until(() => this.#isOver, 30_000, "the cluster does not stop").catch((error: unknown) => {
      this.#child.kill("SIGKILL");
      throw error;
    });
  }

  remove(): void {
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  /** What the launcher and the nodes said last, for people. */
  get words(): string {
    const nodes = existsSync(this.dataDir) ? readdirSync(this.dataDir).filter((name) => name.startsWith("node-")) : [];
    const logs = nodes.map((node) => {
      const file = join(this.dataDir, node, "log", "ottla.log");
      const lines = existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n").slice(-40) : [];
      return `--- ${node}\n${lines.join("\n")}`;
    });
    return [...this.#said.slice(-40), ...logs].join("\n");
  }

  #onLine(text: string): void {
    this.#said.push(text);
    if (this.#said.length > SAID_MAX) this.#said.shift();
    if (!text.startsWith("{")) return;
    const line = JSON.parse(text) as Line;
    if (line.event === "started")
      for (const { nodeId, address } of line.nodes ?? []) this.addresses.set(nodeId, address.replace(/^ws:\/\//, ""));
    if (line.condition !== undefined) this.#condition = line.condition;
    if (line.condition === "healthy") this.#healthyMs ??= Date.now() - this.#startedMs;
    this.#wake();
  }

  #wake(): void {
    for (const wake of this.#waiters) wake();
  }

  async #until(condition: () => boolean, timeoutMs: number, failure: string): Promise<void> {
    await new Promise<void>((done, fail) => {
      const look = (): void => {
        if (condition()) end(done);
        else if (this.#isOver) end(() => fail(new Error(`${failure}: the launcher ended\n${this.words}`)));
      };
      const limit = setTimeout(
        () => end(() => fail(new Error(`${failure} after ${timeoutMs} ms (${this.#condition})\n${this.words}`))),
        timeoutMs,
      );
      const end = (how: () => void): void => {
        clearTimeout(limit);
        this.#waiters.delete(look);
        how();
      };
      this.#waiters.add(look);
      look();
    });
  }
}
