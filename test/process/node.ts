// A node as users run it: `server start` in a process of its own, on a directory that outlives it, always at the same port.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { drawFreePorts } from "../../src/cli/free-ports.ts";
import type { CreateTopicOptions } from "../../src/client/types.ts";
import { connect } from "../../src/index.ts";
import {
  cleanEnvironment,
  MAIN,
  ottla,
  outputMatching,
  type RunOptions,
  type RunResult,
  temporaryFolder,
} from "../cli/support.ts";

export class NodeUnderTest {
  /** host:port. */
  readonly address: string;
  readonly dataDir: string;
  readonly #folder: { readonly path: string; remove(): void };
  readonly #settings: readonly string[];
  #child: ChildProcess | undefined;
  #log = "";

  private constructor(address: string, settings: readonly string[]) {
    this.address = address;
    this.#folder = temporaryFolder();
    this.dataDir = join(this.#folder.path, "node-1");
    this.#settings = settings;
  }

  /** Not started yet. `settings` are key=value pairs. */
  static async create(settings: readonly string[]): Promise<NodeUnderTest> {
    const [port = 0] = await drawFreePorts(1);
    return new NodeUnderTest(`127.0.0.1:${port}`, settings);
  }

  /** The end of what the process said since it began. */
  get log(): string {
    return this.#log;
  }

  /** Throws when the node has ended by itself, which it must never do: whoever waits for it would wait for ever. */
  expectAlive(): void {
    const child = this.#child;
    if (child === undefined || (child.exitCode === null && child.signalCode === null)) return;
    throw new Error(`the node ended with ${child.exitCode ?? child.signalCode}; its log ends:\n${this.#log}`);
  }

  /** The process is there then, and long not ready. */
  spawn(): ChildProcess {
    if (this.#child !== undefined) throw new Error("the node runs already");
    this.#log = "";
    const args = [
      "server",
      "start",
      "--node-id",
      "1",
      "--data-dir",
      this.dataDir,
      "--listeners",
      `ws://${this.address}`,
    ];
    const pairs = this.#settings.flatMap((pair) => ["-X", pair]);
    this.#child = spawn(process.execPath, [MAIN, ...args, ...pairs], {
      env: cleanEnvironment(),
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child.stderr?.on("data", (chunk: Buffer) => {
      this.#log = (this.#log + chunk.toString()).slice(-4000);
    });
    return this.#child;
  }

  async start(): Promise<void> {
    const child = this.spawn();
    await outputMatching(child, "stdout", /ready \S+/).catch((cause: unknown) => {
      throw new Error(`the node did not start; its log ends:\n${this.#log}`, { cause });
    });
  }

  /** As `kill -9`. Fails when the node had ended before, which it must never do by itself. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL", (code, signal) => code === null && signal === "SIGKILL");
  }

  /** Like `kill`, by a process of its own: the moment has nothing to do with what this process sends and hears. */
  async killAfter(delayMs: number): Promise<void> {
    const child = this.#child;
    if (child?.pid === undefined) throw new Error("the node does not run");
    const ended = once(child, "close");
    spawn("sh", ["-c", `sleep ${(delayMs / 1000).toFixed(4)}; kill -9 ${child.pid}`], { stdio: "ignore" });
    await ended;
    await this.kill();
  }

  /** In order, as Ctrl-C does it. */
  async stop(): Promise<void> {
    await this.#end("SIGINT", (code) => code === 0);
  }

  async #end(
    signal: NodeJS.Signals,
    isExpected: (code: number | null, signal: NodeJS.Signals | null) => boolean,
  ): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    this.#child = undefined;
    if (child.exitCode === null && child.signalCode === null) {
      child.kill(signal);
      await once(child, "close");
    }
    if (isExpected(child.exitCode, child.signalCode)) return;
    throw new Error(`the node ended with ${child.exitCode ?? child.signalCode}; its log ends:\n${this.#log}`);
  }

  /** Runs a command against this node. */
  run(args: readonly string[], options: RunOptions = {}): Promise<RunResult> {
    return ottla(args, { ...options, env: { OTTLA_BOOTSTRAP: this.address, ...options.env } });
  }

  /** By the library: quicker than a process for each. */
  async createTopic(name: string, options: CreateTopicOptions = {}): Promise<string> {
    const client = await connect({ brokers: [this.address], connectTimeoutMs: 20_000 });
    try {
      await client.admin().createTopic(name, options);
      return name;
    } finally {
      await client.close();
    }
  }

  /** Kills it if it runs, and removes its directory. */
  async remove(): Promise<void> {
    try {
      await this.kill();
    } finally {
      this.#folder.remove();
    }
  }
}
