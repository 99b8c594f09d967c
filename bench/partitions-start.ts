// A process of its own for bench/partitions.ts: how long a broker with 10,000 partitions that each hold something takes to start, after a clean stop and
// after kill -9 while a hundred of them were written to. The broker is a process of this one. Tells its parent and ends.
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { drawFreePorts } from "../src/cli/free-ports.ts";
import { connect } from "../src/index.ts";
import { plainReads, plainReplay } from "./bare-files.ts";
import { killed, startNode } from "./broker-process.ts";
import { withTemporaryDirectory } from "./harness.ts";
import type { Starts } from "./partitions.ts";

const PARTITIONS = 10_000;
const RECORD_BYTES = 1000;
/** Those that were written to when the broker was killed, and how much. */
const HOT = 100;
const HOT_BYTES = 200_000_000;
const READ_BYTES = 1024 * 1024;
/** About what a batch of theirs has. */
const BATCH_BYTES = 16 * 1024;
/** A checkpoint on the way would be another measurement, and so would a stop that does not end in time. */
const SETTINGS = {
  "max.partitions": "20000",
  "checkpoint.interval.ms": "3600000",
  "journal.bytes": "8GiB",
  "shutdown.timeout.ms": "120s",
};

const [port] = await drawFreePorts(1);
const address = `127.0.0.1:${port}`;

const start = (directory: string): ChildProcess =>
  startNode({ id: 1, address, directory, settings: SETTINGS }).broker.child;

/** Seconds until the last partition can be read. */
async function startSeconds(directory: string): Promise<{ readonly child: ChildProcess; readonly seconds: number }> {
  const startedAt = performance.now();
  const child = start(directory);
  const client = await connect({ brokers: [address], connectTimeoutMs: 180_000 });
  for (;;) {
    const offsets = await client.admin().offsets("many");
    if (offsets.length === PARTITIONS && offsets.every(({ error, endOffset }) => error === undefined && endOffset > 0))
      break;
  }
  const seconds = (performance.now() - startedAt) / 1000;
  await client.close();
  return { child, seconds };
}

/** Records on the first `partitions` in turn. */
async function writeTo(partitions: number, records: number): Promise<void> {
  const client = await connect({ brokers: [address], connectTimeoutMs: 60_000 });
  const producer = client.producer({ acks: "all", lingerMs: 5, bufferBytes: 256 * 1024 * 1024 });
  await producer.prepare("many");
  const value = new Uint8Array(RECORD_BYTES).fill(7);
  for (let record = 0; record < records; record++) {
    const room = producer.enqueue("many", { value, partition: record % partitions });
    if (room !== undefined) await room;
  }
  await producer.flush();
  await client.close();
}

async function measure(directory: string): Promise<Starts> {
  const first = start(directory);
  const client = await connect({ brokers: [address], connectTimeoutMs: 60_000 });
  await client.admin().createTopic("many", { partitions: PARTITIONS, replicationFactor: 1, timeoutMs: 120_000 });
  await client.close();
  await writeTo(PARTITIONS, PARTITIONS);
  first.kill("SIGTERM");
  await once(first, "exit");
  const clean = await startSeconds(directory);
  await writeTo(HOT, HOT_BYTES / RECORD_BYTES);
  await killed(clean.child);
  const folder = join(directory, "journal");
  const journals = readdirSync(folder).filter((name) => name.endsWith(".journal"));
  const paths = journals.map((name) => join(folder, name));
  const readStartedAt = performance.now();
  plainReads(paths, READ_BYTES);
  const readSeconds = (performance.now() - readStartedAt) / 1000;
  const bareSeconds = await plainReplay(paths, BATCH_BYTES, { directory: folder, count: HOT });
  const again = await startSeconds(directory);
  await killed(again.child);
  const journalReads = (again.seconds - clean.seconds) / readSeconds;
  return { clean: clean.seconds, killed: again.seconds, journalReads, bareReads: bareSeconds / readSeconds };
}

const found = await withTemporaryDirectory((root) => measure(join(root, "data")));
process.send?.(found, () => process.exit(0));
