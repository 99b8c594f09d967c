// Three real brokers, each in a network of its own behind a bridge, so that one can be cut off in silence: its packets go nowhere, and nothing is told
// to anybody. Linux only, and only inside `unshare -rn` (or as root): who uses this runs in that network, too.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../..");
const MAIN = join(resolve(process.env["OTTLA_TEST_DIST"] ?? join(ROOT, "dist")), "cli", "main.js");
const NODES = [1, 2, 3] as const;
const PORT = 7070;
const BRIDGE = 254;
const ipOf = (host: number): string => `10.99.0.${host}`;
const macOf = (host: number): string => `02:00:00:00:00:${host.toString(16).padStart(2, "0")}`;
const STOP_MS = 30_000;
const WAIT_MS = 60_000;

/** Why no network can be made here; undefined: it can. */
export function noNetworksHere(): string | undefined {
  if (process.platform !== "linux") return `no network namespaces on ${process.platform}`;
  const steps = "ip link set lo up && ip link add b0 type bridge && ip link add v0 type veth peer name v1";
  const probe = spawnSync("unshare", ["-rn", "sh", "-c", steps], { encoding: "utf8" });
  if (probe.error !== undefined) return probe.error.message;
  return probe.status === 0 ? undefined : probe.stderr.trim();
}

function sh(line: string): void {
  const [program = "", ...args] = line.split(" ");
  const run = spawnSync(program, args, { encoding: "utf8" });
  if (run.status !== 0) throw new Error(`${line}: ${run.error?.message ?? run.stderr}`);
}

export class CutCluster {
  readonly dataDir = mkdtempSync(join(tmpdir(), "ottla-cut-"));
  readonly addresses = new Map<number, string>(NODES.map((node) => [node, `${ipOf(node)}:${PORT}`]));
  /** Processes that do nothing but keep a network alive. */
  readonly #holders = new Map<number, ChildProcess>();
  readonly #brokers = new Map<number, ChildProcess>();

  async untilUp(): Promise<void> {
    sh("ip link set lo up");
    sh(`ip link add br0 address ${macOf(BRIDGE)} type bridge`);
    sh(`ip addr add ${ipOf(BRIDGE)}/24 dev br0`);
    sh("ip link set br0 up");
    for (const node of NODES) await this.#makeNetwork(node);
    for (const node of NODES) this.#startBroker(node);
    await this.untilHealthy();
  }

  async #makeNetwork(node: number): Promise<void> {
    const holder = spawn("unshare", ["-n", "sleep", "86400"], { stdio: "ignore" });
    this.#holders.set(node, holder);
    await once(holder, "spawn");
    await untilOwnNetwork(holder.pid ?? 0);
    const inside = `nsenter -t ${holder.pid} -n ip`;
    sh(`ip link add veth${node} type veth peer name eth0 address ${macOf(node)} netns ${holder.pid}`);
    sh(`ip link set veth${node} master br0`);
    sh(`ip link set veth${node} up`);
    sh(`${inside} link set lo up`);
    sh(`${inside} addr add ${ipOf(node)}/24 dev eth0`);
    sh(`${inside} link set eth0 up`);
    // Nobody asks who has an address, so nobody is told that it is gone.
    for (const other of [...NODES, BRIDGE])
      if (other !== node) sh(`${inside} neigh replace ${ipOf(other)} lladdr ${macOf(other)} dev eth0 nud permanent`);
    sh(`ip neigh replace ${ipOf(node)} lladdr ${macOf(node)} dev br0 nud permanent`);
  }

  #startBroker(node: number): void {
    const holder = this.#holders.get(node)?.pid;
    const voters = NODES.map((each) => `${each}@${ipOf(each)}:${PORT}`).join(",");
    const args = ["-t", String(holder), "-n", process.execPath, MAIN, "server", "start", "--node-id", String(node)];
    const where = ["--data-dir", join(this.dataDir, `node-${node}`), "--listeners", `ws://${ipOf(node)}:${PORT}`];
    const child = spawn("nsenter", [...args, ...where, "-X", `controller.quorum.voters=${voters}`], {
      cwd: this.dataDir,
      stdio: ["ignore", "ignore", "pipe"],
    });
    child.stderr?.pipe(createWriteStream(join(this.dataDir, `node-${node}.log`), { flags: "a" }));
    this.#brokers.set(node, child);
  }

  /** From now on its packets go nowhere. */
  cut(node: number): Promise<void> {
    sh(`ip link set veth${node} nomaster`);
    return Promise.resolve();
  }

  heal(node: number): Promise<void> {
    sh(`ip link set veth${node} master br0`);
    return Promise.resolve();
  }

  async untilHealthy(): Promise<void> {
    const brokers = [...this.addresses.values()].join(",");
    const args = [MAIN, "cluster", "health", "--wait", "--timeout", "60s", "-b", brokers];
    const child = spawn(process.execPath, args, { stdio: "ignore" });
    const limit = setTimeout(() => child.kill("SIGKILL"), WAIT_MS);
    await once(child, "close");
    clearTimeout(limit);
    if (child.exitCode !== 0) throw new Error(`the cluster is not healthy\n${this.words}`);
  }

  async down(): Promise<void> {
    const ends = [...this.#brokers.values()].map(async (child) => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGTERM");
      const limit = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
      await once(child, "close");
      clearTimeout(limit);
    });
    await Promise.all(ends);
    for (const holder of this.#holders.values()) holder.kill("SIGKILL");
  }

  remove(): void {
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  get words(): string {
    return NODES.map((node) => {
      const text = readFileSync(join(this.dataDir, `node-${node}.log`), "utf8");
      return `--- node ${node}\n${text.trimEnd().split("\n").slice(-40).join("\n")}`;
    }).join("\n");
  }
}

/** The process has left our network for its own. */
async function untilOwnNetwork(pid: number): Promise<void> {
  const own = spawnSync("readlink", ["/proc/self/ns/net"], { encoding: "utf8" }).stdout;
  const untilMs = Date.now() + WAIT_MS;
  while (Date.now() < untilMs) {
    const { status, stdout } = spawnSync("readlink", [`/proc/${pid}/ns/net`], { encoding: "utf8" });
    if (status === 0 && stdout !== own) return;
    await new Promise((done) => void setTimeout(done, 20));
  }
  throw new Error(`process ${pid} has no network of its own`);
}
