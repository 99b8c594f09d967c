// One node of a cluster: a process that is started, killed, stopped and paused, and whose every exit is written down.
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { NODE_HEAP } from "../cli/node-child.ts";
import { EXIT } from "../model/exit-codes.ts";
import { mainScript } from "./build.ts";
import type { Children } from "./children.ts";
import type { ChaosNode, NodeExit, NodeNetwork, NodeProxy, NodeSetting } from "./cluster-types.ts";
import { machineMs } from "./machine-clock.ts";
import type { ShimControl } from "./shim/control.ts";

/** An ordered stop ends by itself within shutdown.timeout.ms and a little; a node that does not is killed, and that is no expected exit. */
const STOP_GRACE_MS = 5_000;
const LOG_LINES_TOLD = 12;

export interface NodeParts {
  readonly nodeId: number;
  readonly setting: NodeSetting;
  /** `key=value` pairs. */
  readonly configs: readonly string[];
  readonly logFile: string;
  readonly cwd: string;
  readonly preload: string | undefined;
  readonly shutdownTimeoutMs: number;
  readonly children: Children;
  readonly onExit: (nodeId: number, exit: NodeExit) => void;
  readonly shim?: ShimControl;
  readonly network?: NodeNetwork;
  readonly proxy?: NodeProxy;
}

interface Expectation {
  readonly says: string;
  /** Is it the exit that is meant? Another one that comes meanwhile is the node's own. */
  readonly isMet: (exit: Ending) => boolean;
}

type Ending = Pick<NodeExit, "code" | "signal">;

/** A stop that takes all its time ends by the signal that asked for it. */
const isOrdered = ({ code, signal }: Ending): boolean => code === EXIT.OK || signal === "SIGTERM";

interface Life {
  readonly child: ChildProcess;
  readonly ended: Promise<void>;
  isReady: boolean;
}

export class RealNode implements ChaosNode {
  readonly nodeId: number;
  readonly address: string;
  readonly dataDir: string;
  readonly logFile: string;
  readonly exits: NodeExit[] = [];
  readonly shim?: ShimControl;
  readonly network?: NodeNetwork;
  readonly proxy?: NodeProxy;
  incarnation = 0;
  readonly #parts: NodeParts;
  #life: Life | undefined;
  /** Why an exit would be no surprise. */
  readonly #expectations = new Set<Expectation>();

  constructor(parts: NodeParts) {
    const { nodeId, setting, logFile, shim, network, proxy } = parts;
    this.nodeId = nodeId;
    this.address = setting.advertised;
    this.dataDir = setting.dataDir;
    this.logFile = logFile;
    this.#parts = parts;
    if (shim !== undefined) this.shim = shim;
    if (network !== undefined) this.network = network;
    if (proxy !== undefined) this.proxy = proxy;
  }

  get pid(): number | undefined {
    return this.#life?.child.pid;
  }

  async start(extra: Readonly<Record<string, string>> = {}): Promise<boolean> {
    if (this.#life !== undefined) return this.#life.isReady;
    const { children, cwd } = this.#parts;
    const log = openSync(this.logFile, "a");
    const { env } = this.#parts.setting;
    const command = this.#command();
    const child = children.spawn({ command, env: { ...env, ...extra }, stdio: ["ignore", "pipe", log], cwd });
    closeSync(log);
    this.incarnation++;
    const life: Life = { child, ended: this.#untilExit(child), isReady: false };
    this.#life = life;
    const ready = new Promise<boolean>((resolve) => {
      if (child.stdout !== null)
        createInterface({ input: child.stdout }).on("line", (line) => {
          if (!line.startsWith("ready ")) return;
          life.isReady = true;
          resolve(true);
        });
      void life.ended.then(() => resolve(false));
    });
    return ready;
  }

  #command(): string[] {
    const { nodeId, setting, configs, preload } = this.#parts;
    const flags = ["--node-id", String(nodeId), "--data-dir", setting.dataDir];
    const listeners = [
      "--listeners",
      `ws://${setting.listeners}`,
      "-X",
      `advertised.listeners=ws://${setting.advertised}`,
    ];
    const loaded = preload === undefined ? [] : ["--import", preload];
    const start = [process.execPath, ...NODE_HEAP, ...loaded, mainScript(), "server", "start", ...flags, ...listeners];
    return [...setting.prefix, ...start, ...configs.flatMap((pair) => ["-X", pair])];
  }

  async #untilExit(child: ChildProcess): Promise<void> {
    const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve) => {
      child.once("exit", (exitCode, exitSignal) => resolve([exitCode, exitSignal]));
      child.once("error", () => resolve([null, null]));
    });
    const expectation = [...this.#expectations].find(({ isMet }) => isMet({ code, signal }));
    const says = expectation?.says ?? this.logTail();
    const exit = { code, signal, timeMs: machineMs(), isExpected: expectation !== undefined, says };
    this.exits.push(exit);
    if (this.#life?.child === child) this.#life = undefined;
    this.#parts.onExit(this.nodeId, exit);
  }

  expectExit(says: string): () => void {
    return this.#expect({ says, isMet: () => true });
  }

  #expect(expectation: Expectation): () => void {
    this.#expectations.add(expectation);
    return () => void this.#expectations.delete(expectation);
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const life = this.#life;
    if (life === undefined) return;
    const withdraw = this.#expect({ says: `killed with ${signal}`, isMet: (exit) => exit.signal === signal });
    life.child.kill(signal);
    await life.ended;
    withdraw();
  }

  async stop(): Promise<void> {
    const life = this.#life;
    if (life === undefined) return;
    const withdraw = this.#expect({ says: "stopped in order", isMet: isOrdered });
    life.child.kill("SIGTERM");
    const limit = setTimeout(() => {
      withdraw();
      life.child.kill("SIGKILL");
    }, this.#parts.shutdownTimeoutMs + STOP_GRACE_MS);
    await life.ended;
    clearTimeout(limit);
    withdraw();
  }

  signal(signal: NodeJS.Signals): void {
    this.#life?.child.kill(signal);
  }

  async untilEnd(timeoutMs: number): Promise<boolean> {
    const life = this.#life;
    if (life === undefined) return true;
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), timeoutMs);
    const late = once(limit.signal, "abort").then(() => false);
    const hasEnded = await Promise.race([life.ended.then(() => true), late]);
    clearTimeout(timer);
    return hasEnded;
  }

  logTail(): string {
    if (!existsSync(this.logFile)) return "";
    return readFileSync(this.logFile, "utf8").trimEnd().split("\n").slice(-LOG_LINES_TOLD).join("\n");
  }
}
