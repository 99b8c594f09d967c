// A broker in its own process against what its disk can do with the same grouping, and what readers of old records cost one who reads the newest (issue:
// "Figures"). `npm run bench -- broker`.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { connect } from "../src/index.ts";
import { BARE_NAMES, bareBroker } from "./bare-broker.ts";
import { BareFile } from "./bare-files.ts";
import { bareTail } from "./bare-tail.ts";
import { type BrokerProcess, withBrokerProcess } from "./broker-process.ts";
import { type BoundedSummary, comparedRows, interleave, type Summary, withTemporaryDirectory } from "./harness.ts";
import { produceTo, settle } from "./produce.ts";

const BATCH_BYTES = 256 * 1024;
const GROUP = 16;
const TOTAL_BYTES = 1_000_000_000;
const GROUPED_FLOOR = 0.5;
const COLD_READERS = 20;
const COLD_BYTES = 500_000_000;
const TAIL_MS = 10_000;
const TAIL_RATE = 200;
const TAIL_MOST = 2;

/** Megabytes (10^6) per second: sixteen batches in one write, one fdatasync, over and over. */
function groupedWrites(totalBytes: number): Promise<number> {
  return withTemporaryDirectory(async (directory) => {
    const file = new BareFile(join(directory, "grouped"), totalBytes);
    const chunks = Array.from({ length: GROUP }, () => new Uint8Array(BATCH_BYTES).fill(7));
    const startedAt = performance.now();
    let bytes = 0;
    for (; bytes + GROUP * BATCH_BYTES <= totalBytes; bytes += GROUP * BATCH_BYTES) await file.append(chunks);
    const figure = bytes / 1000 / (performance.now() - startedAt);
    file.close();
    return figure;
  });
}

async function groupedRows(rounds: number, scale: number): Promise<(Summary | BoundedSummary)[]> {
  const totalBytes = Math.round(TOTAL_BYTES * scale);
  const grouped = "grouped write and fdatasync, 16 x 256 KiB";
  const bare = BARE_NAMES.kept;
  const broker = "broker, acks=all, batches of 256 KiB";
  const load = { acks: "all", recordBytes: 1024, batchBytes: BATCH_BYTES, totalBytes } as const;
  const samples = await interleave(
    [
      { name: grouped, run: () => settle().then(() => groupedWrites(totalBytes)) },
      { name: bare, run: () => settle().then(() => bareBroker("kept", BATCH_BYTES, totalBytes)) },
      { name: broker, run: () => settle().then(() => withBrokerProcess(({ address }) => produceTo([address], load))) },
    ],
    rounds,
  );
  const ratio = "  over grouped writes";
  const rows = { baseline: grouped, unit: "MB/s", ratio };
  return [
    ...comparedRows(samples, { ...rows, judged: bare, bound: {} }),
    ...comparedRows(samples, { ...rows, judged: broker, bound: { floor: GROUPED_FLOOR } }).slice(1),
  ];
}

/** p99 in milliseconds of one who reads what is written now, from the send to the record; `readers` others read what is old meanwhile. */
function tailP99(readers: number, scale: number): Promise<number> {
  return withBrokerProcess(async (broker) => {
    await produceTo([broker.address], { acks: 1, recordBytes: 1024, totalBytes: COLD_BYTES * scale, topic: "cold" });
    const others = readers === 0 ? undefined : await startReaders(broker, readers);
    const figure = await tail(broker);
    others?.kill("SIGKILL");
    return figure;
  }, SETTINGS);
}

/** What is old is not in the broker's memory. */
const SETTINGS = { "tail.cache.bytes": "4MiB" };

/** In a process of their own, each from the oldest to the newest record, over and over. Resolves when all have read something. */
async function startReaders(broker: BrokerProcess, readers: number): Promise<ChildProcess> {
  const entry = join(import.meta.dirname, "cold-readers.ts");
  const child = fork(entry, [broker.address, "cold", String(readers)], { execArgv: ["--import", "tsx"] });
  await once(child, "message");
  return child;
}

async function tail(broker: BrokerProcess): Promise<number> {
  const client = await connect({ brokers: [broker.address], connectTimeoutMs: 20_000 });
  await client.admin().createTopic("tail", { partitions: 1, replicationFactor: 1 });
  const consumer = client.consumer({ topics: ["tail"] });
  const producer = client.producer({ acks: "all", lingerMs: 0 });
  const samples: number[] = [];
  const reading = (async () => {
    for await (const record of consumer) {
      samples.push(performance.now() - Number(new TextDecoder().decode(record.value ?? undefined)));
    }
  })();
  const startedAt = performance.now();
  const sends: Promise<unknown>[] = [];
  for (let sent = 0; performance.now() - startedAt < TAIL_MS; sent++) {
    const dueMs = startedAt + (sent * 1000) / TAIL_RATE;
    const waitMs = dueMs - performance.now();
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    sends.push(producer.send("tail", { value: String(performance.now()) }));
  }
  await Promise.all(sends);
  while (samples.length < sends.length) await new Promise((resolve) => setTimeout(resolve, 10));
  await consumer.close();
  await reading;
  await client.close();
  return p99(samples);
}

function p99(samples: readonly number[]): number {
  return samples.toSorted((a, b) => a - b)[Math.floor(samples.length * 0.99)] ?? Number.NaN;
}

/** The same of a server that does no more than it must. */
async function bareTailP99(readers: number, scale: number): Promise<number> {
  return p99(await bareTail({ readers, coldBytes: COLD_BYTES * scale, durationMs: TAIL_MS, rate: TAIL_RATE }));
}

async function tailRows(rounds: number, scale: number): Promise<(Summary | BoundedSummary)[]> {
  const alone = "p99 of reading the tail";
  const beside = `p99 of reading the tail beside ${COLD_READERS} cold readers`;
  const bareAlone = "bare server: p99 of the tail";
  const bareBeside = `bare server: beside ${COLD_READERS} cold readers`;
  const samples = await interleave(
    [
      { name: bareAlone, run: () => settle().then(() => bareTailP99(0, scale)) },
      { name: bareBeside, run: () => settle().then(() => bareTailP99(COLD_READERS, scale)) },
      { name: alone, run: () => settle().then(() => tailP99(0, scale)) },
      { name: beside, run: () => settle().then(() => tailP99(COLD_READERS, scale)) },
    ],
    rounds,
  );
  const rows = { unit: "ms", ratio: "  over it alone" };
  return [
    ...comparedRows(samples, { ...rows, baseline: bareAlone, judged: bareBeside, bound: {} }),
    ...comparedRows(samples, { ...rows, baseline: alone, judged: beside, bound: { most: TAIL_MOST } }),
  ];
}

export async function benchBroker(rounds: number, scale: number): Promise<(Summary | BoundedSummary)[]> {
  return [...(await groupedRows(rounds, scale)), ...(await tailRows(rounds, scale))];
}
