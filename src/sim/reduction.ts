// What is taken away from a seed's scenario to make it shorter, and how that is written on a command line.
import type { FaultRates, SwarmConfig } from "./swarm.ts";

type FaultName = keyof FaultRates;

/** Everything that is not named stays as the seed drew it. */
export interface Reduction {
  readonly safetyMs?: number;
  /** Fault classes that are off. */
  readonly off?: readonly FaultName[];
  readonly voters?: number;
  readonly observers?: number;
  readonly clients?: number;
  readonly metadataClients?: number;
  readonly topics?: number;
  readonly partitions?: number;
  readonly replicas?: number;
  /** No operator, and nobody who deletes topics. */
  readonly isQuiet?: boolean;
  /** The only acts of the nemesis. */
  readonly acts?: readonly string[];
}

export function reduced(swarm: SwarmConfig, reduction: Reduction): SwarmConfig {
  const off = Object.fromEntries((reduction.off ?? []).map((name) => [name, 0]));
  const isQuiet = reduction.isQuiet === true;
  return {
    ...swarm,
    safetyMs: reduction.safetyMs ?? swarm.safetyMs,
    faults: { ...swarm.faults, ...off },
    cluster: {
      voters: reduction.voters ?? swarm.cluster.voters,
      observers: reduction.observers ?? swarm.cluster.observers,
    },
    clients: swarm.clients.slice(0, reduction.clients ?? swarm.clients.length),
    metadata: { ...swarm.metadata, clients: reduction.metadataClients ?? swarm.metadata.clients },
    topics: reduction.topics ?? swarm.topics,
    partitionsMax: reduction.partitions ?? swarm.partitionsMax,
    replicasMax: reduction.replicas ?? swarm.replicasMax,
    operator: isQuiet ? quietOperator(swarm.operator) : swarm.operator,
    deleteTopicMs: isQuiet ? 0 : swarm.deleteTopicMs,
    ...(reduction.acts === undefined ? {} : { acts: reduction.acts }),
  };
}

/** What it does again and again it does never; what it is stays. */
function quietOperator<T extends object>(plan: T): T {
  return Object.fromEntries(
    Object.entries(plan).map(([name, value]) => [name, typeof value === "number" ? 0 : value]),
  ) as T;
}

const NUMBERS = {
  ms: "safetyMs",
  voters: "voters",
  observers: "observers",
  clients: "clients",
  metadata: "metadataClients",
  topics: "topics",
  partitions: "partitions",
  replicas: "replicas",
} as const;

/** One word without blanks but those in the names of acts: `ms=4200,off=cutMs+pauseMs,acts=power loss#2+cut#1`. */
export function reductionText(reduction: Reduction): string {
  const parts = Object.entries(NUMBERS).flatMap(([word, key]) =>
    reduction[key] === undefined ? [] : [`${word}=${reduction[key]}`],
  );
  if (reduction.isQuiet === true) parts.push("quiet");
  if (reduction.off !== undefined && reduction.off.length > 0) parts.push(`off=${reduction.off.join("+")}`);
  if (reduction.acts !== undefined) parts.push(`acts=${reduction.acts.join("+")}`);
  return parts.join(",");
}

export function parseReduction(text: string): Reduction {
  let reduction: Reduction = {};
  for (const part of text.split(",").filter((each) => each !== "")) {
    const [word = "", value = ""] = part.split("=");
    const list = value === "" ? [] : value.split("+");
    if (word === "quiet") reduction = { ...reduction, isQuiet: true };
    else if (word === "off") reduction = { ...reduction, off: list as FaultName[] };
    else if (word === "acts") reduction = { ...reduction, acts: list };
    else if (word in NUMBERS) reduction = { ...reduction, [NUMBERS[word as keyof typeof NUMBERS]]: Number(value) };
    else throw new RangeError(`"${word}" is no part of a reduced scenario`);
  }
  return reduction;
}
