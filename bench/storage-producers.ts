// What the producers of many logs cost the storage, against the same batches without producers: a checkpoint, an ordered close, and the starts after
// it, after a kill, and after a kill with no image left. `npx tsx bench/storage-producers.ts [logs] [batches each] [rounds]`.
import { cpSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { LeaderEpoch, PartitionIndex } from "../src/model/ids.ts";
import { uuidFromBytes } from "../src/model/ids.ts";
import { assignOffsets, sealBatch, setProducer } from "../src/model/record-batch.ts";
import { RecordBatchBuilder } from "../src/model/records.ts";
import { openLogStore } from "../src/storage/log-store.ts";
import { LogStoreImpl } from "../src/storage/store.ts";
import type { ReplicaLog } from "../src/storage/types.ts";
import { median } from "../src/bench/median.ts";
import { interleave, withTemporaryDirectory } from "./harness.ts";
import { makeDeps, MiB, storageConfig } from "./storage-deps.ts";

const [LOGS = 1000, BATCHES = 150, ROUNDS = 3] = process.argv.slice(2).map(Number);
const BATCH_BYTES = 2048;
const PRODUCERS = 10;
/** No checkpoint but those that are asked for. */
const JOURNAL = { journalBytes: 8192 * MiB, checkpointIntervalMs: 3_600_000, journalPinnedBytes: 1024 * MiB };

const deps = await makeDeps();

async function open(directory: string): Promise<LogStoreImpl> {
  const store = await openLogStore(deps, storageConfig(directory, JOURNAL));
  if (!(store instanceof LogStoreImpl)) throw new Error("another store");
  return store;
}

function makeBatch(): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: BATCH_BYTES });
  builder.tryAppend({ key: null, value: new Uint8Array(BATCH_BYTES - 100).fill(7), headers: [], timestamp: 1000 });
  return builder.build({ compression: "none", codecs: deps.codecs, checksum: deps.checksum });
}

/** Appends to every log by turns and waits until all is durable. */
async function fill(
  store: LogStoreImpl,
  options: { logs: readonly ReplicaLog[]; rounds: number; isNumbered: boolean },
) {
  const { logs, rounds, isNumbered } = options;
  const template = makeBatch();
  const waits = new Promise<void>((resolve) => {
    let left = logs.length;
    store.listen({
      onWritten: () => undefined,
      onDurable: (log) => {
        if (log.durableEnd === rounds && --left === 0) resolve();
      },
      onRefused: () => undefined,
      onDamaged: () => undefined,
      onRoomChanged: () => undefined,
      onDiskFailed: (error) => process.stderr.write(`${error.message}\n`),
    });
  });
  for (let round = 0; round < rounds; round++) {
    for (const log of logs) append(log, { batch: template.slice(), round, isNumbered });
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await waits;
  for (const log of logs) log.noteHighWatermark(log.endOffset);
}

function append(log: ReplicaLog, options: { batch: Uint8Array; round: number; isNumbered: boolean }): void {
  const { batch, round, isNumbered } = options;
  const baseOffset = log.endOffset;
  assignOffsets(batch, baseOffset, 0);
  if (isNumbered) {
    const producer = { producerId: round % PRODUCERS, producerEpoch: 0, baseSequence: Math.floor(round / PRODUCERS) };
    setProducer(batch, producer);
    sealBatch(batch, deps.checksum);
    log.producers.observe({ ...producer, baseOffset, lastOffset: baseOffset, crc: round | 0 });
  } else log.producers.advance(baseOffset + 1);
  log.append(batch, baseOffset, 0 as LeaderEpoch);
}

const figures = new Map<string, number[]>();

async function timed<T>(name: string, work: () => Promise<T>): Promise<T> {
  const [startMs, startCpu] = [performance.now(), process.cpuUsage()];
  const result = await work();
  const { user, system } = process.cpuUsage(startCpu);
  for (const [key, value] of [
    [`${name}, ms`, performance.now() - startMs],
    [`${name}, ms of CPU`, (user + system) / 1000],
  ] as const)
    figures.set(key, [...(figures.get(key) ?? []), value]);
  return result;
}

async function startTimed(name: string, directory: string): Promise<void> {
  const store = await timed(name, () => open(directory));
  const sizes = [...store.logs].map((log) => log.producers.size);
  if (new Set(sizes).size !== 1) throw new Error(`producers: ${sizes.join(" ")}`);
  await store.close();
}

async function life(kind: string, isNumbered: boolean): Promise<number> {
  return withTemporaryDirectory(async (root) => {
    const directory = join(root, "data");
    const copy = (name: string): string => {
      cpSync(directory, join(root, name), { recursive: true, filter: (path) => !/\/\.?lock/.test(path) });
      return join(root, name);
    };
    const store = await open(directory);
    const logs: ReplicaLog[] = [];
    for (let partition = 0; partition < LOGS; partition++) {
      const topicId = uuidFromBytes(new Uint8Array(16).fill(1));
      logs.push(await store.createLog({ topicId, topic: "t", partition: partition as PartitionIndex }));
    }
    await fill(store, { logs, rounds: BATCHES, isNumbered });
    const killed = copy("killed");
    await timed(`${kind}: checkpoint`, () => store.checkpoint());
    const bare = copy("bare");
    for (const name of readdirSync(bare, { recursive: true, encoding: "utf8" }))
      if (name.endsWith(".producers")) rmSync(join(bare, name));
    await timed(`${kind}: checkpoint when nothing came since`, () => store.checkpoint());
    await timed(`${kind}: ordered close`, () => store.close());
    await startTimed(`${kind}: start after an ordered close`, directory);
    await startTimed(`${kind}: start after a kill, all in the journal`, killed);
    await startTimed(`${kind}: start without an image`, bare);
    return 0;
  });
}

await interleave(
  [
    { name: "plain", run: () => life("plain", false) },
    { name: "numbered", run: () => life("numbered", true) },
  ],
  ROUNDS,
);
console.log(
  `${LOGS} logs, ${BATCHES} batches of ${BATCH_BYTES} bytes and ${PRODUCERS} producers each, median of ${ROUNDS}`,
);
for (const [name, samples] of figures) console.log(`${name.padEnd(60)} ${median(samples).toFixed(0).padStart(8)}`);
