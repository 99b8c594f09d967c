// Nodes on loopback, each behind a proxy in a thread of its own: clients and other nodes are told the proxy's address.
import { once } from "node:events";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { drawFreePorts } from "../../cli/free-ports.ts";
import { distDirectory } from "../build.ts";
import type { NodePlace, NodeProxy, Place, ProxyFault } from "../cluster-types.ts";
import { type ProxyCounts, SharedCounts } from "./proxy-counts.ts";
import type { ProxyOrder, ProxyTask } from "./proxy-worker.ts";

const HOST = "127.0.0.1";

export async function openProxies(nodeIds: readonly number[]): Promise<Place> {
  const ports = await drawFreePorts(nodeIds.length * 2);
  const proxies: ThreadProxy[] = [];
  const close = async (): Promise<void> => void (await Promise.all(proxies.map(async (proxy) => proxy.close())));
  try {
    const nodes = new Map<number, NodePlace>();
    for (const [index, nodeId] of nodeIds.entries()) {
      const [listenPort = 0, nodePort = 0] = ports.slice(index * 2);
      const proxy = new ThreadProxy({ listenPort, nodePort, host: HOST, seed: nodeId });
      proxies.push(proxy);
      await proxy.ready();
      const listeners = `${HOST}:${nodePort}`;
      nodes.set(nodeId, { prefix: [], listeners, advertised: proxy.address, proxy });
    }
    return { nodes, clientPrefix: [], close };
  } catch (error) {
    await close();
    throw error;
  }
}

class ThreadProxy implements NodeProxy {
  readonly address: string;
  readonly #counts = new SharedCounts();
  readonly #worker: Worker;
  readonly #waiting = new Map<number, () => void>();
  readonly #ready: Promise<unknown>;
  #ordered = 0;

  constructor(task: Omit<ProxyTask, "memory">) {
    this.address = `${task.host}:${task.listenPort}`;
    const script = join(distDirectory(), "chaos", "faults", "proxy-worker.js");
    const data: ProxyTask = { ...task, memory: this.#counts.memory };
    this.#worker = new Worker(script, { workerData: data, execArgv: [] });
    this.#ready = once(this.#worker, "message");
    this.#ready.catch(() => undefined);
    this.#worker.on("message", (id: number) => {
      this.#waiting.get(id)?.();
      this.#waiting.delete(id);
    });
  }

  async ready(): Promise<void> {
    await this.#ready;
  }

  get counts(): ProxyCounts {
    return this.#counts.all;
  }

  async set(fault: ProxyFault | undefined): Promise<void> {
    const order: ProxyOrder = { id: ++this.#ordered, fault };
    const isInForce = new Promise<void>((resolve) => void this.#waiting.set(order.id, resolve));
    this.#worker.postMessage(order);
    await isInForce;
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}
