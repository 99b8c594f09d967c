// ottla cluster health: every node asked, what is wrong told with what it means and what to do.
import { setTimeout as delay } from "node:timers/promises";
import { EXIT } from "../../model/exit-codes.ts";
import { OttlaError } from "../../model/errors.ts";
import { bootstrapOf, isNamed, timeoutOf } from "../client.ts";
import { type Diagnosis, diagnose, type Finding } from "../cluster/diagnosis.ts";
import { localFacts } from "../cluster/local-facts.ts";
import { localNode, targetOf } from "../cluster/look.ts";
import type { ClusterObservation } from "../cluster/observation.ts";
import { ClusterObserver } from "../cluster/observer.ts";
import type { Invocation } from "../invocation.ts";
import { findingAsJson } from "../launcher/presenter.ts";
import type { Output } from "../output.ts";
import { exitCodeOfSignal, onStopSignals, type StopSignal } from "../signals.ts";
import { liveState } from "../state-file.ts";
import { counted, UsageError } from "../values.ts";
import { type DirectoryFlags, directoryOf } from "./cluster-target.ts";

export interface HealthFlags extends DirectoryFlags {
  readonly wait?: boolean;
  readonly watch?: boolean;
}

interface Health {
  readonly seen: ClusterObservation;
  readonly diagnosis: Diagnosis;
}

const RETRY_MS = 200;
const WATCH_MS = 1000;
const ANSWER_MS = 3000;

const isGood = ({ diagnosis }: Health) => diagnosis.condition === "healthy";

export async function clusterHealth(invocation: Invocation<HealthFlags>): Promise<number> {
  const { flags, output } = invocation;
  if (flags.wait === true && flags.watch === true) throw new UsageError("--wait and --watch exclude each other");
  const dataDir = directoryOf(flags);
  const addresses = bootstrapOf(flags, dataDir);
  const observer = new ClusterObserver();
  const ask = async (timeoutMs: number): Promise<Health> => {
    // Where the launcher's own addresses are asked, it is known which node each is, also of one that answers nothing.
    const nodes = isNamed(flags) ? [] : (liveState(dataDir)?.nodes ?? []);
    const targets = nodes.length > 0 ? nodes.map(localNode).map(targetOf) : addresses.map((address) => ({ address }));
    const seen = await observer.look(targets, { timeoutMs, withTopics: true });
    return { seen, diagnosis: diagnose(seen, nodes.length > 0 ? localFacts(dataDir) : undefined) };
  };
  try {
    if (flags.watch === true) return await watch(ask, output);
    const timeoutMs = timeoutOf(flags);
    const health = flags.wait === true ? await untilGood(ask, timeoutMs) : await ask(Math.min(ANSWER_MS, timeoutMs));
    if (health.diagnosis.condition === "down") throw noneAnswers(addresses);
    tell(health, output);
    return isGood(health) ? EXIT.OK : EXIT.UNHEALTHY;
  } finally {
    await observer.close();
  }
}

function noneAnswers(addresses: readonly string[]): OttlaError {
  return new OttlaError("CONNECTION_FAILED", `no node answers at ${addresses.join(", ")}`);
}

/** The first good health, or the last bad one when the time is up. */
async function untilGood(ask: (timeoutMs: number) => Promise<Health>, timeoutMs: number): Promise<Health> {
  const deadlineMs = performance.now() + timeoutMs;
  for (;;) {
    const leftMs = Math.max(100, deadlineMs - performance.now());
    const health = await ask(Math.min(ANSWER_MS, leftMs));
    if (isGood(health) || performance.now() + RETRY_MS >= deadlineMs) return health;
    await delay(RETRY_MS);
  }
}

/** Until a signal: each health that differs from the one before. */
async function watch(ask: (timeoutMs: number) => Promise<Health>, output: Output): Promise<number> {
  let stopped: StopSignal | undefined;
  const woken = new AbortController();
  const off = onStopSignals({
    onFirst: (signal) => {
      stopped = signal;
      woken.abort();
    },
    onAgain: (signal) => process.exit(exitCodeOfSignal(signal)),
  });
  let last = "";
  while (stopped === undefined) {
    const health = await ask(ANSWER_MS);
    const now = JSON.stringify(asJson(health));
    if (now !== last && stopped === undefined) {
      if (!output.isJson) output.line(`-- ${new Date().toTimeString().slice(0, 8)}`);
      tell(health, output, { time: new Date().toISOString() });
    }
    last = now;
    await delay(WATCH_MS, undefined, { signal: woken.signal }).catch(() => undefined);
  }
  off();
  return exitCodeOfSignal(stopped);
}

function asJson({ seen, diagnosis }: Health) {
  const { condition, findings, remarks, voters } = diagnosis;
  return {
    isHealthy: condition === "healthy",
    condition,
    clusterId: seen.clusterId,
    controllerId: seen.controllerId >= 0 ? seen.controllerId : null,
    voters,
    brokers: diagnosis.nodes,
    topics: seen.topics?.topics ?? null,
    partitions: seen.topics?.partitions ?? null,
    problems: findings.map(({ message }) => message),
    findings: findings.map(findingAsJson),
    remarks,
  };
}

function tell(health: Health, output: Output, more: Readonly<Record<string, unknown>> = {}): void {
  if (output.isJson) return output.json("cluster.health", { ...more, ...asJson(health) });
  const { condition, findings, remarks, voters } = health.diagnosis;
  output.line(condition);
  for (const finding of findings) for (const line of textOf(finding)) output.line(line);
  for (const remark of remarks) output.note(remark);
  const { topics } = health.seen;
  const counts = [counted(health.diagnosis.nodes, "node")];
  if (voters.total > 0) counts.push(`${voters.up} of ${counted(voters.total, "voter")} up`);
  if (topics !== null) counts.push(counted(topics.topics, "topic"), counted(topics.partitions, "partition"));
  output.note(counts.join(", "));
}

function textOf({ message, means, hint }: Finding): string[] {
  return [message, ...(means === "" ? [] : [`  means: ${means}`]), `  hint: ${hint}`];
}
