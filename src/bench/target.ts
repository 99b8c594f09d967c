// The brokers that are measured: a running cluster, or one that the benchmark starts with empty directories and takes away again.
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type ChaosCluster, startCluster } from "../chaos/cluster.ts";
import type { Client } from "../client/types.ts";
import { footprintOf, listenerOf, type Usage, usageOf } from "./process-usage.ts";
import type { ClusterFacts, ProcessSample } from "./result.ts";

export interface BrokerProcess {
  readonly name: string;
  readonly pid: number;
}

export interface Target {
  readonly facts: ClusterFacts;
  readonly brokers: readonly string[];
  /** Of all brokers; undefined when one of them is not a process of this machine that may be looked at. */
  readonly processes: readonly BrokerProcess[] | undefined;
  /** Belongs to the target; closed with it. */
  readonly client: Client;
  /** Ends the brokers that were started, and removes their directories. */
  close(): Promise<void>;
}

/** `directory`: where the nodes' directories are made. */
export async function startTarget(nodes: number, directory: string): Promise<Target> {
  const root = mkdtempSync(join(directory, "ottla-bench-"));
  let cluster: ChaosCluster | undefined;
  try {
    cluster = await startCluster({ nodes, directory: join(root, "nodes") });
    const { nodes: started, brokers } = cluster;
    const processes = started.flatMap(({ nodeId, pid }) =>
      pid === undefined ? [] : [{ name: `node ${nodeId}`, pid }],
    );
    const running = cluster;
    return {
      facts: { brokers: nodes, isOwn: true },
      brokers,
      processes: processes.length === nodes ? processes : undefined,
      client: await cluster.client(),
      close: async () => {
        await running.close();
        rmSync(root, { recursive: true, force: true });
      },
    };
  } catch (thrown) {
    await cluster?.close();
    rmSync(root, { recursive: true, force: true });
    throw thrown;
  }
}

/** `client` stays the caller's to close. */
export async function runningTarget(client: Client): Promise<Target> {
  const { brokers: known } = await client.admin().describeCluster();
  const alive = known.filter(({ isFenced }) => !isFenced);
  const processes = alive.flatMap(({ nodeId, address }) => {
    const pid = listenerOf(address);
    return pid === undefined ? [] : [{ name: `node ${nodeId}`, pid }];
  });
  return {
    facts: { brokers: alive.length, isOwn: false },
    brokers: alive.map(({ address }) => address),
    processes: processes.length === alive.length ? processes : undefined,
    client,
    close: () => Promise.resolve(),
  };
}

/** Undefined when it is not known of every broker. */
export function usageOfBrokers({ processes }: Target): Usage | undefined {
  const usages = processes?.map(({ pid }) => usageOf(pid));
  if (usages === undefined) return undefined;
  let cpuSeconds = 0;
  let writtenBytes = 0;
  for (const usage of usages) {
    if (usage === undefined) return undefined;
    cpuSeconds += usage.cpuSeconds;
    writtenBytes += usage.writtenBytes;
  }
  return { cpuSeconds, writtenBytes };
}

export function sampleBrokers({ processes = [] }: Target, atMs: number): ProcessSample[] {
  return processes.flatMap(({ name, pid }) => {
    const footprint = footprintOf(pid);
    return footprint === undefined ? [] : [{ atMs, process: name, ...footprint }];
  });
}
