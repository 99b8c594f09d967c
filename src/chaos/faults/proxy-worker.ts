// A thread with one proxy. It is told faults, and says when they are in force.
import { parentPort, workerData } from "node:worker_threads";
import { createRng } from "../../base/rng.ts";
import type { ProxyFault } from "../cluster-types.ts";
import { SharedCounts } from "./proxy-counts.ts";
import { TcpProxy } from "./proxy.ts";

export interface ProxyTask {
  readonly listenPort: number;
  readonly nodePort: number;
  readonly host: string;
  readonly seed: number;
  readonly memory: SharedArrayBuffer;
}

export interface ProxyOrder {
  readonly id: number;
  readonly fault: ProxyFault | undefined;
}

const { listenPort, nodePort, host, seed, memory } = workerData as ProxyTask;
const counts = new SharedCounts(memory);
const proxy = new TcpProxy({ host, port: nodePort, rng: createRng(seed), count: counts.add.bind(counts) });
await proxy.listen(host, listenPort);
parentPort?.on("message", ({ id, fault }: ProxyOrder) => {
  proxy.set(fault);
  parentPort?.postMessage(id);
});
parentPort?.postMessage(0);
