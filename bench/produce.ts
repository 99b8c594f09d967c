// Produce throughput of one broker in its own process against the raw append of the same run: acks 1 and all, records of 100 bytes
// and 1 KiB, batches of 64 KiB, 50 in flight on one partition. The client encodes its records and shares the machine's cores. Beside them what a server
// with nothing in it does, which tells how much of the floor is the broker's to reach.
import { connect } from "../src/index.ts";
import type { Acks } from "../src/client/types.ts";
import { interleave, type BoundedSummary, ratios, type Summary, summarise, type Variant } from "./harness.ts";
import { BARE_NAMES, bareBroker } from "./bare-broker.ts";
import { RAW_APPEND_BYTES, rawAppend } from "./raw-append.ts";
import { withBrokerProcess } from "./broker-process.ts";
import { withTemporaryDirectory } from "./harness.ts";

const BATCH_BYTES = 64 * 1024;
const IN_FLIGHT = 50;
const FLOOR = 0.2;
const GOAL = 0.35;
const RAW = "raw append 64 KiB";
const BARE_KINDS = ["heard", "kept"] as const;

export interface ProduceLoad {
  readonly acks: Acks;
  readonly recordBytes: number;
  readonly totalBytes: number;
  /** Default "bench". */
  readonly topic?: string;
  /** Default 64 KiB. */
  readonly batchBytes?: number;
  /** Default 1. */
  readonly partitions?: number;
  /** Default 1. */
  readonly replicationFactor?: number;
}

/** Of one broker, see `produceTo`. */
export function produceRate(load: ProduceLoad): Promise<number> {
  return withBrokerProcess(({ address }) => produceTo([address], load));
}

/** Megabytes (10^6) of record values per second, from the first record to the last acknowledgement. */
export async function produceTo(brokers: readonly string[], load: ProduceLoad): Promise<number> {
  const { partitions = 1, replicationFactor = 1, batchBytes = BATCH_BYTES, topic = "bench" } = load;
  const client = await connect({ brokers, connectTimeoutMs: 20_000 });
  await client.admin().createTopic(topic, { partitions, replicationFactor });
  let failed = 0;
  const producer = client.producer({
    acks: load.acks,
    batchBytes,
    maxInFlight: IN_FLIGHT,
    bufferBytes: (IN_FLIGHT + 10) * batchBytes * Math.min(partitions, 10),
    lingerMs: 5,
    onBatch: (report) => {
      if (report.error !== undefined) failed++;
    },
  });
  await producer.prepare(topic);
  const value = new Uint8Array(load.recordBytes).map((_, index) => (index * 131) & 0xff);
  const records = Math.floor(load.totalBytes / load.recordBytes);
  const startedAt = performance.now();
  for (let sent = 0; sent < records; sent++) {
    const room = producer.enqueue(topic, { value, partition: sent % partitions });
    if (room !== undefined) await room;
  }
  await producer.flush();
  const elapsedMs = performance.now() - startedAt;
  if (failed > 0) throw new Error(`${failed} batches failed`);
  // With acks=1 the last batches may still be on their way to durable, and only then can they be read.
  const giveUpAt = performance.now() + 10_000;
  for (;;) {
    const offsets = await client.admin().offsets(topic);
    const there = offsets.reduce((sum, { endOffset }) => sum + endOffset, 0);
    if (there === records) break;
    if (performance.now() > giveUpAt) throw new Error(`${there} of ${records} records are there`);
  }
  await client.close();
  return (records * load.recordBytes) / 1000 / elapsedMs;
}

/** A virtual machine gives freed pages back to its host within seconds; every sample starts from that same state. */
export const settle = () => new Promise((resolve) => setTimeout(resolve, 3000));

/** `scale` 1 is the published size; smaller for a quick look. */
export async function benchProduce(rounds: number, scale: number): Promise<(Summary | BoundedSummary)[]> {
  const loads: ProduceLoad[] = (["all", 1] as const).flatMap((acks) =>
    [100, 1024].map((recordBytes) => ({ acks, recordBytes, totalBytes: Math.round(1_000_000_000 * scale) })),
  );
  const nameOf = (load: ProduceLoad) => `acks=${load.acks}, ${load.recordBytes} B records`;
  const variants: Variant[] = [
    {
      name: RAW,
      run: () => withTemporaryDirectory(async (directory) => rawAppend(directory, RAW_APPEND_BYTES * scale)),
    },
    ...BARE_KINDS.map((kind) => ({
      name: BARE_NAMES[kind],
      run: () => bareBroker(kind, BATCH_BYTES, RAW_APPEND_BYTES * scale),
    })),
    ...loads.map((load) => ({ name: nameOf(load), run: () => produceRate(load) })),
  ];
  const samples = await interleave(
    variants.map(({ name, run }) => ({ name, run: () => settle().then(run) })),
    rounds,
  );
  const [raw = [], kept = []] = [samples.get(RAW), samples.get(BARE_NAMES.kept)];
  const rows: (Summary | BoundedSummary)[] = [summarise(RAW, "MB/s", raw)];
  for (const name of BARE_KINDS.map((kind) => BARE_NAMES[kind])) {
    const rates = samples.get(name) ?? [];
    rows.push(summarise(name, "MB/s", rates), summarise("  over raw append", "ratio", ratios(rates, raw)));
  }
  for (const load of loads) {
    const rates = samples.get(nameOf(load)) ?? [];
    rows.push(summarise(nameOf(load), "MB/s", rates));
    rows.push(
      summarise(
        `  records`,
        "k/s",
        rates.map((rate) => (rate * 1000) / load.recordBytes),
      ),
    );
    rows.push(summarise("  over the bare server with a write", "ratio", ratios(rates, kept)));
    rows.push({
      ...summarise("  over raw append", "ratio", ratios(rates, raw)),
      baseline: RAW,
      floor: FLOOR,
      goal: GOAL,
    });
  }
  return rows;
}
