// ottla cluster health: every broker ready, every partition led and with all its replicas in sync.
import { setTimeout as delay } from "node:timers/promises";
import type { TopicInfo } from "../../client/types.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { timeoutOf, withClient } from "../client.ts";
import { failureOf } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import type { GlobalFlags } from "../output.ts";
import { counted } from "../values.ts";

export interface HealthFlags {
  readonly wait?: boolean;
}

interface Health {
  readonly brokers: number;
  readonly topics: number;
  readonly partitions: number;
  readonly problems: readonly string[];
}

/** What /readyz answers. A broker low on space is ready, for it serves reads, but not healthy. */
interface Readiness {
  readonly ready?: boolean;
  readonly checks?: Readonly<Record<string, string>>;
}

const GOOD_STATES: readonly string[] = ["ok", "running"];
const RETRY_MS = 200;

export async function clusterHealth({ flags, output }: Invocation<HealthFlags>): Promise<number> {
  const health = flags.wait === true ? await waitForHealth(flags) : await askHealth(flags);
  const isHealthy = health.problems.length === 0;
  if (output.isJson) output.json("cluster.health", { isHealthy, ...health });
  else {
    output.line(isHealthy ? "healthy" : "unhealthy");
    for (const problem of health.problems) output.line(problem);
    const { brokers, topics, partitions } = health;
    output.note([counted(brokers, "broker"), counted(topics, "topic"), counted(partitions, "partition")].join(", "));
  }
  return isHealthy ? EXIT.OK : EXIT.UNHEALTHY;
}

/** The first good health, or the last bad one (or failure) when the time is up. */
async function waitForHealth(flags: GlobalFlags): Promise<Health> {
  const deadlineMs = performance.now() + timeoutOf(flags);
  for (;;) {
    const leftMs = Math.max(100, Math.round(deadlineMs - performance.now()));
    const outcome = await askHealth({ ...flags, timeout: `${leftMs}ms` }).catch((thrown: unknown) => ({ thrown }));
    const isUp = performance.now() + RETRY_MS >= deadlineMs;
    if ("thrown" in outcome) {
      if (isUp || failureOf(outcome.thrown).exitCode === EXIT.USAGE) throw outcome.thrown;
    } else if (outcome.problems.length === 0 || isUp) return outcome;
    await delay(RETRY_MS);
  }
}

async function askHealth(flags: GlobalFlags): Promise<Health> {
  return withClient(flags, async (client) => {
    const admin = client.admin();
    const cluster = await admin.describeCluster();
    const topics = await admin.listTopics();
    const brokers = await Promise.all(cluster.brokers.map(({ nodeId, address }) => brokerProblems(nodeId, address)));
    const problems = [...brokers.flat(), ...topics.flatMap(topicProblems)];
    const partitions = topics.reduce((sum, topic) => sum + topic.partitions.length, 0);
    return { brokers: cluster.brokers.length, topics: topics.length, partitions, problems };
  });
}

async function brokerProblems(nodeId: number, address: string): Promise<string[]> {
  const base = `http://${address.replace(/^ws:\/\//, "")}`;
  try {
    const answer = await fetch(`${base}/readyz`, { signal: AbortSignal.timeout(3000) });
    const { ready, checks = {} } = (await answer.json()) as Readiness;
    const failed = Object.entries(checks).filter(([, state]) => !GOOD_STATES.includes(state));
    if (ready === true && failed.length === 0) return [];
    const what = failed.map(([name, state]) => `${name} ${state}`).join(", ");
    return [`broker ${nodeId} (${address})${ready === true ? "" : " is not ready"}: ${what}`];
  } catch {
    return [`broker ${nodeId} (${address}) does not answer`];
  }
}

function topicProblems(topic: TopicInfo): string[] {
  if (topic.isDeleting) return [];
  return topic.partitions.flatMap((partition) => {
    const name = `partition ${topic.name}-${partition.index}`;
    if (partition.leader < 0) return [`${name} has no leader`];
    if (partition.error !== "NONE") return [`${name}: ${partition.error}`];
    const missing = partition.replicas.length - partition.isr.length;
    return missing > 0
      ? [`${name} is under-replicated: ${missing} of ${partition.replicas.length} replicas not in sync`]
      : [];
  });
}
