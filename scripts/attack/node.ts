// The node under attack: a process of its own on a directory of its own, its memory and how long it was kept from running.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const DIST = process.env["OTTLA_TEST_DIST"] ?? join(import.meta.dirname, "../../dist");
const MAIN = join(DIST, "cli/main.js");
const HOOKS = join(import.meta.dirname, "node-hooks.mjs");
const START_MS = 60_000;
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** So that "exit" is told. */
const onSignal = (): void => process.exit(130);

/** "rot" is done to its files; all others inside the process, see node-hooks.mjs. */
export type Plant = "crash" | "hang" | "lag" | "leak" | "hoard" | "cut" | "garble" | "rot";

export class AttackedNode {
  readonly address: string;
  readonly directory: string;
  readonly #child: ChildProcess;
  /** The end of what it said. */
  log = "";
  #isEnding = false;
  /** However this process ends: neither the node nor its files are left behind. */
  readonly #onExit = (): void => {
    this.#child.kill("SIGKILL");
    // It may write to its last moment.
    rmSync(this.directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  };

  private constructor(address: string, directory: string, child: ChildProcess) {
    this.address = address;
    this.directory = directory;
    this.#child = child;
    process.once("exit", this.#onExit);
    for (const signal of SIGNALS) process.once(signal, onSignal);
    child.stderr?.on("data", (chunk: Buffer) => {
      this.log = (this.log + chunk.toString()).slice(-6_000);
    });
  }

  /** `settings` are key=value pairs. */
  static async start(
    settings: readonly string[],
    plants: readonly Plant[] = [],
    flags: readonly string[] = [],
  ): Promise<AttackedNode> {
    const directory = mkdtempSync(join(tmpdir(), "ottla-attack-"));
    const address = `127.0.0.1:${await freePort()}`;
    const args = ["--expose-gc", ...flags, "--import", HOOKS, MAIN, "server", "start", "--node-id", "1"];
    const place = ["--data-dir", join(directory, "node-1"), "--listeners", `ws://${address}`];
    const env = { ...process.env, ATTACK_DIST: MAIN, ...(plants.length > 0 && { ATTACK_PLANT: plants.join(",") }) };
    const pairs = settings.flatMap((pair) => ["-X", pair]);
    const child = spawn(process.execPath, [...args, ...place, ...pairs], { env, stdio: ["ignore", "pipe", "pipe"] });
    const node = new AttackedNode(address, directory, child);
    try {
      await node.#ready();
    } catch (error) {
      await node.remove();
      throw error;
    }
    return node;
  }

  get dataDir(): string {
    return join(this.directory, "node-1");
  }

  /** One bit of each file that ends so, in its middle. */
  rot(partition: string, ending: string): void {
    const directory = join(this.dataDir, partition);
    for (const name of readdirSync(directory).filter((each) => each.endsWith(ending))) {
      const path = join(directory, name);
      const bytes = readFileSync(path);
      const at = bytes.length >> 1;
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      writeFileSync(path, bytes);
    }
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Why it is no longer there although nobody ended it. */
  get death(): string | undefined {
    const { exitCode, signalCode } = this.#child;
    if (this.#isEnding || (exitCode === null && signalCode === null)) return undefined;
    return `the node ended with ${exitCode ?? signalCode}; its log ends:\n${this.log}`;
  }

  /** After a collection of garbage. */
  async settledRssBytes(): Promise<number> {
    this.#child.kill("SIGUSR2");
    await sleep(400);
    return this.death === undefined ? this.rssBytes : Number.NaN;
  }

  get rssBytes(): number {
    return 1024 * Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${this.pid}/status`, "utf8"))?.[1] ?? Number.NaN);
  }

  /** Of its JavaScript heap, as it tells. */
  async heapBytes(): Promise<number> {
    if (this.death !== undefined) return Number.NaN;
    const text = await (await fetch(`http://${this.address}/metrics`)).text();
    return Number(/^ottla_nodejs_heap_size_used_bytes (\S+)$/m.exec(text)?.[1] ?? Number.NaN);
  }

  async stop(): Promise<void> {
    if (this.death !== undefined) throw new Error(this.death);
    this.#isEnding = true;
    this.#child.kill("SIGTERM");
    if (this.#child.exitCode === null) await once(this.#child, "close");
    if (this.#child.exitCode !== 0)
      throw new Error(`the node stopped with ${this.#child.exitCode}; its log ends:\n${this.log}`);
  }

  /** Kills it where it runs, and removes all that it has written. */
  async remove(): Promise<void> {
    this.#isEnding = true;
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      this.#child.kill("SIGKILL");
      await once(this.#child, "close");
    }
    rmSync(this.directory, { recursive: true, force: true });
    process.off("exit", this.#onExit);
    for (const signal of SIGNALS) process.off(signal, onSignal);
  }

  async #ready(): Promise<void> {
    const untilMs = performance.now() + START_MS;
    let said = "";
    this.#child.stdout?.on("data", (chunk: Buffer) => {
      said = (said + chunk.toString()).slice(-4_000);
    });
    while (!/ready \S+/.test(said)) {
      if (this.death !== undefined) throw new Error(this.death);
      if (performance.now() > untilMs) throw new Error(`the node did not start; its log ends:\n${this.log}`);
      await sleep(20);
    }
  }
}

/** How long the main thread of a process was ready to run and another one had its processor, ms. 0 where the system does not say. */
export function waitedForCpuMs(pid: number | "self"): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[1]) / 1e6;
  } catch {
    return 0;
  }
}

/** Runs `ottla log verify` on a directory; what it says, and its exit code. */
export async function verifyLogs(directory: string): Promise<{ readonly code: number | null; readonly text: string }> {
  const child = spawn(process.execPath, [MAIN, "log", "verify", directory], { stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => void (text += chunk.toString()));
  const [code] = (await once(child, "close")) as [number | null];
  return { code, text };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
