// Nodes in networks of their own behind a bridge in another one, so that what one sends to another can go nowhere, in one direction, told to nobody.
// Needs Linux, and root or `unshare -rn`. A network lives as long as a process in it: here one that does nothing, and dies with this process.
import { readFileSync, readlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Children } from "../children.ts";
import type { NodeNetwork, NodePlace, Place } from "../cluster-types.ts";
import { ipBatch, run } from "./network-shell.ts";

const PORT = 7070;
/** Where this process, and clients that it starts, are in the nodes' network. */
const OUTSIDE = 254;
/** A new process enters its network within that. */
const ENTER_MS = 10_000;
const LOOK_AGAIN_MS = 5;

const macOf = (host: number): string => `02:00:00:00:00:${host.toString(16).padStart(2, "0")}`;
/** Frames to this address end in the sink of the node that sent them: sent for all it knows, received by nobody, counted. */
const sinkMacOf = (host: number): string => `02:00:00:00:fe:${host.toString(16).padStart(2, "0")}`;
const portOf = (host: number): string => `node${host}`;
const sinkOf = (host: number): string => `sink${host}`;

/** Why no such networks can be made here; undefined: they can. Really makes one. */
export async function noNetworks(): Promise<string | undefined> {
  if (process.platform !== "linux") return `no network namespaces on ${process.platform}`;
  try {
    await (await openNamespaces([1])).close();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Rejects, with nothing left behind, where it cannot be done. Node ids 1 to 200. */
export async function openNamespaces(nodeIds: readonly number[]): Promise<Place> {
  const networks = new Networks(nodeIds);
  try {
    return await networks.open();
  } catch (error) {
    await networks.close();
    throw error;
  }
}

class Networks {
  readonly #nodeIds: readonly number[];
  readonly #children = new Children();
  #hub = 0;
  #subnet = "";
  /** Of the veth pair's end in this process's network. */
  #outside = "";

  constructor(nodeIds: readonly number[]) {
    this.#nodeIds = nodeIds;
  }

  #ipOf(host: number): string {
    return `${this.#subnet}.${host}`;
  }

  async open(): Promise<Place> {
    await this.#chooseNames();
    this.#hub = await this.#newNetwork();
    await ipBatch(this.#hub, [
      "link set lo up",
      "link add bridge0 type bridge mcast_snooping 0",
      "link set bridge0 addrgenmode none",
      "link set bridge0 up",
    ]);
    await this.#joinOutside();
    const nodes = new Map<number, NodePlace>();
    for (const nodeId of this.#nodeIds) {
      const pid = await this.#joinNode(nodeId);
      const address = `${this.#ipOf(nodeId)}:${PORT}`;
      const network = new BridgedNode({
        nodeId,
        pid,
        hub: this.#hub,
        ipOf: this.#ipOf.bind(this),
        others: this.#others(nodeId),
      });
      nodes.set(nodeId, {
        prefix: ["nsenter", "-t", String(pid), "-n"],
        listeners: address,
        advertised: address,
        network,
      });
    }
    return { nodes, clientPrefix: [], close: () => this.close() };
  }

  /** A name and a subnet that nobody has in this process's network; other runs on the machine begin elsewhere, by their process ids. */
  async #chooseNames(): Promise<void> {
    const taken = await run(["ip", "-o", "address"]);
    const links = await run(["ip", "-o", "link"]);
    for (let at = process.pid; at < process.pid + 4_096; at++) {
      this.#subnet = `10.${64 + ((at >> 8) & 63)}.${at & 255}`;
      this.#outside = `ottla${at & 0x3fff}`;
      if (!taken.includes(`${this.#subnet}.`) && !links.includes(`${this.#outside}@`)) return;
    }
    throw new Error("every subnet that it could take is taken");
  }

  async #newNetwork(): Promise<number> {
    const holder = this.#children.spawn({
      command: ["unshare", "-n", "sleep", "infinity"],
      env: {},
      stdio: "ignore",
      cwd: "/",
    });
    const pid = holder.pid;
    const own = readlinkSync("/proc/self/ns/net");
    const untilMs = performance.now() + ENTER_MS;
    while (pid !== undefined && holder.exitCode === null && performance.now() < untilMs) {
      if (networkOf(pid) !== own) return pid;
      await sleep(LOOK_AGAIN_MS);
    }
    throw new Error("unshare -n: no network of its own");
  }

  /** Nobody asks who has an address, so nobody learns by an answer that is missing. */
  #others(host: number): readonly number[] {
    return [...this.#nodeIds, OUTSIDE].filter((other) => other !== host);
  }

  #neighbours(host: number, device: string): string[] {
    return this.#others(host).map(
      (other) => `neigh replace ${this.#ipOf(other)} lladdr ${macOf(other)} dev ${device} nud permanent`,
    );
  }

  async #joinOutside(): Promise<void> {
    await ipBatch(undefined, [
      `link add ${this.#outside} address ${macOf(OUTSIDE)} type veth peer name outside netns ${this.#hub}`,
      `link set ${this.#outside} addrgenmode none`,
      `addr add ${this.#ipOf(OUTSIDE)}/24 dev ${this.#outside}`,
      `link set ${this.#outside} up`,
      ...this.#neighbours(OUTSIDE, this.#outside),
    ]);
    await ipBatch(this.#hub, ["link set outside addrgenmode none", "link set outside master bridge0 up"]);
  }

  async #joinNode(nodeId: number): Promise<number> {
    const pid = await this.#newNetwork();
    const [port, sink] = [portOf(nodeId), sinkOf(nodeId)];
    await ipBatch(this.#hub, [
      `link add ${port} type veth peer name eth0 address ${macOf(nodeId)} netns ${pid}`,
      `link add ${sink} type veth peer name ${sink}end`,
      ...[port, sink, `${sink}end`].map((name) => `link set ${name} addrgenmode none`),
      `link set ${port} master bridge0 up`,
      `link set ${sink}end up`,
      `link set ${sink} master bridge0 up`,
    ]);
    const inHub = ["nsenter", "-t", String(this.#hub), "-n", "bridge"];
    // Only what is meant for the sink goes there: its count is of dropped frames.
    await run([
      ...inHub,
      ..."link set dev".split(" "),
      sink,
      ..."flood off mcast_flood off bcast_flood off learning off".split(" "),
    ]);
    await run([...inHub, "fdb", "replace", sinkMacOf(nodeId), "dev", sink, "master", "static"]);
    await ipBatch(pid, [
      "link set lo up",
      "link set eth0 addrgenmode none",
      `addr add ${this.#ipOf(nodeId)}/24 dev eth0`,
      "link set eth0 up",
      ...this.#neighbours(nodeId, "eth0"),
    ]);
    return pid;
  }

  /** Interfaces end with the networks that they reach into. */
  async close(): Promise<void> {
    await this.#children.close();
  }
}

function networkOf(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`);
  } catch {
    return readlinkSync("/proc/self/ns/net");
  }
}

interface BridgedParts {
  readonly nodeId: number;
  /** A process in the node's network, and one in the bridge's. */
  readonly pid: number;
  readonly hub: number;
  readonly ipOf: (host: number) => string;
  readonly others: readonly number[];
}

class BridgedNode implements NodeNetwork {
  readonly ip: string;
  readonly #parts: BridgedParts;
  /** Frames that had come through the bridge's port when it was taken off; undefined: it is on. */
  #isolatedAt: number | undefined;
  #droppedAtPort = 0;

  constructor(parts: BridgedParts) {
    this.#parts = parts;
    this.ip = parts.ipOf(parts.nodeId);
  }

  async dropTo(ips: readonly string[]): Promise<void> {
    const { pid, nodeId } = this.#parts;
    await ipBatch(
      pid,
      ips.map((ip) => `neigh replace ${ip} lladdr ${sinkMacOf(nodeId)} dev eth0 nud permanent`),
    );
  }

  async isolate(): Promise<void> {
    if (this.#isolatedAt !== undefined) return;
    const { hub, nodeId } = this.#parts;
    this.#isolatedAt = this.#frames(portOf(nodeId)).received;
    await ipBatch(hub, [`link set ${portOf(nodeId)} nomaster`]);
  }

  async heal(): Promise<void> {
    const { hub, nodeId, pid, others, ipOf } = this.#parts;
    if (this.#isolatedAt !== undefined) {
      this.#droppedAtPort += this.#frames(portOf(nodeId)).received - this.#isolatedAt;
      this.#isolatedAt = undefined;
      await ipBatch(hub, [`link set ${portOf(nodeId)} master bridge0`]);
    }
    const right = others.map((other) => `neigh replace ${ipOf(other)} lladdr ${macOf(other)} dev eth0 nud permanent`);
    await ipBatch(pid, right);
  }

  dropped(): Promise<number> {
    const { nodeId } = this.#parts;
    const now = this.#isolatedAt === undefined ? 0 : this.#frames(portOf(nodeId)).received - this.#isolatedAt;
    return Promise.resolve(this.#droppedAtPort + now + this.#frames(sinkOf(nodeId)).sent);
  }

  /** As the kernel counts them since the interface was made. */
  #frames(name: string): { readonly received: number; readonly sent: number } {
    const rows = readFileSync(`/proc/${this.#parts.hub}/net/dev`, "utf8").split("\n");
    const row = rows.find((line) => line.trimStart().startsWith(`${name}:`));
    const [, received = "0", , , , , , , , sent = "0"] = row?.split(":")[1]?.trim().split(/\s+/) ?? [];
    return { received: Number(received), sent: Number(sent) };
  }
}
