// What replication costs: three brokers in their own processes with acks=all against one broker with acks=all of the same run, which has
// the same client and one sync instead of three. Throughput with 64 KiB batches, 50 in flight; latency with one 16 KiB batch in flight; and how
// soon a paused follower is left behind. The client and the brokers share the machine's cores.
import { connect } from "../src/index.ts";
import { type BrokerProcess, withBrokerProcess, withBrokerProcesses } from "./broker-process.ts";
import { interleave, type BoundedSummary, ratios, type Summary, summarise, type Variant } from "./harness.ts";
import { type ProduceLoad, produceRate, produceTo, settle } from "./produce.ts";

const REPLICAS = 3;
const FLOOR = 0.2;
const GOAL = 0.3;
const LATENCY_MOST = 4;
const BATCH_BYTES = 16 * 1024;
const LATENCY_MS = 8_000;
const WARM_UP = 100;
/** acks=all is to be back within this after a follower was paused (R-28 with replica.lag.time.max.ms and the interval of the check). */
const BACK_WITHIN_MS = 5_000;
const PAUSED_MS = 12_000;
const BACK_MOST = 2;

const RF = { acks: "all", recordBytes: 1024, replicationFactor: REPLICAS } as const;

function replicatedRate(load: ProduceLoad): Promise<number> {
  return withBrokerProcesses(REPLICAS, async (brokers) => {
    await allRegistered(brokers);
    return produceTo(addressesOf(brokers), load);
  });
}

const addressesOf = (brokers: readonly BrokerProcess[]) => brokers.map(({ address }) => address);

async function allRegistered(brokers: readonly BrokerProcess[]): Promise<void> {
  const client = await connect({ brokers: addressesOf(brokers), connectTimeoutMs: 20_000 });
  const giveUpAt = performance.now() + 20_000;
  for (;;) {
    const { brokers: known } = await client.admin().describeCluster();
    if (known.filter(({ isFenced }) => !isFenced).length === brokers.length) break;
    if (performance.now() > giveUpAt) throw new Error("the brokers do not find each other");
    await pause(50);
  }
  await client.close();
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

interface Sample {
  readonly sentMs: number;
  readonly latencyMs: number;
}

/** One batch after another, until `untilMs` after the first. */
async function latencies(
  brokers: readonly BrokerProcess[],
  replicationFactor: number,
  use: (run: {
    readonly samples: readonly Sample[];
    readonly leader: number;
    readonly nextSample: () => Promise<Sample>;
  }) => Promise<number>,
): Promise<number> {
  const client = await connect({ brokers: addressesOf(brokers), connectTimeoutMs: 20_000 });
  const topic = await client.admin().createTopic("bench", { partitions: 1, replicationFactor });
  const leader = topic.partitions[0]?.leader;
  if (leader === undefined || leader === null) throw new Error("no leader");
  const producer = client.producer({ acks: "all", batchBytes: BATCH_BYTES * 2, lingerMs: 0 });
  await producer.prepare("bench");
  const value = new Uint8Array(BATCH_BYTES - 200).map((_, index) => (index * 131) & 0xff);
  const samples: Sample[] = [];
  const nextSample = async (): Promise<Sample> => {
    const sentMs = performance.now();
    await producer.send("bench", { value });
    const sample = { sentMs, latencyMs: performance.now() - sentMs };
    samples.push(sample);
    return sample;
  };
  for (let sent = 0; sent < WARM_UP; sent++) await nextSample();
  samples.length = 0;
  const figure = await use({ samples, leader, nextSample });
  await client.close();
  return figure;
}

function percentile(samples: readonly Sample[], share: number): number {
  const sorted = samples.map(({ latencyMs }) => latencyMs).sort((left, right) => left - right);
  const figure = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  if (figure === undefined) throw new Error("nothing was sent in that time");
  return figure;
}

async function medianLatency(brokers: readonly BrokerProcess[], replicationFactor: number): Promise<number> {
  return latencies(brokers, replicationFactor, async ({ samples, nextSample }) => {
    const untilMs = performance.now() + LATENCY_MS;
    while (performance.now() < untilMs) await nextSample();
    return percentile(samples, 0.5);
  });
}

interface PauseFigures {
  readonly ratio: number;
  readonly gapMs: number;
}

/** p99 from BACK_WITHIN_MS after a follower was paused on, over p99 before; and the longest wait of one batch. */
function withPausedFollower(): Promise<PauseFigures> {
  return withBrokerProcesses(REPLICAS, async (brokers) => {
    await allRegistered(brokers);
    let gapMs = 0;
    const ratio = await latencies(brokers, REPLICAS, async ({ samples, leader, nextSample }) => {
      const quietUntilMs = performance.now() + LATENCY_MS;
      while (performance.now() < quietUntilMs) await nextSample();
      const before = percentile(samples, 0.99);
      const follower = brokers[leader % REPLICAS];
      if (follower === undefined) throw new Error("no follower");
      const pausedMs = performance.now();
      follower.child.kill("SIGSTOP");
      while (performance.now() < pausedMs + PAUSED_MS) gapMs = Math.max(gapMs, (await nextSample()).latencyMs);
      follower.child.kill("SIGCONT");
      return (
        percentile(
          samples.filter(({ sentMs }) => sentMs >= pausedMs + BACK_WITHIN_MS),
          0.99,
        ) / before
      );
    });
    return { ratio, gapMs };
  });
}

/** `scale` 1 is the published size; smaller for a quick look. */
export async function benchReplication(rounds: number, scale: number): Promise<(Summary | BoundedSummary)[]> {
  const totalBytes = Math.round(500_000_000 * scale);
  const one = "one broker, acks=all, 1 partition";
  const counts = [1, 6, 200];
  const nameOf = (partitions: number) =>
    `three brokers, acks=all, ${partitions} partition${partitions === 1 ? "" : "s"}`;
  const oneLatency = "one broker, one 16 KiB batch in flight, p50";
  const threeLatency = "three brokers, one 16 KiB batch in flight, p50";
  const variants: Variant[] = [
    { name: one, run: async () => settle().then(() => produceRate({ ...RF, replicationFactor: 1, totalBytes })) },
    ...counts.map((partitions) => ({
      name: nameOf(partitions),
      run: async () => settle().then(() => replicatedRate({ ...RF, partitions, totalBytes })),
    })),
    { name: oneLatency, run: () => withBrokerProcess((broker) => medianLatency([broker], 1)) },
    {
      name: threeLatency,
      run: () =>
        withBrokerProcesses(REPLICAS, async (brokers) => {
          await allRegistered(brokers);
          return medianLatency(brokers, REPLICAS);
        }),
    },
  ];
  const gaps: number[] = [];
  const paused = "a follower paused: p99 after 5 s over p99 before";
  variants.push({
    name: paused,
    run: async () => {
      const { ratio, gapMs } = await withPausedFollower();
      gaps.push(gapMs);
      return ratio;
    },
  });
  const samples = await interleave(variants, rounds);
  const of = (name: string) => samples.get(name) ?? [];
  const rows: (Summary | BoundedSummary)[] = [summarise(one, "MB/s", of(one))];
  for (const partitions of counts) {
    const rates = of(nameOf(partitions));
    rows.push(summarise(nameOf(partitions), "MB/s", rates));
    const over = summarise("  over one broker", "ratio", ratios(rates, of(one)));
    rows.push(partitions === 1 ? { ...over, baseline: one, floor: FLOOR, goal: GOAL } : over);
  }
  rows.push(summarise(oneLatency, "ms", of(oneLatency)), summarise(threeLatency, "ms", of(threeLatency)));
  rows.push({
    ...summarise("  over one broker", "ratio", ratios(of(threeLatency), of(oneLatency))),
    baseline: oneLatency,
    most: LATENCY_MOST,
  });
  rows.push({ ...summarise(paused, "ratio", of(paused)), most: BACK_MOST });
  rows.push(summarise("  longest wait of one batch", "ms", gaps));
  return rows;
}
